"""Max unpooling, power-average pooling, and fractional max pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...dtypes import int32
from ...errors import ShapeError
from ...tensor import Tensor, arange, rand, zeros
from ..arguments import per_axis, refuse
from ..arguments import sizes as sizes_of
from ..errors import ArgumentError
from .pooled_inputs import check_dtype, check_elements, check_indices, check_samples, for_each_axis
from .pooling import avg_pool
from .sliding_windows import Ints, batched_input

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _unpool(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None, padding: Ints, output_size: Any, rank: int
) -> Tensor:
    what = f"max_unpool{rank}d"
    if input.shape != indices.shape:
        raise ShapeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices tensor "
            f"with shape: {list(indices.shape)}"
        )
    x, batched = batched_input(input, rank, what)
    check_indices(what, indices)
    check_elements(what, input)
    check_dtype(what, x)
    kernel = for_each_axis(what, "kernel_size", kernel_size, rank, 1)
    steps = kernel if stride is None or stride == () or stride == [] else per_axis(what, "stride", stride, rank, 1)
    pads = per_axis(what, "padding", padding, rank, 0)
    usual = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], steps, pads, kernel, strict=True)]
    sizes = usual if output_size is None else _wanted(what, output_size, rank)
    for n, m, s in zip(usual, sizes, steps, strict=True):
        if output_size is not None and not n - s < m < n + s:
            raise ArgumentError(f"{what}(): invalid output_size {sizes} (each must be less than a stride off {usual})")
    if min(sizes, default=1) < 1:
        raise ShapeError(f"[{what}] the output would be of size {sizes}.")
    batch, channels = x.shape[:2]
    empty = zeros(batch, channels, math.prod(sizes), dtype=x.dtype, device=x.device)
    count = math.prod(x.shape[2:])
    flat, values = indices.reshape(batch, channels, count), x.reshape(batch, channels, count)
    result = empty.scatter(2, flat, values.detach())
    if values.requires_grad:  # overlapping windows may have the same maximum: each gets the whole gradient
        result = result + empty.scatter_add(2, flat, values - values.detach())
    result = result.reshape(batch, channels, *sizes)
    return result if batched else result.squeeze(0)


def _wanted(what: str, output_size: Any, rank: int) -> list[int]:
    """The sizes that an argument gives, with or without those of the batch and the channels."""
    if not isinstance(output_size, Sequence):
        refuse(what, "output_size", output_size, "a tuple of ints")
    wanted = sizes_of(what, "output_size", output_size)
    if len(wanted) not in (rank, rank + 2):
        raise ArgumentError(f"{what}(): output_size must have {rank} or {rank + 2} elements, but got {wanted}.")
    return list(wanted[-rank:])


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The inverse of max_pool1d: its results at the positions of its indices, and zeros elsewhere.

    input: floats; indices: int64 or int32, else DTypeError. output_size: the size of the result, if several sizes are possible.
    ShapeError if the shapes of indices and input differ, or an axis other than the batch is empty. ArgumentError for an impossible
    size. A position beyond the result raises IndexRangeError.

    >>> values, places = F.max_pool1d(sg.tensor([[1.0, 5.0, 2.0, 3.0]]), 2, return_indices=True)
    >>> F.max_unpool1d(values, places, 2)
    tensor([[0., 5., 0., 3.]])
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The inverse of max_pool2d. Arguments and errors: as for max_unpool1d.

    >>> values, places = F.max_pool2d(sg.tensor([[[1.0, 2.0], [4.0, 3.0]]]), 2, return_indices=True)
    >>> F.max_unpool2d(values, places, 2)
    tensor([[[0., 0.],
             [4., 0.]]])
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The inverse of max_pool3d. Arguments and errors: as for max_unpool1d.

    >>> values, places = F.max_pool3d(sg.arange(8.0).reshape(1, 2, 2, 2), 2, return_indices=True)
    >>> F.max_unpool3d(values, places, 2).sum()
    tensor(7.)
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 3)


def _lp_pool(input: Tensor, p: float, kernel_size: Ints, stride: Ints | None, ceil_mode: bool, rank: int) -> Tensor:
    kernel = for_each_axis(f"lp_pool{rank}d", "kernel_size", kernel_size, rank, 1)
    mean = avg_pool(input.pow(p), kernel, stride, 0, ceil_mode, True, None, rank)
    return (mean.sign() * mean.abs().relu() * math.prod(kernel)).pow(1.0 / p)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """The p-th root of the sum of p-th powers of every window of (batch, c, length), p = norm_type.

    Windows: as for avg_pool1d.

    >>> F.lp_pool1d(sg.tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """lp_pool1d over the last two axes of (batch, c, height, width).

    >>> F.lp_pool2d(sg.tensor([[[[3.0], [4.0]]]]), 2, (2, 1))
    tensor([[[[5.]]]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """lp_pool1d over the last three axes of (batch, c, depth, height, width).

    >>> F.lp_pool3d(sg.tensor([[[[[3.0], [4.0]]]]]), 2, (1, 2, 1))
    tensor([[[[[5.]]]]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


def _fractional(
    input: Tensor, kernel_size: Ints, output_size: Any, output_ratio: Any, return_indices: bool, samples: Any, rank: int
) -> Any:
    what = f"fractional_max_pool{rank}d"
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{what} requires specifying either an output_size or an output_ratio")
    x, batched = batched_input(input, rank, what)
    check_elements(what, input)
    check_dtype(what, x)
    kernel = for_each_axis(what, "kernel_size", kernel_size, rank, 1)
    if output_size is None:
        ratios = [output_ratio] * rank if isinstance(output_ratio, int | float) else list(output_ratio)
        if len(ratios) != rank:
            raise ArgumentError(f"{what}: output_ratio must be of one or {rank} axes, but got {output_ratio}.")
        counts = tuple(int(n * r) for n, r in zip(x.shape[2:], ratios, strict=True))
    else:
        counts = for_each_axis(what, "output_size", output_size, rank)
    for n, k, m in zip(x.shape[2:], kernel, counts, strict=True):
        if m < 0 or m + k - 1 > n - (rank == 3):  # for volumes, PyTorch requires one more element
            raise ShapeError(f"{what}(): {m} windows of {k} elements do not fit a size of {n}")
    batch, channels = x.shape[:2]
    if samples is not None:
        check_samples(what, samples, x, rank)
    drawn = rand(batch, channels, rank, dtype=x.dtype, device=x.device) if samples is None else samples[:batch]
    sizes = list(zip(x.shape[2:], kernel, counts, strict=True))
    along = {size: _positions(drawn, *size) for size in dict.fromkeys(sizes)}  # once for equal axes
    places: Any = None  # in the plane, row by row: (batch, channels, *counts, *kernel)
    for a, (n, k, m) in enumerate(sizes):
        shape = [1] * (2 * rank)
        shape[a], shape[rank + a] = m, k
        drawn_first = a if rank == 3 else 1 - a  # PyTorch draws columns first, then rows, for images
        at = along[n, k, m][:, :, drawn_first].reshape(batch, channels, *shape)
        places = at if places is None else places * n + at
    size = math.prod(kernel)
    places = places.expand(batch, channels, *counts, *kernel).reshape(batch, channels, *counts, size)
    windows = x.flatten(2).gather(2, places.flatten(2)).reshape(batch, channels, *counts, size)
    values, best = windows.max(-1)
    if not return_indices:
        return values if batched else values.squeeze(0)
    flat = places.gather(-1, best.unsqueeze(-1)).squeeze(-1)
    return (values, flat) if batched else (values.squeeze(0), flat.squeeze(0))


def _positions(u: Tensor, n: int, k: int, m: int) -> Tensor:
    """The elements (*, m, k) of the m windows of an axis, for draws u of any shape (Graham, "Fractional max-pooling", 2014)."""
    u = u.detach().unsqueeze(-1)
    if m == 1:
        begin = u.to(dtype=int32) * 0 + (n - k)
    else:
        step, window = (n - k) / (m - 1), arange(m, device=u.device)
        begin = ((u + window) * step).to(dtype=int32) - (u * step).to(dtype=int32)
        begin = begin.masked_fill(window == m - 1, n - k)
    return begin.unsqueeze(-1) + arange(k, device=u.device)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows of (batch, c, h, w) with random, approximately even starts (Graham, 2014).

    output_size, or output_ratio of the input's size; 0 gives an empty axis. return_indices: also returns the positions, int32. The
    draws come from the generator of the input's device. ArgumentError unless exactly one of the sizes is given, ShapeError if the
    windows do not fit or an axis but the batch is empty, DTypeError for integers.

    >>> F.fractional_max_pool2d(sg.rand(1, 1, 5, 5), 2, output_size=3).shape
    shadergrad.Size([1, 1, 3, 3])
    """
    return _fractional(input, kernel_size, output_size, output_ratio, return_indices, _random_samples, 2)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """fractional_max_pool2d over the last three axes of (batch, c, depth, height, width).

    >>> F.fractional_max_pool3d(sg.rand(1, 1, 5, 5, 5), 2, output_ratio=0.6).shape
    shadergrad.Size([1, 1, 3, 3, 3])
    """
    return _fractional(input, kernel_size, output_size, output_ratio, return_indices, _random_samples, 3)
