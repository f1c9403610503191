"""Several tensors that share one backward step.

A node has one value, so an operation with several results, or one that must see all its gradients at once, is made of
aliases: each result aliases its value, and all of them depend on a `Meeting`. The backward pass visits the meeting
after every result, when all gradients are known, and asks it for the gradients of the inputs.
The nodes below leave no trace in a plan: the compiler looks through aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType
from ..graph import node as nodes
from ..graph.node import Node, make, mode
from ..primitives.base import Primitive, Shape
from ..tensor import Tensor

Gradients = Sequence[Tensor | None]


class _Collected:
    """The gradients of the results that have arrived."""

    def __init__(self, backward: Callable[[Gradients], Gradients], count: int) -> None:
        self.backward = backward
        self.grads: list[Node | None] = [None] * count

    def finish(self) -> list[Node | None]:
        """The gradients of the inputs; ready for the next backward pass."""
        grads = [None if g is None else Tensor._of(g) for g in self.grads]
        self.grads = [None] * len(grads)
        return [None if g is None else g._node for g in self.backward(grads)]


@dataclass(frozen=True, eq=False)
class Meeting(Primitive):
    """Where the gradients of several results meet; inputs: those of the joint operation. It has no value."""

    collected: Any

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (), inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return tuple(self.collected.finish())


@dataclass(frozen=True, eq=False)
class Result(Primitive):
    """One of the results; inputs: its value, the meeting."""

    collected: Any
    position: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        self.collected.grads[self.position] = g
        return None, nodes.like(node.inputs[1], 0)


Result.kind = "alias"  # said here and not in the class, so that it is no record of the registry: no plan holds one


def joint(
    inputs: Sequence[Tensor], values: Sequence[Tensor], backward: Callable[[Gradients], Gradients]
) -> list[Tensor]:
    """`values` as the results of an operation on `inputs` whose gradients are `backward`.

    inputs: tensors that require grad, at least one; values: tensors without history.
    backward takes the gradients of the values (None where no one asked) and gives those of the inputs.
    """
    collected = _Collected(backward, len(values))
    meeting = make(Meeting(collected), *(x._node for x in inputs))
    return [Tensor._of(make(Result(collected, k), v._node, meeting)) for k, v in enumerate(values)]


def unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    """The slices of x along `dim`. Their gradients are stacked once, not padded and added slice by slice."""
    from ..tensor_shape import stack

    axis = dim % x.ndim
    plain = x.detach()
    slices = [plain[(slice(None),) * axis + (k,)] for k in range(x.shape[axis])]
    if not (x.requires_grad and mode.grad) or not slices:
        return slices

    def backward(grads: Gradients) -> Gradients:
        zero = Tensor._of(nodes.like(slices[0]._node, 0))
        return [stack([zero if g is None else g for g in grads], axis)]

    return joint([x], slices, backward)
