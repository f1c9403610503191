"""Conversion of operands: numbers, lists and arrays beside a tensor become nodes of a common shape and dtype.

In: values as users write them. Out: nodes. Raises an error that names a value which cannot become a tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import symbolic_sizes
from ..arguments import type_name
from ..drive import execute
from ..dtypes import DType, default_dtype, of_scalar, parse_dtype, promote_operands
from ..errors import (
    ArgumentTypeError,
    DTypeError,
    ShapeError,
)
from ..graph import build
from ..graph import node as nodes
from ..graph.build import cast
from ..graph.leaves import Constant
from ..graph.node import MOST_AXES, Node, grad_mode, make, mode
from ..graph.primitive import Primitive, Shape
from ..primitives.views import Expand, Reshape
from .axes import common_shape
from .base import TensorBase
from .handle import wrap
from .placement import check_storable, resolve_device
from .succession import without_history

Number = bool | int | float | complex
OPERANDS = (TensorBase, bool, int, float, complex, np.number, np.bool_)  # types of operands beside a tensor


TOO_DEEP = f"a tensor has at most {MOST_AXES} axes, and these sequences are nested deeper."


PLAIN = {int, float}
MOST_EXACT = 1 << 53  # the largest range of ints that floats represent exactly
MOST_SHAPES = 4096
_widening: dict[Shape, tuple[Primitive, Shape, Primitive | None]] = {}  # by shape: the views that expand a number to it


class RaggedError(ShapeError, ArgumentTypeError):
    """Nested sequences that do not form an array."""


# operations in which a number beyond the range of an integer tensor's dtype wraps; others refuse it
WRAPPING = frozenset((
    "Add", "Sub", "Mul", "And", "Or", "Xor", "ShiftLeft", "ShiftRight", "Fmod", "Gcd", "Equal", "NotEqual", "Less", "LessEqual",
    "Greater", "GreaterEqual",
))  # fmt: skip


def binary(primitive: Primitive, a: TensorBase | Number, b: TensorBase | Number) -> Any:
    return wrap(make(primitive, *operands(a, b, wraps=type(primitive).__name__ in WRAPPING)))


def unsupported(symbol: str, a: Any, b: Any) -> ArgumentTypeError:
    """The error of an operator for operands that it does not support."""
    names = " and ".join(f"'{type(v).__name__ if isinstance(v, TensorBase) else type_name(v)}'" for v in (a, b))
    hint = " Hint: sg.tensor(...) makes a Tensor." if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else ""
    return ArgumentTypeError(f"unsupported operand type(s) for {symbol}: {names}.{hint}")


def not_ours(symbol: str, a: TensorBase, b: Any) -> Any:
    """The result of an operator whose right operand is of an unknown class: NotImplemented for users' classes, else an error."""
    if type(b).__module__ in ("builtins", "numpy", "torch"):
        raise unsupported(symbol, a, b)
    return NotImplemented


def floating(x: TensorBase) -> Node:
    """The node of x, cast to float32 if it is of integers or bools."""
    node = x._node
    return node if node.dtype.category >= 2 else cast(node, default_dtype())


def operands(*values: TensorBase | Number, common: bool = True, wraps: bool = False) -> list[Node]:
    """The nodes of operands, broadcast to one shape and, if `common`, promoted to one dtype. wraps: a whole number beyond the
    range of that dtype wraps; else it is refused.

    Zero-dimensional cpu tensors and Python numbers follow the device of the others, as in PyTorch.
    """
    found = _most_often(*values) if len(values) == 2 else None
    if found is not None:
        return found
    tensors = [v for v in values if isinstance(v, TensorBase)]
    lead = next((t for t in tensors if t.ndim), tensors[0])
    described: list[tuple[DType, int]] = []
    for v in values:
        described.append((v.dtype, 2 if v.ndim else 1) if isinstance(v, TensorBase) else (of_scalar(v), 0))
    dtype = promote_operands(described) if common else None
    if dtype is not None and dtype.is_complex:
        check_storable(dtype, lead._node.device)
    result: list[Node] = []
    for v, (own, _) in zip(values, described, strict=True):
        if isinstance(v, TensorBase):
            if v.ndim == 0 and v.device != lead.device and v.device == "cpu" and not v.requires_grad:
                v = v.to(lead.device)
            node = v._node
        else:
            kind = dtype if dtype is not None and dtype.category >= own.category else own
            if wraps and kind.is_narrow and type(v) is int:
                v = kind.wrapped(v)
            node = build.constant(v, kind, lead._node.device)
        if dtype is not None and node.dtype is not dtype:
            node = cast(node, dtype)
        result.append(node)
    shape = common_shape(*(n.shape for n in result))
    return [build.broadcast(n, shape) for n in result]


