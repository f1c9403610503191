"""Gradients of PyTorch's backward operators by our own rules: the forward function again, over the same graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...graph import autodiff, build
from ...graph.leaves import Alias
from ...graph.node import Node, grad_mode, hear, mode
from ...tensor import Tensor
from ...tensor.handle import wrap


def gradients(function: Callable[..., Tensor], inputs: list[Any], g: Tensor) -> Any:
    """Gradients of one of our functions by its inputs. None among the inputs is passed over.

    All is done with nodes, and other names of the inputs are what it differentiates by: what it adds hangs on the inputs alone.
    """
    with grad_mode(True):
        leaves = [None if x is None else Tensor._of(_named(x._node)) for x in inputs]
        y = function(*leaves)._node
    asked = [x._node for x in leaves if x is not None]
    g_node = g._node if g.dtype is y.dtype else build.cast(g._node, y.dtype)
    found = autodiff.backward([y], [g_node], targets=asked)
    return [wrap(found[id(node)][1]) for node in asked]


def _named(node: Node) -> Node:
    named = Node(Alias(), (node,), node.shape, node.dtype, node.device, requires_grad=True)
    if mode.heard:
        hear(named)
    return named
