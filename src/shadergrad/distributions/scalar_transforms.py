"""Transforms of single numbers: elementwise functions with their inverses and derivatives."""

from __future__ import annotations

import math
from typing import Any

from ..nn import functional as F
from ..tensor import Size, Tensor, common_shape, full_like
from . import constraints
from .transform import Transform
from .utils import broadcast_floats, epsilon, is_number, tiny


class ExpTransform(Transform):
    """e ** x.

    >>> sg.distributions.ExpTransform()(sg.tensor([0.0]))
    tensor([1.])
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x ** exponent, of positive numbers; exponent: a number or a tensor.

    >>> sg.distributions.PowerTransform(2.0)(sg.tensor([3.0]))
    tensor([9.])
    """

    domain, codomain = constraints.positive, constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_floats(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Size:
        return Size(common_shape(tuple(shape), tuple(self.exponent.shape)))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """1 / (1 + e ** -x), kept off 0 and 1.

    >>> sg.distributions.SigmoidTransform()(sg.tensor([0.0]))
    tensor([0.5])
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigmoidTransform)

    def _call(self, x: Tensor) -> Tensor:
        return clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        inside = y.clamp(tiny(y), 1.0 - epsilon(y))
        return inside.log() - (-inside).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


def clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, above 0 and below 1."""
    return x.sigmoid().clamp(tiny(x), 1.0 - epsilon(x))


class SoftplusTransform(Transform):
    """log(1 + e ** x).

    >>> sg.distributions.SoftplusTransform()(sg.tensor([0.0]))
    tensor([0.6931])
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftplusTransform)

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(Transform):
    """tanh(x). Its inverse is infinite at 1 and -1, which cache_size=1 avoids for values that it computed.

    >>> sg.distributions.TanhTransform()(sg.tensor([0.0]))
    tensor([0.])
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TanhTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (math.log(2.0) - x - F.softplus(x * -2)) * 2.0  # log(1 - tanh(x)^2), exact for large x


class AbsTransform(Transform):
    """|x|. It has no inverse; inv gives the positive number.

    >>> sg.distributions.AbsTransform()(sg.tensor([-1.0]))
    tensor([1.])
    """

    domain, codomain = constraints.real, constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale x; both are numbers or tensors. event_dim: how many axes make one value.

    >>> sg.distributions.AffineTransform(1.0, 2.0)(sg.tensor([3.0]))
    tensor([7.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The constraint of x."""
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The constraint of y."""
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if is_number(self.scale):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shape = tuple(x.shape)
        if is_number(self.scale):
            result = full_like(x, math.log(abs(self.scale)))
        else:
            result = self.scale.abs().log().expand(*common_shape(tuple(self.scale.shape), shape))
        if self.event_dim:
            result = result.sum(tuple(range(-self.event_dim, 0)))
        return result

    def forward_shape(self, shape: Any) -> Size:
        shapes = [tuple(p.shape) for p in (self.loc, self.scale) if isinstance(p, Tensor)]
        return Size(common_shape(tuple(shape), *shapes))

    inverse_shape = forward_shape


def _equal(a: Any, b: Any) -> bool:
    """Whether two parameters, numbers or tensors, are equal everywhere. Reads tensors."""
    same = a == b
    return bool(same.all().item()) if isinstance(same, Tensor) else bool(same)
