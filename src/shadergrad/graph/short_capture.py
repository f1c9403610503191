"""Captures that treat a composition as a single entry.

In: nodes to compute. Out: a key that identifies the structure, and the nodes with values that its program reads. No graph is built: if
the key is new, `Capture` creates the nodes of all compositions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from .capture import Capture
from .composition import Composite, Composition, shown
from .node import Node


class ShortCapture(Capture):
    """A capture in which a composition is one entry, and each of its results another.

    is_short: whether there are compositions. If not, it equals an ordinary capture.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        self.is_short = False
        super().__init__(roots)

    def _ends(self, roots: Sequence[Node]) -> list[Node]:
        return [shown(r) for r in roots]

    def _walk(self, entries: list[Any], numbered: list[Node], identity: Callable[[Node], int]) -> None:
        position, order = self._position, self.order
        stack: list[Any] = [*self.roots]
        stack.reverse()
        while stack:
            node = stack.pop()
            if node is None:  # all inputs of this entry are in the order
                node = stack.pop()
            elif node in position:
                continue
            elif node.storage is not None:
                entry = self._source(node, identity(node))
                if entry is not None:
                    entries.append(entry)
                continue
            else:
                missing: list[Any] = [i for i in _inputs_of(node) if i not in position]
                if missing:
                    missing += (None, node)
                    missing.reverse()
                    stack += missing
                    continue
            kind = type(node)
            if kind is Composite:
                entries.append((node.number, position[node.composition]))
            elif kind is Composition:
                self.is_short = True
                entries.append((node.recipe, tuple([position[i] for i in node.inputs])))
            else:
                primitive = node.primitive
                if primitive.kind == "alias":
                    position[node] = position[node.inputs[0]]
                    continue
                form = primitive.form
                entries.append((form or primitive, tuple([position[i] for i in node.inputs])))
                if form is not None:
                    numbered.append(node)
            position[node] = len(order)
            order.append(node)


def _inputs_of(node: Node | Composition) -> Sequence[Any]:
    """The inputs of a node; of an alias only the first, because the others serve the backward pass only."""
    if type(node) is Composite:
        return (node.composition,)
    if type(node) is Composition:
        return node.inputs
    plain = cast(Node, node)
    return plain.inputs[:1] if plain.primitive.kind == "alias" else plain.inputs
