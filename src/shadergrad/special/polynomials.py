"""Orthogonal polynomials by their recurrences p[k + 1] = (a x + b) p[k] - c p[k - 1], on the device and differentiable.

n: a number, or a tensor of degrees, which broadcasts with x and is read. A degree below 0 gives 0. Abramowitz and Stegun, 22.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..arguments import checked_with_out
from ..errors import ArgumentTypeError
from ..tensor import Tensor, common_shape, where
from ..tensor.precision import follows_policy
from .elementary import as_float

__all__ = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]  # fmt: skip

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
    return found.clone() if found is input else found


class Polynomial(Protocol):
    """A polynomial of x = input of degree n."""

    def __call__(self, input: Tensor | float, n: Tensor | float, *, out: Tensor | None = None) -> Tensor: ...


def _family(
    name: str,
    first: Callable[[Any], Any],
    step: Step,
    says: str,
    at: tuple[float, int],
    gives: str,
    shifted: bool = False,
) -> Polynomial:
    """The polynomials p[1] = first(x) and on by `step`, at 2 x - 1 if shifted. says: their docstring, whose example is of x, n = at."""

    def function(input: Tensor | float, n: Tensor | float) -> Tensor:
        if shifted:
            input = 2 * (as_float(input) if isinstance(input, Tensor) else input) - 1
        return _polynomial(input, n, first, step)

    function.__name__ = name
    function.__doc__ = f"{says}\n\n>>> sg.special.{name}(sg.tensor([{at[0]}]), {at[1]})\ntensor([{gives}])\n"
    return checked_with_out(follows_policy(function, "special_function"))


# fmt: off
chebyshev_polynomial_t = _family("chebyshev_polynomial_t", lambda x: x, _chebyshev,
    "Chebyshev's polynomial of the first kind of degree n, cos(n acos x).", (0.5, 2), "-0.5")
chebyshev_polynomial_u = _family("chebyshev_polynomial_u", lambda x: 2 * x, _chebyshev,
    "Chebyshev's polynomial of the second kind of degree n.", (0.5, 1), "1.")
chebyshev_polynomial_v = _family("chebyshev_polynomial_v", lambda x: 2 * x - 1, _chebyshev,
    "Chebyshev's polynomial of the third kind of degree n.", (0.5, 1), "0.")
chebyshev_polynomial_w = _family("chebyshev_polynomial_w", lambda x: 2 * x + 1, _chebyshev,
    "Chebyshev's polynomial of the fourth kind of degree n.", (0.5, 1), "2.")
shifted_chebyshev_polynomial_t = _family("shifted_chebyshev_polynomial_t", lambda x: x, _chebyshev,
    "`chebyshev_polynomial_t` at 2 x - 1.", (0.5, 2), "-1.", shifted=True)
shifted_chebyshev_polynomial_u = _family("shifted_chebyshev_polynomial_u", lambda x: 2 * x, _chebyshev,
    "`chebyshev_polynomial_u` at 2 x - 1.", (1.0, 1), "2.", shifted=True)
shifted_chebyshev_polynomial_v = _family("shifted_chebyshev_polynomial_v", lambda x: 2 * x - 1, _chebyshev,
    "`chebyshev_polynomial_v` at 2 x - 1.", (1.0, 1), "1.", shifted=True)
shifted_chebyshev_polynomial_w = _family("shifted_chebyshev_polynomial_w", lambda x: 2 * x + 1, _chebyshev,
    "`chebyshev_polynomial_w` at 2 x - 1.", (1.0, 1), "3.", shifted=True)
hermite_polynomial_h = _family("hermite_polynomial_h", lambda x: 2 * x, _hermite,
    "Hermite's polynomial of degree n, as physicists have it.", (1.0, 2), "2.")
hermite_polynomial_he = _family("hermite_polynomial_he", lambda x: x, _hermite_e,
    "Hermite's polynomial of degree n, as probabilists have it.", (2.0, 2), "3.")
laguerre_polynomial_l = _family("laguerre_polynomial_l", lambda x: 1 - x, _laguerre,
    "Laguerre's polynomial of degree n.", (1.0, 2), "-0.5")
legendre_polynomial_p = _family("legendre_polynomial_p", lambda x: x, _legendre,
    "Legendre's polynomial of degree n.", (0.5, 2), "-0.125")
# fmt: on
