"""Orthogonal polynomials by their recurrences p[k + 1] = (a x + b) p[k] - c p[k - 1], on the device and differentiable.

n: a number, or a tensor of degrees, which broadcasts with x and is read. A degree below 0 gives 0. Abramowitz and Stegun, 22.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arguments import checked_with_out
from ..errors import ArgumentTypeError
from ..tensor import Tensor, common_shape, where
from .elementary import as_float

Step = Callable[[Any, Any, Any, int], Any]  # of x, p[k], p[k - 1] and k: p[k + 1]


def _chebyshev(x: Any, p: Any, q: Any, k: int) -> Any:
    return 2 * x * p - q


def _hermite(x: Any, p: Any, q: Any, k: int) -> Any:
    return 2 * x * p - 2 * k * q


def _hermite_e(x: Any, p: Any, q: Any, k: int) -> Any:
    return x * p - k * q


def _laguerre(x: Any, p: Any, q: Any, k: int) -> Any:
    return ((2 * k + 1 - x) * p - k * q) / (k + 1)


def _legendre(x: Any, p: Any, q: Any, k: int) -> Any:
    return ((2 * k + 1) * x * p - k * q) / (k + 1)


def _polynomial(input: Any, n: Any, first: Callable[[Any], Any], step: Step) -> Tensor:
    """p[n](x), from p[0] = 1 and p[1] = first(x)."""
    if not isinstance(input, Tensor):
        if not isinstance(n, Tensor):
            raise ArgumentTypeError("a polynomial wants a tensor as input or as n, but both are numbers.")
        input = n.float() * 0 + input
    x = as_float(input)
    degrees = n if isinstance(n, Tensor) else None
    top = int(n) if degrees is None else int(degrees.max().item()) if degrees.numel() else -1
    if degrees is not None:
        degrees = degrees.to(dtype="int32")
        x = x.expand(*common_shape(tuple(x.shape), tuple(degrees.shape)))
    before, now = x * 0, x * 0 + 1
    found = x * 0 if top < 0 or degrees is not None else now
    for k in range(top + 1):
        found = now if degrees is None else where(degrees == k, now, found)
        before, now = now, first(x) if k == 0 else step(x, now, before, k)
    return found


@checked_with_out
def chebyshev_polynomial_t(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Chebyshev's polynomial of the first kind of degree n, cos(n acos x).

    >>> sg.special.chebyshev_polynomial_t(sg.tensor([0.5]), 2)
    tensor([-0.5])
    """
    return _polynomial(input, n, lambda x: x, _chebyshev)


@checked_with_out
def chebyshev_polynomial_u(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Chebyshev's polynomial of the second kind of degree n.

    >>> sg.special.chebyshev_polynomial_u(sg.tensor([0.5]), 1)
    tensor([1.])
    """
    return _polynomial(input, n, lambda x: 2 * x, _chebyshev)


@checked_with_out
def chebyshev_polynomial_v(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Chebyshev's polynomial of the third kind of degree n.

    >>> sg.special.chebyshev_polynomial_v(sg.tensor([0.5]), 1)
    tensor([0.])
    """
    return _polynomial(input, n, lambda x: 2 * x - 1, _chebyshev)


@checked_with_out
def chebyshev_polynomial_w(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Chebyshev's polynomial of the fourth kind of degree n.

    >>> sg.special.chebyshev_polynomial_w(sg.tensor([0.5]), 1)
    tensor([2.])
    """
    return _polynomial(input, n, lambda x: 2 * x + 1, _chebyshev)


def _shifted(input: Any) -> Any:
    return 2 * input - 1


@checked_with_out
def shifted_chebyshev_polynomial_t(input: Tensor | float, n: Tensor | float) -> Tensor:
    """`chebyshev_polynomial_t` at 2 x - 1.

    >>> sg.special.shifted_chebyshev_polynomial_t(sg.tensor([0.5]), 2)
    tensor([-1.])
    """
    return chebyshev_polynomial_t(_shifted(input), n)


@checked_with_out
def shifted_chebyshev_polynomial_u(input: Tensor | float, n: Tensor | float) -> Tensor:
    """`chebyshev_polynomial_u` at 2 x - 1.

    >>> sg.special.shifted_chebyshev_polynomial_u(sg.tensor([1.0]), 1)
    tensor([2.])
    """
    return chebyshev_polynomial_u(_shifted(input), n)


@checked_with_out
def shifted_chebyshev_polynomial_v(input: Tensor | float, n: Tensor | float) -> Tensor:
    """`chebyshev_polynomial_v` at 2 x - 1.

    >>> sg.special.shifted_chebyshev_polynomial_v(sg.tensor([1.0]), 1)
    tensor([1.])
    """
    return chebyshev_polynomial_v(_shifted(input), n)


@checked_with_out
def shifted_chebyshev_polynomial_w(input: Tensor | float, n: Tensor | float) -> Tensor:
    """`chebyshev_polynomial_w` at 2 x - 1.

    >>> sg.special.shifted_chebyshev_polynomial_w(sg.tensor([1.0]), 1)
    tensor([3.])
    """
    return chebyshev_polynomial_w(_shifted(input), n)


@checked_with_out
def hermite_polynomial_h(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Hermite's polynomial of degree n, as physicists have it.

    >>> sg.special.hermite_polynomial_h(sg.tensor([1.0]), 2)
    tensor([2.])
    """
    return _polynomial(input, n, lambda x: 2 * x, _hermite)


@checked_with_out
def hermite_polynomial_he(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Hermite's polynomial of degree n, as probabilists have it.

    >>> sg.special.hermite_polynomial_he(sg.tensor([2.0]), 2)
    tensor([3.])
    """
    return _polynomial(input, n, lambda x: x, _hermite_e)


@checked_with_out
def laguerre_polynomial_l(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Laguerre's polynomial of degree n.

    >>> sg.special.laguerre_polynomial_l(sg.tensor([1.0]), 2)
    tensor([-0.5])
    """
    return _polynomial(input, n, lambda x: 1 - x, _laguerre)


@checked_with_out
def legendre_polynomial_p(input: Tensor | float, n: Tensor | float) -> Tensor:
    """Legendre's polynomial of degree n.

    >>> sg.special.legendre_polynomial_p(sg.tensor([0.5]), 2)
    tensor([-0.125])
    """
    return _polynomial(input, n, lambda x: x, _legendre)
