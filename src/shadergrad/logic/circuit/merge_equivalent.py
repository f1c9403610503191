"""Merges gates with equal or inverse functions, however they are built.

In: a graph of gates and its outputs. Out: a graph without nodes that are proved equal to earlier ones. All nodes are simulated.
With few inputs the simulation covers all assignments, which is a proof. Otherwise equal bits on random assignments give a
candidate; it is proved on all assignments of the inputs of both nodes, if these are few, or by decision diagrams. Unproved
candidates stay. Source: SAT sweeping (Kuehlmann, "Dynamic transition relation simplification for bounded property checking",
2004), with truth tables and diagrams in place of SAT.
"""

from __future__ import annotations

from itertools import count

import numpy as np

from .bit_packing import words_for
from .decision_diagrams import FALSE, DiagramLimit, Diagrams
from .equivalence import all_words, random_words
from .gate_kinds import value_of
from .structural_hashing import LogicGraph

FEW = 14  # inputs of which all assignments are simulated
MOST_NODES = 5_000  # of the diagrams that prove one guess
GUESSES = 128  # words of random assignments, 64 in each

Tables = dict[int, np.ndarray]  # by node


def merged(graph: LogicGraph, outputs: list[int]) -> tuple[LogicGraph, list[int]]:
    """The same functions of the same inputs, each node's function once."""
    live = graph.live(outputs)
    exact = graph.inputs <= FEW
    same = _Same(graph, exact)
    smaller = LogicGraph(graph.inputs)
    literals = {node: 2 * node for node in range(graph.inputs + 1)}

    def literal(old: int) -> int:
        return literals[old >> 1] ^ (old & 1)

    for node in range(graph.inputs + 1):
        same.add(node)
    for node in live:
        if not graph.is_gate(node):
            continue
        found = same.add(node)
        if found is None:
            literals[node] = smaller.gate(graph.kinds[node], literals[graph.a[node]], literals[graph.b[node]])
        else:
            literals[node] = literal(found)
    return smaller, [literal(old) for old in outputs]


class _Same:
    """Finds for a node an earlier one of the same function, or its inverse."""

    def __init__(self, graph: LogicGraph, exact: bool) -> None:
        self._graph, self._exact = graph, exact
        n = graph.inputs
        rng = np.random.default_rng(0)
        count = words_for(1 << n) if exact else GUESSES
        words = all_words(n, 0, count) if exact else random_words(rng, n, 0, count)
        # fewer than 6 inputs do not fill a word: the rest of it would be no assignment
        self._mask = np.uint64((1 << min(64, 1 << n)) - 1)
        self._tables: Tables = {0: np.zeros(count, np.uint64)} | {i + 1: words[i] & self._mask for i in range(n)}
        self._supports: dict[int, frozenset[int]] = {0: frozenset()} | {i + 1: frozenset([i + 1]) for i in range(n)}
        self._known: dict[bytes, list[int]] = {}  # by table, in the form that begins with 0: literals

    def add(self, node: int) -> int | None:
        """The literal of an earlier node that `node` is proved to equal; None if it is the first."""
        if self._graph.is_gate(node):
            self._simulate(node)
        table = self._tables[node]
        inverted = int(table[0]) & 1
        key = (~table & self._mask if inverted else table).tobytes()
        known = self._known.setdefault(key, [])
        for earlier in known:
            if self._proved(node, earlier >> 1, inverted ^ (earlier & 1)):
                return earlier ^ inverted
        known.append(2 * node + inverted)
        return None

    def _simulate(self, node: int) -> None:
        graph = self._graph
        a, b = graph.a[node], graph.b[node]
        self._tables[node] = _apply(graph.kinds[node], self._tables[a], self._tables[b]) & self._mask
        self._supports[node] = self._supports[a] | self._supports[b]

    def _proved(self, node: int, earlier: int, opposite: int) -> bool:
        if self._exact:
            return True
        inputs = sorted(self._supports[node] | self._supports[earlier])
        if len(inputs) > FEW:
            return self._proved_by_diagrams(node, earlier, opposite)
        words = all_words(len(inputs), 0, words_for(1 << len(inputs)))
        tables: Tables = {0: np.zeros(words.shape[1], np.uint64)} | dict(zip(inputs, words, strict=True))
        for other in self._graph.live([2 * node, 2 * earlier]):
            if self._graph.is_gate(other):
                a, b = self._graph.a[other], self._graph.b[other]
                tables[other] = _apply(self._graph.kinds[other], tables[a], tables[b])
        mask = np.uint64((1 << min(64, 1 << len(inputs))) - 1)
        difference = tables[node] ^ tables[earlier] ^ (np.uint64((1 << 64) - 1) if opposite else np.uint64(0))
        return not (difference & mask).any()

    def _proved_by_diagrams(self, node: int, earlier: int, opposite: int) -> bool:
        """Whether the two are one diagram; False also if that takes too many nodes."""
        graph, diagrams = self._graph, Diagrams(MOST_NODES)
        found = {0: FALSE}
        numbers = count()

        def of(other: int) -> int:
            if other not in found:  # an input: numbered as gates read them, to keep diagrams small
                found[other] = diagrams.input(next(numbers))
            return found[other]

        try:
            for other in filter(graph.is_gate, graph.live([2 * node, 2 * earlier])):
                found[other] = diagrams.gate(graph.kinds[other], of(graph.a[other]), of(graph.b[other]))
            return of(node) == of(earlier) ^ opposite
        except DiagramLimit:
            return False


def _apply(kind: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The words of a gate from those of its inputs: the sum of its minterms."""
    result = np.zeros_like(a)
    for x in (0, 1):
        for y in (0, 1):
            if value_of(kind, x, y):
                result |= (a if x else ~a) & (b if y else ~b)
    return result
