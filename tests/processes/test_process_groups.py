"""Process groups over gloo on this machine: every operation, errors in words, and processes that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import shadergrad as sg
from ranks import assert_ranks_pass, finish, start

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]

BEGIN = """
import os, sys, time
import numpy as np
import shadergrad as sg
dist = sg.distributed
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
"""

EVERYTHING = (
    BEGIN
    + """
def at(device):
    Op = dist.ReduceOp
    def t(*values, dtype=None):
        return sg.tensor(values, dtype=dtype, device=device)
    def same(tensor, expected):
        assert tensor.tolist() == expected, (tensor.tolist(), expected)
    for op, expected in ((Op.SUM, 3.0), (Op.AVG, 1.5), (Op.PRODUCT, 2.0), (Op.MIN, 1.0), (Op.MAX, 2.0)):
        x = t(rank + 1.0, rank + 1.0)
        assert dist.all_reduce(x, op) is None
        same(x, [expected] * 2)
    for dtype in (sg.int8, sg.int16, sg.int32, sg.uint8, sg.int64, sg.float16):
        x = t(rank + 1, 5, dtype=dtype)
        dist.all_reduce(x)
        assert x.dtype is dtype
        same(x, [3, 10])
    for op, expected in ((Op.BAND, 1 & 2), (Op.BOR, 1 | 2), (Op.BXOR, 1 ^ 2)):
        x = t(rank + 1, dtype=sg.int32)
        dist.all_reduce(x, op)
        same(x, [expected])
    x = sg.tensor([rank == 0, False], device=device)
    dist.all_reduce(x)
    same(x, [True, False])
    x = sg.ones(2, 3, device=device).T * (rank + 1)  # no memory of its own, and pending
    dist.all_reduce(x)
    assert x.shape == (3, 2) and x.sum().item() == 18
    whole = sg.zeros(4, device=device)
    dist.all_reduce(whole[1:3].fill_(rank + 1.0))  # a view: its base shows it
    same(whole, [0.0, 3.0, 3.0, 0.0])
    p = sg.nn.Parameter(t(float(rank), 7.0))
    dist.broadcast(p, src=1)
    assert p.requires_grad and p.is_leaf
    same(p, [1.0, 7.0])
    x = t(rank + 1.0)
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed()
    same(work.get_future().then(lambda f: f.value()[0] * 2).wait(), [6.0])
    x = t(rank + 1.0)
    dist.reduce(x, dst=1)
    same(x, [3.0] if rank == 1 else [1.0])
    parts = [t(0.0), t(0.0)]
    dist.all_gather(parts, t(rank + 1.0))
    same(sg.cat(parts), [1.0, 2.0])
    for out in (sg.zeros(2, 1, device=device), sg.zeros(2, device=device)):
        dist.all_gather_into_tensor(out, t(rank + 1.0))
        same(out.reshape(-1), [1.0, 2.0])
    out = t(0.0)
    dist.reduce_scatter_tensor(out, t(1.0, 2.0))
    same(out, [2.0 * (rank + 1)])
    dist.reduce_scatter(out, [t(1.0), t(2.0)], dist.ReduceOp.AVG)
    same(out, [rank + 1.0])
    got = [t(0.0), t(0.0)] if rank == 0 else None
    dist.gather(t(rank + 1.0), got, dst=0)
    if rank == 0:
        same(sg.cat(got), [1.0, 2.0])
    dist.scatter(out, [t(5.0), t(6.0)] if rank == 1 else None, src=1)
    same(out, [5.0 + rank])
    out = t(0.0, 0.0)
    dist.all_to_all_single(out, t(10.0 * rank, 10.0 * rank + 1))
    same(out, [0.0 + rank, 10.0 + rank])
    if rank == 0:
        dist.send(t(4.0, 5.0), dst=1)
    else:
        x = t(0.0, 0.0)
        assert dist.recv(x, src=0) == 0
        same(x, [4.0, 5.0])

for device in os.environ.get("DEVICES", "cpu").split():
    at(device)

found = [None] * size
dist.all_gather_object(found, {"rank": rank, "text": "x" * (10 * rank + 1)})
assert [f["rank"] for f in found] == [0, 1] and len(found[1]["text"]) == 11
items = [rank, "from", rank]
dist.broadcast_object_list(items, src=1)
assert items == [1, "from", 1]
got = [None] * size if rank == 0 else None
dist.gather_object((rank,), got, dst=0)
assert got == ([(0,), (1,)] if rank == 0 else None)
out = [None]
dist.scatter_object_list(out, ["a", "b"] if rank == 0 else None, src=0)
assert out == ["ab"[rank]]

