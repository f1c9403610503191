"""The cpu device: NumPy, one graph node after another, or the chains of `chains.py`. It is the reference for every other
device. If llvmlite is installed, programs that run repeatedly become native kernels (native_cpu.py), with the same bits.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import plan as plans
from ..compile.native import steps_cache
from ..compile.native.program import Row, Steps, explained_steps, steps_of
from ..compile.native.program import Step as NativeStep
from ..compile.native.regions import Hosted
from ..compile.native.unpacking import unpacked_late
from ..config import config
from ..dtypes import DType
from ..errors import OutOfMemoryError
from ..explanation import Separation, merged
from ..graph.capture import Capture
from ..graph.primitive import REGISTRY, WITHOUT_TENSORS, Primitive, from_data
from ..plan import Kernel, Plan, count
from ..system import interrupts
from ..system.optional_packages import require
from ..target import NUMPY
from . import llvm, timing
from .chains import Chain, Operation, Rows, broadcasting, chained, fold
from .device import Device, Program, Storage, register_device
from .native_cpu import Native, is_product
from .native_operations import operation_of
from .threads import pool

COMES_AGAIN = 2  # the run in which a program is compiled
LITTLE_COMES_AGAIN = 32  # the same for a program that NumPy runs in less time than machine code takes to load
MANY, LARGE = 48, 1 << 14  # operations, or elements of an array, from which a program is not small
LONG_COMES_AGAIN = (
    16  # the same for a long program of small arrays: the runs before take NumPy as long as compilation takes
)
OPERATION, KERNEL = 1 << 15, 20 << 15  # elements that NumPy computes while an operation, and a kernel, is compiled
LONG = 2000  # operations on small arrays from which a program is long, such as a sampler's unrolled loop, which often runs once

Step = tuple[Any, Rows, Rows, list[int]]  # an operation, and the rows that nothing reads afterwards


def _steps(operations: Sequence[Operation], needed: set[int]) -> list[Step]:
    """Operations in order, each with the arrays that can be freed after it; `needed` are kept."""
    last: dict[int, int] = {}
    for k, (_, operands, results) in enumerate(operations):
        for place in (*operands, *results):
            last[place] = k
    dead: list[list[int]] = [[] for _ in operations]
    for place, k in last.items():
        if place not in needed:
            dead[k].append(place)
    return [(*operation, gone) for operation, gone in zip(operations, dead, strict=True)]


def _own(array: Any, dtype: DType, views: bool = False) -> np.ndarray:
    """An array for a storage: row-major, not owned by the program, and no view, which would keep its base alive. It may be a view of the whole
    base if `views` is true: then only library code made the base.
    """
    array = np.asarray(array, dtype.numpy)
    if array.size > 1 and not any(array.strides) and not array[(0,) * array.ndim].tobytes().strip(b"\0"):
        return np.zeros(
            array.shape, dtype.numpy
        )  # no pages until they are written: the system clears pages at the first write, as of an optimizer's state
    if not array.flags.c_contiguous or not array.flags.writeable:
        return array.copy(order="C")
    base = array.base
    whole = views and isinstance(base, np.ndarray) and base.base is None and base.nbytes == array.nbytes
    return array if base is None or whole else array.copy(order="C")


def _no_memory(what: Primitive | Chain, shape: tuple[int, ...], error: MemoryError) -> OutOfMemoryError:
    return OutOfMemoryError(f"the host has no memory for {what.name} of {shape}: {error}.")


class CpuProgram(Program):
    """A plan whose kernels are primitives."""

    def __init__(self, device: CpuDevice, plan: Plan) -> None:
        self.plan = plan
        self.device = device
        primitives = [from_data({"primitive": k.primitive, **json.loads(k.parameters)}) for k in plan.kernels]
        operations = [self._operation(p) for p in primitives]
        self._operations: list[Operation] = [
            (operations[d.kernel], d.buffers[:-1], d.buffers[-1:]) for d in plan.dispatches
        ]
        self._views = all(type(p).__module__.startswith(WITHOUT_TENSORS) for p in primitives)
        self._needed = {*plan.outputs, *plan.inputs}
        run = self._operations
        if any(p.unpacks for p in primitives):
            plain = [(primitives[d.kernel], d.buffers[:-1], d.buffers[-1:]) for d in plan.dispatches]
            run = [(self._operation(p), read, given) for p, read, given in unpacked_late(plain, self._needed)]
        self._known, left = fold(broadcasting(run, plan.buffers, self._needed))
        self._steps = _steps(chained(left, plan.buffers, self._needed), {*self._needed, *self._known})

    def _operation(self, primitive: Primitive) -> Any:
        """The callable that computes a primitive."""
        return primitive

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        plan = self.plan
        arrays: list[Any] = [None] * len(plan.buffers)
        for row, storage in zip(plan.inputs, inputs, strict=True):
            arrays[row] = storage.handle.reshape(plan.buffers[row].shape)
        with np.errstate(all="ignore"):
            if timing.listeners:
                self._run_timed(arrays)
            else:
                for row, array in self._known.items():
                    arrays[row] = array
                for what, operands, results, gone in self._steps:
                    self._run_step(what, operands, results, arrays)
                    for row in gone:
                        arrays[row] = None
        return self._give_all(arrays, dict(zip(plan.inputs, inputs, strict=True)), into)

    @interrupts.interruptible
    def _run_step(self, what: Primitive | Chain, operands: Rows, results: Rows, arrays: list[Any]) -> None:
        try:
            if isinstance(what, Chain):
                what.run(arrays)
            else:
                arrays[results[0]] = what.numpy(*[arrays[i] for i in operands])
        except MemoryError as error:
            raise _no_memory(what, self.plan.buffers[results[0]].shape, error) from error

    def _run_timed(self, arrays: list[Any]) -> None:
        """Run each operation of the plan by itself, and report its time to listeners."""
        run, origins = timing.next_run(), timing.origins(len(self._operations))
        for k, (primitive, operands, results, gone) in enumerate(_steps(self._operations, self._needed)):
            start = timing.now()
            self._run_step(primitive, operands, results, arrays)
            seconds = timing.now() - start
            kernel = self._profiled_kernel(k, results)
            timing.report(timing.Timed(self.device.name, "host", kernel, 1, start, seconds, run, origins[k]))
            for row in gone:
                arrays[row] = None

    def _profiled_kernel(self, k: int, results: Rows) -> Kernel:
        """The kernel of a dispatch for a profile: with the shape of its result."""
        shape = self.plan.buffers[results[0]].shape
        return replace(self.plan.kernels[self.plan.dispatches[k].kernel], shape=" x ".join(map(str, shape)) or "1")

    @interrupts.whole
    def _give_all(
        self, arrays: Any, by_row: dict[int, Storage], into: Sequence[Storage | None] | None
    ) -> list[Storage]:
        targets = into or [None] * len(self.plan.outputs)
        return [self._give(row, arrays, by_row, target) for row, target in zip(self.plan.outputs, targets, strict=True)]

    def _give(self, row: int, arrays: Any, by_row: dict[int, Storage], target: Storage | None) -> Storage:
        """An output's storage. It may share an array with others: a program writes to one only if nobody else refers to it."""
        spec = self.plan.buffers[row]
        array = _own(arrays[row], spec.dtype, self._views)
        storage = target if spec.aliases is None else by_row[spec.aliases]
        if storage is None:
            return Storage(self.device, array.nbytes, array)
        storage.handle = array
        return storage


