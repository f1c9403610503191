"""A computation that is still to come, on another device.

Initial values of a network are made of a key, a counter and numbers. When it is moved before anybody has asked for
them, they are drawn where they end up: the bits are the same on every device, and hundreds of millions of numbers are neither
computed on the host nor copied.
"""

from __future__ import annotations

import numpy as np

from ..drive import execute
from ..graph.node import Node, resolve, topological

LARGE = 1 << 18  # elements from which on that is worth a kernel of its own
SMALL = 64  # elements of what is copied instead: keys, counters


def computed_on(device: str, node: Node) -> Node | None:
    """The same computation on another device; None where it has been done, is small, or reads more than a few numbers."""
    if node.storage is not None or node.size < LARGE or node.requires_grad:
        return None
    return _computed_on(device, node, SMALL)


def constant_on(device: str, node: Node) -> Node | None:
    """The same computation on another device, of constants alone; None where it reads any value."""
    return None if node.requires_grad else _computed_on(device, node, 0)


def _computed_on(device: str, node: Node, most: int) -> Node | None:
    """most: elements of values that are copied; None where it reads larger ones."""
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
