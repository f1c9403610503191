"""Plans of the cpu device as native kernels. In: a plan. Out: a program that runs functions in machine code over NumPy arrays, and
operations of the interpreter between them.

Arrays that no program is given lie in one stretch of memory that all programs of the process share, for one runs at a time; where
each lies is decided once, by how long it lives. Outputs are new arrays: others may hold the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from ..compile.native.program import Step, Steps
from ..compile.native.regions import Hosted
from ..compile.native.slots import ALIGNMENT, slots_of
from ..graph.primitive import Primitive
from ..primitives.dot import Dot
from . import blas, llvm, timing
from .native_operations import laid, operation_of
from .threads import pool


class Operand(NamedTuple):
    """What an operation is given of a row. as_matrices: as BLAS reads it."""

    row: int
    views: tuple[Primitive, ...]
    as_matrices: bool

    def of(self, array: np.ndarray) -> np.ndarray:
        """The operand, of the row's array."""
        for view in self.views:
            array = view.numpy(array)
        return laid(array) if self.as_matrices else array


class _Memory:
    """What programs share: as much as the largest needed so far. One that runs within another takes its own."""

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
            self.bytes = np.empty(0, np.uint8)  # the old goes first
            self.bytes = _aligned(nbytes)
        return self.bytes


def _aligned(nbytes: int) -> np.ndarray:
    whole = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -_address(whole) % ALIGNMENT
    return whole[start : start + nbytes]


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


memory = _Memory()


