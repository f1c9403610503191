"""Lookup tables against sums over all corners in plain PyTorch, and the gates that they become."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from digits_training import BITS, hard_accuracy
from helpers import assert_close, grad_of
from shadergrad import nn
from shadergrad.errors import ShapeError
from shadergrad.logic import GroupSum, LookupLayer, harden
from shadergrad.logic.circuit import Circuit
from shadergrad.logic.lookup_tables import as_gates, walsh
from shadergrad.nn.errors import ArgumentError


def layer_of(device: str, arity: int, **options: Any) -> LookupLayer:
    sg.manual_seed(arity)
    return LookupLayer(9, 5, arity, init="gaussian", seed=1, device=device, **options)


def corners(arity: int) -> np.ndarray:
    """The bits of 0, 1, ... 2^arity - 1, the first input the highest."""
    return np.arange(1 << arity)[:, None] >> np.arange(arity)[::-1] & 1


@pytest.mark.parametrize("parametrisation", ["light", "walsh"])
@pytest.mark.parametrize("arity", [2, 4, 6])
def test_a_layer_and_its_gradients_are_those_of_sums_over_corners(
    arity: int, parametrisation: str, device: str
) -> None:
    layer = layer_of(device, arity, parametrisation=parametrisation)
    x = sg.tensor(np.random.default_rng(0).random((3, 2, 9)).astype(np.float32), device=device, requires_grad=True)
    y = layer(x)
    (y * y).sum().backward()
    inputs, logits = (
        torch.tensor(t.detach().numpy(), dtype=torch.float64, requires_grad=True) for t in (x, layer.logits)
    )
    read = inputs[..., torch.tensor(layer.wires.numpy(), dtype=torch.int64)]  # (..., arity, tables)
    entries = logits
    if parametrisation == "walsh":
        signs = 2 * corners(arity) - 1
        adds = [[np.prod(corner[chosen == 1]) for corner in signs] for chosen in corners(arity)]
        entries = logits @ torch.tensor(adds, dtype=torch.float64)
    wanted = torch.zeros(3, 2, 5, dtype=torch.float64)
    for place, corner in enumerate(corners(arity)):
        weight = torch.ones(3, 2, 5, dtype=torch.float64)
        for k, bit in enumerate(corner):
            weight = weight * (read[..., k, :] if bit else 1 - read[..., k, :])
        wanted = wanted + weight * torch.sigmoid(entries[:, place])
    (wanted * wanted).sum().backward()
    assert_close(y, wanted.detach().numpy(), 1e-5, 1e-6)
    assert_close(grad_of(x), grad_of(inputs).numpy(), 1e-4, 1e-5)
    assert_close(grad_of(layer.logits), grad_of(logits).numpy(), 1e-4, 1e-5)


def test_walsh_coefficients_are_their_own_inverse_but_for_a_factor() -> None:
    for arity in (1, 3, 5):
        w = walsh(arity)
        assert (w @ w.T == (1 << arity) * np.eye(1 << arity)).all()


@pytest.mark.parametrize("arity", [2, 3, 4, 6])
def test_tables_as_gates_compute_the_tables(arity: int) -> None:
    rng = np.random.default_rng(arity)
    tables = rng.random((7, 1 << arity)) > 0.5
    wires = np.stack([rng.permutation(8)[:arity] for _ in range(7)], 1)
    gates, results = as_gates(tables, wires, 8)
    circuit = Circuit(8, gates, results)
    x = corners(8)
    wanted = [tables[n, (x[:, wires[:, n]] << np.arange(arity)[::-1]).sum(1)] for n in range(7)]
    assert (circuit.evaluate(x) == np.stack(wanted, 1)).all()
    assert len(circuit) == 7 * (2 ** (arity - 2) + 3 * (2 ** (arity - 2) - 1))


@pytest.mark.parametrize("mode", ["soft", "hard", "straight-through", "gumbel", "gumbel-hard"])
def test_every_mode_hardens_to_the_circuit_of_eval(mode: str, device: str) -> None:
    first, second = layer_of(device, 4, mode=mode), LookupLayer(5, 6, 3, "walsh", "gaussian", mode, device=device)
    model = nn.Sequential(first, second, GroupSum(3))
    bits = (np.random.default_rng(0).random((20, 9)) > 0.5).astype(np.float32)
    x = sg.tensor(bits, device=device)
    assert harden(model).votes(bits).tolist() == model.eval()(x).tolist()
    hard = first(x).tolist()
    first.train()
    if mode in ("hard", "straight-through"):
        assert first(x).tolist() == hard
    if mode.startswith("gumbel"):
        assert first(x).tolist() != first(x).tolist()
    if mode != "hard":
        first(x).sum().backward()
        assert np.isfinite(grad_of(first.logits).numpy()).all()
        assert np.abs(grad_of(first.logits).numpy()).max() > 0


@pytest.mark.parametrize("parametrisation", ["light", "walsh"])
def test_new_tables_pass_their_first_input_on(parametrisation: str, device: str) -> None:
    layer = LookupLayer(9, 5, 4, parametrisation, strength=8.0, device=device)
    x = np.random.default_rng(0).random((3, 9)).astype(np.float32)
    assert_close(layer(sg.tensor(x, device=device)).detach(), x[:, layer.wires.numpy()[0]], 0, 1e-2)


@pytest.mark.parametrize(("parametrisation", "mode"), [("light", "soft"), ("walsh", "straight-through")])
@pytest.mark.slow
def test_tables_of_four_inputs_train_six_layers(parametrisation: str, mode: str) -> None:
    def make() -> nn.Module:
        sizes = enumerate(itertools.pairwise([BITS, *[200] * 6]))
        return nn.Sequential(*(LookupLayer(n, m, 4, parametrisation, "residual", mode, seed=k) for k, (n, m) in sizes))

    assert hard_accuracy(make, 2.0, 0.05, batch=48) > 0.65


def test_what_tables_cannot_be_is_refused() -> None:
    for options, message in (
        ({"arity": 1}, "tables of 1 of 9 inputs; arity is from 2 to 8"),
        ({"arity": 9}, "tables of 9 of 9 inputs"),
        ({"parametrisation": "softmax"}, "no parametrisation 'softmax'; choose of light, walsh"),
        ({"init": "zeros"}, "no init 'zeros'"),
        ({"mode": "firm"}, "no mode 'firm'"),
        ({"strength": 0.0}, "strength is 0.0"),
        ({"grad_factor": -1.0}, "grad_factor is -1.0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            LookupLayer(9, 5, **options)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="its last axis must have the 9 wires"):
        LookupLayer(9, 5)(sg.zeros(2, 8))
