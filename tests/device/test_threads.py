"""Several threads work on one chain of operations on single elements on the cpu device. Values are those of one thread, bit
for bit; what goes wrong in any of them is raised in the caller's; nothing hangs when the process forks or ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.errors import ArgumentError
from shadergrad.runtime import chains, threads

SHAPES = [(1_000_003,), (1, 524_309), (1021, 1031), (3, 60_009), (1_000, 1, 1_049), (524_289, 2)]


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_chosen", threads.count())


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many other threads were asked, each time."""
    asked: list[int] = []
    start = threads._start

    def counting(work: Callable[[], None], number: int) -> Any:
        asked.append(number)
        return start(work, number)

    monkeypatch.setattr(threads, "_start", counting)
    return asked


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(Path(sg.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120, env=variables
    )


def numbers(seed: int, *shape: int) -> sg.Tensor:
    return sg.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), device="cpu")


def bits(x: sg.Tensor) -> np.ndarray:
    return np.ascontiguousarray(x.numpy()).view(np.uint8)


def work(a: sg.Tensor, b: sg.Tensor) -> tuple[sg.Tensor, ...]:
    m = a * 0.9 + b * 0.1
    return m, (a > b) & (m > 0), (m.exp() / (a.sin() * b).sqrt() + b.tanh()).relu(), (a * 1000).int() % 7


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("other", ["alike", "a row", "transposed"])
def test_values_are_those_of_one_thread(shape: tuple[int, ...], other: str, starts: list[int]) -> None:
    a = numbers(0, *shape)
    rows = (1,) * (len(shape) - 1) + shape[-1:]
    b = {"alike": lambda: numbers(1, *shape), "a row": lambda: numbers(1, *rows)}.get(
        other, lambda: numbers(1, *shape[::-1]).permute(*reversed(range(len(shape))))
    )()
    step, found = sg.compile(work), []
    for number in (1, 2, 3, 4, 2):
        sg.set_num_threads(number)
        found.append([bits(x) for x in step(a, b)])
    for values in found[1:]:
        for x, y in zip(values, found[0], strict=True):
            np.testing.assert_array_equal(x, y)
    assert set(starts) >= {0, 1}


def test_each_piece_is_done_once_by_threads_at_the_same_time() -> None:
    both, done = threading.Barrier(2), []

    def work(pieces: Iterator[int]) -> None:
        for piece in pieces:
            both.wait(30)  # needs another thread in its piece
            done.append((piece, threading.get_ident()))

    threads.share(range(8), work, 2)
    assert sorted(piece for piece, _ in done) == list(range(8))
    assert len({who for _, who in done}) == 2


