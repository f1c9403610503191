"""Differentiable moves of a value to another device.

A graph has one device, so a value is moved at once, and its node holds the moved value. The plans of both devices see a plain value; only
the backward pass follows the move.

If a value has not been computed yet, the move may be avoided. Initial weights are computed from a key, a counter and numbers; if they are
moved before they are computed, they are drawn on the target device instead (`computed_on`). The bits are the same on every device, and
hundreds of millions of numbers are neither computed on the host nor copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..drive import execute
from ..dtypes import DType
from ..graph.node import Node, hear, mode, resolve, topological
from ..graph.primitive import Primitive, Shape

LARGE = 1 << 18  # elements from which on a separate kernel pays
SMALL = 64  # elements of keys and counters, which are copied instead


@dataclass(frozen=True, eq=False)
class Transfer(Primitive):
    """The value of its input, which is on another device."""

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return (moved(g, execute.download(g), node.inputs[0].device),)


# set here, not in the class, which keeps it out of the registry of records: no plan contains one
Transfer.kind = "alias"


def moved(node: Node, value: np.ndarray, device: str) -> Node:
    """`node`, whose value is `value`, on another device."""
    there = execute.upload(value, node.dtype, device)
    if not (mode.grad and node.requires_grad):
        return there
    result = Node(Transfer(), (node,), node.shape, node.dtype, device, requires_grad=True)
    if mode.heard:
        hear(result)
    result.materialize(there.storage)
    return result


def computed_on(device: str, node: Node) -> Node | None:
    """The same computation on another device; None if it has been done, is small, or reads more than a few numbers."""
    if node.storage is not None or node.size < LARGE or node.requires_grad:
        return None
    return _computed_on(device, node, SMALL)


def constant_on(device: str, node: Node) -> Node | None:
    """The same computation on another device, if it consists of constants; None if it reads any value."""
    return None if node.requires_grad else _computed_on(device, node, 0)


def _computed_on(device: str, node: Node, most: int) -> Node | None:
    """most: elements of values that are copied; None if it reads larger ones."""
    order = topological([resolve(node)], lambda n: () if n.storage is not None else tuple(map(resolve, n.inputs)))
    if any(n.storage is not None and n.size > most for n in order):
        return None
    made: dict[int, Node] = {}
    for n in order:
        if n.storage is not None:
            value: np.ndarray = execute.download(n)
            made[id(n)] = execute.upload(value, n.dtype, device)
        else:
            inputs = tuple(made[id(resolve(i))] for i in n.inputs)
            made[id(n)] = Node(n.primitive, inputs, n.shape, n.dtype, device)
            made[id(n)].origin = n.origin
    return made[id(resolve(node))]
