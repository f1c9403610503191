"""Fewer gates for the same function.

Repeats these rules until nothing changes: propagate constants; absorb wires and inverters into the gates that read them;
simplify gates with equal or opposite inputs; merge equal gates in either order of inputs; rebuild functions that lose a
variable over two levels; merge gates with the same function (see `merge_equivalent`); replace gates by a wire or by one gate of others if
no output can tell (see `resubstitute`: circuits of few inputs); remove dead gates. (And-inverter graphs with structural
hashing, as in logic synthesis: Kuehlmann et al., "Robust Boolean reasoning for equivalence checking and functional property
verification", 2002; here with XOR as a gate of its own.)
"""

from __future__ import annotations

from .circuit import Circuit
from .errors import check_kind
from .gate_kinds import FALSE, NOT_A, TRUE, flip_a, flip_b
from .merge_equivalent import merged
from .resubstitute import resubstituted
from .structural_hashing import LogicGraph, graph_of


def minimize(circuit: Circuit) -> Circuit:
    """A circuit with the same inputs, outputs and names, the same function, and never more gates.

    An output that is constant costs one gate FALSE or TRUE, an output that is an inverted input one gate NOT A; outputs
    that are inputs cost nothing. Minimizing the result again changes nothing.

    >>> circuit = sg.logic.circuit.Circuit(2, [(1, 0, 1), (12, 2, 2)], [3])  # NOT (a AND b)
    >>> list(sg.logic.circuit.minimize(circuit).gates())  # NAND
    [(14, 0, 1)]
    """
    check_kind(circuit, Circuit, "minimize")
    while True:
        smaller = _once(circuit)
        if len(smaller) >= len(circuit):
            return smaller if len(smaller) == len(circuit) else circuit
        circuit = smaller


def _once(circuit: Circuit) -> Circuit:
    return _Emitter(*resubstituted(*merged(*graph_of(circuit)))).circuit(circuit)


class _Emitter:
    """Writes the live part of a graph as a circuit; every node once, inverted where only its inverse comes out."""

    def __init__(self, graph: LogicGraph, outputs: list[int]) -> None:
        self._graph = graph
        self._outputs = outputs
        self._gates: list[tuple[int, int, int]] = []
        self._wires: dict[int, int] = {}  # by literal
        needed = set(outputs)
        self._inverted = {x >> 1 for x in needed if x & 1 and x ^ 1 not in needed and graph.is_gate(x >> 1)}

    def circuit(self, original: Circuit) -> Circuit:
        graph = self._graph
        self._wires = {2 * (i + 1): i for i in range(graph.inputs)}
        for node in graph.live(self._outputs):
            if graph.is_gate(node):
                self._emit(node)
        outputs = [self._output(literal) for literal in self._outputs]
        return Circuit(graph.inputs, self._gates, outputs, original.input_names, original.output_names)

    def _emit(self, node: int) -> None:
        graph = self._graph
        kind, a, b = graph.kinds[node], graph.a[node], graph.b[node]
        if a in self._inverted:
            kind = flip_a(kind)
        if b in self._inverted:
            kind = flip_b(kind)
        if node in self._inverted:
            kind = 15 - kind
        self._wires[self._literal(node)] = self._add(kind, self._wires[self._literal(a)], self._wires[self._literal(b)])

    def _literal(self, node: int) -> int:
        """The literal that the wire of a node carries."""
        return 2 * node + (node in self._inverted)

    def _add(self, kind: int, a: int, b: int) -> int:
        self._gates.append((kind, a, b))
        return self._graph.inputs + len(self._gates) - 1

    def _output(self, literal: int) -> int:
        if literal not in self._wires:
            if literal >> 1 == 0:
                wire = self._add(TRUE if literal & 1 else FALSE, 0, 0)
            else:
                source = self._wires[literal ^ 1]
                wire = self._add(NOT_A, source, source)
            self._wires[literal] = wire
        return self._wires[literal]
