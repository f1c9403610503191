"""Steps for other runners: `CompiledStep.portable`, what it refuses, and values that go out and come back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.plan import Plan
from shadergrad.target import PORTABLE


def training(device: str, seed: int = 0) -> tuple[Any, Any, Any]:
    sg.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)).to(device)
    optimizer = sg.optim.Adam(model.parameters(), lr=0.1)

    @sg.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def test_the_plan_is_within_the_least_limits_and_nothing_has_run(device: str) -> None:
    step, model, _ = training(device)
    before = model[0].weight.detach().numpy().copy()
    part = step.portable(sg.ones(5, 3, device=device))
    assert part.plan.target == PORTABLE
    assert all(k.source for k in part.plan.kernels)
    assert (model[0].weight.detach().numpy() == before).all()
    assert part.arguments["x"].shape == (5, 3)
    assert {("parameter", "0.weight"), ("state", "exp_avg.0.weight"), ("counter", "counter")} <= part.state().keys()
    assert [name for _, name in part.weights] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    document = json.loads(part.to_json("state.safetensors"))
    assert Plan.from_json(json.dumps(document["plan"])) == part.plan
    assert document["weights"][0] == "parameter/0.weight"


def test_a_state_that_is_restored_gives_the_same_losses_again(device: str) -> None:
    step, _, optimizer = training(device)
    x = sg.ones(5, 3, device=device)
    step(x)
    part = step.portable(x)
    state = part.state()
    first = [step(x).item() for _ in range(4)]
    part.restore(state)
    assert [step(x).item() for _ in range(4)] == first
    state["state", "lr"] = np.array(0.5, np.float32)
    part.restore(state)
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert step.captures == 1


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(device: str) -> None:
    step, model, _ = training(device)
    part = step.portable(sg.ones(5, 3, device=device))
    before = model[0].weight.detach().numpy().copy()
    state = {label: value + 1 for label, value in part.state().items()}
    state["parameter", "0.bias"] = np.zeros(5, np.float32)
    with pytest.raises(sg.CheckpointError, match=r"parameter 0.bias is float32 \(5,\), not float32 \(4,\)"):
        part.restore(state)
    del state["parameter", "0.bias"]
    state["parameter", "nothing"] = np.zeros(5, np.float32)
    with pytest.raises(sg.CheckpointError, match=r"parameter 0.bias is missing; parameter nothing is not known"):
        part.restore(state)
    assert (model[0].weight.detach().numpy() == before).all()


def test_what_only_python_can_do_is_refused(device: str) -> None:
    kept: list[Any] = []

    @sg.compile
    def keeping(x: Any) -> Any:
        kept.append(x + 1)
        return x

    @sg.compile
    def changing(x: Any) -> Any:
        return x.add_(1)

    with pytest.raises(
        sg.CompileError, match=r"\[portable\] the step leaves something in Python at each call \(kept\)"
    ):
        keeping.portable(sg.ones(2, device=device))
    with pytest.raises(sg.CompileError, match=r"\[portable\] the step changes one of its arguments"):
        changing.portable(sg.ones(2, device=device))


def test_a_dtype_that_no_gpu_has_is_refused() -> None:
    double = sg.compile(lambda x: x + x)
    with pytest.raises(sg.DTypeError, match=r"\[portable\] argument x is float64, which no GPU has"):
        double.portable(sg.ones(2, dtype=sg.float64))


def test_programs_that_share_a_state_call_it_alike(device: str) -> None:
    weight, bias = sg.ones(2, device=device), sg.ones(2, device=device)

    def scaled(x: Any) -> Any:
        weight.add_(1)
        return weight * x

    other = [sg.full((2,), 3.0, device=device)]
    first = sg.compile(scaled).portable(sg.ones(2, device=device))
    second = sg.compile(lambda x: weight * x + other[0] + bias).portable(sg.ones(2, device=device))
    known: dict[int, Any] = {}
    first.share(known, "first")
    second.share(known, "second")
    assert ("state", "weight") in second.state()  # a constant there, and state of the first
    assert len({*first.state(), *second.state()}) == 3
