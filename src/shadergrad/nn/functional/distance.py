"""Norms, distances and angles between vectors."""

from __future__ import annotations

import math

import numpy as np

from ...tensor import Tensor
from ...tensor_math import where


def vector_norm(x: Tensor, p: float = 2.0, dim: int = -1, keepdim: bool = False) -> Tensor:
    """The p-norm along an axis. The gradient of the norm of a zero vector is 0."""
    if p == math.inf:
        return x.abs().amax(dim, keepdim=keepdim)
    if p == -math.inf:
        return x.abs().amin(dim, keepdim=keepdim)
    if p == 0:
        return (x != 0).to(dtype=x.dtype).sum(dim, keepdim=keepdim)
    if p == 1:
        return x.abs().sum(dim, keepdim=keepdim)
    size = x * x if p == 2 else _power(x.abs(), p)
    total = size.sum(dim, keepdim=keepdim)
    return _root(total, p)


def _power(x: Tensor, p: float) -> Tensor:
    """x ** p for x >= 0, with gradient 0 at 0."""
    positive = x > 0
    return where(positive, where(positive, x, 1.0) ** p, 0.0)


def _root(x: Tensor, p: float) -> Tensor:
    positive = x > 0
    safe = where(positive, x, 1.0)
    return where(positive, safe.sqrt() if p == 2 else safe ** (1.0 / p), x * 0.0)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(its norm, eps)."""
    return input / vector_norm(input, p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along an axis; broadcasts."""
    shape = np.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    x1, x2 = x1.expand(shape), x2.expand(shape)
    first = x1 / vector_norm(x1, 2.0, dim, keepdim=True).clamp(min=eps)
    second = x2 / vector_norm(x2, 2.0, dim, keepdim=True).clamp(min=eps)
    return (first * second).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """|x1 - x2 + eps|_p along the last axis."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
