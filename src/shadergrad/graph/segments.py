"""Backward passes in parts: the segments of a tape between functions of users.

In: a tape, inputs first. Out: its segments, each of which tape.py caches as a pass of its own, and between them the nodes whose rules are called in every
pass: those of users' functions, whose backward is Python, and of the operations of several results that lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from .composition import Composite, Composition
from .leaves import Variable
from .node import Node


class Segment:
    """Consecutive nodes of a tape.

    ends: the nodes outside for which it gives cotangents. end_ids: their ids.
    """

    def __init__(self, nodes: list[Node], inputs_of: Callable[[Node], Sequence[Node]]) -> None:
        self.nodes = nodes
        own = set(nodes)
        self.ends = list(dict.fromkeys([i for node in nodes for i in inputs_of(node) if i not in own]))
        self.end_ids = frozenset(map(id, self.ends))


def segments_of(order: Sequence[Node], inputs_of: Callable[[Node], Sequence[Node]]) -> list[Segment | Node] | None:
    """The parts of a tape; None if it is one segment, or if hooks listen, or a composition is in two of them.

    inputs_of: the inputs that require gradients.
    """
    parts: list[list[Node] | Node] = [[]]
    part_of: dict[Composition, int] = {}
    is_cut = False
    for node in order:
        if node.hooks is not None:
            return None
        if type(node) is Composite:
            composition = node.composition
            if not composition.recipe.is_structural or part_of.setdefault(composition, len(parts)) != len(parts):
                return None
        else:
            primitive = node.primitive
            structural = primitive.structural or type(primitive) is Variable
            if primitive.gathers or not structural:
                is_cut = is_cut or not structural
                parts += (node, [])
                continue
        parts[-1].append(node)  # type: ignore[union-attr]
    if not is_cut:
        return None
    return [Segment(part, inputs_of) if isinstance(part, list) else part for part in parts if part != []]


class Visited(Container[int]):
    """The ids of the nodes that a pass visits. all_nodes: those of compositions among them, which are made if somebody asks for another node."""

    def __init__(self, order: Sequence[Node], all_nodes: Callable[[], Sequence[Node]]) -> None:
        self._order = order  # keeps the ids valid
        self._ids = set(map(id, order))
        self._all_nodes = all_nodes
        self._is_whole = False

    def __contains__(self, key: object) -> bool:
        if key not in self._ids and not self._is_whole:
            self._order = self._all_nodes()
            self._ids |= set(map(id, self._order))
            self._is_whole = True
        return key in self._ids
