"""Operations of several results with one gradient rule.

A node has one value. So an operation with several results, or one whose rule needs all gradients at once, is built of
aliases: each result aliases its value, and all of them depend on a `Meeting`. A result passes its numbered gradient to the
meeting. The backward pass visits the meeting after every result, when all gradients are known, and asks it
for the gradients of the inputs. Nothing is kept between two backward passes.
No plan contains these nodes: the compiler looks through aliases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType
from ..graph import build
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape


@dataclass(frozen=True, eq=False)
class Numbered(Primitive):
    """A gradient for a meeting, with the position of its result. It is never computed."""

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype


class Gathered(Node):
    """Gradients by position; two of them are merged."""

    __slots__ = ("grads",)

    def __init__(self, grads: dict[int, Node], meeting: Node) -> None:
        super().__init__(Numbered(), (), meeting.shape, meeting.dtype, meeting.device)
        self.grads = grads

    def __add__(self, other: Any) -> Node:
        united = dict(self.grads)
        for position, g in other.grads.items():
            united[position] = united[position] + g if position in united else g
        return Gathered(united, self)


@dataclass(frozen=True, eq=False)
class Meeting(Primitive):
    """Collects the gradients of several results; inputs: those of the joint operation. It has no value."""

    moves = True
    gathers = True

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (), inputs[0].dtype

    def gradients(self, grads: Mapping[int, Node], node: Node) -> Sequence[Node | None]:
        """The gradients of the inputs, from those of the results by position. node: the meeting's."""
        raise NotImplementedError

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        assert isinstance(g, Gathered)
        return tuple(self.gradients(g.grads, node))


@dataclass(frozen=True, eq=False)
class Unbound(Meeting):
    """The slices along an axis: their gradients are stacked once, instead of padded and added slice by slice."""

    axis: int

    def gradients(self, grads: Mapping[int, Node], node: Node) -> Sequence[Node | None]:
        (x,) = node.inputs
        one = tuple(1 if a == self.axis else n for a, n in enumerate(x.shape))
        zero = build.constant(0, x.dtype, x.device, one)
        parts = [build.reshape(grads[k], one) if k in grads else zero for k in range(x.shape[self.axis])]
        return [build.cat(parts, self.axis)]


@dataclass(frozen=True, eq=False)
class Result(Primitive):
    """One of the results; inputs: its value, the meeting."""

    gathers = True
    position: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return None, Gathered({self.position: g}, node.inputs[1])


Result.kind = "alias"  # set here, so that it has no record in the registry: no plan contains one


@dataclass(frozen=True, eq=False)
class SharedWeight(Meeting):
    """A linear layer that is applied many times. Inputs: the weight (outs, features), and the bias (outs,) if there is one. The gradient of the weight
    is one matrix multiplication over all calls; a sum of one for each call would write the weight's size as many times."""

    def gradients(self, grads: Mapping[int, Node], node: Node) -> Sequence[Node | None]:
        g, x = (_rows([grads[k] for k in sorted(grads) if k % 2 == part]) for part in range(2))
        one = tuple(build.reshape(a, (1, *a.shape)) for a in (g, x))
        weight = build.reshape(build.dot(build.transpose(one[0]), one[1]), node.inputs[0].shape)
        return [weight, *(build.reshape(build.sum_over(g, (0,)), b.shape) for b in node.inputs[1:])]


def _rows(parts: Sequence[Node]) -> Node:
    """Matrices concatenated along their rows. They are stacked first, as the gradient of `Unbound` is, so that equal stacks are computed once."""
    n, size = parts[0].shape
    if any(p.shape[0] != n for p in parts):
        return build.cat(parts, 0)
    stacked = build.cat([build.reshape(p, (1, n, size)) for p in parts], 0)
    return build.reshape(stacked, (len(parts) * n, size))


@dataclass(frozen=True, eq=False)
class SharedProduct(Primitive):
    """One call of a shared linear layer. Inputs: its value, the meeting, the layer's input (n, features), the weight."""

    gathers = True
    position: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        _, meeting, x, weight = node.inputs
        dx = None
        if x.requires_grad:
            dx = build.reshape(build.dot(*(build.reshape(a, (1, *a.shape)) for a in (g, weight))), x.shape)
        return None, Gathered({2 * self.position: g, 2 * self.position + 1: x}, meeting), dx, None


SharedProduct.kind = "alias"  # as for Result