class Native:
    """The steps of a plan, loaded."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._code = llvm.functions(steps.texts)
        self._offsets, self._bytes = slots_of(steps, {*self._in_slots()})
        self._tables(steps)
        self._operands_of(steps)
        self.forget()

    # -- where arrays lie

    def _in_slots(self) -> list[int]:
        """Rows in shared memory: what kernels and products write, besides outputs."""
        outputs = {*self.steps.outputs}
        written = [r for s in self.steps.steps if s.hosted is None or _into(s.hosted) for r in s.writes]
        return [r for r in dict.fromkeys(written) if r not in outputs]

    def _tables(self, steps: Steps) -> None:
        """One table of addresses for all kernels, each of which is given where its own begin."""
        rows = [row for step in steps.steps for row in step.buffers]
        self._table = np.zeros(max(1, len(rows)), np.uint64)
        self._rows = np.array(rows, np.intp)
        self._addresses = np.zeros(len(steps.rows), np.uint64)
        hosted = {s.writes[0] for s in steps.steps if s.hosted is not None} - self._offsets.keys()
        self._fixed = np.array(list(self._offsets), np.intp)
        self._fixed_offsets = np.array(list(self._offsets.values()), np.uint64)
        self._late = {row: np.flatnonzero(self._rows == row) for row in hosted}
        seen = {r for s in steps.steps if s.hosted is not None for r in (*s.reads, *s.writes)}
        self._seen = [row for row in self._offsets if row in seen]  # rows that the interpreter reads or writes
        made = {r for s in steps.steps if s.hosted is None or _into(s.hosted) for r in s.writes}
        self._made = [row for row in dict.fromkeys(steps.outputs) if row in made]  # outputs that are written in place
        base = _address(self._table)
        self._run_steps: list[tuple[Step, Any, int]] = []
        at = 0
        for step in steps.steps:
            function = operation_of(step.hosted.of) if step.hosted is not None else self._code[step.kernel]
            self._run_steps.append((step, function, base + 8 * at))
            at += len(step.buffers)

    def _operands_of(self, steps: Steps) -> None:
        """Number the operands of the interpreter's operations: views of a row, as matrices where BLAS multiplies them."""
        numbers: dict[Operand, int] = {}
        self._given: list[tuple[int, ...]] = []  # of each step, its operands
        for step in steps.steps:
            hosted = step.hosted
            own: list[Operand] = []
            if hosted is not None:
                is_product = _into(hosted)
                own = [Operand(row, v, is_product) for row, v in zip(step.reads, hosted.views, strict=True)]
            self._given.append(tuple([numbers.setdefault(o, len(numbers)) for o in own]))
        self._operands = list(numbers)
        self._multiplies = False  # whether a product was large enough for threads of BLAS's own
        of_rows: dict[int, list[int]] = {}
        for operand, number in numbers.items():
            of_rows.setdefault(operand.row, []).append(number)
        self._gone = [[n for row in dead for n in of_rows.get(row, ())] for dead in steps.dies]

    # -- a run

    def forget(self) -> None:
        """The memory that was shared goes: let go of what is seen of it."""
        self._in_memory: dict[int, np.ndarray] = {}  # rows
        self._seen_there: list[np.ndarray | None] = []  # operands

    def _look(self, shared: np.ndarray) -> tuple[dict[int, np.ndarray], list[np.ndarray | None]]:
        """What the interpreter reads or writes of memory: rows, and operands, None where they lie elsewhere or are copies."""
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
        self, inputs: Sequence[np.ndarray], told: Callable[[Step, float, float], None] | None = None
    ) -> list[np.ndarray]:
        """The outputs, for inputs in row-major order. told: is called after each step, with when it began and how long it took."""
        steps = self.steps
        nested = memory.in_use
        shared = memory.take(self._bytes)
        memory.in_use = True
        try:
            arrays: list[Any] = [None] * len(steps.rows)
            arrays[: steps.inputs] = inputs
            for row in self._made:
                arrays[row] = np.empty(steps.rows[row].shape, steps.rows[row].dtype.numpy)
            base = _address(shared)
            there, operands = self._look(shared)
            for row, array in there.items():
                arrays[row] = array
            operands = [*operands]
            addresses = self._addresses
            addresses[self._fixed] = self._fixed_offsets + np.uint64(base)
            for row in (*range(steps.inputs), *self._made):
                addresses[row] = _address(arrays[row])
            np.take(addresses, self._rows, out=self._table[: self._rows.size])
            with blas.alone() if self._multiplies else nullcontext():
                for (step, function, table), given, dead, gone in zip(
                    self._run_steps, self._given, steps.dies, self._gone, strict=True
                ):
                    start = 0.0 if told is None else timing.now()
                    if step.hosted is None:
                        pool.run(function, table, step.units, step.least)
                    else:
                        for number in given:
                            if operands[number] is None:
                                operand = self._operands[number]
                                operands[number] = operand.of(arrays[operand.row])
                        self._host(step, function, [operands[number] for number in given], arrays)
                    if told is not None:
                        told(step, start, timing.now() - start)
                    for row in dead:
                        arrays[row] = None
                    for number in gone:
                        operands[number] = None
            return [arrays[row] for row in steps.outputs]
        finally:
            memory.in_use = nested

    def _view(self, shared: np.ndarray, row: int) -> np.ndarray:
        spec, begin = self.steps.rows[row], self._offsets[row]
        return shared[begin : begin + spec.nbytes].view(spec.dtype.numpy).reshape(spec.shape)

    def _host(self, step: Step, operation: Any, given: list[Any], arrays: list[Any]) -> None:
        """An operation of the interpreter."""
        hosted, (row,) = step.hosted, step.writes
        assert hosted is not None
        if _into(hosted):
            a, b = given
            self._multiplies |= blas.is_threaded(a.shape[1], b.shape[2], a.shape[2])
            blas.multiply(a, b, arrays[row])
            return
        spec = self.steps.rows[row]
        array = np.asarray(operation.numpy(*given), spec.dtype.numpy)
        places = self._late.get(row)
        if places is not None and places.size:
            array = np.ascontiguousarray(array)
            self._table[places] = _address(array)
        arrays[row] = array


def _into(hosted: Hosted) -> bool:
    """Whether the operation writes its result to memory that it is given."""
    return isinstance(hosted.of, Dot) and not hosted.of.chunk
