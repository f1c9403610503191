"""Functions that create tensors from data or by a rule, such as `tensor`, `zeros` and `arange`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arguments import checked
from ..dtypes import NAMES_ONLY, default_dtype, float32, int64, of_scalar, parse_dtype
from ..errors import ArgumentTypeError, ShapeError
from ..graph import build
from ..graph.node import Node
from .axes import check_sizes, sizes_of
from .base import TensorBase
from .coercion import Number, host_tensor, node_of
from .handle import wrap
from .placement import check_fits, check_integer, check_storable, host_device, resolve_device

MOST_ELEMENTS = 2**60  # so that their bytes are a 64-bit number


@checked
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor with the values of a number, nested lists or a NumPy array.

    dtype: without it, Python floats give float32, ints int32, bools bool; NumPy arrays keep theirs. Raises
    ShapeError for lists of different lengths and for elements that are not numbers, DTypeError for an unknown dtype, one
    that the device lacks, and an integer that does not fit it (int64 has 32 bits on a GPU), DeviceError for an unknown
    device.

    >>> sg.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    result = wrap(node_of(data, dtype, device))
    return result.requires_grad_() if requires_grad else result


@checked
def from_numpy(array: np.ndarray) -> Any:
    """A cpu tensor with a copy of the array's values (PyTorch: shared memory) and its dtype, int64 too.

    Raises DTypeError for a dtype that no tensor has, such as texts, dates or objects.

    >>> sg.from_numpy(np.array([1.5, 2.5], np.float32))
    tensor([1.5, 2.5])
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(f"from_numpy(): expected np.ndarray (got {type(array).__name__})")
    return host_tensor(array, dtype=array.dtype, device=host_device())


def finish(node: Node, requires_grad: bool) -> Any:
    result = wrap(node)
    return result.requires_grad_() if requires_grad else result


