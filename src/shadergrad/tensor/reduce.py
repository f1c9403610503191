"""Methods that reduce axes: sums, means, extrema, variances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

from ..dtypes import bool_, float32, int32, int64, parse_dtype
from ..errors import AxisError, DTypeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import Node, make
from ..graph.primitive import Primitive
from ..plan import IN_TOTAL
from ..primitives import elementwise as e
from ..primitives import views as v
from ..primitives.complex import ImaginaryPart, RealPart
from ..primitives.indexing import Gather, InRange
from ..primitives.reduce import Reduce, ReduceMax, ReduceMin, ReduceProd, ReduceSum
from .axes import check_axes, check_axis
from .base import TensorBase
from .coercion import binary
from .comparison import _truth, where
from .handle import wrap
from .memory import MemoryTensor
from .placement import check_storable

T = TypeVar("T", bound="ReduceTensor")
V = TypeVar("V")


class ValuesAndIndices(NamedTuple, Generic[V]):
    """The result of a reduction with positions; unpacks as (values, indices)."""

    values: V
    indices: V


class MinAndMax(NamedTuple, Generic[V]):
    """The result of aminmax."""

    min: V
    max: V


class ReduceTensor(MemoryTensor):
    """Reductions over axes: sums, means, extrema, variances."""

    __slots__ = ()

    def sum(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """The sum over `dim` (an axis, several, or None for all); bools and integers of 8 and 16 bits sum to int32. A sum beyond int32 raises
        DTypeError when it is computed.

        Shape: without those axes, or with size 1 in their place if keepdim. dtype: elements are cast to it first.

        >>> sg.tensor([[1, 2], [3, 4]]).sum(0)
        tensor([4, 6])
        >>> sg.tensor([[1, 2], [3, 4]]).sum()
        tensor(10)
        """
        node = self._node
        if dtype is not None:
            node = _cast(self, dtype)
        elif node.dtype.is_small:
            node = cast(node, int32)
        return _totals(node, lambda x: _reduce(ReduceSum, x, dim, keepdim, "sum"))

    def mean(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """The mean over `dim` (an axis, several, or None for all), NaN for no elements. Shape: as in sum.

        Raises DTypeError for integers and bools, unless a floating `dtype` is given.

        >>> sg.tensor([[1.0, 2.0], [3.0, 6.0]]).mean(1)
        tensor([1.5, 4.5])
        """
        node = self._node if dtype is None else _cast(self, dtype)
        if node.dtype.category < 2:
            raise DTypeError(
                f"mean(): could not infer output dtype. Input dtype must be a floating point dtype. Got: {self.dtype.name}. Hint: .float() first."
            )
        count = math.prod(node.shape[a] for a in check_axes(dim, node.ndim, "mean"))
        total = _reduce(ReduceSum, node, dim, keepdim, "mean")
        return total * (1.0 / count) if count else total / 0.0

    def amax(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """The maximum over `dim` (an axis, several, or None for all); ties share the gradient, NaN propagates.

        Raises ShapeError over an axis of size 0.

        >>> sg.tensor([[1, 5], [7, 3]]).amax(1)
        tensor([5, 7])
        """
        return _extremum(ReduceMax, self, dim, keepdim, "amax")

    def amin(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """The minimum over `dim` (an axis, several, or None for all); ties share the gradient, NaN propagates.

        Raises ShapeError over an axis of size 0.

        >>> sg.tensor([[1, 5], [7, 3]]).amin(1)
        tensor([1, 3])
        """
        return _extremum(ReduceMin, self, dim, keepdim, "amin")

    @overload
    def max(self, dim: None = None, keepdim: bool = False) -> Self: ...

    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesAndIndices[Self]: ...

    @overload
    def max(self, dim: ReduceTensor) -> Self: ...

    def max(self, dim: int | ReduceTensor | None = None, keepdim: bool = False) -> Self | ValuesAndIndices[Self]:
        """max(): the largest of all. max(dim): (values, indices) along an axis. max(other): the larger of each pair, as
        maximum.

        Of ties, max(dim) gives the position of the first (PyTorch: any), int32, and the gradient goes there; max()
        shares it. Raises ShapeError over an axis of size 0.

        >>> values, indices = sg.tensor([[1, 5], [7, 3]]).max(1)
        >>> values, indices
        (tensor([5, 7]), tensor([1, 0]))
        """
        return _max_or_min(self, dim, keepdim, ReduceMax, e.Maximum())

    @overload
    def min(self, dim: None = None, keepdim: bool = False) -> Self: ...

    @overload
    def min(self, dim: int, keepdim: bool = False) -> ValuesAndIndices[Self]: ...

    @overload
    def min(self, dim: ReduceTensor) -> Self: ...

    def min(self, dim: int | ReduceTensor | None = None, keepdim: bool = False) -> Self | ValuesAndIndices[Self]:
        """min(): the smallest of all. min(dim): (values, indices) along an axis. min(other): the smaller of each pair,
        as minimum.

        Of ties, min(dim) gives the position of the first (PyTorch: any), int32, and the gradient goes there; min()
        shares it. Raises ShapeError over an axis of size 0.

        >>> sg.tensor([4, 2, 3]).min()
        tensor(2)
        """
        return _max_or_min(self, dim, keepdim, ReduceMin, e.Minimum())

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> MinAndMax[Self]:
        """(min, max) of all, or along `dim`; ties share the gradient. Raises ShapeError over an axis of size 0.

        >>> low, high = sg.tensor([3, 1, 2]).aminmax()
        >>> low, high
        (tensor(1), tensor(3))
        """
        return MinAndMax(self.amin(dim, keepdim), self.amax(dim, keepdim))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """The position of the maximum, int32: along `dim`, or in row-major order without it. NaN counts as largest.

        The first of ties (PyTorch: any). Raises ShapeError over an axis of size 0.

        >>> sg.tensor([[1, 5], [7, 3]]).argmax(1)
        tensor([1, 0])
        """
        return _arg(ReduceMax, self, dim, keepdim, "argmax")

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """The position of the minimum, int32: along `dim`, or in row-major order without it. NaN counts as smallest.

        The first of ties (PyTorch: any). Raises ShapeError over an axis of size 0.

        >>> sg.tensor([[1, 5], [7, 3]]).argmin()
        tensor(0)
        """
        return _arg(ReduceMin, self, dim, keepdim, "argmin")

    def any(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """Whether any element over `dim` (an axis, several, or None for all) is not 0, bool; False for no elements.

        >>> sg.tensor([[0, 2], [0, 0]]).any(1)
        tensor([ True, False])
        """
        return (
            wrap(make(e.Cast(bool_), _reduce(ReduceMax, cast(_truth(self), int32), dim, keepdim, "any")._node))
            if self.numel()
            else _empty_logic(self, dim, keepdim, False)
        )

    def all(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """Whether all elements over `dim` (an axis, several, or None for all) are not 0, bool; True for no elements.

        >>> sg.tensor([[1, 2], [0, 3]]).all(1)
        tensor([ True, False])
        """
        return (
            wrap(make(e.Cast(bool_), _reduce(ReduceMin, cast(_truth(self), int32), dim, keepdim, "all")._node))
            if self.numel()
            else _empty_logic(self, dim, keepdim, True)
        )

    def var(
        self,
        dim: bool | int | Sequence[int] | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """The variance over `dim` (an axis, several, or None for all), divided by n - correction; for complex numbers the sum of both
        parts' variances. Raises DTypeError for integers.

        correction: by default 1, or 0 with unbiased=False or var(False). Computed in two passes, the mean first, with a correction for the
        mean's rounding error (Chan, Golub, LeVeque, 1983). Shape: as in sum.

        >>> sg.tensor([1.0, 2.0, 3.0]).var()
        tensor(1.)
        >>> sg.tensor([1.0, 3.0]).var(correction=0)
        tensor(1.)
        """
        if isinstance(dim, bool):  # var(unbiased)
            dim, unbiased = None, dim
        correction = (1 if unbiased else 0) if correction is None else correction
        if self.dtype.is_complex:
            parts: list[Any] = [wrap(make(part(), self._node)) for part in (RealPart, ImaginaryPart)]
            return parts[0].var(dim, keepdim=keepdim, correction=correction) + parts[1].var(
                dim, keepdim=keepdim, correction=correction
            )
        axes = check_axes(dim, self.ndim, "var")
        count = math.prod(self.shape[a] for a in axes)
        centred = self - self.mean(axes, keepdim=True) if axes else self - self
        total = (centred * centred).sum(axes or None, keepdim=keepdim)
        if count > 1 and axes:  # the mean is rounded, for large numbers by more than their differences
            rounding = centred.sum(axes, keepdim=keepdim)
            excess = rounding * rounding * (1.0 / count)
            total = total - excess.minimum(total)  # not below 0: of equal elements the excess may be larger, rounded
        rest = count - correction
        return total / max(rest, 0) if rest <= 0 else total * (1.0 / rest)

    def std(
        self,
        dim: bool | int | Sequence[int] | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """The standard deviation, the square root of `var`, with the same arguments; its gradient at 0 is 0.

        >>> sg.tensor([1.0, 5.0]).std(correction=0)
        tensor(2.)
        """
        return _power(self.var(dim, unbiased, keepdim, correction=correction), 0.5)

    def var_mean(
        self,
        dim: bool | int | Sequence[int] | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Self, Self]:
        """(variance, mean), with the arguments of `var`.

        >>> variance, mean = sg.tensor([1.0, 3.0]).var_mean(correction=0)
        >>> variance, mean
        (tensor(1.), tensor(2.))
        """
        mean = self.mean(None if isinstance(dim, bool) else dim, keepdim)
        return self.var(dim, unbiased, keepdim, correction=correction), mean

    def std_mean(
        self,
        dim: bool | int | Sequence[int] | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Self, Self]:
        """(standard deviation, mean), with the arguments of `var`.

        >>> deviation, mean = sg.tensor([1.0, 5.0]).std_mean(correction=0)
        >>> deviation, mean
        (tensor(2.), tensor(3.))
        """
        mean = self.mean(None if isinstance(dim, bool) else dim, keepdim)
        return self.std(dim, unbiased, keepdim, correction=correction), mean

    def prod(self, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """The product over `dim` (an axis, several, or None for all); bools and integers of 8 and 16 bits give int32, no elements 1. Shape: as in
        sum.

        >>> sg.tensor([[2, 3], [4, 5]]).prod(1)
        tensor([ 6, 20])
        """
        if dtype is not None and parse_dtype(dtype) is bool_:
            return self.to(dtype=bool_).all(dim, keepdim)
        return _totals(_summable(self, dtype), lambda x: _reduce(ReduceProd, x, dim, keepdim, "prod"))

    def count_nonzero(self, dim: int | Sequence[int] | None = None) -> Self:
        """The number of non-zero elements over `dim` (an axis, several, or None for all), int32.

        >>> sg.tensor([[0, 1], [2, 3]]).count_nonzero(1)
        tensor([1, 2])
        """
        return (self.detach() != 0).sum(dim)

    def nansum(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """The sum over `dim` (an axis, several, or None for all) with NaN as 0.

        >>> sg.tensor([1.0, math.nan, 3.0]).nansum()
        tensor(4.)
        """
        return where(self.isnan(), 0, self).to(dtype=self.dtype).sum(dim, keepdim, dtype=dtype)

    def nanmean(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Self:
        """The mean over `dim` (an axis, several, or None for all), ignoring NaN; NaN if all elements are NaN.

        >>> sg.tensor([1.0, math.nan, 3.0]).nanmean()
        tensor(2.)
        """
        return self.nansum(dim, keepdim) / (~self.isnan()).sum(dim, keepdim)


def _reduce(kind: type[Reduce], node: Node, dim: Any, keepdim: bool, what: str) -> Any:
    axes = check_axes(dim, node.ndim, what)
    result = wrap(make(kind(axes), node) if axes else node)
    return result if keepdim else _without(result, axes)


def _extremum(kind: type[Reduce], x: T, dim: Any, keepdim: bool, what: str) -> T:
    axes = check_axes(dim, x.ndim, what)
    if any(x.shape[a] == 0 for a in axes):
        raise ShapeError(f"[{what}] expected a non-empty axis to reduce, but the shape is {tuple(x.shape)}.")
    if x.dtype is bool_:
        return wrap(make(e.Cast(bool_), _reduce(kind, cast(x._node, int32), dim, keepdim, what)._node))
    return _reduce(kind, x._node, dim, keepdim, what)


def _arg(kind: type[Reduce], x: T, dim: int | None, keepdim: bool, what: str) -> T:
    node = x.detach()._node
    if dim is None:
        axis, shape = 0, (1,) * x.ndim if keepdim else ()
        node = build.reshape(node, (node.size,))
    else:
        axis = check_axis(dim, x.ndim, what)
        node = node if node.ndim else build.reshape(node, (1,))
        shape = (
            tuple(1 if a == axis else n for a, n in enumerate(x.shape))
            if keepdim
            else tuple(n for a, n in enumerate(x.shape) if a != axis)
        )
    if node.shape[axis] == 0:
        raise AxisError(f"[{what}] expected a non-empty axis to reduce, but the shape is {tuple(x.shape)}.")
    if node.dtype is bool_:
        node = cast(node, int32)
    best = build.broadcast(make(kind((axis,)), node), node.shape)
    chosen = make(e.Equal(), node, best)
    if node.dtype.category == 2:
        chosen = make(e.Or(), chosen, make(e.IsNan(), node))
    counter = build.iota_along(node, axis, int32)
    positions = make(e.Where(), chosen, counter, build.like(counter, node.shape[axis]))
    return wrap(build.reshape(make(ReduceMin((axis,)), positions), shape))


def _max_or_min(x: ReduceTensor, dim: Any, keepdim: bool, kind: type[Reduce], elementwise: Primitive) -> Any:
    if isinstance(dim, TensorBase):
        return binary(elementwise, x, dim)
    what = "max" if kind is ReduceMax else "min"
    if dim is None:
        return _extremum(kind, x, None, keepdim, what)
    axis = check_axis(dim, x.ndim, what)
    indices = _arg(kind, x, dim, True, what)
    if x.ndim == 0:
        return ValuesAndIndices(x.clone(), indices.reshape(()))
    values = wrap(make(Gather(axis), x._node, indices._node))
    return (
        ValuesAndIndices(values, indices)
        if keepdim
        else ValuesAndIndices(_without(values, [axis]), _without(indices, [axis]))
    )


def _empty_logic(x: T, dim: int | Sequence[int] | None, keepdim: bool, value: bool) -> T:
    axes = check_axes(dim, x.ndim, "any")
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    result = wrap(build.constant(value, bool_, x._node.device, shape))
    return result if keepdim else _without(result, axes)


def _without(x: T, axes: Sequence[int]) -> T:
    """Axes of size 1 removed."""
    return wrap(build.reshape(x._node, tuple(n for a, n in enumerate(x._node.shape) if a not in axes)))


def _cast(x: TensorBase, dtype: Any) -> Node:
    """x in the requested dtype. Raises DTypeError for one that the device lacks."""
    kind = parse_dtype(dtype)
    check_storable(kind, x._node.device)
    return cast(x._node, kind)


def _summable(x: ReduceTensor, dtype: Any) -> Node:
    if dtype is not None:
        return _cast(x, dtype)
    return cast(x._node, int32) if x.dtype.is_small else x._node


def _totals(node: Node, total: Callable[[Node], Any]) -> Any:
    """Sums or products of 32-bit integers; one that overflows raises a DTypeError at the read, instead of wrapping silently.

    An integer that wraps is off by a multiple of 2**32, which a comparison with the same computation in floats shows. The comparison is
    wrong only if the floats' rounding error reaches 2**31: for 2**24 numbers of that size that cancel.
    """
    found = total(node)
    bits = 64 if node.dtype is int64 and node.device == "cpu" else 32
    if node.dtype not in (int32, int64) or bits == 64 or _largest(node) * node.size < 1 << 31:
        return found
    away = total(cast(node, float32)) - wrap(cast(found._node, float32))
    fits = where(away.abs() > 2.0**31, -1, 0)
    return found + wrap(make(InRange(1, IN_TOTAL), fits._node)).to(dtype=found.dtype)


def _largest(node: Node) -> float:
    """A bound of |x| for masks and bytes, of which most integer sums consist."""
    while isinstance(node.primitive, v.View):
        (node,) = node.inputs
    known = {0: 1, 1: max(map(abs, node.dtype.range)) if node.dtype.is_small and node.dtype is not bool_ else math.inf}
    return _largest(node.inputs[0]) if isinstance(node.primitive, e.Cast) else known.get(node.dtype.category, math.inf)


def _power(x: T, p: float) -> T:
    """x ** p for x >= 0, with gradient 0 at 0."""
    is_zero = x == 0
    safe = where(is_zero, 1.0, x)
    return where(is_zero, x.detach() ** p if p < 0 else x * 0.0, safe.sqrt() if p == 0.5 else safe**p)