class NativeProgram(CpuProgram):
    """A plan that is interpreted at first, and compiled at its second run (a small one at its 32nd, a long one of small arrays at its 16th),
    because most graphs of a script's first seconds do not recur. A plan whose run in NumPy takes longer than its compilation is compiled at once.
    Operations without a native kernel are interpreted.
    """

    def __init__(self, device: CpuDevice, plan: Plan) -> None:
        super().__init__(device, plan)
        self._runs = 0
        self._compiled_in = _compiled_in(plan)
        self._native: Native | None = None

    def _operation(self, primitive: Primitive) -> Any:
        return operation_of(primitive)

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        self._runs += 1
        is_cached = self._runs == 1 and self._compiled_in and steps_cache.serves(self.plan)
        if self._native is None and (is_cached or self._runs == self._compiled_in):
            self._load()
        if self._native is None:
            return super().run(inputs, into)
        plan, by_row = self.plan, dict(zip(self.plan.inputs, inputs, strict=True))
        targets = self._targets(self._native.steps.outputs, by_row, into)
        given = [s.handle.reshape(plan.buffers[row].shape) for row, s in zip(plan.inputs, inputs, strict=True)]
        sources = self._sources(inputs, targets)
        teller = self._teller(self._native.steps.rows) if timing.listeners else None
        with np.errstate(all="ignore"):
            try:
                found = self._native.run(given, targets, teller, sources)
            except MemoryError as error:
                raise OutOfMemoryError(f"the host has no memory for {plan!r}: {error}.") from error
        arrays = dict(zip(plan.outputs, found, strict=True))
        replaced = {row: (storage, storage.handle) for row, storage in targets.items()}
        given_back = self._give_all(arrays, by_row, into)
        self._native.keep(replaced)
        return given_back

    def _load(self) -> None:
        """Load the native program: at the first run if its steps are cached, else at the run in which it is compiled."""
        tile = llvm.code().tile
        path = steps_cache.path_of(self.plan, tile)
        steps = None if path is None else steps_cache.read(path)
        if steps is None and self._runs == self._compiled_in:
            steps = steps_of(self.plan, tile)
            if steps is not None and path is not None:
                steps_cache.write(path, steps)
        self._native = None if steps is None else Native(steps)

    def _targets(
        self, rows: Sequence[int], by_row: dict[int, Storage], into: Sequence[Storage | None] | None
    ) -> dict[int, Storage]:
        """The storages that outputs are for, by the output's row in the native program."""
        found = {}
        for k, (row, output) in enumerate(zip(rows, self.plan.outputs, strict=True)):
            aliased = self.plan.buffers[output].aliases
            storage = by_row[aliased] if aliased is not None else into[k] if into else None
            if storage is not None:
                found[row] = storage
        return found

    @staticmethod
    def _sources(inputs: Sequence[Storage], targets: dict[int, Storage]) -> dict[int, int]:
        """The numbers of inputs whose storages outputs are for, by the output's row."""
        numbers = {id(storage): k for k, storage in enumerate(inputs)}
        return {row: numbers[id(storage)] for row, storage in targets.items() if id(storage) in numbers}

    def _teller(self, rows: Sequence[Row]) -> Callable[[NativeStep, float, float], None]:
        """A callback that reports the time of each step of a run to listeners."""
        run, origins = timing.next_run(), timing.origins(len(self.plan.dispatches))

        def told(step: NativeStep, start: float, seconds: float) -> None:
            archetype, _, shape = step.shape.partition(" ")
            kernel = Kernel(step.name, f"native {archetype}", (), shape=shape)
            if step.hosted is not None:
                shape = " x ".join(map(str, rows[step.writes[0]].shape)) or "1"
                kernel = Kernel(step.name, "native dot" if is_product(step.hosted) else "numpy", (), shape=shape)
            origin = merged(origins[k] for k in step.places)
            timing.report(timing.Timed(self.device.name, "host", kernel, 1, start, seconds, run, origin))

        return told


