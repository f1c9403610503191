"""Parametrisations of gates against plain PyTorch formulas, in every mode; initial strength, scaled gradients and balanced wires."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import shadergrad as sg
from digits_training import BITS, hard_accuracy
from helpers import assert_close, grad_of
from shadergrad import nn, optim
from shadergrad.logic import (
    GroupSum,
    LogicLayer,
    LogicNetwork,
    LookupLayer,
    gate_entropy,
    parametrisations,
    wire_entropy,
    wiring,
)
from shadergrad.nn.errors import ArgumentError

A, B = [0, 0, 2, 3, 1], [1, 3, 0, 4, 2]
NAMES = ["softmax", "light", "walsh"]


def gate_values(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sixteen gates of the articles, by probability (..., 16)."""
    ab, zero = a * b, torch.zeros_like(a)
    found = [zero, ab, a - ab, a, b - ab, b, a + b - 2 * ab, a + b - ab]
    return torch.stack(found + [1 - x for x in reversed(found)], -1)


def plain(name: str, parameters: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A layer's soft outputs, as the articles write them."""
    a, b = x[..., A], x[..., B]
    if name == "softmax":
        return (gate_values(a, b) * torch.softmax(parameters, -1)).sum(-1)
    corners = parameters
    if name == "walsh":
        w0, w1, w2, w3 = parameters.unbind(-1)
        signs = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
        corners = torch.stack([w0 + w1 * s + w2 * t + w3 * s * t for s, t in signs], -1)
    f00, f01, f10, f11 = torch.sigmoid(corners).unbind(-1)
    return f00 * (1 - a) * (1 - b) + f01 * (1 - a) * b + f10 * a * (1 - b) + f11 * a * b


def layer_of(name: str, device: str, mode: str = "soft", **options: object) -> LogicLayer:
    sg.manual_seed(4)
    return LogicLayer(5, 5, (A, B), "gaussian", mode, device=device, parametrisation=name, **options)  # type: ignore[arg-type]


def inputs(device: str, bits: bool = False) -> sg.Tensor:
    x = np.random.default_rng(0).random((7, 5))
    return sg.tensor((x > 0.5 if bits else x).astype(np.float32), device=device)


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_and_its_gradients_are_those_of_the_formula(name: str, device: str) -> None:
    layer, x = layer_of(name, device), inputs(device).requires_grad_()
    y = layer(x)
    (y * y).sum().backward()
    parameters = torch.tensor(layer.logits.detach().numpy(), dtype=torch.float64, requires_grad=True)
    plain_x = torch.tensor(x.detach().numpy(), dtype=torch.float64, requires_grad=True)
    wanted = plain(name, parameters, plain_x)
    (wanted * wanted).sum().backward()
    assert_close(y, wanted.detach().numpy(), 1e-5, 1e-6)
    assert_close(grad_of(x), grad_of(plain_x).numpy(), 1e-4, 1e-5)
    assert_close(grad_of(layer.logits), grad_of(parameters).numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["hard", "straight-through"])
def test_hard_layers_are_rounded_formulas(name: str, mode: str, device: str) -> None:
    """On bits the hardened gate gives the rounded table; straight through, the parameters' gradient is the soft one."""
    layer, x = layer_of(name, device, mode), inputs(device, bits=True)
    parameters = torch.tensor(layer.logits.detach().numpy(), dtype=torch.float64, requires_grad=True)
    plain_x = torch.tensor(x.numpy(), dtype=torch.float64)
    soft = plain(name, parameters, plain_x)
    if name == "softmax":
        hard = gate_values(plain_x[..., A], plain_x[..., B]).gather(-1, parameters.argmax(-1).expand(7, 5)[..., None])[
            ..., 0
        ]
    else:
        hard = (soft > 0.5).double()
    y = layer(x)
    assert y.detach().tolist() == hard.tolist()
    assert layer.eval()(x).tolist() == hard.tolist()
    if mode == "straight-through":
        y.sum().backward()
        soft.sum().backward()
        assert_close(grad_of(layer.logits), grad_of(parameters).numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_noise_chooses_gates_as_often_as_the_soft_gate_says(name: str) -> None:
    """The share of ones that hard noisy gates give is the soft gate's value."""
    sg.manual_seed(0)
    gate = parametrisations.of_name(name)
    own = sg.tensor([0.3, -1.2, 0.8, 0.4] if gate.width == 4 else np.linspace(-1, 1, 16).astype(np.float32))
    many = own.unsqueeze(0).expand(20000, gate.width)
    chosen = gate.hard(gate.with_noise(many, 1.0)).numpy().mean(0)
    assert_close(chosen, gate.soft(own).numpy(), 0, 0.03)
    colder = gate.with_noise(many, 0.01)
    assert_close(gate.soft(colder).numpy().mean(0), gate.soft(own).numpy(), 0, 0.03)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("strength", [None, 1.5])
def test_residual_gates_pass_their_first_input_on_as_strongly_as_asked(
    name: str, strength: float | None, device: str
) -> None:
    layer = LogicLayer(5, 5, (A, B), "residual", device=device, parametrisation=name, strength=strength)
    assert layer.kinds().tolist() == [3] * 5
    weak = strength is not None
    x = inputs(device)
    assert (abs(layer(x).detach().numpy() - x.numpy()[:, A]).max() > 0.1) == weak
    spread = (
        LogicLayer(5, 400, "random", "gaussian", parametrisation=name, strength=strength).logits.detach().numpy().std()
    )
    assert spread == pytest.approx(strength or 1.0, rel=0.1)


def test_a_factor_scales_the_gradient_of_the_input_alone(device: str) -> None:
    found = []
    for factor in (1.0, 2.5):
        layer, x = layer_of("softmax", device, grad_factor=factor), inputs(device).requires_grad_()
        y = layer(x)
        y.sum().backward()
        found.append((y.detach().numpy(), grad_of(x).numpy(), grad_of(layer.logits).numpy()))
    assert found[0][0].tolist() == found[1][0].tolist()
    assert_close(found[1][1], 2.5 * found[0][1], 1e-5, 1e-6)
    assert_close(found[1][2], found[0][2], 1e-6, 1e-7)
    assert not LogicNetwork((5, 4, 3), grad_factor=2.0).fused


@pytest.mark.parametrize("name", ["light", "walsh"])
def test_a_fused_network_is_the_unfused_one_and_hardens_to_its_eval(name: str, device: str) -> None:
    sg.manual_seed(1)
    network = LogicNetwork((5, 8, 6), "random", "gaussian", seed=1, device=device, parametrisation=name)
    x = inputs(device)
    y = network(x)
    assert network.fused
    network.fused = False
    assert_close(network(x), y.detach().numpy(), 1e-5, 1e-6)
    bits = inputs(device, bits=True)
    assert network.eval()(bits).tolist() == network.harden().evaluate(bits.numpy() > 0.5).tolist()


SIX = [
    *(
        ("light", *each)
        for each in (("soft", "gaussian", 0.02), ("soft", "residual", 0.05), ("straight-through", "residual", 0.05))
    ),
    *(("light", *each) for each in (("gumbel", "residual", 0.1), ("gumbel-hard", "residual", 0.05))),
    *(
        ("walsh", *each)
        for each in (("soft", "gaussian", 0.02), ("soft", "residual", 0.05), ("straight-through", "residual", 0.05))
    ),
    *(("walsh", *each) for each in (("gumbel", "residual", 0.05), ("gumbel-hard", "residual", 0.05))),
]


@pytest.mark.parametrize(("name", "mode", "init", "rate"), SIX)
def test_every_parametrisation_trains_six_layers(name: str, mode: str, init: str, rate: float) -> None:
    def make() -> LogicNetwork:
        return LogicNetwork((BITS, *[600] * 6), "random", init, mode, seed=0, parametrisation=name)

    assert hard_accuracy(make, 6.0, rate) > 0.65


@pytest.mark.parametrize(
    ("n_in", "n_out"), [(2, 1), (2, 7), (5, 2), (5, 3), (5, 5), (5, 12), (8, 64), (16, 100), (3, 100), (192, 2000)]
)
def test_balanced_wires_read_every_input_equally_often(n_in: int, n_out: int) -> None:
    a, b = wiring.draw("balanced", n_in, n_out, wiring.prng_key(n_out))
    reads = np.bincount(np.concatenate([a, b]), minlength=n_in)
    assert reads.max() - reads.min() <= 1
    assert (a != b).all()
    assert LogicLayer(n_in, n_out, "balanced", seed=3).wires.shape == (2, n_out)


def test_what_does_not_exist_is_named() -> None:
    for options, message in (
        ({"parametrisation": "fourier"}, "there is no parametrisation 'fourier'; choose of softmax, light, walsh"),
        ({"strength": 0.0}, "the strength is 0.0; it must be positive"),
        ({"grad_factor": 0.0}, "grad_factor is 0.0"),
        ({"grad_factor": 2.0, "fused": True}, "one kernel has no gradients between layers"),
    ):
        with pytest.raises(ArgumentError, match=message):
            LogicNetwork((5, 4), **options)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a gate reads two inputs; there is one"):
        wiring.balanced(1, 3, wiring.prng_key(0))


@pytest.mark.parametrize("name", NAMES)
def test_the_entropy_of_gates_is_that_of_their_choices(name: str, device: str) -> None:
    layer = layer_of(name, device)
    found = gate_entropy(nn.Sequential(layer))
    found.backward()
    parameters = torch.tensor(layer.logits.detach().numpy(), dtype=torch.float64, requires_grad=True)
    if name == "softmax":
        wanted = torch.distributions.Categorical(logits=parameters).entropy().mean()
    else:
        walsh = torch.tensor(parametrisations.WALSH, dtype=torch.float64)
        entries = parameters @ walsh if name == "walsh" else parameters
        wanted = torch.distributions.Bernoulli(logits=entries).entropy().sum(-1).mean()
    wanted.backward()
    assert found.item() == pytest.approx(wanted.item(), rel=1e-5)
    assert_close(grad_of(layer.logits), grad_of(parameters).numpy(), 1e-4, 1e-6)


def test_entropies_are_of_all_layers_and_fall_in_training() -> None:
    sg.manual_seed(0)
    model = nn.Sequential(
        LogicNetwork((8, 6, 6), "learned", "gaussian", candidates=3), LookupLayer(6, 4, 3, init="gaussian"), GroupSum(2)
    )
    with sg.no_grad():
        for p in model.parameters():
            p.zero_()
    assert gate_entropy(model).item() == pytest.approx((12 * np.log(16) + 4 * 8 * np.log(2)) / 16, rel=1e-6)
    assert wire_entropy(model).item() == pytest.approx(np.log(3), rel=1e-6)
    with sg.no_grad():
        for p in model.parameters():
            p.copy_(sg.randn(*p.shape))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    before = gate_entropy(model).item(), wire_entropy(model).item()
    for _ in range(20):
        optimizer.zero_grad()
        (gate_entropy(model) + wire_entropy(model)).backward()
        optimizer.step()
    assert gate_entropy(model).item() < 0.7 * before[0]
    assert wire_entropy(model).item() < 0.7 * before[1]
    with pytest.raises(ArgumentError, match="the module has no layers of gates"):
        gate_entropy(nn.Linear(2, 2))
    with pytest.raises(ArgumentError, match="the module has no learned wires"):
        wire_entropy(LogicNetwork((5, 4)))
