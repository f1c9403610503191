"""Losses that compare examples with each other."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ShapeError
from ...tensor import Tensor, where
from ..errors import ArgumentError
from .distance import pairwise_distance
from .reduction import reduced

TINY = 1e-12  # PyTorch's, within the cosine


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; inputs (N, D) or (D,)."""
    if input1.shape != input2.shape or tuple(target.shape) != tuple(input1.shape[:-1]):
        raise ShapeError(
            f"[cosine_embedding_loss] inputs are {tuple(input1.shape)} and {tuple(input2.shape)}, target is "
            f"{tuple(target.shape)}: expected (N, D), (N, D), (N,) or (D,), (D,), ()."
        )
    squares = ((input1 * input1).sum(-1) + TINY) * ((input2 * input2).sum(-1) + TINY)
    cosine = (input1 * input2).sum(-1) / squares.sqrt()
    loss = where(target == 1, 1.0 - cosine, 0.0) + where(target == -1, (cosine - margin).clamp(min=0.0), 0.0)
    return reduced(loss, reduction)


def check_margin(margin: float) -> None:
    if not margin > 0:
        raise ArgumentError(f"margin must be greater than 0, got {margin=}")


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |a - p| - |a - n| + margin); swap takes the smaller of |a - n| and |p - n| (Balntas et al., 2016)."""
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss of any distance."""
    check_margin(margin)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0.0), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, -target (input1 - input2) + margin), target 1 or -1."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0.0), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """The input where target is 1, max(0, margin - input) where it is -1."""
    loss = where(target != -1, input, 0.0) + where(target != 1, (margin - input).clamp(min=0.0), 0.0)
    return reduced(loss, reduction)
