"""Losses as modules; see functional/ for their formulas."""

from __future__ import annotations

from collections.abc import Callable

from ..tensor import Tensor
from . import functional as F
from .functional.contrastive_losses import check_margin
from .functional.loss_reduction import chosen_reduction, older_reduction
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss",
    "NLLLoss", "PairwiseDistance", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    """Base class of losses. Its arguments have PyTorch's order, because programs derive classes from it. A single string is the reduction."""

    def __init__(
        self, size_average: bool | str | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if isinstance(size_average, str):
            size_average, reduction = None, size_average
        self.reduction = chosen_reduction(size_average, reduce, reduction)


class _Weighted(_Loss):
    """Base class of losses with a weight, which is a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """(input - target)^2, for two tensors of the same shape.

    reduction: 'mean' and 'sum' give (), 'none' the shape of input. Raises ShapeError if the shapes differ (PyTorch
    broadcasts, with a warning), ReductionError for another reduction.

    >>> nn.MSELoss()(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """|input - target|, for two tensors of the same shape. reduction and errors as in MSELoss.

    >>> nn.L1Loss()(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2 (Girshick, 2015).

    input and target have the same shape. reduction and errors as in MSELoss; the call raises ArgumentError for a
    negative beta.

    >>> nn.SmoothL1Loss(reduction="none")(sg.tensor([0.0, 0.0]), sg.tensor([1.0, 3.0]))
    tensor([0.5, 2.5])
    """

    @older_reduction
    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d^2 / 2 where d = |input - target| <= delta, else delta (d - delta / 2) (Huber, 1964).

    input and target have the same shape. reduction and errors as in MSELoss; the call raises ArgumentError for a delta
    that is not positive.

    >>> nn.HuberLoss(reduction="none", delta=2.0)(sg.tensor([0.0, 0.0]), sg.tensor([1.0, 3.0]))
    tensor([0.5, 4. ])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_Weighted):
    """The negative log-probability of the target class, from logits of any size.

    input (N, C), (C,) or (N, C, d1, ...). target: class indices, integers with the shape of input without C; or class
    probabilities, floating with the shape of input. weight (C,), a buffer: a factor for each class; the mean divides by
    the sum of the targets' weights.

    Positions whose target is ignore_index do not count. label_smoothing: the share of each target that is distributed
    evenly over the classes (Szegedy et al., 2015). reduction: 'mean' and 'sum' give (), 'none' the shape of the
    indices.
    Raises ShapeError and DTypeError if target or weight do not fit, ArgumentError for a label_smoothing outside
    [0, 1]. An index out of range raises IndexRangeError: at once on cpu, at the next read on webgpu.

    >>> nn.CrossEntropyLoss()(sg.zeros(2, 4), sg.tensor([0, 3]))  # log(4)
    tensor(1.3863)
    """

    @older_reduction
    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Weighted):
    """The negative log-probability of the target class, from log-probabilities.

    input (N, C), (C,) or (N, C, d1, ...); target: class indices. Arguments and errors as in CrossEntropyLoss.

    >>> nn.NLLLoss()(sg.tensor([[-1.0, -2.0], [-3.0, -4.0]]), sg.tensor([0, 1]))
    tensor(2.5)
    """

    @older_reduction
    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class BCELoss(_Weighted):
    """-(t log(x) + (1 - t) log(1 - x)) for probabilities x and targets t of the same shape, each logarithm at least -100.

    weight, a buffer: a factor for each element. reduction as in MSELoss. Where a logarithm is limited, its gradient is 0
    (PyTorch's is up to 1e12). BCEWithLogitsLoss needs no limit. Raises ShapeError if the shapes differ. An input outside
    [0, 1] raises IndexRangeError: at once on cpu, at the next read on webgpu.

    >>> nn.BCELoss()(sg.tensor([0.5, 1.0]), sg.tensor([1.0, 1.0]))  # log(2) / 2
    tensor(0.3466)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """BCELoss of sigmoid(input), for logits of any size.

    input and target have the same shape. weight, a buffer: a factor for each element. pos_weight, a buffer: a factor for
    the term of target 1. reduction as in MSELoss. Raises ShapeError if the shapes differ.

    >>> nn.BCEWithLogitsLoss()(sg.tensor([0.0, 100.0]), sg.tensor([1.0, 1.0]))  # log(2) / 2
    tensor(0.3466)
    """

    pos_weight: Tensor | None

    @older_reduction
    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """target (log(target) - input): input holds log-probabilities, target probabilities, or with log_target their logarithms.

    reduction: 'batchmean' divides the sum by the size of axis 0, which gives the divergence (Kullback and Leibler, 1951);
    'mean' divides it by the number of elements, with a warning; or 'sum', 'none'.

    >>> loss = nn.KLDivLoss(reduction="batchmean")
    >>> loss(sg.tensor([[0.5, 0.5]]).log(), sg.tensor([[1.0, 0.0]]))  # log(2)
    tensor(0.6931)
    """

    @older_reduction
    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """exp(input) - target input, where input is the logarithm of a Poisson rate.

    Without log_input, input is the rate itself: input - target log(input + eps).
    full: adds Stirling's term, target log(target) - target + log(2 pi target) / 2, where target is above 1.
    reduction as in MSELoss.

    >>> nn.PoissonNLLLoss()(sg.tensor([0.0, 0.0]), sg.tensor([1.0, 3.0]))
    tensor(1.)
    """

    @older_reduction
    def __init__(
        self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """(log(var) + (input - target)^2 / var) / 2 for a normal distribution's mean and variance (Nix and Weigend, 1994).

    input and target have the same shape; var has it too, or lacks the last axis, or has size 1 in one axis. var is limited
    to at least eps, and the gradient ignores this limit. A negative var raises no error (PyTorch raises). full: adds
    log(2 pi) / 2. reduction as in MSELoss. Raises ShapeError if var does not fit.

    >>> nn.GaussianNLLLoss()(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 4.0]), sg.tensor([1.0, 1.0]))
    tensor(1.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target input)), target 1 or -1, for input of any size. reduction as in MSELoss.

    >>> nn.SoftMarginLoss()(sg.tensor([0.0, 0.0]), sg.tensor([1.0, -1.0]))  # log(2)
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class _Margin(_Loss):
    margin: float

    @older_reduction
    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class CosineEmbeddingLoss(_Margin):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; inputs (N, D) or (D,), target (N,) or ().

    reduction as in MSELoss, 'none' gives (N,) or (). Raises ShapeError for other shapes.

    >>> x = sg.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> nn.CosineEmbeddingLoss(reduction="none")(x, sg.tensor([[0.0, 2.0], [3.0, 0.0]]), sg.tensor([1, -1]))
    tensor([1., 1.])
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class MarginRankingLoss(_Margin):
    """max(0, -target (input1 - input2) + margin): input1 should be larger where target is 1, smaller where it is -1.

    The three tensors have the same number of axes, and broadcast. reduction as in MSELoss. Raises ShapeError for
    different numbers of axes.

    >>> loss = nn.MarginRankingLoss(margin=1.0, reduction="none")
    >>> loss(sg.tensor([3.0, 3.0]), sg.tensor([1.0, 1.0]), sg.tensor([1, -1]))
    tensor([0., 3.])
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_Margin):
    """The input where target is 1, max(0, margin - input) where it is -1; for two tensors of the same shape.

    reduction as in MSELoss.

    >>> nn.HingeEmbeddingLoss(reduction="none")(sg.tensor([0.25, 0.25]), sg.tensor([1, -1]))
    tensor([0.25, 0.75])
    """

    @older_reduction
    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(margin, reduction=reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class TripletMarginLoss(_Margin):
    """max(0, |anchor - positive| - |anchor - negative| + margin); three tensors (N, D) or (D,) (Balntas et al., 2016).

    Distances are computed by pairwise_distance with p and eps. swap: the distance |positive - negative| replaces
    |anchor - negative| where it is smaller. reduction as in MSELoss, 'none' gives (N,) or (). Raises ArgumentError for a
    margin that is not positive.

    >>> nn.TripletMarginLoss()(sg.tensor([[0.0]]), sg.tensor([[3.0]]), sg.tensor([[2.0]]))
    tensor(2.)
    """

    @older_reduction
    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, *, reduction: str = "mean"
    ) -> None:
        super().__init__(margin, reduction=reduction)
        check_margin(margin)
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(_Margin):
    """TripletMarginLoss with any distance function of two tensors (N, D), by default pairwise_distance.

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))
    >>> loss(sg.tensor([[0.0, 0.0]]), sg.tensor([[3.0, 1.0]]), sg.tensor([[2.0, 0.0]]))
    tensor(3.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, reduction=reduction)
        check_margin(margin)
        self.distance_function = distance_function
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CosineSimilarity(Module):
    """The cosine of the angle between x1 and x2 along axis dim: x1 . x2 / (max(|x1|, eps) max(|x2|, eps)).

    The inputs broadcast; the result lacks the axis. Raises ShapeError if they do not broadcast.

    >>> nn.CosineSimilarity()(sg.tensor([[1.0, 0.0], [1.0, 0.0]]), sg.tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([0., 1.])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last axis: (N, D) or (D,) to (N,) or (); with keepdim (N, 1) or (1,).

    The inputs broadcast.

    >>> nn.PairwiseDistance()(sg.tensor([[0.0, 0.0]]), sg.tensor([[3.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
