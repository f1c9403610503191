"""The threads that run native kernels: one pool in a process. In: a function and a number of units. Out: nothing; all ranges have run.

A range is a stretch of units, and what a kernel computes of a unit does not depend on the range that it is in: results are the same
for any number of threads. The calling thread takes the last range itself. Workers let the interpreter lock go while they compute.
A forked child makes threads of its own when it first needs them.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..config import openmp_threads
from ..system import interrupts

Function = Callable[[int, int, int], Any]
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds a period


def _cores() -> int:
    """The processors that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        quota, period = QUOTA.read_text().split()
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


class Pool:
    """Workers, started when they are first needed."""

    def __init__(self) -> None:
        self._wanted: int | None = None
        self._reset()

    def _reset(self) -> None:
        self._jobs: list[SimpleQueue[Any]] = []
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._busy = threading.Lock()  # a second thread of the program's runs its kernels by itself meanwhile

    @property
    def count(self) -> int:
        """The most threads that run a kernel."""
        if self._wanted is None:
            self._wanted = min(openmp_threads() or 1 << 16, _cores())
        return self._wanted

    def limit(self, count: int) -> None:
        """Use so many threads at most."""
        self._wanted = count

    @interrupts.whole
    def run(self, function: Function, table: int, units: int, least: int) -> None:
        """Call `function(table, begin, end)` for ranges of at least `least` units."""
        parts = min(self.count, units // least)
        if parts <= 1 or not self._busy.acquire(blocking=False):
            function(table, 0, units)
            return
        try:
            while len(self._jobs) < parts - 1:
                self._start()
            ends = [units * k // parts for k in range(parts + 1)]
            for k in range(parts - 1):
                self._jobs[k].put((function, table, ends[k], ends[k + 1]))
            try:
                function(table, ends[-2], units)
            finally:
                errors = [self._done.get() for _ in range(parts - 1)]
            for error in filter(None, errors):
                raise error
        finally:
            self._busy.release()

    def _start(self) -> None:
        jobs: SimpleQueue[Any] = SimpleQueue()
        self._jobs.append(jobs)
        threading.Thread(target=_work, args=(jobs, self._done), name=f"kernels-{len(self._jobs)}", daemon=True).start()


def _work(jobs: SimpleQueue[Any], done: SimpleQueue[BaseException | None]) -> None:
    while True:
        function, table, begin, end = jobs.get()
        try:
            function(table, begin, end)
        except BaseException as error:  # told to whoever waits
            done.put(error)
        else:
            done.put(None)


pool = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool._reset)
