"""Losses that hold the slope of a network: a SIREN, a physics-informed network, a gradient penalty, trained as in PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg


def slope(lib: Any, y: Any, x: Any) -> Any:
    (found,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    return found


def siren(lib: Any, net: Any, x: Any) -> Any:
    return (slope(lib, net(x), x) - x.detach()).pow(2).mean()


def heat(lib: Any, net: Any, x: Any) -> Any:
    """u_t = u_xx within, u = sin(x) at the beginning."""
    u = net(x)
    first = slope(lib, u, x)
    second = slope(lib, first[:, :1], x)[:, :1]
    return (first[:, 1:] - second).pow(2).mean() + (u - lib.sin(x[:, :1])).pow(2).mean()


def r1(lib: Any, net: Any, x: Any) -> Any:
    y = net(x)
    return lib.nn.functional.softplus(-y).mean() + 5.0 * slope(lib, y, x).pow(2).sum(1).mean()


def gradient_penalty(lib: Any, net: Any, x: Any) -> Any:
    y = net(x)
    return y.mean() + 10.0 * (slope(lib, y, x).norm(2, dim=1) - 1).pow(2).mean()


class Sine:
    """Layers of a lib with sines between, as SIREN has them."""

    def __init__(self, lib: Any, layers: Any) -> None:
        self.lib, self.layers = lib, layers

    def __call__(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = self.lib.sin(layer(x))
        return self.layers[-1](x)


def losses(
    lib: Any, loss_of: Callable[..., Any], optimizer: str, device: str, compiled: Callable[..., Any]
) -> list[float]:
    rng = np.random.default_rng(0)
    sizes = (2, 12, 12, 1)
    layers = [lib.nn.Linear(a, b).to(device) for a, b in itertools.pairwise(sizes)]
    with lib.no_grad():
        for layer in layers:
            for p in layer.parameters():
                p.copy_(lib.tensor(rng.uniform(-0.6, 0.6, tuple(p.shape)).astype(np.float32)).to(device))
    parameters = [p for layer in layers for p in layer.parameters()]
    trained = getattr(lib.optim, optimizer)(parameters, lr=0.01)

    @compiled
    def step(x: Any) -> Any:
        x = x.clone().requires_grad_()
        trained.zero_grad()
        loss = loss_of(lib, Sine(lib, layers), x)
        loss.backward()
        trained.step()
        return loss.detach()

    batches = [lib.tensor(rng.uniform(-1, 1, (6, 2)).astype(np.float32)).to(device) for _ in range(4)]
    return [step(x).item() for x in batches]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("loss_of", [siren, heat, r1, gradient_penalty])
def test_a_loss_with_slopes_is_trained_as_in_pytorch(loss_of: Callable[..., Any], optimizer: str, device: str) -> None:
    wanted = losses(torch, loss_of, optimizer, "cpu", lambda f: f)
    np.testing.assert_allclose(losses(sg, loss_of, optimizer, device, sg.compile), wanted, rtol=2e-4)
