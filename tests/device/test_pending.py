"""A computation that fails belongs to the tensor that it is for, and to nobody else."""

from __future__ import annotations

import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.runtime.device import get_device


def failing(device: str) -> sg.Tensor:
    """A pending tensor whose computation raises on every device."""
    if device == "cpu":
        return nn.functional.cross_entropy(sg.zeros(1, 3), sg.tensor([7]))
    return sg.zeros(get_device(device).target.max_binding_bytes // 4 + 1024, device=device).add(1)


def test_creating_an_optimizer_and_stepping_do_not_meet_the_failure_of_another_tensor(device: str) -> None:
    bad = failing(device)
    neighbour = sg.ones(2, device=device) + 1
    model = nn.Linear(2, 1).to(device)
    optimizer = sg.optim.Adam(model.parameters(), lr=0.1)
    model(sg.ones(1, 2, device=device)).sum().backward()
    optimizer.step()
    assert neighbour.tolist() == [2.0, 2.0]
    with pytest.raises(sg.ShadergradError):
        bad.numpy()


def test_a_compiled_step_does_not_meet_the_failure_of_another_tensor(device: str) -> None:
    w = sg.ones(2, device=device)
    step = sg.compile(lambda: w.add_(1))
    step()
    bad = failing(device)
    assert step().tolist() == [3.0, 3.0]
    with pytest.raises(sg.ShadergradError):
        bad.numpy()


def test_sync_raises_a_failure_once_and_reading_the_tensor_always(device: str) -> None:
    bad = failing(device)
    sg.optim.SGD([sg.ones(1, device=device).requires_grad_()], lr=0.1)
    with pytest.raises(sg.ShadergradError):
        sg.sync()
    sg.sync()
    for _ in range(2):
        with pytest.raises(sg.ShadergradError):
            bad.numpy()
