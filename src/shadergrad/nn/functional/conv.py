"""Convolutions, and their windows as columns. Shapes: (batch, channels, *size), or without the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import DTypeError, ShapeError
from ...graph import build
from ...graph.node import make
from ...primitives.views import Flip
from ...primitives.window import Conv, Fold, window_count
from ...tensor import Tensor, wrap
from ...tensor.composed import composed
from ..arguments import per_axis, whole
from ..errors import ArgumentError
from .sliding_windows import Ints, batched_input, cropped, padded, windows

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "fold", "unfold"]


def _convolve(x: Tensor, weight: Tensor, groups: int, conv: Conv) -> Tensor:
    """x (batch, groups * c, *size), weight (groups * o, c, *window)."""
    batch, channels, *size = x.shape
    out, per_group, *window = weight.shape
    split = build.reshape(x._node, (batch, groups, channels // groups, *size))
    split = build.permute(split, (1, 0, *range(2, split.ndim)))
    kernels = build.reshape(weight._node, (groups, out // groups, per_group, *window))
    result = make(conv, split, kernels)
    result = build.permute(result, (1, 0, *range(2, result.ndim)))
    return wrap(build.reshape(result, (batch, out, *result.shape[3:])))


def _column(bias: Tensor | None, rank: int) -> Tensor | None:
    """The bias, reshaped for the channels. Its nodes are made before the convolution, so that the weight gets its gradient first; hooks in
    PyTorch observe this order.
    """
    return None if bias is None else bias.reshape(-1, *(1,) * rank)


def _add_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias


@composed
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
    x, batched = batched_input(input, rank, what)
    steps, dilations = per_axis(what, "stride", stride, rank, 1), per_axis(what, "dilation", dilation, rank, 1)
    groups = _checked(what, weight, weight.shape[:1], bias, groups, rank)
    if x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(
            f"[{what}] Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[1] * groups} channels, but got {x.shape[1]} channels instead"
        )
    reach = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ArgumentError(
                f"{what}(): Invalid padding string: expected 'same', 'valid' or numbers, but got padding={padding!r}."
            )
        if padding == "same" and max(steps) > 1:
            raise ArgumentError(
                f"{what}(): padding='same' is not supported for strided convolutions, but got stride={stride}."
            )
        low = [n // 2 for n in reach] if padding == "same" else [0] * rank
        high = [n - m for n, m in zip(reach, low, strict=True)] if padding == "same" else [0] * rank
    else:
        low = high = list(per_axis(what, "padding", padding, rank, 0))
    primitive = Conv(steps, dilations, tuple(low), tuple(high))
    sizes = [n + a + b for n, a, b in zip(x.shape[2:], low, high, strict=True)]
    for n, k, d in zip(sizes, weight.shape[2:], dilations, strict=True):
        if n < d * (k - 1) + 1:
            raise ShapeError(
                f"[{what}] Calculated padded input size per channel: {sizes}. Kernel size: {list(weight.shape[2:])}. "
                f"Kernel size can't be greater than actual input size, with dilation={dilation}"
            )
    column = _column(bias, rank)
    result = _add_bias(_convolve(x, weight, groups, primitive), column)
    return result if batched else result.squeeze(0)


def _checked(what: str, weight: Tensor, outputs: Sequence[int], bias: Tensor | None, groups: int, rank: int) -> int:
    """The number of groups. Raises if weight, bias and groups do not fit."""
    groups = whole(what, "groups", groups, 1)
    if weight.ndim != rank + 2:
        raise ShapeError(
            f"[{what}] weight must have {rank + 2} dimensions, but got weight of size {list(weight.shape)}."
        )
    if weight.shape[0] % groups:
        raise ShapeError(
            f"[{what}] Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(weight.shape)} instead"
        )
    if min(weight.shape[2:]) < 1:
        raise ShapeError(
            f"[{what}] kernel size should be greater than zero, but got weight of size {list(weight.shape)}."
        )
    if bias is not None and tuple(bias.shape) != tuple(outputs):
        raise ShapeError(
            f"[{what}] Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {outputs[0]} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )
    if bias is not None and bias.dtype is not weight.dtype:
        raise DTypeError(f"[{what}] weight is {weight.dtype.name} and bias {bias.dtype.name}; they should be the same.")
    return groups


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of input (batch, c, length) with weight (o, c / groups, k), plus bias (o,).

    The result is (batch, o, floor((length + 2 padding - dilation (k - 1) - 1) / stride) + 1). The batch may be left
    out.
    padding: zeros on both sides, or 'valid' for none, or 'same' for as many windows as elements, with stride 1.
    groups: the number of groups of channels; outputs of a group depend on inputs of the same group only.
    ShapeError if shapes do not fit, ArgumentError for numbers out of range or another word, ArgumentTypeError for
    anything but a whole number.

    >>> F.conv1d(sg.tensor([[1.0, 2.0, 4.0, 8.0]]), sg.tensor([[[-1.0, 1.0]]]))
    tensor([[1., 2., 4.]])
    """
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
    """The cross-correlation of input (batch, c, height, width) with weight (o, c / groups, kh, kw), plus bias (o,).

    The result is (batch, o, rows, columns) of windows. stride, padding and dilation: a number for both axes or one for
    each.
    Their meaning, groups, and errors: as for conv1d. The batch may be left out.

    >>> F.conv2d(sg.arange(4.0).reshape(1, 2, 2), sg.ones(1, 1, 2, 2), sg.tensor([10.0]))
    tensor([[[16.]]])
    >>> F.conv2d(sg.zeros(8, 3, 32, 32), sg.zeros(16, 3, 3, 3), stride=2, padding=1).shape
    shadergrad.Size([8, 16, 16, 16])
    """
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
    """The cross-correlation along three spatial axes: weight (o, c / groups, kd, kh, kw), bias (o,).

    input (batch, c, depth, height, width): (batch, o, ...) of windows.
    stride, padding and dilation: a number for all three axes or one for each. Their meaning, groups, and errors: as for
    conv1d. The batch may be left out.

    >>> F.conv3d(sg.ones(1, 2, 2, 2), sg.ones(1, 1, 2, 2, 2))
    tensor([[[[8.]]]])
    """
    return conv(input, weight, bias, stride, padding, dilation, groups, 3)


