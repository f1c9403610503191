"""Kernel times for profilers. In: reports of the programs that ran. Out: a list of them, in order.

Programs check `listeners` at each run. If there is one, they run their kernels one by one and time each: with the
GPU's clock if the adapter has timestamp queries, else with the host's, which waits for each kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from ..explanation import NOWHERE, Note, Origin
from ..plan import Kernel

now = time.perf_counter
Kind = Literal["compute", "read", "exchange", "wait", "write"]


@dataclass(frozen=True)
class Timed:
    """One kernel that ran. start: seconds on `clock` ("device" or "host"; the device's begins with its first run). origin: of
    its nodes. heard: when it was reported, on the host's clock.
    """

    device: str
    clock: str
    kernel: Kernel
    workgroups: int
    start: float
    seconds: float
    run: int  # which run of a plan, counted through the process
    origin: Origin = NOWHERE
    heard: float = field(default_factory=now)


@dataclass(frozen=True)
class Span:
    """A part of the time of a program that exchanges values with other processes, on the host's clock. kind: a stage is computed; values
    are read, exchanged, waited for, written back. nbytes: of the values.
    """

    device: str
    kind: Kind
    name: str
    start: float
    seconds: float
    nbytes: int = 0

    @property
    def end(self) -> float:
        return self.start + self.seconds


def hidden_share(spans: Sequence[Span]) -> float | None:
    """The share of communication during which the program did not wait; None without communication."""
    exchanges = _joined([s for s in spans if s.kind == "exchange"])
    waits = _joined([s for s in spans if s.kind == "wait"])
    whole = sum(end - start for start, end in exchanges)
    if not whole:
        return None
    waited = sum(max(0.0, min(end, b) - max(start, a)) for start, end in exchanges for a, b in waits)
    return 1.0 - waited / whole


def _joined(spans: Sequence[Span]) -> list[tuple[float, float]]:
    """The union of the spans' time intervals."""
    found: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda s: s.start):
        if found and span.start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], span.end)
        else:
            found.append((span.start, span.end))
    return found


span_listeners: list[Callable[[Span], None]] = []


def tell(span: Span) -> None:
    for listener in span_listeners:
        listener(span)


@contextmanager
def listening_to_spans(listener: Callable[[Span], None]) -> Iterator[None]:
    """A context in which `listener` is called for each span that ends."""
    span_listeners.append(listener)
    try:
        yield
    finally:
        span_listeners.remove(listener)


listeners: list[Callable[[Timed], None]] = []
_notes: Sequence[Note] = ()  # of the plan that runs
_runs = 0


def next_run() -> int:
    global _runs
    _runs += 1
    return _runs


@contextmanager
def listening(listener: Callable[[Timed], None], alone: bool = False) -> Iterator[None]:
    """A context in which `listener` is called for each kernel that runs; alone: no other listener is."""
    before = listeners[:]
    listeners[:] = [listener] if alone else [*before, listener]
    try:
        yield
    finally:
        listeners[:] = before


@contextmanager
def noting(notes: Sequence[Note]) -> Iterator[None]:
    """A context for one plan with these notes."""
    global _notes
    before, _notes = _notes, notes
    try:
        yield
    finally:
        _notes = before


def origins(dispatches: int) -> list[Origin]:
    """The origins of the running plan's dispatches; empty if unknown."""
    return [note.origin for note in _notes] if len(_notes) == dispatches else [NOWHERE] * dispatches


def report(timed: Timed) -> None:
    for listener in listeners:
        listener(timed)
