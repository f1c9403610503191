"""The pool of threads: each unit is computed once, by whichever thread; workers sleep, stop, and are made anew."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from shadergrad.compile.native import pool as code
from shadergrad.runtime import llvm
from shadergrad.runtime.threads import Kernels, Pool

pytestmark = pytest.mark.skipif(not llvm.installed(), reason="llvmlite is absent")

ADD = """define void @kernel(ptr %buffers, i64 %begin, i64 %end) nounwind {
entry:
  %first = load ptr, ptr %buffers
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %first, i64 %i
  %before = load i64, ptr %at
  %after = add i64 %before, 1
  store i64 %after, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


class Counted:
    """An array, of which a kernel adds 1 to each unit."""

    def __init__(self, size: int) -> None:
        self.array = np.zeros(size, np.int64)
        self.table = np.array([self.array.ctypes.data], np.uint64)
        self.function = llvm.function(ADD)

    def kernels(self, times: int, units: int, least: int) -> Kernels:
        return Kernels.of([(self.function, self.table.ctypes.data, units, least)] * times)


def pool_of(count: int) -> Pool:
    pool = Pool()
    pool.limit(count)
    return pool


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize(("units", "least"), [(1, 1), (2, 1), (5, 2), (1000, 1), (1001, 300), (64, 64), (70000, 1)])
def test_each_unit_is_computed_once_by_each_kernel(count: int, units: int, least: int) -> None:
    pool, counted = pool_of(count), Counted(units + 1)
    pool.run_all(counted.kernels(20, units, least), 0, 20)
    pool.run_all(counted.kernels(9, units, least), 4, 3)
    pool.run(counted.function, counted.table.ctypes.data, units, least)
    assert (counted.array[:-1] == 24).all()
    assert counted.array[-1] == 0
    pool._stop()


def test_workers_that_sleep_wake_up() -> None:
    pool, counted = pool_of(3), Counted(4096)
    kernels = counted.kernels(1, 4096, 16)
    for _ in range(5):
        pool.run_all(kernels, 0, 1)
        assert pool._workers is not None
        words = pool._workers._words
        deadline = time.monotonic() + 10
        while any(words[code.WORKERS + code.LINE * k] == code.AWAKE for k in range(2)):
            assert time.monotonic() < deadline, "a worker does not sleep"
            time.sleep(0.001)
    assert (counted.array == 5).all()
    pool._stop()


def test_workers_end_when_another_number_is_wanted() -> None:
    pool, counted = pool_of(4), Counted(4096)
    pool.run(counted.function, counted.table.ctypes.data, 4096, 16)
    assert pool._workers is not None
    first = pool._workers._threads
    pool.limit(2)
    pool.run(counted.function, counted.table.ctypes.data, 4096, 16)
    assert not any(thread.is_alive() for thread in first)
    assert len(pool._workers._threads) == 1
    assert (counted.array == 2).all()
    pool._stop()


def test_a_second_thread_computes_alone_meanwhile() -> None:
    pool = pool_of(2)
    own = [Counted(50000) for _ in range(3)]

    def run(counted: Counted) -> None:
        for _ in range(200):
            pool.run_all(counted.kernels(5, 50000, 16), 0, 5)

    runs = [threading.Thread(target=run, args=(counted,)) for counted in own]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join()
    assert all((counted.array == 1000).all() for counted in own)
    pool._stop()


def test_without_threads_the_caller_computes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may refuse the second worker: the first ends, and nobody asks again."""
    pool, counted = pool_of(3), Counted(4096)
    start, before = threading.Thread.start, threading.active_count()
    started: list[threading.Thread] = []

    def refuse(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(2):
        pool.run(counted.function, counted.table.ctypes.data, 4096, 16)
    assert (counted.array == 2).all()
    assert pool.count == 1
    assert len(started) == 1
    assert not started[0].is_alive()
    assert threading.active_count() == before


def test_a_run_within_a_run_has_the_same_workers() -> None:
    pool, counted = pool_of(2), Counted(4096)
    with pool.running() as outer, pool.running() as inner:
        assert outer is inner
        pool.run(counted.function, counted.table.ctypes.data, 4096, 16)
        assert outer._words[code.PHASE] == code.RUNNING
    assert outer._words[code.PHASE] == code.IDLE
    assert (counted.array == 1).all()
    pool._stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_makes_threads_of_its_own() -> None:
    script = """
import os
from shadergrad.runtime import threads
from test_thread_pool import *
counted = Counted(4096)
threads.pool.limit(3)
threads.pool.run(counted.function, counted.table.ctypes.data, 4096, 16)
child = os.fork()
if not child:
    threads.pool.run(counted.function, counted.table.ctypes.data, 4096, 16)
    os._exit(0 if (counted.array == 2).all() else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    run_script(script)


def test_a_process_ends_while_workers_wait() -> None:
    run_script("""
from shadergrad.runtime import threads
from test_thread_pool import *
counted = Counted(4096)
threads.pool.limit(4)
for _ in range(3):
    threads.pool.run(counted.function, counted.table.ctypes.data, 4096, 16)
""")


def test_a_process_ends_while_another_thread_computes() -> None:
    run_script("""
import threading
from shadergrad.runtime import threads
from test_thread_pool import *
threads.pool.limit(2)
def forever():
    counted = Counted(40000)
    kernels = counted.kernels(20, 40000, 16)
    while True:
        threads.pool.run_all(kernels, 0, 20)
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.3)
""")


def test_workers_have_room_where_threads_of_the_program_have_little() -> None:
    run_script("""
import threading
from test_thread_pool import *
from shadergrad.runtime import products, threads
threading.stack_size(256 << 10)
threads.pool.limit(3)
a, b = np.ones((1, 300, 1500), np.float32), np.ones((1, 1500, 512), np.float32)
turned = np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2)
assert (products.multiply(turned, b, np.empty((1, 300, 512), np.float32)) == 1500).all()
assert threading.stack_size() == 256 << 10
""")


def run_script(script: str) -> None:
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=here, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_texts_are_taken_for_every_processor() -> None:
    """Also where LLVM knows no pause, and no core can be offered."""
    for architecture in ("x86_64", "aarch64", "riscv64"):
        for yields in (True, False):
            for text in (code.run_text(architecture, yields), code.work_text(architecture, yields)):
                assert "$" not in text
    compiler: Any = llvm.code()
    for text in (code.run_text("other", False), code.work_text("other", False)):
        assert compiler.assembly(text)
