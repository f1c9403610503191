"""Learned wires against a plain PyTorch formula, and the circuits that they become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from digits_training import BITS, hard_accuracy
from helpers import assert_close, grad_of
from shadergrad import nn
from shadergrad.errors import IndexRangeError
from shadergrad.logic import GroupSum, LogicLayer, LogicNetwork, harden
from shadergrad.logic.learned_wires import draw_candidates
from shadergrad.nn.errors import ArgumentError


def layer_of(device: str, **options: Any) -> LogicLayer:
    sg.manual_seed(4)
    return LogicLayer(6, 5, "learned", "gaussian", seed=2, device=device, candidates=3, **options)


def bits(device: str) -> sg.Tensor:
    return sg.tensor((np.random.default_rng(0).random((4, 7, 6)) > 0.5).astype(np.float32), device=device)


@pytest.mark.parametrize("wire_mode", ["straight-through", "soft"])
def test_a_layer_and_its_gradients_are_those_of_the_formula(wire_mode: str, device: str) -> None:
    layer = layer_of(device, wire_mode=wire_mode, parametrisation="light")
    assert layer.learned is not None
    x = sg.tensor(np.random.default_rng(0).random((2, 7, 6)).astype(np.float32), device=device, requires_grad=True)
    y = layer(x)
    (y * y).sum().backward()
    inputs, choices, logits = (
        torch.tensor(t.detach().numpy(), dtype=torch.float64, requires_grad=True)
        for t in (x, layer.learned.choices, layer.logits)
    )
    places = torch.tensor(layer.learned.candidates.numpy(), dtype=torch.int64)
    weights = torch.softmax(choices, -1)
    if wire_mode == "straight-through":
        one = torch.nn.functional.one_hot(choices.argmax(-1), 3)
        weights = one + weights - weights.detach()
    a, b = (inputs[..., places] * weights).sum(-1).unbind(-2)
    f00, f01, f10, f11 = torch.sigmoid(logits).unbind(-1)
    wanted = f00 * (1 - a) * (1 - b) + f01 * (1 - a) * b + f10 * a * (1 - b) + f11 * a * b
    (wanted * wanted).sum().backward()
    assert_close(y, wanted.detach().numpy(), 1e-5, 1e-6)
    for found, plain in ((x, inputs), (layer.learned.choices, choices), (layer.logits, logits)):
        assert_close(grad_of(found), grad_of(plain).numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("mode", ["soft", "hard", "straight-through", "gumbel-hard"])
def test_eval_is_the_circuit_of_the_likeliest_wires(mode: str, device: str) -> None:
    sg.manual_seed(1)
    network = LogicNetwork((6, 12, 8), "learned", "gaussian", mode, device=device, candidates=4, wire_mode="soft")
    assert not network.fused
    x = bits(device)
    assert network.eval()(x).tolist() == network.harden().evaluate(x.numpy() > 0.5).tolist()
    model = nn.Sequential(network, GroupSum(2))
    assert harden(model).votes(x.reshape(-1, 6)).tolist() == model.eval()(x).reshape(-1, 2).tolist()
    other = LogicNetwork((6, 12, 8), "learned", "gaussian", mode, seed=9, device=device, candidates=4)
    other.load_state_dict(network.state_dict())
    assert other.eval()(x).tolist() == network(x).tolist()
    if mode == "hard":
        assert network.train()(x).tolist() == other(x).tolist()


@pytest.mark.slow
def test_learned_wires_train_and_leave_their_first_choices() -> None:
    networks, before = [], []

    def make() -> LogicNetwork:
        networks.append(LogicNetwork((BITS, 400, 400), "learned", "residual", strength=3.0, candidates=8))
        before.extend(np.stack(layer.pair()) for layer in networks[0].layers)
        return networks[0]

    assert hard_accuracy(make, 4.0, 0.05, steps=150) > 0.8
    moved = [(np.stack(layer.pair()) != old).mean() for layer, old in zip(networks[0].layers, before, strict=True)]
    assert min(moved) > 0.1


@pytest.mark.parametrize(("n_in", "n_out", "candidates"), [(5, 7, 2), (3, 4, 8), (20, 50, 8), (1, 3, 1)])
def test_candidates_differ_and_come_about_equally_often(n_in: int, n_out: int, candidates: int) -> None:
    drawn = draw_candidates(n_in, n_out, candidates, np.array([1, 2], np.uint32))
    assert drawn.shape == (2, n_out, min(n_in, candidates))
    assert all(len(set(row)) == len(row) for row in drawn.reshape(2 * n_out, -1).tolist())
    counts = np.bincount(drawn.reshape(-1), minlength=n_in)
    assert counts.max() - counts.min() <= 1


def test_what_learned_wires_cannot_do_is_refused() -> None:
    with pytest.raises(ArgumentError, match="0 candidates; an input of a gate needs at least 1"):
        LogicLayer(5, 4, "learned", candidates=0)
    with pytest.raises(ArgumentError, match="there is no mode 'firm'; choose of straight-through, soft"):
        LogicLayer(5, 4, "learned", wire_mode="firm")
    with pytest.raises(ArgumentError, match="candidates and wire_mode are those of wiring"):
        LogicNetwork((5, 4), "random", candidates=4)
    with pytest.raises(ArgumentError, match="fused=True with learned wires"):
        LogicNetwork((5, 4), "learned", fused=True)
    layer = LogicLayer(5, 4, "learned")
    state = layer.state_dict()
    state["learned.candidates"] = state["learned.candidates"] + 5
    with pytest.raises(IndexRangeError):
        layer.load_state_dict(state)
