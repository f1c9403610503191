"""Products of many tensors with one weight: values and gradients are those of single products, also of second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.nn import functional as F
from shadergrad.tensor.shared_weights import shared_linear

RNG = np.random.default_rng(0)
WEIGHT, BIAS = (RNG.standard_normal(s).astype(np.float32) for s in ((8, 5), (8,)))
INPUTS = [RNG.standard_normal((3, 5)).astype(np.float32) for _ in range(4)]


def results(shared: bool, device: str, with_bias: bool, needs: str, dtype: Any = sg.float32) -> list[np.ndarray]:
    """Values, first and second gradients."""
    weight = sg.tensor(WEIGHT, dtype=dtype, device=device, requires_grad="w" in needs)
    bias = sg.tensor(BIAS, dtype=dtype, device=device, requires_grad="b" in needs) if with_bias else None
    inputs = [sg.tensor(x, dtype=dtype, device=device, requires_grad="x" in needs) for x in INPUTS]
    times: Any = shared_linear(F.linear, weight, bias) if shared else lambda k, x: F.linear(x, weight, bias)
    values = [times(k, x).tanh() for k, x in enumerate(inputs)]
    loss: Any = sum((v * (k + 1)).square().sum() for k, v in enumerate(values))
    wanted = [t for t in (weight, bias, *inputs) if t is not None and t.requires_grad]
    first = sg.autograd.grad(loss, wanted, create_graph=True)
    size: Any = sum(g.square().sum() for g in first)
    second = sg.autograd.grad(size, wanted)
    return [t.detach().numpy() for t in (*values, *first, *second)]


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("needs", ["wbx", "wx", "w", "bx", "x"])
def test_gradients_of_a_weight_that_is_used_many_times(needs: str, with_bias: bool, device: str) -> None:
    shared, single = (results(s, device, with_bias, needs) for s in (True, False))
    for a, b in zip(shared, single, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-3)


def test_in_float64_they_are_equal_but_for_the_order_of_sums() -> None:
    shared, single = (results(s, "cpu", True, "wbx", sg.float64) for s in (True, False))
    for a, b in zip(shared, single, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_one_use_and_uses_that_the_loss_does_not_ask_for() -> None:
    weight = sg.tensor(WEIGHT, requires_grad=True)
    times = shared_linear(F.linear, weight, None)
    used, _ = (times(k, sg.tensor(x)) for k, x in enumerate(INPUTS[:2]))
    used.sum().backward()
    assert weight.grad is not None
    np.testing.assert_allclose(weight.grad.numpy(), np.tile(INPUTS[0].sum(0), (8, 1)), rtol=1e-5, atol=1e-6)


def test_without_gradients_nothing_is_shared() -> None:
    weight = sg.tensor(WEIGHT, requires_grad=True)
    with sg.no_grad():
        value = shared_linear(F.linear, weight, None)(0, sg.tensor(INPUTS[0]))
    assert not value.requires_grad