def _most_often(left: TensorBase | Number, right: TensorBase | Number) -> list[Node] | None:
    """A fast path: the nodes of two tensors of one dtype and device, or of a floating tensor and a plain number; None for others."""
    if isinstance(left, TensorBase) and isinstance(right, TensorBase):
        a, b = left._node, right._node
        if a.dtype is not b.dtype or a.device != b.device or a.dtype.is_complex:
            return None
        if a.shape == b.shape:
            return [a, b]
        shape = common_shape(a.shape, b.shape)
        return [build.broadcast(a, shape), build.broadcast(b, shape)]
    if mode.heard or symbolic_sizes.follows:
        return None
    if isinstance(left, TensorBase) and type(right) in PLAIN and left._node.dtype.category == 2:
        return [left._node, _everywhere(right, left._node)]
    if isinstance(right, TensorBase) and type(left) in PLAIN and right._node.dtype.category == 2:
        return [_everywhere(left, right._node), right._node]
    return None


def _everywhere(value: Any, like: Node) -> Node:
    """A number in every element of a floating shape: the nodes of `build.constant` without listeners, of cached primitives."""
    shape, dtype, device = like.shape, like.dtype, like.device
    if type(value) is int and abs(value) > MOST_EXACT:
        return build.constant(value, dtype, device, shape)
    node = Node(Constant(float(value), dtype), (), (), dtype, device)
    if not shape:
        return node
    views = _widening.get(shape)
    if views is None:
        if len(_widening) >= MOST_SHAPES:
            _widening.clear()
        ones = (1,) * len(shape)
        views = _widening[shape] = (Reshape(ones), ones, None if ones == shape else Expand(shape))
    narrow, ones, wide = views
    node = Node(narrow, (node,), ones, dtype, device)
    nodes.nodes_made += 3
    return node if wide is None else Node(wide, (node,), shape, dtype, device)


def _host_array(data: Any, dtype: Any) -> tuple[np.ndarray, DType]:
    """A host array and the dtype it shall have."""
    if isinstance(data, np.ndarray | np.generic):
        if data.dtype.kind not in "biufc":
            raise DTypeError(f"cannot make a tensor of an array of {data.dtype}: give one of numbers or bools.")
        found = parse_dtype(data.dtype) if dtype is None else parse_dtype(dtype)
        array = np.asarray(data)
    else:
        try:
            array = np.array(_plain(data))
        except ValueError:
            differ = "expected numbers or sequences of equal lengths, but got sequences that differ."
            raise RaggedError(differ if _depth(data) <= MOST_AXES else TOO_DEEP) from None
        if array.dtype.kind not in "biufc":
            raise DTypeError(f"cannot make a tensor of {_culprit(data)}: give numbers, or sequences of them.")
        if dtype is not None:
            found = parse_dtype(dtype)
        elif array.size == 0:
            found = default_dtype()
        else:
            found = of_scalar(array.reshape(-1)[0].item())
    if array.dtype.kind == "c" and not found.is_complex:
        raise DTypeError(f"complex numbers are no {found.name}. Hint: take .real or .imag, or dtype=sg.complex64.")
    wraps = isinstance(data, np.ndarray | np.generic) and found.is_small and array.dtype.kind in "iu"  # as PyTorch's do
    if found.category == 1 and array.size and array.dtype.kind in "iuf" and not wraps:
        low, high = found.range
        low = low if found.is_signed else -high  # as in PyTorch: -1 is the largest number without a sign
        if not (array.min() >= low and array.max() <= high):  # nor is NaN an integer
            raise DTypeError(
                f"a value does not fit {found.name}: the range is {array.min()} to {array.max()}. Hint: int64 holds larger numbers."
            )
    if array.dtype.kind == "f" and found.category == 1 and not found.is_signed:
        array = array.astype(np.int64)  # of which negative numbers wrap
    with np.errstate(over="ignore"):  # values beyond float16's range become infinite, as in PyTorch
        return array.astype(found.numpy, copy=False), found  # the device makes its copy


def _depth(data: Any) -> int:
    """The nesting depth of lists, along the first elements."""
    return 1 + _depth(data[0]) if isinstance(data, list | tuple) and data else 0


def _culprit(data: Any) -> str:
    """The type, in nested lists, of the first element that is not a number, or the whole number that no dtype holds."""
    if isinstance(data, list | tuple) and data:
        return next(filter(None, map(_culprit, data)), "")
    if isinstance(data, int):
        return f"{data}, which no dtype holds" if not -(1 << 63) <= data < 1 << 64 else ""
    return "" if isinstance(data, float | complex | np.number | np.bool_ | TensorBase) else type_name(data)


def _plain(data: Any) -> Any:
    """Nested lists with tensors inside as numbers."""
    if isinstance(data, TensorBase):
        return data.numpy()
    if isinstance(data, list | tuple):
        return [_plain(d) for d in data]
    return data


def node_of(data: Any, dtype: Any = None, device: Any = None) -> Node:
    """The node of a new tensor: of a number, nested lists, a NumPy array, or another tensor's value."""
    if isinstance(data, TensorBase):
        with grad_mode(False):
            return without_history(data.to(device=device, dtype=dtype)._node)
    array, kind = _host_array(data, dtype)
    return execute.upload(array, kind, resolve_device(device, kind))


def host_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor with the values of a number, nested lists or a NumPy array."""
    return wrap(node_of(data, dtype, device))
