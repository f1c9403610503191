"""Sizes that an input of the exported model decides.

In: the same parameter or size of the graphs that a model gave for a few sizes of its dynamic axes. Out: one value, which is a
plain one where all graphs agree, else a formula over the names of the axes, which all graphs confirm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .errors import OnnxError

MOST_FACTORS = 3  # axes that are multiplied in a size, each as often as it is in it
DIGITS = 1e-12  # to which numbers that are worked out of sizes agree

Sizes = Mapping[str, int]  # of the dynamic axes, by name, in one of the calls


@dataclass(frozen=True)
class Size:
    """factor times the product of the named axes, plus offset."""

    factor: int
    names: tuple[str, ...]
    offset: int = 0

    def of(self, sizes: Sizes) -> int:
        return self.factor * math.prod(sizes[name] for name in self.names) + self.offset

    def times(self, number: int) -> Size:
        return Size(self.factor * number, self.names, self.offset * number)

    def plus(self, number: int) -> Size:
        return Size(self.factor, self.names, self.offset + number)

    def __str__(self) -> str:
        text = "*".join(([] if self.factor == 1 else [str(self.factor)]) + list(self.names))
        return text if not self.offset else f"{text}{self.offset:+d}"


@dataclass(frozen=True)
class Share:
    """A floating number: `numerator` divided by a size, or multiplied by it."""

    number: float
    size: Size
    divides: bool


Dim = int | Size | None  # None: it differs from call to call, by no formula that is known here


def same(values: Sequence[Any], calls: Sequence[Sizes]) -> Any:
    """The value that parameters of several calls have in common, containers one by one. None for numbers that no formula gives.

    Raises OnnxError where they are built otherwise.
    """
    first = values[0]
    if all(type(v) is type(first) and repr(v) == repr(first) for v in values):
        return first
    kinds = {type(v) for v in values}
    if len(kinds) == 1 and isinstance(first, list | tuple) and len({len(v) for v in values}) == 1:
        return type(first)(same(column, calls) for column in zip(*values, strict=True))
    if len(kinds) == 1 and isinstance(first, dict) and len({tuple(v) for v in values}) == 1:
        return {key: same([v[key] for v in values], calls) for key in first}
    if kinds == {str}:  # the digest of an object among the parameters: no rule takes one
        return first
    if kinds == {int}:
        return size_of(values, calls)
    if kinds == {float}:
        return share_of(values, calls)
    raise OnnxError(
        f"[onnx] with other sizes of the dynamic axes the model computes something else: {first!r} and {values[-1]!r}. Hint: export "
        "it with fixed sizes."
    )


def size_of(values: Sequence[int], calls: Sequence[Sizes]) -> Dim:
    """The formula of a size, the simplest first; None if there is none."""
    if len(set(values)) == 1:
        return values[0]
    for names in _products(calls[0]):
        of = [math.prod(call[name] for name in names) for call in calls]
        if of[0] == of[1]:
            continue
        slope = Fraction(values[1] - values[0], of[1] - of[0])
        found = Size(int(slope), names, values[0] - int(slope) * of[0])
        if slope.denominator == 1 and all(found.of(call) == v for call, v in zip(calls, values, strict=True)):
            return found
    return None


def share_of(values: Sequence[float], calls: Sequence[Sizes]) -> Share | None:
    """The formula of a number that a size divides or multiplies, as that of a mean does; None if there is none."""
    for names, offset in itertools.product(_products(calls[0]), (0, -1, 1)):  # a variance divides by one less
        size = Size(1, names, offset)
        for divides in (True, False):
            found = [v * size.of(c) if divides else v / size.of(c) for v, c in zip(values, calls, strict=True)]
            if all(math.isclose(f, found[0], rel_tol=DIGITS) for f in found):
                return Share(found[0], size, divides)
    return None


def _products(sizes: Sizes) -> Iterator[tuple[str, ...]]:
    for count in range(1, MOST_FACTORS + 1):
        yield from itertools.combinations_with_replacement(sorted(sizes), count)
