"""Unpacks quantised numbers on the cpu device just before each operation that reads them, and drops them after it.

In and out: operations in order, each with the rows of arrays that it reads and writes. Otherwise a training step would hold every quantised weight as
floats from its forward to its backward pass. BLAS needs floats, so those of one weight exist during its multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...graph.node import Node
from ...graph.primitive import Primitive, Shape

Operation = tuple[Any, tuple[int, ...], tuple[int, ...]]  # a primitive, the rows that it reads, the rows that it writes
Tree = int | tuple[Primitive, tuple["Tree", ...]]  # the number of an array, or an operation on other trees


@dataclass(frozen=True, eq=False)
class Unpacked(Primitive):
    """An operation that first computes some of its operands."""

    kind = "host"
    of: Primitive
    operands: tuple[Tree, ...]

    @property
    def name(self) -> str:
        return self.of.name

    def infer(self, *inputs: Node) -> tuple[Shape, Any]:
        def node(tree: Tree) -> Node:
            if isinstance(tree, int):
                return inputs[tree]
            primitive, below = tree
            given = tuple(map(node, below))
            return Node(primitive, given, *primitive.infer(*given), inputs[0].device)

        return self.of.infer(*map(node, self.operands))

    def numpy(self, *arrays: Any) -> Any:
        def value(tree: Tree) -> Any:
            return arrays[tree] if isinstance(tree, int) else tree[0].numpy(*map(value, tree[1]))

        return self.of.numpy(*map(value, self.operands))


def unpacked_late(operations: Sequence[Operation], needed: set[int]) -> list[Operation]:
    """The operations without those that unpack. Operations that read their results, also through views and casts, unpack first. Rows in `needed` stay."""
    if not any(p.unpacks for p, _, _ in operations):
        return list(operations)
    late: dict[int, tuple[Primitive, tuple[int, ...]]] = {}
    made: list[Operation] = []
    for primitive, operands, results in operations:
        follows = primitive.kind == "view" or primitive.name == "cast"
        if results[0] not in needed and (primitive.unpacks or (follows and operands[0] in late)):
            late[results[0]] = primitive, operands
        elif late.keys().isdisjoint(operands):
            made.append((primitive, operands, results))
        else:
            rows: list[int] = []
            trees = tuple(_tree(row, late, rows) for row in operands)
            made.append((Unpacked(primitive, trees), tuple(rows), results))
    return made


def _tree(row: int, late: dict[int, tuple[Primitive, tuple[int, ...]]], rows: list[int]) -> Tree:
    """The tree that computes a row from arrays; adds the rows of these to `rows`."""
    if row in late:
        primitive, below = late[row]
        return primitive, tuple(_tree(r, late, rows) for r in below)
    if row not in rows:
        rows.append(row)
    return rows.index(row)