alone = dist.new_group([1])
assert (dist.get_rank(alone), dist.get_world_size(alone)) == ((0, 1) if rank == 1 else (-1, -1))
x = sg.ones(1)
dist.all_reduce(x, group=alone)
assert x.item() == 1
both = dist.new_group(timeout=5)
x = sg.ones(1)
dist.all_reduce(x, group=both)
assert x.item() == 2

def refused(call, word):
    try:
        call()
    except sg.ShadergradError as error:
        assert word in str(error), str(error)
    else:
        raise AssertionError("not refused: " + word)

refused(lambda: dist.init_process_group("gloo"), "twice")
refused(lambda: dist.new_group(timeout="soon"), "timeout is 'soon'")
refused(lambda: dist.all_reduce([1.0]), "takes tensors")
refused(lambda: dist.all_reduce(sg.ones(1), dist.ReduceOp.BAND), "integers")
refused(lambda: dist.all_reduce(sg.ones(1, dtype=sg.int32), dist.ReduceOp.AVG), "floating")
refused(lambda: dist.all_reduce(sg.ones(1), "sum"), "ReduceOp")
refused(lambda: dist.all_gather([sg.ones(1)], sg.ones(1)), "2 processes")
refused(lambda: dist.all_gather([sg.ones(2), sg.ones(1)], sg.ones(1)), "of (2,)")
refused(lambda: dist.new_group([0, 5]), "0 to 1")
refused(lambda: dist.broadcast(sg.ones(1), src=7), "not in the group")
refused(lambda: dist.send(sg.ones(1), dst=rank), "itself")
refused(lambda: sg.compile(lambda v: [dist.gather(v, None, dst=0), v])(sg.ones(1)), "compiled step")
# what all must give alike is compared before values are mixed, or, of an operation that is waited for later, with them
unlike = "the processes do not make the same call: rank 0 has "
mine = sg.ones(2, dtype=sg.float32 if rank else sg.int32)
refused(lambda: dist.all_reduce(mine), unlike + "'all_reduce int32 (2,) SUM', rank 1 has 'all_reduce float32 (2,) SUM'")
refused(lambda: dist.all_reduce(mine, async_op=True).wait(), unlike)
refused(lambda: dist.all_reduce(sg.ones(2 + rank)), unlike)
refused(lambda: dist.all_reduce(sg.ones(2), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM), unlike)
refused(lambda: dist.broadcast(sg.ones(2), src=rank), unlike)
refused(lambda: dist.broadcast(sg.ones(2 + rank), src=0), unlike)
refused(lambda: dist.all_gather([sg.ones(1), sg.ones(1)], sg.ones(1)) if rank else dist.barrier(), unlike + "'barrier'")
# messages of one tag come in order, however many are under way
if rank == 0:
    sent = [dist.isend(sg.ones(3 * (k % 3) + 1) * k, dst=1, tag=k % 2) for k in range(12)]
    assert all([work.wait() for work in sent])
    kept = dist.isend(sg.ones(2), dst=1, tag=7)  # its values are not taken
else:
    got = [sg.zeros(3 * (k % 3) + 1) for k in range(12)]
    works = [dist.irecv(x, src=0, tag=k % 2) for k, x in enumerate(got)]
    assert all([work.wait() for work in reversed(works)])
    assert [x[-1].item() for x in got] == list(range(12))
    refused(lambda: dist.recv(sg.ones(2, dtype=sg.int32), src=0, tag=7), "has sent 'float32 (2,)', and this process takes 'int32 (2,)'")
work = None if rank else dist.all_reduce(sg.ones(1), async_op=True)
if rank:
    time.sleep(0.3)
    dist.all_reduce(sg.ones(1))
else:
    work.wait()
