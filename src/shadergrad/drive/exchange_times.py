"""Measures a program with exchanges, for profilers: stages, copies, exchanges and waits, by the host's clock.

In: the actions of a staged program. Out: spans (runtime/timing.py). An exchange ends when its values have arrived, which a thread observes. If the
engine does not allow questions from another thread, it ends when the host has waited for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ..runtime import timing
from ..runtime.timing import Kind, Span

LOOK = 0.0002  # seconds between two queries


class Times:
    """The times of one run."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._latest = 0.0  # end of a span
        self._under_way: dict[Hashable, tuple[float, int, str, _Look | None]] = {}

    @contextmanager
    def span(self, kind: Kind, name: str, nbytes: int = 0) -> Iterator[None]:
        """A context whose duration is recorded."""
        start = timing.now()
        yield
        self._latest = timing.now()
        timing.tell(Span(self._device, kind, name, start, self._latest - start, nbytes))

    def begin(self, key: Hashable, name: str, nbytes: int) -> None:
        """Record the start of an exchange."""
        self._under_way[key] = timing.now(), nbytes, name, None

    def follow(self, key: Hashable, started: Any) -> None:
        """Observe an exchange until it ends. started: the channel's result, whose first part is the operation to wait for."""
        pending = started[0] if isinstance(started, tuple) else None
        if getattr(pending, "may_be_watched", False):
            start, nbytes, name, _ = self._under_way[key]
            self._under_way[key] = start, nbytes, name, _Look(pending)

    def end(self, key: Hashable) -> None:
        """Record that the latest span waited for the end of an exchange."""
        start, nbytes, name, look = self._under_way.pop(key)
        end = self._latest if look is None else min(self._latest, look.end())
        timing.tell(Span(self._device, "exchange", name, start, end - start, nbytes))


class _NotMeasured(Times):
    """Times that record nothing, while no profiler is active."""

    def __init__(self) -> None:
        super().__init__("")
        self._inside = nullcontext()

    def span(self, kind: Kind, name: str, nbytes: int = 0) -> Any:
        return self._inside

    def begin(self, key: Hashable, name: str, nbytes: int) -> None: ...

    def follow(self, key: Hashable, started: Any) -> None: ...

    def end(self, key: Hashable) -> None: ...


NOT_MEASURED = _NotMeasured()


class _Look(threading.Thread):
    """Records when an operation is done."""

    def __init__(self, pending: Any) -> None:
        super().__init__(name="shadergrad-exchange-times", daemon=True)
        self._pending, self._end = pending, 0.0
        self.start()

    def run(self) -> None:
        while not self._pending.is_completed():
            time.sleep(LOOK)
        self._end = timing.now()

    def end(self) -> float:
        self.join()
        return self._end
