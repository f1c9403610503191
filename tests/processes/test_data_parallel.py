"""DistributedDataParallel over gloo: equal to one process with the whole batch, compiled or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import shadergrad as sg
from ranks import assert_ranks_pass, finish, start

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]

BEGIN = """
import contextlib, os, sys, time
import numpy as np
import shadergrad as sg
nn, F, dist = sg.nn, sg.nn.functional, sg.distributed
dist.init_process_group("gloo", timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
DDP = nn.parallel.DistributedDataParallel
def refused(call, word):
    try:
        call()
    except sg.ShadergradError as error:
        assert word in str(error), str(error)
    else:
        raise AssertionError("not refused: " + word)
def close(found, expected, what, tolerance=1e-6):
    found, expected = np.asarray(found), np.asarray(expected)
    error = np.abs(found - expected).max() / max(1.0, np.abs(expected).max())
    assert error <= tolerance, (what, float(error))
"""

EQUAL = (
    BEGIN
    + """
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 2)
    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, x):
        return self.head(self.layer(self.embed(x)))[:, -1]

rng = np.random.default_rng(0)
CASES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)), rng.normal(size=(4, 8, 6)).astype(np.float32)),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)),
            rng.normal(size=(4, 8, 1, 6, 6)).astype(np.float32) * 3 + 1),
    "lstm": (Recurrent, rng.normal(size=(4, 8, 4, 3)).astype(np.float32)),
    "attention": (Attention, rng.integers(0, 11, size=(4, 8, 5)).astype(np.int32)),
}
labels = rng.integers(0, 2, size=(4, 8)).astype(np.int32)

def train(name, device, is_compiled, together, cap=None, hook=None):
    make, data = CASES[name]
    sg.manual_seed(3)
    model = make().to(device)
    if together:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    run = DDP(model, bucket_cap_mb=cap) if together else model
    if hook:
        run.register_comm_hook(*hook)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss
    step = sg.compile(step) if is_compiled else step
    states = []
    mine = slice(rank, None, size) if together else slice(None)
    for x, y in zip(data, labels):
        step(sg.tensor(x[mine], device=device), sg.tensor(y[mine], device=device))
        states.append(np.concatenate([t.numpy().astype(np.float64).reshape(-1) for t in model.state_dict().values()]))
    if is_compiled:
        assert step.captures <= 2, step.captures
    return states

if os.environ.get("BY_GLOO"):  # as between hosts
    from shadergrad.distributed import one_host
    one_host.MOST = 0
if os.environ.get("SMALL_PARTS"):  # what is exchanged travels in many parts, read and written ahead
    from shadergrad.runtime import webgpu
    webgpu.PART = webgpu.STAGED = 64
devices = os.environ.get("DEVICES", "cpu").split()
for device in devices:
    for name in CASES:
        expected = train(name, device, False, False)
        for is_compiled in (False, True):
            for cap in (None, 0.0005):
                for k, (a, b) in enumerate(zip(train(name, device, is_compiled, True, cap), expected)):
                    close(a, b, (name, device, is_compiled, cap, k), 1e-6 * (k + 1))
"""
)


@pytest.mark.parametrize(("count", "by_gloo"), [(2, ""), (4, ""), (2, "1")])
def test_it_equals_one_process_on_the_whole_batch(count: int, by_gloo: str) -> None:
    assert_ranks_pass(EQUAL, count, BY_GLOO=by_gloo)


SEMANTICS = (
    BEGIN
    + """
def gradients(model):
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]

# the start is the first one's
sg.manual_seed(rank)
model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2))
ddp = DDP(model)
found = [None] * size
dist.all_gather_object(found, model[0].weight.tolist())
assert found[0] == found[1]
assert list(ddp.state_dict())[0] == "module.0.weight"

# without exchange gradients are each process's own; the first pass after it exchanges the sum
linear = nn.Linear(1, 1, bias=False)
ddp = DDP(linear)
x = sg.tensor([[rank + 1.0]])
with ddp.no_sync():
    ddp(x).sum().backward()
assert linear.weight.grad.item() == rank + 1
held = linear.weight.grad
ddp(x * 10).sum().backward()
assert linear.weight.grad.item() == np.mean([11, 22]) and held is linear.weight.grad
ddp(x).sum().backward()
assert linear.weight.grad.item() == np.mean([11, 22]) + 1.5

# the same in compiled steps
optimizer = sg.optim.SGD(linear.parameters(), lr=0.0)
def accumulate(x):
    ddp(x).sum().backward()
    return linear.weight.grad * 1
compiled = sg.compile(accumulate)
optimizer.zero_grad()
for _ in range(2):
    linear.weight.grad = None
    with ddp.no_sync():
        assert compiled(x).item() == rank + 1
    assert compiled(x).item() == np.mean([1, 2]) + 1.5

