"""Sums over processes that begin in one step of a training and are wanted in a later one.

In: tensors, in the order that all processes keep. Out: their values of all processes. Between two calls the devices and the engine go on alone, so a
program calls `move` from time to time.
"""

from __future__ import annotations

from typing import NamedTuple

from ..drive import execute
from ..drive.exchange_times import NOT_MEASURED, Times
from ..drive.sums import Sums
from ..drive.travelling import Travelling
from ..graph.node import Node, leaf
from ..primitives.exchange import exchanged
from ..runtime import timing
from ..runtime.device import Storage, get_device
from ..tensor import Tensor
from .channels import Channel


class Flight(NamedTuple):
    """A value under way. node: of the value of all processes."""

    node: Node


class InFlight:
    """Values of one device that travel through a channel, which nothing else uses. name: in the profile."""

    def __init__(self, channel: Channel, name: str) -> None:
        self._channel, self._name = channel, name
        self._values: dict[int, Storage] = {}  # that have come, by node
        self._travelling: Travelling | None = None
        self._sums = Sums(execute.load_graph)
        self._under_way = 0

    def begin(self, value: Tensor, number: int) -> Flight:
        """Send a value, which is computed first. It stays as it is until it is finished. number: of which no other is under way."""
        execute.realize([value._node])
        node = exchanged(value._node, self._channel, number)
        if self._travelling is None or not self._under_way:  # whether somebody measures is asked anew
            times = Times(node.device) if timing.span_listeners else NOT_MEASURED
            self._travelling = Travelling(get_device(node.device), self._values, times, self._sums)
        self._travelling.read(node, value._node.storage, self._name)
        self._under_way += 1
        return Flight(node)

    def move(self) -> None:
        """Send what the device has read, and give it what has come, without waiting."""
        if self._travelling is not None:
            self._travelling.move()

    def finish(self, flight: Flight) -> Tensor:
        """The value of all processes, on the device that it was sent from. Waits for it."""
        node = flight.node
        assert self._travelling is not None
        self._travelling.wait_for([node])
        self._under_way -= 1
        return Tensor._of(leaf(self._values.pop(id(node)), node.shape, node.dtype, node.device))
