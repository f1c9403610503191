"""Unique elements, counts, positions, cumulative extrema, segment reductions."""

from __future__ import annotations

from typing import Any

import torch

import shadergrad as sg

from ...tensor import Tensor
from ..storage import read, write
from ..table import kernel, on_tensors
from .gradients import gradients


def _unique(function: Any, x: Tensor, inverse: bool, counts: bool, **options: Any) -> Any:
    """Three results, as in PyTorch's operators; those that were not requested are empty."""
    found = function(x, return_inverse=inverse, return_counts=counts, **options)
    rest = list(found) if isinstance(found, tuple) else [found]
    nothing = sg.zeros(0, dtype=sg.int64, device=x.device)
    values = rest.pop(0)
    at = rest.pop(0).to(sg.int64) if inverse else nothing
    return values, at, rest.pop(0).to(sg.int64) if counts else nothing


@kernel("unique_consecutive")
def unique_consecutive(x: Tensor, inverse: bool = False, counts: bool = False, dim: Any = None) -> Any:
    return _unique(sg.unique_consecutive, x, inverse, counts, dim=dim)


@kernel("_unique2")
def unique2(x: Tensor, sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
    return _unique(sg.unique, x, inverse, counts)


@kernel("unique_dim")
def unique_dim(x: Tensor, dim: int, sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
    return _unique(sg.unique, x, inverse, counts, dim=dim)


@kernel("_unique")
def unique(x: Tensor, sorted: bool = True, inverse: bool = False) -> Any:
    return _unique(sg.unique, x, inverse, False)[:2]


@on_tensors("_cummax_helper")
def cummax(x: torch.Tensor, values: torch.Tensor, at: torch.Tensor, dim: int) -> None:
    for target, value in zip((values, at), sg.cummax(read(x), dim), strict=True):
        write(target, value)


@on_tensors("_cummin_helper")
def cummin(x: torch.Tensor, values: torch.Tensor, at: torch.Tensor, dim: int) -> None:
    for target, value in zip((values, at), sg.cummin(read(x), dim), strict=True):
        write(target, value)


@kernel("bincount")
def bincount(x: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    found = sg.bincount(x, weights, minlength)
    if weights is None:
        return found.to(sg.int64)
    return found if weights.dtype is sg.float32 else found.to(sg.float64)


@kernel("histogram.bins_tensor")
def histogram(x: Tensor, bins: Tensor, *, weight: Any = None, density: bool = False) -> Any:
    return tuple(sg.histogram(x, bins, weight=weight, density=density))


def _of_bins(x: Tensor, bins: Any, **options: Any) -> Any:
    return sg.histogramdd(x, bins, **options)


@kernel("_histogramdd_bin_edges")
def histogramdd_edges(x: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return tuple(_of_bins(x, list(bins), range=range, weight=weight, density=density)[1])


@kernel("_histogramdd_from_bin_cts")
def histogramdd_of_counts(x: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return _of_bins(x, list(bins), range=range, weight=weight, density=density)[0]


@kernel("_histogramdd_from_bin_tensors")
def histogramdd_of_edges(x: Tensor, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    return _of_bins(x, list(bins), weight=weight, density=density)[0]


@kernel("nonzero_static")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    found = sg.nonzero(x).to(sg.int64)[:size]
    rest = sg.full((size - found.shape[0], x.dim()), fill_value, dtype=sg.int64, device=x.device)
    return sg.cat([found, rest], 0)


def _long_or_not(function: Any) -> Any:
    """Positions with PyTorch's dtype: int64, or int32 for out_int32."""

    def run(*args: Any, out_int32: bool = False, **options: Any) -> Tensor:
        options = {k: v for k, v in options.items() if v is not None}
        return function(*args, **options).to(sg.int32 if out_int32 else sg.int64)

    return run


kernel("bucketize.Tensor", "bucketize.Scalar")(_long_or_not(sg.bucketize))
kernel("searchsorted.Tensor", "searchsorted.Scalar")(_long_or_not(sg.searchsorted))

NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -float("inf"), "min": float("inf")}
OF_INDEX = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def _segments(x: Tensor, reduce: str, lengths: Any, offsets: Any, axis: int, initial: Any) -> Tensor:
    """Each element belongs to the segment whose bounds contain its position; empty segments have the initial value."""
    if offsets is None:
        ends = lengths.cumsum(-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    k, outer, inner = starts.shape[-1], tuple(x.shape[:axis]), tuple(x.shape[axis + 1 :])
    at = sg.arange(x.shape[axis], device=x.device).reshape(*[1] * axis, 1, -1)
    belongs = (at >= starts.unsqueeze(-1)) & (at < ends.unsqueeze(-1))
    belongs = belongs.reshape(*outer, k, x.shape[axis], *[1] * len(inner))
    empty = NEUTRAL[reduce] if initial is None else float(initial)
    rows = sg.where(belongs, x.unsqueeze(axis), NEUTRAL[reduce])
    if reduce in ("max", "min"):
        found = rows.amax(axis + 1) if reduce == "max" else rows.amin(axis + 1)
        return (
            found
            if initial is None
            else (sg.maximum if reduce == "max" else sg.minimum)(found, sg.full_like(found, empty))
        )
    if reduce == "prod":
        return rows.prod(axis + 1) * empty
    count = belongs.to(x.dtype).sum(axis + 1)
    total = rows.sum(axis + 1)
    if reduce == "sum":
        return total + empty
    return sg.where(
        count > 0, (total + empty) / count, sg.full((), float("nan") if initial is None else empty, device=x.device)
    )


@kernel("segment_reduce")
def segment_reduce(
    x: Tensor, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    return _segments(x, reduce, lengths, offsets, axis, initial)


@kernel("_segment_reduce_backward")
def segment_reduce_backward(
    g: Tensor, y: Tensor, x: Tensor, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0, initial: Any = None,
) -> Any:  # fmt: skip
    return gradients(lambda x: _segments(x, reduce, lengths, offsets, axis, initial), [x], g)[0]


@on_tensors("mode.values")
def mode_into(
    x: torch.Tensor, dim: int = -1, keepdim: bool = False, *, values: torch.Tensor, indices: torch.Tensor
) -> Any:
    for target, value in zip((values, indices), sg.mode(read(x), dim, keepdim), strict=True):
        write(target.resize_(value.shape), value)
    return values, indices
