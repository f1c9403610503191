"""Recipes and Trainers in several processes: the curve of one process, files of the first, and what follows an end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import shadergrad as sg
from ranks import SRC, assert_ranks_pass, finish, start
from shadergrad.checkpoint import load_checkpoint

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]

TRAINER = """
import numpy as np
import shadergrad as sg
nn, F = sg.nn, sg.nn.functional
def trained(**options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int32)
    sg.manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = sg.train.Trainer(model, optimizer, F.cross_entropy, (x, y), validation=(x, y), measures="accuracy", batch_size=16,
                               progress=False, **options)
    history = trainer.fit(3)
    return history["loss"], np.concatenate([p.detach().numpy().reshape(-1) for p in model.parameters()])
alone, together = trained(), trained(distributed=True)
assert sg.distributed.get_world_size() == 2
assert np.abs(alone[1] - together[1]).max() < 1e-5, np.abs(alone[1] - together[1]).max()
assert np.abs(np.subtract(alone[0], together[0])).max() < 1e-5
try:
    trained(distributed=True, accumulate=2)
except sg.ShadergradError as error:
    assert "accumulate" in str(error)
else:
    raise AssertionError
"""


def test_a_trainer_of_two_processes_has_the_curve_of_one() -> None:
    assert_ranks_pass(TRAINER, 2)


DATA_SETS = """
import warnings
import numpy as np
import shadergrad as sg
nn, F, dist = sg.nn, sg.nn.functional, sg.distributed
dist.init_process_group("gloo", timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
y = x[:, :1] * 2 - x[:, 1:2]
class Logged(sg.data.Dataset):
    def __init__(self, count=64):
        self.count, self.given = count, []
    def __len__(self):
        return self.count
    def __getitem__(self, k):
        self.given.append(int(k))
        return x[k], y[k]
def trained(data, epochs=2, **options):
    sg.manual_seed(3)
    model = nn.Linear(4, 1)
    trainer = sg.train.Trainer(model, sg.optim.SGD(model.parameters(), lr=0.1), F.mse_loss, data, batch_size=16, progress=False, **options)
    history = trainer.fit(epochs)
    assert trainer._run._samples_in([sg.zeros(8, 4), sg.zeros(8, 1)]) == 16  # of both processes
    return history["loss"], np.append(model.weight.detach().numpy(), model.bias.item())
def everyone(value):
    found = [None] * size
    dist.all_gather_object(found, value)
    return found
def refused(call, word):
    try:
        call()
    except sg.ShadergradError as error:
        assert word in str(error), str(error)
    else:
        raise AssertionError("not refused: " + word)
def assert_divided(given):
    first, second = (sorted(sum((g[k * 32 : k * 32 + 32] for g in given), [])) for k in range(2))  # of each epoch
    assert first == second == list(range(64)), given
    assert given[rank][:32] != given[rank][32:], "each epoch has an order of its own"

# a data set: each process takes its share of every batch, in the same order as alone with these batches
data = Logged()
losses, weights = trained(data, distributed=True)
given = everyone(data.given)
assert_divided(given)
order = [k for pair in zip(*given) for k in pair]
batches = [order[k : k + 16] for k in range(0, 128, 16)]
sg.manual_seed(3)
model = nn.Linear(4, 1)
optimizer = sg.optim.SGD(model.parameters(), lr=0.1)
for batch in batches:
    optimizer.zero_grad()
    F.mse_loss(model(sg.tensor(x[batch])), sg.tensor(y[batch])).backward()
    optimizer.step()
alone = np.append(model.weight.detach().numpy(), model.bias.item())
assert np.abs(alone - weights).max() < 1e-6, (alone, weights)
refused(lambda: sg.train.Trainer(model, optimizer, F.mse_loss, data, batch_size=15, distributed=True), "batch of 15 cannot be shared by 2")

# a loader of one's own: its sampler is told the epoch
data = Logged()
with warnings.catch_warnings():
    warnings.simplefilter("error")
    trained(sg.data.DataLoader(data, 8, sampler=sg.utils.data.DistributedSampler(data)), distributed=True)
assert_divided(everyone(data.given))

# all samples in all processes, which is seldom meant; and unequal numbers of batches, for which one process would wait
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    trained(sg.data.DataLoader(Logged(), 8, shuffle=True), distributed=True)
    assert [w for w in told if "DistributedSampler(dataset)" in str(w.message)] or rank
refused(lambda: trained(sg.data.DataLoader(Logged(32 + 16 * rank), 8), distributed=True), "rank 0 4, rank 1 6")
dist.barrier()
"""


def test_data_sets_and_loaders_are_divided_among_the_processes() -> None:
    assert_ranks_pass(DATA_SETS, 2)


def test_a_schedule_counts_in_all_processes() -> None:
    source = """
import numpy as np
import shadergrad as sg
nn, F = sg.nn, sg.nn.functional
class Seen(sg.train.Callback):
    epochs = 0
    def on_epoch_end(self, run, row):
        self.epochs += 1
def trained(make, **options):
    sg.manual_seed(0)
    model = nn.Linear(1, 1)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)
    x = np.arange(8.0, dtype=np.float32).reshape(8, 1) / 8
    own, everywhere = Seen(), Seen()
    everywhere.everywhere = True
    callbacks = [sg.train.Schedule(make(optimizer)), own, everywhere]
    sg.train.Trainer(model, optimizer, F.mse_loss, (x, x), validation=(x, x), batch_size=4, progress=False, callbacks=callbacks, **options).fit(4)
    return [model.weight.item(), model.bias.item()], optimizer.param_groups[0]["lr"], own.epochs, everywhere.epochs
