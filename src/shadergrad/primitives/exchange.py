"""A collective operation of several processes, as a node of the graph.

In: this process's value. Out: the result of all processes, which a channel computes on the host. No plan contains such a node:
drive/stages.py cuts the graph there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..graph.node import Node, make
from ..graph.primitive import Primitive, Shape

BACKWARDS = 1 << 20  # gradients are exchanged in the opposite order


class Channel(Protocol):
    """Transports values between processes. All of them start the same exchanges in the same order, each by its number. casts: whether
    it supports halves.
    """

    @property
    def casts(self) -> bool:
        raise NotImplementedError

    def start(self, array: np.ndarray, number: int) -> Any:
        """Start with an array, which it may overwrite. Returns the argument of finish."""

    def is_done(self, started: Any) -> bool:
        """Whether `finish` would not wait."""
        raise NotImplementedError

    def finish(self, started: Any) -> np.ndarray:
        """The common value, of the array's shape and dtype. Waits for the others; raises their errors."""
        raise NotImplementedError

    def backward(self) -> Channel:
        """The channel of the gradient: for a sum the same."""
        raise NotImplementedError

    def route(self, node: Node, given: Any, send_all: Callable[[], None]) -> Route | None:
        """How the devices of all processes add the values of an exchange, where they can. given: the storage of this one's. send_all: what is
        called before the processes talk about it, which they do once: what was begun before must be sent, in the order that all keep."""
        raise NotImplementedError


class Route(Protocol):
    """An exchange whose sum each device computes from the values of all processes."""

    def begin(self, given: Any) -> Any:
        """Begin to show the others a value, by its storage. Gives what the others take."""

    def is_done(self, turn: Any) -> bool:
        """Whether the values of all processes can be read. Who begins asks until they can: the others learn so of this process's value.
        Raises what went wrong there."""
        raise NotImplementedError

    def finish(self, turn: Any) -> list[Any]:
        """The storages of all values, in the order of the ranks, to be read at once."""
        raise NotImplementedError

    def end(self) -> None:
        """End the exchange for all processes: their next calls raise an error."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Exchange(Primitive):
    """The common value of all processes, in place of this one's. number: its position among the exchanges of a program."""

    channel: Any
    number: int

    @property
    def moves(self) -> bool:  # type: ignore[override]
        """Whether halves are exchanged as they are; else in float32, as in all computations with halves."""
        return bool(self.channel.casts)

    def infer(self, *inputs: Node) -> tuple[Shape, Any]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return (exchanged(g, self.channel.backward(), BACKWARDS - self.number),)


Exchange.kind = "exchange"  # said here and not in the class, so that it is no record of the registry: no plan holds one


def exchanged(node: Node, channel: Channel, number: int) -> Node:
    """The common value of all processes. number: among exchanges that may run in any order, the lower one runs first."""
    return make(Exchange(channel, number), node)
