"""The last linear layer of a classifier and its cross-entropy, without materializing all logits. In: features, the layer, classes. Out: a loss.

With many classes the logits are the largest tensor of a step, although only their softmax's sum is needed. With options the rows are
processed in chunks: the logits of a chunk are discarded, and recomputed in the backward pass, one chunk after another.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from ...autograd.activation_checkpointing import in_turn
from ...dtypes import DType, float16, float32, float64
from ...errors import DTypeError, ShapeError
from ...tensor import Tensor, cat, select_positions, where
from ..errors import ArgumentError
from .classification_losses import cross_entropy
from .linear import linear
from .loss_reduction import check_reduction

__all__ = ["linear_cross_entropy"]

POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """The chunks in which linear_cross_entropy processes the rows of a batch. Without options it processes all rows at once.

    batch_chunk_size: rows of a chunk. chunking_method: 'aspect_ratio' chooses a power of two with which a chunk's logits are about as
    large as the whole input; 'aspect_ratio:n' is an n-th of that; 'auto', the default, is 'aspect_ratio:2', or batch_chunk_size if it is
    given; None is batch_chunk_size, or all rows. If both are given, they must agree.

    Two options of PyTorch's kernels are accepted without effect. allow_retain_graph: a backward pass may always be repeated with
    retain_graph, and has second derivatives. acc_policy: sums are computed in the dtype of the input. acc_dtype must be that dtype, or
    None.
    Raises ArgumentError for another policy, method or dtype, and for a size below 1.

    >>> nn.LinearCrossEntropyOptions(batch_chunk_size=256).chunking_method
    'auto'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in POLICIES:
            raise ArgumentError(f"invalid acc_policy: {self.acc_policy!r}. Hint: one of {', '.join(POLICIES)}.")
        size = self.batch_chunk_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ArgumentError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.chunking_method not in (None, "auto"):
            _divisor(self.chunking_method)
        if self.acc_dtype not in (None, float16, float32, float64):
            raise ArgumentError(f"acc_dtype must be float16, float32, float64 or None, got {self.acc_dtype!r}.")

    def rows(self, batch: int, features: int, classes: int) -> int:
        """Rows of a chunk. Raises ArgumentError if batch_chunk_size and chunking_method disagree."""
        size, method = self.batch_chunk_size, self.chunking_method
        if method == "auto":
            method = None if size is not None else "aspect_ratio:2"
        if method is None:
            return max(1, batch if size is None else min(size, batch))
        even = math.ceil(batch / math.ceil(classes / features)) if features and classes else batch
        found = min((1 << max(even - 1, 0).bit_length()) // _divisor(method), batch)
        if size is not None and size != found:
            raise ArgumentError(
                f"batch_chunk_size (={size}) and chunking_method ('{method}') give different chunk sizes ({size} vs {found}); "
                "pass only one."
            )
        return max(1, found)


def _divisor(method: str | None) -> int:
    name, separator, number = str(method).partition(":")
    if name != "aspect_ratio" or (separator and not (number.isdigit() and int(number))):
        raise ArgumentError(
            f"invalid chunking_method: {method!r}. Hint: 'auto', 'aspect_ratio', 'aspect_ratio:2' or None."
        )
    return int(number) if separator else 1


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target): a last layer and its loss.

    input (N, features) or (features,). linear_weight (C, features), or (C, d1, ..., features) for several losses per row;
    linear_bias: its shape without features. target: classes (N, d1, ...), or probabilities (N, C, d1, ...); without N if input is. weight,
    reduction, label_smoothing: as in cross_entropy. ignore_index: as there, None is -100.
    options: the rows are processed in chunks, so that the logits are never materialized as a whole; nothing else changes. Chunks support
    only classes as targets, no d1 and no label_smoothing; otherwise a warning is given, and all rows are processed at once.

    Raises ShapeError if shapes do not fit, ArgumentError for an ignore_index with probabilities, DTypeError for an acc_dtype that is
    not the input's; otherwise as cross_entropy.

    >>> x, w = sg.zeros(4, 3), sg.zeros(2, 3)
    >>> F.linear_cross_entropy(x, w, sg.tensor([0, 1, 1, 0]), options=nn.LinearCrossEntropyOptions(batch_chunk_size=2))
    tensor(0.6931)
    """
    batch, features = _check_shapes(input, linear_weight, linear_bias)
    classes, *rest = linear_weight.shape[:-1]
    if tuple(target.shape) == (*batch, classes, *rest) and ignore_index is not None:
        raise ArgumentError("ignore_index cannot be specified when target contains probabilities")
    check_reduction(reduction)
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None and (rest or label_smoothing or target.is_floating_point()):
        warnings.warn(
            "linear_cross_entropy: the options are ignored; rows go in chunks where target holds classes, label_smoothing is 0 "
            f"and linear_weight has two axes. Got {target.dtype.name}, {label_smoothing} and {tuple(linear_weight.shape)}.",
            stacklevel=3,
        )
        options = None
    if options is not None:
        if options.acc_dtype not in (None, input.dtype):
            raise DTypeError(
                f"linear_cross_entropy sums {input.dtype.name} in {input.dtype.name}, not in {options.acc_dtype.name}. "
                "Hint: acc_dtype=None."
            )
        rows = batch[0] if batch else 1
        size = options.rows(rows, features, classes)
        if size < rows and tuple(target.shape) == batch:
            return _in_chunks(input, linear_weight, target, linear_bias, weight, reduction, ignored, size)
    logits = linear(
        input,
        linear_weight.reshape(-1, features) if rest else linear_weight,
        linear_bias.reshape(-1) if rest and linear_bias is not None else linear_bias,
    ).reshape(*batch, classes, *rest)
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _check_shapes(input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[tuple[int, ...], int]:
    """(N,) or (), and the features."""
    if not 1 <= input.ndim <= 2:
        raise ShapeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if weight.ndim < 2:
        raise ShapeError(f"expected linear_weight with dimensionality at least 2, got {weight.ndim}")
    *batch, features = input.shape
    *outputs, width = weight.shape
    if features != width:
        raise ShapeError(
            f"expected equal input and linear_weight last dimensions (in_features), got {features} and {width}, respectively"
        )
    if bias is not None and list(bias.shape) != outputs:
        raise ShapeError(f"expected linear_bias shape {tuple(outputs)}, got {tuple(bias.shape)}")
    if len(outputs) > 1 and not batch:
        raise ShapeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
            f"(N, {features}), got unbatched input with shape {tuple(input.shape)}"
        )
    return tuple(batch), features


def _in_chunks(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    size: int,
) -> Tensor:
    def of_rows(x: Tensor, t: Tensor) -> Tensor:
        return cross_entropy(
            linear(x, linear_weight, linear_bias),
            t,
            weight,
            ignore_index=ignored,
            reduction="none" if reduction == "none" else "sum",
        )

    starts = range(0, target.shape[0], size)
    parts = in_turn(of_rows, [(input[k : k + size], target[k : k + size]) for k in starts])
    if reduction == "none":
        return cat(parts)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    if reduction == "sum":
        return total
    counted = target != ignored
    share = counted.to(dtype=input.dtype)
    if weight is not None:
        share = share * select_positions(weight, 0, where(counted, target, 0))
    return total / share.sum()
