"""Several tensors that share one backward step.

A node has one value, so an operation with several results, or one that must see all its gradients at once, is made of
aliases: each result aliases its value, and all of them depend on a `Meeting`. A result hands its gradient to the
meeting, numbered; the backward pass visits the meeting after every result, when all gradients are known, and asks it
for the gradients of the inputs. Nothing is kept between two backward passes.
The nodes below leave no trace in a plan: the compiler looks through aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType
from ..graph.node import Node, make
from ..graph.primitive import Primitive, Shape
from .base import TensorBase
from .handle import wrap

Gradients = Sequence[TensorBase | None]


@dataclass(frozen=True, eq=False)
class Numbered(Primitive):
    """What a meeting gets for a gradient: those of its results by position. It is never computed."""

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype


class _Gathered(Node):
    """Gradients by position; where two meet, they unite."""

    __slots__ = ("grads",)

    def __init__(self, grads: dict[int, Node], meeting: Node) -> None:
        super().__init__(Numbered(), (), meeting.shape, meeting.dtype, meeting.device)
        self.grads = grads

    def __add__(self, other: Any) -> Node:
        united = dict(self.grads)
        for position, g in other.grads.items():
            united[position] = united[position] + g if position in united else g
        return _Gathered(united, self)


@dataclass(frozen=True, eq=False)
class Meeting(Primitive):
    """Where the gradients of several results meet; inputs: those of the joint operation. It has no value.

    backward: from gradients by position, and the meeting's node, to those of the inputs.
    """

    moves = True
    backward: Any

    @property
    def name(self) -> str:
        return getattr(self.backward, "name", "joint")

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (), inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        assert isinstance(g, _Gathered)
        return tuple(self.backward({k: wrap(v) for k, v in g.grads.items()}, node))


@dataclass(frozen=True, eq=False)
class Result(Primitive):
    """One of the results; inputs: its value, the meeting."""

    position: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return None, _Gathered({self.position: g}, node.inputs[1])


Result.kind = "alias"  # said here and not in the class, so that it is no record of the registry: no plan holds one


def meet(inputs: Sequence[TensorBase], backward: Any) -> Node:
    """The node at which the gradients of an operation's results meet. inputs: at least one requires grad."""
    return make(Meeting(backward), *(x._node for x in inputs))


def result(value: TensorBase, meeting: Node, position: int) -> Node:
    """`value`, without history, as the result at `position` of the operation behind `meeting`."""
    return make(Result(position), value._node, meeting)


def joint(
    inputs: Sequence[TensorBase], values: Sequence[TensorBase], backward: Callable[[Gradients], Gradients]
) -> list[Any]:
    """`values` as the results of an operation on `inputs` whose gradients are `backward`.

    inputs: tensors that require grad, at least one; values: tensors without history.
    backward takes the gradients of the values (None where no one asked) and gives those of the inputs.
    """

    def by_position(grads: dict[int, TensorBase], _: Node) -> list[Node | None]:
        found = backward([grads.get(k) for k in range(len(values))])
        return [None if g is None else g._node for g in found]

    meeting = meet(inputs, by_position)
    return [wrap(result(v, meeting, k)) for k, v in enumerate(values)]
