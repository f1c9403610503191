"""Times of kernels while somebody measures. In: what programs ran, from the devices. Out: a list of it, in order.

Programs look at `listeners` at each run. Where there is one, they run their kernels one by one, with a clock between: the
GPU's own, where the adapter has timestamp queries, else the host's, which waits for each kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..plan import Kernel


@dataclass(frozen=True)
class Timed:
    """One kernel that ran. start: seconds on `clock` ("device" or "host"; the device's begins with its first run)."""

    device: str
    clock: str
    kernel: Kernel
    workgroups: int
    start: float
    seconds: float
    run: int  # which run of a plan, counted through the process


listeners: list[Callable[[Timed], None]] = []
_runs = 0


def next_run() -> int:
    global _runs
    _runs += 1
    return _runs


@contextmanager
def listening(listener: Callable[[Timed], None], alone: bool = False) -> Iterator[None]:
    """Have `listener` called for each kernel that runs meanwhile; alone: and nobody else."""
    before = listeners[:]
    listeners[:] = [listener] if alone else [*before, listener]
    try:
        yield
    finally:
        listeners[:] = before


def report(timed: Timed) -> None:
    for listener in listeners:
        listener(timed)


now = time.perf_counter
