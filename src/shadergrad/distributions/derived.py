"""Composed distributions: independent ones as one, and transformed ones."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..graph.node import grad_mode
from ..tensor import Tensor
from .continuous import Normal
from .distribution import Distribution
from .transforms import ComposeTransform, ExpTransform, Transform


def sum_last(x: Tensor, axes: int) -> Tensor:
    """The sum over the last axes."""
    return x.sum(tuple(range(-axes, 0))) if axes else x


class Independent(Distribution):
    """The last reinterpreted_batch_ndims axes of a batch as axes of one event: their log_probs are added.

    >>> d = sg.distributions.Independent(sg.distributions.Normal(sg.zeros(3), 1.0), 1)
    >>> d.event_shape, d.log_prob(sg.zeros(3))
    (shadergrad.Size([3]), tensor(-2.7568))
    """

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        shape = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(shape):
            raise ShapeError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual {reinterpreted_batch_ndims} vs "
                f"{len(shape)}"
            )
        cut = len(shape) - reinterpreted_batch_ndims
        super().__init__(shape[:cut], (*shape[cut:], *base_distribution.event_shape), validate_args)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)


class TransformedDistribution(Distribution):
    """Draws of a distribution through transforms, one or a list.

    >>> T = sg.distributions
    >>> T.TransformedDistribution(T.Normal(0.0, 1.0), T.ExpTransform()).log_prob(sg.tensor(1.0))
    tensor(-0.9189)
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.base_dist = base_distribution
        self._transform = ComposeTransform(self.transforms)
        super().__init__(base_distribution.batch_shape, base_distribution.event_shape, validate_args)
        self.has_rsample = base_distribution.has_rsample

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with grad_mode(False):
            return self._transform(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._transform(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        total: Any = 0.0
        y = value
        events = len(self.event_shape)
        for transform in reversed(self.transforms):
            x = transform._inverse(y)
            total = total - sum_last(transform.log_abs_det_jacobian(x, y), events - transform.event_dim)
            y = x
        return total + self.base_dist.log_prob(y)

    def cdf(self, value: Tensor) -> Tensor:
        """Of increasing transforms."""
        return self.base_dist.cdf(self._transform._inverse(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Of increasing transforms."""
        return self._transform(self.base_dist.icdf(value))


class LogNormal(TransformedDistribution):
    """e to the power of a normal variable of mean loc and standard deviation scale.

    >>> sg.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.normal = Normal(loc, scale, validate_args)
        super().__init__(self.normal, ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.normal.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.normal.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.square()
        return squared.expm1() * (self.loc * 2 + squared).exp()

    def entropy(self) -> Tensor:
        return self.normal.entropy() + self.loc
