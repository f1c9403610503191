"""Norms, distances and angles between vectors."""

from __future__ import annotations

import numpy as np

from ...errors import ShapeError
from ...tensor import Tensor, vector_norm


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(|x|_p, eps) along the axis `dim`: vectors of length 1.

    >>> F.normalize(sg.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    return input / vector_norm(input, p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along the axis `dim`, which the result is without.

    ShapeError where the inputs do not broadcast to each other.

    >>> F.cosine_similarity(sg.tensor([[3.0, 4.0], [1.0, 0.0]]), sg.tensor([[4.0, 3.0]]))
    tensor([0.96, 0.8 ])
    """
    try:
        shape = np.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    except ValueError:
        raise ShapeError(f"[cosine_similarity] {list(x1.shape)} and {list(x2.shape)} do not broadcast.") from None
    x1, x2 = x1.expand(shape), x2.expand(shape)
    first = x1 / vector_norm(x1, 2.0, dim, keepdim=True).clamp(min=eps)
    second = x2 / vector_norm(x2, 2.0, dim, keepdim=True).clamp(min=eps)
    return (first * second).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """|x1 - x2 + eps|_p along the last axis: (..., d), (..., d) give (...), or (..., 1) with keepdim.

    >>> F.pairwise_distance(sg.tensor([[0.0, 0.0]]), sg.tensor([[3.0, 4.0]]), eps=0.0)
    tensor([5.])
    """
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
