"""Threads that the cpu device computes with, beside the one that calls.

In: work in pieces that do not depend on each other. Out: all of it done, once. NumPy's loops run without the interpreter's
lock; what stands between them does not, so more than a few threads wait for each other.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

from ..config import threads_said

Piece = TypeVar("Piece")

MOST_THREADS = 4
UNASKED = 2  # threads where nobody says a number: more were not measured


@cache
def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def usual() -> int:
    """The threads to compute with where nobody has set a number: what the environment says, no more than cores."""
    return min(cores(), threads_said() or UNASKED, MOST_THREADS)


_chosen: int | None = None


def count() -> int:
    """The threads to compute with, that of the caller among them."""
    return usual() if _chosen is None else _chosen


def choose(number: int) -> None:
    """Compute with `number` threads from now on."""
    global _chosen
    _chosen = number


def share(pieces: Sequence[Piece], work: Callable[[Iterator[Piece]], None], threads: int) -> None:
    """Call `work` here and in threads - 1 others (of MOST_THREADS at most), each with pieces that no other gets. What it
    raises anywhere is raised here, once nobody works any more. Threads that come too late are not waited for."""
    left = deque(pieces)

    def taken() -> Iterator[Piece]:
        while left:
            try:
                yield left.popleft()
            except IndexError:  # another took the last one
                return

    def elsewhere() -> None:
        try:
            with np.errstate(all="ignore"):  # as in the caller's thread: each has its own
                work(taken())
        except BaseException:
            left.clear()
            raise

    others = _start(elsewhere, min(threads, len(pieces), MOST_THREADS) - 1)
    try:
        work(taken())
    finally:
        left.clear()
        failures = [other.exception() for other in others if not other.cancel()]
    if any(failures):
        try:
            raise next(filter(None, failures))
        finally:  # lest the error, its frames and what they hold keep each other alive
            del others, failures


def _start(work: Callable[[], None], number: int) -> list[Future[None]]:
    """The calls of `work` under way: none where there can be no more threads, as when the interpreter shuts down."""
    started: list[Future[None]] = []
    try:
        for _ in range(number):
            started.append(_others().submit(work))
    except RuntimeError:
        _others.cache_clear()  # with what it has taken on already
    return started


@cache
def _others() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS - 1, "compute")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_others.cache_clear)  # the threads were left behind
