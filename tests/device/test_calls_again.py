"""Layers and losses that were called before with arguments alike: the same nodes are added anew, and mean what the function means."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad.primitives.batch_norm import BatchNorm

Call = Callable[..., Any]  # of nn.functional, x (4, 5), w (5, 5) and classes (4,)

CALLS: dict[str, Call] = {
    "linear": lambda F, x, w, y: F.linear(x, w),
    "linear with a bias": lambda F, x, w, y: F.linear(x, w, w[0] * 1),
    "linear of one tensor twice": lambda F, x, w, y: F.linear(w, w),
    "softmax": lambda F, x, w, y: F.softmax(x, -1),
    "log_softmax along 0": lambda F, x, w, y: F.log_softmax(x, 0),
    "log_softmax along 1": lambda F, x, w, y: F.log_softmax(x, 1),
    "cross_entropy": lambda F, x, w, y: F.cross_entropy(x, y),
    "cross_entropy, sum": lambda F, x, w, y: F.cross_entropy(x, y, reduction="sum"),
    "cross_entropy, some ignored": lambda F, x, w, y: F.cross_entropy(x, y, ignore_index=1),
    "cross_entropy, smoothed": lambda F, x, w, y: F.cross_entropy(x, y, label_smoothing=0.1),
    "cross_entropy, weighted": lambda F, x, w, y: F.cross_entropy(x, y, w[0].detach().abs() + 1),
    "cross_entropy of rows that are views": lambda F, x, w, y: F.cross_entropy(w[:4], y[:4].reshape(4)),
    "nll_loss": lambda F, x, w, y: F.nll_loss(x, y),
    "layer_norm": lambda F, x, w, y: F.layer_norm(x, (5,), w[0], w[1]),
    "batch_norm": lambda F, x, w, y: F.batch_norm(x, None, None, w[0], w[1], training=True),
    "batch_norm without weights": lambda F, x, w, y: F.batch_norm(x, None, None, training=True, eps=1e-3),
    "batch_norm of what is also its weight": lambda F, x, w, y: F.batch_norm(w, None, None, w[0], w[0], training=True),
    "rms_norm": lambda F, x, w, y: F.rms_norm(x, [5], w[0]),
    "mse_loss": lambda F, x, w, y: F.mse_loss(x, w[:4]),
    "smooth_l1_loss": lambda F, x, w, y: F.smooth_l1_loss(x, w[:4], beta=0.5),
    "smooth_l1_loss with another beta": lambda F, x, w, y: F.smooth_l1_loss(x, w[:4], beta=2.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_again_has_its_own_values_and_gradients(device: str, name: str) -> None:
    rng = np.random.default_rng(0)
    for wants in ((True, True), (True, True), (False, True), (True, False), (True, True)):
        x, w = (rng.normal(size=s).astype(np.float32) for s in ((4, 5), (5, 5)))
        y = rng.integers(0, 5, 4)
        theirs = [torch.tensor(a, requires_grad=g) for a, g in zip((x, w), wants, strict=True)]
        ours = [sg.tensor(a, device=device, requires_grad=g) for a, g in zip((x, w), wants, strict=True)]
        expected = CALLS[name](torch.nn.functional, *theirs, torch.tensor(y))
        result = CALLS[name](sg.nn.functional, *ours, sg.tensor(y, device=device))
        assert_close(result.detach(), expected.detach(), 1e-4, 1e-5)
        assert result.requires_grad == expected.requires_grad
        if expected.requires_grad:
            (expected * expected).sum().backward()
            (result * result).sum().backward()
            for mine, their in zip(ours, theirs, strict=True):
                assert (mine.grad is None) == (their.grad is None)
                if their.grad is not None:
                    assert_close(mine.grad, their.grad, 1e-4, 1e-5)
    with sg.no_grad():
        assert not CALLS[name](sg.nn.functional, *ours, sg.tensor(y, device=device)).requires_grad


def test_a_call_again_runs_none_of_the_functions_python(device: str) -> None:
    def called() -> set[str]:
        names: set[str] = set()
        w, x, y = sg.ones(3, 2, device=device), sg.ones(4, 2, device=device), sg.zeros(4, dtype=sg.int32, device=device)
        sys.setprofile(lambda frame, event, arg: names.add(frame.f_code.co_name) if event == "call" else None)
        try:
            sg.nn.functional.cross_entropy(sg.nn.functional.linear(x, w), y)
        finally:
            sys.setprofile(None)
        return names

    called()
    assert called().isdisjoint({"product_of", "_of_classes", "infer", "make"})


def test_what_a_call_hangs_on_is_told_apart() -> None:
    """Each pair would be one call if its key left something out."""
    F = sg.nn.functional
    x, y = sg.tensor([[0.5, -1.0], [2.0, 0.0]]), sg.tensor([0, 1])
    assert F.linear(x, x).tolist() == F.linear(x, x * 1).tolist() == (x @ x.T).tolist()
    assert F.linear(x, sg.ones(2, 2)).tolist() == [[-0.5, -0.5], [2.0, 2.0]]
    assert F.linear(x.double(), x.double()).dtype is sg.float64
    assert_close(F.softmax(x, 0).sum(0), sg.ones(2), 1e-6, 0)
    assert_close(F.softmax(x, 1).sum(1), sg.ones(2), 1e-6, 0)
    assert F.softmax(x, 1, dtype=sg.float64).dtype is sg.float64
    whole, parts = F.cross_entropy(x, y), F.cross_entropy(x, y, reduction="none")
    assert (whole.shape, parts.shape) == ((), (2,))
    assert_close(parts.mean(), whole, 1e-6, 0)
    with pytest.raises(sg.errors.ShadergradError):
        F.linear(x, sg.ones(2, 3))


def test_running_statistics_move_in_every_call_alike(device: str) -> None:
    rng = np.random.default_rng(0)
    ours, theirs = sg.nn.BatchNorm2d(3, momentum=0.3).to(device), torch.nn.BatchNorm2d(3, momentum=0.3)
    for momentum in (0.3, 0.3, 0.3, 0.1, None, None):
        ours.momentum = theirs.momentum = momentum
        x = rng.normal(size=(4, 3, 2, 5)).astype(np.float32)
        assert_close(ours(sg.tensor(x, device=device)).detach(), theirs(torch.tensor(x)).detach(), 1e-4, 1e-5)
        for name, buffer in theirs.named_buffers():
            assert_close(getattr(ours, name), buffer, 1e-4, 1e-5)


def test_a_backward_pass_through_batch_norm_is_not_derived_again(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer: Any = sg.nn.Sequential(sg.nn.Conv2d(1, 2, 3), sg.nn.BatchNorm2d(2), sg.nn.ReLU()).to(device)
    x = sg.tensor(np.random.default_rng(0).normal(size=(2, 1, 5, 5)).astype(np.float32), device=device)
    for _ in range(2):
        layer(x).square().sum().backward()
    parameters: list[Any] = list(layer.parameters())
    before = [p.grad.numpy() for p in parameters]
    monkeypatch.setattr(BatchNorm, "vjp", None)
    layer.zero_grad()
    layer(x).square().sum().backward()
    for p, gradient in zip(parameters, before, strict=True):
        assert_close(p.grad * 2, gradient, 1e-4, 1e-5)


def test_a_loss_that_is_read_first_keeps_what_the_gradient_of_batch_norm_needs() -> None:
    x = sg.tensor(np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32), requires_grad=True)
    result = sg.nn.functional.batch_norm(x * 2, None, None, training=True)
    result.square().sum().item()
    _, _, mean, var = result._node.inputs
    assert mean.storage is not None
    assert var.storage is not None
