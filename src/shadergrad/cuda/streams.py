"""Streams and events. A device computes in one order, so every stream is that one; an event is a time on the host after a wait."""

from __future__ import annotations

import time
from typing import Any

from ..errors import DeviceError
from ..runtime.device import standing_for
from ..tensor import sync


class Stream:
    """The only stream: the device computes in the order of submission.

    Raises DeviceError if there is no device behind 'cuda'.

    >>> try:
    ...     sg.cuda.Stream()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:13])
    [cuda.Stream]
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        if standing_for("cuda") is None:
            raise DeviceError("[cuda.Stream] CUDA is not there. Hint: sg.sync() waits for all devices.")
        self.device = device
        self.priority = priority

    def synchronize(self) -> None:
        """Wait until all is computed."""
        sync()

    def query(self) -> bool:
        """Compute all pending values, and return True."""
        sync()
        return True

    def wait_stream(self, stream: Any) -> None:
        """Nothing: there is one order."""

    def wait_event(self, event: Any) -> None:
        """Nothing: there is one order."""

    def record_event(self, event: Any = None) -> Any:
        """The event, or a new one, at this time."""
        event = event or Event(enable_timing=True)
        event.record(self)
        return event


class StreamContext:
    """Within, all is computed in the same order as outside.

    >>> with sg.cuda.StreamContext(None):
    ...     pass
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """A context within which all is computed in the same order as outside.

    >>> with sg.cuda.stream(None):
    ...     pass
    """
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The one stream. Raises DeviceError if there is no device behind 'cuda'.

    >>> try:
    ...     sg.cuda.current_stream()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:13])
    [cuda.Stream]
    """
    return Stream(device)


def default_stream(device: Any = None) -> Stream:
    """The one stream, as current_stream.

    >>> try:
    ...     sg.cuda.default_stream()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:13])
    [cuda.Stream]
    """
    return Stream(device)


def is_current_stream_capturing() -> bool:
    """False: there are no CUDA graphs.

    >>> sg.cuda.is_current_stream_capturing()
    False
    """
    return False


class Event:
    """A point in time: `record` waits for the device and reads the clock; `elapsed_time` gives milliseconds.

    Raises DeviceError if there is no device behind 'cuda'.

    >>> try:
    ...     sg.cuda.Event(enable_timing=True)
    ... except sg.DeviceError as error:
    ...     print(str(error)[:12])
    [cuda.Event]
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if standing_for("cuda") is None:
            raise DeviceError("[cuda.Event] CUDA is not there. Hint: sg.sync(), then time.perf_counter().")
        self.enable_timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Wait until all is computed, and read the clock."""
        sync()
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing: there is one order."""

    def query(self) -> bool:
        """True: record has waited."""
        return True

    def synchronize(self) -> None:
        """Wait until all is computed."""
        sync()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another. Raises DeviceError where one was not recorded, or does not time."""
        if not (self.enable_timing and end_event.enable_timing):
            raise DeviceError("[Event.elapsed_time] an event does not time. Hint: Event(enable_timing=True).")
        if self._time is None or end_event._time is None:
            raise DeviceError("[Event.elapsed_time] an event was not recorded. Hint: event.record().")
        return (end_event._time - self._time) * 1000


__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "is_current_stream_capturing",
    "stream",
]
