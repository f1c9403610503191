"""The last layer of a classifier and its loss in one module; see functional/linear_cross_entropy.py."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import DType
from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from .errors import ArgumentError
from .functional.linear_cross_entropy import LinearCrossEntropyOptions
from .linear import Linear
from .losses import _Weighted

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class LinearCrossEntropyLoss(_Weighted):
    """cross_entropy of a linear layer's outputs: `linear` maps in_features to num_classes logits.

    input (N, in_features) or (in_features,), target: classes (N,) or (), or probabilities (N, num_classes) or
    (num_classes,). out_features (d1, ...): several losses per row, for targets (N, d1, ...) or (N, num_classes, d1, ...).
    weight (num_classes,), a buffer; reduction, label_smoothing: as in CrossEntropyLoss. ignore_index: None is -100; it must
    be None with probabilities. options: rows are processed in chunks, so that the logits are never materialized as a whole
    (LinearCrossEntropyOptions).

    Raises ShapeError for a weight of another shape, ArgumentError for a label_smoothing outside [0, 1]. The call raises the errors of
    F.linear_cross_entropy.

    >>> loss = nn.LinearCrossEntropyLoss(3, 5, options=nn.LinearCrossEntropyOptions())
    >>> loss(sg.zeros(2, 3), sg.tensor([4, 0]))  # log(5)
    tensor(1.6094, grad_fn=<DivBackward>)
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ShapeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(
            in_features, num_classes * math.prod(self.out_features), bias=bias, device=device, dtype=dtype
        )
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        logits, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*logits, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(logits),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
