"""Convolutions and pooling, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shadergrad as sg
from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel


def gradients(function: Callable[..., Tensor], inputs: list[Any], g: Tensor) -> Any:
    """Gradients of one of our functions by its inputs: its own rules, over the same graph. None among the inputs is passed over."""
    with sg.enable_grad():
        leaves = [None if x is None else x.detach().requires_grad_() for x in inputs]
        return sg.autograd.grad(function(*leaves), [x for x in leaves if x is not None], g)


@kernel("convolution", "convolution_overrideable")
def convolution(
    x: Tensor,
    w: Tensor,
    b: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    n = w.dim() - 2
    if transposed:
        up = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
        return up(x, w, b, tuple(stride), tuple(padding), tuple(output_padding), groups, tuple(dilation))
    down = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return down(x, w, b, tuple(stride), tuple(padding), tuple(dilation), groups)


@kernel("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(
    g: Tensor,
    x: Tensor,
    w: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)

    dx, dw = gradients(forward, [x, w], g)
    return dx if mask[0] else None, dw if mask[1] else None, g.sum((0, *range(2, g.dim()))) if mask[2] else None


def _pooled(x: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, n: int) -> Any:
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    return pool(x, tuple(size), tuple(stride) or None, tuple(padding), tuple(dilation), ceil, return_indices=True)


@kernel("max_pool2d_with_indices")
def max_pool2d(
    x: Tensor, size: Any, stride: Any = (), padding: Any = (0, 0), dilation: Any = (1, 1), ceil: bool = False
) -> Any:
    y, at = _pooled(x, size, stride, padding, dilation, ceil, 2)
    return y, at.to(sg.int64)


@kernel("max_pool3d_with_indices")
def max_pool3d(
    x: Tensor, size: Any, stride: Any = (), padding: Any = (0, 0, 0), dilation: Any = (1, 1, 1), ceil: bool = False
) -> Any:
    y, at = _pooled(x, size, stride, padding, dilation, ceil, 3)
    return y, at.to(sg.int64)


@kernel("max_pool2d_with_indices_backward")
def max_pool2d_backward(
    g: Tensor, x: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, at: Tensor
) -> Any:
    return gradients(lambda x: _pooled(x, size, stride, padding, dilation, ceil, 2)[0], [x], g)[0]


@kernel("max_pool3d_with_indices_backward")
def max_pool3d_backward(
    g: Tensor, x: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, at: Tensor
) -> Any:
    return gradients(lambda x: _pooled(x, size, stride, padding, dilation, ceil, 3)[0], [x], g)[0]


@kernel("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(x: Tensor, size: Any) -> Tensor:
    return F.adaptive_avg_pool2d(x, tuple(size))


@kernel("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(g: Tensor, x: Tensor) -> Any:
    return gradients(lambda x: F.adaptive_avg_pool2d(x, g.shape[-2:]), [x], g)[0]


@kernel("_adaptive_avg_pool3d")
def adaptive_avg_pool3d(x: Tensor, size: Any) -> Tensor:
    return F.adaptive_avg_pool3d(x, tuple(size))


@kernel("_adaptive_avg_pool3d_backward")
def adaptive_avg_pool3d_backward(g: Tensor, x: Tensor) -> Any:
    return gradients(lambda x: F.adaptive_avg_pool3d(x, g.shape[-3:]), [x], g)[0]


@kernel("avg_pool2d_backward")
def avg_pool2d_backward(
    g: Tensor, x: Tensor, size: Any, stride: Any, padding: Any, ceil: bool, count_pad: bool, divisor: Any
) -> Any:
    def pool(x: Tensor) -> Tensor:
        return F.avg_pool2d(x, tuple(size), tuple(stride) or None, tuple(padding), ceil, count_pad, divisor)

    return gradients(pool, [x], g)[0]


@kernel("avg_pool3d_backward")
def avg_pool3d_backward(
    g: Tensor, x: Tensor, size: Any, stride: Any, padding: Any, ceil: bool, count_pad: bool, divisor: Any
) -> Any:
    def pool(x: Tensor) -> Tensor:
        return F.avg_pool3d(x, tuple(size), tuple(stride) or None, tuple(padding), ceil, count_pad, divisor)

    return gradients(pool, [x], g)[0]
