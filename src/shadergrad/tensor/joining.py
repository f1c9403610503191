"""Functions that join tensors: cat, stack, meshgrid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..arguments import checked
from ..dtypes import promote_operands
from ..errors import IndexRangeError, ShapeError
from ..graph import build
from ..graph.build import cast
from .addresses import AddressTensor
from .axes import check_axis
from .handle import wrap
from .precision import policy

T = TypeVar("T", bound="AddressTensor")


def _several(what: str, tensors: Sequence[T]) -> list[T]:
    """The tensors of a sequence, which must hold at least one."""
    if not tensors:
        raise ShapeError(f"{what} expects a non-empty TensorList")
    return list(tensors)


@policy("cat")
@checked
def cat(tensors: Sequence[T], dim: int = 0) -> T:
    """Concatenate along `dim`, where alone the sizes may differ; dtypes are promoted. Empty vectors are
    ignored.

    Raises ShapeError for no tensors, tensors of shape (), and shapes that do not fit.

    >>> sg.cat([sg.tensor([[1, 2]]), sg.tensor([[3, 4], [5, 6]])])
    tensor([[1, 2],
            [3, 4],
            [5, 6]])
    """
    tensors = _several("cat", tensors)
    scalar = next((k for k, t in enumerate(tensors) if t.ndim == 0), None)
    if scalar is not None:
        raise ShapeError(f"zero-dimensional tensor (at position {scalar}) cannot be concatenated. Hint: use stack.")
    full = [t for t in tensors if tuple(t.shape) != (0,)] or tensors[:1]
    dtype = promote_operands([(t.dtype, 2) for t in tensors])
    axis = check_axis(dim, full[0].ndim, "cat")
    parts = [cast(t._node, dtype) for t in full]
    return wrap(build.cat(parts, axis))


@policy("stack")
@checked
def stack(tensors: Sequence[T], dim: int = 0) -> T:
    """Tensors of one shape along a new axis at `dim`. Raises ShapeError for no tensors, or if shapes differ.

    >>> sg.stack([sg.tensor([1, 2]), sg.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    tensors = _several("stack", tensors)
    ndim = tensors[0].ndim
    if not -ndim - 1 <= dim <= ndim:
        raise IndexRangeError(
            f"[stack] Dimension out of range (expected to be in range of [{-ndim - 1}, {ndim}], but got {dim})"
        )
    for t in tensors[1:]:
        if t.shape != tensors[0].shape:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and {list(t.shape)} at another"
            )
    return cat([t.unsqueeze(dim) for t in tensors], dim if dim >= 0 else dim + tensors[0].ndim + 1)


@checked
def meshgrid(*tensors: AddressTensor | Sequence[AddressTensor], indexing: str = "ij") -> tuple[Any, ...]:
    """Coordinate grids from vectors: each is expanded to the shape of all their sizes. indexing 'ij' (the
    first vector along axis 0) or 'xy' (along axis 1). Raises ShapeError for another `indexing`.

    >>> x, y = sg.meshgrid(sg.arange(2), sg.arange(3))
    >>> x
    tensor([[0, 0, 0],
            [1, 1, 1]])
    >>> y
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    axes: list[Any] = _several(
        "meshgrid", tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    )
    if any(t.ndim > 1 for t in axes):
        raise ShapeError(f"meshgrid: expected vectors, got tensors of {', '.join(str(tuple(t.shape)) for t in axes)}.")
    if indexing not in ("ij", "xy"):
        raise ShapeError(f'[meshgrid] indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(axes) > 1
    if swap:
        axes[0], axes[1] = axes[1], axes[0]
    shape = [t.numel() for t in axes]
    grids = [t.reshape([-1 if b == a else 1 for b in range(len(axes))]).expand(*shape) for a, t in enumerate(axes)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)
