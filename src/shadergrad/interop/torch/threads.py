"""How many threads PyTorch computes with. In: a wish. Out: the number, for the time of a block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..errors import InteropError


def default_threads() -> int:
    """The cores that this process may use less 2, which the driver and Python keep; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 2)


def check_threads(threads: int | None) -> int:
    """The number of threads; None: the default. Raises InteropError below 1."""
    if threads is None:
        return default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InteropError(f"[mirror] threads is {threads!r}; it must be a number, at least 1.")
    return threads


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Within, PyTorch computes with so many threads."""
    before = torch.get_num_threads()
    if before != threads:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if before != threads:
            torch.set_num_threads(before)
