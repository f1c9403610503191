"""Distributions made of one other: axes of a batch as axes of an event, and draws through transforms."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..graph.node import grad_mode
from ..tensor import Size, Tensor
from . import constraints
from .distribution import Distribution
from .transform import ComposeTransform, Transform
from .utils import joined_shape, overridable, sum_rightmost

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """The last reinterpreted_batch_ndims axes of a batch as axes of one event: their log_probs are added.

    Raises ShapeError where the batch has fewer axes.

    >>> d = sg.distributions.Independent(sg.distributions.Normal(sg.zeros(3), 1.0), 1)
    >>> d.event_shape, d.log_prob(sg.zeros(3))
    (shadergrad.Size([3]), tensor(-2.7568))
    """

    arg_constraints: ClassVar[Any] = {}
    base_dist: D

    def __init__(self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        if not isinstance(base_distribution, Distribution):
            raise ArgumentTypeError(f"Independent takes a distribution, not {type(base_distribution).__name__}.")
        shape = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(shape):
            raise ShapeError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(shape)}"
            )
        cut = len(shape) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], (*shape[cut:], *base_distribution.event_shape), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        shape = Size(batch_shape)
        new.base_dist = self.base_dist.expand(joined_shape(shape, self.event_shape[: self.reinterpreted_batch_ndims]))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._as_batch(new, shape)

    @overridable
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @overridable
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The constraint of every value."""
        found = self.base_dist.support
        return (
            constraints.independent(found, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else found
        )

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """Draws of a distribution through transforms, one or a list.

    The event has the axes of the base's and those that transforms couple. cdf and icdf are of monotone transforms of numbers.
    Raises ArgumentError for anything but a transform, and where the base has fewer axes than the transforms need.

    >>> T = sg.distributions
    >>> T.TransformedDistribution(T.Normal(0.0, 1.0), T.ExpTransform()).log_prob(sg.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms: list[Transform] = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ArgumentError(f"transforms must be a Transform or a list of Transforms, but was {transforms!r}")
        base_shape = joined_shape(base_distribution.batch_shape, base_distribution.event_shape)
        base_events = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        domain, codomain = transform.domain.event_dim, transform.codomain.event_dim
        if len(base_shape) < domain:
            raise ShapeError(
                f"base_distribution needs to have shape with size at least {domain}, but got {base_shape}."
            )
        shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(shape)
        if base_shape != expanded:
            base_distribution = base_distribution.expand(Size(expanded[: len(expanded) - base_events]))
        if domain > base_events:
            base_distribution = Independent(base_distribution, domain - base_events)
        self.base_dist = base_distribution
        events = max(codomain, base_events + codomain - domain)
        cut = len(shape) - events
        super().__init__(shape[:cut], shape[cut:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch = Size(batch_shape)
        shape = joined_shape(batch, self.event_shape)
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(Size(shape[: len(shape) - len(self.base_dist.event_shape)]))
        new.transforms = self.transforms
        return self._as_batch(new, batch)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The constraint of every value."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self.event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    @overridable
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with grad_mode(False):
            return self._forward(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        events = len(self.event_shape)
        total: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), events - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """1 - value where the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
