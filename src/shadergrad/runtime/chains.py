"""Optimizes a plan's operations for NumPy, once, when the cpu device loads the plan.

In and out: operations in order, each with the rows of the buffer table that it reads and writes. Values stay the same; three things
change:

- constants and their views are computed at load (`fold`);
- elementwise operations broadcast their operands themselves, so expansions are not computed (`broadcasting`);
- elementwise operations of one large shape become a `Chain`, which runs block by block, a few rows at a time, so that intermediate
  values stay in the processor's cache and never become arrays (`chained`).

An array that was computed at load lives as long as the program, and each run may return it. So it is read-only, and copied when it
becomes a storage's (`own` in cpu.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..graph.primitive import Primitive
from ..plan import BufferSpec

Rows = tuple[int, ...]
Operation = tuple[Any, Rows, Rows]  # a primitive or a Chain, the rows that it reads, the rows that it returns

# Elements of one operand in a block, at most: larger blocks do not fit the caches
BLOCK = 1 << 17
FEWEST = 1 << 16  # elements of a shape for which a chain pays
LONGEST_ROW = 1 << 16  # elements, because a block is whole rows
FREE = ("Reshape", "Permute", "Expand")  # views that cost neither time nor memory


def fold(operations: Iterable[Operation]) -> tuple[dict[int, np.ndarray], list[Operation]]:
    """The values of constants and of views of them, by row, and the remaining operations."""
    known: dict[int, np.ndarray] = {}
    left: list[Operation] = []
    for operation in operations:
        primitive, operands, (result,) = operation
        kind = type(primitive).__name__
        if kind != "Constant" and not (kind in FREE and all(row in known for row in operands)):
            left.append(operation)
            continue
        known[result] = np.asarray(primitive.numpy(*[known[row] for row in operands]))
        known[result].flags.writeable = False
    return known, left


def broadcasting(operations: Sequence[Operation], table: Sequence[BufferSpec], needed: set[int]) -> list[Operation]:
    """The operations; elementwise ones get operands before their expansion if another operand has the full shape.
    Expansions without readers are removed.
    """
    expanded = {results[0]: operands[0] for p, operands, results in operations if type(p).__name__ == "Expand"}
    made: list[Operation] = []
    for primitive, operands, results in operations:
        whole = table[results[0]].shape
        if is_elementwise(primitive) and len(operands) > 1:
            small = tuple(expanded.get(row, row) for row in operands)
            if any(table[row].shape == whole for row in small):
                operands = small
        made.append((primitive, operands, results))
    read = {row for _, operands, _ in made for row in operands} | needed
    return [o for o in made if type(o[0]).__name__ != "Expand" or o[2][0] in read]


def is_elementwise(primitive: Primitive) -> bool:
    """Whether a primitive is one of the library's elementwise operations. Primitives defined elsewhere may do anything."""
    return primitive.kind == "elementwise" and primitive.structural


Member = tuple[Callable[..., Any], Rows, int]  # a function, the blocks that it reads, and the block that it writes


