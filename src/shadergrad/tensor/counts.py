"""Methods that count: unique values, the mode, histograms, and medians that ignore NaN."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, overload

import numpy as np

from ..dtypes import bool_, float32, int32
from ..errors import ArgumentTypeError, DTypeError, ShapeError
from ..graph import build
from .axes import check_axis
from .base import TensorBase
from .coercion import host_tensor
from .comparison import where
from .creation import arange, linspace
from .handle import wrap
from .order import _median
from .reduce import ValuesAndIndices
from .scans import ScanTensor

FEW = 16  # rows that C++'s sort, and so PyTorch's unique(dim=), sorts by insertion


class Histogram(NamedTuple):
    """The result of histogram and histogramdd."""

    hist: Any
    bin_edges: Any


class CountedTensor(ScanTensor):
    """Methods that count: unique values, the mode, histograms, and medians that ignore NaN."""

    __slots__ = ()

    def unique(
        self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The unique elements, or slices along `dim`, in order (`sorted` changes nothing). Reads self.

        return_inverse: also the position of each element among them; return_counts: also the number of occurrences, int32.
        Each NaN is distinct.

        >>> sg.tensor([3, 1, 3]).unique()
        tensor([1, 3])
        >>> sg.tensor([3, 1, 3]).unique(return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
        """
        values = self.detach()._read("unique()")
        axis = None if dim is None else check_axis(dim, self.ndim, "unique")
        empty = sum(n == 0 for n in values.shape)
        if axis is not None and empty > (values.ndim > 0 and values.shape[axis] == 0):
            raise ShapeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
        values = values.reshape(1) if axis is not None and not values.ndim else values
        if axis is not None and values.dtype.kind == "f" and np.isnan(values).any():
            found, inverse, counts = _distinct_lines(values, axis)
        else:
            found, inverse, counts = np.unique(
                values, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
            )
        shape = values.shape if axis is None else (values.shape[axis],)
        return _distinct(self, found, inverse.reshape(shape), counts, return_inverse, return_counts)

    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The elements, or slices along `dim`, without consecutive repetitions. Reads self.

        return_inverse: also the position of each element among them; return_counts: also the number of repetitions, int32.

        >>> sg.tensor([1, 1, 2, 1]).unique_consecutive()
        tensor([1, 2, 1])
        """
        values = self.detach()._read("unique_consecutive()")
        axis = None if dim is None else check_axis(dim, self.ndim, "unique_consecutive")
        if axis is not None and not values.ndim:
            values = values.reshape(1)
        lines = values.reshape(-1, 1) if axis is None else np.moveaxis(values, axis, 0)
        n = lines.shape[0]
        new = np.ones(n, np.bool_)
        rows = lines.reshape(n, int(np.prod(lines.shape[1:])))
        new[1:] = (rows[1:] != rows[:-1]).any(1)
        found = lines[new].reshape(-1) if axis is None else np.moveaxis(lines[new], 0, axis)
        places = np.flatnonzero(new)
        inverse = (np.cumsum(new) - 1).reshape(values.shape if axis is None else (n,))
        counts = np.diff(np.append(places, n))
        return _distinct(self, found, inverse, counts, return_inverse, return_counts)

    def mode(self, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices[Self]:
        """(values, indices): the most frequent value along `dim`, the smallest of ties, and its last position, int32.

        Compares all pairs along the axis. Raises ShapeError for an axis of size 0.

        >>> sg.tensor([1, 2, 2, 1, 3]).mode()
        ValuesAndIndices(values=tensor(1), indices=tensor(3))
        """
        axis = check_axis(dim, self.ndim, "mode")
        if not self.ndim:
            return ValuesAndIndices(self.clone(), wrap(build.constant(0, int32, self._node.device)))
        if not self.shape[axis]:
            raise ShapeError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
        x: Any = (self.to(dtype=int32) if self.dtype is bool_ else self).detach().movedim(axis, -1)
        same = x.unsqueeze(-1) == x.unsqueeze(-2)
        often = same.sum(-1)
        most = often == often.amax(-1, keepdim=True)
        order = x.argsort(-1).argsort(-1)  # ranks: comparable, whatever the dtype
        n = x.shape[-1]
        first = where(most, order, n).argmin(-1, keepdim=True)
        value = x.gather(-1, first)
        last = where(x == value, arange(n, device=self.device), -1).amax(-1, keepdim=True)
        indices = last.movedim(-1, axis)
        values = self.gather(axis, indices)
        return (
            ValuesAndIndices(values, indices)
            if keepdim
            else ValuesAndIndices(values.squeeze(axis), indices.squeeze(axis))
        )

    @overload
    def nanmedian(self, dim: None = None, keepdim: bool = False) -> Self: ...
    @overload
    def nanmedian(self, dim: int, keepdim: bool = False) -> ValuesAndIndices[Self]: ...
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Self | ValuesAndIndices[Self]:
        """The lower median, ignoring NaN: of all elements, or as (values, indices) along `dim`. NaN if all are NaN.

        >>> sg.tensor([4.0, math.nan, 3.0]).nanmedian()
        tensor(3.)
        """
        if self.dtype.category < 2:
            return self.median() if dim is None else self.median(dim, keepdim)
        if dim is None:
            flat = self.reshape(-1)
            return _nanmedian(flat, 0, False).values
        axis = check_axis(dim, self.ndim, "nanmedian")
        return _nanmedian(self, axis, keepdim) if self.ndim else ValuesAndIndices(self.clone(), self.argsort())

    def msort(self) -> Self:
        """The values sorted along axis 0.

        >>> sg.tensor([3, 1, 2]).msort()
        tensor([1, 2, 3])
        """
        return self.sort(0).values

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Self:
        """The number of elements in each of `bins` equal parts of [min, max], in the dtype of self; the last is closed.

        If min = max, from the smallest to the largest element. Elements outside, and NaN, do not count. Raises ShapeError
        for fewer than one bin, or max below min.

        >>> sg.tensor([1.0, 2.0, 1.0]).histc(bins=4, min=0, max=3)
        tensor([0., 2., 1., 0.])
        """
        if bins < 1:
            raise ShapeError(f"torch.histc(): bins must be > 0, but got {bins}")
        if max < min:
            raise ShapeError("torch.histc(): max must be larger than min")
        x: Any = self.detach().reshape(-1)
        nothing: Any = wrap(build.constant(0, self.dtype, self._node.device, (bins,)))
        if not x.numel():
            return nothing
        low, high = _range(x, min, max)
        return nothing + _counted(x, low, high, bins, None).to(dtype=self.dtype)

    def histogram(
        self,
        bins: int | CountedTensor,
        *,
        range: Any = None,
        weight: CountedTensor | None = None,
        density: bool = False,
    ) -> Histogram:
        """(hist, bin_edges): the number of elements, or the sum of their weights, between neighbouring edges.

        bins: the number of equal parts of `range` (low, high), by default from the smallest to the largest element; or the edges, in
        order. density: divide by the total and the widths. The last bin is closed.

        >>> hist, edges = sg.tensor([1.0, 2.0, 1.0]).histogram(3, range=(0.0, 3.0))
        >>> hist, edges
        (tensor([0., 2., 1.]), tensor([0., 1., 2., 3.]))
        """
        if self.dtype.category != 2:
            raise DTypeError(f'"histogram" not implemented for {self.dtype.name}')
        if weight is not None and weight.shape != self.shape:
            raise ShapeError(
                "torch.histogram(): if weight tensor is provided it should have the same shape as the input"
            )
        if weight is not None and weight.dtype is not self.dtype:
            raise DTypeError(
                "torch.histogram(): if weight tensor is provided, input tensor and weight tensor should have the same dtype"
            )
        edges = _edges(self, bins, range)
        x: Any = self.detach().reshape(-1)
        place = _bins_of(x, edges)
        inside = place >= 0
        mass = wrap(build.like(x._node, 1)) if weight is None else weight.detach().reshape(-1)
        nothing = wrap(build.constant(0, self.dtype, self._node.device, (edges.shape[0] - 1,)))
        hist = nothing.scatter_add(0, place.clamp(min=0), where(inside, mass, 0.0)) if x.numel() else nothing
        if density:
            hist = hist / hist.sum() / edges.diff()
        return Histogram(hist, edges)


def _distinct_lines(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """np.unique along an axis, for numbers with NaN: a line with NaN equals no other line. Among more than FEW lines NaN is above all
    other numbers."""
    lines = np.moveaxis(values, axis, 0)
    rows = lines.reshape(len(lines), -1)
    if len(rows) <= FEW:
        order = _inserted(rows)
    else:
        keys = [key for column in rows.T[::-1] for key in (np.where(np.isnan(column), 0, column), np.isnan(column))]
        order = np.lexsort(keys)
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[order[1:]] != rows[order[:-1]]).any(1)
    inverse = np.empty(len(rows), np.intp)
    inverse[order] = np.cumsum(new) - 1
    counts = np.diff(np.append(np.flatnonzero(new), len(rows)))
    return np.moveaxis(lines[order[new]], 0, axis), inverse, counts


def _inserted(rows: np.ndarray) -> np.ndarray:
    """The order of rows by insertion sort, with NaN neither below nor above any number. It is PyTorch's order, because C++ sorts few
    elements so: a row below the first one goes to the front, any other goes back until the row before it is not above."""

    def below(a: int, b: int) -> bool:
        apart = np.flatnonzero((rows[a] < rows[b]) | (rows[a] > rows[b]))
        return bool(apart.size and rows[a][apart[0]] < rows[b][apart[0]])

    order: list[int] = []
    for row in range(len(rows)):
        place = len(order)
        if place and below(row, order[0]):
            place = 0
        while place and below(row, order[place - 1]):
            place -= 1
        order.insert(place, row)
    return np.array(order, np.intp)


def _distinct(x: TensorBase, found: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    results = [host_tensor(found, dtype=x.dtype, device=x.device)]
    if return_inverse:
        results.append(host_tensor(inverse.astype(np.int32), device=x.device))
    if return_counts:
        results.append(host_tensor(counts.astype(np.int32), device=x.device))
    return results[0] if len(results) == 1 else tuple(results)


def _nanmedian(x: Any, axis: int, keepdim: bool) -> ValuesAndIndices[Any]:
    """The middle of the numbers before NaN, which is last in the order."""
    n = x.shape[axis]
    if n == 0:
        return _median(x, axis, keepdim)
    order = x.argsort(axis)
    count = (~x.isnan()).sum(axis, keepdim=True)
    middle = (count - 1).clamp(min=0).floor_divide(2)
    indices = order.gather(axis, middle)
    values = x.gather(axis, indices)
    return (
        ValuesAndIndices(values, indices) if keepdim else ValuesAndIndices(values.squeeze(axis), indices.squeeze(axis))
    )


def _range(x: Any, low: float, high: float) -> tuple[Any, Any]:
    """The ends of a histogram: as given, or, if these are equal, the extremes of the elements, widened if equal, too."""
    if low != high:
        return float(low), float(high)
    least, largest = x.amin(), x.amax()
    if x.dtype.category < 2:
        least, largest = least.to(dtype=float32), largest.to(dtype=float32)
    flat = least == largest
    return where(flat, least - 1.0, least), where(flat, largest + 1.0, largest)


def _counted(x: Any, low: Any, high: Any, bins: int, weight: Any) -> Any:
    values = x if x.dtype.category == 2 else x.to(dtype=float32)
    place = ((values - low) / (high - low) * bins).floor().clamp(0, bins - 1)
    inside = (values >= low) & (values <= high)
    mass = inside.to(dtype=int32)
    nothing = wrap(build.constant(0, int32, x._node.device, (bins,)))
    return nothing.scatter_add(0, where(inside, place, 0.0).to(dtype=int32), mass)


def _edges(x: Any, bins: Any, range: Any) -> Any:
    if isinstance(bins, TensorBase):
        if bins.dtype is not x.dtype:
            raise DTypeError("torch.histogram(): input tensor and bins tensors should have the same dtype")
        if bins.ndim != 1 or not bins.numel():
            raise ShapeError("torch.histogram(): bins tensor should have one dimension and at least one element")
        return bins.detach()
    if bins < 1:
        raise ShapeError(f"torch.histogram(): bins must be > 0, but got {bins}")
    if range is None:
        if not x.numel():
            low, high = 0.0, 1.0
        else:
            values = x.detach()
            low, high = float(values.amin().item()), float(values.amax().item())
    else:
        if len(range) != 2:
            raise ArgumentTypeError("torch.histogram(): range should have 2 elements")
        low, high = (float(r) for r in range)
    if not low <= high or not np.isfinite([low, high]).all():
        raise ShapeError(f"torch.histogram(): range [{low}, {high}] is not finite, or its min is above its max")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


def _bins_of(x: Any, edges: Any) -> Any:
    """The bin of each element; -1 for elements outside, and for NaN."""
    last = edges.shape[0] - 1
    if last < 1:
        return wrap(build.constant(-1, int32, x._node.device, tuple(x.shape)))
    place = edges.searchsorted(x, right=True) - 1
    place = where(x == edges[last], last - 1, place)
    return where((x >= edges[0]) & (x <= edges[last]), place, -1)