def _compiled_in(plan: Plan) -> int:
    """The run in which a program is compiled."""
    if _is_large(plan):
        return 1
    if _is_long(plan):
        return LONG_COMES_AGAIN
    little = len(plan.dispatches) < MANY and all(spec.size < LARGE for spec in plan.buffers)
    return LITTLE_COMES_AGAIN if little else COMES_AGAIN


def _is_large(plan: Plan) -> bool:
    """Whether a run in NumPy takes longer than compilation, which emits kernels of one kind and size once."""
    computes = [REGISTRY[k.primitive].kind not in ("view", "source") for k in plan.kernels]
    results = [(d.kernel, plan.buffers[d.buffers[-1]]) for d in plan.dispatches if computes[d.kernel]]
    kinds = {(kernel, spec.shape) for kernel, spec in results}
    compiled = OPERATION * len(plan.dispatches) + KERNEL * len(kinds)
    return sum(spec.size for _, spec in results) > compiled


def _is_long(plan: Plan) -> bool:
    """Whether compilation takes as long as many runs in NumPy."""
    return len(plan.dispatches) > LONG and all(spec.size < LARGE for spec in plan.buffers)


def native_kernels(plan: Plan) -> str:
    """A line of text: the native kernels into which a program of the cpu device is compiled when it recurs."""
    if _is_long(plan):
        return f"none fused before run {LONG_COMES_AGAIN}: so many operations on fewer than {LARGE:,} elements each take long to compile"
    steps = steps_of(plan, llvm.code().tile)
    if steps is None:
        return "none fused: an array has no elements, nothing is computed, or other processes are waited for in between"
    return f"fused to {told_of(steps)}{'' if _is_large(plan) else ' where they come again'}"