class Chain:
    """Elementwise operations of one shape, all applied to one block of rows, then to the next.

    `given`: rows it reads, `kept`: rows it returns. Blocks are numbered: those of `given`, of `kept`, then buffers for
    intermediate values, each reused by the operation that reads its value for the last time.
    """

    def __init__(self, operations: Sequence[Operation], table: Sequence[BufferSpec], kept: Sequence[int]) -> None:
        made = {results[0] for _, _, results in operations}
        self.given = tuple(dict.fromkeys(row for _, operands, _ in operations for row in operands if row not in made))
        self.kept = tuple(kept)
        self.name = ", ".join(p.name for p, _, results in operations if results[0] in self.kept)
        self.shape = table[operations[0][2][0]].shape
        self._dtypes = [table[row].dtype.numpy for row in self.kept]
        self._scratch: list[Any] = []
        self._members = self._plan(operations, table)

    def _plan(self, operations: Sequence[Operation], table: Sequence[BufferSpec]) -> list[Member]:
        position = {row: k for k, row in enumerate((*self.given, *self.kept))}
        first = len(position)
        last = {row: k for k, (_, operands, _) in enumerate(operations) for row in operands}
        free: dict[Any, list[int]] = {}
        members: list[Member] = []
        for k, (primitive, operands, (result,)) in enumerate(operations):
            places = tuple(position[row] for row in operands)
            for row in set(operands):  # the result may use its buffer: elements are written after they were read
                if last[row] == k and position[row] >= first:
                    free[table[row].dtype.numpy].append(position[row])
            if result not in position:
                dtype = table[result].dtype.numpy
                if not free.get(dtype):
                    free.setdefault(dtype, []).append(first + len(self._scratch))
                    self._scratch.append(dtype)
                position[result] = free[dtype].pop()
            members.append((primitive.writer(), places, position[result]))
        return members

    def run(self, arrays: list[Any]) -> None:
        """Read and write rows of `arrays`."""
        results = [np.empty(self.shape, dtype) for dtype in self._dtypes]
        large = [arrays[row] for row in self.given] + results
        size = results[0].size
        if all(x.size == 1 or (x.size == size and x.flags.c_contiguous) for x in large):
            self._run((size,), [x.reshape(() if x.size == 1 else -1) for x in large])
        else:
            self._run(self.shape, large)
        for row, result in zip(self.kept, results, strict=True):
            arrays[row] = result

    def _run(self, shape: tuple[int, ...], large: list[np.ndarray]) -> None:
        """Block by block along the first axis that can be split. For a single axis NumPy has the least overhead."""
        axis, size = split_axis(shape), math.prod(shape)
        n, before = shape[axis], shape[:axis]
        rows = -(-n // -(-size // BLOCK))  # blocks of one size
        block = (*before, rows, *shape[axis + 1 :])
        scratch = [np.empty(block, dtype) for dtype in self._scratch]
        moves = [x.ndim > axis and x.shape[axis] == n for x in large]
        for start in range(0, n, rows):
            part = (*map(slice, before), slice(start, start + rows))
            blocks = [x[part] if moving else x for x, moving in zip(large, moves, strict=True)]
            blocks += scratch if start + rows <= n else [x[(*map(slice, before), slice(n - start))] for x in scratch]
            for write, places, result in self._members:
                write(*[blocks[k] for k in places], out=blocks[result])


def split_axis(shape: tuple[int, ...]) -> int:
    """The first axis with more than one element."""
    return next((a for a, n in enumerate(shape) if n > 1), 0)


def _fits(primitive: Any, spec: BufferSpec) -> bool:
    """Whether an operation with such a result is worth adding to a chain."""
    if not is_elementwise(primitive) or spec.size < FEWEST:
        return False
    return math.prod(spec.shape[split_axis(spec.shape) + 1 :]) <= LONGEST_ROW


def chained(operations: Sequence[Operation], table: Sequence[BufferSpec], needed: set[int]) -> list[Operation]:
    """The operations, with chains in place of runs of elementwise ones. One chain is open at a time; readers of its results come after
    it, and an operation that reads one of these starts another.
    """
    readers: dict[int, set[int]] = {}
    for k, (_, operands, _) in enumerate(operations):
        for row in operands:
            readers.setdefault(row, set()).add(k)
    done: list[Operation] = []
    members: list[int] = []
    behind: list[Operation] = []
    inside: set[int] = set()  # rows that the open chain returns
    delayed: set[int] = set()  # rows that are computed after it

    def close() -> None:
        within = set(members)
        chain = [operations[k] for k in members]
        if len(chain) > 1:
            kept = [o[2][0] for o in chain if o[2][0] in needed or readers.get(o[2][0], set()) - within]
            made = Chain(chain, table, kept)
            chain = [(made, made.given, made.kept)]
        done.extend((*chain, *behind))
        for bag in (members, behind, inside, delayed):
            bag.clear()

    for k, operation in enumerate(operations):
        primitive, operands, results = operation
        spec = table[results[0]]
        if _fits(primitive, spec):
            another = bool(members) and spec.shape != table[operations[members[0]][2][0]].shape
            if another or not delayed.isdisjoint(operands):
                close()
            members.append(k)
            inside.update(results)
        elif inside.isdisjoint(operands) and delayed.isdisjoint(operands):
            done.append(operation)
        else:
            behind.append(operation)
            delayed.update(results)
    close()
    return done
