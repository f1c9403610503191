"""PyTorch's backward operators, computed with shadergrad's gradient rules: the forward function is recorded again, and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...graph import autodiff, build
from ...graph.leaves import Alias
from ...graph.node import Node, grad_mode, hear, mode
from ...tensor import Tensor
from ...tensor.handle import wrap


def gradients(function: Callable[..., Tensor], inputs: list[Any], g: Tensor) -> Any:
    """Gradients of a shadergrad function with respect to its inputs. None among the inputs is skipped.

    It works on nodes, and differentiates with respect to aliases of the inputs, so that the result depends on the inputs alone.
    """
    found = gradients_of_all(lambda *leaves: (function(*leaves),), inputs, [g])
    return [d for d, x in zip(found, inputs, strict=True) if x is not None]


def gradients_of_all(function: Callable[..., tuple[Tensor, ...]], inputs: list[Any], gs: list[Any]) -> list[Any]:
    """The same for a function of several results. None for None among the inputs; None among the results' gradients is skipped."""
    with grad_mode(True):
        leaves = [None if x is None else Tensor._of(_named(x._node)) for x in inputs]
        pairs = [(y._node, g._node) for y, g in zip(function(*leaves), gs, strict=False) if g is not None]
    asked = [x._node for x in leaves if x is not None]
    cotangents = [g if g.dtype is y.dtype else build.cast(g, y.dtype) for y, g in pairs]
    found = autodiff.backward([y for y, _ in pairs], cotangents, targets=asked)
    return [None if x is None else wrap(found[id(x._node)][1]) for x in leaves]


def _named(node: Node) -> Node:
    named = Node(Alias(), (node,), node.shape, node.dtype, node.device, requires_grad=True)
    if mode.heard:
        hear(named)
    return named
