"""Gamma, beta and Dirichlet distributions, whose draws come from gamma variables (Marsaglia and Tsang, 2000)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from ..graph.node import grad_mode
from ..host_operations import HostOperation
from ..special import digamma, gammainc
from ..tensor import Tensor, full_like, rand, randn, stack, where
from .distribution import Distribution, broadcast_all, check_event

ROUNDS = 12  # of rejection: one is refused with a probability below 0.05, all of them below 1e-15
TINY = 1.2e-38


@dataclass(frozen=True, eq=False)
class GammaSlope(HostOperation):
    """How a draw of a gamma variable moves with its shape: -dF/da / f, with dF/da by differences (Figurnov et al., 2018)."""

    kind = "host"
    differentiable = False

    def numpy(self, a, x):  # type: ignore[override]
        shape, value = a.astype(np.float64), x.astype(np.float64)
        h = 1e-3 * shape
        with np.errstate(all="ignore"):
            upper = special.gammainc(shape, value) > 0.5

            def tail(k: int) -> np.ndarray:
                low, high = special.gammainc(shape + k * h, value), -special.gammaincc(shape + k * h, value)
                return np.where(upper, high, low)

            slope = (8 * (tail(1) - tail(-1)) - (tail(2) - tail(-2))) / (12 * h)
            density = np.exp((shape - 1) * np.log(value) - value - special.gammaln(shape))
            return np.where(density > 0, -slope / density, 0.0).astype(a.dtype)


def standard_gamma(alpha: Tensor) -> Tensor:
    """Draws of gamma variables of shape alpha and scale 1, with gradients of alpha."""
    with grad_mode(False):
        a = alpha.detach()
        drawn = _drawn(a)
    if not alpha.requires_grad:
        return drawn
    slope = GammaSlope()(a, drawn)
    return drawn + (alpha - a) * slope


def _drawn(a: Tensor) -> Tensor:
    small = a < 1
    d = where(small, a + 1.0, a) - 1.0 / 3.0
    c = (d * 9.0).rsqrt()
    shape, options = tuple(a.shape), {"dtype": a.dtype, "device": a.device}
    found, missing = d, full_like(a, 1.0) > 0
    for _ in range(ROUNDS):
        x, u = randn(*shape, **options), rand(*shape, **options)
        v = (x * c + 1.0) ** 3
        good = v > 0
        v = where(good, v, 1.0)
        accepted = good & ((u + TINY).log() < x.square() * 0.5 + d - d * v + d * v.log())
        found = where(missing & accepted, d * v, found)
        missing = missing & ~accepted
    boost = ((rand(*shape, **options) + TINY).log() / a).exp()
    return where(small, found * boost, found).clamp(min=TINY)


class Gamma(Distribution):
    """The gamma distribution of a shape, concentration > 0, and a rate > 0.

    Draws have gradients; that of the concentration is computed on the host (shadergrad/host_operations.py).

    >>> sg.distributions.Gamma(2.0, 4.0).mean
    tensor(0.5)
    """

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)
        self._require("concentration", self.concentration, self.concentration > 0, "greater than 0")
        self._require("rate", self.rate, self.rate > 0, "greater than 0")

    def _parameters(self) -> dict[str, int]:
        return {"concentration": 0, "rate": 0}

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return standard_gamma(self.concentration.expand(*self._shape(sample_shape))) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._require_value(value, value >= 0, "at least 0")
        a, b = self.concentration, self.rate
        return a * b.log() + (a - 1).xlogy(value) - b * value - a.lgamma()

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * digamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        return gammainc(self.concentration, self.rate * value)


class Dirichlet(Distribution):
    """Probabilities (*, k) that add up to 1: density of product of x ** (concentration - 1), concentration (*, k) > 0.

    >>> sg.distributions.Dirichlet(sg.tensor([1.0, 3.0])).mean
    tensor([0.25, 0.75])
    """

    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)
        self._require("concentration", concentration, concentration > 0, "greater than 0")

    def _parameters(self) -> dict[str, int]:
        return {"concentration": 1}

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = standard_gamma(self.concentration.expand(*self._shape(sample_shape)))
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        check_event("Dirichlet", value, tuple(self.event_shape))
        self._require_value(value, (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6 * 10), "on the simplex")
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        spread = ((a - 1.0) * digamma(a)).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * digamma(total) - spread


class Beta(Distribution):
    """Numbers from 0 to 1: density of x ** (concentration1 - 1) (1 - x) ** (concentration0 - 1), both > 0.

    >>> sg.distributions.Beta(1.0, 3.0).mean
    tensor(0.25)
    """

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)
        for name in ("concentration1", "concentration0"):
            self._require(name, getattr(self, name), getattr(self, name) > 0, "greater than 0")

    def _parameters(self) -> dict[str, int]:
        return {"concentration1": 0, "concentration0": 0}

    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet().rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._require_value(value, (value >= 0) & (value <= 1), "from 0 to 1")
        a, b = self.concentration1, self.concentration0
        whole = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return (a - 1.0).xlogy(value) + (b - 1.0).xlogy(1.0 - value) + whole

    def entropy(self) -> Tensor:
        return self._dirichlet().entropy()