# parameters that a process does not use
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.never = (nn.Linear(1, 1, bias=False) for _ in range(3))
    def forward(self, x, which):
        return (self.a if which == 0 else self.b)(x) if which < 2 else self.a(x) + self.b(x)

branches = Branches()
ddp = DDP(branches, find_unused_parameters=True)
ddp(sg.ones(1, 1), rank).sum().backward()
assert gradients(branches) == [[[0.5]], [[0.5]], None]
branches.zero_grad()
step = sg.compile(lambda x: ddp(x, rank).sum().backward())
step(sg.ones(1, 1))
assert gradients(branches) == [[[0.5]], [[0.5]], None]
step(sg.ones(1, 1))

ddp = DDP(branches)
ddp(sg.ones(1, 1), 2).sum().backward()
refused(lambda: ddp(sg.ones(1, 1), 2), "never.weight")

# two losses, one after the other
both = DDP(nn.ModuleDict({"a": nn.Linear(1, 1, bias=False), "b": nn.Linear(1, 1, bias=False)}))
both.module.forward = lambda x: (both.module["a"](x), both.module["b"](x))
a, b = both(sg.tensor([[rank + 1.0]]))
a.sum().backward()
b.sum().backward()
assert gradients(both) == [[[1.5]], [[1.5]]], gradients(both)

# buffers are those of the first process, in training
norm = nn.BatchNorm1d(1, affine=False)
model = nn.Sequential(nn.Linear(1, 1), norm)
ddp = DDP(model)
for n in range(3):
    ddp(sg.tensor([[0.0], [float(rank)]]) + n).sum().backward()
    ddp.zero_grad()
ddp(sg.ones(2, 1)).sum().backward()
dist.all_gather_object(found, [b.tolist() for b in norm.buffers()])
first, second = found
assert first == second, found
if rank == 0:
    ddp.eval()
    with sg.no_grad():
        ddp(sg.ones(2, 1))  # alone, which exchanges nothing
ddp.train()

# unlike numbers of batches
sg.manual_seed(0)
linear = nn.Linear(1, 1, bias=False)
nn.init.ones_(linear.weight)
ddp = DDP(linear)
optimizer = sg.optim.SGD(linear.parameters(), lr=1.0)
for by_all in (True, False):
    with sg.no_grad():
        linear.weight.fill_(0.0)
    with ddp.join(divide_by_initial_world_size=by_all):
        for _ in range(2 + 2 * rank):
            optimizer.zero_grad()
            ddp(sg.ones(1, 1)).sum().backward()
            optimizer.step()
    assert linear.weight.item() == (-3.0 if by_all else -4.0), linear.weight
def throws():
    with ddp.join(throw_on_early_termination=True):
        for _ in range(1 + rank):
            ddp(sg.ones(1, 1)).sum().backward()
refused(throws, "exhausted")
dist.barrier()

# fewer bits
for hook, tolerance in ((dist.default_hooks.fp16_compress_hook, 1e-3), (dist.default_hooks.bf16_compress_hook, 1e-2)):
    for feeds_back in (False, True):
        linear = nn.Linear(64, 1, bias=False)
        ddp = DDP(linear)
        ddp.register_comm_hook(dist.ErrorFeedback() if feeds_back else None, hook)
        values = np.random.default_rng(0).normal(size=(1, 64)).astype(np.float32)
        x = sg.tensor(values * (rank == 0))  # of which the sum is exact: what is lost is lost before
        exact = values[0] / 2
        total = 0
        step = sg.compile(lambda x: ddp(x).sum().backward())
        channel = ddp._state.reducer.channel
        route, sent = channel.route, set()
        channel.route = lambda node, *given: sent.add(node.dtype.name) or route(node, *given)
        for n in range(40):
            linear.zero_grad()
            (step(x) if n % 2 else ddp(x).sum().backward())
            total = total + linear.weight.grad.numpy()[0].astype(np.float64)
        error = np.abs(total / 40 - exact).max()
        assert 0 < error < (tolerance / 8 if feeds_back else tolerance), (hook.__name__, feeds_back, error)
        by_device = hook is dist.default_hooks.fp16_compress_hook and not feeds_back
        assert sent == {"float16" if by_device else "float32"}, sent  # cast by a kernel, not by the host

# two losses of one forward pass, where a process may not use all parameters
branches = Branches()
ddp = DDP(branches, find_unused_parameters=True)
branches.forward = lambda x: (branches.a(x), branches.b(x))
def two_losses(x):
    a, b = ddp(x)
    a.sum().backward()
    b.sum().backward()
