"""Common arithmetic, matrix multiplications and activations."""

from __future__ import annotations

import math
from typing import Any

import shadergrad as sg
from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel, pure_kernel


@kernel("add.Tensor")
def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return a + b if alpha == 1 else a.add(b, alpha=alpha) if isinstance(a, Tensor) else a + b * alpha


@kernel("sub.Tensor")
def sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return a - b if alpha == 1 else a.sub(b, alpha=alpha) if isinstance(a, Tensor) else a - b * alpha


kernel("mul.Tensor")(lambda a, b: a * b)
kernel("div.Tensor")(lambda a, b: a / b)
pure_kernel("mm", "bmm")(lambda a, b: a @ b)
kernel("relu")(lambda x: x.relu())
pure_kernel("threshold_backward")(lambda g, x, threshold: sg.where(x > threshold, g, 0.0))
pure_kernel("tanh_backward")(lambda g, y: g * (1 - y * y))
pure_kernel("sigmoid_backward")(lambda g, y: g * (1 - y) * y)
kernel("where.self")(lambda condition, a, b: sg.where(condition, a, b))
pure_kernel("addcmul")(lambda x, a, b, *, value=1: x + a * b * value)
pure_kernel("addcdiv")(lambda x, a, b, *, value=1: x + a / b * value)


def _scaled(x: Any, factor: Any) -> Any:
    return x if factor == 1 else x * factor


@pure_kernel("addmm", "baddbmm")
def addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta = 0 ignores x, and so a NaN in it."""
    product = _scaled(a @ b, alpha)
    return product.expand(sg.broadcast_shapes(product.shape, x.shape)) if beta == 0 else _scaled(x, beta) + product


@pure_kernel("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Any:
    value = value.to(x.dtype) if isinstance(value, Tensor) else sg.full((), value, dtype=x.dtype, device=x.device)
    return sg.where(mask, value, x)


@kernel("cat")
def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors of shape (0,) are ignored, as in PyTorch."""
    return sg.cat([x for x in tensors if x.shape != (0,)] or tensors, dim)


kernel("hardshrink_backward", "softshrink_backward")(lambda g, x, size: sg.where(x.abs() <= size, 0.0, g))
kernel("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Tensor", "__lshift__.Scalar")(
    lambda a, b: sg.bitwise_left_shift(a, b)
)
kernel("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Tensor", "__rshift__.Scalar")(
    lambda a, b: sg.bitwise_right_shift(a, b)
)


@pure_kernel("gelu_backward")
def gelu_backward(g: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    """The gradient of x Phi(x), or, with "tanh", of its approximation (https://arxiv.org/abs/1606.08415)."""
    if approximate == "none":
        return g * (0.5 * (1 + (x * math.sqrt(0.5)).erf()) + x * (-0.5 * x * x).exp() / math.sqrt(2 * math.pi))
    scale, cubed = math.sqrt(8 / math.pi), 0.044715
    s = (scale * (x + cubed * x * x * x)).sigmoid()
    return g * (s + x * s * (1 - s) * scale * (1 + 3 * cubed * x * x))


@pure_kernel("silu")
def silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp()) if x.dtype in (sg.complex64, sg.complex128) else F.silu(x)
