"""Python operators between a tensor and another operand: a number, an array, a tensor, or an object with operators of its own.

In: the name of a method, and both operands. Out: the method's result. Files that define methods with operators add them to the tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .coercion import OPERANDS, host_tensor, not_ours, unsupported

# by method name: the operator's symbol, and the method without argument checks
OPERATORS: dict[str, tuple[str, Any]] = {}
REFLECTED: dict[str, Any] = {}  # for a tensor as the right operand


def apply_operator(method: str, a: Any, b: Any) -> Any:
    """a ∘ b, for a tensor a."""
    symbol, function = OPERATORS[method]
    if isinstance(b, OPERANDS):
        return function(a, b)
    if isinstance(b, np.ndarray):
        return function(a, host_tensor(b, device=a.device))
    if symbol in ("==", "!="):  # Python then finds that the objects differ
        return NotImplemented
    return not_ours(symbol, a, b)


def apply_reflected(method: str, a: Any, b: Any) -> Any:
    """b ∘ a, for a tensor a and an operand b that does not implement the operator."""
    if isinstance(b, OPERANDS):
        return REFLECTED[method](b, a)
    raise unsupported(OPERATORS[method][0], b, a)