@composed
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
    x, batched = batched_input(input, rank, what)
    steps, dilations = per_axis(what, "stride", stride, rank, 1), per_axis(what, "dilation", dilation, rank, 1)
    cut = per_axis(what, "padding", padding, rank, 0)
    extra = per_axis(what, "output_padding", output_padding, rank, 0)
    outputs = (weight.shape[1] * groups,) if weight.ndim > 1 and isinstance(groups, int) else ()
    groups = _checked(what, weight, outputs, bias, groups, rank)
    if x.shape[1] != weight.shape[0]:
        raise ShapeError(
            f"[{what}] weight of size {list(weight.shape)} takes {weight.shape[0]} channels, but got input of size "
            f"{list(input.shape)}."
        )
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, dilations, strict=True)):
        raise ArgumentError(
            f"{what}(): output padding must be smaller than either stride or dilation, but got "
            f"output_padding={output_padding}, stride={stride}, dilation={dilation}."
        )
    channels, per_group, *window = weight.shape
    reach = [d * (k - 1) for d, k in zip(dilations, window, strict=True)]
    counts = [(n - 1) * s + 1 + r + e for n, s, r, e in zip(x.shape[2:], steps, reach, extra, strict=True)]
    sizes = [n - 2 * p for n, p in zip(counts, cut, strict=True)]
    if min(sizes) < 1:
        raise ShapeError(
            f"[{what}] Given input size per channel: {list(x.shape[2:])}. Calculated output size per channel: {sizes}. "
            f"Output size is too small, with padding={padding}."
        )
    column = _column(bias, rank)
    kernels = wrap(make(Flip(tuple(range(2, weight.ndim))), weight._node))
    kernels = kernels.reshape(groups, channels // groups, per_group, *window).transpose(1, 2)
    kernels = kernels.reshape(groups * per_group, channels // groups, *window)
    low = tuple(r - p for r, p in zip(reach, cut, strict=True))
    high = tuple(r + e - p for r, e, p in zip(reach, extra, cut, strict=True))
    result = _add_bias(_convolve(x, kernels, groups, Conv((1,) * rank, dilations, low, high, steps)), column)
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
    """The gradient of conv1d with respect to its input, as an operation (Zeiler et al., 2010).

    input (batch, c, length), weight (c, o / groups, k), bias (o,): (batch, o, (length - 1) stride - 2 padding +
    dilation (k - 1) + output_padding + 1).
    output_padding: additional elements at the end, fewer than stride or dilation. The batch may be left out.
    ShapeError if shapes do not fit, ArgumentError for numbers out of range.

    >>> F.conv_transpose1d(sg.tensor([[1.0, 2.0]]), sg.tensor([[[1.0, 1.0, 1.0]]]), stride=2)
    tensor([[1., 1., 3., 2., 2.]])
    """
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
    """The gradient of conv2d with respect to its input, as an operation.

    input (batch, c, height, width), weight (c, o / groups, kh, kw), bias (o,). Sizes, arguments and errors: as for
    conv_transpose1d, with a number for both axes or one for each.

    >>> F.conv_transpose2d(sg.tensor([[[1.0, 2.0]]]), sg.ones(1, 1, 2, 2), stride=2)
    tensor([[[1., 1., 2., 2.],
             [1., 1., 2., 2.]]])
    """
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
    """The gradient of conv3d with respect to its input, as an operation.

    input (batch, c, depth, height, width), weight (c, o / groups, kd, kh, kw), bias (o,). Sizes, arguments and errors:
    as for conv_transpose1d, with a number for all three axes or one for each.

    >>> F.conv_transpose3d(sg.zeros(1, 2, 3, 3, 3), sg.zeros(2, 4, 2, 2, 2), stride=2).shape
    shadergrad.Size([1, 4, 6, 6, 6])
    """
    return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 3)


# -- windows as columns


def unfold(input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Tensor:
    """Windows as columns (im2col): (batch, c, h, w) or (c, h, w) to (batch, c * kh * kw, windows) or without batch.

    A view: nothing is copied until an operation needs the elements. ShapeError if no window fits, ArgumentError for
    numbers out of range.

    >>> F.unfold(sg.arange(6.0).reshape(1, 2, 3), (2, 2))
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])
    """
    kernel, dilations, pads, steps = _columns("unfold", kernel_size, dilation, padding, stride)
    x, batched = batched_input(input, 2, "unfold")
    counts = _counts(x.shape[2:], kernel, steps, pads, dilations)
    if min(counts) < 1:
        raise ShapeError(
            f"[unfold] input of size {list(input.shape)} is too small for kernel_size={kernel_size}, dilation={dilation}, "
            f"padding={padding}: {counts} windows."
        )
    found = windows(padded(x, pads, pads), kernel, steps, dilations).permute(0, 1, 4, 5, 2, 3)
    result = found.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts))
    return result if batched else result.squeeze(0)


