"""A backward pass of a structure that came before asks no gradient rule, and gives what the rules would."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad.graph import autodiff
from shadergrad.primitives.elementwise import Mul

Loss = Callable[[sg.Tensor, sg.Tensor], sg.Tensor]

LOSSES: dict[str, Loss] = {
    "linear": lambda w, x: (x @ w.t()).relu().sum(),
    "numbers": lambda w, x: (w[1:3] * 2.5 + w[0:2] ** 3).mean(),
    "twice": lambda w, x: (w * w).sum() + (w - x[0]).square().sum() * w.sum(),
    "cast": lambda w, x: (w.to(dtype=sg.float64) * 3).sum().to(dtype=sg.float32) * w.amax(),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes each pass asked rules for, from now on."""
    counts: list[int] = []
    real = autodiff._by_rules

    def counted(order: list, *rest):
        counts.append(len(order))
        return real(order, *rest)

    monkeypatch.setattr(autodiff, "_by_rules", counted)
    return counts


def grad_of(w: sg.Tensor) -> list:
    assert w.grad is not None
    return w.grad.tolist()


def gradient(loss: Loss, seed: int) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    w = sg.tensor(rng.normal(size=(3, 4)).astype(np.float32), requires_grad=True)
    loss(w, sg.tensor(rng.normal(size=(2, 4)).astype(np.float32))).backward()
    return grad_of(w)


@pytest.mark.parametrize("name", LOSSES)
def test_the_third_pass_of_a_structure_asks_no_rule_and_gives_the_same(name: str, asked: list[int]) -> None:
    by_rules = [gradient(LOSSES[name], seed) for seed in (0, 1)]
    assert len(asked) <= 2
    del asked[:]
    again = [gradient(LOSSES[name], seed) for seed in (0, 1)]
    assert again == by_rules
    assert not asked


def test_what_differs_in_a_number_or_in_sharing_is_another_structure() -> None:
    for _ in range(3):
        assert [gradient(lambda w, x, k=k: w[k : k + 1].sum(), 0)[k][0] for k in range(3)] == [1.0] * 3
        assert gradient(lambda w, x: (w * w.detach()).sum(), 0) != gradient(lambda w, x: (w * w).sum(), 0)
        assert gradient(lambda w, x: (w - x[0] * w).sum(), 0) != gradient(lambda w, x: (x[0] * w - w).sum(), 0)


def test_a_hook_a_retained_graph_and_a_second_derivative_are_as_without(asked: list[int]) -> None:
    w = sg.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    for k in range(4):
        y = w * w
        if k == 3:
            y.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
        loss = y.sum()
        w.grad = None
        loss.backward(retain_graph=k == 2)
        assert grad_of(w) == ([20.0, 40.0] if k == 3 else [2.0, 4.0])
        if k == 2:
            loss.backward()
            assert grad_of(w) == [4.0, 8.0]
        with pytest.raises(sg.AutogradError, match="second time"):
            loss.backward()
    assert seen == [[1.0, 1.0]]
    (g,) = sg.autograd.grad((w * w * w).sum(), [w], create_graph=True)
    assert sg.autograd.grad(g.sum(), [w])[0].tolist() == [6.0, 12.0]


def test_rules_of_users_are_asked_each_time() -> None:
    calls = []

    class Double(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * len(calls)

    found = [gradient(lambda w, x: Double.apply(w).sum(), 0)[0][0] for _ in range(4)]
    assert found == [1.0, 2.0, 3.0, 4.0]
    assert Mul.structural


def test_what_users_put_into_a_pass_is_not_held() -> None:
    class Marker:
        pass

    markers = []

    class Double(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.marker = Marker()
            markers.append(weakref.ref(ctx.marker))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for _ in range(3):
        gradient(lambda w, x: (Double.apply(x).sum() * w).sum(), 0)
        gradient(lambda w, x: Double.apply(w).sum(), 0)
    gc.collect()
    assert [m() for m in markers] == [None] * 6


class Scaled(sg.autograd.Function):
    """2 x; its gradient times `by`, which is no part of the tape's structure, or None."""

    by: float | None = 1.0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return None if Scaled.by is None else g * 2 * Scaled.by


def between(function: Callable[[sg.Tensor], sg.Tensor]) -> Loss:
    """Layers before, between and behind two calls of a function; w is used in each part."""

    def loss(w: sg.Tensor, x: sg.Tensor) -> sg.Tensor:
        hidden = function(F.linear(x, w).softmax(-1))
        return F.layer_norm(function(F.linear(hidden @ w, w)) + hidden, (3,)).square().sum() + w.amax()

    return loss


def test_parts_of_a_pass_between_functions_of_users_ask_no_rule_again(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    through, plain = between(Scaled.apply), between(lambda x: x * 2)
    for seed in range(5):
        del asked[:]
        np.testing.assert_allclose(gradient(through, seed), gradient(plain, seed), rtol=1e-5, atol=1e-6)
    assert not asked
    for by in (0.5, None, 1.0):
        monkeypatch.setattr(Scaled, "by", by)
        with_hooks = [gradient(lambda w, x: _heard(through(w, x)), 0), gradient(through, 0)]
        np.testing.assert_allclose(*with_hooks, rtol=1e-5, atol=1e-6)


def _heard(loss: sg.Tensor) -> sg.Tensor:
    loss.register_hook(lambda g: None)
    return loss


def test_two_passes_of_one_structure_computed_together_keep_their_own_layers() -> None:
    rng = np.random.default_rng(0)
    data = [sg.tensor(rng.normal(size=(3, 4)).astype(np.float32)) for _ in range(4)]
    for _ in range(4):
        ws = [sg.tensor(d.numpy(), requires_grad=True) for d in data[:2]]
        for w, x in zip(ws, data[2:], strict=True):
            between(Scaled.apply)(w, x).backward()
        sg.sync()
        alone = [sg.tensor(d.numpy(), requires_grad=True) for d in data[:2]]
        for w, x in zip(alone, data[2:], strict=True):
            between(lambda x: x * 2)(w, x).backward()
            grad_of(w)
        for w, other in zip(ws, alone, strict=True):
            np.testing.assert_allclose(grad_of(w), grad_of(other), rtol=1e-5, atol=1e-6)


def test_a_pass_through_a_function_uses_its_graph_up() -> None:
    for _ in range(4):
        w = sg.tensor([1.0, 2.0], requires_grad=True)
        loss = (Scaled.apply(w * w).softmax(0) * w).sum()
        loss.backward(retain_graph=True)
        once = grad_of(w)
        loss.backward()
        np.testing.assert_allclose(grad_of(w), np.multiply(once, 2), rtol=1e-6)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
