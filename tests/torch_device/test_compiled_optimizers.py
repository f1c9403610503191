"""torch.compile(backend="shadergrad") of training steps with their optimizer inside: ten losses beside PyTorch's cpu, and one capture a graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # of PyTorch's compiler
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),  # of an import of PyTorch's own
]
D = "webgpu"
STEPS = 10
Make = Callable[[Any], optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "AdamW": lambda p: optim.AdamW(p, 1e-2),
    "AdamW, one by one": lambda p: optim.AdamW(p, 1e-2, foreach=False),
    "AdamW, in groups": lambda p: optim.AdamW([{"params": (q := list(p))[:2]}, {"params": q[2:], "lr": 1e-3}], 1e-2),
    "Adam": lambda p: optim.Adam(p, 1e-2, amsgrad=True),
    "SGD": lambda p: optim.SGD(p, 1e-2, momentum=0.9, weight_decay=0.1, nesterov=True),
    "RMSprop": lambda p: optim.RMSprop(p, 1e-2, momentum=0.9, centered=True),
    "NAdam": lambda p: optim.NAdam(p, 1e-2),
    "Rprop": lambda p: optim.Rprop(p, 1e-2),
    "Adagrad": lambda p: optim.Adagrad(p, 1e-2),
}


def perceptron() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(8, 4)


def training(model: nn.Module, optimizer: optim.Optimizer, x: Tensor) -> Callable[[], Tensor]:
    def step() -> Tensor:
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def losses(make: Make, graphs: list[Any], runs_compiled: Callable[[int], bool] = lambda k: True) -> list[list[float]]:
    """Ten of PyTorch's cpu, ten of a compiled step. Asserts that the latter compiles nothing after two steps, and captures each graph once."""
    model, x = perceptron()
    found: list[list[float]] = []
    compiled_after: list[int] = []
    for place in ("cpu", D):
        m: nn.Module = copy.deepcopy(model).to(place)
        optimizer = make(m.parameters())
        step = training(m, optimizer, x.to(place))
        run = torch.compile(step, backend="shadergrad") if place == D else step
        found.append([])
        for k in range(STEPS):
            found[-1].append((run if runs_compiled(k) else step)().item())
            if place == D and runs_compiled(k):
                compiled_after.append(len(graphs))
    assert compiled_after[0] > 0
    assert len(set(compiled_after[1:])) == 1, "a graph was compiled after the second step"
    assert [None if g.step is None else g.step.captures for g in graphs] == [1] * len(graphs)
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_may_be_compiled_whole(name: str, torch_device: Any, graphs: list[Any]) -> None:
    host, device = losses(OPTIMIZERS[name], graphs)
    assert device == pytest.approx(host, abs=2e-6)
    assert host[-1] < host[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_an_optimizer_that_has_begun_may_be_compiled_and_goes_on_uncompiled(
    name: str, torch_device: Any, graphs: list[Any]
) -> None:
    host, device = losses(OPTIMIZERS[name], graphs, lambda k: 2 <= k < 8)
    assert device == pytest.approx(host, abs=2e-6)


def test_an_optimizer_by_itself_may_be_compiled_with_a_rate_that_changes(torch_device: Any, graphs: list[Any]) -> None:
    """A rate that is a tensor is an input of the graph; PyTorch compiles a number anew."""
    model, x = perceptron()
    found: list[list[float]] = []
    for place in ("cpu", D):
        m: nn.Module = copy.deepcopy(model).to(place)
        optimizer = optim.AdamW(m.parameters(), lr=torch.tensor(1e-2, device=place))
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        update = torch.compile(optimizer.step, backend="shadergrad") if place == D else optimizer.step
        found.append([])
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = m(x.to(place)).pow(2).mean()
            loss.backward()
            update()
            schedule.step()
            found[-1].append(loss.item())
    assert found[1] == pytest.approx(found[0], abs=2e-6)
    assert [None if g.step is None else g.step.captures for g in graphs] == [1]


def test_a_saved_state_goes_on_in_a_compiled_step_and_on_the_cpu(torch_device: Any, graphs: list[Any]) -> None:
    model, x = perceptron()
    steps: list[Callable[[], Tensor]] = []
    held: list[tuple[nn.Module, optim.Optimizer]] = []
    for place in (D, D, "cpu"):
        m: nn.Module = copy.deepcopy(model).to(place)
        optimizer = optim.AdamW(m.parameters(), 1e-2)
        if held:
            m.load_state_dict(held[0][0].state_dict())
            saved = copy.deepcopy(held[0][1].state_dict())
            if place == "cpu":
                saved["param_groups"][0]["capturable"] = False  # PyTorch's cpu has no such steps
            optimizer.load_state_dict(saved)
        step = training(m, optimizer, x.to(place))
        steps.append(torch.compile(step, backend="shadergrad") if place == D else step)
        if not held:
            for _ in range(3):
                steps[0]()
        held.append((m, optimizer))
    found = [[step().item() for _ in range(3)] for step in steps]
    assert found[1] == pytest.approx(found[0], abs=1e-6)
    assert found[2] == pytest.approx(found[0], abs=2e-6)
