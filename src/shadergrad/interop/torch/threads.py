"""Sets the number of PyTorch's threads within a context. In: a requested number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..errors import InteropError


def default_threads() -> int:
    """The number of cores of this process, minus 2 for the driver and Python; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 2)


def check_threads(threads: int | None) -> int:
    """The number of threads, by default that of `default_threads`. Raises InteropError below 1."""
    if threads is None:
        return default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InteropError(f"[mirror] threads is {threads!r}; it must be a number, at least 1.")
    return threads


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """A context in which PyTorch uses this number of threads."""
    before = torch.get_num_threads()
    if before != threads:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if before != threads:
            torch.set_num_threads(before)
