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
    """Exchanges values between processes. All processes start the same exchanges in the same order, each by its number. casts: whether
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
        """The channel of the gradient; for a sum it is the same channel."""
        raise NotImplementedError

    def route(self, node: Node, given: Any, send_all: Callable[[], None]) -> Route | None:
        """The route on which the devices of all processes add the values of an exchange; None if they cannot. given: the storage of this
        process's value. send_all: called before the processes agree on a route, which they do once. It sends all exchanges that began
        earlier, in the common order."""
        raise NotImplementedError


class Route(Protocol):
    """An exchange whose sum each device computes from the values of all processes."""

    def begin(self, given: Any) -> Any:
        """Begin to share a value, by its storage, with the other processes. Returns the argument of is_done and finish."""

    def is_done(self, turn: Any) -> bool:
        """Whether the values of all processes can be read. Call it after `begin` until it is true, because the call also announces this
        process's value to the others. Raises the errors of other processes."""
        raise NotImplementedError

    def finish(self, turn: Any) -> list[Any]:
        """The storages of all values, in the order of the ranks. Read them immediately."""
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


Exchange.kind = "exchange"  # set here, so that it has no record in the registry: no plan contains one


def exchanged(node: Node, channel: Channel, number: int) -> Node:
    """The common value of all processes. number: among exchanges that may run in any order, the lower one runs first."""
    return make(Exchange(channel, number), node)
