"""Plans of the cpu device as native kernels. In: a plan. Out: a program that runs functions in machine code over NumPy arrays, and
operations of the interpreter between them.

Consecutive kernels and matrix multiplications form a stretch, which one foreign call runs (threads.py). Between stretches, the interpreter runs the
operations that have no native form.

Intermediate arrays are placed in one block of memory, which all programs of the process share, because only one runs at a time. A memory planner places them
by their live ranges when the program is loaded. Outputs are written over the inputs or gradients that they replace (overwritten.py), where the old values are
needed no more; else to arrays that an earlier run has replaced, or to new ones: their memory is cleared by the system, page by page, which takes as long as a
small network's step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from .. import cpython
from ..compile.native import overwriting
from ..compile.native.program import Step, Steps
from ..compile.native.regions import Hosted
from ..compile.native.slots import ALIGNMENT
from ..cpython import address_of
from ..graph.primitive import Primitive
from ..primitives.dot import Dot
from ..primitives.indexing import ScatterAdd
from ..primitives.window import Conv
from ..system import heap
from . import blas, llvm, native_convolution, products, timing
from .concatenation import concatenated_in_place, offsets_of
from .device import Storage
from .native_operations import laid, operation_of, scatter_into
from .overwritten import is_free, overwriting_steps, written_late
from .ready_panels import Products, packed_once
from .threads import Kernels, pool

LARGE = 1 << 26  # bytes
MOST_AT_ONCE = 64  # kernels of a foreign call: Ctrl-C is delivered between calls


class Stretch(NamedTuple):
    """Steps `first` to `last` of a program, which one foreign call runs; `kernel` is the number of the first one's kernel."""

    first: int
    last: int
    kernel: int


class Operand(NamedTuple):
    """An operand of an operation: views of a row. as_matrices: with strides as BLAS reads them."""

    row: int
    views: tuple[Primitive, ...]
    as_matrices: bool

    def of(self, array: np.ndarray) -> np.ndarray:
        """The operand, of the row's array."""
        for view in self.views:
            array = view.numpy(array)
        return laid(array) if self.as_matrices else array


class _Memory:
    """The memory that programs share: as much as the largest needed so far. A program that runs within another one takes its own."""

    def __init__(self) -> None:
        self.bytes = np.empty(0, np.uint8)
        self.in_use = False
        self.seen_by: WeakSet[Native] = WeakSet()  # programs that keep views of it

    def take(self, nbytes: int) -> np.ndarray:
        if self.in_use:
            return _aligned(nbytes)
        if self.bytes.nbytes < nbytes:
            for program in self.seen_by:
                program.forget()
            self.seen_by.clear()
            self.bytes = np.empty(0, np.uint8)  # first free the old memory
            if nbytes >= LARGE:  # also that of arrays of the interpreter, which ran the program until now
                heap.return_freed_memory()
            self.bytes = _aligned(nbytes)
        return self.bytes


def _aligned(nbytes: int) -> np.ndarray:
    whole = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address_of(whole) % ALIGNMENT
    return whole[start : start + nbytes]


memory = _Memory()


