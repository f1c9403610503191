"""Sums, means, softmax."""

from __future__ import annotations

from typing import Any

import shadergrad as sg

from ...tensor import Tensor
from ..table import pure_kernel

SHORT = (sg.bool, sg.uint8, sg.int8, sg.int16, sg.int32)  # dtypes whose sums PyTorch gives in int64


def _axes(dim: Any) -> Any:
    return tuple(dim) if dim else None


@pure_kernel("sum", "sum.dim_IntList")
def total(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    if dtype is not None:
        x = x.to(dtype)
    return x.sum(_axes(dim), keepdim=keepdim, dtype=sg.int64 if dtype is None and x.dtype in SHORT else None)


@pure_kernel("mean", "mean.dim")
def mean(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return (x if dtype is None else x.to(dtype)).mean(_axes(dim), keepdim=keepdim)


@pure_kernel("prod", "prod.dim_int")
def prod(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    x = x.to(dtype) if dtype is not None else x.to(sg.int64) if x.dtype in SHORT else x
    return x.prod() if dim is None else x.prod(dim, keepdim)


pure_kernel("_log_softmax")(lambda x, dim, to_float: x.log_softmax(dim))
pure_kernel("_softmax")(lambda x, dim, to_float: x.softmax(dim))
pure_kernel("_log_softmax_backward_data")(lambda g, y, dim, dtype: g - y.exp() * g.sum(dim, keepdim=True))
pure_kernel("_softmax_backward_data")(lambda g, y, dim, dtype: (g - (g * y).sum(dim, keepdim=True)) * y)
pure_kernel("_logcumsumexp")(lambda x, dim: x.logcumsumexp(dim))
