"""Exchanges by memory that the processes of a host share: whose value is whose, in every turn, and what happens where one is missing."""

from __future__ import annotations

import os
import time

import pytest

import shadergrad as sg
from ranks import assert_ranks_pass, finish, start

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="there is no memory without a name here"),
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]

BEGIN = """
import gc, os, random, sys, time
import numpy as np
import shadergrad as sg
from shadergrad.distributed import one_host
from shadergrad.distributed.groups import group
from shadergrad.graph.node import leaf
from shadergrad.dtypes import float32
from shadergrad.primitives.exchange import exchanged
from shadergrad.runtime.device import get_device
dist = sg.distributed
dist.init_process_group("gloo", timeout=SECONDS)
rank, size = dist.get_rank(), dist.get_world_size()
cpu = get_device("cpu")
def stored(value):
    return cpu.upload(np.full(COUNT, value, np.float32), float32)
def exchange_of():
    given = stored(0.0)
    return one_host.joined(group.WORLD.engine, leaf(given, (COUNT,), float32, "cpu"), given)
def taken(exchange, turn):
    while not exchange.is_done(turn):
        time.sleep(0.0)
    found = []
    for storage in exchange.finish(turn):
        array = storage.handle.reshape(-1)
        assert array.shape == (COUNT,) and (array == array[0]).all(), array
        found.append(float(array[0]))
    return found
"""


def program(source: str, count: int = 5000, seconds: float = 60) -> str:
    return BEGIN.replace("COUNT", str(count)).replace("SECONDS", str(seconds)) + source


TURNS = """
exchange = exchange_of()
random.seed(rank)
for number in range(200):
    if random.random() < 0.1:
        time.sleep(0.003 * random.random())
    turn = exchange.begin(stored(1000.0 * rank + number))
    assert taken(exchange, turn) == [1000.0 * k + number for k in range(size)], number
# a number that is twice under way
first, second = exchange.begin(stored(rank)), exchange.begin(stored(10.0 + rank))
assert taken(exchange, first) == [float(k) for k in range(size)]
assert taken(exchange, second) == [10.0 + k for k in range(size)]
# what nobody uses any more is gone
del exchange, first, second, turn
gc.collect()
names = [os.readlink(link) for link in map("/proc/self/fd/{}".format, os.listdir("/proc/self/fd")) if os.path.lexists(link)]
assert not [name for name in names if "shadergrad" in name or "pidfd" in name], names
"""


@pytest.mark.parametrize("count", [2, 4])
def test_each_turn_has_the_values_of_all(count: int) -> None:
    assert_ranks_pass(program(TURNS), count)


UNABLE = """
if rank == 1:
    one_host.MOST = 1  # as where a device cannot read the host's memory
assert exchange_of() is None
model = sg.nn.Linear(2, 1, bias=False)
ddp = sg.nn.parallel.DistributedDataParallel(model)
for _ in range(2):
    model.zero_grad()
    ddp(sg.tensor([[rank + 1.0, 1.0]])).sum().backward()
    assert model.weight.grad.tolist() == [[1.5, 1.0]], model.weight.grad
"""


def test_all_go_another_way_where_one_cannot_take_this() -> None:
    assert_ranks_pass(program(UNABLE), 2)


ENDED = """
exchange = exchange_of()
taken(exchange, exchange.begin(stored(1.0)))
if rank == 1:
    os._exit(3)
turn = exchange.begin(stored(2.0))
begun = time.monotonic()
try:
    taken(exchange, turn)
except dist.DistBackendError as error:
    assert "another process has ended" in str(error), error
    assert time.monotonic() - begun < 10
    print("told")
"""


def test_a_process_that_ends_ends_the_wait_of_the_others() -> None:
    waited, gone = finish(start(program(ENDED), 2))
    assert (gone.code, waited.out.strip()) == (3, "told"), waited.err


LATE = """
exchange = exchange_of()
if rank == 0:
    try:
        taken(exchange, exchange.begin(stored(2.0)))
    except dist.DistBackendError as error:
        assert "waited too long" in str(error), error
        print("told")
else:
    time.sleep(6)
"""


def test_the_time_of_the_group_bounds_the_wait() -> None:
    begun = time.monotonic()
    late = assert_ranks_pass(program(LATE, seconds=2), 2)
    assert late[0].strip() == "told"
    assert time.monotonic() - begun < 60


BROKEN = """
exchange = exchange_of()
taken(exchange, exchange.begin(stored(1.0)))
dist.barrier()
def lost(source, adopted):
    raise sg.DeviceError("the device is gone")
if rank == 1:
    cpu.begin_copy = lost
    for error in (sg.DeviceError, dist.DistBackendError):  # and never again
        try:
            exchange.begin(stored(2.0))
        except error:
            print("told")
else:
    try:
        taken(exchange, exchange.begin(stored(2.0)))
    except dist.DistBackendError as error:
        assert "rank 1" in str(error), error
        print("told")
dist.barrier()
"""


def test_a_lost_device_ends_the_exchange_for_all() -> None:
    first, second = assert_ranks_pass(program(BROKEN), 2)
    assert (first.split(), second.split()) == (["told"], ["told"] * 2)
