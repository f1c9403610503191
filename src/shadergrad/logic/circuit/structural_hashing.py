"""Gates with shared structure, for minimization and the mapping to words.

A literal is 2 * node + inverted. Node 0 is the constant false, nodes 1 to inputs are the inputs, the rest are gates in
one of five forms (AND, A AND NOT B, NOT A AND B, XOR, OR: those that give 0 on 00) with a < b. Constants, wires and
inverters are never nodes: a constant or a wire is a literal, and an inversion moves into the gate that reads it. Equal
gates are one node.
"""

from __future__ import annotations

from collections.abc import Iterable

from .circuit import Circuit
from .gate_kinds import NOT_A, NOT_B, diagonal, flip_a, flip_b, swap, value_of, with_a_false, with_b_false


class LogicGraph:
    """Gates, each once. `kinds`, `a` and `b` are indexed by node; those of the constant and the inputs are 0."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.kinds = [0] * (inputs + 1)
        self.a = [0] * (inputs + 1)
        self.b = [0] * (inputs + 1)
        self._nodes: dict[tuple[int, int, int], int] = {}

    def is_gate(self, node: int) -> bool:
        return node > self.inputs

    def gate(self, kind: int, a: int, b: int) -> int:
        """The literal of a gate that reads literals a and b."""
        if a & 1:
            kind = flip_a(kind)
        if b & 1:
            kind = flip_b(kind)
        return self._of_nodes(kind, a >> 1, b >> 1)

    def _of_nodes(self, kind: int, a: int, b: int) -> int:
        if a == 0:
            kind = with_a_false(kind)
        if b == 0:
            kind = with_b_false(kind)
        if a == b:
            kind = diagonal(kind)
        match kind:
            case 0 | 15:
                return kind & 1
            case 3 | 12:
                return 2 * a + (kind == NOT_A)
            case 5 | 10:
                return 2 * b + (kind == NOT_B)
        if a > b:
            kind, a, b = swap(kind), b, a
        if kind >= 8:
            return self._shared(15 - kind, a, b) ^ 1
        return self._shared(kind, a, b)

    def _shared(self, kind: int, a: int, b: int) -> int:
        key = (kind, a, b)
        if key in self._nodes:
            return 2 * self._nodes[key]
        smaller = self._smaller(kind, a, b)
        if smaller is not None:
            return smaller
        node = self._nodes[key] = len(self.kinds)
        for column, value in zip((self.kinds, self.a, self.b), key, strict=True):
            column.append(value)
        return 2 * node

    def _smaller(self, kind: int, a: int, b: int) -> int | None:
        """The same function of two nodes further up, if there is one: x AND (x OR y) is x, (x XOR y) XOR y is x.

        Tried where the gates that are read share an operand with each other or with the gate itself; otherwise no
        function of a gate and its neighbours can lose a variable. Operands only get lower, so this ends.
        """
        for leaves in self._cuts(a, b):
            table = [self._value(kind, a, b, leaves, row) for row in range(1 << len(leaves))]
            support = [i for i in range(len(leaves)) if _depends(table, i)]
            if len(support) <= 2:
                return self._from_table(table, leaves, support)
        return None

    def _cuts(self, a: int, b: int) -> Iterable[list[int]]:
        """Sets of nodes that determine a gate of a and b, with a node that is read twice."""
        below_a = (self.a[a], self.b[a]) if self.is_gate(a) else (a,)
        below_b = (self.a[b], self.b[b]) if self.is_gate(b) else (b,)
        for left, right in (((a,), below_b), (below_a, (b,)), (below_a, below_b)):
            if set(left) & set(right):
                yield sorted(set(left) | set(right))

    def _value(self, kind: int, a: int, b: int, leaves: list[int], row: int) -> int:
        """The gate, where leaf i has bit i of row."""
        bits = [self._below(node, leaves, row) for node in (a, b)]
        return value_of(kind, *bits)

    def _below(self, node: int, leaves: list[int], row: int) -> int:
        if node in leaves:
            return row >> leaves.index(node) & 1
        x, y = (row >> leaves.index(n) & 1 for n in (self.a[node], self.b[node]))
        return value_of(self.kinds[node], x, y)

    def _from_table(self, table: list[int], leaves: list[int], support: list[int]) -> int:
        """The literal of a function that depends on at most two of the leaves."""
        i, j = (*support, 0, 0)[:2]
        kind = 0
        for x, y in ((0, 0), (0, 1), (1, 0), (1, 1)):
            kind = kind << 1 | table[x << i | (y << j if j != i else 0)]
        return self._of_nodes(kind, leaves[i], leaves[j])

    def readers(self, live: Iterable[int]) -> list[int]:
        """The number of live gates that read each node."""
        count = [0] * len(self.kinds)
        for node in live:
            if self.is_gate(node):
                count[self.a[node]] += 1
                count[self.b[node]] += 1
        return count

    def live(self, literals: Iterable[int]) -> list[int]:
        """The nodes that literals depend on, operands first."""
        marked = [False] * len(self.kinds)
        for literal in literals:
            marked[literal >> 1] = True
        for node in reversed(range(len(self.kinds))):
            if marked[node] and self.is_gate(node):
                marked[self.a[node]] = marked[self.b[node]] = True
        return [node for node, is_live in enumerate(marked) if is_live]


def graph_of(circuit: Circuit) -> tuple[LogicGraph, list[int]]:
    """A circuit as shared gates, and the literals of its outputs."""
    graph = LogicGraph(circuit.inputs)
    literals = [2 * (i + 1) for i in range(circuit.inputs)]
    for kind, a, b in circuit.gates():
        literals.append(graph.gate(kind, literals[a], literals[b]))
    return graph, [literals[wire] for wire in circuit.outputs.tolist()]


def _depends(table: list[int], variable: int) -> bool:
    """Whether a truth table depends on a variable."""
    return any(table[row] != table[row ^ 1 << variable] for row in range(len(table)))
