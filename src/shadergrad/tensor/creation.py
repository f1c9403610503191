"""Making tensors: from data and from rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import float32, of_scalar, parse_dtype
from ..errors import ShapeError
from ..graph import build
from ..graph.node import Node
from .base import TensorBase, host_tensor, node_of, sizes_of, wrap
from .placement import check_storable, resolve_device


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor with the values of a number, nested lists or a NumPy array."""
    result = wrap(node_of(data, dtype, device))
    return result.requires_grad_() if requires_grad else result


def from_numpy(array: np.ndarray) -> Any:
    """A cpu tensor with a copy of the array's values and its dtype."""
    return host_tensor(array, dtype=array.dtype, device="cpu")


def finish(node: Node, requires_grad: bool) -> Any:
    result = wrap(node)
    return result.requires_grad_() if requires_grad else result


def full(size: Any, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """One number in every element of shape `size`."""
    shape = sizes_of((size,))
    if min(shape, default=0) < 0:
        raise ShapeError(f"[full] negative size in {shape}.")
    kind = of_scalar(fill_value) if dtype is None else parse_dtype(dtype)
    name = resolve_device(device)
    check_storable(kind, name)
    return finish(build.constant(fill_value, kind, name, shape), requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    return full(
        sizes_of(size), 0, dtype=float32 if dtype is None else dtype, device=device, requires_grad=requires_grad
    )


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    return full(
        sizes_of(size), 1, dtype=float32 if dtype is None else dtype, device=device, requires_grad=requires_grad
    )


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Zeros: there is no uninitialised memory here."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(
    x: TensorBase, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def zeros_like(x: TensorBase, **options: Any) -> Any:
    return full_like(x, 0, **options)


def ones_like(x: TensorBase, **options: Any) -> Any:
    return full_like(x, 1, **options)


def arange(start: float, end: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """start, start + step, ... below end; int32 where all are ints, else float32."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ShapeError("[arange] step must be nonzero")
    count = max(0, math.ceil((end - start) / step))
    kind = of_scalar(start + step + end) if dtype is None else parse_dtype(dtype)
    name = resolve_device(device)
    check_storable(kind, name)
    node = build.iota(count, name)
    node = build.cast(node, kind)
    if step != 1:
        node = node * step
    return wrap(node + start if start else node)


def linspace(start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None) -> Any:
    """`steps` numbers from start to end, both included."""
    values = np.linspace(start, end, steps)
    return host_tensor(values, dtype=dtype or float32, device=device)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones on the diagonal of an (n, m) matrix."""
    rows = arange(n, device=device).reshape(n, 1)
    return (rows == arange(n if m is None else m, device=device)).to(dtype=float32 if dtype is None else dtype)
