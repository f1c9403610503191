"""Distributions of two values and of classes, by probabilities or by logits.

probs are probabilities, logits their logarithms up to a constant (of one probability, its log odds); one of the two is given.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dtypes import FloatLimits
from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from ..tensor import Tensor, arange, common_shape, eye, full_like, rand, where
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import broadcast_all, broadcast_floats, lazy_property, logits_to_probs, open_uniform, probs_to_logits


def require_one(what: str, probs: Any, logits: Any) -> None:
    """Raises ArgumentError where both of probs and logits are given, or none."""
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{what}: Either `probs` or `logits` must be specified, but not both.")


class ByOdds(Distribution):
    """Base of distributions by the probability of one of two outcomes, `probs`, or its log odds, `logits`."""

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Sets probs or logits, broadcast with other parameters, which it gives."""
        require_one(type(self).__name__, probs, logits)
        given, *rest = broadcast_floats(logits if probs is None else probs, *others)
        setattr(self, "logits" if probs is None else "probs", given)
        return tuple(rest)

    @property
    def _param(self) -> Tensor:
        return next(v for n, v in self.__dict__.items() if n in ("probs", "logits"))  # computed attributes come later

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)


class Bernoulli(ByOdds, ExponentialFamily):
    """1 with a probability, else 0. Raises ArgumentError unless one of probs and logits is given.

    >>> sg.distributions.Bernoulli(probs=sg.tensor(0.25)).log_prob(sg.tensor(1.0)).exp()
    tensor(0.25)
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0.0
    _batched: ClassVar[dict[str, int]] = {"probs": 0, "logits": 0}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        p = self.probs
        return where(p == 0.5, math.nan, (p >= 0.5).to(p.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs.detach()
        drawn = rand(*self._extended_shape(sample_shape), dtype=p.dtype, device=p.device)
        return (drawn < p).to(dtype=p.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, target = broadcast_all(self.logits, value.to(dtype=self._param.dtype))
        return -F.binary_cross_entropy_with_logits(logits, target, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return enumerated(2, self._param, self.batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.probs.logit(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp().log1p()


def enumerated(count: int, like: Tensor, batch_shape: Any, expand: bool) -> Tensor:
    """0 to count - 1 along a first axis before a batch's, of the dtype of `like`."""
    values = arange(count, device=like.device).to(dtype=like.dtype).reshape(count, *[1] * len(batch_shape))
    return values.expand(count, *batch_shape) if expand else values


class Categorical(Distribution):
    """A class from 0 to k - 1, by probabilities or logits (*, k); probabilities are divided by their sum.

    Raises ArgumentError unless one of probs and logits is given, ShapeError where it has no axis.

    >>> sg.distributions.Categorical(probs=sg.tensor([1.0, 3.0])).probs
    tensor([0.25, 0.75])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _batched: ClassVar[dict[str, int]] = {"probs": 1, "logits": 1}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        require_one("Categorical", probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        if given.ndim < 1:
            raise ShapeError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        super().__init__(given.shape[:-1], (), validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return next(v for n, v in self.__dict__.items() if n in ("probs", "logits"))  # computed attributes come later

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._param.shape

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The constraint of every value."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return full_like(self.probs[..., 0], math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return full_like(self.probs[..., 0], math.nan)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        scores = (self.logits if "logits" in self.__dict__ else self.probs.log()).detach()
        noise = open_uniform(scores, (*self._extended_shape(sample_shape), scores.shape[-1]))
        return (scores - (-noise.log()).log()).argmax(-1)  # Gumbel's trick: -inf is never drawn

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        shape = common_shape(tuple(self.batch_shape), tuple(value.shape))
        positions = value.to(dtype="int32" if not value.dtype.is_position else value.dtype).expand(*shape)
        return self.logits.expand(*shape, self._num_events).gather(-1, positions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        floor = float(FloatLimits.of(self.logits.dtype).min)
        return -(self.logits.clamp(min=floor) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._num_events
        values = arange(count, device=self._param.device).reshape(count, *[1] * len(self.batch_shape))
        return values.expand(count, *self.batch_shape) if expand else values


class ByCategorical(Distribution):
    """Base of distributions whose parameters are those of a categorical one."""

    _categorical: Categorical
    _batched: ClassVar[dict[str, int]] = {}
    _batched_parts: ClassVar[dict[str, tuple[int, ...]]] = {"_categorical": ()}

    @property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape


class OneHotCategorical(ByCategorical):
    """A class as a vector (*, k) of zeros and a one; parameters as of Categorical.

    >>> sg.distributions.OneHotCategorical(probs=sg.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self._categorical.mode, self.event_shape[0]).to(dtype=self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample(sample_shape)
        return F.one_hot(drawn, self.event_shape[0]).to(dtype=self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(n, *[1] * len(self.batch_shape), n)
        return values.expand(n, *self.batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws have the gradients of the probabilities (Bengio et al., 2013).

    >>> p = sg.tensor([0.5, 0.5], requires_grad=True)
    >>> sg.distributions.OneHotCategoricalStraightThrough(probs=p).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
