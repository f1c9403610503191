"""Storages in memory of the host, which other processes may have mapped; and runs of programs that are prepared, and begin later."""

from __future__ import annotations

import mmap
import time
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.drive import execute
from shadergrad.drive.sums import graph_of
from shadergrad.dtypes import float32
from shadergrad.graph.node import leaf
from shadergrad.runtime.device import get_device


def pages() -> np.ndarray:
    return np.frombuffer(mmap.mmap(-1, 2 * mmap.PAGESIZE), np.uint8)


def adopting(name: str) -> Any:
    device = get_device(name)
    if not device.shares_memory:
        pytest.skip("this device reads no memory of the host")
    return device


def copied(device: Any, values: np.ndarray, adopted: Any) -> None:
    is_done = device.begin_copy(device.upload(values, float32), adopted)
    until = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_what_is_copied_there_the_host_has(device: str) -> None:
    found = adopting(device)
    memory, values = pages(), np.arange(1500, dtype=np.float32)
    adopted = found.adopt(memory, (30, 50), float32)
    for k in range(3):
        copied(found, values.reshape(30, 50) + k, adopted)
        np.testing.assert_array_equal(memory.view(np.float32)[:1500], values + k)


def test_what_the_host_writes_there_programs_read(device: str) -> None:
    found = adopting(device)
    memory = pages()
    adopted = found.adopt(memory, (1500,), float32)
    own = found.upload(np.full(1500, 0.5, np.float32), float32)
    add = execute.load_graph(graph_of(2, leaf(own, (1500,), float32, device)))
    for k in range(3):
        memory.view(np.float32)[:1500] = np.arange(1500) + k
        (total,) = add.run([own, adopted])
        np.testing.assert_array_equal(found.download(total, (1500,), float32), np.arange(1500) + k + 0.5)


def test_a_prepared_run_comes_behind_what_was_run_meanwhile(device: str) -> None:
    """Its input gets its value after it was prepared; what others compute meanwhile takes none of its temporaries."""
    found = get_device(device)
    x = sg.arange(4096.0, device=device).reshape(64, 64) / 4096
    step = sg.compile(lambda x: ((x @ x).softmax(1) @ x).sum(0))
    expected = (step(x).numpy(), step(x + 1).numpy())
    program = execute.load_graph(graph_of(2, leaf(None, (64, 64), float32, device)))
    one = found.upload(np.ones((64, 64), np.float32), float32)
    first, second = ((x + k)._node for k in range(2))
    execute.realize([first, second])
    place = found.new_like(first.storage)
    if place is None:
        pytest.skip("programs of this device make their own storages")
    prepared = found.prepare(program, [place, one], None)
    assert np.array_equal(step(x).numpy(), expected[0])
    (given,) = program.run([first.storage, one], [place])  # x + 1
    assert given is place
    (total,) = prepared.begin()
    np.testing.assert_array_equal(found.download(total, (64, 64), float32), x.numpy() + 2)
    np.testing.assert_array_equal(step(x + 1).numpy(), expected[1])
    dropped = found.prepare(program, [place, one], None)
    dropped.drop()
    assert np.array_equal(step(x).numpy(), expected[0])
