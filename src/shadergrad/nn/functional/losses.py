"""Losses between numbers, and between probabilities of two outcomes.

input and target have one shape. reduction: 'mean', 'sum' or 'none'.
"""

from __future__ import annotations

import math
import warnings

from ...errors import ShapeError
from ...tensor import Tensor, where
from ..errors import ArgumentError
from .activations import softplus
from .reduction import check_reduction, check_same, check_weight, reduced, weighted


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target) squared."""
    check_same("mse_loss", input, target)
    difference = input - target
    return weighted(difference * difference, weight, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|."""
    check_same("l1_loss", input, target)
    return weighted((input - target).abs(), weight, reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2."""
    check_same("smooth_l1_loss", input, target)
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss does not support negative values for beta, but got {beta=}.")
    difference = (input - target).abs()
    if beta == 0:
        return reduced(difference, reduction)
    square = difference * difference * (0.5 / beta)
    return reduced(where(difference < beta, square, difference - 0.5 * beta), reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d^2 / 2 where d = |input - target| <= delta, else delta (d - delta / 2)."""
    check_same("huber_loss", input, target)
    if delta <= 0:
        raise ArgumentError(f"huber_loss does not support non-positive values for delta, but got {delta=}.")
    difference = (input - target).abs()
    loss = where(difference <= delta, difference * difference * 0.5, (difference - 0.5 * delta) * delta)
    if weight is not None:
        check_weight(weight, input)
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-(t log(x) + (1 - t) log(1 - x)) of probabilities x, the logarithms not below -100.

    Where a logarithm is cut, its gradient is 0 (PyTorch's is up to 1e12). Hint: binary_cross_entropy_with_logits.
    """
    if target.shape != input.shape:
        raise ShapeError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    loss = -(target * _floored_log(input) + (1.0 - target) * _floored_log(1.0 - input))
    return reduced(loss if weight is None else loss * weight, reduction)


def _floored_log(x: Tensor) -> Tensor:
    """max(log(x), -100), without infinities on the way."""
    positive = x > 0
    return where(positive, where(positive, x, 1.0).log(), -100.0).clamp(min=-100.0)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), for logits of any size. pos_weight scales the part of target 1."""
    if target.shape != input.shape:
        raise ShapeError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    rest = softplus(-input, threshold=math.inf)  # -log(sigmoid(x))
    if pos_weight is not None:
        rest = rest * ((pos_weight - 1.0) * target + 1.0)
    loss = (1.0 - target) * input + rest
    return reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log(target) - input): input holds log-probabilities, target probabilities, or with log_target logarithms.

    reduction 'batchmean' divides the sum by the size of axis 0, which is the divergence; 'mean' by all elements.
    """
    check_reduction(reduction, also=("batchmean",))
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.",
            stacklevel=3,
        )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        positive = target > 0
        loss = where(positive, target * where(positive, target, 1.0).log(), 0.0) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return reduced(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """input - target log(input) of a rate, or with log_input of its logarithm; full adds Stirling's term."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        large = target > 1
        t = where(large, target, 1.0)
        loss = loss + where(large, t * t.log() - t + 0.5 * (t * (2 * math.pi)).log(), 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target)^2 / var) / 2; var at least eps, without gradient through that limit."""
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or var.shape[:-1] != input.shape[:-1] or var.shape[-1] != 1:
            raise ShapeError(f"var is of incorrect size: {list(var.shape)}, for input of size {list(input.shape)}")
    limited = var + (var.detach().clamp(min=eps) - var.detach())
    loss = (limited.log() + (input - target) ** 2 / limited) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), target 1 or -1."""
    return reduced(softplus(-target * input, threshold=math.inf), reduction)