dist.barrier()
dist.destroy_process_group()
assert not dist.is_initialized() and dist.get_rank() == 0
"""
)


def test_every_operation_of_two_processes_gives_its_values() -> None:
    assert_ranks_pass(EVERYTHING, 2)


HALVES = """
import numpy as np
import shadergrad as sg
from shadergrad.distributed import gloo
from shadergrad.distributed.channels import from_bfloat16, to_bfloat16
sg.distributed.init_process_group("gloo", timeout=60)
engine = sg.distributed.group.WORLD.engine
given = [np.random.default_rng(k).normal(size=700_001).astype(np.float32) for k in range(engine.size)]  # more than one connection's
for most in (1, 4):
    gloo.GATHERED = most
    halves = [g.astype(np.float16) for g in given]
    own = halves[engine.rank].copy()
    engine.all_reduce(own, sg.distributed.ReduceOp.SUM).wait()
    total = np.sum([h.astype(np.float32) for h in halves], 0, dtype=np.float32)
    np.testing.assert_allclose(own.astype(np.float32), total, rtol=2**-11, atol=1e-6)
    upper = [to_bfloat16(g) for g in given]
    own = upper[engine.rank].copy()
    engine.all_reduce_bfloat16(own).wait()
    total = np.sum([from_bfloat16(u) for u in upper], 0, dtype=np.float32)
    np.testing.assert_allclose(from_bfloat16(own), total, rtol=2**-8, atol=1e-6)
"""


@pytest.mark.parametrize("count", [2, 3])
def test_sums_of_halves_are_rounded_once(count: int) -> None:
    """Gathered and added, and added in float32."""
    assert_ranks_pass(HALVES, count)


def test_processes_end_without_taking_leave() -> None:
    """Whatever groups there are: a thread of gloo's that outlives Python aborts the process."""
    program = """
        import os
        import shadergrad as sg
        sg.distributed.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=int(os.environ["RANK"]), world_size=2)
        group = sg.distributed.new_group([0, 1])
        ddp = sg.nn.parallel.DistributedDataParallel(sg.nn.Linear(2, 2))
        ddp(sg.ones(1, 2)).sum().backward()
        """
    with tempfile.TemporaryDirectory() as folder:
        for k in range(4):
            assert_ranks_pass(program, 2, MEET=f"{folder}/{k}")


