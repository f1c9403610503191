"""Distributions with heavy tails: Student's t, Fisher and Snedecor's F, the generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..special import digamma
from ..tensor import Tensor, rand, randn, where, zeros_like
from . import constraints
from .distribution import Distribution
from .gamma_family import Chi2, Gamma
from .utils import broadcast_floats, tiny


class StudentT(Distribution):
    """loc + scale times Student's t of df > 0 degrees of freedom; scale > 0.

    >>> sg.distributions.StudentT(1.0).log_prob(sg.tensor(0.0)).exp()
    tensor(0.3183)
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"df": 0, "loc": 0, "scale": 0}
    _batched_parts: ClassVar[dict[str, tuple[int, ...]]] = {"_chi2": ()}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_floats(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(self.df.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        df = where(finite, self.df, 3.0)
        found = where(finite, self.scale.square() * df / (df - 2), math.inf)
        return where(self.df <= 1, math.nan, found)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(*self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * (drawn * (self._chi2.rsample(sample_shape) / self.df).rsqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df = self.df
        y = (value - self.loc) / self.scale
        whole = (
            self.scale.log()
            + df.log() * 0.5
            + 0.5 * math.log(math.pi)
            + (df * 0.5).lgamma()
            - ((df + 1) * 0.5).lgamma()
        )
        return (df + 1.0) * -0.5 * (y.square() / df).log1p() - whole

    def entropy(self) -> Tensor:
        half, more = self.df * 0.5, (self.df + 1) * 0.5
        whole = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        return self.scale.log() + more * (digamma(more) - digamma(half)) + self.df.log() * 0.5 + whole


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variables over their degrees of freedom, df1 and df2, both > 0.

    >>> sg.distributions.FisherSnedecor(1.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"df1": 0, "df2": 0}
    _batched_parts: ClassVar[dict[str, tuple[int, ...]]] = {"_gamma1": (), "_gamma2": ()}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_floats(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2, validate_args=False)
        super().__init__(self.df1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, math.nan, found)

    @property
    def variance(self) -> Tensor:
        df2 = where(self.df2 <= 4, math.nan, self.df2)
        return df2.square() * 2 * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        above, below = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        return (above / below).clamp(min=tiny(above))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        whole = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return whole + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()


class GeneralizedPareto(Distribution):
    """What exceeds a high threshold loc, with a scale > 0 and a shape, concentration: of 0 exponential, above heavy-tailed.

    >>> sg.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(sg.tensor(1.0))
    tensor(0.6321)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_floats(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The constraint of every value."""
        c = self.concentration
        return constraints.interval(self.loc, where(c < 0, self.loc - self.scale / where(c < 0, c, -1.0), math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and a concentration to divide by."""
        zero = self.concentration.isclose(zeros_like(self.concentration))
        return zero, where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(rand(*self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z, (zero, c) = (value - self.loc) / self.scale, self._shape()
        y = 1 / c + 1
        return -self.scale.log() - where(zero, z, where(y == 0, y, y * (c * z).log1p()))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of draws above a value."""
        if self._validate_args:
            self._validate_sample(value)
        z, (zero, c) = (value - self.loc) / self.scale, self._shape()
        return -where(zero, z, (c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        zero, c = self._shape()
        log_rest = (-value).log1p()
        return where(zero, self.loc - self.scale * log_rest, self.loc + self.scale / c * (-c * log_rest).expm1())

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return where(c < 1, self.loc + self.scale / (1 - where(c < 1, c, 0.5)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = where(self.concentration < 0.5, self.concentration, 0.25)
        found = self.scale.square() / ((1 - c).square() * (1 - c * 2))
        return where(self.concentration < 0.5, found, math.nan)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
