"""Gamma, beta and Dirichlet distributions."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ShapeError
from ..nn import functional as F
from ..special import digamma, gammainc
from ..tensor import Tensor, as_tensor, stack, where
from . import constraints
from .distribution import ExponentialFamily
from .gamma_sampling import standard_gamma
from .utils import broadcast_floats, tiny


class Gamma(ExponentialFamily):
    """The gamma distribution of a shape, concentration > 0, and a rate > 0. Draws have gradients of both.

    >>> sg.distributions.Gamma(2.0, 4.0).mean
    tensor(0.5)
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0.0
    _batched: ClassVar[dict[str, int]] = {"concentration": 0, "rate": 0}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_floats(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = standard_gamma(self.concentration.expand(*self._extended_shape(sample_shape)))
        return (drawn / self.rate).clamp(min=tiny(drawn))

    def log_prob(self, value: Tensor) -> Tensor:
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a.xlogy(b) + (a - 1).xlogy(value) - b * value - a.lgamma()

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * digamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return gammainc(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The sum of df squared standard normal variables; df > 0.

    >>> sg.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(df * 0.5, 0.5, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Probabilities (*, k) that add up to 1: density of product of x ** (concentration - 1), concentration (*, k) > 0.

    Raises ShapeError for a concentration without an axis.

    >>> sg.distributions.Dirichlet(sg.tensor([1.0, 3.0])).mean
    tensor([0.25, 0.75])
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ShapeError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        found = above / above.sum(-1, keepdim=True)
        low = (self.concentration < 1).all(-1, keepdim=True)  # the density is infinite at every corner: name one
        corner = F.one_hot(above.argmax(-1), self.concentration.shape[-1]).to(found.dtype)
        return where(low, corner, found)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = standard_gamma(self.concentration.expand(*self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        spread = ((a - 1.0) * digamma(a)).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * digamma(total) - spread

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """Numbers from 0 to 1: density of x ** (concentration1 - 1) (1 - x) ** (concentration0 - 1), both > 0.

    >>> sg.distributions.Beta(1.0, 3.0).mean
    tensor(0.25)
    """

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {}
    _batched_parts: ClassVar[dict[str, tuple[int, ...]]] = {"_dirichlet": ()}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = broadcast_floats(concentration1, concentration0)
        self._dirichlet = Dirichlet(stack(list(both), -1), validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, (), validate_args)

    @property
    def concentration1(self) -> Tensor:
        """The exponent of x, plus 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The exponent of 1 - x, plus 1."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        whole = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return (a - 1.0).xlogy(value) + (b - 1.0).xlogy(1.0 - value) + whole

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
