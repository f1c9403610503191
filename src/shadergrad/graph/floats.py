"""float32 numbers as WGSL literals that are exact in every implementation. In: a number. Out: its text.

Implementations differ in corner cases. Dawn (Chromium) rejects a decimal above the largest float32 even if it rounds to it, as the
shortest decimal of that number does, and its constants have no negative zero. None has constants for infinities and NaN. Numbers without
a literal are made from their bits, by a function, so that they are not constant expressions.
https://www.w3.org/TR/WGSL/#floating-point-evaluation
"""

from __future__ import annotations

import numpy as np

LARGEST = float(np.finfo(np.float32).max)


def float_text(value: float, from_bits: str) -> tuple[str, bool]:
    """A number, rounded to float32, as an expression, and whether that calls the function `from_bits` (of a u32)."""
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number) or (number == 0 and np.signbit(number)):
        return f"{from_bits}({int(number.view(np.uint32)):#x}u)", True
    text = str(number)
    if abs(float(text)) > LARGEST:
        text = repr(float(number))
    text = text if "." in text or "e" in text else text + ".0"
    return f"({text})" if text.startswith("-") else text, False
