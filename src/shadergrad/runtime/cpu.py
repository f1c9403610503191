"""The cpu device: NumPy, one graph node after another. Slow and plain: the reference for every other device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import OutOfMemoryError
from ..graph.capture import Capture
from ..graph.primitive import Primitive, from_data
from ..plan import NUMPY, Plan
from . import timing
from .device import Device, Program, Storage, register_device

Operation = tuple[Primitive, tuple[int, ...], int]  # what it is, of which arrays, which one it gives
Step = tuple[Primitive, tuple[int, ...], int, list[int]]  # and those that nothing reads afterwards


def _steps(operations: Sequence[Operation], needed: set[int]) -> list[Step]:
    """Operations in order, each with the arrays that can go behind it; `needed` stay."""
    last: dict[int, int] = {}
    for k, (_, operands, result) in enumerate(operations):
        for place in operands:
            last[place] = k
        last[result] = k
    dead: list[list[int]] = [[] for _ in operations]
    for place, k in last.items():
        if place not in needed:
            dead[k].append(place)
    return [(*operation, gone) for operation, gone in zip(operations, dead, strict=True)]


def _own(array: Any, dtype: DType) -> np.ndarray:
    """An array for a storage: row by row, and no view, which would keep its base alive."""
    array = np.asarray(array, dtype.numpy)
    return array if array.flags.c_contiguous and array.base is None else array.copy(order="C")


def _no_memory(primitive: Primitive, shape: tuple[int, ...], error: MemoryError) -> OutOfMemoryError:
    return OutOfMemoryError(f"the host has no memory for {primitive.name} of {shape}: {error}.")


class CpuProgram(Program):
    """A plan whose kernels are primitives."""

    def __init__(self, device: CpuDevice, plan: Plan) -> None:
        self.plan = plan
        self.device = device
        primitives = [from_data({"primitive": k.primitive, **json.loads(k.parameters)}) for k in plan.kernels]
        operations = [(primitives[d.kernel], d.buffers[:-1], d.buffers[-1]) for d in plan.dispatches]
        self._steps = _steps(operations, {*plan.outputs, *plan.inputs})

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        plan = self.plan
        arrays: list[Any] = [None] * len(plan.buffers)
        for row, storage in zip(plan.inputs, inputs, strict=True):
            arrays[row] = storage.handle.reshape(plan.buffers[row].shape)
        run = timing.next_run() if timing.listeners else 0
        origins = timing.origins(len(self._steps)) if run else []
        with np.errstate(all="ignore"):
            for k, (primitive, operands, result, gone) in enumerate(self._steps):
                start = timing.now() if run else 0.0
                try:
                    arrays[result] = primitive.numpy(*[arrays[i] for i in operands])
                except MemoryError as error:
                    raise _no_memory(primitive, plan.buffers[result].shape, error) from error
                if run:
                    seconds = timing.now() - start
                    kernel = plan.kernels[plan.dispatches[k].kernel]
                    timing.report(timing.Timed(self.device.name, "host", kernel, 1, start, seconds, run, origins[k]))
                for row in gone:
                    arrays[row] = None
        by_row = dict(zip(plan.inputs, inputs, strict=True))
        targets = into or [None] * len(plan.outputs)
        return [self._give(row, arrays, by_row, target) for row, target in zip(plan.outputs, targets, strict=True)]

    def _give(self, row: int, arrays: list[Any], by_row: dict[int, Storage], target: Storage | None) -> Storage:
        """A storage of its own for an output; an array may be shared, for arrays are replaced, never written."""
        spec = self.plan.buffers[row]
        array = _own(arrays[row], spec.dtype)
        storage = target if spec.aliases is None else by_row[spec.aliases]
        if storage is None:
            return Storage(self.device, array.nbytes, array)
        storage.handle = array
        return storage


class CpuDevice(Device):
    """Holds values as NumPy arrays of their own dtype, float64 and int64 among them."""

    def __init__(self, index: int = 0) -> None:
        self.name = "cpu"
        self.target = NUMPY

    def upload(self, array: np.ndarray, dtype: DType) -> Storage:
        copy = np.array(array, dtype.numpy, order="C")
        return Storage(self, copy.nbytes, copy)

    def write(self, storage: Storage, array: np.ndarray, dtype: DType) -> None:
        storage.handle = np.array(array, dtype.numpy, order="C")

    def download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        return storage.handle.reshape(shape).copy()

    def load(self, plan: Plan) -> Program:
        return CpuProgram(self, plan)

    def evaluate(self, capture: Capture) -> list[Storage]:
        wanted = [*capture.outputs, *capture.keep]
        arrays: list[Any] = [None if n.storage is None else n.storage.handle.reshape(n.shape) for n in capture.order]
        with np.errstate(all="ignore"):
            for primitive, operands, result, gone in _steps(capture.operations(), set(wanted)):
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
        return f"cpu (NumPy {np.__version__})"


register_device("cpu", CpuDevice)
