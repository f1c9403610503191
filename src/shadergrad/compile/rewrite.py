"""Rebuilding a graph from the inputs up, through rules; equal nodes become one.

A rule is a function (make, primitive, inputs) -> Node or None. `make` applies all rules to what it builds, so rules
compose. In: output nodes. Out: the rewritten nodes, by id of the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..graph.build import Builder
from ..graph.leaves import Placeholder
from ..graph.node import Node, topological
from ..graph.primitive import Primitive
from ..target import PORTABLE, Target

Inputs = tuple[Node, ...]
Rule = Callable[["Rewriter", Primitive, Inputs], "Node | None"]


class Rewriter(Builder):
    """Interns nodes and applies rules while building; rules may depend on the target."""

    def __init__(self, rules: Sequence[Rule], device: str, target: Target = PORTABLE) -> None:
        self.rules = rules
        self.device = device
        self.target = target
        self.table: dict[Any, Node] = {}
        # by id of each new node, the position of the old node for which it was made
        self.places: dict[int, int] = {}
        self._place: int | None = None

    def make(self, primitive: Primitive, *inputs: Node) -> Node:
        """`primitive(*inputs)`, or the node into which the rules turn it; equal calls give the same node."""
        key = (primitive, tuple(id(i) for i in inputs))
        found = self.table.get(key)
        if found is None:
            rules = () if any(i.dtype.is_complex for i in inputs) else self.rules  # the rules are for real numbers
            found = next((n for rule in rules if (n := rule(self, primitive, inputs)) is not None), None)
            if found is None:
                found = self.plain(primitive, *inputs)
            self._keep(key, found, inputs)
        return found

    def plain(self, primitive: Primitive, *inputs: Node) -> Node:
        """`primitive(*inputs)`, to which no rule is applied."""
        key = ("plain", primitive, tuple(id(i) for i in inputs))
        found = self.table.get(key)
        if found is None:
            shape, dtype = primitive.infer(*inputs)
            found = Node(primitive, inputs, shape, dtype, self.device)
            if self._place is not None:
                self.places[id(found)] = self._place
            self._keep(key, found, inputs)
        return found

    def _keep(self, key: Any, found: Node, inputs: Inputs) -> None:
        self.table[key] = found
        self.table["kept", id(found)] = found  # ids stay unique while the table lives
        for i in inputs:
            self.table["kept", id(i)] = i

    def source(self, primitive: Primitive, device: str) -> Node:
        return self.make(primitive)

    def stand_for(self, node: Node) -> None:
        """Nodes made from now on get the position of this old node."""
        self._place = self.places.get(id(node))

    def rewrite(self, outputs: Iterable[Node], old: Iterable[Node] = ()) -> dict[int, Node]:
        """The new node of every old one that `outputs` need, by id of the old. old: the old nodes by position, for `places`."""
        new: dict[int, Node] = {}
        place = {id(n): k for k, n in enumerate(old)}
        for node in topological(outputs, lambda n: n.inputs):
            if isinstance(node.primitive, Placeholder):
                new[id(node)] = node
            else:
                self._place = place.get(id(node))
                new[id(node)] = self.make(node.primitive, *(new[id(i)] for i in node.inputs))
        return new
