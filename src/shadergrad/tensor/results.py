"""Operations with a gradient rule over tensors (primitives/joint.py): operations of several results, and users' autograd functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph.node import Node, make
from ..primitives.joint import Meeting, Result
from .base import TensorBase
from .handle import wrap

Gradients = Sequence[TensorBase | None]


@dataclass(frozen=True, eq=False)
class ByFunction(Meeting):
    """backward: from gradients by position, and the meeting's node, to those of the inputs."""

    backward: Any

    @property
    def name(self) -> str:
        return getattr(self.backward, "name", "joint")

    def gradients(self, grads: Mapping[int, Node], node: Node) -> Sequence[Node | None]:
        return self.backward({k: wrap(v) for k, v in grads.items()}, node)


def meet(inputs: Sequence[TensorBase], backward: Any) -> Node:
    """The node that collects the gradients of an operation's results. inputs: at least one requires grad."""
    return make(ByFunction(backward), *(x._node for x in inputs))


def result(value: TensorBase, meeting: Node, position: int) -> Node:
    """`value`, without history, as the result at `position` of the operation behind `meeting`."""
    return make(Result(position), value._node, meeting)


def joint(
    inputs: Sequence[TensorBase], values: Sequence[TensorBase], backward: Callable[[Gradients], Gradients]
) -> list[Any]:
    """`values` as the results of an operation on `inputs` whose gradient rule is `backward`.

    inputs: tensors that require grad, at least one; values: tensors without history.
    backward takes the gradients of the values (None if there is none) and returns those of the inputs.
    """

    def by_position(grads: dict[int, TensorBase], _: Node) -> list[Node | None]:
        found = backward([grads.get(k) for k in range(len(values))])
        return [None if g is None else g._node for g in found]

    meeting = meet(inputs, by_position)
    return [wrap(result(v, meeting, k)) for k, v in enumerate(values)]
