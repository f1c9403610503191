"""The sixteen two-input gates, each known by its number.

The number is the truth table: f(00) f(01) f(10) f(11) read as four bits, f(00) the highest, A the first input. This package
derives everything about a gate from it: the expression in C, Verilog and WGSL, the value on packed words, and the gate that
results when an input is inverted, exchanged or known.
"""

from __future__ import annotations

import numpy as np

FALSE, AND, A_AND_NOT_B, A, NOT_A_AND_B, B, XOR, OR = range(8)
NOR, XNOR, NOT_B, A_OR_NOT_B, NOT_A, NOT_A_OR_B, NAND, TRUE = range(8, 16)

NAMES = (
    "FALSE",
    "AND",
    "A AND NOT B",
    "A",
    "NOT A AND B",
    "B",
    "XOR",
    "OR",
    "NOR",
    "XNOR",
    "NOT B",
    "A OR NOT B",
    "NOT A",
    "NOT A OR B",
    "NAND",
    "TRUE",
)
KIND_OF = {name: kind for kind, name in enumerate(NAMES)}

# C, Verilog and WGSL have the same operators
_EXPRESSIONS = ("{zero}", "{a} & {b}", "{a} & ~{b}", "{a}", "~{a} & {b}", "{b}", "{a} ^ {b}", "{a} | {b}")
_INVERTED = ("{one}", "~({a} & {b})", "~{a} | {b}", "~{a}", "{a} | ~{b}", "~{b}", "~({a} ^ {b})", "~({a} | {b})")


def value_of(kind: int, a: int, b: int) -> int:
    """f(a, b) of a gate, for bits."""
    return kind >> (3 - 2 * a - b) & 1


def reads_a(kind: int) -> bool:
    """Whether the first input matters."""
    return flip_a(kind) != kind


def reads_b(kind: int) -> bool:
    """Whether the second input matters."""
    return flip_b(kind) != kind


def flip_a(kind: int) -> int:
    """The gate that gives f(not a, b)."""
    return (kind & 0b0011) << 2 | kind >> 2


def flip_b(kind: int) -> int:
    """The gate that gives f(a, not b)."""
    return (kind & 0b0101) << 1 | (kind & 0b1010) >> 1


def swap(kind: int) -> int:
    """The gate that gives f(b, a)."""
    return kind & 0b1001 | (kind & 0b0100) >> 1 | (kind & 0b0010) << 1


def diagonal(kind: int) -> int:
    """The gate of A alone that gives f(a, a)."""
    return 0b1100 * (kind >> 3) | 0b0011 * (kind & 1)


def with_a_false(kind: int) -> int:
    """The gate of B alone that gives f(0, b)."""
    return 0b0101 * (kind >> 2)


def with_b_false(kind: int) -> int:
    """The gate of A alone that gives f(a, 0)."""
    return 0b1100 * (kind >> 3) | 0b0011 * (kind >> 1 & 1)


def expression(kind: int, a: str, b: str, zero: str, one: str) -> str:
    """The gate in C, Verilog and WGSL, of operands that bind tighter than `&`; `zero` and `one` write the constants."""
    template = _EXPRESSIONS[kind] if kind < 8 else _INVERTED[15 - kind]
    return template.format(a=a, b=b, zero=zero, one=one)


def apply(kind: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The gate on every bit of unsigned words."""
    if kind >= 8:
        return ~apply(15 - kind, a, b)
    values = (
        lambda: a ^ a,
        lambda: a & b,
        lambda: a & ~b,
        lambda: a,
        lambda: ~a & b,
        lambda: b,
        lambda: a ^ b,
        lambda: a | b,
    )
    return values[kind]()
