"""A cache of backward passes: a pass of a known structure adds the same nodes again without evaluating gradient rules.

In: a tape (nodes in order) with its roots' cotangents. Out: the cotangents of its Variables, or None if the rules must be
evaluated. A training loop needs the same pass at every step. The nodes of a pass depend only on the tape's structure if its
primitives promise so (`Primitive.structural`), no hook listens, and the pass itself is not recorded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from . import node as nodes
from .leaves import Variable
from .node import Node
from .primitive import Primitive

MOST_PASSES = 128
MOST_NODES = 1 << 17  # of all tapes that are kept, twice of those with a pass, which is about as long

Row = tuple[Primitive, tuple[int, ...], Any, Any]  # of an added node: what makes it, and its shape and dtype


class Tape:
    """The request for a backward pass: its structure as a key, and the nodes that it may refer to.

    known: the tape's nodes, their operands and the cotangents. key: None for a tape that only its rules know.
    """

    def __init__(self, order: Sequence[Node], roots: Sequence[Node], cotangents: Sequence[Node]) -> None:
        self.known: list[Node] = []
        self.place: dict[Node, int] = {}
        self.device = roots[0].device
        self.key: Any = None
        place, known = self.place, self.known
        entries: list[Any] = []
        for node in order:
            primitive = node.primitive
            is_leaf = type(primitive) is Variable
            if node.hooks is not None or not (is_leaf or primitive.structural):
                return
            inputs = node.inputs
            if is_leaf or not inputs:
                entries.append((primitive, node.shape, node.dtype))
            else:
                for source in inputs:
                    if source not in place:
                        place[source] = len(known)
                        known.append(source)
                        operand = source.primitive  # of users' primitives the class: they may hold tensors
                        entries.append((operand if operand.structural else type(operand), source.shape, source.dtype))
                entries.append((primitive, tuple([place[i] for i in inputs])))
            place[node] = len(known)
            known.append(node)
        for g in cotangents:
            if g not in place:
                place[g] = len(known)
                known.append(g)
        ends = [place[n] for n in (*roots, *cotangents)]
        self.key = (tuple(entries), tuple(ends), tuple([(g.shape, g.dtype) for g in cotangents]))


class _Pass:
    """The nodes of a backward pass: rows in order, and (Variable, cotangent) by position; positions continue those of the known
    nodes."""

    def __init__(self, tape: Tape, found: Mapping[int, tuple[Node, Node]]) -> None:
        self.rows: list[Row] = []
        place = dict(tape.place)
        count = len(tape.known)
        for node in nodes.topological([g for _, g in found.values()], lambda n: () if n in tape.place else n.inputs):
            if node not in place:
                self.rows.append((node.primitive, tuple([place[i] for i in node.inputs]), node.shape, node.dtype))
                place[node] = count + len(self.rows) - 1
        self.found = [(place[v], place[g]) for v, g in found.values()]

    def again(self, tape: Tape) -> dict[int, tuple[Node, Node]]:
        made = list(tape.known)
        device = tape.device
        for primitive, inputs, shape, dtype in self.rows:
            made.append(Node(primitive, tuple([made[k] for k in inputs]), shape, dtype, device))
        nodes.nodes_made += len(self.rows)
        return {id(made[v]): (made[v], made[g]) for v, g in self.found}


class Passes:
    """Least-recently-used cache of structures: the pass of those seen twice, else None.

    The keys hold the primitives, which are compared by identity.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, _Pass | None] = OrderedDict()
        self._nodes = 0
        self._lock = threading.Lock()

    def find(self, tape: Tape) -> dict[int, tuple[Node, Node]] | None:
        """The cotangents of the Variables, if a pass of this structure is known."""
        if tape.key is None:
            return None
        with self._lock:
            known = self._kept.get(tape.key)
            if known is None:
                return None
            self._kept.move_to_end(tape.key)
        return known.again(tape)

    def learn(self, tape: Tape, found: Mapping[int, tuple[Node, Node]]) -> None:
        """Store the result of the rules. Most structures come once, or in every step."""
        if tape.key is None:
            return
        with self._lock:
            self._kept[tape.key] = _Pass(tape, found) if tape.key in self._kept else None
            self._kept.move_to_end(tape.key)
            self._nodes += len(tape.key[0])
            while len(self._kept) > MOST_PASSES or (self._nodes > MOST_NODES and len(self._kept) > 1):
                key, gone = self._kept.popitem(last=False)
                self._nodes -= len(key[0]) * (1 if gone is None else 2)


passes = Passes()
