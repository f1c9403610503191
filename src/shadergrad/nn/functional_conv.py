"""Convolution, pooling and resampling as functions. Shapes: (batch, channels, *size), or without the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import ShapeError
from ..graph.node import make
from ..primitives.reduce import lowest
from ..primitives.views import Flip, Pad, Slice
from ..primitives.window import Conv, Window, window_count
from ..tensor import Tensor, cat, wrap

Ints = int | Sequence[int]


def spread(value: Ints, rank: int, what: str) -> tuple[int, ...]:
    """One number for every spatial axis."""
    result = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(result) == 1:
        result = result * rank
    if len(result) != rank:
        raise ShapeError(f"[{what}] {value} has {len(result)} numbers for {rank} spatial axes.")
    return result


def _batched(input: Tensor, rank: int, what: str) -> tuple[Tensor, bool]:
    if input.ndim == rank + 1:
        return input.unsqueeze(0), False
    if input.ndim != rank + 2:
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {what}, but got input of size: {list(input.shape)}"
        )
    return input, True


def _pad(x: Tensor, low: Sequence[int], high: Sequence[int], value: float = 0.0, between: Sequence[int] = ()) -> Tensor:
    """Spatial axes padded, with `between` fill elements between neighbours."""
    interior = tuple(between) or (0,) * len(low)
    if not any((*low, *high, *interior)):
        return x
    lead = (0,) * (x.ndim - len(low))
    return wrap(make(Pad((*lead, *low), (*lead, *high), (*lead, *interior), value), x._node))


def _crop(x: Tensor, start: Sequence[int], sizes: Sequence[int]) -> Tensor:
    lead = x.ndim - len(start)
    wanted = (*x._node.shape[:lead], *sizes)
    if wanted == x._node.shape:
        return x
    return wrap(make(Slice((*(0,) * lead, *start), wanted, (1,) * x.ndim), x._node))


def _convolve(x: Tensor, weight: Tensor, groups: int, steps: tuple[int, ...], dilations: tuple[int, ...]) -> Tensor:
    """x (batch, groups * c, *size), weight (groups * o, c, *window), no padding."""
    batch, channels, *size = x.shape
    out, per_group, *window = weight.shape
    split = x.reshape(batch, groups, channels // groups, *size)
    split = split.permute(1, 0, *range(2, split.ndim))
    kernels = weight.reshape(groups, out // groups, per_group, *window)
    result = wrap(make(Conv(steps, dilations), split._node, kernels._node))
    result = result.permute(1, 0, *range(2, result.ndim))
    return result.reshape(batch, out, *result.shape[3:])


def _add_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias.reshape(-1, *(1,) * (x.ndim - 2))


def conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
    rank: int,
) -> Tensor:
    """The convolutions of `rank` spatial axes."""
    what = f"conv{rank}d"
    x, batched = _batched(input, rank, what)
    steps, dilations = spread(stride, rank, what), spread(dilation, rank, what)
    if weight.ndim != rank + 2 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ShapeError(
            f"[{what}] Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[1] * groups if weight.ndim > 1 else '?'} channels, but got {x.shape[1]} channels instead"
        )
    reach = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ShapeError(f"[{what}] padding must be 'same', 'valid' or numbers, not {padding!r}.")
        if padding == "same" and max(steps) > 1:
            raise ShapeError("padding='same' is not supported for strided convolutions")
        low = [n // 2 for n in reach] if padding == "same" else [0] * rank
        high = [n - m for n, m in zip(reach, low, strict=True)] if padding == "same" else [0] * rank
    else:
        low = high = list(spread(padding, rank, what))
    x = _pad(x, low, high)
    for n, k, d in zip(x.shape[2:], weight.shape[2:], dilations, strict=True):
        if n < d * (k - 1) + 1:
            raise ShapeError(
                f"[{what}] Calculated padded input size per channel: {list(x.shape[2:])}. Kernel size: {list(weight.shape[2:])}. "
                "Kernel size can't be greater than actual input size"
            )
    result = _add_bias(_convolve(x, weight, groups, steps, dilations), bias)
    return result if batched else result.squeeze(0)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """input (batch, c, length), weight (o, c / groups, k)."""
    return conv(input, weight, bias, stride, padding, dilation, groups, 1)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """input (batch, c, height, width), weight (o, c / groups, kh, kw)."""
    return conv(input, weight, bias, stride, padding, dilation, groups, 2)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """input (batch, c, depth, height, width), weight (o, c / groups, kd, kh, kw)."""
    return conv(input, weight, bias, stride, padding, dilation, groups, 3)


def conv_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
    rank: int,
) -> Tensor:
    """The gradient of a convolution with respect to its input, as an operation: weight (c, o / groups, *window)."""
    what = f"conv_transpose{rank}d"
    x, batched = _batched(input, rank, what)
    steps, dilations = spread(stride, rank, what), spread(dilation, rank, what)
    cut, extra = spread(padding, rank, what), spread(output_padding, rank, what)
    if weight.ndim != rank + 2 or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(f"[{what}] input is {tuple(input.shape)}, weight is {tuple(weight.shape)} (c, o / groups, …).")
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, dilations, strict=True)):
        raise ShapeError("output padding must be smaller than either stride or dilation")
    channels, per_group, *window = weight.shape
    reach = [d * (k - 1) for d, k in zip(dilations, window, strict=True)]
    x = _pad(x, reach, [r + e for r, e in zip(reach, extra, strict=True)], 0.0, [s - 1 for s in steps])
    kernels = wrap(make(Flip(tuple(range(2, weight.ndim))), weight._node))
    kernels = kernels.reshape(groups, channels // groups, per_group, *window).transpose(1, 2)
    kernels = kernels.reshape(groups * per_group, channels // groups, *window)
    full = _convolve(x, kernels, groups, (1,) * rank, dilations)
    sizes = [n - 2 * p for n, p in zip(full.shape[2:], cut, strict=True)]
    result = _add_bias(_crop(full, cut, sizes), bias)
    return result if batched else result.squeeze(0)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """input (batch, c, length), weight (c, o / groups, k)."""
    return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 1)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """input (batch, c, height, width), weight (c, o / groups, kh, kw)."""
    return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 2)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """input (batch, c, depth, height, width), weight (c, o / groups, kd, kh, kw)."""
    return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 3)


# -- pooling


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
            raise ShapeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
            )
        n = x.shape[2 + a]
        count = window_count(n + 2 * p, k, s, d)
        if ceil:
            rounded = -(-(n + 2 * p - d * (k - 1) - 1) // s) + 1
            if (rounded - 1) * s < n + p:  # the last window starts inside the input or its left border
                count = rounded
        if count < 1:
            raise ShapeError(
                f"[{what}] Given input size {tuple(x.shape[1:])}, the output size is too small: kernel {tuple(kernel)}."
            )
        high[a] = max(0, (count - 1) * s + d * (k - 1) + 1 - n - p)
    x = _pad(x, low, high, fill)
    axes = tuple(range(2, x.ndim))
    return wrap(make(Window(axes, tuple(kernel), tuple(steps), tuple(dilations)), x._node))


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
    """The largest of every window; the gradient goes to the first of equals."""
    what = f"max_pool{rank}d"
    x, batched = _batched(input, rank, what)
    kernel = spread(kernel_size, rank, what)
    steps = kernel if stride is None or stride == () or stride == [] else spread(stride, rank, what)
    pads, dilations = spread(padding, rank, what), spread(dilation, rank, what)
    windows = _windows(x, kernel, steps, pads, dilations, ceil_mode, lowest(x.dtype), what)
    flat = windows.reshape(*windows.shape[: 2 + rank], math.prod(kernel))
    values, places = flat.max(-1)
    if not batched:
        values, places = values.squeeze(0), places.squeeze(0)
    if not return_indices:
        return values
    return values, _plane_positions(places, kernel, steps, pads, dilations, x.shape[2:])


def _plane_positions(
    places: Tensor,
    kernel: Sequence[int],
    steps: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    size: Sequence[int],
) -> Tensor:
    """Row-major positions in the input plane of places within windows."""
    from ..tensor import arange

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
    """input (batch, c, length)."""
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
    """input (batch, c, height, width)."""
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
    """input (batch, c, depth, height, width)."""
    return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


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
    x, batched = _batched(input, rank, what)
    kernel = spread(kernel_size, rank, what)
    steps = kernel if stride is None or stride == () or stride == [] else spread(stride, rank, what)
    pads = spread(padding, rank, what)
    windows = _windows(x, kernel, steps, pads, (1,) * rank, ceil_mode, 0.0, what)
    axes = tuple(range(2 + rank, 2 + 2 * rank))
    total = windows.sum(axes)
    if divisor_override is not None:
        result = total / divisor_override
    else:
        result = total / Tensor(
            _window_sizes(x.shape[2:], windows.shape[2 : 2 + rank], kernel, steps, pads, count_include_pad),
            dtype=x.dtype,
            device=x.device,
        )
    return result if batched else result.squeeze(0)


def _window_sizes(
    size: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int],
    pads: Sequence[int],
    include_pad: bool,
) -> np.ndarray:
    """How many elements each window averages over; padding counts up to the right border only."""
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
    """input (batch, c, length)."""
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
    """input (batch, c, height, width)."""
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
    """input (batch, c, depth, height, width)."""
    return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


def _adaptive_spans(size: int, count: int) -> list[tuple[int, int]]:
    """Where the `count` windows that cover an axis start and end."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_sizes(input: Tensor, output_size: Ints | Sequence[int | None], rank: int) -> tuple[int, ...]:
    wanted = (output_size,) * rank if isinstance(output_size, int) or output_size is None else tuple(output_size)
    return tuple(n if m is None else m for n, m in zip(input.shape[-rank:], wanted, strict=True))


