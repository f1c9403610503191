"""Checks of pooling inputs: dtypes, non-empty axes, sizes. Each raises a one-line error with the function's name and the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arguments import refuse
from ...dtypes import int32, int64
from ...errors import DTypeError, ShapeError
from ...tensor import Tensor
from ...tensor.axes import check_sizes
from ..arguments import per_axis
from ..errors import ArgumentError

Sizes = int | None | Sequence[int | None]  # of what adaptive pooling gives; None: as the input

# Integers whose largest elements and means PyTorch computes; int32 where it does so of int64, its default
COMPARED = ("int8", "int16", "int32", "int64", "uint8")
AVERAGED = ("int32", "int64")


def check_dtype(what: str, x: Tensor, integers: tuple[str, ...] = ()) -> None:
    """Raise DTypeError unless x is floating, or of one of these dtypes of integers."""
    if not x.is_floating_point() and x.dtype.name not in integers:
        raise DTypeError(f"{what} is not implemented for {x.dtype.name}. Hint: .float() first.")


def check_elements(what: str, input: Tensor, first: int = 1) -> None:
    """Raise ShapeError if an axis from `first` on is empty, because empty windows have no mean and no maximum."""
    if 0 in input.shape[first:]:
        raise ShapeError(
            f"{what}(): Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}. "
            "Hint: only the batch may be empty."
        )


def for_each_axis(what: str, name: str, value: Any, rank: int, least: int = 0) -> tuple[int, ...]:
    """An int for each axis, from one for all axes or from a list with one per axis."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) != rank:
        raise ArgumentError(f"{what}: {name} must either be a single int or a tuple of {rank}, but got {name}={value}.")
    return per_axis(what, name, value, rank, least)


def adaptive_sizes(what: str, input: Tensor, output_size: Sizes, rank: int) -> tuple[int, ...]:
    """The size of an adaptive pool's result along each axis; in a list, None keeps the size of the input."""
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"[{what}] Expected {rank + 1}D or {rank + 2}D tensor, but got {list(input.shape)}")
    wanted: Any = output_size
    if isinstance(wanted, Sequence) and not isinstance(wanted, str) and len(wanted) == rank > 1:
        wanted = [n if m is None else m for n, m in zip(input.shape[-rank:], wanted, strict=True)]
    if wanted is None:
        refuse(what, "output_size", None, "int or a tuple of ints")
    counts = for_each_axis(what, "output_size", wanted, rank)
    check_sizes((*input.shape[: input.ndim - rank], *counts), what)
    return counts


def check_indices(what: str, indices: Tensor) -> None:
    """Raise DTypeError unless positions are int64, or int32, the dtype of pooling's indices."""
    if indices.dtype not in (int32, int64):
        raise DTypeError(
            f"{what}(): elements in indices should be type int64 or int32 but got: {indices.dtype.name}. Hint: .long() them."
        )


def check_samples(what: str, samples: Tensor, x: Tensor, rank: int) -> None:
    """Raise unless draws have the dtype of x (batch, channels, ...) and the shape (at least batch, channels, rank)."""
    if samples.dtype is not x.dtype:
        raise DTypeError(
            f"{what}(): Expect _random_samples to have the same dtype as input, {x.dtype.name}, but got {samples.dtype.name}."
        )
    shape, (batch, channels) = tuple(samples.shape), x.shape[:2]
    if len(shape) != 3 or shape[0] < batch or shape[1:] != (channels, rank):
        raise ShapeError(
            f"{what}(): Expect _random_samples of shape ({batch}, {channels}, {rank}) for input {list(x.shape)}, but got {shape}."
        )
