"""Functions of tensors that are no methods in PyTorch either, and in-place functions that PyTorch has at top level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtypes import parse_dtype
from .nn.functional import celu, rrelu, selu
from .tensor import Tensor
from .tensor_shape import cat


def relu_(input: Tensor) -> Tensor:
    """relu, in place."""
    return input._update_in_place(input.relu(), "relu_")


def sigmoid_(input: Tensor) -> Tensor:
    """sigmoid, in place."""
    return input._update_in_place(input.sigmoid(), "sigmoid_")


def tanh_(input: Tensor) -> Tensor:
    """tanh, in place."""
    return input._update_in_place(input.tanh(), "tanh_")


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """celu, in place."""
    return celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """selu, in place."""
    return selu(input, inplace=True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """rrelu, in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def is_tensor(obj: object) -> bool:
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that tensors of these shapes broadcast to."""
    return np.broadcast_shapes(*(tuple(s) for s in shapes))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to one shape."""
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(*shape) for t in tensors)


def empty_like(x: Tensor, **options: Any) -> Tensor:
    """Zeros of the shape, dtype and device of x, where options name no other."""
    return x.new_empty(*x.shape, **options)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """One beside the other: along axis 1, or axis 0 of vectors."""
    parts = [x.reshape(1) if x.ndim == 0 else x for x in tensors]
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other: along axis 0; vectors are rows."""
    return cat([x.reshape(1, -1) if x.ndim < 2 else x for x in tensors], 0)


def finfo(dtype: Any) -> np.finfo:
    """The limits of a floating dtype: eps, max, min, tiny."""
    return np.finfo(parse_dtype(dtype).numpy)


def iinfo(dtype: Any) -> np.iinfo:
    """The limits of an integer dtype: max, min."""
    return np.iinfo(parse_dtype(dtype).numpy)
