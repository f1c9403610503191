"""Sums, means and maxima of bags of embeddings."""

from __future__ import annotations

from typing import Any

from ...dtypes import int32
from ...errors import DTypeError, ShapeError, UnsupportedError
from ...plan import IN_BAG_SIZE, IN_BAGS
from ...tensor import Tensor, arange, cat, in_range, where, zeros
from ..errors import ArgumentError
from .linear import embedding, padding_row

__all__ = ["embedding_bag"]


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Rows of weight (n, d), looked up in bags of positions, reduced per bag by `mode`, 'sum', 'mean' or 'max': (bags, d).

    input: (bags, size), or (k,) with offsets (bags,), the start of each bag (and, with include_last_offset, the end of the
    last). per_sample_weights, of the shape of input, multiply the rows, with 'sum' only. padding_idx: positions that are ignored. An empty
    bag gives zeros. Further arguments and errors: as for embedding. Raises PositionError for a first offset other than 0, a decreasing one,
    and one out of range, as for positions; ShapeError if shapes do not fit, ArgumentError for another mode,
    UnsupportedError for weights with another mode than 'sum'.

    >>> table = sg.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> F.embedding_bag(sg.tensor([0, 2, 1]), table, sg.tensor([0, 2]), mode="sum")
    tensor([[4., 6.],
            [2., 3.]])
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and (mode != "sum" or per_sample_weights.shape != input.shape):
        if mode != "sum":
            raise UnsupportedError(
                f"embedding_bag: per_sample_weights was not None. It is only supported for mode='sum' (got mode='{mode}')."
            )
        raise ShapeError(
            f"embedding_bag: input ({list(input.shape)}) and per_sample_weights ({list(per_sample_weights.shape)}) must have the same shape."
        )
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise DTypeError(
            f"embedding_bag: weight ({weight.dtype.name}) and per_sample_weights ({per_sample_weights.dtype.name}) must have the same type."
        )
    flat, bag, count = _bags(input, offsets, include_last_offset)
    padding = padding_row(padding_idx, weight.shape[0])
    rows = embedding(flat, weight, None, max_norm, norm_type, scale_grad_by_freq)
    counted: Any = flat == flat if padding is None else flat != padding
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    if not flat.numel() or not count:
        return zeros(count, weight.shape[1], dtype=weight.dtype, device=weight.device) + rows.sum()
    return _joined(rows, counted, bag, count, mode)


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[Tensor, Any, int]:
    """The positions as a vector, the bag of each, and the number of bags."""
    input = _positions("positions", input, offsets)
    if input.ndim == 2:
        if offsets is not None:
            raise ArgumentError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences."
            )
        bags, size = input.shape
        bag = arange(bags, device=input.device).reshape(bags, 1).expand(bags, size).reshape(-1)
        return input.reshape(-1), bag, bags
    if input.ndim != 1:
        raise ShapeError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None or offsets.ndim != 1:
        raise ArgumentError(
            "offsets has to be a 1D Tensor but got None" if offsets is None else "offsets has to be a 1D Tensor"
        )
    offsets = _positions("offsets", offsets, input)
    if include_last_offset and not offsets.numel():
        raise ShapeError("embedding_bag: with include_last_offset there must be at least one offset.")
    offsets = checked_offsets(offsets, input.shape[0])
    begins = offsets[:-1] if include_last_offset else offsets
    place = arange(input.shape[0], device=input.device)
    bag = begins.to(dtype=int32).searchsorted(place, right=True) - 1
    return input, bag.clamp(min=0), begins.shape[0]


def checked_offsets(offsets: Tensor, count: int) -> Tensor:
    """The same offsets (bags,) into `count` positions. A first offset other than 0, a decreasing one, and one out of range raise PositionError."""
    if not offsets.numel():
        return offsets
    first = in_range(offsets[:1], 1, IN_BAGS)
    offsets = in_range(offsets, count + 1, IN_BAGS)
    sizes = in_range(offsets[1:] - offsets[:-1], count + 1, IN_BAG_SIZE)
    return cat([first, offsets[:-1] + sizes])


def _positions(name: str, given: Tensor, beside: Tensor | None) -> Tensor:
    """Positions or offsets as integers of at least 32 bits. Smaller ones are promoted if the other tensor has such integers, as in PyTorch."""
    if given.dtype.is_position:
        return given
    is_promoted = beside is not None and beside.dtype.is_position and given.dtype.name in ("int8", "int16", "uint8")
    if not is_promoted:
        raise DTypeError(f"embedding_bag: expected {name} of integers, but got {given.dtype.name}. Hint: .long() them.")
    return given.to(dtype=int32)


def _joined(rows: Any, counted: Any, bag: Any, count: int, mode: str) -> Any:
    places = bag.unsqueeze(1).expand(*rows.shape)
    empty = zeros(count, rows.shape[1], dtype=rows.dtype, device=rows.device)
    held = empty[:, 0].scatter_add(0, bag, counted.to(dtype=rows.dtype))
    if mode == "max":
        low = where(counted.unsqueeze(1), rows, float("-inf"))
        best = empty.scatter_reduce(0, places, low, "amax", include_self=False)
        return where(held.unsqueeze(1) > 0, best, 0.0)
    total = empty.scatter_add(0, places, where(counted.unsqueeze(1), rows, 0.0))
    return total / held.clamp(min=1.0).unsqueeze(1) if mode == "mean" else total
