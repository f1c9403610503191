"""Methods that order elements: sorting, top-k, medians, quantiles, `searchsorted`."""

from __future__ import annotations

import math
from typing import Any, Self, TypeVar, overload

import numpy as np

from ..dtypes import bool_, int32
from ..errors import DTypeError, IndexRangeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import make
from ..primitives.indexing import ArgSort, Gather
from .axes import check_axis
from .coercion import Number
from .comparison import where
from .elementwise import _as_tensor
from .handle import wrap
from .joining import stack
from .reduce import ValuesAndIndices, _without
from .scatter import ScatterTensor

T = TypeVar("T", bound="OrderTensor")


class OrderTensor(ScatterTensor):
    """Methods that order elements: sorting, top-k, medians, quantiles, `searchsorted`."""

    __slots__ = ()

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Self:
        """Positions that sort along `dim`, int32, of the shape of self; always stable, NaN as the largest.

        >>> sg.tensor([3, 1, 2]).argsort()
        tensor([1, 2, 0])
        """
        axis = check_axis(dim, self.ndim, "argsort")
        node = cast(self.detach()._node, int32) if self.dtype is bool_ else self.detach()._node
        if not node.ndim:
            return wrap(build.constant(0, int32, node.device))
        return wrap(make(ArgSort(axis, bool(descending)), node))

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesAndIndices[Self]:
        """(values, indices) in order along `dim`, the indices int32; always stable, NaN as the largest.

        >>> values, indices = sg.tensor([3, 1, 2]).sort(descending=True)
        >>> values, indices
        (tensor([3, 2, 1]), tensor([0, 2, 1]))
        """
        if not self.ndim:
            return ValuesAndIndices(self.clone(), self.argsort())
        indices = self.argsort(dim, descending)
        return ValuesAndIndices(_pick(self, check_axis(dim, self.ndim, "sort"), indices), indices)

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices[Self]:
        """(values, indices) of the k largest, or smallest, along `dim`, always in order (`sorted` changes nothing).

        Raises IndexRangeError for a k below 0 or above the size of the axis.

        >>> values, indices = sg.tensor([3, 1, 2]).topk(2)
        >>> values, indices
        (tensor([3, 2]), tensor([0, 2]))
        """
        axis = check_axis(dim, self.ndim, "topk")
        size = self.shape[axis] if self.ndim else 1
        if not 0 <= k <= size:
            raise ShapeError(f"[topk] selected index k out of range: k is {k}, the axis has {size} elements.")
        if not self.ndim:
            return ValuesAndIndices(self.clone(), self.argsort())
        indices = self.argsort(axis, descending=largest).narrow(axis, 0, k)
        return ValuesAndIndices(_pick(self, axis, indices), indices)

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices[Self]:
        """(values, indices) of the k-th smallest, counted from 1, along `dim`. Raises IndexRangeError for a k outside
        the axis.

        >>> sg.tensor([30, 10, 20]).kthvalue(1)
        ValuesAndIndices(values=tensor(10), indices=tensor(1))
        """
        axis = check_axis(dim, self.ndim, "kthvalue")
        if not 1 <= k <= (self.shape[axis] if self.ndim else 1):
            raise ShapeError(f"[kthvalue] selected number k out of range for dimension {dim}: {k}.")
        if not self.ndim:
            return ValuesAndIndices(self.clone(), self.argsort())
        indices = self.argsort(axis).narrow(axis, k - 1, 1)
        values = _pick(self, axis, indices)
        return (
            ValuesAndIndices(values, indices)
            if keepdim
            else ValuesAndIndices(_without(values, [axis]), _without(indices, [axis]))
        )

    @overload
    def median(self, dim: None = None, keepdim: bool = False) -> Self: ...
    @overload
    def median(self, dim: int, keepdim: bool = False) -> ValuesAndIndices[Self]: ...
    def median(self, dim: int | None = None, keepdim: bool = False) -> Self | ValuesAndIndices[Self]:
        """The lower median: of all elements, or as (values, indices) along `dim`. NaN where any element is NaN.

        Raises IndexRangeError over no elements (PyTorch: NaN for median()).

        >>> sg.tensor([4.0, 1.0, 3.0, 2.0]).median()
        tensor(2.)
        """
        if dim is None:
            flat = self.reshape(-1)
            return _median(flat, 0, False)[0]
        axis = check_axis(dim, self.ndim, "median")
        return _median(self, axis, keepdim) if self.ndim else ValuesAndIndices(self.clone(), self.argsort())

    def quantile(
        self, q: float | OrderTensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Self:
        """The q-quantiles, of all elements or along `dim`.

        q: a number, or a tensor (k,), which gives a new first axis of size k and is read. interpolation between the two
        nearest elements: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'. NaN if any element is NaN.
        Raises DTypeError for integers and bools, ShapeError for a q outside [0, 1] and another interpolation.

        >>> sg.tensor([0.0, 1.0, 2.0, 3.0]).quantile(0.5)
        tensor(1.5)
        """
        return _quantile(self, "quantile", q, dim, keepdim, interpolation)

    def nanquantile(
        self, q: float | OrderTensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Self:
        """quantile, ignoring NaN; NaN if all elements are NaN.

        >>> sg.tensor([0.0, math.nan, 2.0]).nanquantile(0.5)
        tensor(1.)
        """
        return _quantile(self, "nanquantile", q, dim, keepdim, interpolation)

    def bucketize(self, boundaries: OrderTensor, *, out_int32: bool = True, right: bool = False) -> Self:
        """The bucket of each element: its insertion position in the increasing `boundaries` (n,), int32, of the shape of self.

        Position i means boundaries[i - 1] < x <= boundaries[i], or <= and < if `right`. NaN belongs at the end.
        The boundaries below each element are counted, by n comparisons, which is fast for few boundaries.
        out_int32 changes nothing. Raises ShapeError unless boundaries have one axis.

        >>> sg.bucketize(sg.tensor([1, 5, 9]), sg.tensor([1, 5]))
        tensor([0, 1, 2])
        """
        if boundaries.ndim != 1:
            raise ShapeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
        found: Any = boundaries.searchsorted(self, right=right)
        return found

    def searchsorted(
        self,
        values: OrderTensor | Number,
        *,
        out_int32: bool = True,
        right: bool = False,
        side: str | None = None,
        sorter: OrderTensor | None = None,
    ) -> Self:
        """The insertion positions of `values` in the sorted last axis, int32; see bucketize. Shape: that of values.

        self: (n,) for values of any shape, or (..., n) for values (..., m). side: 'left', or 'right' for right=True.
        sorter: positions that sort self, of its shape. Raises ShapeError for others.

        >>> sg.tensor([1, 3, 5]).searchsorted(sg.tensor([3, 4]))
        tensor([1, 2])
        """
        if side not in (None, "left", "right"):
            raise ShapeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
        if side == "left" and right:
            raise ShapeError(
                "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
            )
        right = right or side == "right"
        edges = self.detach()
        if sorter is not None:
            if sorter.shape != edges.shape or not sorter.dtype.is_position:
                raise ShapeError(
                    "torch.searchsorted(): boundary and sorter must have the same size, and sorter must be of integers, but got "
                    f"boundary tensor {list(edges.shape)} and sorter {list(sorter.shape)} of {sorter.dtype.name}"
                )
            edges = edges.gather(-1, sorter)
        x = _as_tensor(values, edges).detach()
        if edges.ndim > 1 and tuple(edges.shape[:-1]) != tuple(x.shape[:-1]):
            raise ShapeError(
                "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value "
                f"tensor must match, but we got boundaries tensor {list(edges.shape)} and input value tensor {list(x.shape)}"
            )
        places = x.unsqueeze(-1)
        edges = edges if edges.ndim == 1 else edges.unsqueeze(-2)
        below = (edges <= places) if right else (edges < places)
        return (below | places.isnan()).sum(-1)


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(x: Any, what: str, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    if x.dtype.category != 2:
        raise DTypeError(f"{what}() input tensor must be either float or double dtype")
    if interpolation not in INTERPOLATIONS:
        raise ShapeError(f"{what}() interpolation must be one of {', '.join(INTERPOLATIONS)}, but got {interpolation}")
    if not isinstance(q, int | float) and q.dtype is not x.dtype:
        raise DTypeError(f"{what}() q tensor must be same dtype as the input tensor")
    points = np.asarray(q if isinstance(q, int | float) else q.detach().numpy(), np.float64)
    if points.ndim > 1 or not ((points >= 0) & (points <= 1)).all():
        raise ShapeError(f"{what}() q must be a scalar or a 1-d tensor with values in the range [0, 1]")
    shape = (1,) * x.ndim if keepdim else ()
    flat, axis = (x.reshape(-1), 0) if dim is None or not x.ndim else (x, check_axis(dim, x.ndim, what))
    if not flat.numel():
        raise ShapeError(f"{what}() input tensor must be non-empty, but its shape is {tuple(x.shape)}.")
    ordered, missing = flat.sort(axis)[0], flat.isnan()
    counted = (~missing).sum(axis, keepdim=True) if what == "nanquantile" else None
    results = []
    fractions: Any = q
    follows = not isinstance(q, int | float) and q.requires_grad
    for k, point in enumerate(points.reshape(-1)):
        exact = fractions.reshape(-1)[k] if follows else None  # for its gradient
        value = _at_fraction(ordered, axis, float(point), counted, interpolation, exact)
        spoiled = missing.any(axis, keepdim=True) if counted is None else counted == 0
        value = where(spoiled, math.nan, value)
        if dim is None or not x.ndim:
            value = value.reshape(shape)
        elif not keepdim:
            value = _without(value, [axis])
        results.append(value)
    return results[0] if points.ndim == 0 else stack(results)


def _at_fraction(ordered: Any, axis: int, point: float, counted: Any, interpolation: str, exact: Any) -> Any:
    """The value at a fraction of the way along an ordered axis, or of its first `counted` elements; `exact` is the
    fraction as a tensor, where it has a gradient."""
    last = ordered.shape[axis] - 1
    if counted is None:
        place = point * last
        low, high = math.floor(place), min(math.ceil(place), last)
        if interpolation == "nearest":
            low = high = round(place)
        elif interpolation in ("lower", "higher"):
            low = high = low if interpolation == "lower" else high
        a, b = ordered.narrow(axis, low, 1), ordered.narrow(axis, high, 1)
        share: Any = (place if exact is None else exact * last) - math.floor(place)
    else:
        last_counted = (counted - 1).clamp(min=0).to(dtype=ordered.dtype)
        at = last_counted * point
        under, over = at.floor(), at.ceil()
        if interpolation == "nearest":
            under = over = at.round()
        elif interpolation in ("lower", "higher"):
            under = over = under if interpolation == "lower" else over
        a, b = (ordered.gather(axis, k.to(dtype=int32)) for k in (under, over))
        share = (at if exact is None else last_counted * exact) - at.floor()
    if interpolation == "midpoint":
        share = 0.5
    return a if interpolation in ("nearest", "lower", "higher") else a.lerp(b, share)


def _pick(x: T, axis: int, indices: OrderTensor) -> T:
    """Elements at positions along an axis."""
    node = x._node
    sizes = tuple(n if a == axis else m for a, (n, m) in enumerate(zip(node.shape, indices.shape, strict=True)))
    assert sizes == node.shape
    return wrap(make(Gather(axis), node, indices._node))


def _median(x: T, axis: int, keepdim: bool) -> ValuesAndIndices[T]:
    n = x.shape[axis]
    if n == 0:
        raise IndexRangeError(f"[median] expected a non-empty axis, but the shape is {tuple(x.shape)}.")
    order = x.argsort(axis)
    middle, end = order.narrow(axis, (n - 1) // 2, 1), order.narrow(axis, n - 1, 1)
    if x.dtype.category == 2:
        first_nan = x.isnan().to(dtype=int32).argmax(axis, keepdim=True)
        middle = where(_pick(x.detach(), axis, end).isnan(), first_nan, middle)
    values = _pick(x, axis, middle)
    return (
        ValuesAndIndices(values, middle)
        if keepdim
        else ValuesAndIndices(_without(values, [axis]), _without(middle, [axis]))
    )