for step in (two_losses, sg.compile(two_losses)):
    for _ in range(2):
        branches.zero_grad()
        step(sg.tensor([[rank + 1.0]]))
        assert gradients(branches) == [[[1.5]], [[1.5]], None], gradients(branches)
def join_two():
    with ddp.join():
        two_losses(sg.ones(1, 1))
refused(join_two, "add the losses")

# buffers of all dtypes
linear = nn.Linear(1, 1)
linear.register_buffer("k", sg.tensor([1, 2, 3], dtype=sg.uint16))
ddp = DDP(linear)
ddp(sg.ones(1, 1)).sum().backward()
assert linear.k.tolist() == [1, 2, 3], linear.k

# compiled before, a step is refused within join(), and goes on behind it
step = sg.compile(lambda x: ddp(x).sum().backward())
step(sg.ones(1, 1))
with ddp.join():
    refused(lambda: step(sg.ones(1, 1)), "join() counts")
step(sg.ones(1, 1))

# statistics of all processes, of more values than 16 bits count
norm = nn.SyncBatchNorm(1)
y = norm((sg.ones(1, 1, 300, 300) * 4 + 2 * rank).half())
assert y.dtype is sg.float16 and abs(y.float().mean().item() - (2 * rank - 1)) < 1e-3
close(norm.running_mean.numpy(), 0.5, "running mean", 1e-5)

# a hook of one's own
linear = nn.Linear(1, 1, bias=False)
ddp = DDP(linear)
def hook(state, bucket):
    assert bucket.is_last() and bucket.index() == 0 and [id(p) for p in bucket.parameters()] == [id(linear.weight)]
    buffer = bucket.buffer().div_(state)
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda f: f.value()[0])
ddp.register_comm_hook(size, hook)
ddp(sg.tensor([[rank + 1.0]])).sum().backward()
assert linear.weight.grad.item() == 1.5
refused(lambda: sg.compile(lambda x: ddp(x).sum().backward())(sg.ones(1, 1)), "hook")

# what would be ignored, or end a later step
whole = DDP(nn.Linear(1, 1))
hooks = dist.default_hooks
refused(lambda: whole.register_comm_hook(None, 3), "must be a function")
refused(lambda: whole.register_comm_hook(2, hooks.fp16_compress_hook), "would be ignored")
refused(lambda: whole.register_comm_hook(dist.ErrorFeedback(), hooks.allreduce_hook), "rounds nothing")
whole.register_comm_hook(dist.group.WORLD, hooks.fp16_compress_hook)
refused(lambda: whole.register_comm_hook(None, hook), "only be called once")
for cap in (-1, float("nan"), "25"):
    refused(lambda: DDP(nn.Linear(1, 1), bucket_cap_mb=cap), "number of megabytes")
refused(lambda: DDP([1]), "must be an nn.Module")

# models that differ
refused(lambda: DDP(nn.Linear(2, 1 + rank)), "weight: float32 (1, 2)")
refused(lambda: DDP(nn.Linear(2, 1, bias=rank == 0)), "rank 1 has")
refused(lambda: DDP(nn.ReLU()), "not needed")
dist.barrier()
"""
)


def test_its_rules_are_pytorchs() -> None:
    assert_ranks_pass(SEMANTICS, 2)


def test_a_pytorch_program_trains_in_two_processes(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as default\n"
        "dist.init_process_group('gloo')\n"
        "torch.manual_seed(0)\n"
        "data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1), torch.arange(8.0).reshape(8, 1) * 3)\n"
        "sampler = DistributedSampler(data)\n"
        "loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=sampler)\n"
        "model = DDP(torch.nn.Linear(1, 1))\n"
        "model.register_comm_hook(None, default.fp16_compress_hook)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.02)\n"
        "for epoch in range(30):\n"
        "    sampler.set_epoch(epoch)\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        loss = torch.nn.functional.mse_loss(model(x), y)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "print(round(model.module.weight.item(), 4))\n"
        "assert loss.item() < 0.5\n"
    )
    first, second = assert_ranks_pass(str(script), 2, sys.executable, "-m", "shadergrad", "run", "--device", "cpu")
    assert first == second


def test_a_killed_process_ends_a_compiled_training() -> None:
    source = (
        BEGIN
        + """
ddp = DDP(nn.Linear(4, 4))
@sg.compile
def step(x):
    ddp.zero_grad()
    ddp(x).sum().backward()
for n in range(100000):
    step(sg.ones(2, 4))
    if rank == 1 and n == 20:
        os.kill(os.getpid(), 9)
"""
    )
    ended = finish(start(source, 2), timeout=60)
    assert ended[0].code != 0
    assert "another process has ended" in ended[0].err
