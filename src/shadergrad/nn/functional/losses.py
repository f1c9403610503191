"""Losses of numbers, and of probabilities of two outcomes.

input and target have one shape. reduction: 'mean', 'sum' or 'none'.
"""

from __future__ import annotations

import math
import warnings

from ...errors import ShapeError
from ...plan import IN_BINARY
from ...tensor import Tensor, common_shape, holds, where
from ...tensor.composed import composed
from ..errors import ArgumentError
from .activations import softplus
from .loss_reduction import check_floats, check_reduction, check_same, check_weight, reduced, weighted

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss", "kl_div",
    "l1_loss", "mse_loss", "poisson_nll_loss", "sigmoid_focal_loss", "smooth_l1_loss", "soft_margin_loss",
]  # fmt: skip


@composed
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target)^2 of each element, then `reduction`: 'mean', 'sum' or 'none'.

    weight, of the same shape, multiplies the losses; the mean is then divided by the sum of the weights.
    ShapeError if shapes differ (PyTorch broadcasts, and warns), ReductionError for another reduction.

    >>> F.mse_loss(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    check_same("mse_loss", input, target)
    difference = input - target
    check_floats("mse_loss", difference)
    return weighted(difference * difference, weight, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target| of each element, then `reduction`. weight and errors: as for mse_loss.

    >>> F.l1_loss(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 4.0]), reduction="sum")
    tensor(2.)
    """
    check_same("l1_loss", input, target)
    return weighted((input - target).abs(), weight, reduction)


@composed
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2 (Girshick, 2015), then `reduction`.

    ArgumentError for a negative beta; other errors: as for mse_loss.

    >>> F.smooth_l1_loss(sg.tensor([0.5, 3.0]), sg.zeros(2), reduction="none")
    tensor([0.125, 2.5  ])
    """
    check_same("smooth_l1_loss", input, target)
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss does not support negative values for beta, but got {beta=}.")
    difference = input - target
    check_floats("smooth_l1_loss", difference)
    difference = difference.abs()
    if beta == 0:
        return reduced(difference, reduction)
    square = difference * difference * (0.5 / beta)
    return reduced(where(difference < beta, square, difference - 0.5 * beta), reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d^2 / 2 where d = |input - target| <= delta, else delta (d - delta / 2) (Huber, 1964), then `reduction`.

    weight multiplies the losses; the mean divides by the number of elements, not by the sum of weights. ArgumentError unless delta is
    above 0; other errors: as for mse_loss.

    >>> F.huber_loss(sg.tensor([1.0, 4.0]), sg.zeros(2), delta=2.0, reduction="none")
    tensor([0.5, 6. ])
    """
    check_same("huber_loss", input, target)
    if delta <= 0:
        raise ArgumentError(f"huber_loss does not support non-positive values for delta, but got {delta=}.")
    check_floats("huber_loss", input, input - target)
    difference = (input - target).abs()
    loss = where(difference <= delta, difference * difference * 0.5, (difference - 0.5 * delta) * delta)
    if weight is not None:
        check_weight(weight, input)
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-(t log(x) + (1 - t) log(1 - x)) of probabilities x, the logarithms not below -100, then `reduction`.

    weight multiplies the losses, and broadcasts. Where a logarithm is cut, its gradient is 0 (PyTorch's is up to 1e12);
    for logits, binary_cross_entropy_with_logits needs no cut. An input outside [0, 1] raises IndexRangeError: at once on
    cpu, at the next read on webgpu.
    ShapeError if input and target differ in shape.

    >>> F.binary_cross_entropy(sg.tensor([0.5, 0.0]), sg.tensor([1.0, 1.0]), reduction="none")
    tensor([  0.6931, 100.    ])
    """
    if target.shape != input.shape:
        raise ShapeError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    check_floats("binary_cross_entropy", input, target)
    loss = -(target * _floored_log(input) + (1.0 - target) * _floored_log(1.0 - input))
    if weight is not None and common_shape(tuple(weight.shape), tuple(loss.shape)) != tuple(loss.shape):
        raise ShapeError(f"weight of size {list(weight.shape)} does not broadcast to the input's, {list(input.shape)}.")
    inside = holds((input.detach() >= 0) & (input.detach() <= 1), IN_BINARY)
    loss = where(inside, loss, math.nan)
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
    """binary_cross_entropy of sigmoid(input), for logits of any size, then `reduction`.

    weight multiplies the losses, pos_weight the parts of target 1; both broadcast. ShapeError if input and target
    differ in shape.

    >>> F.binary_cross_entropy_with_logits(sg.tensor([0.0, 200.0]), sg.tensor([1.0, 0.0]), reduction="none")
    tensor([  0.6931, 200.    ])
    """
    if target.shape != input.shape:
        raise ShapeError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    check_floats("binary_cross_entropy_with_logits", input, target)
    rest = softplus(-input, threshold=math.inf)  # -log(sigmoid(x))
    if pos_weight is not None:
        rest = rest * ((pos_weight - 1.0) * target + 1.0)
    loss = (1.0 - target) * input + rest
    for name, factor in (("weight", weight), ("pos_weight", pos_weight)):
        if factor is not None and common_shape(tuple(factor.shape), tuple(input.shape)) != tuple(input.shape):
            raise ShapeError(
                f"{name} of size {list(factor.shape)} does not broadcast to the input's, {list(input.shape)}."
            )
    return reduced(loss if weight is None else loss * weight, reduction)


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0, reduction: str = "none"
) -> Tensor:
    """binary_cross_entropy_with_logits times (1 - p)^gamma, p the probability of the target, then `reduction`: confident, correct
    predictions weigh less. As torchvision.ops.sigmoid_focal_loss; "Focal Loss for Dense Object Detection" (Lin and others, 2017).

    inputs: logits; targets, of the same shape, 0 and 1, or between. alpha: the weight of targets 1; those of 0 weigh 1 - alpha; a
    negative one weighs both alike. Raises ShapeError if shapes differ, ArgumentError for alpha above 1 or a negative gamma.

    >>> F.sigmoid_focal_loss(sg.tensor([0.0, 0.0]), sg.tensor([1.0, 0.0]), alpha=0.75)  # ln 2 times a quarter
    tensor([0.13  , 0.0433])
    """
    if alpha > 1 or gamma < 0:
        raise ArgumentError(
            f"[sigmoid_focal_loss] alpha is {alpha} and gamma {gamma}; alpha is at most 1 (negative: no weights), gamma at least 0."
        )
    check_floats("sigmoid_focal_loss", inputs, targets)
    loss = binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    missed = targets * (-inputs).sigmoid() + (1.0 - targets) * inputs.sigmoid()  # 1 - p, exact where p is near 1
    loss = loss * missed**gamma
    if alpha >= 0:
        loss = loss * (alpha * targets + (1.0 - alpha) * (1.0 - targets))
    return reduced(loss, reduction)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log(target) - input), the divergence of Kullback and Leibler (1951), then `reduction`.

    input holds log-probabilities, target probabilities, or with log_target their logarithms.
    reduction: 'batchmean' divides the sum by the size of axis 0, which is the divergence; 'mean', the default, by all
    elements, and warns; 'sum', 'none'. ReductionError for another one.

    >>> F.kl_div(sg.tensor([[0.5, 0.5]]).log(), sg.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    check_reduction(reduction, also=("batchmean",))
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.",
            stacklevel=3,
        )
    check_floats("kl_div", input, target)
    loss = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
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
    """input - target log(input) of a rate, or with log_input, the default, exp(input) - target input, then `reduction`.

    full: adds Stirling's approximation of log(target!), t log(t) - t + log(2 pi t) / 2, where target > 1. eps: added to
    a rate before its logarithm.

    >>> F.poisson_nll_loss(sg.tensor([0.0]), sg.tensor([3.0]))
    tensor(1.)
    >>> F.poisson_nll_loss(sg.tensor([1.0]), sg.tensor([3.0]), log_input=False)
    tensor(1.)
    """
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        large = target > 1
        t = where(large, target, 1.0)
        loss = loss + where(large, t * t.log() - t + 0.5 * (t * (2 * math.pi)).log(), 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target)^2 / var) / 2, then `reduction` (Nix and Weigend, 1994).

    var: of the shape of input, without its last axis, or with size 1 in one axis; at least eps, without gradient through that
    limit, also where it is negative (PyTorch raises). full: adds log(2 pi) / 2. ShapeError for another shape of var.

    >>> F.gaussian_nll_loss(sg.tensor([1.0]), sg.tensor([3.0]), sg.tensor([1.0]))
    tensor(2.)
    """
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        elif [n for n, m in zip(var.shape, input.shape, strict=False) if n != m] != [1] or var.ndim != input.ndim:
            raise ShapeError(f"var is of incorrect size: {list(var.shape)}, for input of size {list(input.shape)}")
    check_floats("gaussian_nll_loss", input, target, var)
    limited = var + (var.detach().clamp(min=eps) - var.detach())
    loss = (limited.log() + (input - target) ** 2 / limited) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), target 1 or -1, then `reduction`.

    >>> F.soft_margin_loss(sg.tensor([0.0, 200.0]), sg.tensor([1.0, -1.0]), reduction="none")
    tensor([  0.6931, 200.    ])
    """
    check_floats("soft_margin_loss", input)
    return reduced(softplus(-target * input, threshold=math.inf), reduction)
