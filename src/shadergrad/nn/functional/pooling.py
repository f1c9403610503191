"""Max and average pooling. Shapes: (batch, channels, *size), or without the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import int32
from ...errors import ShapeError
from ...primitives.window import window_count
from ...tensor import Tensor, arange, host_tensor
from ...tensor.composed import composed
from ...tensor.placement import integer_range
from ..arguments import per_axis, whole
from ..errors import ArgumentError
from .pooled_inputs import AVERAGED, COMPARED, Sizes, adaptive_sizes, check_dtype, check_elements
from .sliding_windows import Ints, along_axis, batched_input, padded, windows

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d",
    "max_pool2d", "max_pool3d",
]  # fmt: skip


def _windows(
    x: Tensor,
    kernel: Sequence[int],
    steps: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    ceil: bool,
    fill: float,
    what: str,
) -> Tensor:
    """(batch, c, *count, *kernel) windows of a padded input."""
    low, high = list(padding), list(padding)
    for a, (k, s, p, d) in enumerate(zip(kernel, steps, padding, dilations, strict=True)):
        if p > k // 2:
            raise ArgumentError(
                f"{what}(): pad should be at most half of effective kernel size, but got padding={p}, kernel_size={k} and "
                f"dilation={d}."
            )
        n = x.shape[2 + a]
        count = window_count(n + 2 * p, k, s, d)
        if ceil:
            rounded = -(-(n + 2 * p - d * (k - 1) - 1) // s) + 1
            if (rounded - 1) * s < n + p:  # the last window starts inside the input or its left border
                count = rounded
        if count < 1:
            raise ShapeError(
                f"[{what}] Given input size {list(x.shape[1:])}, the output size is too small with kernel_size={list(kernel)}, "
                f"stride={list(steps)}, padding={list(padding)}, dilation={list(dilations)}."
            )
        high[a] = max(0, (count - 1) * s + d * (k - 1) + 1 - n - p)
    x = padded(x, low, high, fill)
    return windows(x, kernel, steps, dilations)


def _least(x: Tensor) -> float:
    """A number that is not above any element."""
    return -math.inf if x.is_floating_point() else integer_range(x.dtype, x.device)[0]


@composed
def max_pool(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    return_indices: bool,
    rank: int,
) -> Tensor | tuple[Tensor, Tensor]:
    """The maximum of every window; the gradient goes to the first of ties."""
    what = f"max_pool{rank}d"
    x, batched = batched_input(input, rank, what)
    check_elements(what, x)
    check_dtype(what, x, COMPARED if rank > 1 or return_indices else ())
    kernel, steps, pads = _kernel_steps_pads(what, kernel_size, stride, padding, rank)
    dilations = per_axis(what, "dilation", dilation, rank, 1)
    found = _windows(x, kernel, steps, pads, dilations, ceil_mode, _least(x), what)
    flat = found.reshape(*found.shape[: 2 + rank], math.prod(kernel))
    values, places = flat.max(-1)
    if not batched:
        values, places = values.squeeze(0), places.squeeze(0)
    if not return_indices:
        return values
    return values, _plane_positions(places, kernel, steps, pads, dilations, x.shape[2:])


def _kernel_steps_pads(
    what: str, kernel_size: Ints, stride: Ints | None, padding: Ints, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel = per_axis(what, "kernel_size", kernel_size, rank, 1)
    steps = kernel if stride is None or stride == () or stride == [] else per_axis(what, "stride", stride, rank, 1)
    return kernel, steps, per_axis(what, "padding", padding, rank, 0)


def _plane_positions(
    places: Tensor,
    kernel: Sequence[int],
    steps: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    size: Sequence[int],
) -> Tensor:
    """Row-major positions in the input plane of places within windows."""
    rank = len(kernel)
    result: Tensor | None = None
    rest = places
    parts = []
    for k in reversed(kernel):
        quotient = rest.div(k).floor().to(dtype=rest.dtype)
        parts.append(rest - quotient * k)
        rest = quotient
    for a, part in enumerate(reversed(parts)):
        axis = places.ndim - rank + a
        start = arange(places.shape[axis], device=places.device) * steps[a] - pads[a]
        position = part * dilations[a] + start.reshape(*(-1 if b == axis else 1 for b in range(places.ndim)))
        result = position if result is None else result * size[a] + position
    assert result is not None
    return result


def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
):
    """The maximum of each window of (batch, c, length) or (c, length).

    There are floor((length + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1 windows; stride: kernel_size by
    default. padding: elements that are never the maximum, at most half of kernel_size. ceil_mode: a last window may reach beyond the
    end.
    return_indices: also returns the positions, int32 (PyTorch: int64). Of equal maxima, the first gets the gradient.
    ShapeError if no window fits or an axis but the batch is empty, ArgumentError for numbers out of range, DTypeError for
    bools, complex numbers and uint32; for all integers, unless return_indices.

    >>> F.max_pool1d(sg.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[5., 3.]])
    """
    return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
):
    """The maximum of each window of (batch, c, height, width) or (c, height, width).

    Numbers are for both axes, or one for each; arguments and errors: as for max_pool1d, but integers are allowed. return_indices:
    row-major positions in the plane.

    >>> F.max_pool2d(sg.tensor([[[1.0, 2.0], [4.0, 3.0]]]), 2, return_indices=True)
    (tensor([[[4.]]]), tensor([[[2]]]))
    """
    return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
):
    """The maximum of each window of (batch, c, depth, height, width) or (c, depth, height, width).

    Numbers are for all three axes, or one for each; arguments and errors: as for max_pool2d.

    >>> F.max_pool3d(sg.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


@composed
def avg_pool(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    rank: int,
) -> Tensor:
    """The mean of every window."""
    what = f"avg_pool{rank}d"
    x, batched = batched_input(input, rank, what)
    check_elements(what, x)
    check_dtype(what, x, AVERAGED)
    kernel, steps, pads = _kernel_steps_pads(what, kernel_size, stride, padding, rank)
    if divisor_override is not None and whole(what, "divisor_override", divisor_override) == 0:
        raise ArgumentError(f"{what}(): divisor must be not zero, but got divisor_override={divisor_override}.")
    found = _windows(x, kernel, steps, pads, (1,) * rank, ceil_mode, 0.0, what)
    axes = tuple(range(2 + rank, 2 + 2 * rank))
    total = found.sum(axes)
    if divisor_override is not None:
        divisor: Tensor | int = divisor_override
    else:
        sizes = _window_sizes(x.shape[2:], found.shape[2 : 2 + rank], kernel, steps, pads, count_include_pad)
        divisor = Tensor(sizes, dtype=x.dtype, device=x.device)
    result = total.div(divisor, rounding_mode=None if x.is_floating_point() else "trunc")
    return result if batched else result.squeeze(0)


def _window_sizes(
    size: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    pads: Sequence[int],
    include_pad: bool,
) -> np.ndarray:
    """The number of elements that each window averages; padding counts only up to the right border."""
    result = np.ones(())
    for n, c, k, s, p in zip(size, counts, kernel, steps, pads, strict=True):
        start = np.arange(c) * s - p
        end = np.minimum(start + k, n + p)
        lengths = end - start if include_pad else np.minimum(end, n) - np.maximum(start, 0)
        result = result[..., None] * lengths
    return result


def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of every window of (batch, c, length) or (c, length).

    Windows and errors: as for max_pool1d; of integers, int32 and int64 are allowed, whose means are truncated. padding: zeros, which
    count_include_pad=False excludes from the means.

    >>> F.avg_pool1d(sg.tensor([[2.0, 4.0, 6.0, 8.0]]), 2)
    tensor([[3., 7.]])
    >>> F.avg_pool1d(sg.tensor([[2.0, 4.0]]), 2, padding=1)
    tensor([[1., 2.]])
    """
    return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of (batch, c, height, width) or (c, height, width).

    Numbers are for both axes, or one for each; arguments: as for avg_pool1d. divisor_override: divide the sums by this,
    ArgumentError for 0.

    >>> F.avg_pool2d(sg.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[2.5]]])
    """
    return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)


def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of (batch, c, depth, height, width) or (c, depth, height, width).

    Numbers are for all three axes, or one for each; arguments: as for avg_pool2d.

    >>> F.avg_pool3d(sg.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5]]]])
    """
    return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


def _adaptive_spans(size: int, count: int) -> list[tuple[int, int]]:
    """The starts and ends of `count` windows that cover an axis."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