for make in (lambda o: sg.optim.lr_scheduler.StepLR(o, 1, 0.1),
             lambda o: sg.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=10.0, threshold_mode="abs")):
    alone, together = trained(make), trained(make, distributed=True)
    rank = sg.distributed.get_rank()
    assert np.abs(np.subtract(alone[0], together[0])).max() < 1e-6, (alone, together)
    assert alone[1] == together[1] < 0.1, (alone, together)
    assert alone[2:] == (4, 4) and together[2:] == (0 if rank else 4, 4), together
"""
    assert_ranks_pass(source, 2)


def _rows(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def _run(count: int, *options: str) -> None:
    command = [sys.executable, "-m"]
    if count > 1:
        command += ["torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "-m"]
    command += ["shadergrad", "train", "digits", "--device", "cpu", "--batch-size", "100", *options]
    env = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_recipe_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    _run(1, "--epochs", "4", "--out", str(tmp_path / "one"))
    _run(2, "--epochs", "2", "--out", str(tmp_path / "two"))
    _run(1, "--epochs", "3", "--out", str(tmp_path / "two"), "--resume")
    _run(2, "--epochs", "4", "--out", str(tmp_path / "two"), "--resume")
    one, two = _rows(tmp_path / "one"), _rows(tmp_path / "two")
    assert len(one) == len(two) == 4
    assert two == pytest.approx(one, rel=2e-3)


def test_a_killed_process_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    source = f"""
import os, sys, threading, time
from pathlib import Path
checkpoint = Path({str(tmp_path / "checkpoint.json")!r})
before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
def kill():
    while not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before:
        time.sleep(0.01)
    time.sleep(float(os.environ["AFTER"]))
    os.kill(os.getpid(), 9)
if os.environ["RANK"] == os.environ["KILLED"]:
    threading.Thread(target=kill, daemon=True).start()
from shadergrad.cli import main
sys.argv = ["shadergrad", "train", "digits", "--device", "cpu", "--epochs", "2000", "--batch-size", "100", "--out", str(checkpoint.parent)]
sys.argv += ["--resume"] if before else []
main()
"""
    for killed, after in (("1", "0.5"), ("0", "0.123")):
        ended = finish(start(source, 2, AFTER=after, KILLED=killed), timeout=120)
        assert all(e.code != 0 for e in ended), [e.err[-500:] for e in ended]
        assert "another process has ended" in ended[1 - int(killed)].err
    load_checkpoint(tmp_path)
