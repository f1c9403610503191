"""Special functions that shaders compute: SciPy's values, WGSL with about six digits (compile/wgsl/math.wgsl).

The rest of shadergrad.special is composed of these, or runs on the host. Formulas: Abramowitz and Stegun, 1964.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from ..graph.build import elementwise, where
from ..graph.node import Node
from .elementwise import FLOATS, Cotangents, kept, record


def _digamma(x: np.ndarray) -> np.ndarray:
    """SciPy's, with PyTorch's infinities at 0: against the sign of the 0."""
    return np.where(x == 0, np.copysign(np.inf, -x), special.psi(x)).astype(x.dtype)


def _zeta(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.asarray(special.zeta(s, q), s.dtype)


def _zeta_gradient(g: Node, s: Node, q: Node, y: Node) -> Cotangents:
    return None, g * -s * elementwise("Zeta", s + 1.0, q)


def _bessel_1_gradient(x: Node, y: Node) -> Node:
    """I0(x) - I1(x) / x - sign(x) I1(x), scaled by e ** -|x|; 1/2 at 0."""
    zero: Any = elementwise("Equal", x, 0.0)
    safe = where(zero, 1.0, x)
    slope = elementwise("I0e", x) - y * (elementwise("Sign", x) + 1.0 / safe)
    return where(zero, 0.5, slope)


# fmt: off
Lgamma = record(
    "Lgamma", "The logarithm of |gamma(x)|; inf at 0 and at negative integers.",
    kept(special.gammaln), "sg_lgamma({a})", lambda x, y: elementwise("Digamma", x),
    categories=FLOATS, cost=40, domain=(0.2, 5.0), public=True,
    example=("[0.5, 3.0]", "[0.5724, 0.6931]"),
)
Zeta = record(
    "Zeta", "Hurwitz's zeta function, the sum of (k + b) ** -a over k from 0; a > 1. No gradient of a.",
    _zeta, "sg_zeta({a}, {b})", gradient=_zeta_gradient, arity=2, categories=FLOATS, cost=200, domain=(1.5, 4.0),
)
Digamma = record(
    "Digamma", "The derivative of the logarithm of gamma(x); NaN at negative integers, infinite at 0.",
    _digamma, "sg_digamma({a})", lambda x, y: _trigamma(x),
    categories=FLOATS, cost=40, domain=(0.2, 5.0), public=True,
    example=("[1.0, 2.0]", "[-0.5772,  0.4228]"),
)
Erfc = record(
    "Erfc", "1 - erf(x), exact where that is small.", kept(special.erfc), "sg_erfc({a})",
    lambda x, y: elementwise("Exp", -(x * x)) * (-2.0 / math.sqrt(math.pi)),
    categories=FLOATS, cost=20, public=True,
    example=("[0.0, 1.0]", "[1.    , 0.1573]"),
)
Erfcx = record(
    "Erfcx", "e ** (x * x) erfc(x).", kept(special.erfcx), "sg_erfcx({a})",
    lambda x, y: x * y * 2.0 - 2.0 / math.sqrt(math.pi), categories=FLOATS, cost=20,
)
I0e = record(
    "I0e", "The modified Bessel function of order 0 times e ** -|x|.", kept(special.i0e), "sg_i0e({a})",
    lambda x, y: elementwise("I1e", x) - elementwise("Sign", x) * y, categories=FLOATS, cost=30,
)
I1e = record(
    "I1e", "The modified Bessel function of order 1 times e ** -|x|.", kept(special.i1e), "sg_i1e({a})",
    _bessel_1_gradient, categories=FLOATS, cost=30,
)
# fmt: on


def _trigamma(x: Node) -> Node:
    """zeta(2, x), by reflection below 0: (pi / sin(pi x))^2 - zeta(2, 1 - x)."""
    below: Any = elementwise("Less", x, 0.0)
    here = elementwise("Zeta", x * 0.0 + 2.0, where(below, 1.0 - x, x))
    sine = elementwise("Sin", where(below, x, 0.5) * math.pi)
    return where(below, (math.pi * math.pi) / (sine * sine) - here, here)
