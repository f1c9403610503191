"""Distributions of transformed normal, exponential, uniform, Cauchy and gamma variables."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..special import digamma
from ..tensor import Tensor, full_like, ones_like, where, zeros_like
from . import constraints
from .continuous import Cauchy, Exponential, Normal, Uniform
from .gamma_family import Gamma
from .scalar_transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from .transform import Transform
from .transformed import Independent, TransformedDistribution
from .utils import broadcast_floats, epsilon, euler_constant, tiny
from .vector_transforms import StickBreakingTransform


class _Derived(TransformedDistribution):
    """Base: `expand` expands the parameters that an instance holds, `_batched`, and makes transforms anew from them."""

    _batched: ClassVar[dict[str, int]] = {}

    def _made_transforms(self) -> list[Transform]:
        return self.transforms

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        owner = next(c for c in type(self).__mro__ if "__init__" in c.__dict__ and c.__module__ == __name__)
        new = self._get_checked_instance(owner, _instance)
        for name in self._batched:
            new.__dict__[name] = self.__dict__[name].expand(*batch_shape)
        super().expand(batch_shape, _instance=new)
        new.transforms = new._made_transforms()
        return new


class LogNormal(_Derived):
    """e to the power of a normal variable of mean loc and standard deviation scale.

    >>> sg.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.square()
        return squared.expm1() * (self.loc * 2 + squared).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(_Derived):
    """Base: the absolute value of a variable that is symmetric about 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Tensor:
        """The scale of the variable."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.base_dist.cdf(value) * 2 - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable of mean 0 and standard deviation scale.

    >>> sg.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    base_dist: Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable about 0. Its mean and variance are infinite.

    >>> sg.distributions.HalfCauchy(1.0).cdf(sg.tensor(1.0))
    tensor(0.5)
    """

    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class Gumbel(_Derived):
    """loc - scale log(-log u), u uniform: the largest of many variables. scale > 0.

    >>> sg.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _batched: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_floats(loc, scale)
        low, high = full_like(self.loc, tiny(self.loc)), full_like(self.loc, 1 - epsilon(self.loc))
        super().__init__(Uniform(low, high, validate_args=validate_args), self._made_transforms(), validate_args)

    def _made_transforms(self) -> list[Transform]:
        log = ExpTransform().inv
        return [log, AffineTransform(0, -ones_like(self.scale)), log, AffineTransform(self.loc, -self.scale)]

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale * (math.pi / math.sqrt(6))

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class Pareto(_Derived):
    """Density proportional to x ** -(alpha + 1) from scale on; both > 0.

    >>> sg.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}
    _batched: ClassVar[dict[str, int]] = {"scale": 0, "alpha": 0}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_floats(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=validate_args), self._made_transforms(), validate_args)

    def _made_transforms(self) -> list[Transform]:
        return [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The constraint of every value."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite up to 1
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)  # infinite up to 2
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (self.alpha.reciprocal() + 1)


class Weibull(_Derived):
    """scale times an exponential variable to the power of 1 / concentration; both > 0.

    >>> sg.distributions.Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _batched: ClassVar[dict[str, int]] = {"scale": 0, "concentration": 0}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_floats(scale, concentration)
        base = Exponential(ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._made_transforms(), validate_args)

    @property
    def concentration_reciprocal(self) -> Tensor:
        """1 / concentration."""
        return self.concentration.reciprocal()

    def _made_transforms(self) -> list[Transform]:
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    @property
    def mean(self) -> Tensor:
        return self.scale * (self.concentration_reciprocal + 1).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        r = self.concentration_reciprocal
        return self.scale.square() * ((r * 2 + 1).lgamma().exp() - ((r + 1).lgamma() * 2).exp())

    def entropy(self) -> Tensor:
        r = self.concentration_reciprocal
        return (1 - r) * euler_constant + (self.scale * r).log() + 1


class InverseGamma(_Derived):
    """1 over a gamma variable of a concentration and a rate, both > 0.

    >>> sg.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(base.rate.new_ones(()) * -1.0), validate_args)

    @property
    def concentration(self) -> Tensor:
        """The concentration of the gamma variable."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (a + 1) * digamma(a)


class Kumaraswamy(_Derived):
    """Numbers from 0 to 1 with the cdf 1 - (1 - x ** concentration1) ** concentration0; both > 0.

    >>> sg.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5)
    """

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_floats(concentration1, concentration0)
        base = Uniform(zeros_like(self.concentration0), ones_like(self.concentration0), validate_args=validate_args)
        super().__init__(base, self._made_transforms(), validate_args)

    def _made_transforms(self) -> list[Transform]:
        first, last = PowerTransform(self.concentration0.reciprocal()), PowerTransform(self.concentration1.reciprocal())
        return [first, AffineTransform(1.0, -1.0), last]

    def _moment(self, n: int) -> Tensor:
        """The expectation of x ** n: concentration0 B(1 + n / concentration1, concentration0)."""
        a, b = n / self.concentration1 + 1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        found = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return where((b < 1) | (a < 1), math.nan, found).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class LogisticNormal(_Derived):
    """Probabilities (*, k + 1) that break a stick by normal variables (*, k) of mean loc and standard deviation scale.

    >>> sg.distributions.LogisticNormal(sg.zeros(3), sg.ones(3)).sample().shape
    shadergrad.Size([4])
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent[Normal]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal variables."""
        return self.base_dist.base_dist.scale
