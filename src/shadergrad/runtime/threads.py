"""The thread pool of native kernels: one for each process. In: kernels and their numbers of units. Out: nothing; all have run.

The loops that distribute chunks and wait are machine code (compile/native/pool.py), so parallel execution adds about a microsecond to a kernel.
Workers spin in that loop while a program runs and for SPIN seconds after its last kernel; then they block in Python until the next run. A kernel
computes the same values for any division of its units, so results are the same for any number of threads.

If a second Python thread runs kernels at the same time, it runs them without workers. A forked child starts workers of its own.
"""

from __future__ import annotations

import atexit
import math
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compile.native import pool as code
from ..config import openmp_threads
from ..cpython import address_of
from ..system import interrupts
from . import llvm

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds a period
SPIN = 2e-5  # seconds; the gap between two programs of a step; a longer one was not faster
CHUNKS = 2  # chunks of a kernel per thread, so that other threads can take one from an interrupted thread
STACK = 1 << 20  # bytes of a worker's stack, at least: kernels pack operands there
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}  # names of Windows' and macOS'


def _cores() -> int:
    """The processors that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        quota, period = QUOTA.read_text().split()
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


class Kernels(NamedTuple):
    """A list of kernels as machine code reads it: RECORD words each, from an address on."""

    words: np.ndarray
    address: int

    @staticmethod
    def of(kernels: list[tuple[llvm.Function, int, int, int]]) -> Kernels:
        """Each a function, the address of its table of buffers, its units, and the least of a chunk."""
        rows = [(function.address, table, units, least) for function, table, units, least in kernels]
        words = np.array(rows, np.int64).reshape(-1, code.RECORD)
        return Kernels(words, address_of(words))


class _Workers:
    """Worker threads, and the header that they share with the caller."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._whole = np.zeros(code.WORKERS + code.LINE * (count + 2), np.int64)
        skipped = -self._whole.ctypes.data // 8 % code.LINE
        header = self._whole[skipped : skipped + code.WORKERS + code.LINE * (count + 1)]
        self.address = header.ctypes.data
        words: Any = header  # NumPy's types do not say that arrays are buffers
        self._words = memoryview(words)
        self._words[code.MOST] = min(code.MOST_CHUNKS, CHUNKS * (count + 1)) if count else 1
        self._pauses = self._measured() if count else 0
        self._doors = [threading.Semaphore(0) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._work, args=(k,), name=f"kernels-{k + 1}", daemon=True) for k in range(count)
        ]
        before = threading.stack_size()
        if 0 < before < STACK:  # the program's choice for threads of its own
            threading.stack_size(STACK)
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:  # the system gives no more
            self.stop()
            raise
        finally:
            threading.stack_size(before)

    def _measured(self) -> int:
        """The number of pauses that take SPIN seconds."""
        pauses, function = 1000, _function_of_workers()
        function(self.address, self.count, 1)
        start = time.perf_counter()
        function(self.address, self.count, pauses)
        return math.ceil(pauses * SPIN / (time.perf_counter() - start))

    def _work(self, k: int) -> None:
        function = _function_of_workers()
        while True:
            self._doors[k].acquire()
            if self._words[code.PHASE] == code.STOPPED:
                return
            function(self.address, k, self._pauses)

    def wake(self) -> None:
        """Wake sleeping workers. They join in some microseconds; the caller does not wait for them."""
        words, at = self._words, code.WORKERS
        words[code.PHASE] = code.RUNNING
        for door in self._doors:
            if words[at] == code.ASLEEP:
                words[at] = code.AWAKE
                door.release()
            at += code.LINE

    def rest(self) -> None:
        """End the run: workers go to sleep after SPIN seconds."""
        self._words[code.PHASE] = code.IDLE

    def stop(self) -> None:
        """End all threads, and wait for their end."""
        self._words[code.PHASE] = code.STOPPED
        for door, thread in zip(self._doors, self._threads, strict=True):
            door.release()
            if thread.is_alive():
                thread.join()


@cache
def _function_of_workers() -> llvm.Function:
    return llvm.function(code.work_text(*_machine()))


@cache
def _function_of_callers() -> llvm.Function:
    return llvm.function(code.run_text(*_machine()))


def _machine() -> tuple[str, bool]:
    name = platform.machine().lower()
    return ARCHITECTURES.get(name, name), hasattr(os, "sched_yield")


@cache
def _nobody() -> _Workers:
    """The header of a caller without workers."""
    return _Workers(0)


class Pool:
    """The threads of a process, started when they are first needed."""

    def __init__(self) -> None:
        self._wanted: int | None = None
        self._reset()
        atexit.register(self._end)

    def _reset(self) -> None:
        self._lock = threading.RLock()  # held by the thread that uses the workers
        self._depth = 0  # nested runs of that thread
        self._workers: _Workers | None = None

    @property
    def count(self) -> int:
        """The maximum number of threads that run a kernel."""
        if self._wanted is None:
            self._wanted = min(openmp_threads() or 1 << 16, _cores())
        return self._wanted

    def limit(self, count: int) -> None:
        """Use at most so many threads."""
        self._wanted = count

    @contextmanager
    def running(self) -> Iterator[_Workers]:
        """A run, in which workers spin between kernels. If another thread uses the workers, the run has none."""
        lock = self._lock  # a child that is forked meanwhile has another
        if self.count <= 1 or not lock.acquire(blocking=False):
            yield _nobody()
            return
        try:
            self._depth += 1
            workers = self._workers_for(self.count - 1)
            if self._depth > 1:
                yield workers
                return
            try:
                workers.wake()
                yield workers
            finally:
                workers.rest()
        finally:
            if self._lock is lock:
                self._depth -= 1
            lock.release()

    def _workers_for(self, count: int) -> _Workers:
        """That number of workers; a nested run gets those of the outer one. If the system gives no threads, this pool has none from now on."""
        if self._workers is None or (self._depth == 1 and self._workers.count != count):
            self._stop()
            try:
                self._workers = _Workers(count)
            except RuntimeError:
                self._wanted = 1
                return _nobody()
        return self._workers

    def _end(self) -> None:
        """Stop workers before the process frees machine code. Other threads may go on, without workers."""
        with self._lock:
            self._stop()
            self._wanted = 1

    def _stop(self) -> None:
        if self._workers is not None:
            self._workers.stop()
            self._workers = None

    @interrupts.whole
    def run_all(self, kernels: Kernels, first: int, count: int) -> None:
        """Run `count` kernels of a list from number `first`, one after another."""
        self._run(kernels.address + 8 * code.RECORD * first, count)

    @interrupts.whole
    def run(self, function: llvm.Function, table: int, units: int, least: int) -> None:
        """Call `function(table, begin, end)` for ranges of at least `least` units."""
        if self.count <= 1 or units < 2 * least:
            function(table, 0, units)
            return
        words = np.array((function.address, table, units, least), np.int64)
        self._run(address_of(words), 1)

    def _run(self, address: int, count: int) -> None:
        with self.running() as workers:
            _function_of_callers()(address, count, workers.address)


pool = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool._reset)
