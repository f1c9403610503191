"""Distributions of real numbers. Formulas: Johnson, Kotz and Balakrishnan, 1994, "Continuous univariate distributions"."""

from __future__ import annotations

import math
from typing import Any

from ..special import ndtr
from ..tensor import Tensor, rand, randn, where
from .distribution import Distribution, broadcast_all

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def uniform_like(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Draws from (0, 1), of the dtype and on the device of x."""
    tiny = 2.0**-24
    return rand(*shape, dtype=x.dtype, device=x.device) * (1 - 2 * tiny) + tiny


class Normal(Distribution):
    """The normal distribution of mean loc and standard deviation scale > 0.

    >>> sg.distributions.Normal(0.0, 1.0).log_prob(sg.tensor(0.0))
    tensor(-0.9189)
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        self._require("scale", self.scale, self.scale > 0, "greater than 0")

    def _parameters(self) -> dict[str, int]:
        return {"loc": 0, "scale": 0}

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(*self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -((value - self.loc) / self.scale).square() * 0.5 - self.scale.log() - HALF_LOG_2PI

    def entropy(self) -> Tensor:
        return self.scale.log() + (0.5 + HALF_LOG_2PI)

    def cdf(self, value: Tensor) -> Tensor:
        return ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (value * 2 - 1).erfinv() * math.sqrt(2)


class Uniform(Distribution):
    """Every number from low to high alike. log_prob is -inf outside.

    >>> sg.distributions.Uniform(0.0, 2.0).entropy()
    tensor(0.6931)
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)
        self._require("high", self.high, self.low < self.high, "above low")

    def _parameters(self) -> dict[str, int]:
        return {"low": 0, "high": 0}

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = rand(*self._shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._require_value(value, (value >= self.low) & (value <= self.high), "from low to high")
        inside = (self.low <= value) & (value < self.high)
        return where(inside, -(self.high - self.low).log(), -math.inf)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low


class Exponential(Distribution):
    """The exponential distribution of a rate > 0: density rate e ** (-rate x).

    >>> sg.distributions.Exponential(2.0).mean
    tensor(0.5)
    """

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)
        self._require("rate", self.rate, self.rate > 0, "greater than 0")

    def _parameters(self) -> dict[str, int]:
        return {"rate": 0}

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -uniform_like(self.rate, self._shape(sample_shape)).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._require_value(value, value >= 0, "at least 0")
        return self.rate.log() - self.rate * value

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    def cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate


class Laplace(Distribution):
    """The density e ** (-|x - loc| / scale) / (2 scale), scale > 0.

    >>> sg.distributions.Laplace(0.0, 1.0).variance
    tensor(2.)
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        self._require("scale", self.scale, self.scale > 0, "greater than 0")

    def _parameters(self) -> dict[str, int]:
        return {"loc": 0, "scale": 0}

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * 2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform_like(self.loc, self._shape(sample_shape)) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -(self.scale * 2).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> Tensor:
        return (self.scale * 2).log() + 1

    def cdf(self, value: Tensor) -> Tensor:
        z = value - self.loc
        return 0.5 - z.sign() * (-z.abs() / self.scale).expm1() * 0.5

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (term.abs() * -2).log1p()
