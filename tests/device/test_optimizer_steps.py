"""An optimizer's step outside a compiled one: captured once, replayed, and never other than what its rule says."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_compiles_nothing
from shadergrad import optim


def network(device: str) -> list[sg.Tensor]:
    rng = np.random.default_rng(0)
    return [
        sg.tensor(rng.standard_normal(shape).astype(np.float32), device=device).requires_grad_()
        for shape in ((3, 4), (4,))
    ]


def backward(lib: Any, parameters: list[Any], k: int) -> Any:
    w, b = parameters
    x = (
        lib.arange(6.0).to(w.device).reshape(2, 3) * (k + 1) / 20
    )  # small, so that rounding does not grow over the steps
    loss = ((x @ w).tanh() + b).pow(2).sum()
    loss.backward()
    return loss


def test_a_loop_captures_the_update_once_and_then_compiles_nothing(device: str) -> None:
    parameters = network(device)
    optimizer = optim.AdamW(parameters, lr=0.1)
    for k in range(3):
        optimizer.zero_grad()
        backward(sg, parameters, k)
        optimizer.step()

    def go_on() -> None:
        for k in range(5):
            optimizer.zero_grad()
            backward(sg, parameters, 1)
            optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
            optimizer.step()

    assert_compiles_nothing(go_on)
    assert optimizer._replayed is not None
    assert optimizer._replayed.captures == 1


def test_what_changes_between_steps_counts(device: str) -> None:
    """Frozen parameters, other hyperparameters, gradients that stay, a group that is added: as in PyTorch."""

    def values(lib: Any, place: str) -> list[Any]:
        parameters = [lib.tensor(p.tolist()).to(place).requires_grad_() for p in network("cpu")]
        late = lib.ones(2).to(place).requires_grad_()
        optimizer = lib.optim.SGD(parameters, lr=0.1, momentum=0.5)
        seen = []
        for k in range(8):
            if k != 2:
                optimizer.zero_grad()
            backward(lib, parameters, k)
            if k in (3, 6):
                parameters[1].grad = None
            if k == 4:
                optimizer.param_groups[0]["momentum"] = 0.9
            if k == 5:
                optimizer.add_param_group({"params": [late], "lr": 0.5})
            if k > 5:
                (late * late).sum().backward()
            kept = parameters[0].detach().clone()
            optimizer.step()
            seen += [kept.tolist(), *(p.tolist() for p in parameters), late.tolist()]
        return seen

    for ours, theirs in zip(values(sg, device), values(torch, "cpu"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_graph_that_is_kept_has_the_values_of_before_the_step(device: str) -> None:
    parameters = network(device)
    optimizer = optim.SGD(parameters, lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        w = parameters[0]
        loss = (w * w * w).sum()
        before, copied = w.detach().clone().numpy(), sg.tensor(w.detach())
        loss.backward(retain_graph=True)
        optimizer.step()
        w.grad = None
        loss.backward()
        gradient: Any = w.grad
        np.testing.assert_allclose(gradient.numpy(), 3 * before * before, rtol=1e-5)
        np.testing.assert_array_equal(copied.numpy(), before)


def test_hyperparameters_that_change_in_every_step_are_no_captures_without_end(device: str) -> None:
    parameters = network(device)
    optimizer = optim.SGD(parameters, lr=0.1, weight_decay=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(40):
            optimizer.zero_grad()
            backward(sg, parameters, k)
            optimizer.param_groups[0]["weight_decay"] = 0.1 / (k + 1)
            optimizer.step()
    assert optimizer._replayed is not None
    assert optimizer._replayed.captures == 16


def test_an_optimizer_ends_with_its_last_user_and_copies_go_their_own_way() -> None:
    parameters = network("cpu")
    optimizer = optim.Adam(parameters, lr=0.1)
    backward(sg, parameters, 0)
    optimizer.step()
    twin = copy.deepcopy(optimizer)
    assert twin._replayed is None
    before = parameters[0].detach().clone().tolist()
    for p in twin.param_groups[0]["params"]:
        p.grad = sg.ones_like(p)
    twin.step()
    assert parameters[0].tolist() == before
    gone = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer
        assert gone() is None
    finally:
        gc.enable()


class Reads(optim.SGD):
    """A rule of a user's, which looks at values: nothing that could be captured."""

    def update(self, p: sg.Tensor, gradient: sg.Tensor, state: dict[str, Any], group: Any) -> None:
        p.sub_(gradient * (0.5 if gradient.sum().item() > 0 else 0.25))


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_a_users_rule_may_read_values(scale: float, device: str) -> None:
    w = sg.ones(2, device=device, requires_grad=True)
    optimizer = Reads([w], lr=1.0)
    (w * scale).sum().backward()
    optimizer.step()
    assert w.tolist() == [1 - scale * (0.5 if scale > 0 else 0.25)] * 2
