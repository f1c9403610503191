"""Making tensors: from data and from rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import float32, of_scalar, parse_dtype
from ..errors import ArgumentTypeError, ShapeError
from ..graph import build
from ..graph.node import Node
from .base import TensorBase, check_int, check_tensor, host_tensor, node_of, sizes_of, wrap
from .placement import check_storable, resolve_device

MOST_ELEMENTS = 2**60  # so that their bytes are a 64-bit number


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor with the values of a number, nested lists or a NumPy array.

    dtype: without it, Python floats give float32, ints int32, bools bool; NumPy arrays keep theirs, but int64 becomes
    int32. Raises ShapeError for lists of different lengths and for what is not made of numbers, DTypeError for an
    unknown dtype, one that the device has not, and an integer that does not fit it, DeviceError for an unknown device.

    >>> sg.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    result = wrap(node_of(data, dtype, device))
    return result.requires_grad_() if requires_grad else result


def from_numpy(array: np.ndarray) -> Any:
    """A cpu tensor with a copy of the array's values (PyTorch: shared memory) and its dtype, int64 too.

    Raises DTypeError for a dtype that no tensor has, such as int16 or complex numbers.

    >>> sg.from_numpy(np.array([1.5, 2.5], np.float32))
    tensor([1.5, 2.5])
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(f"from_numpy(): expected np.ndarray (got {type(array).__name__})")
    return host_tensor(array, dtype=array.dtype, device="cpu")


def finish(node: Node, requires_grad: bool) -> Any:
    result = wrap(node)
    return result.requires_grad_() if requires_grad else result


def full(size: Any, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of shape `size` with one number in every element.

    dtype: without it, that of the number: bool, int32 or float32. Raises ShapeError for a negative size.

    >>> sg.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    shape = sizes_of((size,))
    if min(shape, default=0) < 0:
        raise ShapeError(f"[full] negative size in {shape}.")
    if math.prod(shape) > MOST_ELEMENTS:
        raise ShapeError(f"[full] {shape} has {math.prod(shape):,} elements, more than any device can count.")
    if not isinstance(fill_value, int | float | np.number | np.bool_ | TensorBase):
        raise ArgumentTypeError(
            f"full(): argument 'fill_value' (position 2) must be Number, not {type(fill_value).__name__}"
        )
    kind = of_scalar(fill_value) if dtype is None else parse_dtype(dtype)
    name = resolve_device(device)
    check_storable(kind, name)
    return finish(build.constant(fill_value, kind, name, shape), requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Zeros of shape `size`, given as numbers or as one sequence; float32 unless `dtype` says another.

    Raises ShapeError for a negative size.

    >>> sg.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return full(
        sizes_of(size), 0, dtype=float32 if dtype is None else dtype, device=device, requires_grad=requires_grad
    )


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Ones of shape `size`, given as numbers or as one sequence; float32 unless `dtype` says another.

    Raises ShapeError for a negative size.

    >>> sg.ones(2)
    tensor([1., 1.])
    """
    return full(
        sizes_of(size), 1, dtype=float32 if dtype is None else dtype, device=device, requires_grad=requires_grad
    )


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Zeros, as `zeros`: there is no uninitialised memory here.

    >>> sg.empty(2, 3).shape
    shadergrad.Size([2, 3])
    """
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(
    x: TensorBase, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor with one number in every element, with the shape, dtype and device of x, where options name no others.

    >>> sg.full_like(sg.zeros(2), 7)
    tensor([7., 7.])
    """
    check_tensor("full_like", "input", x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def zeros_like(x: TensorBase, **options: Any) -> Any:
    """Zeros with the shape, dtype and device of x, where options name no others.

    >>> sg.zeros_like(sg.tensor([[1, 2]]))
    tensor([[0, 0]])
    """
    return full_like(x, 0, **options)


def ones_like(x: TensorBase, **options: Any) -> Any:
    """Ones with the shape, dtype and device of x, where options name no others.

    >>> sg.ones_like(sg.tensor([[1, 2]]))
    tensor([[1, 1]])
    """
    return full_like(x, 1, **options)


def arange(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """start, start + step, ... below end (above it, for a negative step); arange(end) starts at 0.

    int32 where all are ints, else float32. Raises ShapeError for step = 0, and where steps do not lead from start to end.

    >>> sg.arange(3)
    tensor([0, 1, 2])
    >>> sg.arange(5, 0, -2)
    tensor([5, 3, 1])
    """
    bounds = (0, start, step) if end is None else (start, end, step)
    numbers: list[Any] = [n.item() if isinstance(n, TensorBase) else n for n in bounds]
    low, high, by = numbers
    for name, number in (("start", low), ("end", high), ("step", by)):
        if not isinstance(number, int | float | np.number):
            raise ArgumentTypeError(f"arange(): argument '{name}' must be Number, not {type(number).__name__}")
    if by == 0 or not all(math.isfinite(n) for n in (low, high, by)):
        raise ShapeError(f"[arange] step must be nonzero and all finite, but it is {low} to {high} by {by}")
    if (high - low) * by < 0:
        raise ShapeError(f"[arange] upper bound and lower bound inconsistent with step sign: {low} to {high} by {by}")
    count = math.ceil((high - low) / by)
    kind = of_scalar(low + by + high) if dtype is None else parse_dtype(dtype)
    name = resolve_device(device)
    check_storable(kind, name)
    node = build.iota(count, name)
    node = build.cast(node, kind)
    if by != 1:
        node = node * by
    return finish(node + low if low else node, requires_grad)


def linspace(
    start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """`steps` numbers at equal distances from start to end, both included; float32 unless `dtype` says another.

    Raises ShapeError for a negative number of them.

    >>> sg.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if check_int("linspace", "steps", steps) < 0:
        raise ShapeError(f"[linspace] number of steps must be non-negative, but it is {steps}")
    return tensor(np.linspace(start, end, steps), dtype=dtype or float32, device=device, requires_grad=requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Ones on the diagonal of an (n, m) matrix of zeros; m is n if left out. float32 unless `dtype` says another.

    Raises ShapeError for negative sizes.

    >>> sg.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    rows, columns = check_int("eye", "n", n), check_int("eye", "m", n if m is None else m)
    if min(rows, columns) < 0:
        raise ShapeError(f"[eye] sizes must be greater or equal to 0, got {rows} and {columns}")
    ones = arange(rows, device=device).reshape(rows, 1) == arange(columns, device=device)
    result = ones.to(dtype=float32 if dtype is None else dtype)
    return result.requires_grad_() if requires_grad else result
