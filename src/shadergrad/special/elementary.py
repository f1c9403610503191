"""Special functions that run on the device: records of their own, or composed of other operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, overload

from ..arguments import checked, checked_with_out
from ..dtypes import default_dtype
from ..errors import ArgumentTypeError, ShapeError
from ..graph.node import make
from ..primitives.elementwise import Elementwise
from ..primitives.special import Erfcx, Gammainc, Gammaincc, I0e, I1e, Zeta
from ..tensor import Tensor, common_shape, full_like, where
from ..tensor.precision import follows_policy, policy

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "i0", "i0e", "i1",
    "i1e", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "modified_bessel_i0", "modified_bessel_i1",
    "multigammaln", "ndtr", "polygamma", "psi", "round", "sinc", "softmax", "spherical_bessel_j0", "xlog1py",
    "xlogy", "zeta",
]  # fmt: skip


def as_float(x: Tensor) -> Tensor:
    """Integers and bools as the default dtype."""
    return x if x.dtype.category >= 2 else x.to(default_dtype())


def pair(a: Tensor | float, b: Tensor | float) -> tuple[Tensor, Tensor]:
    """Two operands, one of them a tensor, as floating tensors of one shape and dtype."""
    if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
        raise ArgumentTypeError("at least one of the two operands must be a Tensor, but both are numbers.")
    lead = as_float(a if isinstance(a, Tensor) else b)  # type: ignore[arg-type]
    x = as_float(a) if isinstance(a, Tensor) else full_like(lead, float(a))
    y = as_float(b) if isinstance(b, Tensor) else full_like(lead, float(b))
    if x.dtype is not y.dtype:
        kind = x.dtype if x.dtype.rank >= y.dtype.rank else y.dtype
        x, y = x.to(kind), y.to(kind)
    shape = common_shape(tuple(x.shape), tuple(y.shape))
    return x.expand(*shape), y.expand(*shape)


def _applied(record: type[Elementwise], x: Tensor) -> Tensor:
    return Tensor._of(make(record(), as_float(x)._node))


class OfInput(Protocol):
    """A function of one tensor."""

    def __call__(self, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...


class OfX(Protocol):
    """A function of one tensor that PyTorch calls x."""

    def __call__(self, x: Tensor, *, out: Tensor | None = None) -> Tensor: ...


@overload
def unary(
    name: str, compute: Callable[[Tensor], Tensor], says: str, at: str, gives: str, takes_x: Literal[False] = False
) -> OfInput: ...


@overload
def unary(
    name: str, compute: Callable[[Tensor], Tensor], says: str, at: str, gives: str, takes_x: Literal[True]
) -> OfX: ...


def unary(name: str, compute: Callable[[Tensor], Tensor], says: str, at: str, gives: str, takes_x: bool = False) -> Any:
    """A public function of one tensor, `input` or `x`. Its docstring `says` what it does, and shows what it `gives` for `at`."""

    compute = follows_policy(compute, "special_function")

    def of_input(input: Tensor) -> Tensor:
        return compute(input)

    def of_x(x: Tensor) -> Tensor:
        return compute(x)

    function = of_x if takes_x else of_input
    function.__name__, function.__module__ = name, compute.__module__
    function.__doc__ = f"{says}\n\n>>> sg.special.{name}(sg.tensor({at}))\ntensor({gives})\n"
    return checked_with_out(function)


# fmt: off
gammaln = unary("gammaln", lambda x: x.lgamma(), "The logarithm of |gamma(x)|, as `sg.lgamma`.", "[3.0]", "[0.6931]")
digamma = unary("digamma", lambda x: x.digamma(),
    "The derivative of the logarithm of gamma(x); also `psi`.", "[1.0]", "[-0.5772]")
psi = unary("psi", lambda x: x.digamma(), "Another name of `digamma`.", "[1.0]", "[-0.5772]")
erf = unary("erf", lambda x: x.erf(), "The error function, as `sg.erf`.", "[1.0]", "[0.8427]")
erfc = unary("erfc", lambda x: x.erfc(), "1 - erf(x), exact where that is small.", "[1.0]", "[0.1573]")
erfcx = unary("erfcx", lambda x: _applied(Erfcx, x), "e ** (x * x) erfc(x).", "[1.0]", "[0.4276]")
erfinv = unary("erfinv", lambda x: x.erfinv(), "The inverse of the error function, as `sg.erfinv`.", "[0.5]", "[0.4769]")
ndtr = unary("ndtr", lambda x: (as_float(x) * -math.sqrt(0.5)).erfc() * 0.5,
    "The area below the standard normal density up to x.", "[0.0, 1.0]", "[0.5   , 0.8413]")
expit = unary("expit", lambda x: x.sigmoid(), "1 / (1 + e ** -x), as `sg.sigmoid`.", "[0.0]", "[0.5]")
exp2 = unary("exp2", lambda x: x.exp2(), "2 ** x, as `sg.exp2`.", "[3.0]", "[8.]")
expm1 = unary("expm1", lambda x: x.expm1(), "e ** x - 1, as `sg.expm1`.", "[1.0]", "[1.7183]")
log1p = unary("log1p", lambda x: x.log1p(), "log(1 + x), as `sg.log1p`.", "[1.0]", "[0.6931]")
sinc = unary("sinc", lambda x: x.sinc(), "sin(pi x) / (pi x), as `sg.sinc`.", "[0.0, 0.5]", "[1.    , 0.6366]")
i0e = unary("i0e", lambda x: _applied(I0e, x),
    "The modified Bessel function of order 0 times e ** -|x|.", "[1.0]", "[0.4658]")
i0 = unary("i0", lambda x: i0e(x) * as_float(x).abs().exp(), "The modified Bessel function of order 0.", "[1.0]", "[1.2661]")
i1e = unary("i1e", lambda x: _applied(I1e, x),
    "The modified Bessel function of order 1 times e ** -|x|.", "[1.0]", "[0.2079]")
i1 = unary("i1", lambda x: i1e(x) * as_float(x).abs().exp(), "The modified Bessel function of order 1.", "[1.0]", "[0.5652]")
modified_bessel_i0 = unary("modified_bessel_i0", lambda x: i0(x), "Another name of `i0`.", "[1.0]", "[1.2661]")
modified_bessel_i1 = unary("modified_bessel_i1", lambda x: i1(x), "Another name of `i1`.", "[1.0]", "[0.5652]")
spherical_bessel_j0 = unary("spherical_bessel_j0", lambda x: (as_float(x) * (1 / math.pi)).sinc(),
    "sin(x) / x; 1 at 0.", "[0.0, 1.0]", "[1.    , 0.8415]")
# fmt: on


@checked_with_out
@policy("special_function")
def zeta(input: Tensor | float, other: Tensor | float) -> Tensor:
    """Hurwitz's zeta function, the sum of (k + other) ** -input over k from 0.

    It has a gradient of `other` alone: one of `input` raises AutogradError in the backward pass.

    >>> sg.special.zeta(sg.tensor([2.0]), 1.0)
    tensor([1.6449])
    """
    s, q = pair(input, other)
    return Tensor._of(make(Zeta(), s._node, q._node))


@checked_with_out
@policy("special_function")
def gammainc(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The regularised lower incomplete gamma function of a = input and x = other, with gradients of both.

    >>> sg.special.gammainc(sg.tensor([1.0]), sg.tensor([1.0]))
    tensor([0.6321])
    """
    a, x = pair(input, other)
    return Tensor._of(make(Gammainc(), a._node, x._node))


