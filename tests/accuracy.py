"""The error of elementwise functions over the whole range of float32, in units in the last place (ulp).

Every exponent x some mantissas x both signs, beside the same function in float64. `scripts/conformance_accuracy.py` takes thousands of mantissas and
writes docs/conformance.md; tests/device/test_accuracy.py takes a few. A unit is the distance of float32 numbers at the exact result, at
least that of the smallest normal numbers: WGSL lets a device take subnormal operands and results as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

import shadergrad as sg
from shadergrad.graph.node import make
from shadergrad.graph.primitive import REGISTRY
from shadergrad.nn import functional as F
from shadergrad.primitives.elementwise import Elementwise
from shadergrad.tensor import wrap

Array = np.ndarray
SMALLEST = float(np.finfo(np.float32).tiny)
CHUNK = 1 << 20


@dataclass(frozen=True)
class Function:
    """ours: of tensors. exact: of float64 arrays. bound: ulp that the test allows; reason: why more than 8. wgsl: WGSL's own bound of the
    function of that name, "" where there is none. within: the operands that are compared. least: below it a unit is as at it."""

    name: str
    ours: Callable[..., sg.Tensor]
    exact: Callable[..., Array]
    arity: int = 1
    bound: float = 8.0
    reason: str = ""
    wgsl: str = ""
    within: Callable[..., Array] | None = None
    least: float = SMALLEST


def _record(name: str) -> type[Elementwise]:
    record = REGISTRY[name]
    assert issubclass(record, Elementwise)
    return record


def of_record(name: str) -> Function:
    """The record of that name, its NumPy value in float64 as the exact one."""
    record = _record(name)

    def ours(*operands: sg.Tensor) -> sg.Tensor:
        return wrap(make(record(), *(t._node for t in operands)))

    return Function(name, ours, record.value, record.arity, wgsl=WGSL.get(name, ""), **EXCEPTIONS.get(name, {}))


def _zeta_is_defined(a: Array, b: Array) -> Array:
    return (a > 1.001) & (a < 100) & (b > 1e-3) & (b < 100)


def _gamma_is_ordinary(a: Array, x: Array) -> Array:
    return (a > 1e-2) & (a < 1e4) & (x > 1e-3) & (x < 1e4)


def _quantile_is_ordinary(a: Array, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return _gamma_is_ordinary(a, x) & (np.abs(special.gammainc(a, x) - 0.5) < 0.499)


def _divisor_is_of_wgsls_range(a: Array, b: Array) -> Array:
    return (np.abs(b) >= 2.0**-126) & (np.abs(b) <= 2.0**126)


NEAR_ROOTS = "in units of at least 1: no digits are left near its roots"
GAMMA = "in units of at least 1: tails are powers of e of differences; for 0.01 < a < 10^4 and 0.001 < x < 10^4"
WGSL = {
    "Add": "0.5", "Sub": "0.5", "Mul": "0.5", "Div": "2.5", "Exp": "3 + 2 |x|", "Log": "3; 2^-21 absolute in [0.5, 2]",
    "Sqrt": "as 1 / inverseSqrt: 4.5", "Rsqrt": "2", "Sin": "2^-11 absolute in [-pi, pi]", "Cos": "2^-11 absolute in [-pi, pi]",
    "Tanh": "2^-11 absolute or as sinh / cosh", "Asin": "2^-11 absolute or as atan2", "Acos": "2^-11 absolute or as atan2", "Atan2": "4096",
    "Pow": "as exp2(b * log2(a))", "Exp2": "3 + 2 |x|", "Log2": "3; 2^-21 absolute in [0.5, 2]", "Fmod": "as a - b trunc(a / b)",
    "Abs": "0", "Neg": "0", "Floor": "0", "Round": "0", "Trunc": "0", "Maximum": "0", "Minimum": "0", "Sign": "0",
}  # fmt: skip
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "Digamma": {"least": 1.0, "bound": 32.0, "reason": f"{NEAR_ROOTS}, of which each unit below 0 has one"},
    "Lgamma": {"least": 1.0, "bound": 16.0, "reason": f"{NEAR_ROOTS} below -2"},
    "Div": {"within": _divisor_is_of_wgsls_range, "reason": "WGSL bounds division for divisors from 2^-126 to 2^126"},
    "Gammainc": {"within": _gamma_is_ordinary, "least": 1.0, "bound": 16.0, "reason": GAMMA},
    "Gammaincc": {"within": _gamma_is_ordinary, "least": 1.0, "bound": 16.0, "reason": GAMMA},
    "GammaSlope": {
        "within": _quantile_is_ordinary,
        "least": 1.0,
        "bound": 8192.0,
        "reason": "a quotient of series, to three digits; for quantiles from 0.001 to 0.999",
    },
    "I1e": {"bound": 12.0, "reason": "a polynomial of degree 15, whose ends are its worst places"},
    "Zeta": {
        "within": _zeta_is_defined,
        "least": 2.0**-100,
        "bound": 16.0,
        "reason": "a sum of powers, of which a device may take subnormal ones as 0; for 1 < a < 100 and 0 < b < 100",
    },
}


def functions() -> list[Function]:
    """Every elementwise record of floats with one result, then compositions of them."""
    names = [
        name
        for name, p in REGISTRY.items()
        if issubclass(p, Elementwise) and p.__module__.startswith("shadergrad.primitives.")
        and 2 in p.categories and p.gives is None and hasattr(p, "value") and p.arity < 3
    ]  # fmt: skip
    return [*map(of_record, sorted(names)), *COMPOSED]


def operands(function: Function, mantissas: int, seed: int = 0) -> Iterator[list[Array]]:
    """Arrays of operands: every exponent and sign with `mantissas` random significands each, and places where functions are hard."""
    rng = np.random.default_rng(seed)
    words = np.arange(512, dtype=np.uint32)[:, None] << 23 | rng.integers(0, 1 << 23, (512, mantissas), dtype=np.uint32)
    words[:, 0] &= np.uint32(0xFF800000)
    first = np.concatenate([words.view(np.float32).ravel(), _hard_places(rng, mantissas)])
    first = first[np.isfinite(first)]
    if function.arity == 1:
        yield [first]
        return
    with np.errstate(all="ignore"):
        near = first * rng.uniform(-4, 4, first.shape).astype(np.float32)
        of_every_size = rng.uniform(-150, 129, first.shape) / np.log2(np.abs(first).astype(np.float64))
    yield [first, near]
    yield [first, rng.integers(0, 1 << 32, first.shape, dtype=np.uint64).astype(np.uint32).view(np.float32)]
    yield [first, rng.uniform(-40, 40, first.shape).astype(np.float32)]
    yield [np.abs(first), of_every_size.astype(np.float32)]  # powers


def _hard_places(rng: np.random.Generator, mantissas: int) -> Array:
    """Neighbours of 1 and of multiples of pi / 2, and numbers of ordinary size."""
    near_one = 1 + np.arange(-256, 257) * 2.0**-24
    turns = np.concatenate([np.arange(1, 2000), rng.integers(1, 1 << 24, 16 * mantissas)]) * (np.pi / 2)
    ordinary = rng.uniform(-100, 100, 64 * mantissas)
    return np.concatenate([near_one, -near_one, turns, -turns, ordinary]).astype(np.float32)


def errors(function: Function, device: str, arrays: list[Array]) -> Array:
    """In ulp, for each place: the distance of what the device gives from the exact result."""
    with np.errstate(all="ignore"):
        found = function.ours(*(sg.tensor(a, device=device) for a in arrays)).numpy()
        exact = [a.astype(np.float64) for a in arrays]
        error = _distance(found, function.exact(*exact), function.least)
        subnormal = np.any([(np.abs(a) < SMALLEST) & (a != 0) for a in exact], axis=0)
        if subnormal.any():  # a device may take subnormal operands as 0
            some = [np.where(np.abs(a) < SMALLEST, np.copysign(0.0, a), a)[subnormal] for a in exact]
            error[subnormal] = np.minimum(
                error[subnormal], _distance(found[subnormal], function.exact(*some), function.least)
            )
    return error


def _distance(found: Array, exact: Array, least: float) -> Array:
    exact = np.asarray(exact, np.float64)
    given = np.clip(found.astype(np.float64), -(2.0**128), 2.0**128)
    wanted = np.clip(exact, -(2.0**128), 2.0**128)
    size = np.clip(np.abs(wanted), least, np.finfo(np.float32).max)
    unit = np.exp2(np.floor(np.log2(size)) - 23)
    error = np.abs(given - wanted) / unit
    # results that round to the smallest normal number may be subnormal before
    error[(np.abs(wanted) <= SMALLEST * (1 + 2.0**-24)) & (np.abs(given) <= SMALLEST)] = 0
    rounded = exact.astype(np.float32)
    error[np.isinf(rounded) & (rounded == found)] = 0
    error[np.isnan(exact) != np.isnan(found)] = np.inf
    error[np.isnan(exact) & np.isnan(found)] = 0
    return error


@dataclass(frozen=True)
class Worst:
    """The largest error of a function on a device, where it is, and the share of places beyond 8 ulp."""

    ulp: float
    at: tuple[float, ...]
    beyond: float


def worst(function: Function, device: str, mantissas: int) -> Worst:
    """Of the whole sweep."""
    result, places, beyond = Worst(-1.0, (), 0.0), 0, 0
    for arrays in operands(function, mantissas):
        if function.within is not None:
            arrays = [a[function.within(*arrays)] for a in arrays]
        for start in range(0, arrays[0].size, CHUNK):
            part = [a[start : start + CHUNK] for a in arrays]
            error = errors(function, device, part)
            at = int(np.argmax(error))
            places += error.size
            beyond += int((error > 8).sum())
            if error[at] > result.ulp:
                result = Worst(float(error[at]), tuple(float(a[at]) for a in part), 0.0)
    return Worst(result.ulp, result.at, beyond / max(places, 1))


def _softplus(x: Array) -> Array:
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 700))))


COMPOSED = [
    Function("tan", lambda x: x.tan(), np.tan, wgsl="as sin / cos"),
    Function("sinh", lambda x: x.sinh(), np.sinh, wgsl="as (exp(x) - exp(-x)) / 2"),
    Function("cosh", lambda x: x.cosh(), np.cosh, wgsl="as (exp(x) + exp(-x)) / 2"),
    Function("asinh", lambda x: x.asinh(), np.arcsinh, wgsl="as log(x + sqrt(x x + 1))"),
    Function("acosh", lambda x: x.acosh(), np.arccosh, wgsl="as log(x + sqrt(x x - 1))"),
    Function("atanh", lambda x: x.atanh(), np.arctanh, wgsl="as log((1 + x) / (1 - x)) / 2"),
    Function("reciprocal", lambda x: x.reciprocal(), lambda x: 1 / x, wgsl="2.5"),
    Function("softplus", F.softplus, _softplus),
    Function("logsigmoid", F.logsigmoid, lambda x: -_softplus(-x)),
    Function(
        "silu",
        F.silu,
        lambda x: x * special.expit(x),
        within=lambda x: x > -87,
        reason="for x > -87, below which 1 + e ** -x is infinite",
    ),
    Function("logit", lambda x: x.logit(), special.logit, least=1.0, reason=f"{NEAR_ROOTS}, 1/2"),
]
