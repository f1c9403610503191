"""Invertible functions, for transformed distributions."""

from __future__ import annotations

import math
from typing import Any

from ..nn import functional as F
from ..tensor import Tensor


class Transform:
    """Base: y = transform(x), x = transform.inv(y); log_abs_det_jacobian(x, y) is log |dy / dx|, of each element.

    >>> t = sg.distributions.ExpTransform()
    >>> t.inv(t(sg.tensor([2.0])))
    tensor([2.])
    """

    event_dim = 0

    def __call__(self, x: Tensor) -> Tensor:
        return self._call(x)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|."""
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)


class _Inverse(Transform):
    def __init__(self, of: Transform) -> None:
        self._of = of

    def _call(self, x: Tensor) -> Tensor:
        return self._of._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._of._call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    @property
    def inv(self) -> Transform:
        return self._of


class AffineTransform(Transform):
    """loc + scale x.

    >>> sg.distributions.AffineTransform(1.0, 2.0)(sg.tensor([3.0]))
    tensor([7.])
    """

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        size = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(abs(self.scale))
        found = x * 0 + size
        return found.sum(tuple(range(-self.event_dim, 0))) if self.event_dim else found


class ExpTransform(Transform):
    """e ** x.

    >>> sg.distributions.ExpTransform()(sg.tensor([0.0]))
    tensor([1.])
    """

    def __init__(self, cache_size: int = 0) -> None:
        pass

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class TanhTransform(Transform):
    """tanh(x).

    >>> sg.distributions.TanhTransform()(sg.tensor([0.0]))
    tensor([0.])
    """

    def __init__(self, cache_size: int = 0) -> None:
        pass

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (math.log(2.0) - x - F.softplus(x * -2)) * 2.0


class SigmoidTransform(Transform):
    """1 / (1 + e ** -x).

    >>> sg.distributions.SigmoidTransform()(sg.tensor([0.0]))
    tensor([0.5])
    """

    def __init__(self, cache_size: int = 0) -> None:
        pass

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class ComposeTransform(Transform):
    """One transform after the other.

    >>> both = sg.distributions.ComposeTransform([sg.distributions.ExpTransform(), sg.distributions.AffineTransform(1.0, 2.0)])
    >>> both(sg.tensor([0.0]))
    tensor([3.])
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        self.parts = parts
        self.event_dim = max((p.event_dim for p in parts), default=0)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Any = 0.0
        for part in self.parts:
            after = part(x)
            total = total + part.log_abs_det_jacobian(x, after)
            x = after
        return total
