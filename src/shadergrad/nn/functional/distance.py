"""Norms, distances and angles between vectors."""

from __future__ import annotations

import numpy as np

from ...errors import ShapeError
from ...symbolic_sizes import broadcast_shapes
from ...tensor import Tensor, host_tensor, vector_norm
from .loss_reduction import check_floats

__all__ = ["cosine_similarity", "normalize", "pairwise_distance", "pdist"]


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(|x|_p, eps) along the axis `dim`: vectors of length 1.

    >>> F.normalize(sg.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    return input / vector_norm(input, p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along the axis `dim`, which the result lacks.

    ShapeError if the inputs do not broadcast to each other.

    >>> F.cosine_similarity(sg.tensor([[3.0, 4.0], [1.0, 0.0]]), sg.tensor([[4.0, 3.0]]))
    tensor([0.96, 0.8 ])
    """
    try:
        shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    except ValueError:
        raise ShapeError(f"[cosine_similarity] {list(x1.shape)} and {list(x2.shape)} do not broadcast.") from None
    x1, x2 = x1.expand(shape), x2.expand(shape)
    wider = x1 if x1.dtype.category > x2.dtype.category else x2  # a floating operand makes the result floating
    check_floats("cosine_similarity", wider)
    first = x1 / vector_norm(x1, 2.0, dim, keepdim=True).clamp(min=eps)
    second = x2 / vector_norm(x2, 2.0, dim, keepdim=True).clamp(min=eps)
    return (first * second).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """|x1 - x2 + eps|_p along the last axis: (..., d), (..., d) give (...), or (..., 1) with keepdim.

    >>> F.pairwise_distance(sg.tensor([[0.0, 0.0]]), sg.tensor([[3.0, 4.0]]), eps=0.0)
    tensor([5.])
    """
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows: (n, d) gives (n (n - 1) / 2,), in the order of the upper triangle.

    ShapeError for another shape and a negative p.

    >>> F.pdist(sg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.    , 1.    , 4.2426])
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise ShapeError("pdist only supports non-negative p values")
    first, second = (host_tensor(k.astype(np.int32), device=input.device) for k in np.triu_indices(input.shape[0], 1))
    return (input.index_select(0, first) - input.index_select(0, second)).norm(p, -1)