@pytest.mark.parametrize("error", [MemoryError, ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("here", [True, False])
def test_what_a_thread_raises_is_raised_by_the_caller(error: type[BaseException], here: bool) -> None:
    both, caller, begun = threading.Barrier(2), threading.get_ident(), []

    def work(pieces: Iterator[int]) -> None:
        for piece in pieces:
            begun.append(piece)
            if len(begun) <= 2:
                both.wait(30)
            if (threading.get_ident() == caller) is here:
                raise error("no")

    with pytest.raises(error, match="no"):
        threads.share(range(100_000), work, 2)
    assert len(begun) < 100_000  # nobody goes on
    threads.share(range(4), lambda pieces: begun.extend(pieces), 2)  # and later work is done
    assert begun[-1] < 4


def test_no_memory_in_another_thread_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    caller, empty, asked = threading.get_ident(), np.empty, threading.Event()

    def without(*args: Any) -> np.ndarray:
        if threading.get_ident() != caller:
            asked.set()
            raise MemoryError("none left")
        return empty(*args)

    run = chains.Chain._run

    def slowly(self: chains.Chain, *args: Any) -> None:
        write, places, result = self._members[0]

        def waiting(*operands: Any, out: Any) -> None:
            asked.wait(30)
            write(*operands, out=out)

        monkeypatch.setattr(self, "_members", [(waiting, places, result), *self._members[1:]])
        run(self, *args)

    step, a = sg.compile(work), numbers(0, 1021, 1031)
    step(a, a)
    monkeypatch.setattr(chains.Chain, "_run", slowly)
    monkeypatch.setattr(np, "empty", without)
    sg.set_num_threads(2)
    with pytest.raises(sg.OutOfMemoryError, match="none left"):
        step(a, a)


def test_other_threads_do_not_warn_either() -> None:
    a, step = numbers(0, 1021, 1031), sg.compile(lambda a: ((a / 0.0).sqrt() * 1e38 * 1e38).log() + (a * 1e38).exp())
    sg.set_num_threads(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="raise"):
            for _ in range(10):
                step(a)


def test_two_steps_of_two_threads_at_the_same_time() -> None:
    a, b = numbers(0, 1021, 1031), numbers(1, 1021, 1031)
    steps = [sg.compile(work), sg.compile(lambda a, b: work(b, a))]
    sg.set_num_threads(1)
    expected = [[bits(x) for x in step(a, b)] for step in steps]
    sg.set_num_threads(3)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda step: [[bits(x) for x in step(a, b)] for _ in range(10)], steps))
    for runs, values in zip(found, expected, strict=True):
        for run in runs:
            for x, y in zip(run, values, strict=True):
                np.testing.assert_array_equal(x, y)


def test_small_work_wakes_nobody(starts: list[int]) -> None:
    a, step = numbers(0, 301, 401), sg.compile(lambda a: a * 2 + 1)
    sg.set_num_threads(4)
    step(a)
    assert set(starts) <= {0}


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ({}, None),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "64"}, 3),
        ({"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": " 3"}, 3),
        ({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "8"}, 1),
        ({"OMP_NUM_THREADS": "1,4"}, 1),
        ({"OMP_NUM_THREADS": "0"}, None),
        ({"OMP_NUM_THREADS": "many"}, None),
        ({"OMP_NUM_THREADS": ""}, None),
    ],
)
def test_the_number_is_what_people_say(
    said: dict[str, str], number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, text in said.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    assert threads.usual.__wrapped__() == (threads.UNASKED if number is None else number)


def test_a_number_is_set_and_read() -> None:
    sg.set_num_threads(7)
    assert sg.get_num_threads() == 7
    with pytest.raises(ArgumentError, match="at least 1, not 0"):
        sg.set_num_threads(0)
    assert sg.get_num_threads() == 7


LARGE = """
import atexit, os
import numpy as np
import shadergrad as sg
from shadergrad.runtime import threads
a = sg.tensor(np.random.default_rng(0).standard_normal((1021, 1031)).astype(np.float32), device="cpu")
step = sg.compile(lambda a: (a * 2 + 1).tanh() * a)
sg.set_num_threads(1)
expected = step(a).numpy()
sg.set_num_threads(2)
def right():
    return bool((step(a).numpy() == expected).all())
assert right()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    done = run_python(
        LARGE
        + """
child = os.fork()
if child == 0:
    both = __import__("threading").Barrier(2)
    threads.share(range(2), lambda pieces: [both.wait(30) for _ in pieces], 2)
    os._exit(7 if right() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), right())
"""
    )
    assert (done.returncode, done.stdout) == (0, "7 True\n"), done.stderr


def test_steps_run_while_the_interpreter_shuts_down() -> None:
    done = run_python(LARGE + "atexit.register(lambda: print(right()))\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_without_more_threads_the_caller_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: ThreadPoolExecutor) -> None:
        raise RuntimeError("can't start new thread")

    threads._others.cache_clear()
    monkeypatch.setattr(ThreadPoolExecutor, "_adjust_thread_count", none)
    done: list[int] = []
    threads.share(range(5), done.extend, 3)
    assert done == [0, 1, 2, 3, 4]
    assert threads._others.cache_info().currsize == 0  # nor is anything left for later
