"""Mixtures of distributions of one class."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ArgumentError, ShapeError
from ..graph.node import grad_mode
from ..tensor import Size, Tensor
from . import constraints
from .discrete import Categorical
from .distribution import Distribution
from .utils import joined_shape, overridable


class MixtureSameFamily(Distribution):
    """A draw of one of n components, which is drawn by the categorical mixture_distribution (*, n).

    component_distribution: the last axis of its batch (*, n) are the components. Raises ArgumentError for other distributions,
    ShapeError where the two do not fit.

    >>> D = sg.distributions
    >>> d = D.MixtureSameFamily(D.Categorical(sg.ones(2)), D.Normal(sg.tensor([-1.0, 3.0]), 1.0))
    >>> d.mean
    tensor(1.)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ArgumentError(
                "The Mixture distribution needs to be an instance of shadergrad.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ArgumentError(
                "The Component distribution needs to be an instance of shadergrad.distributions.Distribution"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        mixed, whole = mixture_distribution.batch_shape, component_distribution.batch_shape
        if not whole:
            raise ShapeError("`component_distribution.batch_shape` has no axis of components.")
        for a, b in zip(reversed(mixed), reversed(whole[:-1]), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ShapeError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with `component_distribution.batch_shape`"
                    f"({Size(whole[:-1])})"
                )
        count = mixture_distribution.param_shape[-1]
        if count != whole[-1]:
            raise ShapeError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` ({whole[-1]})"
            )
        self._num_component, self._event_ndims = count, len(component_distribution.event_shape)
        super().__init__(whole[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        shape = Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(joined_shape(shape, (self._num_component,)))
        new._mixture_distribution = self._mixture_distribution.expand(shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._as_batch(new, shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """The constraint of every value."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    @overridable
    def has_rsample(self) -> bool:  # type: ignore[override]
        return False

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _weights(self) -> Tensor:
        """The probabilities, with the event's axes behind."""
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        weights, parts = self._weights(), self.component_distribution
        within = (weights * parts.variance).sum(-1 - self._event_ndims)
        between = (weights * (parts.mean - self._pad(self.mean)).square()).sum(-1 - self._event_ndims)
        return within + between

    def cdf(self, value: Tensor) -> Tensor:
        return (self.component_distribution.cdf(self._pad(value)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        found = self.component_distribution.log_prob(self._pad(value))
        return (found + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with grad_mode(False):
            shape = joined_shape(sample_shape, self._batch_shape)
            drawn = self.component_distribution.sample(sample_shape)
            chosen = self.mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            index = chosen.reshape(*shape, 1, *[1] * self._event_ndims).expand(*shape, 1, *self._event_shape)
            return drawn.gather(len(shape), index).squeeze(len(shape)).detach()

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
