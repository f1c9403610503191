"""Replaces a gate by a wire, or by one gate of two others, if no output can tell the difference.

In: a graph of gates with few inputs. Out: another with the same outputs on all assignments, and fewer gates. For each gate,
simulation gives the assignments on which an output depends on its value; on the others its value is free. Source: Mishchenko,
Brayton, Jiang and Jang, "Scalable don't-care-based logic optimization and resubstitution", 2011, here with whole truth tables,
as the inputs are few.
"""

from __future__ import annotations

import numpy as np

from .bit_packing import words_for
from .equivalence import all_words
from .gate_kinds import AND, NOT_A, XOR, A, apply, flip_a, flip_b
from .structural_hashing import LogicGraph

FEW = 10  # inputs of which all assignments are simulated
MOST_GATES = 1000

Literal = int  # 2 * node + inverted


def resubstituted(graph: LogicGraph, outputs: list[Literal]) -> tuple[LogicGraph, list[Literal]]:
    """The same output functions, with as few gates as single replacements reach."""
    gates = sum(map(graph.is_gate, graph.live(outputs)))
    if graph.inputs > FEW or gates > MOST_GATES:
        return graph, outputs
    while True:
        network = _Network(graph, outputs)
        if not network.replace_gates():
            return graph, outputs
        graph, outputs = network.graph()


class _Network:
    """Nodes in order of their depth, so that a gate may read any earlier node."""

    def __init__(self, graph: LogicGraph, outputs: list[Literal]) -> None:
        n = self.inputs = graph.inputs
        depth = [0] * len(graph.kinds)
        live = [node for node in graph.live(outputs) if graph.is_gate(node)]
        for node in live:
            depth[node] = 1 + max(depth[graph.a[node]], depth[graph.b[node]])
        order = [*range(n + 1), *sorted(live, key=depth.__getitem__)]
        place = {node: k for k, node in enumerate(order)}
        self.kinds = [graph.kinds[node] for node in order]
        self.a = [place.get(graph.a[node], 0) for node in order]
        self.b = [place.get(graph.b[node], 0) for node in order]
        self.outputs = [2 * place[x >> 1] + (x & 1) for x in outputs]
        words = words_for(1 << n)
        self.mask = np.uint64((1 << min(64, 1 << n)) - 1)  # fewer than 6 inputs do not fill a word
        self.tables = np.zeros((len(order), words), np.uint64)
        self.tables[1 : n + 1] = all_words(n, 0, words) & self.mask
        self._simulate(self.tables, n + 1)

    def graph(self) -> tuple[LogicGraph, list[Literal]]:
        """As a graph of its own."""
        found = LogicGraph(self.inputs)
        literals = [2 * k for k in range(self.inputs + 1)]
        for k in range(self.inputs + 1, len(self.kinds)):
            literals.append(found.gate(self.kinds[k], literals[self.a[k]], literals[self.b[k]]))
        return found, [literals[x >> 1] ^ (x & 1) for x in self.outputs]

    def replace_gates(self) -> int:
        """Replace gates from the outputs down. Returns the number of saved gates."""
        saved = 0
        for node in reversed(range(self.inputs + 1, len(self.kinds))):
            spared = self._spared(node)
            if not spared:
                continue
            found = self._replacement(node, spared)
            if found is not None:
                (self.kinds[node], self.a[node], self.b[node]), cost = found
                saved += len(spared) - cost
                self._simulate(self.tables, node)
        return saved

    def _simulate(self, tables: np.ndarray, start: int) -> None:
        for k in range(start, len(self.kinds)):
            tables[k] = apply(self.kinds[k], tables[self.a[k]], tables[self.b[k]]) & self.mask

    def _spared(self, node: int) -> set[int]:
        """The gates that only this one needs, itself included; none if nothing reads it."""
        readers = [0] * len(self.kinds)
        for x in self.outputs:
            readers[x >> 1] += 1
        for k in reversed(range(self.inputs + 1, len(self.kinds))):
            if readers[k]:
                readers[self.a[k]] += 1
                readers[self.b[k]] += 1
        if not readers[node]:
            return set()
        spared, waiting = set(), [node]
        while waiting:
            gate = waiting.pop()
            spared.add(gate)
            for read in (self.a[gate], self.b[gate]):
                readers[read] -= 1
                if read > self.inputs and not readers[read]:
                    waiting.append(read)
        return spared

    def _seen(self, node: int) -> np.ndarray:
        """The assignments on which an output would change with the node."""
        other = self.tables.copy()
        other[node] ^= self.mask
        self._simulate(other, node + 1)
        rows = [x >> 1 for x in self.outputs]
        return np.bitwise_or.reduce(other[rows] ^ self.tables[rows], axis=0)

    def _replacement(self, node: int, spared: set[int]) -> tuple[tuple[int, int, int], int] | None:
        """A gate (kind, a, b) of earlier nodes that does as well, and how many gates it costs; None if none is cheaper."""
        seen = self._seen(node)
        rows = [k for k in range(node) if k not in spared]
        tables = self.tables[rows] & seen
        wanted, unwanted = self.tables[node] & seen, ~self.tables[node] & seen
        for kind, target in ((A, wanted), (NOT_A, unwanted)):
            same = np.flatnonzero((tables == target).all(1))
            if len(same):
                return (kind, rows[same[0]], rows[same[0]]), 0
        if len(spared) < 2:
            return None
        found = (
            _conjunction(tables, seen, wanted, unwanted)
            or _inverted(_conjunction(tables, seen, unwanted, wanted))
            or _parity(tables, seen, wanted)
        )
        if found is None:
            return None
        kind, a, b = found
        return (kind, rows[a], rows[b]), 1


def _conjunction(
    tables: np.ndarray, seen: np.ndarray, one: np.ndarray, zero: np.ndarray
) -> tuple[int, int, int] | None:
    """AND of two rows or their inverses that is 1 on `one` and 0 on `zero`."""
    literals = np.concatenate([tables, ~tables & seen])
    covering = np.flatnonzero(~(one & ~literals).any(1))
    wrong = literals[covering] & zero
    for i in range(len(covering)):
        fits = np.flatnonzero(~(wrong[i] & wrong[i + 1 :]).any(1))
        if len(fits):
            (flip, a), (other, b) = (divmod(int(covering[k]), len(tables)) for k in (i, i + 1 + fits[0]))
            kind = flip_a(AND) if flip else AND
            return flip_b(kind) if other else kind, a, b
    return None


def _inverted(gate: tuple[int, int, int] | None) -> tuple[int, int, int] | None:
    return None if gate is None else (15 - gate[0], *gate[1:])


def _parity(tables: np.ndarray, seen: np.ndarray, wanted: np.ndarray) -> tuple[int, int, int] | None:
    """XOR of two rows, or its inverse, that equals `wanted` on the assignments `seen`."""
    known = {row.tobytes(): k for k, row in enumerate(tables)}
    for k, row in enumerate(tables):
        for kind, other in ((XOR, row ^ wanted), (15 - XOR, (row ^ wanted ^ seen) & seen)):
            found = known.get(other.tobytes())
            if found is not None:
                return kind, k, found
    return None
