"""Losses that compare examples with each other."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ShapeError
from ...tensor import Tensor, where
from ..errors import ArgumentError
from .distance import pairwise_distance
from .loss_reduction import check_floats, reduced

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip

TINY = 1e-12  # PyTorch's epsilon in the cosine


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1, then `reduction`.

    Inputs (N, D), target (N,); or (D,) and (). ShapeError for other shapes.

    >>> x, y = sg.tensor([[1.0, 0.0], [1.0, 0.0]]), sg.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> F.cosine_embedding_loss(x, y, sg.tensor([1, -1]), reduction="none")
    tensor([1., 1.])
    """
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
    """max(0, |a - p| - |a - n| + margin) of vectors in the last axis, then `reduction` (Balntas et al., 2016).

    p, eps: of pairwise_distance. swap takes the smaller of |a - n| and |p - n|. ArgumentError unless margin is above 0.

    >>> anchor, positive, negative = sg.tensor([[0.0]]), sg.tensor([[3.0]]), sg.tensor([[1.0]])
    >>> F.triplet_margin_loss(anchor, positive, negative)
    tensor(3.)
    """
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
    """triplet_margin_loss of any distance: a function of two tensors, by default pairwise_distance.

    >>> anchor, positive, negative = sg.tensor([0.0, 0.0]), sg.tensor([3.0, 0.0]), sg.tensor([1.0, 9.0])
    >>> F.triplet_margin_with_distance_loss(
    ...     anchor, positive, negative, distance_function=lambda a, b: (a - b).abs(), reduction="none"
    ... )
    tensor([3., 0.])
    """
    check_margin(margin)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0.0), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, -target (input1 - input2) + margin), then `reduction`: target 1 where input1 should be larger, else -1.

    ShapeError if the numbers of axes differ.

    >>> F.margin_ranking_loss(sg.tensor([3.0, 3.0]), sg.tensor([1.0, 1.0]), sg.tensor([1, -1]), reduction="none")
    tensor([0., 2.])
    """
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0.0), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """The input, a distance, where target is 1, max(0, margin - input) where it is -1, then `reduction`.

    Other targets add both parts.

    >>> F.hinge_embedding_loss(sg.tensor([0.5, 0.25]), sg.tensor([1, -1]), reduction="none")
    tensor([0.5 , 0.75])
    """
    check_floats("hinge_embedding_loss", input)
    loss = where(target != -1, input, 0.0) + where(target != 1, (margin - input).clamp(min=0.0), 0.0)
    return reduced(loss, reduction)
