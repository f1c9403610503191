"""p-norms of vectors whose gradient is finite everywhere.

In: a floating tensor of any shape, and axes. Out: its norms. Where the norm has no derivative (a vector of zeros, an
element 0 for p < 1) the gradient is 0, a subgradient, as in PyTorch; the formula alone would give 0 * inf.
Reference: https://pytorch.org/docs/stable/generated/torch.linalg.vector_norm.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .tensor_math import where

if TYPE_CHECKING:
    from .tensor import Tensor


def vector_norm(x: Tensor, p: float = 2.0, dim: int | Sequence[int] | None = -1, keepdim: bool = False) -> Tensor:
    """The p-norm along `dim` (None: of all elements): (sum |x|^p)^(1/p), the largest or smallest |x| for p = inf or
    -inf, the number of elements other than 0 for p = 0."""
    if p == math.inf:
        return x.abs().amax(dim, keepdim=keepdim)
    if p == -math.inf:
        return x.abs().amin(dim, keepdim=keepdim)
    if p == 0:
        return where(x != 0, 1.0, x * 0.0).sum(dim, keepdim=keepdim)
    if p == 1:
        return x.abs().sum(dim, keepdim=keepdim)
    if p == 2:
        return _power((x * x).sum(dim, keepdim=keepdim), 0.5)
    return _power(_power(x.abs(), p).sum(dim, keepdim=keepdim), 1.0 / p)


def _power(x: Tensor, p: float) -> Tensor:
    """x ** p for x >= 0, with gradient 0 at 0."""
    is_zero = x == 0
    safe = where(is_zero, 1.0, x)
    return where(is_zero, x.detach() ** p if p < 0 else x * 0.0, safe.sqrt() if p == 0.5 else safe**p)
