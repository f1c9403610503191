"""Errors of optimizers, and checks of hyperparameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from ..errors import ShadergradError
from ..tensor import Tensor


class OptimizerError(ShadergradError, ValueError, TypeError):
    """Invalid hyperparameters, parameters or state. PyTorch raises ValueError or TypeError."""


class MissingKeyError(OptimizerError, KeyError):
    """A group or a state lacks a required key."""

    __str__ = Exception.__str__  # KeyError would put quotes around


class Implementation(TypedDict, total=False):
    """PyTorch's options for the implementation of a step. All but the last have no effect, because every step is one fused program."""

    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


def check_number(name: str, value: Any) -> Any:
    """Check that a hyperparameter is a number in its range."""
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise OptimizerError(f"{name} must be a number, but got {name}={value!r}")
    if isinstance(value, Tensor) and value.numel() != 1:
        raise OptimizerError(f"Tensor {name} must be 1-element, but got shape {tuple(value.shape)}")
    return value


def pair_of(betas: Any) -> tuple[float, float]:
    given = tuple(betas) if isinstance(betas, Iterable) and not isinstance(betas, str | Tensor) else ()
    if len(given) != 2:
        raise OptimizerError(f"betas must be two numbers, but got {betas=}")
    return given


NOT_NEGATIVE = {  # PyTorch's error for numbers that may be neither negative nor NaN
    "lr": "learning rate",
    "lr_decay": "lr_decay value",
    "momentum": "momentum value",
    "weight_decay": "weight_decay value",
    "initial_accumulator_value": "initial_accumulator_value value",
    "eps": "epsilon value",
    "alpha": "alpha value",
    "momentum_decay": "momentum_decay value",
}
