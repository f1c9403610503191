"""Renders equal kernels once: equal layers of a network have equal groups, with different nodes.

In: a group, and the properties of the graph around it that its renderer reads. Out: a key that is equal for groups with the same kernel,
and the corresponding nodes of two such groups, by position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .. import symbolic_sizes
from ..graph.node import Node, topological
from .groups import Group
from .kernel import Rendered


class Likeness:
    """Everything from which a kernel is rendered: the group's nodes and all nodes below them, down to buffers.

    nodes: in order; a kernel binds some of them. key: the rest, with nodes by position.
    """

    def __init__(self, group: Group, is_buffer: Callable[[Node], bool], in_place: Mapping[int, Node]) -> None:
        parts = group.parts or [group]
        own = [n for part in parts for n in part.nodes]
        self.nodes = topological([*own, *in_place.values()], lambda n: () if is_buffer(n) else n.inputs)
        self.place = {id(n): k for k, n in enumerate(self.nodes)}
        place = self.place
        computed = [
            (n.shape, n.dtype)
            if is_buffer(n)
            else (n.primitive, n.shape, n.dtype, tuple([place[id(i)] for i in n.inputs]))
            for n in self.nodes
        ]
        kernel = [
            (
                part.archetype,
                *(
                    tuple([place[id(n)] for n in nodes])
                    for nodes in (part.roots, part.reduces, [part.dot] if part.dot else [])
                ),
                (part.size, part.outer, part.inner, part.trailing, part.tile),
            )
            for part in parts
        ]
        over = [(place[key], place[id(old)]) for key, old in in_place.items()]
        self.key = (tuple(computed), tuple(kernel), bool(group.parts), tuple(over))
        if symbolic_sizes.follows:  # sizes that vary equal others of the same number
            self.key = (*self.key, *(tuple(map(symbolic_sizes.form, n.shape)) for n in self.nodes))


class Kernels:
    """The rendered kernels of a plan."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Rendered, Likeness]] = {}
        self.rendered = 0

    def get(self, like: Likeness, render: Callable[[], Rendered]) -> Rendered:
        """The kernel of a group, with its own nodes in place of those of the group that was rendered."""
        known = self._known.get(like.key)
        if known is not None:
            result, of = known
            bindings = [replace(b, node=like.nodes[of.place[id(b.node)]]) for b in result.bindings]
            return replace(result, bindings=bindings)
        self.rendered += 1
        result = render()
        if all(id(b.node) in like.place for b in result.bindings):
            self._known[like.key] = result, like
        return result
