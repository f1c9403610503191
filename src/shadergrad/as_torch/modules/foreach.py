"""torch._foreach_*: functions that apply one operation to every tensor of a list, for programs' own optimizers.

Each function calls the operation for each tensor. The compiler fuses these calls into few kernels, in compiled steps and in programs of
pending tensors. A second operand is a number, a tensor for all, or a list with one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import shadergrad

from ...tensor import Tensor

_ALONE = [
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
    "zero",
]
_WITH_ONE = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min")
_NAMES = {"clamp_max": "minimum", "clamp_min": "maximum"}


def _checked(name: str, tensors: Any) -> list[Tensor]:
    found = list(tensors)
    if not found:
        raise RuntimeError(f"_foreach_{name}: tensor list must have at least one tensor.")
    return found


def _for_each(name: str, value: Any, count: int) -> list[Any]:
    """The operand of each tensor."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(
            f"_foreach_{name}: tensor lists must have the same number of tensors, got {count} and {len(value)}"
        )
    return list(value)


def _apply(name: str, tensors: list[Tensor], one: Callable[..., Tensor], *others: list[Any]) -> tuple[Tensor, ...]:
    return tuple(one(*together) for together in zip(tensors, *others, strict=True))


def _fill(tensors: list[Tensor], values: Sequence[Tensor]) -> None:
    for t, value in zip(tensors, values, strict=True):
        t.copy_(value)


def _alone(name: str) -> Callable[..., Any]:
    def function(self: Any) -> tuple[Tensor, ...]:
        return _apply(name, _checked(name, self), getattr(Tensor, name))

    return function


def _operated(name: str, t: Tensor, other: Any, alpha: Any) -> Tensor:
    if name in ("add", "sub"):
        return getattr(t, name)(other, alpha=alpha)
    if name in ("maximum", "minimum", "clamp_max", "clamp_min") and not isinstance(other, Tensor):
        return t.clamp(max=other) if name in ("minimum", "clamp_max") else t.clamp(min=other)
    return getattr(t, _NAMES.get(name, name))(other)


def _with_one(name: str) -> Callable[..., Any]:
    def function(self: Any, other: Any, *, alpha: Any = 1) -> tuple[Tensor, ...]:
        if name == "pow" and not isinstance(self, list | tuple):  # a number to the power of each
            return tuple(shadergrad.pow(self, t) for t in other)
        tensors = _checked(name, self)
        others = _for_each(name, other, len(tensors))
        return _apply(name, tensors, lambda t, o: _operated(name, t, o, alpha), others)

    return function


def _in_place(name: str, function: Callable[..., tuple[Tensor, ...]]) -> Callable[..., Any]:
    def written(self: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = _checked(name, self)
        _fill(tensors, function(tensors, *args, **kwargs))
        return self

    return written


def _addc(name: str, product: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    def function(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, scalars: Any = None) -> tuple[Tensor, ...]:
        tensors = _checked(name, self)
        scale = value if scalars is None else scalars
        if isinstance(scale, Tensor) and scale.ndim:
            scale = scale.tolist()
        scales = _for_each(name, scale, len(tensors))
        a, b = (_for_each(name, list(v), len(tensors)) for v in (tensor1, tensor2))
        return _apply(name, tensors, lambda t, x, y, s: t + product(x, y) * s, a, b, scales)

    return function


def _foreach_lerp(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None) -> tuple[Tensor, ...]:
    """self + weight * (tensors1 - self)."""
    tensors = _checked("lerp", self)
    shares = _for_each("lerp", weights if weight is None else weight, len(tensors))
    ends = _for_each("lerp", list(tensors1), len(tensors))
    return _apply("lerp", tensors, lambda t, e, w: t + (e - t) * w, ends, shares)


def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor, as of a vector."""
    return tuple(shadergrad.linalg.vector_norm(t, ord, dtype=dtype) for t in _checked("norm", self))


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The largest element of each tensor."""
    return tuple(t.max() for t in _checked("max", self))


def _foreach_clone(self: Any) -> tuple[Tensor, ...]:
    """A copy of each tensor."""
    return tuple(t.clone() for t in _checked("clone", self))


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Give each tensor the values of another."""
    tensors = _checked("copy_", self)
    _fill(tensors, _for_each("copy_", list(src), len(tensors)))
    return self


def _foreach_zero_(self: Any) -> Any:
    """Set each tensor to zeros."""
    for t in _checked("zero_", self):
        t.zero_()
    return self


def foreach_functions() -> dict[str, Any]:
    """All functions by name."""
    made: dict[str, Any] = {name: _alone(name) for name in _ALONE if name != "zero"}
    made |= {name: _with_one(name) for name in _WITH_ONE}
    made |= {"addcmul": _addc("addcmul", lambda x, y: x * y), "addcdiv": _addc("addcdiv", lambda x, y: x / y)}
    made["lerp"] = _foreach_lerp
    found = {f"_foreach_{name}": function for name, function in made.items()}
    found |= {f"_foreach_{name}_": _in_place(name, function) for name, function in made.items()}
    found |= {f"_foreach_{n}": globals()[f"_foreach_{n}"] for n in ("norm", "max", "clone", "copy_", "zero_")}
    for name, function in found.items():
        function.__name__ = function.__qualname__ = name
    return found