def told_of(steps: Steps) -> str:
    """The number of steps of each kind, as text."""
    hosted = [step.hosted for step in steps.steps if step.hosted is not None]
    numpy = Counter(h.of.name for h in hosted if not is_product(h))
    products = len(hosted) - numpy.total()
    parts = [count(len(steps.steps) - len(hosted), "native kernel")]
    if products:
        parts.append(count(products, "matrix multiplication"))
    if numpy:
        names = ", ".join(f"{name} {n}" for name, n in numpy.most_common())
        parts.append(f"{count(numpy.total(), 'operation')} of NumPy ({names})")
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def native_steps(plan: Plan) -> list[plans.NativeStep]:
    """The steps of the native program of a plan; none if the interpreter runs it."""
    found = explained_steps(plan, llvm.code().tile)
    if found is None:
        return []
    steps, notes = found
    return [_explained(steps, k, note.separations) for k, note in enumerate(notes)]


def _explained(steps: Steps, k: int, separations: Sequence[Separation]) -> plans.NativeStep:
    step, how = steps.steps[k], f"native {steps.steps[k].shape}"
    if step.hosted is not None:
        kind = "matrix multiplication" if is_product(step.hosted) else "NumPy"
        how = f"{kind} {' x '.join(map(str, steps.rows[step.writes[0]].shape)) or 1}"
    reasons = {a.before: _reason(steps.steps[a.before].hosted, step.hosted, a) for a in separations}
    return plans.NativeStep(step.name, how, step.places, step.reads, step.writes, reasons)


def _reason(before: Hosted | None, after: Hosted | None, separation: Separation) -> str:
    """Why two steps are two."""
    hosted = [h for h in (before, after) if h is not None]
    if not hosted:
        return str(separation)
    return (
        "NumPy computes one of them"
        if not all(map(is_product, hosted))
        else "a matrix multiplication is a step of its own"
    )


plans.native_kernels.append(native_kernels)
plans.native_steps.append(native_steps)


class CpuDevice(Device):
    """Holds values as NumPy arrays of their own dtype, including float64 and int64."""

    def __init__(self, index: int = 0) -> None:
        self.name = "cpu"
        self.target = NUMPY
        if config.cpu == "native":
            require("llvmlite", "cpu", "SHADERGRAD_CPU=native")
            llvm.check_version()

    def upload(self, array: np.ndarray, dtype: DType) -> Storage:
        copy = np.array(dtype.holding(array), dtype.numpy, order="C")
        return Storage(self, copy.nbytes, copy)

    def write(self, storage: Storage, array: np.ndarray, dtype: DType) -> None:
        storage.handle = np.array(dtype.holding(array), dtype.numpy, order="C")

    def download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        return storage.handle.reshape(shape).copy()

    shares_memory = True

    def adopt(self, memory: np.ndarray, shape: tuple[int, ...], dtype: DType) -> Storage:
        return Storage(self, memory.nbytes, memory.view(dtype.numpy)[: math.prod(shape)].reshape(shape))

    def begin_copy(self, source: Storage, adopted: Storage) -> Callable[[], bool]:
        np.copyto(adopted.handle, source.handle.reshape(adopted.handle.shape))
        return lambda: True

    def load(self, plan: Plan) -> Program:
        if config.native_cpu:
            return NativeProgram(self, plan)
        return CpuProgram(self, plan)

    def evaluate(self, capture: Capture) -> list[Storage]:
        wanted = [*capture.outputs, *capture.keep]
        arrays: list[Any] = [None if n.storage is None else n.storage.handle.reshape(n.shape) for n in capture.order]
        with np.errstate(all="ignore"):
            form = operation_of if config.native_cpu else lambda primitive: primitive
            recorded = [(primitive, operands, (result,)) for primitive, operands, result in capture.operations()]
            operations = [(form(p), operands, results) for p, operands, results in unpacked_late(recorded, set(wanted))]
            for primitive, operands, (result,), gone in _steps(operations, set(wanted)):
                try:
                    arrays[result] = primitive.numpy(*[arrays[i] for i in operands])
                except MemoryError as error:
                    raise _no_memory(primitive, capture.order[result].shape, error) from error
                for place in gone:
                    arrays[place] = None
        given = [_own(arrays[place], capture.order[place].dtype) for place in wanted]
        return [Storage(self, array.nbytes, array) for array in given]

    def synchronize(self) -> None:
        return

    def release(self, handle: Any) -> None:
        return

    def describe(self) -> str:
        if config.native_cpu:
            return f"cpu (native kernels by llvmlite {llvm.installed()}, {pool.count} threads; NumPy {np.__version__})"
        return f"cpu (NumPy {np.__version__})"


register_device("cpu", CpuDevice)
