"""Values on their way between processes while the device and the host go on.

In: exchange nodes whose inputs have storages, in an order that all processes keep. Out: the storages of their values. A value goes in parts: a part is
read from the device, sent, received, and put into the value's storage on the device. Or it takes a route: the device adds the values of all processes
itself, where it can read them. Between two calls only the device and the engine of the processes work; each call moves what it can.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..graph.node import Node
from ..runtime.device import Begun, Storage
from .exchange_times import NOT_MEASURED, Times
from .sums import Sums

PAUSE = 5e-5  # seconds between two looks at what is under way


class _Exchange(NamedTuple):
    """channel, number: of the node. name: in the profile."""

    channel: Any
    number: int
    name: str


class _Turn(NamedTuple):
    """A value that takes a route. begun: what the route gave. given: this process's value, which stays until it is added."""

    node: Node
    route: Any
    begun: Any
    given: Storage


class Travelling:
    """See the module. values: by a node's id, where results are put. sums: without it no value takes a route."""

    def __init__(self, device: Any, values: dict[int, Storage], times: Times, sums: Sums | None = None) -> None:
        self._device, self._values, self._times, self._sums = device, values, times, sums
        self._turns: dict[int, _Turn] = {}  # by exchange
        self._places: dict[int, Storage] = {}  # where sums go
        self._routes: list[Any] = []  # of all turns so far
        self._at_once = device.reads_at_once or times is not NOT_MEASURED  # measured, stages are over when they return
        self._exchanges: dict[int, _Exchange] = {}
        self._reading: deque[tuple[int, int, Begun]] = deque()  # what is on its way to the host: exchange, part
        # What other processes have to answer, by exchange and first element, with its bytes.
        self._started: dict[tuple[int, int], tuple[Any, int]] = {}
        self._coming: dict[int, tuple[Any, int]] = {}  # where parts go on the device, and how many have not come

    def read(self, node: Any, given: Storage, name: str) -> None:
        """Begin to read what an exchange sends."""
        key = id(node)
        self._exchanges[key] = _Exchange(node.primitive.channel, node.primitive.number, name)
        route = None if self._sums is None else node.primitive.channel.route(node, given, self._send_all)
        if route is not None:
            # Its place is written two turns later: this process must have read the turn before, not only seen that it is there.
            self.wait_for([turn.node for turn in self._turns.values() if turn.route is route])
            with self._times.span("read", name, given.nbytes):
                begun = route.begin(given)
            self._routes.append(route)
            self._times.begin(key, name, given.nbytes)
            self._turns[key] = _Turn(node, route, begun, given)
            return
        parts = self._device.begin_download(given, node.shape, node.dtype)
        self._coming[key] = self._device.begin_upload(node.shape, node.dtype), len(parts)
        self._reading.extend((key, k, part) for k, part in enumerate(parts))
        while self._at_once and self._reading:
            self._send()
            self.move()

    def advance(self) -> None:
        """Send what is read where the device has work enough under way: who submitted more would wait for it as well, and no exchange would
        have begun. What more there is to do on the host waits until the device has all its work."""
        self._add()
        while self._reading and not self._device.has_room:
            self._send()

    def wait_for(self, nodes: Sequence[Node]) -> None:
        """Put the values of exchanges that were begun to their storages."""
        mine = {id(node) for node in nodes}
        while any(key in self._turns or (key in self._coming and self._coming[key][1]) for key in mine):
            if self.move():
                continue
            if self._reading:
                time.sleep(PAUSE)
            elif self._turns:
                self._wait_for_others()
            else:
                self._receive(next(at for at in self._started if at[0] in mine))
        for key in [key for key in self._coming if key in mine]:
            filling, _ = self._coming.pop(key)
            with self._times.span("write", self._exchanges.pop(key).name):
                self._values[key] = filling.done()

    def move(self) -> bool:
        """Send the parts that are read, in order, and take in those that have come. Whether there was one."""
        found = self._add()
        while self._reading and self._reading[0][2].is_ready():
            self._send()
            found = True
        for at in [at for at in self._started if self._has_come(at)]:
            self._receive(at)
            found = True
            if self._reading and self._reading[0][2].is_ready():
                break  # others wait for what goes out
        return found

    def places(self, nodes: Sequence[Node]) -> dict[int, Storage] | None:
        """Storages for values under way that will be added, before they are: a program that reads them can be prepared. None where one comes in
        another way."""
        found: dict[int, Storage] = {}
        for key in {id(node) for node in nodes}:
            place = self._device.new_like(self._turns[key].given) if key in self._turns else None
            if place is None:
                return None
            found[key] = place
        self._places.update(found)
        return found

    def _add(self) -> bool:
        """Let the device add the values that all processes have shown. Whether there was one."""
        found = [key for key, turn in self._turns.items() if turn.route.is_done(turn.begun)]
        for key in found:
            node, route, begun, given = self._turns.pop(key)
            assert self._sums is not None
            name = self._exchanges.pop(key).name
            with self._times.span("wait", name, given.nbytes):
                values = route.finish(begun)
            self._times.end(key)
            with self._times.span("write", name, given.nbytes), self._times.span("compute", f"sum of {name}"):
                self._values[key] = self._sums.add(values, node, self._places.pop(key, None))
        return bool(found)

    def _wait_for_others(self) -> None:
        """Wait until a value that takes a route can be added."""
        first = self._exchanges[next(iter(self._turns))].name
        with self._times.span("wait", first):
            while not any(turn.route.is_done(turn.begun) for turn in self._turns.values()):
                time.sleep(PAUSE)

    def drop(self) -> None:
        """End the routes used so far, in all processes, because this process's next values would be taken for others."""
        for route in self._routes:
            route.end()

    @property
    def is_waiting(self) -> bool:
        """Whether a value that takes a route has not arrived."""
        return bool(self._turns)

    def _send_all(self) -> None:
        while self._reading:
            self._send()

    def _send(self) -> None:
        """Send the first part that is read, or will be."""
        key, number, part = self._reading.popleft()
        channel, own, name = self._exchanges[key]
        at = key, part.first
        with self._times.span("read", name, part.nbytes):
            array = part.finish()
        self._times.begin(at, name, array.nbytes)
        started = channel.start(array, (own, number) if number else own)
        self._started[at] = started, array.nbytes
        self._times.follow(at, started)

    def _has_come(self, at: tuple[int, int]) -> bool:
        return self._exchanges[at[0]].channel.is_done(self._started[at][0])

    def _receive(self, at: tuple[int, int]) -> None:
        key, first = at
        channel, _, name = self._exchanges[key]
        started, nbytes = self._started.pop(at)
        with self._times.span("wait", name, nbytes):
            array = channel.finish(started)
        self._times.end(at)
        filling, left = self._coming[key]
        with self._times.span("write", name, nbytes):
            filling.put(first, array)
        self._coming[key] = filling, left - 1
