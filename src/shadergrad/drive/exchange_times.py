"""Where the time of a program with exchanges goes, while somebody measures: stages, copies, exchanges, waiting, by the host's clock.

In: what a staged program does. Out: spans (runtime/timing.py). An exchange ends when its values are there, which a thread looks after; where
the engine cannot be asked from a thread, when it is waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ..runtime import timing
from ..runtime.timing import Kind, Span

LOOK = 0.0002  # seconds between two looks


class Times:
    """Of one run."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._latest = 0.0  # end of a span
        self._under_way: dict[Hashable, tuple[float, int, str, _Look | None]] = {}

    @contextmanager
    def span(self, kind: Kind, name: str, nbytes: int = 0) -> Iterator[None]:
        """What happens inside."""
        start = timing.now()
        yield
        self._latest = timing.now()
        timing.tell(Span(self._device, kind, name, start, self._latest - start, nbytes))

    def begin(self, key: Hashable, name: str, nbytes: int) -> None:
        """An exchange begins."""
        self._under_way[key] = timing.now(), nbytes, name, None

    def follow(self, key: Hashable, started: Any) -> None:
        """It is under way: started is what the channel gave, whose first part is what is waited for."""
        pending = started[0] if isinstance(started, tuple) else None
        if getattr(pending, "may_be_watched", False):
            start, nbytes, name, _ = self._under_way[key]
            self._under_way[key] = start, nbytes, name, _Look(pending)

    def end(self, key: Hashable) -> None:
        """It was waited for, in the latest span."""
        start, nbytes, name, look = self._under_way.pop(key)
        end = self._latest if look is None else min(self._latest, look.end())
        timing.tell(Span(self._device, "exchange", name, start, end - start, nbytes))


class _NotMeasured(Times):
    """Nobody measures: nothing is noted."""

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
    """Notes when something is done."""

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
