"""Times of kernels while somebody measures. In: what programs ran, from the devices. Out: a list of it, in order.

Programs look at `listeners` at each run. Where there is one, they run their kernels one by one, with a clock between: the
GPU's own, where the adapter has timestamp queries, else the host's, which waits for each kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..explanation import NOWHERE, Note, Origin
from ..plan import Kernel


@dataclass(frozen=True)
class Timed:
    """One kernel that ran. start: seconds on `clock` ("device" or "host"; the device's begins with its first run). origin: of
    what it computes."""

    device: str
    clock: str
    kernel: Kernel
    workgroups: int
    start: float
    seconds: float
    run: int  # which run of a plan, counted through the process
    origin: Origin = NOWHERE


listeners: list[Callable[[Timed], None]] = []
_notes: Sequence[Note] = ()  # of the plan that runs
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


@contextmanager
def noting(notes: Sequence[Note]) -> Iterator[None]:
    """What runs inside is one plan, with these notes."""
    global _notes
    before, _notes = _notes, notes
    try:
        yield
    finally:
        _notes = before


def origins(dispatches: int) -> list[Origin]:
    """Of the dispatches of the plan that runs; nowhere, where it is not known."""
    return [note.origin for note in _notes] if len(_notes) == dispatches else [NOWHERE] * dispatches


def report(timed: Timed) -> None:
    for listener in listeners:
        listener(timed)


now = time.perf_counter
