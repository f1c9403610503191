"""Special functions that shaders compute: SciPy's values; in WGSL about six digits (compile/wgsl/math.wgsl).

The rest of shadergrad.special is composed of these, or runs on the host. Formulas: Abramowitz and Stegun, 1964.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import AutogradError
from ..graph.build import elementwise, recorded, where
from ..graph.node import Node, mode
from ..system.browser import Late
from .elementwise import FLOATS, Cotangents, in_same_dtype, record

special = Late("scipy.special")


def _digamma(x: np.ndarray) -> np.ndarray:
    """SciPy's digamma, but with PyTorch's infinities at 0, whose sign is opposite to that of the zero."""
    return np.where(x == 0, np.copysign(np.inf, -x), special.psi(x)).astype(x.dtype)


def _zeta(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.asarray(special.zeta(s, q), s.dtype)


def _zeta_gradient(g: Node, s: Node, q: Node, y: Node) -> Cotangents:
    if s.requires_grad and (mode.visiting is None or id(s) in mode.visiting):
        raise AutogradError(
            "[zeta] has a gradient of `other` alone, but a gradient of `input` is asked for. Hint: hand in input.detach()."
        )
    return None, g * -s * elementwise("Zeta", s + 1.0, q)


def _bessel_1_gradient(x: Node, y: Node) -> Node:
    """I0(x) - I1(x) / x - sign(x) I1(x), scaled by e ** -|x|; 1/2 at 0."""
    zero: Any = elementwise("Equal", x, 0.0)
    safe = where(zero, 1.0, x)
    slope = elementwise("I0e", x) - y * (elementwise("Sign", x) + 1.0 / safe)
    return where(zero, 0.5, slope)


def _gammainc(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(special.gammainc(a, x), x.dtype)


def _gammaincc(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(special.gammaincc(a, x), x.dtype)


def _gammainc_gradient(sign: float) -> Any:
    """The gradients of the lower (1) or the upper (-1) function: for x the density, for a minus the density times the slope."""

    def gradient(g: Node, a: Node, x: Node, y: Node) -> Cotangents:
        density = elementwise("Exp", (a - 1.0) * elementwise("Log", x) - x - elementwise("Lgamma", a)) * sign
        return g * -density * elementwise("GammaSlope", a, x), g * density

    return gradient


def _no_slope_of_the_slope(g: Node, a: Node, x: Node, y: Node) -> Cotangents:
    raise AutogradError(
        "[gamma] the incomplete gamma function and draws of gamma variables have no second derivative that involves their shape."
    )


def _gamma_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """-(dP / da) / (dP / dx), with dP / da by differences of the fourth order of the smaller tail."""
    shape, value = a.astype(np.float64), x.astype(np.float64)
    h = 3e-3 * np.minimum(shape, np.sqrt(shape))  # a small part of a standard deviation
    with np.errstate(all="ignore"):
        upper = special.gammainc(shape, value) > 0.5

        def tail(k: int) -> np.ndarray:
            low, high = special.gammainc(shape + k * h, value), -special.gammaincc(shape + k * h, value)
            return np.where(upper, high, low)

        slope = (8 * (tail(1) - tail(-1)) - (tail(2) - tail(-2))) / (12 * h)
        density = np.exp((shape - 1) * np.log(value) - value - special.gammaln(shape))
        return np.where(density > 0, -slope / density, 0.0).astype(x.dtype)


# fmt: off
Gammainc = record(
    "Gammainc", "The regularised lower incomplete gamma function of a and x.",
    _gammainc, "sg_gammainc({a}, {b})", gradient=_gammainc_gradient(1.0), arity=2, categories=FLOATS, cost=300, domain=(0.3, 4.0),
)
Gammaincc = record(
    "Gammaincc", "The regularised upper incomplete gamma function of a and x.",
    _gammaincc, "sg_gammaincc({a}, {b})", gradient=_gammainc_gradient(-1.0), arity=2, categories=FLOATS, cost=300, domain=(0.3, 4.0),
)
GammaSlope = record(
    "GammaSlope", "How a quantile x of a gamma variable moves with its shape a (Figurnov et al., 2018). Its gradient raises.",
    _gamma_slope, "sg_gamma_slope({a}, {b})", gradient=_no_slope_of_the_slope, arity=2, categories=FLOATS, cost=400, domain=(0.3, 4.0),
)
GammaDraw = record(
    "GammaDraw", "A draw x of a gamma variable, as a function of its shape a: its gradient is the slope of the quantile.",
    lambda a, x: x, "{b}", gradient=lambda g, a, x, y: (g * elementwise("GammaSlope", a, x), None),
    arity=2, categories=FLOATS, domain=(0.3, 4.0),
)
Lgamma = record(
    "Lgamma", "The logarithm of |gamma(x)|; inf at 0 and at negative integers.",
    in_same_dtype(special.gammaln), "sg_lgamma({a})", lambda x, y: elementwise("Digamma", x),
    categories=FLOATS, cost=40, domain=(0.2, 5.0), public=True,
    example=("[0.5, 3.0]", "[0.5724, 0.6931]"),
)
Zeta = record(
    "Zeta", "Hurwitz's zeta function, the sum of (k + b) ** -a over k from 0; a > 1. A gradient of a raises.",
    _zeta, "sg_zeta({a}, {b})", gradient=_zeta_gradient, arity=2, categories=FLOATS, cost=200, domain=(1.5, 4.0),
)
Digamma = record(
    "Digamma", "The derivative of the logarithm of gamma(x); NaN at negative integers, infinite at 0.",
    _digamma, "sg_digamma({a})", lambda x, y: _trigamma(x),
    categories=FLOATS, cost=40, domain=(0.2, 5.0), public=True,
    example=("[1.0, 2.0]", "[-0.5772,  0.4228]"),
)
Erfc = record(
    "Erfc", "1 - erf(x), exact where that is small.", in_same_dtype(special.erfc), "sg_erfc({a})",
    lambda x, y: elementwise("Exp", -(x * x)) * (-2.0 / math.sqrt(math.pi)),
    categories=FLOATS, cost=20, public=True,
    example=("[0.0, 1.0]", "[1.    , 0.1573]"),
)
Erfcx = record(
    "Erfcx", "e ** (x * x) erfc(x).", in_same_dtype(special.erfcx), "sg_erfcx({a})",
    lambda x, y: x * y * 2.0 - 2.0 / math.sqrt(math.pi), categories=FLOATS, cost=20,
)
I0e = record(
    "I0e", "The modified Bessel function of order 0 times e ** -|x|.", in_same_dtype(special.i0e), "sg_i0e({a})",
    lambda x, y: elementwise("I1e", x) - elementwise("Sign", x) * y, categories=FLOATS, cost=30,
)
I1e = record(
    "I1e", "The modified Bessel function of order 1 times e ** -|x|.", in_same_dtype(special.i1e), "sg_i1e({a})",
    _bessel_1_gradient, categories=FLOATS, cost=30,
)
# fmt: on


def _trigamma(x: Node) -> Node:
    """zeta(2, x), by reflection below 0: (pi / sin(pi x))^2 - zeta(2, 1 - x)."""
    below: Any = elementwise("Less", x, 0.0)
    here = elementwise("Zeta", recorded.like(x, 2.0), where(below, 1.0 - x, x))
    sine = elementwise("Sin", where(below, x, 0.5) * math.pi)
    return where(below, (math.pi * math.pi) / (sine * sine) - here, here)
