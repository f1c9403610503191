"""Deprecated forms of calls that PyTorch still accepts: factors before the tensors, as in x.add_(-0.1, gradient).

In: the name of a function and arguments that do not fit it. Out: the arguments in today's form, after a deprecation warning; None if the
call is not of a deprecated form.
"""

from __future__ import annotations

import warnings
from typing import Any

# by function: what its factor is called today, and how many tensors come after it
FACTORS = {
    "add": ("alpha", 1),
    "sub": ("alpha", 1),
    "addcmul": ("value", 2),
    "addcdiv": ("value", 2),
}
# functions of beta * input + alpha * (a product of two tensors), called (beta, input, alpha, a, b), or of input (beta, alpha, a, b)
SUMS = ("addmm", "addmv", "addr", "addbmm", "baddbmm")

Call = tuple[tuple[Any, ...], dict[str, Any]]


def as_today(name: str, args: tuple[Any, ...], options: dict[str, Any], tensors: type) -> Call | None:
    """The arguments of name(input, factor, *others) as those of name(input, *others, alpha=factor). tensors: the class of tensors."""
    plain = name.removesuffix("_")
    if plain in FACTORS:
        found = _factor_first(*FACTORS[plain], args, tensors)
    elif plain in SUMS:
        found = _beta_first(args, tensors)
    else:
        return None
    if found is None or found[1].keys() & options.keys():
        return None
    given, factors = found
    said = ", ".join(f"{k}={v}" for k, v in factors.items())
    warnings.warn(
        f"{name}() with {' and '.join(factors)} before the tensors is deprecated. Hint: {said} behind them.",
        stacklevel=4,
    )
    return given, options | factors


def _factor_first(factor: str, count: int, args: tuple[Any, ...], tensors: type) -> Call | None:
    if len(args) != count + 2 or not _is_number(args[1], tensors):
        return None
    if not all(isinstance(v, tensors) or (count == 1 and _is_number(v, tensors)) for v in args[2:]):
        return None
    return (args[0], *args[2:]), {factor: args[1]}


def _beta_first(args: tuple[Any, ...], tensors: type) -> Call | None:
    numbers = [v for v in args if isinstance(v, int | float | complex)]
    others = [v for v in args if isinstance(v, tensors)]
    first = next((k for k, v in enumerate(args) if v is numbers[0]), 2) if numbers else 2
    is_old = first < 2 and len(others) == 3 and len(numbers) in (1, 2) and len(args) == 3 + len(numbers)
    if not is_old or not all(isinstance(v, tensors) for v in (args[1 - first], *args[-2:])):
        return None
    return tuple(others), dict(zip(("beta", "alpha"), numbers, strict=False))


def _is_number(value: Any, tensors: type) -> bool:
    return isinstance(value, int | float | complex) or (isinstance(value, tensors) and value.ndim == 0)
