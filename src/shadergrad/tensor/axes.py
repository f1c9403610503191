"""Checks of axes and sizes that users give, and broadcasting of shapes. Does not import Tensor."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .. import symbolic_sizes
from ..arguments import refuse
from ..errors import (
    IndexRangeError,
    ShapeError,
)
from ..symbolic_sizes import Varying

LARGEST = 1 << 60  # elements of 8 bytes whose size in bytes fits into 64 bits


def check_axis(dim: int, ndim: int, what: str) -> int:
    """A non-negative axis; raises IndexRangeError outside [-ndim, ndim - 1]."""
    if type(dim) is not int:
        dim = _whole(what, "dim", dim, "int")
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise IndexRangeError(
            f"[{what}] Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], but got {dim})"
        )
    return dim % max(ndim, 1)


def check_axes(dim: int | Sequence[int] | None, ndim: int, what: str) -> tuple[int, ...]:
    """Sorted axes; None or () means all."""
    if dim is None:
        return tuple(range(ndim))
    if type(dim) is int:
        given: Sequence[int] = (dim,)
    else:
        given = dim if isinstance(dim, list | tuple) else (_whole(what, "dim", dim, "int or tuple of ints"),)
    axes = [check_axis(d, ndim, what) for d in given] or list(range(ndim))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"[{what}] a dim appears twice in {dim}.")
    return tuple(sorted(axes)) if ndim else ()


def _whole(what: str, name: str, value: Any, wanted: str) -> int:
    """An int-like value as an int; bools are refused."""
    if not isinstance(value, bool | np.bool_):
        try:
            return operator.index(value)
        except TypeError:
            pass
    return refuse(what, name, value, wanted)


def sizes_of(args: tuple[Any, ...], what: str, name: str = "size") -> tuple[int, ...]:
    """Sizes given as arguments or as one sequence, which is the argument `name` of `what`."""
    if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray):
        args = tuple(args[0])
    return tuple(a if type(a) in (int, Varying) else _whole(what, name, a, "tuple of ints") for a in args)


def check_sizes(shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """A valid shape for a tensor."""
    if min(shape, default=0) < 0:
        raise ShapeError(f"{what}(): negative size in {shape}.")
    if math.prod(n for n in shape if n) >= LARGEST:
        raise ShapeError(f"{what}(): Storage size calculation overflowed with sizes={list(shape)}.")
    return shape


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which shapes broadcast."""
    found = _common_shape(*shapes)
    return symbolic_sizes.restored(found, shapes) if symbolic_sizes.follows else found


@lru_cache(4096)
def _common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"The shapes of the operands do not broadcast: {', '.join(map(str, shapes))}.") from None
