"""Streams and events of the device. It executes in order, so all streams are one. An event is the host's time after waiting for the device."""

from __future__ import annotations

import time
from typing import Any

import torch

from ..errors import DeviceError
from ..tensor import sync
from .sequences import flush


def synchronize(device: Any = None) -> None:
    """Compute all pending values, and wait for the device."""
    flush()
    sync()


class Stream(torch.Stream):
    """The only order in which the device computes: work that a program starts in it runs after all earlier work."""

    def __new__(cls, device: Any = None, priority: int = 0, **_: Any) -> Stream:
        return super().__new__(cls, device="webgpu", priority=priority)  # type: ignore[call-arg]

    def synchronize(self) -> None:
        synchronize()

    def query(self) -> bool:
        """Compute all pending values, and return True."""
        synchronize()
        return True

    def wait_stream(self, other: Any) -> None:
        """Nothing: there is one order."""

    def wait_event(self, event: Any) -> None:
        """Nothing: there is one order."""

    def record_event(self, event: Any = None) -> Any:
        """The event, or a new one, at this time."""
        event = event or Event(enable_timing=True)
        event.record(self)
        return event


class Event:
    """A point in time: `record` waits until all is computed and reads the clock; `elapsed_time` returns milliseconds."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        synchronize()
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing: there is one order."""

    def query(self) -> bool:
        """True: record has waited."""
        return True

    def synchronize(self) -> None:
        synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another. Raises DeviceError if one was not recorded, or has no timing."""
        if not (self.enable_timing and end_event.enable_timing):
            raise DeviceError("[Event.elapsed_time] an event does not time. Hint: Event(enable_timing=True).")
        if self._time is None or end_event._time is None:
            raise DeviceError("[Event.elapsed_time] an event was not recorded. Hint: event.record().")
        return (end_event._time - self._time) * 1000


class StreamContext:
    """A context without effect, because there is one stream."""

    def __init__(self, stream: Any = None) -> None:
        self.stream = stream

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def stream(stream: Any) -> StreamContext:
    """A context without effect, because there is one stream."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return Stream(device)


def set_stream(stream: Any) -> None:
    """Nothing: there is one."""


FUNCTIONS = (Event, Stream, StreamContext, current_stream, set_stream, stream, synchronize)
