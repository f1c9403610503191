"""Transforms of parts of an axis, joined; and the transform by a distribution's cdf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError
from ..tensor import Tensor, cat, stack
from . import constraints
from .distribution import Distribution
from .transform import Transform
from .utils import sum_rightmost


class _Joined(Transform):
    """Base of transforms that apply others to parts along an axis."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        for part in tseq:
            if not isinstance(part, Transform):
                raise ArgumentTypeError(f"{type(self).__name__} takes transforms, not {type(part).__name__}.")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _require(self, x: Tensor, length: int) -> None:
        if not -x.ndim <= self.dim < x.ndim:
            raise AxisError(f"{type(self).__name__}: dim {self.dim} out of range for tensor with {x.ndim} dimensions")
        if x.shape[self.dim] != length:
            raise ShapeError(f"{type(self).__name__}: x.size({self.dim}) = {x.shape[self.dim]} must equal {length}")


class CatTransform(_Joined):
    """Transforms of consecutive parts of an axis, of these lengths (1 each by default).

    Raises ArgumentError where there are not as many lengths as transforms, ShapeError for an axis of another length.

    >>> D = sg.distributions
    >>> D.CatTransform([D.ExpTransform(), D.identity_transform], lengths=[1, 2])(sg.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ArgumentError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The length of the axis."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> list[Tensor]:
        self._require(x, self.length)
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        event_dim = self.event_dim
        found = [
            sum_rightmost(t.log_abs_det_jacobian(a, b), event_dim - t.event_dim)
            for t, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        ]
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + event_dim
        if dim < 0:  # an axis of the batch
            return cat(found, dim)
        total = found[0]
        for term in found[1:]:
            total = total + term
        return total

    @constraints.dependent_property
    def domain(self) -> Any:
        """The constraint of x."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The constraint of y."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """Transforms of the positions along an axis. Raises ShapeError for an axis of another length.

    >>> D = sg.distributions
    >>> D.StackTransform([D.ExpTransform(), D.identity_transform], dim=1)(sg.zeros(1, 2))
    tensor([[1., 0.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Tensor) -> list[Tensor]:
        self._require(x, len(self.transforms))
        return list(x.unbind(self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return stack([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return stack([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The constraint of x."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The constraint of y."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """A distribution's cdf, from values to (0, 1); its inverse is icdf.

    >>> D = sg.distributions
    >>> D.CumulativeDistributionTransform(D.Normal(0.0, 1.0))(sg.tensor([0.0]))
    tensor([0.5])
    """

    bijective, sign = True, 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
