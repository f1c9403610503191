"""Handles of asynchronous operations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .engines import Pending


class Work:
    """What an operation with async_op=True gives. Its tensors have their new values once wait() has returned, or is_completed()
    was true.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = sg.ones(2)
    >>> sg.distributed.all_reduce(x, async_op=True).wait()
    True
    >>> sg.distributed.destroy_process_group()
    """

    def __init__(self, pending: Pending, finish: Callable[[], Any]) -> None:
        self._pending, self._finish = pending, finish
        self._is_done = False
        self._result: Any = None

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Return when the operation is done. timeout: seconds or a timedelta. Raises DistBackendError where it failed."""
        if not self._is_done:
            seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
            self._pending.wait(seconds)
            self._result = self._finish()
            self._is_done = True
            del self._finish
        return True

    def is_completed(self) -> bool:
        """Whether it is done. Raises DistBackendError where it failed."""
        return self._is_done or (self._pending.is_completed() and self.wait())

    def is_success(self) -> bool:
        """Whether it is done, and did not fail."""
        return self._is_done

    def result(self) -> Any:
        """Its tensors, after wait()."""
        return self._result if self.wait() else None

    def get_future(self) -> Future:
        """Its tensors to come."""
        return Future(self)


class Future:
    """Values to come, as PyTorch's torch.futures.Future: wait(), value(), done(), then().

    >>> future = sg.distributed.Future()
    >>> future.set_result(3)
    >>> future.then(lambda f: f.value() + 1).wait()
    4
    """

    def __init__(self, work: Work | None = None, of: Callable[[], Any] | None = None) -> None:
        self._work, self._of = work, of
        self._value: Any = None
        self._is_set = False

    def set_result(self, result: Any) -> None:
        """Give it its value."""
        self._value, self._is_set = result, True

    def done(self) -> bool:
        """Whether the value is available."""
        return self._is_set or (self._work is not None and self._work.is_completed())

    def wait(self) -> Any:
        """Wait for the value, and return it. Raises the error of the operation."""
        if not self._is_set:
            if self._work is not None:
                self._work.wait()
                self.set_result(self._work.result())
            elif self._of is not None:
                self.set_result(self._of())
        return self._value

    def value(self) -> Any:
        """The value."""
        return self.wait()

    def then(self, callback: Callable[[Any], Any]) -> Future:
        """What callback(this future) gives, once the value is there; computed when somebody waits for it."""
        return Future(of=lambda: callback(_ready(self)))


def _ready(future: Future) -> Future:
    future.wait()
    return future
