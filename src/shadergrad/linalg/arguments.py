"""Checks of arguments: batches of floating-point matrices."""

from __future__ import annotations

from typing import Any

from ..errors import DTypeError, ShapeError
from ..tensor import Tensor, common_shape

NAMES = {"float32": "Float", "float64": "Double", "int32": "Int", "int64": "Long", "uint8": "Byte", "bool": "Bool"}


def check_floating(what: str, *tensors: Tensor) -> None:
    """Raises DTypeError if a tensor is not floating, or dtypes differ."""
    for x in tensors:
        if x.dtype.category < 2:
            raise DTypeError(
                f"{what}: Expected a floating point tensor as input. Got {NAMES.get(x.dtype.name, x.dtype.name)}. "
                "Hint: .float() it."
            )
        if x.dtype.category > 2:
            raise DTypeError(
                f"{what}: complex matrices are not taken, got {x.dtype.name}. Hint: see docs/from-pytorch.md."
            )
        if x.dtype is not tensors[0].dtype:
            raise DTypeError(
                f"{what}: Expected all tensors to have the same dtype, got {tensors[0].dtype.name} and {x.dtype.name}."
            )


def check_matrices(what: str, x: Tensor, name: str = "A") -> None:
    """Raises ShapeError for fewer than two axes, DTypeError for a tensor that is not floating."""
    if x.ndim < 2:
        raise ShapeError(f"{what}: The input tensor {name} must have at least 2 dimensions, but it has {x.ndim}.")
    check_floating(what, x)


def check_square(what: str, x: Tensor, name: str = "A") -> None:
    """As check_matrices, and ShapeError for matrices that are not square."""
    check_matrices(what, x, name)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{what}: {name} must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
        )


def same_batch(*tensors: Tensor) -> list[Any]:
    """Matrices broadcast to one batch. Raises ShapeError if batches do not broadcast."""
    batch = common_shape(*(tuple(x.shape[:-2]) for x in tensors))
    return [x if tuple(x.shape[:-2]) == batch else x.expand(*batch, *x.shape[-2:]) for x in tensors]
