"""Anomaly detection by PyTorch's names, without effect: errors of gradients name the operation's line in any case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def detect_anomaly(check_nan: bool = True) -> Iterator[None]:
    """Has no effect: gradient errors always point at the operation's line, and nothing searches for NaN.

    >>> with sg.autograd.detect_anomaly():
    ...     y = sg.ones(2)
    """
    yield


class set_detect_anomaly:
    """Has no effect, as `detect_anomaly`; a call or a context.

    >>> _ = sg.autograd.set_detect_anomaly(True)
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return
