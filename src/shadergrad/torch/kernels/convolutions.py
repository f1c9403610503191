"""Convolutions, forward and backward."""

from __future__ import annotations

from typing import Any

from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel
from .gradients import gradients


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