def _columns(what: str, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> list[tuple[int, ...]]:
    """Kernel, dilations, padding and steps of two axes."""
    least = {"kernel_size": (kernel_size, 1), "dilation": (dilation, 1), "padding": (padding, 0), "stride": (stride, 1)}
    return [per_axis(what, name, value, 2, bound) for name, (value, bound) in least.items()]


def _counts(
    size: Sequence[int], kernel: Sequence[int], steps: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """The number of windows along each axis."""
    lengths = [n + 2 * p for n, p in zip(size, pads, strict=True)]
    return tuple(map(window_count, lengths, kernel, steps, dilations))


def fold(
    input: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The adjoint of unfold: (batch, c * kh * kw, windows) to (batch, c, *output_size), overlapping elements added up.

    The batch may be left out. ShapeError if the rows or the windows do not fit, ArgumentError for numbers out of
    range.

    >>> F.fold(sg.ones(2, 2), output_size=(1, 3), kernel_size=(1, 2))
    tensor([[[1., 2., 1.]]])
    """
    size = per_axis("fold", "output_size", output_size, 2, 1)
    kernel, dilations, pads, steps = _columns("fold", kernel_size, dilation, padding, stride)
    counts = _counts(size, kernel, steps, pads, dilations)
    x, batched = batched_input(input, 1, "fold")
    batch, rows, columns = x.shape
    if rows % math.prod(kernel) or columns != math.prod(counts) or min(counts) < 1:
        raise ShapeError(
            f"[fold] input is {list(input.shape)}; kernel_size={kernel_size} and output_size={output_size} want a multiple "
            f"of {math.prod(kernel)} rows and {counts} windows."
        )
    x = x.reshape(batch, rows // math.prod(kernel), *kernel, *counts).permute(0, 1, 4, 5, 2, 3)
    lengths = tuple(n + 2 * p for n, p in zip(size, pads, strict=True))
    result = cropped(wrap(make(Fold((2, 3), lengths, steps, dilations), x._node)), pads, size)
    return result if batched else result.squeeze(0)
