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


TWICE = """
model = sg.nn.Linear(2, 1, bias=False)
ddp = sg.nn.parallel.DistributedDataParallel(model)
@sg.compile
def step(x, y):
    found = []
    for given in (x, y):
        model.zero_grad()
        ddp(given).sum().backward()
        found.append(model.weight.grad * 1)
    return found
for number in range(300):
    x, y = (sg.tensor([[rank + k + number, 1.0]]) for k in (1.0, 5.0))
    first, second = step(x, y)
    mean = (size - 1) / 2 + number
    assert first.tolist() == [[mean + 1.0, 1.0]], (number, first.tolist())
    assert second.tolist() == [[mean + 5.0, 1.0]], (number, second.tolist())
"""


def test_a_number_that_comes_twice_in_a_step_has_both_of_its_values() -> None:
    assert_ranks_pass(program(TWICE), 4)


REFUSED = """
adopt = cpu.adopt
def refuse(memory, shape, dtype):
    raise sg.DeviceError("not this memory")
if rank == 1:
    cpu.adopt = refuse
assert exchange_of() is None
model = sg.nn.Linear(2, 1, bias=False)
ddp = sg.nn.parallel.DistributedDataParallel(model)
ddp(sg.tensor([[rank + 1.0, 1.0]])).sum().backward()
assert model.weight.grad.tolist() == [[1.5, 1.0]], model.weight.grad
"""


def test_all_go_another_way_where_a_device_refuses_the_memory() -> None:
    assert_ranks_pass(program(REFUSED), 2)


INTERRUPTED = """
one, two = sg.nn.Linear(600, 600), sg.nn.Linear(600, 600)
model = sg.nn.Sequential(one, two)
ddp = sg.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
x = sg.ones(1, 600)
ddp(x).sum().backward()
model.zero_grad()
from shadergrad.drive.travelling import Travelling
read, calls = Travelling.read, []
def failing(self, *given):
    calls.append(1)
    if rank == 1 and len(calls) == 2:
        raise MemoryError("no memory for the second bucket")
    return read(self, *given)
Travelling.read = failing
told = False
for _ in range(3):
    try:
        ddp(x).sum().backward()
    except (MemoryError, dist.DistBackendError) as error:
        told = told or "had an error in an exchange" in str(error)
        if told:
            break
print("told" if told else "silent")
"""


def test_an_error_between_two_exchanges_ends_them_in_all_processes() -> None:
    ranks = finish(start(program(INTERRUPTED, seconds=10), 2))
    assert ranks[1].out.strip() == "told", ranks[1].err


FREED = """
def mapped():
    with open("/proc/self/maps") as lines:
        return sum("memfd:shadergrad" in line for line in lines)
for _ in range(3):
    model = sg.nn.Linear(200, 200)
    ddp = sg.nn.parallel.DistributedDataParallel(model)
    ddp(sg.ones(1, 200)).sum().backward()
    assert mapped(), "nothing was shared"
    del model, ddp
    gc.collect()
    assert not mapped()
"""


def test_the_memory_goes_with_the_model() -> None:
    assert_ranks_pass(program(FREED), 2)


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


SUSPENDED = """
exchange = exchange_of()
if rank == 1:
    os.kill(os.getpid(), 19)  # which no process can ignore
try:
    taken(exchange, exchange.begin(stored(2.0)))
except dist.DistBackendError as error:
    assert "rank 1: no sign of life" in str(error), error
    print("told")
"""


def test_a_suspended_process_ends_the_wait_of_the_others_with_an_error() -> None:
    shorter = "import shadergrad.distributed.watch as w; w.SILENT, w.GRACE = 3.0, 60.0\ndist.init"
    waiting, suspended = start(program(SUSPENDED).replace("dist.init", shorter, 1), 2)
    try:
        (waited,) = finish([waiting])
        assert waited.out.strip() == "told", waited.err
    finally:
        suspended.kill()
        suspended.communicate()


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
