"""Optimizers over several processes: divided state, and exchanges every so many steps."""

from __future__ import annotations

import pytest

import shadergrad as sg
from ranks import assert_ranks_pass

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]

BEGIN = """
import copy
import numpy as np
import shadergrad as sg
nn, F, dist = sg.nn, sg.nn.functional, sg.distributed
dist.init_process_group("gloo", timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(0)
data = rng.normal(size=(12, 8, 4)).astype(np.float32)
target = (data @ rng.normal(size=(4, 2)).astype(np.float32))
def make():
    sg.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
def flat(model):
    return np.concatenate([p.detach().numpy().reshape(-1) for p in model.parameters()])
def refused(call, word):
    try:
        call()
    except sg.ShadergradError as error:
        assert word in str(error), str(error)
    else:
        raise AssertionError("not refused: " + word)
"""


def test_divided_state_gives_the_same_updates() -> None:
    assert_ranks_pass(
        BEGIN
        + """
def train(divides, is_compiled, resume=None):
    model = make()
    run = nn.parallel.DistributedDataParallel(model)
    kind = (lambda p: sg.optim.ZeroRedundancyOptimizer(p, optimizer_class=sg.optim.AdamW, lr=0.05)) if divides else (
        lambda p: sg.optim.AdamW(p, lr=0.05))
    optimizer = kind(model.parameters())
    scheduler = sg.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    def step(x, y):
        optimizer.zero_grad()
        F.mse_loss(run(x), y).backward()
        optimizer.step()
    if is_compiled:
        step = sg.compile(step)
    found = []
    for x, y in zip(data[:6], target):
        step(sg.tensor(x[rank::size]), sg.tensor(y[rank::size]))
        scheduler.step()
        found.append(flat(model))
    return np.array(found), optimizer, model, step

plain, whole, *_ = train(False, False)
for is_compiled in (False, True):
    found, optimizer, model, step = train(True, is_compiled)
    assert np.abs(found - plain).max() < 2e-6, np.abs(found - plain).max()
    assert all(p.grad is not None for p in model.parameters())
    held = sum(v.numel() for s in optimizer.state.values() for n, v in s.items() if n != "step")
    assert held < 0.7 * sum(v.numel() for s in whole.state.values() for n, v in s.items() if n != "step")
    assert isinstance(optimizer, sg.optim.AdamW)
    refused(optimizer.state_dict, "consolidate_state_dict")
    optimizer.consolidate_state_dict(to=1)
    if rank == 1:
        expected, got = whole.state_dict(), optimizer.state_dict()
        assert sorted(got["state"]) == sorted(expected["state"])
        for k in got["state"]:
            assert np.abs(got["state"][k]["exp_avg"].numpy() - expected["state"][k]["exp_avg"].numpy()).max() < 1e-6
        plainly = sg.optim.AdamW(make().parameters())
        plainly.load_state_dict(got)  # by one process
    saved = whole.state_dict()
    optimizer.load_state_dict(saved)
    assert sum(v.numel() for s in optimizer.state.values() for n, v in s.items() if n != "step") == held
refused(lambda: sg.optim.ZeroRedundancyOptimizer(make().parameters(), optimizer_class=int), "class of optimizers")
refused(lambda: sg.optim.ZeroRedundancyOptimizer(make().parameters(), optimizer_class=sg.optim.LBFGS), "of all parameters together")

# a state that was gathered is not that of what was loaded since; groups that come later leave the shares of others
optimizer.consolidate_state_dict(to=rank)
optimizer.load_state_dict(saved)
refused(optimizer.state_dict, "consolidate_state_dict")
model, late = make(), nn.Linear(64, 8)
plain, divided = (kind([p for p in m.parameters()]) for m, kind in (
    (copy.deepcopy(model), lambda p: sg.optim.AdamW(p, lr=0.05)),
    (model, lambda p: sg.optim.ZeroRedundancyOptimizer(p, optimizer_class=sg.optim.AdamW, lr=0.05))))
late_plain = copy.deepcopy(late)
for n in range(4):
    if n == 2:
        plain.add_param_group({"params": list(late_plain.parameters())})
        divided.add_param_group({"params": list(late.parameters())})
    for o in (plain, divided):
        for k, p in enumerate(p for g in o.param_groups for p in g["params"]):
            p.grad = sg.ones_like(p) * (k + n - 1.5)
        o.step()
    for a, b in zip(plain.param_groups, divided.param_groups):
        for p, q in zip(a["params"], b["params"]):
            assert np.abs(p.detach().numpy() - q.detach().numpy()).max() < 1e-6, n
""",
        2,
    )


