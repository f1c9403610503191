"""Sums over processes that start in one training step and are used in a later one.

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
    """A value that is being exchanged. node: the node of the result."""

    node: Node


class InFlight:
    """Exchanges of values of one device through a channel, which has no other user. name: the name in the profile."""

    def __init__(self, channel: Channel, name: str) -> None:
        self._channel, self._name = channel, name
        self._values: dict[int, Storage] = {}  # the results that have arrived, by node
        self._travelling: Travelling | None = None
        self._sums = Sums(execute.load_graph)
        self._under_way = 0

    def begin(self, value: Tensor, number: int) -> Flight:
        """Send a value, which is computed first. It stays as it is until it is finished. number: of which no other is under way."""
        execute.realize([value._node])
        node = exchanged(value._node, self._channel, number)
        if self._travelling is None or not self._under_way:  # a profiler may have started or ended meanwhile
            times = Times(node.device) if timing.span_listeners else NOT_MEASURED
            self._travelling = Travelling(get_device(node.device), self._values, times, self._sums)
        self._travelling.read(node, value._node.storage, self._name)
        self._under_way += 1
        return Flight(node)

    def move(self) -> None:
        """Send the parts that the device has read, and write those that have arrived to it, without waiting."""
        if self._travelling is not None:
            self._travelling.move()

    def finish(self, flight: Flight) -> Tensor:
        """Wait for the result, and return it on the device of the value."""
        node = flight.node
        assert self._travelling is not None
        self._travelling.wait_for([node])
        self._under_way -= 1
        return Tensor._of(leaf(self._values.pop(id(node)), node.shape, node.dtype, node.device))
