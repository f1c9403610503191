"""The table of kernels: from the names of PyTorch's operators to functions over shadergrad tensors.

Functions under `@kernel("add.Tensor")` take and return shadergrad tensors; the dispatcher reads and wraps. Functions under
`@on_tensors("view")` take torch.Tensors: memory, copies and writes. A functional kernel serves its in-place and out= forms as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..tensor.composed import composed

F = TypeVar("F", bound=Callable[..., Any])


class Kernel(NamedTuple):
    """One operator's kernel. takes_tensors: it takes torch.Tensors instead of values. takes_host: also host tensors, which
    it moves, as PyTorch does with indices and lengths. is_followed: sequences.py records and replays it.
    """

    function: Callable[..., Any]
    takes_tensors: bool
    takes_host: bool = False
    is_followed: bool = True


KERNELS: dict[str, Kernel] = {}


COMPOSITES: dict[str, Callable[..., Any]] = {}
WITH_GRADIENT_OF_TORCH: dict[str, Callable[..., bool]] = {}


def _noted(names: tuple[str, ...], function: F, *kinds: bool) -> F:
    for name in names:
        assert name not in KERNELS, f"two kernels for {name}"
        KERNELS[name] = Kernel(function, *kinds)
    return function


def kernel(*names: str, takes_host: bool = False) -> Callable[[F], F]:
    """A kernel over values."""
    return lambda function: _noted(names, function, False, takes_host)


def pure_kernel(*names: str) -> Callable[[F], F]:
    """A kernel over values that only composes operations (tensor/composed.py): no random numbers, and no reads of values."""

    def noted(function: F) -> F:
        _noted(names, composed(function, gives_views=True, is_patient=True), False)
        return function

    return noted


def on_tensors(*names: str) -> Callable[[F], F]:
    """A kernel over torch.Tensors."""
    return lambda function: _noted(names, function, True)


def passing(*names: str) -> Callable[[F], F]:
    """A kernel over torch.Tensors that computes nothing: it returns sizes and strides, or calls operators that are recorded themselves."""
    return lambda function: _noted(names, function, True, False, False)


def gradient_of_torch(name: str) -> Callable[[F], F]:
    """Says, over torch.Tensors, for which arguments a kernel replaces one of PyTorch's compositions, with PyTorch's formula of its gradient."""

    def noted(function: F) -> F:
        WITH_GRADIENT_OF_TORCH[name] = function
        return function

    return noted


def composite(name: str) -> Callable[[F], F]:
    """Replaces one of PyTorch's compositions, over torch.Tensors: it calls PyTorch's operators, which record gradients."""

    def noted(function: F) -> F:
        COMPOSITES[name] = function
        return function

    return noted
