"""nn.init: the distribution that each promises, PyTorch's gains and words, the same numbers everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, assert_same_bits
from shadergrad import nn
from shadergrad.nn import init
from shadergrad.primitives import random

RANDOM: dict[str, Callable[[Any, Any], Any]] = {
    "uniform_": lambda i, t: i.uniform_(t, -2.0, 3.0),
    "normal_": lambda i, t: i.normal_(t, 1.0, 0.5),
    "trunc_normal_": lambda i, t: i.trunc_normal_(t, 0.5, 2.0, -1.0, 3.0),
    "xavier_uniform_": lambda i, t: i.xavier_uniform_(t, gain=2.0),
    "xavier_normal_": lambda i, t: i.xavier_normal_(t),
    "kaiming_uniform_": lambda i, t: i.kaiming_uniform_(t, a=math.sqrt(5)),
    "kaiming_normal_": lambda i, t: i.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
}


@pytest.mark.parametrize("shape", [(80, 60), (20, 30, 3, 3)], ids=["matrix", "convolution"])
@pytest.mark.parametrize("name", RANDOM)
def test_a_distribution_is_pytorchs(name: str, shape: tuple[int, ...]) -> None:
    """By range, mean, spread and quartiles of some thousand numbers."""
    torch.manual_seed(0)
    sg.manual_seed(0)
    tensor = sg.zeros(*shape)
    assert RANDOM[name](init, tensor) is tensor
    ours, theirs = tensor.numpy().ravel(), RANDOM[name](torch.nn.init, torch.zeros(shape)).numpy().ravel()
    spread = theirs.std()
    assert_close(ours.mean(), theirs.mean(), 0, 0.1 * spread)
    assert_close(ours.std(), spread, 0.05, 0)
    assert_close(np.quantile(ours, [0.25, 0.5, 0.75]), np.quantile(theirs, [0.25, 0.5, 0.75]), 0, 0.12 * spread)
    if name not in ("normal_", "xavier_normal_", "kaiming_normal_"):
        assert_close([ours.min(), ours.max()], [theirs.min(), theirs.max()], 0, 0.05 * spread)


@pytest.mark.parametrize("name", RANDOM)
def test_numbers_are_the_same_on_both_devices_and_after_the_seed(name: str, webgpu: str) -> None:
    found = []
    for device in ("cpu", webgpu, webgpu):
        sg.manual_seed(11)
        found.append(RANDOM[name](init, sg.zeros(6, 5, device=device)).numpy())
    assert_close(found[1], found[0], 1e-5, 1e-6)
    assert_same_bits(found[2], found[1])


def test_a_generator_of_ones_own() -> None:
    generator = sg.Generator(seed=5)
    a = init.uniform_(sg.zeros(4), generator=generator).numpy()
    sg.manual_seed(99)
    assert_same_bits(init.uniform_(sg.zeros(4), generator=sg.Generator(seed=5)), a)


def test_constants(device: str) -> None:
    x = sg.zeros(2, 3, device=device)
    assert init.constant_(x, 0.5).tolist() == [[0.5] * 3] * 2
    assert init.ones_(x).tolist() == [[1] * 3] * 2
    assert init.zeros_(x).tolist() == [[0] * 3] * 2
    assert_close(init.eye_(x), torch.nn.init.eye_(torch.zeros(2, 3)), 0, 0)
    for shape, groups in (((4, 3, 3), 2), ((3, 4, 3, 2), 1), ((2, 2, 1, 3, 3), 1)):
        ours, theirs = (
            init.dirac_(sg.ones(*shape, device=device), groups),
            torch.nn.init.dirac_(torch.ones(shape), groups),
        )
        assert_close(ours, theirs, 0, 0)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...], device: str) -> None:
    sg.manual_seed(0)
    q = init.orthogonal_(sg.zeros(*shape, device=device), gain=2.0).numpy().reshape(shape[0], -1).astype(np.float64)
    product = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    assert_close(product, 4 * np.eye(len(product)), 1e-5, 1e-5)
    assert init.orthogonal_(sg.zeros(0, 3)).shape == (0, 3)


def test_a_parameter_keeps_its_place_and_records_nothing() -> None:
    layer = nn.Linear(3, 4)
    weight = layer.weight
    init.xavier_uniform_(layer.weight)
    assert layer.weight is weight
    assert weight.requires_grad
    assert weight.is_leaf
    assert weight.dtype is sg.float32
    assert init.normal_(sg.zeros(3, dtype=sg.float64)).dtype is sg.float64


GAINS = ["linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]


@pytest.mark.parametrize("name", GAINS)
def test_gains_are_pytorchs(name: Any) -> None:
    assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    if name == "leaky_relu":
        assert init.calculate_gain(name, 0.2) == torch.nn.init.calculate_gain(name, 0.2)


BAD: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "gain": (lambda i, zeros: i.calculate_gain("x"), "Unsupported nonlinearity x"),
    "slope": (lambda i, zeros: i.calculate_gain("leaky_relu", True), "negative_slope True not a valid number"),
    "fan": (lambda i, zeros: i.xavier_uniform_(zeros(3)), "Fan in and fan out can not be computed"),
    "mode": (lambda i, zeros: i.kaiming_normal_(zeros(3, 3), mode="x"), "Mode x not supported"),
    "eye": (lambda i, zeros: i.eye_(zeros(3)), "Only tensors with 2 dimensions are supported"),
    "dirac": (lambda i, zeros: i.dirac_(zeros(3, 3)), "Only tensors with 3, 4, or 5 dimensions are supported"),
    "dirac groups": (lambda i, zeros: i.dirac_(zeros(3, 3, 3), 2), "dim 0 must be divisible by groups"),
    "orthogonal": (lambda i, zeros: i.orthogonal_(zeros(3)), "Only tensors with 2 or more dimensions are supported"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_use_is_refused_with_pytorchs_words(name: str) -> None:
    run, message = BAD[name]
    for module, zeros in ((init, sg.zeros), (torch.nn.init, lambda *shape: torch.zeros(shape))):
        with pytest.raises(ValueError, match=message):
            run(module, zeros)


def test_warnings_are_pytorchs() -> None:
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(sg.zeros(2), mean=9.0)
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(sg.zeros(0, 2))


LARGE: dict[str, Callable[[Any], Any]] = {
    "Linear": lambda nn: nn.Linear(100, 300),
    "Bilinear": lambda nn: nn.Bilinear(20, 30, 40),
    "Conv2d": lambda nn: nn.Conv2d(16, 300, 3),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(300, 16, 3),
    "Embedding": lambda nn: nn.Embedding(500, 40),
    "RNN": lambda nn: nn.RNN(40, 300),
    "LSTM": lambda nn: nn.LSTM(30, 100),
    "GRUCell": lambda nn: nn.GRUCell(30, 120),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(64, 4),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_module_of_many_values_begins_with_pytorchs_distribution(name: str) -> None:
    """So many that their mean square is within a few percent, and the largest of bounded ones near the bound."""
    torch.manual_seed(0)
    sg.manual_seed(0)
    theirs, ours = LARGE[name](torch.nn).state_dict(), LARGE[name](sg.nn).state_dict()
    for key, value in theirs.items():
        a, b = ours[key].numpy(), value.numpy()
        if np.unique(b).size == 1:
            np.testing.assert_array_equal(a, b)
        elif b.size >= 200:
            assert 0.85 < np.sqrt((a**2).mean() / (b**2).mean()) < 1.18, key
            assert name == "Embedding" or 0.95 < np.abs(a).max() / np.abs(b).max() < 1.06, key


def test_large_initial_values_are_drawn_where_the_module_ends_up(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(where: str) -> list[np.ndarray]:
        sg.manual_seed(0)
        module = nn.ModuleList([nn.Linear(600, 500), nn.Linear(3, 2), nn.Embedding(512, 520)])
        module[2].weight.data *= 0.5
        return [p.detach().numpy() for p in module.to(where).parameters()]

    wanted = made("cpu")
    draw = random.Threefry.numpy

    def drawn(self: random.Threefry, key: np.ndarray, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        assert x0.size <= 600, "large values were drawn on the host"
        return draw(self, key, x0, x1)

    monkeypatch.setattr(random.Threefry, "numpy", drawn)
    found = made(webgpu)
    for k in range(4):  # a GPU may multiply and add at once
        np.testing.assert_allclose(found[k], wanted[k], rtol=0, atol=1e-8 if k == 0 else 1e-7)
    np.testing.assert_allclose(found[4], wanted[4], rtol=1e-4, atol=1e-6)  # by another formula of erfinv