@checked
def full(size: Any, fill_value: Number, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of shape `size` with one number in every element.

    dtype: by default that of the number: bool, int32, float32 or complex64. Raises ShapeError for a negative size, DTypeError for a
    complex number with a real dtype.

    >>> sg.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    return _filled("full", sizes_of((size,), "full"), fill_value, dtype, device, requires_grad)


def _filled(what: str, size: tuple[int, ...], fill_value: Number, dtype: Any, device: Any, requires_grad: bool) -> Any:
    shape = check_sizes(size, what)
    fill_value = fill_value.item() if isinstance(fill_value, TensorBase) else fill_value
    if dtype in NAMES_ONLY and 0 in shape:
        return finish(build.constant(0, dtype, "cpu", shape), requires_grad)
    kind = of_scalar(fill_value) if dtype is None else parse_dtype(dtype)
    name = resolve_device(device, kind)
    check_storable(kind, name)
    check_fits(fill_value, kind)  # first: then a complex number is of a complex dtype
    check_integer(what, fill_value, kind, name)
    return finish(build.constant(fill_value, kind, name, shape), requires_grad)


def _given(sizes: tuple[Any, ...], size: Any, what: str) -> tuple[int, ...]:
    """Sizes given as arguments or as one sequence, or by the name `size`."""
    if size is None:
        return sizes_of(sizes, what)
    if sizes:
        raise ArgumentTypeError(f"{what}() got sizes both as arguments and as 'size'.")
    return sizes_of((size,), what)


@checked
def zeros(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Zeros of shape `size`, given as numbers or as one sequence, also by the name `size`; float32 unless `dtype` says another.

    Raises ShapeError for a negative size.

    >>> sg.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _filled(
        "zeros", _given(sizes, size, "zeros"), 0, default_dtype() if dtype is None else dtype, device, requires_grad
    )


@checked
def ones(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Ones of shape `size`, given as numbers or as one sequence, also by the name `size`; float32 unless `dtype` says another.

    Raises ShapeError for a negative size.

    >>> sg.ones(2)
    tensor([1., 1.])
    """
    return _filled(
        "ones", _given(sizes, size, "ones"), 1, default_dtype() if dtype is None else dtype, device, requires_grad
    )


@checked
def empty(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Zeros, as `zeros`: there is no uninitialised memory here.

    >>> sg.empty(2, 3).shape
    shadergrad.Size([2, 3])
    """
    return _filled(
        "empty", _given(sizes, size, "empty"), 0, default_dtype() if dtype is None else dtype, device, requires_grad
    )


@checked
def full_like(
    x: TensorBase, fill_value: Number, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor with one number in every element, with the shape, dtype and device of x unless options give others.

    >>> sg.full_like(sg.zeros(2), 7)
    tensor([7., 7.])
    """
    return full(
        x.shape,
        fill_value,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
        requires_grad=requires_grad,
    )


@checked
def zeros_like(x: TensorBase, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Zeros with the shape, dtype and device of x unless options give others.

    >>> sg.zeros_like(sg.tensor([[1, 2]]))
    tensor([[0, 0]])
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@checked
def ones_like(x: TensorBase, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Ones with the shape, dtype and device of x unless options give others.

    >>> sg.ones_like(sg.tensor([[1, 2]]))
    tensor([[1, 1]])
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@checked
def arange(
    start: float | None = None,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """start, start + step, ... below end (above it, for a negative step); arange(end) starts at 0.

    int32 if all are ints, else float32. Raises ShapeError for step = 0, and if steps do not lead from start to end.

    >>> sg.arange(3)
    tensor([0, 1, 2])
    >>> sg.arange(5, 0, -2)
    tensor([5, 3, 1])
    """
    if start is None and end is None:
        raise ArgumentTypeError("arange(): missing a required argument: 'end'")
    bounds: tuple[Any, ...] = (0, start, step) if end is None else (0 if start is None else start, end, step)
    low, high, step = (n.item() if isinstance(n, TensorBase) else n for n in bounds)
    if step == 0 or not all(math.isfinite(n) for n in (low, high, step)):
        raise ShapeError(f"[arange] step must be nonzero and all finite, but it is {low} to {high} by {step}")
    if (high - low) * step < 0:
        raise ShapeError(f"[arange] upper bound and lower bound inconsistent with step sign: {low} to {high} by {step}")
    kind = of_scalar(low + step + high) if dtype is None else parse_dtype(dtype)
    if kind is int64 and dtype is not None:  # as PyTorch: the bounds are cut first
        low, high, step = int(low), int(high), int(step) or step
    whole = isinstance(low, int) and isinstance(high, int) and isinstance(step, int)
    count: int = -((low - high) // step) if whole else math.ceil((high - low) / step)  # type: ignore[assignment]
    name = resolve_device(device, kind)
    check_storable(kind, name)
    for value in (low, low + max(count - 1, 0) * step):
        check_integer("arange", value, kind, name)
    node = build.iota(count, name)
    if not kind.is_small:  # which may not hold the step
        node = build.cast(node, kind)
    if step != 1:
        node = node * step
    # also with a given start of 0: another start is then only another number
    return finish(build.cast(node if end is None else node + low, kind), requires_grad)


def _end(value: Any) -> Any:
    """An end of a range: a number, or a tensor of shape (), which is read."""
    if isinstance(value, TensorBase):
        if value.ndim:
            raise ShapeError("linspace only supports 0-dimensional start and end tensors.")
        return value.item()
    return value


@checked
def scalar_tensor(s: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A number as a tensor of shape (); float32 unless `dtype` says another.

    >>> sg.scalar_tensor(3)
    tensor(3.)
    """
    return _filled("scalar_tensor", (), s, default_dtype() if dtype is None else dtype, device, requires_grad)


@checked
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`steps` powers of `base`, with evenly spaced exponents from start to end; float32 unless `dtype` says another.

    Raises ShapeError for a negative `steps`.

    >>> sg.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if steps < 0:
        raise ShapeError(f"[logspace] number of steps must be non-negative, but it is {steps}")
    kind = default_dtype() if dtype is None else parse_dtype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.float64(base) ** _spaced(_end(start), _end(end), steps, kind)
    return _of_values(powers, kind, device, requires_grad)


def _spaced(start: float, end: float, steps: int, kind: Any) -> np.ndarray:
    """Evenly spaced numbers, computed as PyTorch does: from the nearer end, with whole numbers truncated."""
    if kind.category < 2:
        start, end = int(start), int(end)
    if kind is float32:
        start, end = float(np.float32(start)), float(np.float32(end))
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    places = np.arange(steps)
    return (
        np.where(places < steps // 2, start + step * places, end - step * (steps - 1 - places))
        if steps > 1
        else (np.full(steps, float(start)))
    )


def _of_values(values: np.ndarray, kind: Any, device: Any, requires_grad: bool) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        cut = np.trunc(values).astype(kind.numpy) if kind.category == 1 else values
    return tensor(cut, dtype=kind, device=device, requires_grad=requires_grad)


@checked
def linspace(
    start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """`steps` evenly spaced numbers from start to end, both included; float32 unless `dtype` says another.

    Raises ShapeError for a negative `steps`.

    >>> sg.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if steps < 0:
        raise ShapeError(f"[linspace] number of steps must be non-negative, but it is {steps}")
    kind = default_dtype() if dtype is None else parse_dtype(dtype)
    return _of_values(_spaced(_end(start), _end(end), steps, kind), kind, device, requires_grad)


@checked
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Ones on the diagonal of an (n, m) matrix of zeros; m is n if left out. float32 unless `dtype` says another.

    Raises ShapeError for negative sizes.

    >>> sg.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    rows, columns = n, n if m is None else m
    if min(rows, columns) < 0:
        raise ShapeError(f"[eye] sizes must be greater or equal to 0, got {rows} and {columns}")
    ones = arange(rows, device=device).reshape(rows, 1) == arange(columns, device=device)
    result = ones.to(dtype=default_dtype() if dtype is None else dtype)
    return result.requires_grad_() if requires_grad else result