def along_axis(x: Tensor, axis: int, matrix: np.ndarray) -> Tensor:
    """A constant linear map (out, in) applied along an axis."""
    constant = Tensor(matrix, dtype=x.dtype, device=x.device)
    moved = x.transpose(axis, -1) @ constant.t()
    return moved.transpose(axis, -1)


def adaptive_avg_pool(input: Tensor, output_size: Ints, rank: int) -> Tensor:
    """The means of windows that cover the input evenly."""
    x = input
    for a, count in enumerate(_adaptive_sizes(input, output_size, rank)):
        axis = input.ndim - rank + a
        size = input.shape[axis]
        if size % count == 0:
            x = x.reshape(*x.shape[:axis], count, size // count, *x.shape[axis + 1 :]).mean(axis + 1)
            continue
        matrix = np.zeros((count, size))
        for i, (start, end) in enumerate(_adaptive_spans(size, count)):
            matrix[i, start:end] = 1.0 / (end - start)
        x = along_axis(x, axis, matrix)
    return x


def adaptive_max_pool(input: Tensor, output_size: Ints, rank: int) -> Tensor:
    """The largest of windows that cover the input evenly."""
    x = input
    for a, count in enumerate(_adaptive_sizes(input, output_size, rank)):
        axis = input.ndim - rank + a
        spans = _adaptive_spans(input.shape[axis], count)
        widest = max(end - start for start, end in spans)
        table = np.array([[min(start + k, end - 1) for k in range(widest)] for start, end in spans], np.int32)
        picked = x.index_select(axis, Tensor(table.reshape(-1), device=x.device))
        x = picked.reshape(*x.shape[:axis], count, widest, *x.shape[axis + 1 :]).max(axis + 1)[0]
    return x


def adaptive_avg_pool1d(input: Tensor, output_size: Ints) -> Tensor:
    return adaptive_avg_pool(input, output_size, 1)


def adaptive_avg_pool2d(input: Tensor, output_size: Ints) -> Tensor:
    return adaptive_avg_pool(input, output_size, 2)


def adaptive_avg_pool3d(input: Tensor, output_size: Ints) -> Tensor:
    return adaptive_avg_pool(input, output_size, 3)


def adaptive_max_pool1d(input: Tensor, output_size: Ints) -> Tensor:
    return adaptive_max_pool(input, output_size, 1)


def adaptive_max_pool2d(input: Tensor, output_size: Ints) -> Tensor:
    return adaptive_max_pool(input, output_size, 2)


def adaptive_max_pool3d(input: Tensor, output_size: Ints) -> Tensor:
    return adaptive_max_pool(input, output_size, 3)


# -- resampling


def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """(batch, c, *size) at another size; mode 'nearest', 'linear', 'bilinear' or 'trilinear'."""
    rank = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ShapeError("only one of size or scale_factor should be defined")
    linear = {"linear": 1, "bilinear": 2, "trilinear": 3}
    if mode != "nearest" and linear.get(mode) != rank:
        raise ShapeError(f"[interpolate] mode {mode!r} does not fit an input of {rank} spatial axes.")
    if mode == "nearest" and align_corners is not None:
        raise ShapeError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | trilinear"
        )
    factors = (scale_factor,) * rank if isinstance(scale_factor, int | float) else scale_factor
    x = input
    for a in range(rank):
        n = input.shape[2 + a]
        if size is not None:
            m, ratio = spread(size, rank, "interpolate")[a], n / spread(size, rank, "interpolate")[a]
        else:
            assert factors is not None
            m, ratio = math.floor(n * factors[a]), 1.0 / factors[a]
        x = _resample(x, 2 + a, n, m, ratio, mode == "nearest", bool(align_corners))
    return x