def test_exchanges_every_so_many_steps_are_those_of_the_formula() -> None:
    assert_ranks_pass(
        BEGIN
        + """
def inner_steps(model, optimizer, start, count, which):
    for x, y in zip(data[start : start + count], target[start:]):
        optimizer.zero_grad()
        F.mse_loss(model(sg.tensor(x[which::size])), sg.tensor(y[which::size])).backward()
        getattr(optimizer, "inner", optimizer).step()
        if isinstance(optimizer, sg.optim.DiLoCo):
            optimizer.advance()

def expected(every, lr, momentum, steps):
    models = [make() for _ in range(size)]
    optimizers = [sg.optim.AdamW(m.parameters(), lr=0.02) for m in models]
    shared, v = flat(models[0]), 0.0
    for start in range(0, steps, every):
        for k in range(size):
            inner_steps(models[k], optimizers[k], start, every, k)
        mean = np.mean([shared - flat(m) for m in models], axis=0)
        v = momentum * v + mean
        shared = shared - lr * (mean + momentum * v)
        for m in models:
            at = 0
            for p in m.parameters():
                p.write_(shared[at : at + p.numel()].reshape(p.shape))
                at += p.numel()
    return shared

for dtype, tolerance in (("float32", 1e-5), ("float16", 2e-3), ("int8", 2e-2)):
    model = make()
    if rank:
        with sg.no_grad():
            model[0].weight.zero_()  # all begin with the first one's
    optimizer = sg.optim.DiLoCo(sg.optim.AdamW(model.parameters(), lr=0.02), every=3, lr=0.7, momentum=0.9, dtype=dtype)
    inner_steps(model, optimizer, 0, 12, rank)
    assert optimizer.exchanges == 4
    error = np.abs(flat(model) - expected(3, 0.7, 0.9, 12)).max()
    assert error < tolerance, (dtype, error)
    found = [None] * size
    dist.all_gather_object(found, flat(model))
    assert (found[0] == found[1]).all()

    # nothing has changed since the last exchange: at the end nothing moves, nor after a restart there
    before = flat(model)
    optimizer.finish()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.finish()
    assert optimizer.exchanges == 4 and (flat(model) == before).all()

# what inner steps move while a part travels is kept
for count in (1, 3):
    parameters = [nn.Parameter(sg.zeros(4)) for _ in range(count)]
    optimizer = sg.optim.DiLoCo(sg.optim.SGD(parameters, lr=0.1), every=2, delay=1, lr=1.0, momentum=0.0)
    for moved in (1 + rank, 1 + rank, 10):
        with sg.no_grad():
            for p in parameters:
                p += float(moved)
        optimizer.advance()
    for p in parameters:
        assert (p.detach().numpy() == 3 + 10).all(), p

# in parts, with inner steps while they travel
model = make()
optimizer = sg.optim.DiLoCo(sg.optim.SGD(model.parameters(), lr=0.1), every=4, parts=2, delay=1, lr=1.0, momentum=0.0)
before = F.mse_loss(model(sg.tensor(data.reshape(-1, 4))), sg.tensor(target.reshape(-1, 2))).item()
for _ in range(5):
    inner_steps(model, optimizer, 0, 12, rank)
state = optimizer.state_dict()
optimizer.finish()
dist.all_gather_object(found, flat(model))
assert np.abs(found[0] - found[1]).max() == 0
after = F.mse_loss(model(sg.tensor(data.reshape(-1, 4))), sg.tensor(target.reshape(-1, 2))).item()
assert after < 0.5 * before, (before, after)
optimizer.load_state_dict(state)
assert optimizer.steps == 60
refused(lambda: sg.compile(lambda x: (model(x).sum().backward(), optimizer.step()))(sg.ones(1, 4)), "advance")
refused(lambda: sg.optim.DiLoCo(sg.optim.SGD(model.parameters(), lr=0.1), every=2 + rank), "options")
def outer(**options):
    return sg.optim.DiLoCo(sg.optim.SGD(model.parameters(), lr=0.1), **options)
refused(lambda: outer(dtype="int4"), "int8")
for options, word in (({"every": 2.5}, "whole numbers"), ({"delay": 0.5}, "whole numbers"), ({"every": "3"}, "whole numbers"),
                      ({"lr": float("nan")}, "positive"), ({"lr": "a"}, "a number"), ({"momentum": 1.0}, "[0, 1)")):
    refused(lambda: outer(**options), word)
refused(lambda: sg.optim.DiLoCo(model.parameters()), "must be an optimizer")
refused(lambda: optimizer.add_param_group({"params": [nn.Parameter(sg.zeros(1))]}), "would not be exchanged")
refused(lambda: sg.amp.GradScaler().step(optimizer), "scaler.step(optimizer.inner)")
refused(lambda: optimizer.load_state_dict({}), "lacks inner, outer, steps")
refused(lambda: outer().load_state_dict(state), "Hint: the same model and number of parts")

# a state goes on from a file as from memory
import io
file = io.BytesIO()
sg.save(state, file)
file.seek(0)
ends = []
weights = copy.deepcopy(model.state_dict())
for given in (state, sg.load(file)):
    model.load_state_dict(weights)
    optimizer = outer(every=4, parts=2, delay=1, lr=1.0, momentum=0.5)
    optimizer.load_state_dict(given)
    inner_steps(model, optimizer, 0, 6, rank)
    optimizer.finish()
    assert optimizer.steps == 66
    ends.append(flat(model))
assert (ends[0] == ends[1]).all()
""",
        2,
    )
