"""torch._foreach_*: an operation of each tensor of a list. Programs write optimizers with them.

In: lists of tensors, and a number, a tensor, or a list of as many. Out: a list; the forms that end with "_" write into the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import shadergrad

from ...tensor import Tensor

UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
BINARY = ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"]
TERNARY = ["addcmul", "addcdiv", "lerp"]


def _each(value: Any, count: int) -> Sequence[Any]:
    """One value for each of so many tensors."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}")
    return value


def _unary(name: str) -> Callable[..., Any]:
    function = getattr(shadergrad, name)

    def foreach(self: Sequence[Tensor]) -> list[Tensor]:
        return [function(x) for x in self]

    return foreach


def _binary(name: str) -> Callable[..., Any]:
    function = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(name, name)  # of a number

    def foreach(
        self: Any, other: Any = None, *, scalar: Any = None, scalars: Any = None, exponent: Any = None, **options: Any
    ) -> Any:
        given: Any = next(v for v in (other, scalar, scalars, exponent) if v is not None)
        if isinstance(self, int | float):  # _foreach_pow(2.0, tensors)
            return [self**y for y in given]
        return [
            getattr(shadergrad, name if isinstance(y, Tensor) else function)(x, y, **options)
            for x, y in zip(self, _each(given, len(self)), strict=True)
        ]

    return foreach


def _ternary(name: str) -> Callable[..., Any]:
    function = getattr(shadergrad, name)

    def foreach(
        self: Any, tensor1: Any, tensor2: Any = None, value: Any = 1, *, scalars: Any = None, weight: Any = None
    ) -> Any:
        count = len(self)
        thirds = _each(weight if tensor2 is None else tensor2, count)
        if name == "lerp":
            return [function(x, y, w) for x, y, w in zip(self, tensor1, thirds, strict=True)]
        values = _each(value if scalars is None else scalars, count)
        return [function(x, y, z, value=v) for x, y, z, v in zip(self, tensor1, thirds, values, strict=True)]

    return foreach


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    def foreach_(self: Sequence[Tensor], *args: Any, **kwargs: Any) -> None:
        for x, result in zip(self, function(self, *args, **kwargs), strict=True):
            x.copy_(result)

    return foreach_


def _foreach_norm(self: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """The norm of each tensor."""
    return [shadergrad.linalg.vector_norm(x, ord, dtype=dtype) for x in self]


def _foreach_zero_(self: Sequence[Tensor]) -> None:
    """Zeros in each tensor."""
    for x in self:
        x.zero_()


def _foreach_copy_(self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> None:
    """The values of other tensors in each."""
    for x, y in zip(self, src, strict=True):
        x.copy_(y)


def foreach_functions() -> dict[str, Any]:
    """All of them by their names."""
    made = {name: _unary(name) for name in UNARY if hasattr(shadergrad, name)}
    made |= {name: _binary(name) for name in BINARY} | {name: _ternary(name) for name in TERNARY}
    found: dict[str, Any] = {f"_foreach_{name}": function for name, function in made.items()}
    found |= {f"{name}_": _in_place(function) for name, function in found.items()}
    return found | {"_foreach_norm": _foreach_norm, "_foreach_zero_": _foreach_zero_, "_foreach_copy_": _foreach_copy_}