upsample = interpolate  # its older name


def _resample(x: Tensor, axis: int, n: int, m: int, ratio: float, nearest: bool, align_corners: bool) -> Tensor:
    if nearest:
        if m % n == 0 and ratio == n / m:
            wide = x.unsqueeze(axis + 1).expand(*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :])
            return wide.reshape(*x.shape[:axis], m, *x.shape[axis + 1 :])
        table = np.minimum(np.floor(np.arange(m) * np.float32(ratio)).astype(np.int32), n - 1)
        return x.index_select(axis, Tensor(table, device=x.device))
    if align_corners:
        position = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        position = np.maximum((np.arange(m) + 0.5) * ratio - 0.5, 0.0)
    low = np.minimum(np.floor(position).astype(int), n - 1)
    high = np.minimum(low + 1, n - 1)
    share = position - low
    matrix = np.zeros((m, n))
    np.add.at(matrix, (np.arange(m), low), 1.0 - share)
    np.add.at(matrix, (np.arange(m), high), share)
    return along_axis(x, axis, matrix)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., c * r * r, h, w) to (..., c, h * r, w * r)."""
    r = upscale_factor
    *lead, channels, h, w = input.shape
    if channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but {channels} is not divisible by {r * r}"
        )
    k = len(lead)
    x = input.reshape(*lead, channels // (r * r), r, r, h, w)
    x = x.permute(*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return x.reshape(*lead, channels // (r * r), h * r, w * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of pixel_shuffle."""
    r = downscale_factor
    *lead, channels, h, w = input.shape
    k = len(lead)
    x = input.reshape(*lead, channels, h // r, r, w // r, r)
    x = x.permute(*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return x.reshape(*lead, channels * r * r, h // r, w // r)


def unfold(input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Tensor:
    """(batch, c, h, w) to (batch, c * kh * kw, windows): im2col, a view until somebody needs it."""
    kernel, dilations = spread(kernel_size, 2, "unfold"), spread(dilation, 2, "unfold")
    pads, steps = spread(padding, 2, "unfold"), spread(stride, 2, "unfold")
    x = _pad(input, pads, pads)
    windows = wrap(make(Window((2, 3), kernel, steps, dilations), x._node))
    batch, channels, rows, columns = windows.shape[:4]
    return windows.permute(0, 1, 4, 5, 2, 3).reshape(batch, channels * math.prod(kernel), rows * columns)


def fold(
    input: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The adjoint of unfold: overlapping windows added up."""
    from ..primitives.window import Fold

    size, kernel = spread(output_size, 2, "fold"), spread(kernel_size, 2, "fold")
    dilations, pads, steps = spread(dilation, 2, "fold"), spread(padding, 2, "fold"), spread(stride, 2, "fold")
    lengths = tuple(n + 2 * p for n, p in zip(size, pads, strict=True))
    counts = tuple(map(window_count, lengths, kernel, steps, dilations))
    batch, rows, columns = input.shape
    if rows % math.prod(kernel) or columns != math.prod(counts):
        raise ShapeError(
            f"[fold] input is {tuple(input.shape)}; kernel {kernel} and output {size} want {math.prod(counts)} windows."
        )
    x = input.reshape(batch, rows // math.prod(kernel), *kernel, *counts).permute(0, 1, 4, 5, 2, 3)
    full = wrap(make(Fold((2, 3), lengths, steps, dilations), x._node))
    return _crop(full, pads, size)


def pad_edges(input: Tensor, edges: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """The last axes padded (before, after) from the input itself: mode 'reflect', 'replicate' or 'circular'."""
    x = input
    for a, (low, high) in enumerate(edges):
        axis = input.ndim - len(edges) + a
        n = input.shape[axis]
        if mode == "reflect" and max(low, high) >= n:
            raise ShapeError(
                f"Padding size should be less than the corresponding input dimension, but got padding ({low}, {high}) at size {n}"
            )
        if mode == "circular" and max(low, high) > n:
            raise ShapeError("Padding value causes wrapping around more than once.")
        if not (low or high):
            continue
        before = x.narrow(axis, 0, 1)
        after = x.narrow(axis, n - 1, 1)
        if mode == "replicate":
            parts = [
                before.expand(*(low if b == axis else -1 for b in range(x.ndim))),
                x,
                after.expand(*(high if b == axis else -1 for b in range(x.ndim))),
            ]
        elif mode == "reflect":
            parts = [x.narrow(axis, 1, low).flip(axis), x, x.narrow(axis, n - 1 - high, high).flip(axis)]
        else:
            parts = [x.narrow(axis, n - low, low), x, x.narrow(axis, 0, high)]
        x = cat([p for p in parts if p.shape[axis]], axis)
    return x
