"""Functions of the log odds t that make up a continuous Bernoulli distribution; near 0 each is a difference of large numbers.

There they are computed as Taylor series, whose coefficients come from Bernoulli's numbers (Abramowitz and Stegun, 1964, 4.5.65 and
4.5.67). Ten terms are as exact as float64. In and out: tensors.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..tensor import Tensor, where

TERMS = 10


def _bernoulli_numbers(count: int) -> list[Fraction]:
    """B_0, B_1, ..., by the sum of binomials that is 0."""
    found = [Fraction(1)]
    for n in range(1, count):
        total = sum((math.comb(n + 1, k) * b for k, b in enumerate(found)), Fraction(0))
        found.append(-total / (n + 1))
    return found


_EVEN = [(2 * n, b / math.factorial(2 * n)) for n, b in enumerate(_bernoulli_numbers(2 * TERMS + 1)[2::2], 1)]
EXCESS = [float(c) for _, c in _EVEN]  # coth(t / 2) / 2 - 1 / t = the sum of these times t ** (2 n - 1)
SPREAD = [float((n - 1) * c) for n, c in _EVEN]  # its slope
LOG_RATIO = [float(2 * (2 ** (n - 1) - 1) * c / n) for n, c in _EVEN]  # log(t / tanh(t / 2)) - log 2, times t ** (2 n)


def _sum(coefficients: list[float], square: Tensor) -> Tensor:
    """The polynomial in the square of t, by Horner's rule."""
    total = square * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3::-1]:
        total = total * square + c
    return total


def _near(t: Tensor, reach: float) -> tuple[Tensor, Tensor, Tensor]:
    """Where t is near 0; t there, else 0; and t elsewhere, else 1."""
    near = t.abs() < reach
    return near, where(near, t, 0.0), where(near, 1.0, t)


def excess(t: Tensor) -> Tensor:
    """coth(t / 2) / 2 - 1 / t: how far the mean is above 1/2."""
    near, small, far = _near(t, 1.0)
    return where(near, _sum(EXCESS, small.square()) * small, 0.5 / (far * 0.5).tanh() - 1.0 / far)


def spread(t: Tensor) -> Tensor:
    """1 / t ** 2 - 1 / (4 sinh(t / 2) ** 2): the variance."""
    near, small, far = _near(t, 1.0)
    size = -far.abs()
    return where(near, _sum(SPREAD, small.square()), 1.0 / far.square() - size.exp() / size.expm1().square())


def log_ratio(t: Tensor) -> Tensor:
    """log(t / tanh(t / 2)): the logarithm of the constant by which the density is multiplied."""
    near, small, far = _near(t, 0.5)
    square = small.square()
    return where(near, _sum(LOG_RATIO, square) * square + math.log(2.0), (far / (far * 0.5).tanh()).log())
