"""Parametrisations: a gate as trainable numbers. In: parameters (..., width). Out: the coefficients (..., 4) of gates.py.

    softmax  16 logits: the mixture of all gates by softmax (Petersen and others, 2022).
    light    4 logits: the gate's truth table, each entry a sigmoid (Rüttgers and others, "Light Differentiable Logic Gate Networks", 2025).
    walsh    4 Walsh coefficients w: the same table of sigmoids, of w0 + w1 A + w2 B + w3 AB at the corners A, B = -1 or 1. With the
             coefficients and corners of "WARP-LUTs" (Gerlach and others, 2025), which applies the sigmoid after the interpolation
             between corners; here it comes before, so that a gate stays a polynomial and all layers one kernel. On bits both agree.

The most likely gate is the mixture's likeliest one, or the rounded table. Gumbel noise is added to the logits of the choice: among
sixteen gates, or, as a difference of two Gumbel numbers, between two values at each corner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import shadergrad as sg

from ..errors import ShapeError
from ..nn.errors import ArgumentError
from . import gates

CORNERS = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], np.float32)

WALSH = np.stack([np.ones(4, np.float32), CORNERS[:, 0], CORNERS[:, 1], CORNERS.prod(1)])
"""(4, 4): the factor of each Walsh coefficient at the corners 00, 01, 10 and 11."""

PLACES = np.array([8, 4, 2, 1], np.int32)


@dataclass(frozen=True)
class Parametrisation:
    """width: the number of parameters of a gate. soft: from parameters to coefficients; kinds: to the ids of the most likely gates; with_noise:
    to parameters with noise, divided by a temperature, for soft. entries: from parameters to the logits of the choice. pass_through: the parameters
    of the gate A for a strength of 1; strength: the default.
    """

    width: int
    soft: Callable[[sg.Tensor], sg.Tensor]
    kinds: Callable[[sg.Tensor], sg.Tensor]
    with_noise: Callable[[sg.Tensor, float], sg.Tensor]
    pass_through: tuple[float, ...]
    strength: float
    entries: Callable[[sg.Tensor], sg.Tensor] = lambda p: p

    def check(self, parameters: sg.Tensor) -> None:
        """Raises ShapeError unless the last axis has a gate's parameters."""
        if not parameters.ndim or parameters.shape[-1] != self.width:
            raise ShapeError(
                f"[parametrisation] parameters are {tuple(parameters.shape)}; the last axis must have {self.width}, those of a gate."
            )

    def hard(self, parameters: sg.Tensor) -> sg.Tensor:
        """The coefficients (..., 4) of the most likely gate, without gradient."""
        return _constant(gates.COEFFICIENTS, parameters)[self.kinds(parameters.detach())]

    def straight_through(self, parameters: sg.Tensor, soft: sg.Tensor | None = None) -> sg.Tensor:
        """The coefficients of the most likely gate, with the gradient of the soft ones."""
        soft = self.soft(parameters) if soft is None else soft
        return self.hard(parameters) + (soft - soft.detach())

    def initial(self, shape: tuple[int, ...], init: str, strength: float | None, device: object) -> sg.Tensor:
        """Parameters (*shape, width). "gaussian": normal, strength its deviation, 1 by default; else the gate A, as strong."""
        if strength is not None and not strength > 0:
            raise ArgumentError(f"[logic] the strength is {strength}; it must be positive.")
        if init == "gaussian":
            return (1.0 if strength is None else strength) * sg.randn(*shape, self.width, device=device)
        given = np.array(self.pass_through, np.float32) * np.float32(self.strength if strength is None else strength)
        return sg.tensor(np.broadcast_to(given, (*shape, self.width)).copy(), device=device)


def _constant(values: np.ndarray, like: sg.Tensor) -> sg.Tensor:
    return sg.tensor(values, dtype=like.dtype, device=like.device)


def _gumbel_like(logits: sg.Tensor) -> sg.Tensor:
    """Standard Gumbel noise: -log(-log u), u uniform on (0, 1)."""
    u = sg.rand(*logits.shape, device=logits.device).clamp(2.0**-24, 1 - 2.0**-24)
    return -(-u.log()).log()


def logistic_like(logits: sg.Tensor) -> sg.Tensor:
    """The difference of two Gumbel numbers: log(u / (1 - u))."""
    u = sg.rand(*logits.shape, device=logits.device).clamp(2.0**-24, 1 - 2.0**-24)
    return u.log() - (1 - u).log()


def _of_table(table: sg.Tensor) -> sg.Tensor:
    """The coefficients of f(00), f(01), f(10), f(11), by differences: c0, c1 of a, c2 of b, c3 of ab."""
    f00, f01, f10, f11 = (table[..., k] for k in range(4))
    return sg.stack([f00, f10 - f00, f01 - f00, f00 - f01 - f10 + f11], -1)


def _rounded(logits: sg.Tensor) -> sg.Tensor:
    return ((logits > 0).to(dtype=sg.int32) * sg.tensor(PLACES, device=logits.device)).sum(-1)


def _corners(parameters: sg.Tensor) -> sg.Tensor:
    return parameters @ _constant(WALSH, parameters)


PARAMETRISATIONS = {
    "softmax": Parametrisation(
        16,
        gates.coefficients,
        lambda p: p.argmax(-1),
        lambda p, temperature: (p + _gumbel_like(p)) / temperature,
        tuple(float(kind == gates.PASS_THROUGH) for kind in range(gates.GATES)),
        10.0,
    ),
    "light": Parametrisation(
        4,
        lambda p: _of_table(p.sigmoid()),
        _rounded,
        lambda p, temperature: (p + logistic_like(p)) / temperature,
        (-1.0, -1.0, 1.0, 1.0),
        3.0,
    ),
    "walsh": Parametrisation(
        4,
        lambda p: _of_table(_corners(p).sigmoid()),
        lambda p: _rounded(_corners(p)),
        # noise of the corners as Walsh coefficients: the matrix is its own inverse, but for a factor of 4
        lambda p, temperature: (p + logistic_like(p) @ _constant(WALSH.T / 4, p)) / temperature,
        (0.0, 1.0, 0.0, 0.0),
        3.0,
        _corners,
    ),
}


def of_name(name: str) -> Parametrisation:
    """The parametrisation of a name. Raises ArgumentError for another one."""
    if name not in PARAMETRISATIONS:
        raise ArgumentError(f"[logic] there is no parametrisation {name!r}; choose of {', '.join(PARAMETRISATIONS)}.")
    return PARAMETRISATIONS[name]