@checked_with_out
@policy("special_function")
def gammaincc(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The regularised upper incomplete gamma function of a = input and x = other, with gradients of both.

    >>> sg.special.gammaincc(sg.tensor([1.0]), sg.tensor([1.0]))
    tensor([0.3679])
    """
    a, x = pair(input, other)
    return Tensor._of(make(Gammaincc(), a._node, x._node))


@checked_with_out
@policy("special_function")
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma. Raises ShapeError for n below 0.

    >>> sg.special.polygamma(1, sg.tensor([1.0]))
    tensor([1.6449])
    """
    if n < 0:
        raise ShapeError(f"polygamma(n, x) does not support negative n, but n is {n}.")
    x = as_float(input)
    if n == 0:
        return x.digamma()
    if n == 1:
        below = x < 0
        here = zeta(2.0, where(below, 1 - x, x))
        sine = (where(below, x, 0.5) * math.pi).sin()
        return where(below, math.pi**2 / sine.square() - here, here)
    sign = 1.0 if n % 2 else -1.0
    return zeta(float(n + 1), x) * (sign * math.factorial(n))


@checked_with_out
@policy("special_function")
def multigammaln(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of p dimensions; x must be above (p - 1) / 2.

    >>> sg.special.multigammaln(sg.tensor([2.0]), 2)
    tensor([0.4516])
    """
    if p < 1:
        raise ShapeError(f"mvlgamma(): p has to be greater than or equal to 1, but it is {p}.")
    x = as_float(input)
    total = x * 0 + p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        total = total + (x - j / 2).lgamma()
    return total


@checked_with_out
@policy("special_function")
def log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of `ndtr`, exact where that is small.

    >>> sg.special.log_ndtr(sg.tensor([-10.0]))
    tensor([-53.2313])
    """
    x = as_float(input)
    low = x < -1
    tail = where(low, x, -1.0) * -math.sqrt(0.5)
    below = (erfcx(tail) * 0.5).log() - tail * tail
    above = (where(low, 0.0, x) * math.sqrt(0.5)).erfc() * -0.5
    return where(low, below, above.log1p())


@checked_with_out
@policy("special_function")
def entr(input: Tensor) -> Tensor:
    """-x log(x); 0 at 0, -inf below.

    >>> sg.special.entr(sg.tensor([0.5, 0.0]))
    tensor([0.3466, 0.    ])
    """
    x = as_float(input)
    inside = -x * where(x > 0, x, 1.0).log()
    return where(x.isnan(), x, where(x < 0, -math.inf, where(x > 0, inside, x * 0)))


@checked_with_out
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), as `sg.logit`.

    >>> sg.special.logit(sg.tensor([0.5]))
    tensor([0.])
    """
    return input.logit(eps)


@checked_with_out
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, as `sg.round`.

    >>> sg.special.round(sg.tensor([1.25]), decimals=1)
    tensor([1.2])
    """
    return input.round(decimals=decimals)


@checked_with_out
@policy("special_function")
def xlogy(input: Tensor | float, other: Tensor | float) -> Tensor:
    """x log(y), 0 where x is 0 and y no NaN.

    >>> sg.special.xlogy(sg.tensor([0.0, 1.0]), sg.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    x, y = pair(input, other)
    return x.xlogy(y)


@checked_with_out
@policy("special_function")
def xlog1py(input: Tensor | float, other: Tensor | float) -> Tensor:
    """x log(1 + y), 0 where x is 0 and y no NaN.

    >>> sg.special.xlog1py(sg.tensor([0.0, 1.0]), sg.tensor([-1.0, 1.0]))
    tensor([0.    , 0.6931])
    """
    x, y = pair(input, other)
    none = (x == 0) & ~y.isnan()
    return where(none, x * 0, x * where(none, 0.0, y).log1p())


@checked
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """e ** x over its sum along an axis, as `sg.softmax`.

    >>> sg.special.softmax(sg.zeros(2), 0)
    tensor([0.5, 0.5])
    """
    return (input if dtype is None else input.to(dtype)).softmax(dim)


@checked
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of the softmax, as `sg.log_softmax`.

    >>> sg.special.log_softmax(sg.zeros(2), 0)
    tensor([-0.6931, -0.6931])
    """
    return (input if dtype is None else input.to(dtype)).log_softmax(dim)


@checked_with_out
def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of e ** x, as `sg.logsumexp`.

    >>> sg.special.logsumexp(sg.zeros(2), 0)
    tensor(0.6931)
    """
    return input.logsumexp(dim, keepdim)
