"""The reduction of elementwise losses to one number."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import DTypeError, ShapeError
from ...tensor import Tensor
from ..errors import ReductionError

F = TypeVar("F", bound=Callable[..., Any])


def check_reduction(reduction: str, also: tuple[str, ...] = ()) -> None:
    if reduction not in ("none", "mean", "sum", *also):
        raise ReductionError(f"{reduction} is not a valid value for reduction. Known: none, mean, sum.")


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The losses, their sum or their mean."""
    check_reduction(reduction)
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """As reduced, of losses times weights; the mean is divided by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    check_weight(weight, loss)
    total = reduced(loss * weight, "sum" if reduction == "mean" else reduction)
    return total / weight.sum() if reduction == "mean" else total


def check_weight(weight: Tensor, input: Tensor) -> None:
    if weight.shape != input.shape:
        raise ShapeError(
            f"Weights and input must have the same size, but got {list(weight.shape)} and {list(input.shape)}."
        )


def check_floats(what: str, *tensors: Tensor) -> None:
    """Raises DTypeError for integers and bools, whose loss would have no gradient, and for complex numbers, whose square is not a
    distance."""
    for x in tensors:
        if x.dtype.category != 2:
            hint = "torch.view_as_real" if x.dtype.is_complex else ".float()"
            raise DTypeError(f"[{what}] is not defined for {x.dtype.name}. Hint: {hint} it.")


def check_same(what: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        raise ShapeError(
            f"[{what}] input is {tuple(input.shape)}, target is {tuple(target.shape)}. "
            "Hint: reshape one; broadcasting here is mostly a mistake."
        )


def chosen_reduction(size_average: bool | None, reduce: bool | None, reduction: str, stacklevel: int = 3) -> str:
    """The reduction. size_average and reduce, the arguments before PyTorch 0.4.1, override it with a warning, as in PyTorch."""
    if size_average is None and reduce is None:
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction={chosen!r} instead.",
        stacklevel=stacklevel,
    )
    return chosen


def older_reduction(function: F) -> F:
    """The function, which also accepts size_average and reduce."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if "size_average" in kwargs or "reduce" in kwargs:
            older = kwargs.pop("size_average", None), kwargs.pop("reduce", None)
            if older != (None, None):
                kwargs["reduction"] = chosen_reduction(*older, "mean")
        return function(*args, **kwargs)

    return called  # type: ignore[return-value]  # wraps gives another type, and the same signature
