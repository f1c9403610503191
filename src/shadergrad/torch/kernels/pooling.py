"""Pooling, forward and backward."""

from __future__ import annotations

import math
from typing import Any

import shadergrad as sg
from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel
from .gradients import gradients


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


@kernel("adaptive_max_pool2d")
def adaptive_max_pool2d(x: Tensor, size: Any) -> Any:
    y, at = F.adaptive_max_pool2d(x, tuple(size), return_indices=True)
    return y, at.to(sg.int64)


@kernel("adaptive_max_pool3d")
def adaptive_max_pool3d(x: Tensor, size: Any) -> Any:
    y, at = F.adaptive_max_pool3d(x, tuple(size), return_indices=True)
    return y, at.to(sg.int64)


def _put_back(g: Tensor, x: Tensor, at: Tensor, n: int) -> Tensor:
    """The gradient, added at the positions that the forward pass stored, which number the last n axes of x as one."""
    outer = tuple(x.shape[: x.dim() - n])
    flat = sg.zeros((*outer, math.prod(x.shape[x.dim() - n :])), dtype=g.dtype, device=g.device)
    return flat.scatter_add(-1, at.reshape(*outer, -1), g.reshape(*outer, -1)).reshape(x.shape)


kernel("adaptive_max_pool2d_backward")(lambda g, x, at: _put_back(g, x, at, 2))
kernel("adaptive_max_pool3d_backward")(lambda g, x, at: _put_back(g, x, at, 3))
kernel("fractional_max_pool2d_backward")(lambda g, x, size, shape, at: _put_back(g, x, at, 2))
kernel("fractional_max_pool3d_backward")(lambda g, x, size, shape, at: _put_back(g, x, at, 3))


@kernel("fractional_max_pool2d")
def fractional_max_pool2d(x: Tensor, size: Any, shape: Any, samples: Tensor) -> Any:
    y, at = F.fractional_max_pool2d(x, tuple(size), tuple(shape), return_indices=True, _random_samples=samples)
    return y, at.to(sg.int64)


@kernel("fractional_max_pool3d")
def fractional_max_pool3d(x: Tensor, size: Any, shape: Any, samples: Tensor) -> Any:
    y, at = F.fractional_max_pool3d(x, tuple(size), tuple(shape), return_indices=True, _random_samples=samples)
    return y, at.to(sg.int64)
