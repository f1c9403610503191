"""A linear layer and its gradient as one operator each. PyTorch composes the layer of a transposed view, addmm and further views.

The gradient's formula is PyTorch's own, which it has for devices with such a kernel: linear_backward, and its gradient. It has no forward derivative and
no rule for vmap; there, and for other dtypes and shapes, the composition stays.
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html
"""

from __future__ import annotations

import math
from typing import Any

import torch

from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import gradient_of_torch, pure_kernel

_TYPES = (torch.Tensor, torch.nn.Parameter)
_SINGLE = torch.float32


@gradient_of_torch("linear")
def is_plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    """Whether an input (..., n), a weight (m, n) and a bias (m) or None are float32, of no subclass, and fit."""
    shape = weight.shape
    return (
        len(shape) == 2
        and x.dim() > 0
        and x.shape[-1] == shape[1]
        and x.dtype is _SINGLE
        and weight.dtype is _SINGLE
        and type(x) in _TYPES
        and type(weight) in _TYPES
        and (bias is None or (bias.dtype is _SINGLE and type(bias) in _TYPES and bias.shape == shape[:1]))
    )


pure_kernel("linear")(F.linear)


@pure_kernel("linear_backward")
def linear_backward(x: Tensor, g: Tensor, weight: Tensor, asked: Any) -> Any:
    """Gradients of input, weight and bias from that of the result, each if it is requested."""
    count = math.prod(x.shape[:-1])
    rows = g.reshape(count, g.shape[-1])
    return (
        g @ weight if asked[0] else None,
        rows.mT @ x.reshape(count, x.shape[-1]) if asked[1] else None,
        rows.sum(0) if asked[2] else None,
    )
