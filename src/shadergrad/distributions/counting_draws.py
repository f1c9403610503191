"""Draws of Poisson and binomial variables, of composed operations: by inversion where few outcomes matter, else by rejection.

Rejection is transformed rejection with squeeze (Hörmann, 1993, PTRS and BTRS) with a fixed number of rounds, so that a compiled step has one
structure. Of 16 rounds, all are refused with a probability below 1e-10; such a draw is the mode.
"""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import float32
from ..tensor import Tensor, rand, where
from .utils import open_uniform

ROUNDS = 16
FEW = 10.0  # an expected count below which a draw is found by inversion
STEPS = 48  # of inversion: P(count > 48) is below 1e-17 for an expectation of 10


def _log_power_over_factorial(k: Tensor, expected: Tensor) -> Tensor:
    """log(expected ** k / k!) - expected for whole k >= 0: Stirling's series, without the cancellation of large terms."""
    some = k >= 1
    k = where(some, k, 1.0)
    r = 1.0 / k
    rest = (k * (2 * math.pi)).log() * 0.5 + r * (1 / 12 - r * r * (1 / 360 - r * r * (1 / 1260)))
    return where(some, _log_power_ratio(k, expected) - rest, -expected)


def _log_power_ratio(k: Tensor, expected: Tensor) -> Tensor:
    """k log(expected / k) + k - expected for k >= 1."""
    d = (expected - k) / k
    near = d.abs() < 0.1
    s = where(near, d, 0.0)
    series = -(s * s) * (0.5 - s * (1 / 3 - s * (0.25 - s * (0.2 - s * (1 / 6 - s * (1 / 7))))))
    far = where(near, 1.0, d + 1)
    return k * where(near, series, far.log() - (far - 1))


def poisson(rate: Tensor) -> Tensor:
    """Draws of Poisson variables of these rates >= 0: whole numbers of the same shape and dtype, without gradients."""
    rate = rate.detach()
    few = rate < FEW
    low = where(few, rate, 1.0)
    return where(
        rate.isnan(), rate, where(few, _poisson_by_inversion(low), _poisson_by_rejection(where(few, FEW, rate)))
    )


def _poisson_by_inversion(rate: Tensor) -> Tensor:
    u = _unit(rate)
    probability = (-rate).exp()
    total, found = probability, (u > probability).to(dtype=rate.dtype)
    for k in range(1, STEPS):
        probability = probability * rate * (1 / k)
        total = total + probability
        found = found + (u > total).to(dtype=rate.dtype)
    return found


def _poisson_by_rejection(rate: Tensor) -> Tensor:
    b = rate.sqrt() * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    inverse_alpha = 1.1328 / (b - 3.4) + 1.1239
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def log_density(k: Tensor) -> Tensor:
        return _log_power_over_factorial(k, rate)

    return _rejected(rate, a, b, squeeze, rate + 0.43, inverse_alpha, log_density, None, rate.floor())


def _rejected(
    like: Tensor, a: Any, b: Any, squeeze: Any, centre: Any, scale: Any, log_density: Any, most: Any, otherwise: Tensor
) -> Tensor:
    """Hörmann's loop: k of a ratio of uniforms; accepted in the squeeze, or by its density."""
    found, missing = otherwise, None
    for _ in range(ROUNDS):
        u, v = _unit(like) - 0.5, open_uniform(like, tuple(like.shape))
        us = 0.5 - u.abs()
        k = ((a * 2 / us + b) * u + centre).floor()
        inside = k >= 0 if most is None else (k >= 0) & (k <= most)
        height = v.log() + scale.log() - (a / us.square() + b).log()
        below = ~((us < 0.013) & (v > us)) & (height <= log_density(where(inside, k, otherwise)))
        good = inside & (((us >= 0.07) & (v <= squeeze)) | below)
        found = where(good if missing is None else good & missing, k, found)
        missing = ~good if missing is None else missing & ~good
    return found


def _unit(like: Tensor) -> Tensor:
    """Uniform on (0, 1), with 46 bits for float64."""
    drawn = open_uniform(like, tuple(like.shape))
    if like.dtype is float32:
        return drawn
    return rand(*like.shape, dtype=like.dtype, device=like.device) + drawn * 2.0**-23


def binomial(count: Tensor, probability: Tensor) -> Tensor:
    """Draws of binomial variables: how many of `count` trials succeed, each with a `probability` from 0 to 1.

    Both of one shape and floating dtype; whole numbers of that dtype, without gradients.
    """
    n, p = count.detach(), probability.detach()
    flipped = p > 0.5
    q = where(flipped, 1 - p, p)  # at most 1/2
    few = n * q < FEW
    low = _binomial_by_inversion(n, where(few, q, 0.0))
    high = _binomial_by_rejection(where(few, 40.0, n), where(few, 0.5, q))
    found = where(few, low, high)
    found = where(flipped, n - found, found)
    return where(p.isnan() | n.isnan(), math.nan, found)


def _binomial_by_inversion(n: Tensor, q: Tensor) -> Tensor:
    u = _unit(q)
    odds = q / (1 - q)
    probability = (n * (-q).log1p()).exp()
    total, found = probability, (u > probability).to(dtype=q.dtype)
    for k in range(1, STEPS):
        probability = probability * ((n - (k - 1)).clamp(min=0) * odds) * (1 / k)
        total = total + probability
        found = found + (u > total).to(dtype=q.dtype)
    return found.minimum(n)


def _binomial_by_rejection(n: Tensor, p: Tensor) -> Tensor:
    spread = (n * p * (1 - p)).sqrt()
    b = spread * 2.53 + 1.15
    a = b * 0.0248 + p * 0.01 - 0.0873
    alpha = (5.1 / b + 2.83) * spread
    squeeze = 0.92 - 4.2 / b
    mode = ((n + 1) * p).floor()

    def log_pmf(k: Tensor) -> Tensor:  # up to terms that do not depend on k
        return _log_power_over_factorial(k, n * p) + _log_power_over_factorial(n - k, n * (1 - p))

    top = log_pmf(mode)
    return _rejected(n, a, b, squeeze, n * p + 0.5, alpha, lambda k: log_pmf(k) - top, n, mode)
