"""Margin losses of several classes and several labels, then `reduction`."""

from __future__ import annotations

from typing import Any

from ...errors import DTypeError, ShapeError
from ...plan import IN_TARGET
from ...tensor import Tensor, arange, in_range, select_positions, where
from ..errors import ArgumentError
from .activations import logsigmoid
from .loss_reduction import check_floats, check_reduction, check_same, reduced

__all__ = ["multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss"]


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of max(0, margin - input[target] + input[class])^p, without the target class's term.

    input: (N, C) or (C,), target (N,) or (), integers; p: 1 or 2; weight (C,): of each target. Then `reduction`.
    ShapeError if shapes do not fit, ArgumentError for another p. A class outside [0, C) raises IndexRangeError.

    >>> F.multi_margin_loss(sg.tensor([[0.0, 0.5, 2.0]]), sg.tensor([2]))
    tensor(0.)
    >>> F.multi_margin_loss(sg.tensor([0.0, 0.5]), sg.tensor(0))
    tensor(0.75)
    """
    check_reduction(reduction)
    check_floats("multi_margin_loss", input)
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: Invalid p, expected 1 or 2 but got {p}")
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise ShapeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    if target.numel() != rows.shape[0] or target.ndim > 1:
        raise ShapeError(f"inconsistent target size, expected {rows.shape[0]} but got {list(target.shape)}")
    if not target.dtype.is_position:
        raise DTypeError(f"multi_margin_loss: expected integer targets, but got {target.dtype.name}.")
    classes = rows.shape[1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    wanted = in_range(target.reshape(-1), classes, IN_TARGET)
    gap = (margin - rows.gather(1, wanted.unsqueeze(1)) + rows).relu()
    loss = gap if p == 1 else gap * gap
    if weight is not None:
        loss = loss * select_positions(weight, 0, wanted).unsqueeze(1)
    others = arange(classes, device=input.device) != wanted.unsqueeze(1)
    loss = where(others, loss, 0.0).sum(1) / classes
    return reduced(loss if input.ndim == 2 and target.ndim else loss.reshape(target.shape), reduction)


def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The sum of max(0, 1 - input[label] + input[other]) over all pairs of a label and another class,
    divided by the number of classes, then `reduction`.

    input: (N, C) or (C,); target, of the same shape, integers: the labels, as far as the first -1. ShapeError if shapes
    differ.

    >>> F.multilabel_margin_loss(sg.tensor([0.25, 0.5]), sg.tensor([0, -1]))
    tensor(0.625)
    """
    check_reduction(reduction)
    if input.shape != target.shape or input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise ShapeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    if not target.dtype.is_position:
        raise DTypeError(f"multilabel_margin_loss: expected integer targets, but got {target.dtype.name}.")
    rows: Any = input.reshape(-1, input.shape[-1] if input.ndim else 1)
    labels: Any = target.reshape(rows.shape)
    classes = rows.shape[1]
    counts = (labels < 0).to(dtype="int32").cumsum(1) == 0
    places = in_range(where(counts, labels, 0), classes, IN_TARGET)
    zeros = rows.detach() * 0.0
    is_label = zeros.scatter_add(1, places, counts.to(dtype=rows.dtype)) > 0
    gaps = (1.0 - rows.gather(1, places).unsqueeze(2) + rows.unsqueeze(1)).relu()
    taken = counts.unsqueeze(2) & ~is_label.unsqueeze(1)
    loss = where(taken, gaps, 0.0).sum((1, 2)) / classes
    return reduced(loss if input.ndim == 2 else loss.reshape(()), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of binary cross-entropies of logits, then `reduction`.

    input and target: (*, C), the latter from 0 to 1. weight (C,): of each class. ShapeError if shapes differ.

    >>> F.multilabel_soft_margin_loss(sg.zeros(2, 3), sg.ones(2, 3))
    tensor(0.6931)
    """
    check_reduction(reduction)
    check_same("multilabel_soft_margin_loss", input, target)
    check_floats("multilabel_soft_margin_loss", input)
    loss = -(target * logsigmoid(input) + (1.0 - target) * logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduced(loss.mean(-1), reduction)
