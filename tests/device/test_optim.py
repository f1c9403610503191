"""Groups of parameters, rates and states of optimizers. What each computes is compared in test_optimizers.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, assert_compiles_nothing, assert_same_bits, grad_of
from optimizer_cases import RULES
from shadergrad import nn, optim


def start() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((3, 4)), rng.standard_normal(4)]


# ---------------------------------------------------------------------------------- groups, rates, states


def one_step(optimizer: Any, parameters: list[sg.Tensor]) -> None:
    optimizer.zero_grad()
    total: Any = sum((p * p).sum() for p in parameters)
    total.backward()
    optimizer.step()


def made(device: str, **options: Any) -> tuple[list[sg.Tensor], optim.AdamW]:
    parameters = [sg.tensor(a, dtype=sg.float32, device=device, requires_grad=True) for a in start()]
    return parameters, optim.AdamW(parameters, **options)


def test_groups_have_their_own_hyperparameters(device: str) -> None:
    a, b = (sg.ones(2, device=device).requires_grad_() for _ in range(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.25)
    one_step(optimizer, [a, b])
    assert_close(a, [0.5, 0.5], 1e-6, 0)
    assert_close(b, [0.0, 0.0], 0, 1e-7)


def test_changing_the_rate_compiles_nothing_and_takes_effect(device: str) -> None:
    w = sg.ones(2, device=device).requires_grad_()
    optimizer = optim.SGD([w], lr=0.25)
    one_step(optimizer, [w])
    one_step(optimizer, [w])
    assert_close(w, [0.25, 0.25], 1e-6, 0)
    optimizer.param_groups[0]["lr"] = 0.0
    assert_compiles_nothing(lambda: one_step(optimizer, [w]))
    assert_close(w, [0.25, 0.25], 1e-6, 0)
    optimizer.param_groups[0]["lr"] = 0.5
    assert_compiles_nothing(lambda: one_step(optimizer, [w]))
    assert_close(w, [0, 0], 0, 1e-6)


def test_a_parameter_without_gradient_stays_as_it_is(device: str) -> None:
    a, b = (sg.ones(2, device=device).requires_grad_() for _ in range(2))
    optimizer = optim.AdamW([a, b], lr=0.1)
    one_step(optimizer, [a])
    assert b.tolist() == [1, 1]
    assert a.tolist() != [1, 1]


def test_a_step_without_any_gradient_does_nothing(device: str) -> None:
    a = sg.ones(2, device=device).requires_grad_()
    optim.AdamW([a], lr=0.1).step()
    assert a.tolist() == [1, 1]


def test_zero_grad_forgets_or_zeroes(device: str) -> None:
    a = sg.ones(2, device=device).requires_grad_()
    optimizer = optim.SGD([a], lr=0.1)
    (a * 2).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert grad_of(a).tolist() == [0, 0]
    optimizer.zero_grad()
    assert a.grad is None


def test_parameters_are_leaves_after_a_step(device: str) -> None:
    parameters, optimizer = made(device)
    one_step(optimizer, parameters)
    assert all(p.is_leaf and p.requires_grad for p in parameters)


@pytest.mark.parametrize("rule", ["SGD with nesterov momentum", "SGD with dampening", "Adam, amsgrad", "AdamW"])
def test_a_state_dict_continues_where_it_was_saved(rule: str, device: str) -> None:
    kind, options = RULES[rule]

    def new() -> tuple[list[sg.Tensor], Any]:
        parameters = [sg.tensor(a, dtype=sg.float32, device=device, requires_grad=True) for a in start()]
        return parameters, getattr(optim, kind)(parameters, **options)

    parameters, optimizer = new()
    for _ in range(3):
        one_step(optimizer, parameters)
    saved, weights = optimizer.state_dict(), [p.detach().numpy() for p in parameters]
    for _ in range(3):
        one_step(optimizer, parameters)
    others, again = new()
    with sg.no_grad():
        for p, w in zip(others, weights, strict=True):
            p.write_(w)
    again.load_state_dict(saved)
    for _ in range(3):
        one_step(again, others)
    for p, q in zip(parameters, others, strict=True):
        assert_same_bits(p, q)


def test_a_saved_state_is_not_changed_by_later_steps(device: str) -> None:
    parameters, optimizer = made(device)
    one_step(optimizer, parameters)
    saved = optimizer.state_dict()
    values = saved["state"][0]["exp_avg"].numpy()
    one_step(optimizer, parameters)
    assert_same_bits(saved["state"][0]["exp_avg"], values)


def test_a_state_dict_has_pytorchs_layout(device: str) -> None:
    parameters, optimizer = made(device, amsgrad=True)
    one_step(optimizer, parameters)
    theirs_ = [torch.zeros(3, 4, requires_grad=True), torch.zeros(4, requires_grad=True)]
    reference = torch.optim.AdamW(theirs_, amsgrad=True)
    total: Any = sum((p * p).sum() for p in theirs_)
    total.backward()
    reference.step()
    a, b = optimizer.state_dict(), reference.state_dict()
    assert a["state"].keys() == b["state"].keys()
    assert a["state"][0].keys() == b["state"][0].keys()
    assert a["param_groups"][0]["params"] == b["param_groups"][0]["params"]
    assert set(a["param_groups"][0]) <= set(b["param_groups"][0])
    assert float(a["state"][1]["step"].item()) == 1


def test_loading_hyperparameters_takes_effect(device: str) -> None:
    w = sg.ones(2, device=device).requires_grad_()
    saved = optim.SGD([w], lr=0.5).state_dict()
    optimizer = optim.SGD([w], lr=0.1)
    one_step(optimizer, [w])
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.5
    one_step(optimizer, [w])
    assert_close(w, [0, 0], 0, 1e-6)


def test_a_state_that_does_not_fit_is_refused(device: str) -> None:
    parameters, optimizer = made(device)
    one_step(optimizer, parameters)
    saved = optimizer.state_dict()
    with pytest.raises(ValueError, match="size of optimizer's group"):
        optim.AdamW(parameters[:1]).load_state_dict(saved)
    with pytest.raises(ValueError, match="max_exp_avg_sq"):
        optim.AdamW(parameters, amsgrad=True).load_state_dict(
            {**saved, "param_groups": optim.AdamW(parameters, amsgrad=True).state_dict()["param_groups"]}
        )
    with pytest.raises(ValueError, match="shape"):
        optim.AdamW(list(reversed(parameters))).load_state_dict(saved)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.SGD(p, lr=-1.0), "Invalid learning rate: -1.0"),
        (lambda p: optim.SGD(p, lr=0.1, momentum=-0.5), "Invalid momentum value: -0.5"),
        (lambda p: optim.SGD(p, lr=0.1, weight_decay=-1.0), "Invalid weight_decay value: -1.0"),
        (lambda p: optim.SGD(p, lr=0.1, nesterov=True), "Nesterov momentum requires a momentum and zero dampening"),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, nesterov=True), "Nesterov"),
        (lambda p: optim.Adam(p, lr=float("nan")), "Invalid learning rate: nan"),
        (lambda p: optim.Adam(p, eps=-1.0), "Invalid epsilon value: -1.0"),
        (lambda p: optim.Adam(p, betas=(1.0, 0.9)), "Invalid beta parameter at index 0: 1.0"),
        (lambda p: optim.AdamW(p, betas=(0.9, -0.1)), "Invalid beta parameter at index 1: -0.1"),
        (lambda p: optim.SGD([], lr=0.1), "optimizer got an empty parameter list"),
        (lambda p: optim.SGD([1.0], lr=0.1), "optimizer can only optimize Tensors, but one of the params is float"),
        (lambda p: optim.SGD([p[0] * 2], lr=0.1), "can't optimize a non-leaf Tensor"),
        (lambda p: optim.SGD([{"params": p}, {"params": p}], lr=0.1), "more than one parameter group"),
    ],
)
def test_hyperparameters_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        make([sg.ones(2).requires_grad_()])
    assert message in str(caught.value)
    assert isinstance(caught.value, sg.ShadergradError)


def test_a_generator_of_parameters_is_taken_once() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    assert len(optim.SGD(model.parameters(), lr=0.1).param_groups[0]["params"]) == 4