@pytest.mark.parametrize("method", ["file", "tcp"])
def test_processes_meet_by_a_file_or_an_address(method: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/meet" if method == "file" else 'tcp://127.0.0.1:" + os.environ["MASTER_PORT"] + "'
    assert_ranks_pass(
        f"""
        import os
        import shadergrad as sg
        rank = int(os.environ.pop("RANK"))
        sg.distributed.init_process_group("gloo", init_method="{url}", rank=rank, world_size=2, timeout=30)
        x = sg.ones(2)
        sg.distributed.all_reduce(x)
        assert x.tolist() == [2, 2]
        """,
        2,
    )


DIES = (
    BEGIN
    + """
print("ready", flush=True)
if rank == 1:
    {end}
x = sg.ones(1000)
for _ in range({count}):
    dist.all_reduce(x)
    time.sleep(0.01)
time.sleep(100)
"""
)


@pytest.mark.parametrize(
    ("end", "count", "word"),
    [
        ("raise ValueError('this is why')", 1000, "rank 1: ValueError: this is why"),
        ("os.kill(os.getpid(), 9)", 1000, "rank"),
        ("os.kill(os.getpid(), 9)", 0, "rank 1"),  # the others are not waiting
    ],
)
def test_a_process_that_ends_takes_the_others_along(end: str, count: int, word: str) -> None:
    source = DIES.format(end=end, count=count)
    started = start(source, 2)
    assert started[1].stdout is not None
    assert started[1].stdout.readline() == "ready\n"
    begun = time.monotonic()
    ended = finish(started)
    assert [e.code != 0 for e in ended] == [True, True]
    assert "another process has ended" in ended[0].err, ended[0].err
    assert word in ended[0].err, ended[0].err
    assert time.monotonic() - begun < 45  # 23 on an idle machine


def test_a_process_that_was_met_by_a_file_tells_why_it_ends(tmp_path: Path) -> None:
    """There are no signs of life in a file, which would grow by them."""
    source = DIES.format(end="raise ValueError('this is why')", count=1000).replace(
        'init_process_group("gloo")',
        f'init_process_group("gloo", "file://{tmp_path}/meet", rank=int(os.environ["RANK"]), world_size=2)',
    )
    ended = finish(start(source, 2))
    assert [e.code != 0 for e in ended] == [True, True]
    assert "another process has ended: rank 1: ValueError: this is why" in ended[0].err, ended[0].err


def test_a_slow_process_is_waited_for() -> None:
    assert_ranks_pass(BEGIN + "time.sleep(5 * rank)\ndist.barrier()\n", 2)


def test_a_process_that_is_killed_while_another_makes_a_group_takes_it_along() -> None:
    source = BEGIN + "if rank == 1: os.kill(os.getpid(), 9)\ndist.new_group()\n"
    short = source.replace("dist.init", "import shadergrad.distributed.watch as w; w.SILENT = w.GRACE = 3.0\ndist.init")
    ended = finish(start(short, 2))
    assert ended[0].code != 0
    assert "rank 1" in ended[0].err, ended[0].err


def test_a_process_that_waits_for_others_gives_signs_of_life() -> None:
    source = """
from shadergrad.distributed.groups import _groups
seen = {_groups.watch._read("alive/0")}
while rank == 1 and len(seen) < 4:  # it counts on, within new_group
    seen.add(_groups.watch._read("alive/0"))
    time.sleep(0.05)
group = dist.new_group()
x = sg.ones(1)
dist.all_reduce(x, group=group)
assert x.item() == 2
"""
    assert_ranks_pass(BEGIN + source, 2)


def test_the_first_process_may_leave_early() -> None:
    source = """
if rank == 1:
    from shadergrad.distributed.groups import _groups
    watch = _groups.watch
    watch._thread.join()  # no more watched, and not ended
    assert not watch._news, watch._news
    os.write(1, b"went on")
"""
    assert assert_ranks_pass(BEGIN + source, 2)[1] == "went on"


def test_processes_meet_again_at_the_same_address() -> None:
    source = """
x = sg.ones(1)
models = []
for n in range(3):
    models.append(sg.nn.parallel.DistributedDataParallel(sg.nn.Linear(1, 1)))  # which has a group of its own
    dist.destroy_process_group()  # one may be at the next start while others are here
    dist.init_process_group("gloo")
    dist.all_reduce(x)
assert x.item() == 27
"""
    assert_ranks_pass(BEGIN + source, 3)


def test_a_rank_that_two_processes_claim_is_refused() -> None:
    source = BEGIN.replace(
        "import numpy", "os.environ.update(WORLD_SIZE='2', RANK=os.environ['RANK'].replace('2', '0'))\nimport numpy"
    )
    first = start(source + "time.sleep(12)", 3)
    ended = finish(first)
    assert any("has started as rank 0 already" in e.err or "did not find" in e.err for e in (ended[0], ended[2])), [
        e.err for e in ended
    ]


def test_ctrl_c_ends_all() -> None:
    started = start(BEGIN + "print('ready', flush=True)\nfor _ in range(100000): dist.all_reduce(sg.ones(10))", 2)
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    started[1].send_signal(signal.SIGINT)
    ended = finish(started)
    assert ended[1].code != 0
    assert "rank 1: KeyboardInterrupt" in ended[0].err


def test_a_pytorch_program_reaches_the_groups(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(2) * (dist.get_rank() + 1)\n"
        "dist.all_reduce(x, op=dist.ReduceOp.SUM)\n"
        "assert x.tolist() == [3, 3] and type(x).__module__.startswith('shadergrad')\n"
        "y = torch.nn.Linear(2, 1)(x).sum(); y.backward()\n"
        "import torch.nn.functional as F\n"
        "assert F.relu(x).tolist() == [3, 3]\n"
        "dist.destroy_process_group()\n"
    )
    assert_ranks_pass(str(script), 2, sys.executable, "-m", "shadergrad", "run", "--device", "cpu")


def test_torchrun_starts_and_restarts(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        BEGIN
        + "x = sg.ones(2); dist.all_reduce(x); assert x.tolist() == [2, 2]\n"
        + "assert dist.is_torchelastic_launched()\n"
        + "if rank == 1 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': os.kill(os.getpid(), 9)\n"
        + "dist.barrier(); os.write(1, b'passed ' + os.environ['TORCHELASTIC_RESTART_COUNT'].encode() + b'\\n')\n"
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--max-restarts=1",
        "--standalone",
        script,
    ]
    env = {**os.environ, "PYTHONPATH": str(Path(sg.__file__).parents[1])}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("passed 1") == 2
