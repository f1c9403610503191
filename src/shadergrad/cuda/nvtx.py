"""Labels for NVIDIA's profilers, which see nothing of WebGPU: they may be set, and nobody reads them. sg.profile measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def range_push(msg: str) -> int:
    """0: nobody reads the label.

    >>> sg.cuda.nvtx.range_push("forward")
    0
    """
    return 0


def range_pop() -> int:
    """0: nobody reads the label.

    >>> sg.cuda.nvtx.range_pop()
    0
    """
    return 0


def mark(msg: str) -> None:
    """Nothing: nobody reads the label.

    >>> sg.cuda.nvtx.mark("here")
    """


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # PyTorch's name
    """Nothing changes within: nobody reads the label.

    >>> with sg.cuda.nvtx.range("forward"):
    ...     pass
    """
    yield


__all__ = ["mark", "range", "range_pop", "range_push"]
