"""The history of a tensor after an in-place write.

As in PyTorch, a base that requires grad keeps its gradient function if the write happens within no_grad or through a detached alias.
Otherwise it takes the history of the written value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..drive.tracing import current
from ..dtypes import DType
from ..graph import build
from ..graph import node as nodes
from ..graph.composition import Composite, is_kind
from ..graph.leaves import Alias, Detach, Variable
from ..graph.node import Node, grad_mode, make, mode
from ..graph.primitive import Primitive, Shape


@dataclass(frozen=True, eq=False)
class Overwritten(Primitive):
    """The value of the first input with the history of the second, whose gradient is all of the result's, or 0 if the value
    has replaced the result of that history.

    The compiler looks through it.
    """

    goes_on: bool

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return None, g if self.goes_on else build.like(g, 0)


# set here, not in the class, which keeps it out of the registry of records: no plan contains one
Overwritten.kind = "alias"


def without_history(node: Node) -> Node:
    """The same value, which requires no gradient."""
    if not node.requires_grad:
        return node
    if node.storage is not None:
        result = nodes.leaf(node.storage, node.shape, node.dtype, node.device)
    else:
        with grad_mode(False):
            result = make(Detach(), node)
    result.owner = node.owner  # it is the value of the same tensor
    return result


def renamed(node: Node) -> Node:
    """A new node with the value and the history of another tensor's node; in a capture one that leads to it."""
    if node.storage is not None and not (node.requires_grad and mode.grad) and current.trace is None:
        return nodes.leaf(node.storage, node.shape, node.dtype, node.device)
    return make(Alias(), node)


def succeeding(before: Node, value: Node, owner: Any) -> Node:
    """`value` as the new value of a tensor that held `before`: a leaf stays one, and a history continues."""
    if is_kind(before, Variable):
        value = without_history(value)
        if current.trace is not None and value.storage is not None:  # still whose value it is
            value = make(Alias(), value)
        return nodes.variable(value, owner, before.hooks)
    if not mode.grad:
        value = without_history(value)
    if before.requires_grad and not value.requires_grad:
        is_hidden = not mode.grad  # from the tape
        if (
            is_hidden
            and type(before) is not Composite
            and isinstance(before.primitive, Overwritten)
            and before.inputs
            and before.hooks is None
        ):
            before = before.inputs[1] if before.primitive.goes_on else before
        with grad_mode(True):
            return make(Overwritten(is_hidden), value, before)
    return make(Alias(), value) if is_kind(value, Variable) else value
