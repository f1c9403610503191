"""Margin losses of labels, and CTC loss, as modules; see functional/ for their formulas."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from .arguments import check_tensor
from .errors import ArgumentError
from .functional.loss_reduction import older_reduction
from .losses import _Loss, _Weighted

__all__ = ["CTCLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss"]


class MultiMarginLoss(_Weighted):
    """The mean over classes of max(0, margin - input[target] + input[class])^p, without the target class's term.

    input (N, C) or (C,), target (N,) or (), integers. p: 1 or 2. weight (C,), a buffer: of each target. reduction:
    'mean' and 'sum' give (), 'none' the shape of target. Raises ArgumentError for another p, ShapeError for a weight
    that is no vector, and where shapes do not fit; a class outside [0, C) raises IndexRangeError.

    >>> nn.MultiMarginLoss()(sg.tensor([[0.0, 0.5]]), sg.tensor([0]))
    tensor(0.75)
    """

    @older_reduction
    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, *, reduction: str = "mean"
    ) -> None:
        if p not in (1, 2):
            raise ArgumentError(f"MultiMarginLoss: only p == 1 and p == 2 are supported, but got {p=}.")
        if weight is not None and check_tensor("MultiMarginLoss", "weight", weight).ndim != 1:
            raise ShapeError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead")
        super().__init__(weight, reduction=reduction)
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The sum of max(0, 1 - input[label] + input[other]) over all pairs of a label and another class, divided by C.

    input (N, C) or (C,); target, of the same shape, integers: the labels, as far as the first -1. reduction: 'mean' and
    'sum' give (), 'none' (N,) or (). Raises ShapeError if the shapes differ.

    >>> nn.MultiLabelMarginLoss()(sg.tensor([0.25, 0.5]), sg.tensor([0, -1]))
    tensor(0.625)
    """

    @older_reduction
    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_Weighted):
    """The mean over classes of binary cross-entropies of logits.

    input and target (*, C), the latter from 0 to 1. weight (C,), a buffer: of each class. reduction: 'mean' and 'sum'
    give (), 'none' (*). Raises ShapeError if the shapes differ.

    >>> nn.MultiLabelSoftMarginLoss()(sg.zeros(2, 3), sg.ones(2, 3))  # log(2)
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class CTCLoss(_Loss):
    """Minus the log-probability of the targets, summed over all their alignments with the input, with blanks between labels.

    Connectionist temporal classification (Graves et al., 2006). log_probs (T, N, C) or (T, C), from log_softmax;
    targets (N, S), or all concatenated, integers, none of them `blank`; the lengths (N,). reduction: 'mean' (of
    the losses divided by the lengths of their targets) and 'sum' give (), 'none' (N,) or (). zero_infinity: targets that do not
    fit their input cost nothing. Lengths are read; errors are those of F.ctc_loss.

    >>> loss = nn.CTCLoss(reduction="none")
    >>> loss(sg.zeros(2, 1, 2).log_softmax(2), sg.tensor([[1]]), [2], [1])  # -log(3 / 4)
    tensor([0.2877])
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
