"""Losses of classes: from logits, and from log-probabilities."""

from __future__ import annotations

from ...dtypes import DType, int32, uint8
from ...errors import DTypeError, ShapeError
from ...plan import IN_TARGET
from ...tensor import Tensor, in_range, select_along, select_positions, where
from ...tensor.composed import composed
from ..errors import ArgumentError
from .device_overrides import overridable
from .loss_reduction import check_floats, check_reduction, reduced


@overridable
@composed
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The negative log-probability of the target class, from logits of any size.

    reduction: 'mean', 'sum' or 'none'. input: (N, C), (C,) or (N, C, d1, ...). target: class indices, integers, shape
    of input without C; or probabilities of the classes, floating, shape of input. weight (C,): of each class; the mean
    is divided by the weights of the targets. Positions where the target is ignore_index do not count. label_smoothing:
    the fraction of each target that is distributed evenly over the classes (Szegedy et al., 2015).

    ShapeError if shapes do not fit, DTypeError for indices that are not integers, ArgumentError for a label_smoothing
    outside [0, 1]. A class outside [0, C) raises IndexRangeError when the loss is read.

    >>> F.cross_entropy(sg.tensor([[0.0, 0.0], [0.0, 200.0]]), sg.tensor([0, 0]), reduction="none")
    tensor([  0.6931, 200.    ])
    """
    check_reduction(reduction)
    if input.ndim == 0:
        raise ShapeError("[cross_entropy] input must have at least one dimension, the classes.")
    check_floats("cross_entropy", input)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    axis = 0 if input.ndim == 1 else 1
    _check_weight(weight, input.shape[axis])
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise DTypeError(
                f"Expected floating point type for target with class probabilities, got {target.dtype.name}. "
                "Hint: .float() for probabilities; class indices are one for each sample, as argmax(1) gives."
            )
        if ignore_index >= 0:
            raise ArgumentError("ignore_index is not supported for floating point target")
        return _of_probabilities(input.log_softmax(axis), target, weight, axis, reduction, label_smoothing)
    return _of_classes(input, input.log_softmax(axis), target, weight, axis, ignore_index, reduction, label_smoothing)


@composed
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Minus the target class's entry of log-probabilities (N, C), (C,) or (N, C, d1, ...), then `reduction`.

    As cross_entropy, without its softmax, its probabilities as targets and its label_smoothing.

    >>> F.nll_loss(sg.tensor([[-1.0, -2.0], [-3.0, -4.0]]), sg.tensor([0, 1]))
    tensor(2.5)
    """
    check_reduction(reduction)
    if input.ndim == 0:
        raise ShapeError("[nll_loss] input must have at least one dimension, the classes.")
    check_floats("nll_loss", input)
    axis = 0 if input.ndim == 1 else 1
    _check_weight(weight, input.shape[axis])
    return _of_classes(input, input, target, weight, axis, ignore_index, reduction, 0.0)


def _check_weight(weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}"
        )


def _check_target(input: Tensor, target: Tensor, dtype: DType) -> Tensor:
    """The target, of the shape of input without its classes."""
    if dtype.category != 1:
        raise DTypeError(
            f"expected target dtype to be Long or Byte, but got {dtype.name}. Hint: class indices are integers, and class "
            "probabilities have the shape of the input."
        )
    if input.ndim == 1:
        if target.numel() != 1 or target.ndim > 1:
            raise ShapeError(f"For 1D input, 1D target must have size 1, but got target size: {target.numel()}")
        return target.reshape(())
    expected = [n for a, n in enumerate(input.shape) if a != 1]
    if list(target.shape) == expected:
        return target
    if target.ndim and target.shape[0] != expected[0]:
        raise ShapeError(
            f"Expected input batch_size ({expected[0]}) to match target batch_size ({target.shape[0]}). "
            f"Hint: for input {tuple(input.shape)} the target is of size {expected}, not {list(target.shape)}."
        )
    also = ""
    if [n for n in target.shape if n != 1] == [n for n in expected if n != 1]:
        also = ". Hint: class indices have no axis of their own, as target.squeeze(1) has none."
    raise ShapeError(f"Expected target size {expected}, got {list(target.shape)}{also}")


def _of_classes(
    input: Tensor,
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor | None,
    axis: int,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    target = _check_target(input, target, target.dtype)
    if target.dtype is uint8:  # which holds no ignore_index
        target = target.to(dtype=int32)
    counted = target != ignore_index
    classes = in_range(where(counted, target, 0), input.shape[axis], IN_TARGET)
    loss = -select_along(log_probabilities, axis, classes)
    share = counted.to(dtype=input.dtype)
    if weight is not None:
        of_target = select_positions(weight, 0, classes)
        loss, share = loss * of_target, share * of_target
    if smoothing:
        loss = loss * (1.0 - smoothing) + _spread(log_probabilities, weight, axis) * (smoothing / input.shape[axis])
    loss = where(counted, loss, 0.0)
    return loss.sum() / share.sum() if reduction == "mean" else reduced(loss, reduction)


def _spread(log_probabilities: Tensor, weight: Tensor | None, axis: int) -> Tensor:
    """Minus the weighted sum over classes."""
    return -(log_probabilities if weight is None else log_probabilities * _along(weight, axis, log_probabilities)).sum(
        axis
    )


def _along(weight: Tensor, axis: int, like: Tensor) -> Tensor:
    return weight.reshape(*(-1 if a == axis else 1 for a in range(like.ndim)))


def _of_probabilities(
    log_probabilities: Tensor, target: Tensor, weight: Tensor | None, axis: int, reduction: str, smoothing: float
) -> Tensor:
    classes = log_probabilities.shape[axis]
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / classes
    if weight is not None:
        target = target * _along(weight, axis, target)
    loss = -(log_probabilities * target).sum(axis)
    return reduced(loss, reduction)


__all__ = ["cross_entropy", "nll_loss"]
