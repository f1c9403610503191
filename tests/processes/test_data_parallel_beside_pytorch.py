"""Rarer habits of DistributedDataParallel: the same program by PyTorch and by this library, process by process."""

from __future__ import annotations

import sys

import pytest

import shadergrad as sg
from ranks import assert_ranks_pass

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]

PROGRAM = """
import copy, os, pickle, sys
if sys.argv[1] == "torch":
    import torch as sg, torch.distributed as dist
    nn, F = sg.nn, sg.nn.functional
else:
    import shadergrad as sg
    nn, F, dist = sg.nn, sg.nn.functional, sg.distributed
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
DDP = nn.parallel.DistributedDataParallel
x = sg.tensor([[rank + 1.0]])
def show(name, *values):
    rounded = [[round(v, 4) + 0.0 for v in sg.as_tensor(value).float().reshape(-1).tolist()] for value in values]
    os.write(1, f"{name} {rounded}\\n".encode())
def line():
    made = nn.Linear(1, 1, bias=False)
    nn.init.ones_(made.weight)
    return made
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = line(), line(), line()
    def forward(self, x, *which):
        found = [(self.a, self.b, self.c)[k](x) for k in which]
        return found[0] if len(found) == 1 else found

model = line()
ddp = DDP(model)
loss = ddp(x).sum()
with sg.no_grad():
    ddp(x)
loss.backward()
show("a forward pass without gradients between", model.weight.grad)

model = line()
ddp = DDP(model)
(ddp(x).sum() + ddp(x * 10).sum()).backward()
show("two forward passes", model.weight.grad)

model = Branches()
ddp = DDP(model, find_unused_parameters=True)
with ddp.no_sync():
    ddp(x, 0).sum().backward()
ddp(x, 1).sum().backward()
show("accumulated by another branch", model.a.weight.grad, model.b.weight.grad)
assert model.c.weight.grad is None

model = Branches()
ddp = DDP(model, find_unused_parameters=True)
loss = ddp(x, rank % 2).sum()
loss.backward(retain_graph=True)
loss.backward()
show("a second backward pass stays at home", model.a.weight.grad, model.b.weight.grad)

model = line()
copied = copy.deepcopy(DDP(model))
copied(x).sum().backward()
show("a copy", copied.module.weight.grad)
assert model.weight.grad is None
copied = pickle.loads(pickle.dumps(DDP(model)))
copied(x).sum().backward()
show("a pickle", copied.module.weight.grad)
assert model.weight.grad is None

model = line()
model.c = nn.Parameter(sg.tensor([1 + 1j * (rank + 1)]))
model.forward = lambda x: (model.c * x.reshape(-1)).abs().sum() + (x @ model.weight.T).sum()
ddp = DDP(model)
ddp(x).backward()
show("complex", model.c.grad.real, model.c.grad.imag, model.weight.grad)
for dtype in (sg.float16, sg.bfloat16):
    model = line().to(dtype)
    ddp = DDP(model)
    ddp((x * 3).to(dtype)).sum().backward()
    show("16 bits", model.weight.grad)
    assert model.weight.grad.dtype is dtype

# in turn rank 0, the middle and the last one have fewest batches; two end together
for batches in ((1, 2, 4), (4, 1, 2), (4, 2, 1), (4, 4, 2), (2, 4, 4)):
    model = nn.BatchNorm1d(1)
    ddp = DDP(model)
    optimizer = sg.optim.SGD(ddp.parameters(), lr=0.1)
    with ddp.join():
        for n in range(batches[rank]):
            optimizer.zero_grad()
            ddp(sg.tensor([[10.0 + n], [12.0 * (rank + 1)]])).pow(2).sum().backward()
            optimizer.step()
    show("buffers after join", model.running_mean, model.running_var, model.num_batches_tracked, model.weight, model.bias)

model = Branches()
ddp = DDP(model, find_unused_parameters=True)
optimizer = sg.optim.SGD(ddp.parameters(), lr=0.1)
with ddp.join():
    for n in range(1 + rank):
        optimizer.zero_grad()
        ddp(x, n % 2).sum().backward()
        optimizer.step()
show("join with unused parameters", *[p for p in model.parameters()])

os.environ.pop("LOCAL_RANK") if rank == 1 else None
show("ranks", dist.get_node_local_rank(7))
"""


def test_it_does_what_pytorch_does() -> None:
    theirs, ours = (
        assert_ranks_pass(PROGRAM.replace("sys.argv[1]", repr(name)), 3, sys.executable, "-W", "ignore", "-c")
        for name in ("torch", "shadergrad")
    )
    for rank, (expected, found) in enumerate(zip(theirs, ours, strict=True)):
        assert found.splitlines() == expected.splitlines(), f"rank {rank}"
