"""Methods that scan along an axis: cumulative extrema and log-sums, integrals by the trapezoidal rule."""

from __future__ import annotations

from typing import Any, Self

from ..dtypes import bool_, int32
from ..errors import ShapeError
from ..graph import build
from ..graph.node import make
from ..primitives import views as v
from .axes import check_axis
from .coercion import Number, floating
from .comparison import where
from .divide import DividedTensor
from .handle import wrap
from .joining import cat
from .reduce import ValuesAndIndices


class ScanTensor(DividedTensor):
    """Scans along an axis: cumulative extrema and log-sums, integrals by the trapezoidal rule."""

    __slots__ = ()

    def cummax(self, dim: int) -> ValuesAndIndices[Self]:
        """(values, indices): the cumulative maximum along `dim`, and its last position so far, int32.

        NaN counts as largest. By doubling (Hillis and Steele, "Data parallel algorithms", 1986).

        >>> values, indices = sg.tensor([1, 3, 2, 3]).cummax(0)
        >>> values, indices
        (tensor([1, 3, 3, 3]), tensor([0, 1, 1, 3]))
        """
        return _running_extremum(self, dim, "maximum", "cummax")

    def cummin(self, dim: int) -> ValuesAndIndices[Self]:
        """(values, indices): the cumulative minimum along `dim`, and its last position so far, int32.

        NaN counts as smallest.

        >>> values, indices = sg.tensor([3, 1, 2]).cummin(0)
        >>> values, indices
        (tensor([3, 1, 1]), tensor([0, 1, 1]))
        """
        return _running_extremum(self, dim, "minimum", "cummin")

    def logcumsumexp(self, dim: int) -> Self:
        """The logarithm of the cumulative sum of exp(x) along `dim`, without overflow. Integers give float32.

        >>> sg.tensor([0.0, 0.0, 0.0]).logcumsumexp(0)
        tensor([0.    , 0.6931, 1.0986])
        """
        x: Any = wrap(floating(self))
        axis = check_axis(dim, x.ndim, "logcumsumexp")
        if not x.numel() or not x.ndim:
            return x._copied()
        n = x.shape[axis]
        distance = 1
        while distance < n:
            before = _shifted(x, axis, distance, float("-inf"))
            x = _log_add(x, before)
            distance *= 2
        return x

    def trapezoid(self, x: ScanTensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Self:
        """The integral along `dim` by the trapezoidal rule: over the coordinates `x`, or with spacing `dx`, 1 by default.

        Raises ShapeError if `x` does not fit the axis, or both are given.

        >>> sg.tensor([1.0, 5.0, 10.0]).trapezoid()
        tensor(10.5)
        """
        return _trapezoids(self, x, dx, dim, "trapezoid").sum(dim)

    def cumulative_trapezoid(self, x: ScanTensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Self:
        """The cumulative integral along `dim` by the trapezoidal rule, one element shorter; arguments as in trapezoid.

        >>> sg.tensor([1.0, 5.0, 10.0]).cumulative_trapezoid()
        tensor([ 3. , 10.5])
        """
        return _trapezoids(self, x, dx, dim, "cumulative_trapezoid").cumsum(dim)


def _shifted(x: Any, axis: int, distance: int, fill: Number) -> Any:
    """x shifted by `distance` along an axis, with `fill` in front."""
    low = tuple(distance if a == axis else 0 for a in range(x.ndim))
    none = (0,) * x.ndim
    padded = make(v.Pad(low, none, none, fill), x._node)
    return wrap(make(v.Slice(none, tuple(x.shape), (1,) * x.ndim), padded))


def _log_add(a: Any, b: Any) -> Any:
    """logaddexp whose gradient is right where both are -inf."""
    top = a.detach().maximum(b.detach())
    base = where(top.isfinite(), top, 0.0)
    empty = top == float("-inf")
    total = (a - base).exp() + (b - base).exp()
    value = where(empty, 1.0, total).log() + base
    return where(empty, a, value)


def _running_extremum(x: Any, dim: int, word: str, what: str) -> ValuesAndIndices[Any]:
    axis = check_axis(dim, x.ndim, what)
    if not x.ndim:
        return ValuesAndIndices(x.clone(), wrap(build.constant(0, int32, x._node.device)))
    if not x.numel():
        return ValuesAndIndices(x._copied(), wrap(build.constant(0, int32, x._node.device, tuple(x.shape))))
    plain = x.detach().to(dtype=int32) if x.dtype is bool_ else x.detach()
    best = _doubled(plain, axis, word)
    hit = plain == best
    if plain.dtype.category == 2:
        hit = hit | plain.isnan()
    counter = wrap(build.iota_along(plain._node, axis, int32))
    indices = _doubled(where(hit, counter, 0), axis, "maximum")
    return ValuesAndIndices(x.gather(axis, indices), indices)


def _doubled(x: Any, axis: int, word: str) -> Any:
    """After the pass with distance d an element is the extremum of the last 2 d; before the first, the first repeats."""
    n, distance = x.shape[axis], 1
    while distance < n:
        first = x.narrow(axis, 0, 1).expand(*(min(distance, n) if a == axis else m for a, m in enumerate(x.shape)))
        before = cat([first, x.narrow(axis, 0, n - distance)], axis)
        x = getattr(x, word)(before)
        distance *= 2
    return x


def _trapezoids(y: Any, x: Any, dx: Any, dim: int, what: str) -> Any:
    axis = check_axis(dim, y.ndim, what)
    if not y.ndim:
        raise ShapeError(f"[{what}] a tensor of shape () has no axis.")
    if x is not None and dx is not None:
        raise ShapeError(f"{what}: x and dx are not taken together.")
    n = y.shape[axis]
    if y.dtype.category == 0:
        y = y.to(dtype=int32)
    if x is None:
        step: Any = 1.0 if dx is None else dx
        count = max(n - 1, 0)
        parts = y.narrow(axis, n - count, count) + y.narrow(axis, 0, count)
        return parts * step / 2.0
    if x.ndim == 1:
        if x.shape[0] != n:
            raise ShapeError(f"{what}: There must be one `x` value for each sample point")
        steps = x.diff().reshape(*(-1 if a == axis else 1 for a in range(y.ndim)))
    else:
        if x.shape[dim] != n:
            raise ShapeError(f"{what}: There must be one `x` value for each sample point")
        steps = x.diff(dim=dim)
    return (y.narrow(axis, 1, n - 1) + y.narrow(axis, 0, n - 1)) * steps / 2.0
