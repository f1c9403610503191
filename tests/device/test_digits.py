"""The real digits on every device: the same course of training, within rounding."""

from __future__ import annotations

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data.digits import load_digits


def train(device: str, steps: int, compiled: bool) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of the first steps, and the weights after them."""
    images, labels, _, _ = load_digits()
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=3e-3)

    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = sg.compile(step) if compiled else step
    order = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        batch = order.integers(0, len(images), 64)
        losses.append(run(sg.tensor(images[batch], device=device), sg.tensor(labels[batch], device=device)))
    return [loss.item() for loss in losses], {k: v.numpy() for k, v in model.state_dict().items()}


@pytest.mark.webgpu
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "uncompiled"])
def test_webgpu_follows_the_cpu_for_50_steps(webgpu: str, compiled: bool) -> None:
    reference, weights = train("cpu", 50, compiled=True)
    losses, trained = train(webgpu, 50, compiled)
    np.testing.assert_allclose(losses, reference, rtol=0, atol=1e-5)
    for name, value in weights.items():
        np.testing.assert_allclose(trained[name], value, rtol=0, atol=1e-4, err_msg=name)


def test_compiled_and_uncompiled_agree_bit_for_bit_on_the_cpu() -> None:
    compiled, a = train("cpu", 10, compiled=True)
    uncompiled, b = train("cpu", 10, compiled=False)
    assert compiled == uncompiled
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
