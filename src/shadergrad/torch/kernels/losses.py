"""Losses whose reduction is a number in PyTorch's operators: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from typing import Any

import shadergrad as sg
from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel
from .gradients import gradients

REDUCTIONS = ("none", "mean", "sum")


def _weights(x: Tensor, target: Tensor, w: Any, ignored: int) -> tuple[Tensor, Tensor]:
    """The class of each row, and the row's weight: 0 for an ignored one."""
    kept = target != ignored
    classes = sg.where(kept, target, 0)
    weights = kept.to(x.dtype)
    return classes, weights if w is None else w[classes] * weights


@kernel("nll_loss_forward")
def nll_loss(x: Tensor, target: Tensor, w: Any, reduction: int, ignored: int) -> Any:
    rows = x if x.dim() == 2 else x.unsqueeze(0)
    classes, weights = _weights(rows, target.reshape(-1), w, ignored)
    loss = -rows.gather(1, classes.unsqueeze(1)).squeeze(1) * weights
    total = weights.sum()
    if reduction == 0:
        return loss if x.dim() == 2 else loss[0], total
    return loss.sum() / total if reduction == 1 else loss.sum(), total


@kernel("nll_loss_backward")
def nll_loss_backward(g: Tensor, x: Tensor, target: Tensor, w: Any, reduction: int, ignored: int, total: Tensor) -> Any:
    rows = x if x.dim() == 2 else x.unsqueeze(0)
    classes, weights = _weights(rows, target.reshape(-1), w, ignored)
    slope = -weights * (g / total if reduction == 1 else g)
    hit = sg.arange(rows.shape[1], device=x.device).unsqueeze(0) == classes.unsqueeze(1)
    return sg.where(hit, slope.unsqueeze(1), 0.0).reshape(x.shape)


@kernel("nll_loss2d_forward")
def nll_loss2d(x: Tensor, target: Tensor, w: Any, reduction: int, ignored: int) -> Any:
    rows = x.movedim(1, -1).reshape(-1, x.shape[1])
    loss, total = nll_loss(rows, target.reshape(-1), w, reduction, ignored)
    return loss.reshape(target.shape) if reduction == 0 else loss, total


@kernel("nll_loss2d_backward")
def nll_loss2d_backward(
    g: Tensor, x: Tensor, target: Tensor, w: Any, reduction: int, ignored: int, total: Tensor
) -> Any:
    rows = x.movedim(1, -1)
    slope = nll_loss_backward(
        g.reshape(-1) if reduction == 0 else g,
        rows.reshape(-1, x.shape[1]),
        target.reshape(-1),
        w,
        reduction,
        ignored,
        total,
    )
    return slope.reshape(rows.shape).movedim(-1, 1)


@kernel("mse_loss")
def mse_loss(x: Tensor, y: Tensor, reduction: int = 1) -> Any:
    return F.mse_loss(x, y, reduction=REDUCTIONS[reduction])


@kernel("smooth_l1_loss")
def smooth_l1_loss(x: Tensor, y: Tensor, reduction: int = 1, beta: float = 1.0) -> Any:
    return F.smooth_l1_loss(x, y, reduction=REDUCTIONS[reduction], beta=beta)


@kernel("huber_loss")
def huber_loss(x: Tensor, y: Tensor, reduction: int = 1, delta: float = 1.0) -> Any:
    return F.huber_loss(x, y, reduction=REDUCTIONS[reduction], delta=delta)


@kernel("binary_cross_entropy")
def binary_cross_entropy(x: Tensor, y: Tensor, weight: Any = None, reduction: int = 1) -> Any:
    return F.binary_cross_entropy(x, y, weight, reduction=REDUCTIONS[reduction])


@kernel("multi_margin_loss")
def multi_margin_loss(
    x: Tensor, y: Tensor, p: Any = 1, margin: Any = 1.0, weight: Any = None, reduction: int = 1
) -> Any:
    return F.multi_margin_loss(x, y, p, margin, weight, reduction=REDUCTIONS[reduction])


@kernel("multi_margin_loss_backward")
def multi_margin_loss_backward(
    g: Tensor, x: Tensor, y: Tensor, p: Any, margin: Any, weight: Any = None, reduction: int = 1
) -> Any:
    return gradients(lambda x: multi_margin_loss(x, y, p, margin, weight, reduction), [x], g)[0]


@kernel("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(g: Tensor, x: Tensor, y: Tensor, reduction: int, is_target: Tensor) -> Any:
    return gradients(lambda x: F.multilabel_margin_loss(x, y, reduction=REDUCTIONS[reduction]), [x], g)[0]


@kernel("_ctc_loss", "_ctc_loss.Tensor", takes_host=True)
def ctc_loss(
    x: Tensor, y: Tensor, lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> Any:
    """The losses, and a NaN in place of the table of PyTorch's algorithm, which only its gradient reads."""
    loss = F.ctc_loss(x, y, lengths, target_lengths, blank, "none", zero_infinity)
    return loss, sg.full((*loss.shape, 1, 1), float("nan"), dtype=x.dtype, device=x.device)


@kernel("_ctc_loss_backward", "_ctc_loss_backward.Tensor", takes_host=True)
def ctc_loss_backward(
    g: Tensor, x: Tensor, y: Tensor, lengths: Any, target_lengths: Any, loss: Tensor, table: Tensor, blank: int,
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    return gradients(lambda x: F.ctc_loss(x, y, lengths, target_lengths, blank, "none", zero_infinity), [x], g)[0]
