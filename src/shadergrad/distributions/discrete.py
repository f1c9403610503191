"""Distributions of whole numbers and classes. probs are probabilities, logits their logarithms up to a constant (of one
probability, its log odds); one of the two is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from ..tensor import Tensor, arange, common_shape, rand, where
from .continuous import uniform_like
from .distribution import Distribution, broadcast_all, check_event


def _one_of(what: str, probs: Any, logits: Any) -> bool:
    """Whether it is the probabilities. Raises ArgumentError for both and for none."""
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{what}: Either `probs` or `logits` must be specified, but not both.")
    return logits is None


def clamped(probs: Tensor) -> Tensor:
    """Clamped to the open interval, so that logarithms are finite."""
    eps = float(np.finfo(probs.dtype.numpy).eps)
    return probs.clamp(eps, 1 - eps)


class Bernoulli(Distribution):
    """1 with a probability, else 0.

    >>> sg.distributions.Bernoulli(probs=sg.tensor(0.25)).log_prob(sg.tensor(1.0)).exp()
    tensor(0.25)
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._by_probs = _one_of("Bernoulli", probs, logits)
        (given,) = broadcast_all(probs if self._by_probs else logits)
        self._given = given
        super().__init__(given.shape, (), validate_args)
        if self._by_probs:
            self._require("probs", given, (given >= 0) & (given <= 1), "from 0 to 1")

    def _parameters(self) -> dict[str, int]:
        return {"_given": 0}

    @property
    def probs(self) -> Tensor:
        """The probabilities of 1."""
        return self._given if self._by_probs else self._given.sigmoid()

    @property
    def logits(self) -> Tensor:
        """The log odds of 1."""
        if not self._by_probs:
            return self._given
        p = clamped(self._given)
        return p.log() - (-p).log1p()

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs.detach()
        drawn = rand(*self._shape(sample_shape), dtype=p.dtype, device=p.device)
        return (drawn < p).to(dtype=p.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._require_value(value, (value == 0) | (value == 1), "0 or 1")
        shape = common_shape(tuple(self._given.shape), tuple(value.shape))
        logits, target = self.logits.expand(*shape), value.to(dtype=self._given.dtype).expand(*shape)
        return -F.binary_cross_entropy_with_logits(logits, target, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first axis."""
        values = arange(2, device=self._given.device).to(dtype=self._given.dtype)
        values = values.reshape(2, *[1] * len(self.batch_shape))
        return values.expand(2, *self.batch_shape) if expand else values


class Categorical(Distribution):
    """A class from 0 to k - 1, by probabilities or logits (*, k); probabilities are divided by their sum.

    >>> sg.distributions.Categorical(probs=sg.tensor([1.0, 3.0])).probs
    tensor([0.25, 0.75])
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        by_probs = _one_of("Categorical", probs, logits)
        given = probs if by_probs else logits
        if given.ndim < 1:
            raise ShapeError("`probs` and `logits` parameters must be at least one-dimensional.")
        super().__init__(given.shape[:-1], (), validate_args)
        if by_probs:
            self._require("probs", given, given >= 0, "at least 0")
            self.probs = given / given.sum(-1, keepdim=True)
            self.logits = clamped(self.probs).log()
        else:
            self.logits = given - given.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)

    def _parameters(self) -> dict[str, int]:
        return {"probs": 1, "logits": 1}

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        scores = self.logits.detach()
        noise = uniform_like(scores, (*self._shape(sample_shape), scores.shape[-1]))
        return (scores - (-noise.log()).log()).argmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        classes = self.logits.shape[-1]
        self._require_value(value, (value >= 0) & (value < classes), f"a class below {classes}")
        shape = common_shape(tuple(self.batch_shape), tuple(value.shape))
        positions = value.to(dtype="int32" if not value.dtype.is_position else value.dtype).expand(*shape)
        return self.logits.expand(*shape, classes).gather(-1, positions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        floor = float(np.finfo(self.logits.dtype.numpy).min)
        return -(self.logits.clamp(min=floor) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes along a new first axis."""
        count = self.logits.shape[-1]
        values = arange(count, device=self.logits.device).reshape(count, *[1] * len(self.batch_shape))
        return values.expand(count, *self.batch_shape) if expand else values


class OneHotCategorical(Distribution):
    """A class as a vector (*, k) of zeros and a one; parameters as of Categorical.

    >>> sg.distributions.OneHotCategorical(probs=sg.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.logits.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample(sample_shape).unsqueeze(-1)
        classes = arange(self.event_shape[0], device=drawn.device)
        return where(drawn == classes, 1.0, self.probs.detach() * 0)

    def log_prob(self, value: Tensor) -> Tensor:
        check_event("OneHotCategorical", value, tuple(self.event_shape))
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()
