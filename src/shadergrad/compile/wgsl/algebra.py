"""Hides operands from driver optimizations that would drop NaN and infinities.

Some drivers simplify x * 0, x - x and 0 / x to 0, and x / x to 1, for any x.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

ZERO = re.compile(r"(?:vec4<f32>\()?(?:0\.0|sg_bits\(0x80000000u\))\)*")  # as `literal` writes it
ZERO_TIMES = {
    "mul": 2,
    "div": 2,
}  # operations of which a driver knows the result where one of so many operands is 0, or gives anything: x / 0
SUMS = ("add", "sub")
OF_ITSELF = {"sub", "div"}  # operators that a driver simplifies if both operands are equal
MadeOf = Mapping[str, tuple[str, str, str]]  # sums, differences and opposites: operation, first and last operand


def to_hide(name: str, values: Sequence[str], made_of: MadeOf) -> list[bool]:
    """Which of the two operands of an operation must be hidden."""
    a, b = values
    if name in ZERO_TIMES and any(ZERO.fullmatch(v) for v in values[: ZERO_TIMES[name]]):
        return [ZERO.fullmatch(v) is not None for v in values]
    return [False, (name in OF_ITSELF and a == b) or (name in SUMS and _cancel(name, a, b, made_of))]


def _cancel(name: str, a: str, b: str, made_of: MadeOf) -> bool:
    """Whether a term cancels in a sum or a difference of real numbers: x + -x, (x + y) - x."""
    (left, x, y), (right, v, w) = made_of.get(a, ("", "", "")), made_of.get(b, ("", "", ""))
    if name == "add":
        return (left in ("neg", "sub") and y == b) or (right in ("neg", "sub") and w == a)
    return (
        (left == "add" and b in (x, y))
        or (left == "sub" and x == b)
        or (right in SUMS and v == a)
        or (right == "add" and w == a)
    )