class Native:
    """The steps of a plan, loaded."""

    def __init__(self, steps: Steps) -> None:
        self._code = llvm.functions(steps.texts)
        steps, self.parts = concatenated_in_place(steps, _in_slots(steps))
        self.steps, self._products = packed_once(steps, self._products_of(steps))
        steps = self.steps
        self._overwriting = overwriting_steps(steps)
        self._offsets, self._bytes = offsets_of(steps, _in_slots(steps), self.parts)
        self._tables(steps)
        self._operands_of(steps)
        self.forget()

    # -- addresses of arrays

    def _products_of(self, steps: Steps) -> Products:
        """The matrix multiplications in machine code by step, and the byte offsets of their operands in their rows."""
        found = {}
        for k, step in enumerate(steps.steps):
            if step.hosted is None or not is_product(step.hosted):
                continue
            rows = [np.empty(steps.rows[row].shape, steps.rows[row].dtype.numpy) for row in step.reads]
            seen = [Operand(0, v, True).of(row) for row, v in zip(rows, step.hosted.views, strict=True)]
            if not all(np.may_share_memory(a, row) for a, row in zip(seen, rows, strict=True)):
                continue  # a copy
            out = np.empty(steps.rows[step.writes[0]].shape, seen[0].dtype)
            product = products.product_of(seen[0], seen[1], out)
            if product is not None:
                left, right = (address_of(a) - address_of(row) for a, row in zip(seen, rows, strict=True))
                found[k] = (product, (left, right))
        return found

    def _is_hosted(self, k: int) -> bool:
        """Whether the interpreter runs a step."""
        return self.steps.steps[k].hosted is not None and k not in self._products

    def _tables(self, steps: Steps) -> None:
        """Build the table of buffer addresses, of which each kernel gets its own part, and the list of kernels."""
        places: list[tuple[int, int]] = []  # entries of the table: a row and an offset in bytes, or -1 and an address
        starts: list[int] = []  # the first entry of each step
        for k, step in enumerate(steps.steps):
            starts.append(len(places))
            if k in self._products:
                product, begins = self._products[k]
                rows = [*zip(step.reads, begins, strict=True), (step.writes[0], 0)]
                left, right, out, words = product.table(0, 1, 2)
                places += [rows[left], rows[right], rows[out], (-1, words)]
            else:
                if k in self._overwriting:
                    words = self._overwriting[k].words
                    places += [(-1, self._code[step.kernel].address), (-1, address_of(words))]
                places += [(row, 0) for row in step.buffers]
        self._table = np.zeros(max(1, len(places)), np.uint64)
        self._rows = np.array([row for row, _ in places], np.intp)
        self._begins = np.array([begin for _, begin in places], np.uint64)
        self._addresses = np.zeros(len(steps.rows) + 1, np.uint64)  # the last is 0: row -1, for absolute addresses
        hosted = {s.writes[0] for k, s in enumerate(steps.steps) if self._is_hosted(k)} - self._offsets.keys()
        self._fixed = np.array(list(self._offsets), np.intp)
        self._fixed_offsets = np.array(list(self._offsets.values()), np.uint64)
        self._late = {row: np.flatnonzero(self._rows == row) for row in hosted}
        seen = {r for k, s in enumerate(steps.steps) if self._is_hosted(k) for r in (*s.reads, *s.writes)}
        self._seen = [row for row in self._offsets if row in seen]  # rows that the interpreter reads or writes
        made = {r for s in steps.steps if s.hosted is None or is_written_in_place(s.hosted) for r in s.writes}
        self._made = {row: None for row in steps.outputs if row in made}  # outputs that are written in place
        self._late_outputs = written_late(steps) & self._made.keys()
        self._list_kernels(steps, starts)

    def _list_kernels(self, steps: Steps, starts: list[int]) -> None:
        """Build the list of kernels for the thread pool, and the program: stretches of kernels, and steps of the interpreter."""
        base = address_of(self._table)
        kernels: list[tuple[llvm.Function, int, int, int]] = []
        self._program: list[Stretch | int] = []
        self._hosts: dict[int, Any] = {}
        for k, step in enumerate(steps.steps):
            if self._is_hosted(k):
                assert step.hosted is not None
                self._hosts[k] = operation_of(step.hosted.of)
                self._program.append(k)
                continue
            number, table = len(kernels), base + 8 * starts[k]
            if k in self._products:
                product, _ = self._products[k]
                kernels.append((product.function, table, product.units, product.least))
            else:
                function = llvm.function(overwriting.TEXT) if k in self._overwriting else self._code[step.kernel]
                kernels.append((function, table, step.units, step.least))
            last = self._program[-1] if self._program else None
            if isinstance(last, Stretch) and number - last.kernel < MOST_AT_ONCE:
                self._program[-1] = last._replace(last=k)
            else:
                self._program.append(Stretch(k, k, number))
        self._kernels = Kernels.of(kernels)
        # Operations of the interpreter call BLAS and LAPACK, whose own threads would compete with workers.
        self._limits_blas = bool(self._hosts) or any(product.needs_library for product, _ in self._products.values())

    def _operands_of(self, steps: Steps) -> None:
        """Number the operands of the interpreter's operations: views of a row, as matrices where BLAS multiplies them."""
        numbers: dict[Operand, int] = {}
        self._given: dict[int, tuple[int, ...]] = {}  # of each step of the interpreter, its operands
        for k in self._hosts:
            step = steps.steps[k]
            assert step.hosted is not None
            multiplies = is_product(step.hosted)
            own = [Operand(row, v, multiplies) for row, v in zip(step.reads, step.hosted.views, strict=True)]
            self._given[k] = tuple([numbers.setdefault(o, len(numbers)) for o in own])
        self._operands = list(numbers)
        of_rows: dict[int, list[int]] = {}
        for operand, number in numbers.items():
            of_rows.setdefault(operand.row, []).append(number)
        self._gone = [[n for row in dead for n in of_rows.get(row, ())] for dead in steps.dies]

    # -- a run

    def keep(self, replaced: dict[int, tuple[Storage, np.ndarray]]) -> None:
        """Keep arrays that outputs, by row, have just replaced. Each storage holds one: programs that write it share it, and it is freed with it."""
        for row, (storage, array) in replaced.items():
            if row in self._made:
                storage.spare = None if array is storage.handle else array  # None where the old value was overwritten

    def _array_for(self, row: int, storage: Storage | None) -> np.ndarray:
        """An array for an output: the spare one of the storage that it is for, if nobody else refers to it."""
        spec = self.steps.rows[row]
        if storage is not None and storage.spare is not None:
            only_here = cpython.references(storage.spare) <= 1 + cpython.ASKING
            array, storage.spare = storage.spare, None
            if only_here and array.base is None and array.shape == spec.shape and array.dtype == spec.dtype.numpy:
                return array
        return np.empty(spec.shape, spec.dtype.numpy)

    def _overwrite(
        self, inputs: Sequence[np.ndarray], targets: Mapping[int, Storage], sources: Mapping[int, int]
    ) -> dict[int, np.ndarray]:
        """The arrays of inputs that outputs overwrite in this run, by the output's row. sources: the number of the input whose storage an output
        is for."""
        found = {}
        for step in self._overwriting.values():
            for row, place in step.outputs.items():
                source, storage = sources.get(row), targets.get(row)
                spec = self.steps.rows[row]
                if storage is not None and source in step.inputs and is_free(storage, spec, inputs[source]):
                    found[row] = storage.handle
                step.words[1 + place] = spec.dtype.itemsize if row in found else 0
        for row in self._late_outputs:
            storage = targets.get(row)
            if storage is not None and row not in sources and is_free(storage, self.steps.rows[row]):
                found[row] = storage.handle
        return found

    def forget(self) -> None:
        """Drop the views of the shared memory, which is about to be freed."""
        self._in_memory: dict[int, np.ndarray] = {}  # rows
        self._seen_there: list[np.ndarray | None] = []  # operands

    def _look(self, shared: np.ndarray) -> tuple[dict[int, np.ndarray], list[np.ndarray | None]]:
        """Views of the shared memory for the interpreter: of rows, and of operands, None for operands elsewhere and for copies."""
        if self._in_memory and shared is memory.bytes:
            return self._in_memory, self._seen_there
        rows = {row: self._view(shared, row) for row in self._seen}
        operands: list[np.ndarray | None] = [None] * len(self._operands)
        for number, operand in enumerate(self._operands):
            if operand.row in rows:
                seen = operand.of(rows[operand.row])
                operands[number] = seen if np.may_share_memory(seen, shared) else None
        if shared is memory.bytes:
            self._in_memory, self._seen_there = rows, operands
            memory.seen_by.add(self)
        return rows, operands

    def run(
        self,
        inputs: Sequence[np.ndarray],
        targets: Mapping[int, Storage],
        told: Callable[[Step, float, float], None] | None = None,
        sources: Mapping[int, int] | None = None,
    ) -> list[np.ndarray]:
        """The outputs, for inputs in row-major order. targets: storages that outputs are for, by row. told: is called after each step, with its
        start and its duration. sources: for targets that are storages of inputs, the number of the input, which the output may overwrite. Then the
        caller must defer KeyboardInterrupt from here until storages have the outputs."""
        steps = self.steps
        nested = memory.in_use
        shared = memory.take(self._bytes)
        memory.in_use = True
        try:
            arrays: list[Any] = [None] * len(steps.rows)
            arrays[: steps.inputs] = inputs
            over = self._overwrite(inputs, targets, sources or {})
            for row in self._made:
                arrays[row] = over[row] if row in over else self._array_for(row, targets.get(row))
            del over
            base = address_of(shared)
            there, operands = self._look(shared)
            for row, array in there.items():
                arrays[row] = array
            operands = [*operands]
            addresses = self._addresses
            addresses[self._fixed] = self._fixed_offsets + np.uint64(base)
            for row in (*range(steps.inputs), *self._made):
                addresses[row] = address_of(arrays[row])
            np.add(addresses[self._rows], self._begins, out=self._table[: self._rows.size])
            with pool.running(), blas.alone() if self._limits_blas else nullcontext():
                for part in self._program if told is None else self._singly():
                    start = 0.0 if told is None else timing.now()
                    if isinstance(part, Stretch):
                        first, last = part.first, part.last
                        pool.run_all(self._kernels, part.kernel, last - first + 1)
                    else:
                        first = last = part
                        self._host(part, arrays, operands)
                    if told is not None:
                        told(steps.steps[first], start, timing.now() - start)
                    for k in range(first, last + 1):
                        for row in steps.dies[k]:
                            arrays[row] = None
                        for number in self._gone[k]:
                            operands[number] = None
            return [arrays[row] for row in steps.outputs]
        finally:
            memory.in_use = nested

    def _singly(self) -> Iterator[Stretch | int]:
        """The program, step by step."""
        for part in self._program:
            if isinstance(part, Stretch):
                yield from (Stretch(k, k, part.kernel + k - part.first) for k in range(part.first, part.last + 1))
            else:
                yield part

    def _view(self, shared: np.ndarray, row: int) -> np.ndarray:
        spec, begin = self.steps.rows[row], self._offsets[row]
        return shared[begin : begin + spec.nbytes].view(spec.dtype.numpy).reshape(spec.shape)

    def _host(self, k: int, arrays: list[Any], operands: list[Any]) -> None:
        """An operation of the interpreter."""
        step = self.steps.steps[k]
        (row,) = step.writes
        given = self._given[k]
        for number in given:
            if operands[number] is None:
                operand = self._operands[number]
                operands[number] = operand.of(arrays[operand.row])
        assert step.hosted is not None
        if arrays[row] is not None and is_written_in_place(step.hosted):
            a, b = (operands[number] for number in given)
            if is_product(step.hosted):
                products.multiply(a, b, arrays[row])
            elif isinstance(step.hosted.of, ScatterAdd):
                scatter_into(step.hosted.of, a, b, arrays[row])
            elif not native_convolution.convolve(step.hosted.of, a, b, arrays[row]):  # type: ignore[arg-type]
                arrays[row][...] = step.hosted.of.numpy(a, b)
            return
        spec = self.steps.rows[row]
        array = np.asarray(self._hosts[k].numpy(*(operands[number] for number in given)), spec.dtype.numpy)
        places = self._late.get(row)
        if places is not None and places.size:
            array = np.ascontiguousarray(array)
            self._table[places] = np.uint64(address_of(array)) + self._begins[places]
        arrays[row] = array


def _in_slots(steps: Steps) -> Collection[int]:
    """Rows in shared memory: those that kernels, products, convolutions and scattered sums write, except outputs."""
    outputs = {*steps.outputs}
    written = [r for s in steps.steps if s.hosted is None or is_written_in_place(s.hosted) for r in s.writes]
    return {r: None for r in written if r not in outputs}.keys()


def is_product(hosted: Hosted) -> bool:
    """Whether the operation is a matrix multiplication that writes its result to given memory."""
    return isinstance(hosted.of, Dot) and not hosted.of.chunk


def is_written_in_place(hosted: Hosted) -> bool:
    """Whether the operation writes its result to given memory."""
    return is_product(hosted) or isinstance(hosted.of, Conv | ScatterAdd)
