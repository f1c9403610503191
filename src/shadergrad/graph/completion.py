"""The order of a backward pass with hooks, as in PyTorch's engine: a node is visited once all its cotangents are known.

In: a tape, inputs first, and cotangents as they are computed. Out: its nodes, each with the sum of its cotangents. A hook can observe which
gradients are complete, so the order is part of a pass's behaviour. Of the complete nodes, leaves come first, then the node that
was made last. A leaf that is written in place has several values, which share one gradient. Without hooks the order cannot be
observed, and autodiff.py walks the tape in reverse.
"""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from .composition import is_kind
from .leaves import Variable
from .node import Node

LEAVES_FIRST = float("-inf")

# leaves with hooks, by id; a hook may be newer than a use of the leaf's value
with_hooks: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def share_hooks(order: Sequence[Node], leaf_of: Callable[[Node], Any]) -> None:
    """Give former values of leaves the hooks that were registered since."""
    for node in order if with_hooks else ():
        if node.hooks is None and is_kind(node, Variable):
            leaf = leaf_of(node)
            if id(leaf) in with_hooks:
                node.hooks = leaf._node.hooks


class Completion:
    """The nodes of a tape in the order in which their cotangents are complete.

    needed: the ids of the nodes that the pass visits. inputs_of: the nodes to which the pass continues from a node.
    leaf_of: maps a Variable to its leaf.
    """

    def __init__(
        self,
        order: Sequence[Node],
        needed: Collection[int],
        inputs_of: Callable[[Node], Sequence[Node]],
        leaf_of: Callable[[Node], Any],
    ) -> None:
        self._inputs_of = inputs_of
        self._nodes = [node for node in order if id(node) in needed]
        self._place = {id(node): k for k, node in enumerate(self._nodes)}
        self._values = _values_of_leaves(self._nodes, leaf_of)
        self._cotangents: dict[int, list[tuple[int, int, Node]]] = {}
        self._left = dict.fromkeys(self._place, 0)  # the number of users still to visit
        self._values_reached: Counter[int] = Counter()
        self._ready: list[tuple[float, int, Node]] = []
        self._numbers = itertools.count()

    def add(self, node: Node, g: Node, source: Node | None) -> None:
        """Add a cotangent of a node, from one of its users, or from outside."""
        place = len(self._nodes) if source is None else self._place[id(source)]
        self._cotangents.setdefault(id(node), []).append((-place, next(self._numbers), g))

    def take(self, node: Node) -> Node | None:
        """The sum of a node's cotangents, for a leaf those of all its values; None if none came.

        They are added in the order of the tape, so hooks do not change the bits of the sum.
        """
        total: Node | None = None
        for value in self._values.get(id(node), (node,)):
            found: Node | None = None
            for _, _, g in sorted(self._cotangents.pop(id(value), ()), key=lambda entry: entry[:2]):
                found = g if found is None else found + g
            total = found if total is None or found is None else total + found
        return total

    def __iter__(self) -> Iterator[Node]:
        for node in self._nodes:
            for source in self._sources(node):
                self._left[id(source)] += 1
        for node in reversed(self._nodes):
            if not self._left[id(node)]:
                self._on_reached(node)
        while self._ready:
            *_, node = heapq.heappop(self._ready)
            yield node
            for source in self._sources(node):
                self._left[id(source)] -= 1
                if not self._left[id(source)]:
                    self._on_reached(source)

    def _sources(self, node: Node) -> list[Node]:
        return [source for source in self._inputs_of(node) if id(source) in self._left]

    def _on_reached(self, node: Node) -> None:
        """Called when all users of a node are done. The node is complete; a leaf is complete when all its values are."""
        values = self._values.get(id(node), [node])
        self._values_reached[id(values[0])] += 1
        if self._values_reached[id(values[0])] == len(values):
            place = LEAVES_FIRST if isinstance(node.primitive, Variable) else -node.serial
            heapq.heappush(self._ready, (place, next(self._numbers), values[0]))


def _values_of_leaves(order: Sequence[Node], leaf_of: Callable[[Node], Any]) -> dict[int, list[Node]]:
    """The Variables that are values of a leaf with several, by the id of each of them, the newest first."""
    values: dict[tuple[int, Any, Any], list[Node]] = {}
    for node in order:
        if isinstance(node.primitive, Variable) and (leaf := leaf_of(node)) is not None:
            values.setdefault((leaf, node.shape, node.dtype), []).append(node)
    several = (sorted(nodes, key=lambda n: -n.serial) for nodes in values.values() if len(nodes) > 1)
    return {id(node): nodes for nodes in several for node in nodes}
