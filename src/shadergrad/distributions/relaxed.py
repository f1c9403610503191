"""Continuous relaxations of classes and of single bits: Maddison, Mnih and Teh, 2017; Loaiza-Ganem and Cunningham, 2019."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from ..nn import functional as F
from ..tensor import Tensor, full_like, rand, tensor, where
from . import constraints
from .bernoulli_series import excess, log_ratio, spread
from .discrete import ByCategorical, ByOdds, Categorical
from .distribution import ExponentialFamily
from .scalar_transforms import ExpTransform, SigmoidTransform
from .transformed import TransformedDistribution
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, open_uniform


def _temperature(value: Any) -> Any:
    return value if isinstance(value, Tensor) else tensor(float(value))


class LogitRelaxedBernoulli(ByOdds):
    """Log odds of `RelaxedBernoulli`: (logits + logistic noise) / temperature.

    >>> sg.distributions.LogitRelaxedBernoulli(sg.tensor(0.5), probs=sg.tensor([0.2, 0.9])).rsample().shape
    shadergrad.Size([2])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"probs": 0, "logits": 0}
    _unbatched = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = _temperature(temperature)
        self._take(probs, logits)
        super().__init__(self._param.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        p, u = clamp_probs(self.probs.expand(*shape)), open_uniform(self._param, shape)
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - F.softplus(difference) * 2


class RelaxedBernoulli(TransformedDistribution):
    """Numbers from 0 to 1 that become 0 or 1 as the temperature falls, with gradients of probs or logits.

    >>> sg.distributions.RelaxedBernoulli(sg.tensor(0.5), probs=sg.tensor([0.2, 0.9])).rsample().shape
    shadergrad.Size([2])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Tensor:
        """The temperature, > 0."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs


class ExpRelaxedCategorical(ByCategorical):
    """Logarithms of `RelaxedOneHotCategorical`: the log softmax of (logits + Gumbel noise) / temperature.

    >>> sg.distributions.ExpRelaxedCategorical(sg.tensor(0.5), probs=sg.tensor([0.2, 0.8])).rsample().shape
    shadergrad.Size([2])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # of vectors whose exponentials add up to 1
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {}
    _unbatched = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical, self.temperature = Categorical(probs, logits), _temperature(temperature)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = open_uniform(self.logits, self._extended_shape(sample_shape))
        return ((self.logits - (-noise.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        score = (logits - value * self.temperature).log_softmax(-1).sum(-1)
        return score + full_like(self.temperature, float(k)).lgamma() + self.temperature.log() * (k - 1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities (*, k) that become one-hot as the temperature falls, with gradients of probs or logits (*, k).

    >>> sg.distributions.RelaxedOneHotCategorical(sg.tensor(0.5), probs=sg.tensor([0.2, 0.8])).rsample().shape
    shadergrad.Size([2])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    @property
    def temperature(self) -> Tensor:
        """The temperature, > 0."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        return self.base_dist.probs


class ContinuousBernoulli(ByOdds, ExponentialFamily):
    """Numbers from 0 to 1 with density proportional to probs ** x (1 - probs) ** (1 - x).

    lims: probabilities between which a share of the variable below a value is taken for that value. Other formulas need no limits: near 1/2
    they are Taylor series.

    >>> sg.distributions.ContinuousBernoulli(probs=0.5).mean
    tensor(0.5)
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0.0
    _batched: ClassVar[dict[str, int]] = {"probs": 0, "logits": 0}
    _unbatched = ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        self._lims = lims
        super().__init__(self._param.shape, (), validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, off 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of the constant by which the density is multiplied."""
        return log_ratio(self.logits)

    @property
    def mean(self) -> Tensor:
        return excess(self.logits) + 0.5

    @property
    def variance(self) -> Tensor:
        return spread(self.logits)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs
        return self.icdf(rand(*self._extended_shape(sample_shape), dtype=p.dtype, device=p.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return where(value <= 0, 0.0, where(value >= 1, 1.0, self._between(value, _share)))

    def icdf(self, value: Tensor) -> Tensor:
        return self._between(value, _quantile)

    def _between(self, value: Tensor, formula: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """A formula of a value and of log odds below 0: for others, of what is left to 1; the value itself within the limits."""
        t = self.logits
        low, high = (math.log(p) - math.log1p(-p) for p in self._lims)
        even = (t > low) & (t <= high)
        falls = t < 0
        found = formula(where(falls, value, 1.0 - value), where(even, -1.0, -t.abs()))
        return where(even, value, where(falls, found, 1.0 - found))

    def entropy(self) -> Tensor:
        t = self.logits
        return F.softplus(t) - self.mean * t - log_ratio(t)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (t,) = natural_params
        return F.softplus(t) - log_ratio(t)


def _share(value: Tensor, t: Tensor) -> Tensor:
    """The share of a continuous Bernoulli variable of log odds t < 0 that lies below a value."""
    return (value * t).expm1() / t.expm1()


def _quantile(share: Tensor, t: Tensor) -> Tensor:
    """The value below which a share lies."""
    return (share * t.expm1()).log1p() / t
