"""The benchmarks measure the same training in both libraries, and run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import shadergrad as sg
import step
import uncompiled
from workloads import WORKLOADS


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # PyTorch, on its own speed
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_training_as_pytorchs(name: str) -> None:
    """Three steps from the same weights, in float64 from the same batch."""
    workload = WORKLOADS[name](True)
    model, peer = workload.model(sg).to(sg.float64), workload.model(torch).double()
    model.load_state_dict(peer.state_dict())
    losses: list[list[float]] = []
    for lib, net in ((sg, model), (torch, peer)):
        optimizer = getattr(lib.optim, workload.optimizer)(net.parameters(), lr=workload.lr)
        x, y = (lib.tensor(a.astype(np.float64 if a.dtype.kind == "f" else np.int64)) for a in workload.batch())
        losses.append([])
        for _ in range(3):
            optimizer.zero_grad()
            loss = workload.loss(lib, net, x, y)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert losses[0][2] < losses[0][0]


def test_the_benchmark_prints_time_ratio_and_memory(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    step.main("mlp", device, against="torch", steps=2, rounds=1, small=True)
    printed = capsys.readouterr().out
    for words in ("ms/step", "times as fast", "us host a dispatch", "peak device memory:"):
        assert words in printed
    assert ("B ours" in printed) == (device == "webgpu")


def test_the_benchmark_of_loops_prints_each_way(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    uncompiled.main("mlp", device, steps=2, rounds=1, small=True)
    printed = capsys.readouterr().out
    for words in ("uncompiled", "module", "step", "times as fast"):
        assert words in printed