@composed
def _adaptive_avg_pool(input: Tensor, output_size: Sizes, rank: int) -> Tensor:
    """The means of windows that cover the input evenly."""
    what = f"adaptive_avg_pool{rank}d"
    check_dtype(what, input)
    counts = adaptive_sizes(what, input, output_size, rank)
    first = input.ndim - rank
    check_elements(what, input, first if rank < 3 else 1)
    sizes = input.shape[first:]
    if all(count and size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        windows = (n for size, count in zip(sizes, counts, strict=True) for n in (count, size // count))
        return input.reshape(*input.shape[:first], *windows).mean(tuple(range(first + 1, first + 2 * rank, 2)))
    x = input
    for a, count in enumerate(counts):
        axis = first + a
        size = input.shape[axis]
        if count == 0:
            x = x.narrow(axis, 0, 0)
            continue
        if size % count == 0:
            x = x.reshape(*x.shape[:axis], count, size // count, *x.shape[axis + 1 :]).mean(axis + 1)
            continue
        matrix = np.zeros((count, size))
        for i, (start, end) in enumerate(_adaptive_spans(size, count)):
            matrix[i, start:end] = 1.0 / (end - start)
        x = along_axis(x, axis, matrix)
    return x


def _adaptive_max_pool(
    input: Tensor, output_size: Sizes, rank: int, return_indices: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """The maxima of windows that cover the input evenly; elements are repeated so that all windows of an axis have one length."""
    what = f"adaptive_max_pool{rank}d"
    check_dtype(what, input)
    counts = adaptive_sizes(what, input, output_size, rank)
    check_elements(what, input)
    lead = tuple(input.shape[: input.ndim - rank])
    sizes = input.shape[input.ndim - rank :]
    if 0 in counts:
        empty = input.reshape(-1)[:0].reshape(*lead, *counts)
        return (empty, empty.detach().to(dtype=int32)) if return_indices else empty
    tables = []
    for n, count in zip(sizes, counts, strict=True):
        spans = _adaptive_spans(n, count)
        widest = max(end - start for start, end in spans)
        tables.append(np.array([[min(start + k, end - 1) for k in range(widest)] for start, end in spans], np.int32))
    x = input
    for a, table in enumerate(tables):
        axis = len(lead) + 2 * a
        picked = x.index_select(axis, host_tensor(table.reshape(-1), device=x.device))
        x = picked.reshape(*x.shape[:axis], *table.shape, *x.shape[axis + 1 :])
    k = len(lead)
    x = x.permute(*range(k), *range(k, k + 2 * rank, 2), *range(k + 1, k + 2 * rank, 2))
    x = x.reshape(*lead, *counts, math.prod(table.shape[1] for table in tables))
    values, best = x.max(-1)
    if not return_indices:
        return values
    grids = np.zeros((*counts, *(t.shape[1] for t in tables)), np.int32)
    for a, (table, n) in enumerate(zip(tables, sizes, strict=True)):
        shape = [1] * (2 * rank)
        shape[a], shape[rank + a] = table.shape
        grids = grids * n + table.reshape(shape)
    flat = host_tensor(grids.reshape(*counts, -1), device=input.device)
    wide = flat.expand(*lead, *flat.shape)
    return values, wide.gather(-1, best.unsqueeze(-1)).squeeze(-1)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of output_size windows that cover the last axis of (batch, c, length) or (c, length) evenly.

    Window i of m is from floor(i length / m) to ceil((i + 1) length / m), so windows may overlap. ShapeError for an empty axis or
    another number of axes, ArgumentError for a negative size or another number of them, DTypeError for integers.

    >>> F.adaptive_avg_pool1d(sg.tensor([[1.0, 2.0, 3.0]]), 2)
    tensor([[1.5, 2.5]])
    """
    return _adaptive_avg_pool(input, output_size, 1)


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of windows that cover the last two axes of (batch, c, height, width) or (c, height, width) evenly.

    output_size: a number for both axes or one for each, where None keeps that of the input. Windows and errors: as for
    adaptive_avg_pool1d.

    >>> F.adaptive_avg_pool2d(sg.tensor([[[1.0, 3.0], [5.0, 7.0]]]), (1, None))
    tensor([[[3., 5.]]])
    """
    return _adaptive_avg_pool(input, output_size, 2)


def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of windows that cover the last three axes of (batch, c, depth, height, width) evenly.

    The batch may be left out. output_size: a number for all axes or one for each, where None keeps that of the input. Windows
    and errors: as for adaptive_avg_pool1d.

    >>> F.adaptive_avg_pool3d(sg.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5]]]])
    """
    return _adaptive_avg_pool(input, output_size, 3)


def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The maxima of output_size windows that cover the last axis of (batch, c, length) or (c, length) evenly.

    Windows and errors: as for adaptive_avg_pool1d. return_indices: also returns the positions, int32.

    >>> F.adaptive_max_pool1d(sg.tensor([[1.0, 2.0, 3.0]]), 2)
    tensor([[2., 3.]])
    """
    return _adaptive_max_pool(input, output_size, 1, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The maxima of windows that cover the last two axes of (batch, c, height, width) or (c, height, width) evenly.

    output_size: as for adaptive_avg_pool2d. return_indices: also returns the positions, int32.

    >>> F.adaptive_max_pool2d(sg.tensor([[[1.0, 3.0], [5.0, 7.0]]]), (1, None))
    tensor([[[5., 7.]]])
    """
    return _adaptive_max_pool(input, output_size, 2, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The maxima of windows that cover the last three axes of (batch, c, depth, height, width) evenly.

    The batch may be left out. output_size: as for adaptive_avg_pool3d. return_indices: also returns the positions, int32.

    >>> F.adaptive_max_pool3d(sg.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    return _adaptive_max_pool(input, output_size, 3, return_indices)
