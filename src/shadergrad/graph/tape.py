"""A cache of backward passes: a pass of a known structure adds the same nodes again without evaluating gradient rules.

In: a tape (nodes in order), or a segment of one (segments.py), with its roots' cotangents. Out: the cotangents of its Variables, or None if the rules must be
evaluated. A training loop needs the same pass at every step. The nodes of a pass depend only on the tape's structure if its
primitives promise so (`Primitive.structural`), no hook listens, and the pass itself is not recorded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from . import node as nodes
from .composition import Composite, Composition, Hashed, Recipe, Row
from .leaves import Variable
from .node import Node

MOST_PASSES = 512
MOST_NODES = 1 << 17  # of all cached tapes; a tape with its pass counts twice, because the pass is about as long


class Tape:
    """The request for a backward pass: its structure as a key, and the nodes to which the pass may refer.

    known: the tape's nodes, their operands and the cotangents. key: None if the tape must be evaluated by its rules.
    compositions: those whose results are on the tape; a pass may refer to their nodes, too, which come after `known`.
    ends: the nodes behind the tape whose cotangents the pass gives, too.
    """

    def __init__(
        self, order: Sequence[Node], roots: Sequence[Node], cotangents: Sequence[Node], ends: Sequence[Node] = ()
    ) -> None:
        self.known: list[Node] = []
        self.place: dict[Node, int] = {}
        self.device = roots[0].device
        self.key: Hashed | None = None
        self.compositions: list[Composition] = []
        self.results: list[list[int]] = []  # of each composition, the places of its results on the tape
        place, known = self.place, self.known
        entries: list[Any] = []
        met: dict[Composition, int] = {}
        for node in ends:
            place[node] = len(known)
            known.append(node)
            entries.append(("end", _made_by(node), node.shape, node.dtype))
        for node in order:
            if type(node) is Composite:
                if node.hooks is not None or not node.composition.recipe.is_structural:
                    return
                self._take(node, met, entries)
                continue
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
                        entries.append((_made_by(source), source.shape, source.dtype))
                entries.append((primitive, tuple([place[i] for i in inputs])))
            place[node] = len(known)
            known.append(node)
        for g in cotangents:
            if g not in place:
                place[g] = len(known)
                known.append(g)
        places = [place[n] for n in (*roots, *cotangents)]
        size = len(entries) + sum(len(composition.recipe.rows) for composition in self.compositions)
        self.key = Hashed((tuple(entries), tuple(places), tuple([(g.shape, g.dtype) for g in cotangents]), size))

    def _take(self, node: Composite, met: dict[Composition, int], entries: list[Any]) -> None:
        """Add a result of a composition; the recipe and inputs of each composition are added once."""
        place, known = self.place, self.known
        composition = node.composition
        number = met.get(composition)
        if number is None:
            number = met[composition] = len(met)
            self.compositions.append(composition)
            self.results.append([])
            for source in composition.inputs:
                if source not in place:
                    place[source] = len(known)
                    known.append(source)
                    entries.append((_made_by(source), source.shape, source.dtype))
            entries.append((composition.recipe, tuple([place[i] for i in composition.inputs])))
        entries.append((number, node.number))
        self.results[number].append(len(known))
        place[node] = len(known)
        known.append(node)


def _made_by(operand: Node) -> Any:
    """The part of the key for an operand at which the tape ends. For users' primitives it is the class, because they may hold tensors."""
    if type(operand) is Composite:
        return operand.composition.recipe, operand.number
    primitive = operand.primitive
    return primitive if primitive.structural else type(primitive)


class _Pass:
    """A backward pass as a recipe, and (Variable, cotangent) by place: a known node, or a result.

    The recipe's inputs are the known nodes that it uses, so that gradients that are not computed yet hold no others. Of a composition whose nodes it uses,
    all results on the tape are inputs: they identify the composition in a capture.
    """

    def __init__(self, tape: Tape, found: Mapping[int, tuple[Node, Node]]) -> None:
        place = dict(tape.place)
        first = len(tape.known)
        begins: list[int] = []  # of the nodes of each composition
        for composition in tape.compositions:
            begins.append(first)
            for node in composition.expand():
                place.setdefault(node, first)
                first += 1
        rows: list[Row] = []
        there = set(place)
        for node in nodes.topological([g for _, g in found.values()], lambda n: () if n in there else n.inputs):
            if node not in there:
                rows.append((node.primitive, tuple([place[i] for i in node.inputs]), node.shape, node.dtype, False))
                place[node] = first + len(rows) - 1
        ends = list(dict.fromkeys([place[g] for _, g in found.values() if place[g] >= first]))
        number = {end: k for k, end in enumerate(ends)}
        self.is_whole = all(place[g] < len(tape.known) or place[g] >= first for _, g in found.values())
        self.found = [(place[v], place[g], number.get(place[g])) for v, g in found.values()]
        self._take_used(tape, rows, ends, [*begins, first])

    def _take_used(self, tape: Tape, rows: list[Row], ends: list[int], begins: list[int]) -> None:
        """Make the recipe from rows and ends. begins: of the nodes of each composition, and of the rows."""
        used = {k for row in rows for k in row[1]}
        spans = [range(*pair) for pair in pairwise(begins)]
        self.before = [k for k, span in enumerate(spans) if not used.isdisjoint(span)]
        of_results = {k for number in self.before for k in tape.results[number]}
        self.inputs = sorted({k for k in used if k < len(tape.known)} | of_results)
        kept = [*self.inputs, *(k for number in self.before for k in spans[number])]
        kept += range(begins[-1], begins[-1] + len(rows))
        place = {k: new for new, k in enumerate(kept)}
        renumbered = [(primitive, tuple([place[k] for k in of]), *rest) for primitive, of, *rest in rows]
        self.recipe = Recipe(renumbered, [place[k] for k in ends], len(kept) - len(rows))  # type: ignore[arg-type]

    def again(self, tape: Tape) -> dict[int, tuple[Node, Node]]:
        known = tape.known
        before = [tape.compositions[k] for k in self.before]
        made = self.recipe.results([known[k] for k in self.inputs], tape.device, before)
        return {id(known[v]): (known[v], known[g] if k is None else made[k]) for v, g, k in self.found}


class Passes:
    """Least-recently-used cache of backward passes by structure: the pass of a structure seen twice, else None.

    The keys hold the primitives, which are compared by identity.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashed, _Pass | None] = OrderedDict()
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
        """Store the result of the rules. Most structures occur once, or in every step."""
        if tape.key is None:
            return
        key = tape.key
        with self._lock:
            learned = None
            if key in self._kept:
                self._nodes -= _nodes_of(key, self._kept[key])
                learned = _Pass(tape, found)
            self._kept[key] = learned if learned is not None and learned.is_whole else None
            self._kept.move_to_end(key)
            self._nodes += _nodes_of(key, self._kept[key])
            while len(self._kept) > MOST_PASSES or (self._nodes > MOST_NODES and len(self._kept) > 1):
                self._nodes -= _nodes_of(*self._kept.popitem(last=False))


def _nodes_of(key: Hashed, found: _Pass | None) -> int:
    """The approximate number of nodes that a cached tape keeps."""
    return key.value[-1] * (1 if found is None else 2)


passes = Passes()
