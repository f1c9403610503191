"""Norms, distances and angles between vectors."""

from __future__ import annotations

import numpy as np

from ...errors import ShapeError
from ...tensor import Tensor, vector_norm


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(its norm, eps)."""
    return input / vector_norm(input, p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along an axis; broadcasts."""
    try:
        shape = np.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    except ValueError:
        raise ShapeError(f"[cosine_similarity] {list(x1.shape)} and {list(x2.shape)} do not broadcast.") from None
    x1, x2 = x1.expand(shape), x2.expand(shape)
    first = x1 / vector_norm(x1, 2.0, dim, keepdim=True).clamp(min=eps)
    second = x2 / vector_norm(x2, 2.0, dim, keepdim=True).clamp(min=eps)
    return (first * second).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """|x1 - x2 + eps|_p along the last axis."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
