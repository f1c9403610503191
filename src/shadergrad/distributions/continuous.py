"""Distributions of real numbers. Formulas: Johnson, Kotz and Balakrishnan, 1994, "Continuous univariate distributions"."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..special import ndtr
from ..tensor import Tensor, full_like, rand, randn, where, zeros_like
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import HALF_LOG_2PI, broadcast_floats, open_uniform


class Normal(ExponentialFamily):
    """The normal distribution of mean loc and standard deviation scale > 0.

    >>> sg.distributions.Normal(0.0, 1.0).log_prob(sg.tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0.0
    _batched: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_floats(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    @property
    def stddev(self) -> Tensor:
        return self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(*self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -((value - self.loc) / self.scale).square() * 0.5 - self.scale.log() - HALF_LOG_2PI

    def entropy(self) -> Tensor:
        return self.scale.log() + (0.5 + HALF_LOG_2PI)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (value * 2 - 1).erfinv() * math.sqrt(2)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        variance = self.scale.square()
        return self.loc / variance, variance.reciprocal() * -0.5

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -x.square() / y * 0.25 + (-math.pi / y).log() * 0.5


class Uniform(Distribution):
    """All numbers from low to high with equal density. Unless values are checked, log_prob is -inf outside.

    >>> sg.distributions.Uniform(0.0, 2.0).entropy()
    tensor(0.6931)
    """

    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"low": 0, "high": 0}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_floats(low, high)
        super().__init__(self.low.shape, (), validate_args)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The constraint of every value."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = rand(*self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = (value >= self.low) & (value < self.high)
        return where(inside, -(self.high - self.low).log(), -math.inf)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low


class Exponential(ExponentialFamily):
    """The exponential distribution of a rate > 0: density rate e ** (-rate x).

    >>> sg.distributions.Exponential(2.0).mean
    tensor(0.5)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0.0
    _batched: ClassVar[dict[str, int]] = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_floats(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -open_uniform(self.rate, self._extended_shape(sample_shape)).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()


class Laplace(Distribution):
    """The density e ** (-|x - loc| / scale) / (2 scale), scale > 0.

    >>> sg.distributions.Laplace(0.0, 1.0).variance
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_floats(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale * 2**0.5

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * 2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = open_uniform(self.loc, self._extended_shape(sample_shape)) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(self.scale * 2).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> Tensor:
        return (self.scale * 2).log() + 1

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = value - self.loc
        return 0.5 - z.sign() * (-z.abs() / self.scale).expm1() * 0.5

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (term.abs() * -2).log1p()


class Cauchy(Distribution):
    """The density 1 / (pi scale (1 + ((x - loc) / scale)^2)), scale > 0. It has no mean (NaN), and an infinite variance.

    >>> sg.distributions.Cauchy(0.0, 1.0).cdf(sg.tensor(1.0))
    tensor(0.75)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_floats(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = open_uniform(self.loc, self._extended_shape(sample_shape))
        return self.loc + ((drawn - 0.5) * math.pi).tan() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def entropy(self) -> Tensor:
        return self.scale.log() + math.log(4 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ((value - 0.5) * math.pi).tan() * self.scale + self.loc
