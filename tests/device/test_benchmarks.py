"""The benchmarks measure the same training in both libraries, and run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import coevolution
import dca
import first_step
import growth
import host_time
import implementations
import shadergrad as sg
import shapes
import step
import transfers
import uncompiled
import uncompiled_programs
from workloads import WORKLOADS


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # PyTorch, on its own speed
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_training_as_pytorchs(name: str) -> None:
    """Three steps from the same weights, in float64 from the same batch."""
    torch.manual_seed(0)
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


@pytest.mark.slow  # two processes that import their library and compile
def test_the_benchmark_of_programs_prints_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    uncompiled_programs.main("cpu", threads=1, rounds=1, only="gcn,image_field")
    printed = capsys.readouterr().out
    for words in ("gcn", "image_field", "PyTorch eager", "2 programs", "quartiles"):
        assert words in printed


def test_the_benchmark_of_loops_prints_each_way(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    uncompiled.main("mlp", device, steps=2, rounds=1, small=True)
    printed = capsys.readouterr().out
    for words in ("uncompiled", "module", "step", "times as fast"):
        assert words in printed


def test_the_benchmark_of_sizes_prints_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    shapes.main("mlp", "cpu", small=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "dynamic=None"
    assert len(lines) > 3
    assert all("0 kernels compiled" in line for line in lines[1:])


def test_the_benchmarks_of_the_host_print_their_parts(webgpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    first_step.main(["xor"], webgpu, small=True)
    host_time.main(["xor"], webgpu, rounds=2, small=True)
    implementations.main(rounds=4)
    host_time.main(["xor"], webgpu, rounds=4, small=True, is_uncompiled=True)
    transfers.main(webgpu, mib=2, rounds=1)
    printed = capsys.readouterr().out
    for words in ("first step", "us a dispatch from begin to submit", "GB/s down"):
        assert words in printed


@pytest.mark.slow
def test_the_growth_of_a_network_is_measured_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    growth.main("cpu", "torch", tmp_path, only=["decoder"], small=True)
    points = json.loads((tmp_path / "growth.json").read_text())["points"]
    assert [(p["axis"], p["size"]) for p in points] == [
        ("batch", 1), ("batch", 2), ("width", 64), ("width", 128), ("depth", 1), ("depth", 2)
    ]  # fmt: skip
    costs = {(p["axis"], p["size"]): p["gflop"] for p in points}
    assert costs["batch", 2] == pytest.approx(2 * costs["batch", 1])
    assert costs["depth", 2] > costs["depth", 1]
    assert all(p["ms"] > 0 and p["torch_ms"] > 0 for p in points)
    growth.main(drawn=tmp_path / "growth.json")
    assert (tmp_path / "growth.png").stat().st_size > 10_000
    assert capsys.readouterr().out.count("growth.png") == 2


def test_the_benchmark_of_direct_couplings_finds_what_it_planted(capsys: pytest.CaptureFixture[str]) -> None:
    dca.main("cpu", small=True)
    printed = capsys.readouterr().out
    assert printed.count("100 % of the planted pairs first") == 2
    assert printed.count("TFLOP/s") == 3


@pytest.mark.slow
def test_the_curve_over_depth_is_drawn_of_every_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coevolution.main("cpu", tmp_path, small=True)
    curves = json.loads((tmp_path / "curve.json").read_text())["curves"]
    baselines = {"MI+APC", "mfDCA", "plmDCA", "model"}
    assert set(curves["independent"]) == baselines | {"model without phase 1"}
    assert set(curves["tree"]) == baselines
    assert all(set(curve) == {"8", "12"} for curve in curves["tree"].values())
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".png", ".safetensors"}
    assert "pairs/s" in capsys.readouterr().out


# The most dispatches that a step of a small workload may take, and within the portable limits, where kernels have 8 buffers.
# What raises one of these numbers costs every step.
MOST_DISPATCHES = {"mlp": (12, 21), "cnn": (18, 29), "resnet": (154, 332), "transformer": (60, 122), "mlm": (61, 121)}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST_DISPATCHES)
def test_a_step_takes_no_more_dispatches_than_before(name: str, webgpu: str) -> None:
    runner = step.ours(WORKLOADS[name](True), webgpu)
    runner.call()
    plan = runner.compiled.plan
    assert len(plan.dispatches) <= MOST_DISPATCHES[name][plan.target.max_storage_buffers <= 8]
