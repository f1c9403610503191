"""The same value on another device, as an operation: gradients go back the way that the value came.

A graph has one device, so a value is moved at once, and its node holds it: plans of either device see a value, and the
backward pass alone looks behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..drive import execute
from ..dtypes import DType
from ..graph.node import Node, hear, mode
from ..graph.primitive import Primitive, Shape


@dataclass(frozen=True, eq=False)
class Transfer(Primitive):
    """The value of its input, which is on another device."""

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return (moved(g, execute.download(g), node.inputs[0].device),)


Transfer.kind = "alias"  # said here and not in the class, so that it is no record of the registry: no plan holds one


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
