"""The one table of operation cases: what to call, on which inputs, and what PyTorch calls the same thing.

A case names an operation, the function on tensors, PyTorch's function where it has another name, and its inputs. An
input has a shape, a domain to draw from, a kind of element, and a layout: how a view of a leaf becomes the operand.
Everything else (which device, which dtype, values or gradients) is up to the test that walks the table.
To cover a new operation add a line here; tests/device/test_records.py fails for a primitive that no case reaches.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import shadergrad as sg
from shadergrad.dtypes import float32, uint32
from shadergrad.graph import build
from shadergrad.graph.node import make
from shadergrad.graph.primitive import REGISTRY
from shadergrad.nn import functional as F
from shadergrad.nn import functional as FC
from shadergrad.primitives import elementwise as e
from shadergrad.primitives import views
from shadergrad.primitives.random import Threefry
from shadergrad.tensor import wrap

NAN, INF = math.nan, math.inf
SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-30, 1e30)
tnf = torch.nn.functional


@dataclass(frozen=True)
class Input:
    """One operand.

    kind: "float" (the dtype under test), "int" (int32), "index" (int32; int64 for PyTorch) or "bool".
    domain: floats are drawn from [low, high), integers from low to high - 1.
    distinct: no two elements closer than a finite difference, so that extrema have no ties.
    layout: None, or a view that makes the operand from a leaf; `shape` is the leaf's.
    values: fixed elements in place of random ones.
    """

    shape: tuple[int, ...]
    domain: tuple[float, float] = (-2.0, 2.0)
    kind: str = "float"
    distinct: bool = False
    layout: Callable[[Any], Any] | None = None
    values: tuple[Any, ...] | None = None

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The leaf's elements; floats as float64 that float32 holds exactly."""
        low, high = self.domain
        if self.values is not None:
            array = np.array(self.values).reshape(self.shape)
        elif self.distinct:
            size = math.prod(self.shape)
            array = rng.permutation(np.linspace(low, high, size)).reshape(self.shape)
        elif self.kind == "float":
            array = rng.uniform(low, high, self.shape)
        elif self.kind == "bool":
            array = rng.integers(0, 2, self.shape)
        else:
            array = rng.integers(int(low), int(high), self.shape)
        if self.kind == "bool":
            return array.astype(np.bool_)
        return array.astype(np.float32).astype(np.float64) if self.kind == "float" else array.astype(np.int32)


@dataclass(frozen=True)
class Case:
    """One line of the table.

    grad, second: whether to compare first and second derivatives.
    length: of the longest sum in it, which scales the tolerance between devices.
    """

    op: str
    of: str
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    inputs: tuple[Input, ...]
    grad: bool = True
    second: bool = True
    length: int = 1

    @property
    def id(self) -> str:
        return f"{self.op} of {self.of}"

    def arrays(self) -> list[np.ndarray]:
        """The leaves' elements, the same in every run."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        return [i.draw(rng) for i in self.inputs]

    @property
    def differentiable(self) -> bool:
        return self.grad and any(i.kind == "float" for i in self.inputs)


CASES: list[Case] = []


def case(op: str, of: str, ours: Callable[..., Any], *inputs: Input, torch: Any = None, **options: Any) -> None:
    """Adds a line; `torch` is left out where the same Python works on PyTorch's tensors."""
    CASES.append(Case(op, of, ours, torch or ours, inputs, **options))


def floats(*shape: int, low: float = -2.0, high: float = 2.0, **options: Any) -> Input:
    return Input(shape, (low, high), **options)


def ints(*shape: int, low: int = -5, high: int = 6, **options: Any) -> Input:
    return Input(shape, (low, high), "int", **options)


def index(*shape: int, below: int, **options: Any) -> Input:
    return Input(shape, (0, below), "index", **options)


def bools(*shape: int, **options: Any) -> Input:
    return Input(shape, kind="bool", **options)


def spread(*shape: int, **options: Any) -> Input:
    """Distinct elements."""
    return Input(shape, distinct=True, **options)


def special(values: tuple[float, ...] = SPECIAL) -> Input:
    return Input((len(values),), values=values)


def special_pairs() -> tuple[Input, Input]:
    left = tuple(a for a in SPECIAL for _ in SPECIAL)
    right = tuple(b for _ in SPECIAL for b in SPECIAL)
    return special(left), special(right)


def permuted(x: Any) -> Any:
    return x.permute(*range(1, x.ndim), 0)


def strided(x: Any) -> Any:
    return x[..., 1::2]


def expanded(x: Any) -> Any:
    return x.expand(*x.shape[:-1], 5)


# ---------------------------------------------------------------------------------------------- one operand


def unary(op: str, ours: Callable[..., Any], domain: tuple[float, float] = (-3.0, 3.0), **options: Any) -> None:
    """An elementwise function, on every kind of shape and layout."""
    x = Input((7,), domain)
    for of, operand in {
        "a 0-d tensor": replace(x, shape=()),
        "7 elements": x,
        "a single element": replace(x, shape=(1, 1)),
        "a permuted (3, 4, 2)": replace(x, shape=(2, 3, 4), layout=permuted),
        "every second of (3, 10)": replace(x, shape=(3, 10), layout=strided),
        "a column expanded": replace(x, shape=(3, 1), layout=expanded),
        "an empty (2, 0, 3)": replace(x, shape=(2, 0, 3)),
    }.items():
        case(op, of, ours, operand, **options)


def domain_of(primitive: str) -> tuple[float, float]:
    return REGISTRY[primitive].domain  # type: ignore[attr-defined]


unary("exp", lambda x: x.exp(), domain_of("Exp"))
unary("expm1", lambda x: x.expm1(), domain_of("Expm1"))
unary("log", lambda x: x.log(), domain_of("Log"))
unary("sqrt", lambda x: x.sqrt(), domain_of("Sqrt"))
unary("rsqrt", lambda x: x.rsqrt(), domain_of("Rsqrt"))
unary("sin", lambda x: x.sin(), domain_of("Sin"))
unary("cos", lambda x: x.cos(), domain_of("Cos"))
unary("tanh", lambda x: x.tanh(), domain_of("Tanh"))
unary("sigmoid", lambda x: x.sigmoid(), domain_of("Sigmoid"))
unary("relu", lambda x: x.relu(), domain_of("Relu"))
unary("erf", lambda x: x.erf(), domain_of("Erf"))
unary("erfinv", lambda x: x.erfinv(), domain_of("Erfinv"))
unary("lgamma", lambda x: x.lgamma(), domain_of("Lgamma"))
unary("digamma", lambda x: x.digamma(), domain_of("Digamma"))
unary("erfc", lambda x: x.erfc(), domain_of("Erfc"))
unary("special.erfcx", lambda x: sg.special.erfcx(x), domain_of("Erfcx"), torch=lambda x: torch.special.erfcx(x))
unary("special.i0e", lambda x: sg.special.i0e(x), domain_of("I0e"), torch=lambda x: torch.special.i0e(x), second=False)
unary("special.i1e", lambda x: sg.special.i1e(x), domain_of("I1e"), torch=lambda x: torch.special.i1e(x), second=False)
for name in ("gammainc", "gammaincc"):
    case(
        f"special.{name}",
        "",
        lambda a, x, name=name: getattr(sg.special, name)(a, x),
        floats(3, 4, low=0.3, high=4.0),
        floats(4, low=0.3, high=4.0),
        torch=lambda a, x, name=name: getattr(torch.special, name)(a, x),
        grad=False,
    )
case(
    "special.zeta",
    "",
    lambda s, q: sg.special.zeta(s, q),
    floats(3, 4, low=1.5, high=4.0),
    floats(4, low=0.5, high=4.0),
    torch=lambda s, q: torch.special.zeta(s, q),
    grad=False,
)
unary("gelu", lambda x: x.gelu(), torch=lambda x: tnf.gelu(x))
unary("gelu, tanh form,", lambda x: x.gelu("tanh"), torch=lambda x: tnf.gelu(x, approximate="tanh"))
unary("abs", lambda x: x.abs(), domain_of("Abs"))
unary("neg", lambda x: -x, domain_of("Neg"))
unary("sign", lambda x: x.sign(), domain_of("Sign"))
unary("floor", lambda x: x.floor(), domain_of("Floor"))
unary("square", lambda x: x.square())
unary("reciprocal", lambda x: x.reciprocal(), (0.5, 3.0))
unary("clone", lambda x: x.clone())
unary("x + 2", lambda x: x + 2)
unary("2 + x", lambda x: 2 + x)
unary("x - 0.5", lambda x: x - 0.5)
unary("2 - x", lambda x: 2 - x)
unary("x * 3", lambda x: x * 3)
unary("x / 3", lambda x: x / 3)
unary("x / 4", lambda x: x / 4)
unary("2 / x", lambda x: 2 / x, (0.5, 3.0))
unary("x ** 2", lambda x: x**2)
unary("x ** 3", lambda x: x**3)
unary("x ** -1", lambda x: x**-1, (0.5, 3.0))
unary("x ** 0.5", lambda x: x**0.5, (0.5, 3.0))
unary("x ** 2.5", lambda x: x**2.5, (0.5, 3.0))
unary("x ** 1", lambda x: x**1)
unary("x ** 0", lambda x: x**0)
unary("2 ** x", lambda x: 2**x)
unary("clamp from below", lambda x: x.clamp(min=-1.0))
unary("clamp from above", lambda x: x.clamp(max=1.0))
unary("clamp", lambda x: x.clamp(-1.0, 1.5))

case("relu", "-1, 0, 1", lambda x: x.relu(), Input((3,), values=(-1.0, 0.0, 1.0)))
case("abs", "-1, 0, 1", lambda x: x.abs(), Input((3,), values=(-1.0, 0.0, 1.0)))
case("clamp", "its own limits", lambda x: x.clamp(-1.0, 1.0), Input((5,), values=(-2.0, -1.0, 0.0, 1.0, 2.0)))
case(
    "clamp",
    "tensor limits",
    lambda x, a, b: x.clamp(a, b),
    floats(3, 5),
    floats(5, low=-2, high=-1),
    floats(3, 1, low=1, high=2),
    grad=False,
)
case("x ** 2", "negative elements and 0", lambda x: x**2, Input((3,), values=(-1.5, 0.0, 2.0)))
case("x ** 3", "negative elements", lambda x: x**3, Input((2,), values=(-1.5, -0.5)))
case("x ** -2", "negative elements", lambda x: x**-2, Input((2,), values=(-1.5, -0.5)))

for _op, _f in {
    "neg": lambda x: -x,
    "abs": lambda x: x.abs(),
    "sign": lambda x: x.sign(),
    "relu": lambda x: x.relu(),
    "floor": lambda x: x.floor(),
    "x ** 3": lambda x: x**3,
    "exp": lambda x: x.exp(),
    "sqrt of x * x": lambda x: (x * x).sqrt(),
    "x * 3 - 7": lambda x: x * 3 - 7,
    "x / 3": lambda x: x / 3,
    "x + 0.5": lambda x: x + 0.5,
    "bitwise not": lambda x: ~x,
}.items():
    case(_op, "int32", _f, ints(3, 5))
    case(_op, "a 0-d int32", _f, ints())
case("bitwise not", "bool", lambda x: ~x, bools(3, 5))
case("logical_not", "bool", lambda x: x.logical_not(), bools(3, 5))
case("logical_not", "int32", lambda x: x.logical_not(), ints(3, 5, low=-1, high=2))
case("logical_not", "float", lambda x: x.logical_not(), Input((4,), values=(0.0, -0.0, 0.5, NAN)), grad=False)

for _op, _f in {
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "sqrt": lambda x: x.sqrt(),
    "relu": lambda x: x.relu(),
    "abs": lambda x: x.abs(),
    "neg": lambda x: -x,
    "floor": lambda x: x.floor(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "erf": lambda x: x.erf(),
    "isnan": lambda x: x.isnan(),
    "isfinite": lambda x: x.isfinite(),
    "x == 0": lambda x: x == 0,
    "clamp": lambda x: x.clamp(-1.0, 1.0),
}.items():
    case(_op, "NaN, infinities and zeros", _f, special(), grad=False)
case("sign", "infinities and zeros", lambda x: x.sign(), special(SPECIAL[1:]), grad=False)
case("erfinv", "-1, 0, 1 and beyond", lambda x: x.erfinv(), special((-1.0, 0.0, 1.0, 1.5, NAN)), grad=False)

# ---------------------------------------------------------------------------------------------- two operands


def binary(op: str, ours: Callable[..., Any], a: tuple[float, float], b: tuple[float, float], **options: Any) -> None:
    """A function of two tensors, broadcast in every way."""
    for of, (left, right) in {
        "0-d and 0-d": ((), ()),
        "(3, 5) and 0-d": ((3, 5), ()),
        "0-d and (7,)": ((), (7,)),
        "(3, 5) and (5,)": ((3, 5), (5,)),
        "(4, 1) and (1, 3)": ((4, 1), (1, 3)),
        "(2, 1, 3) and (5, 1)": ((2, 1, 3), (5, 1)),
        "an empty (2, 0) and (2, 1)": ((2, 0), (2, 1)),
    }.items():
        case(op, of, ours, Input(left, a), Input(right, b), **options)
    case(
        op,
        "permuted and strided",
        ours,
        Input((5, 3), a, layout=permuted),
        Input((3, 10), b, layout=strided),
        **options,
    )


wide = (-3.0, 3.0)
binary("add", lambda x, y: x + y, wide, wide)
binary("sub", lambda x, y: x - y, wide, wide)
binary("mul", lambda x, y: x * y, wide, wide)
binary("div", lambda x, y: x / y, wide, domain_of("Div"))
binary("pow", lambda x, y: x**y, domain_of("Pow"), wide)
binary("maximum", lambda x, y: x.maximum(y), wide, wide)
binary("minimum", lambda x, y: x.minimum(y), wide, wide)

case("add", "itself", lambda x: x + x, floats(3, 5))
case("mul", "itself", lambda x: x * x, floats(3, 5))
case("add with alpha", "(3, 5) and (5,)", lambda x, y: x.add(y, alpha=0.5), floats(3, 5), floats(5))
case("sub with alpha", "(3, 5) and (5,)", lambda x, y: x.sub(y, alpha=2), floats(3, 5), floats(5))
_ties = Input((4,), values=(1.0, 2.0, -1.0, 0.0)), Input((4,), values=(1.0, 0.0, -1.0, 3.0))
case("maximum", "ties", lambda x, y: x.maximum(y), *_ties)
case("minimum", "ties", lambda x, y: x.minimum(y), *_ties)
# PyTorch's second derivative is NaN there, ours the limit.
case(
    "pow",
    "base 0, exponent 2 and 1",
    lambda x, y: x**y,
    Input((2,), values=(0.0, 0.0)),
    Input((2,), values=(2.0, 1.0)),
    second=False,
)
case(
    "pow",
    "negative bases and whole exponents",
    lambda x, y: x**y,
    special((-2.0, -2.0, -3.0, -1.5)),
    special((2.0, 3.0, -1.0, 0.0)),
    grad=False,
)

COMPARISONS: dict[str, Callable[..., Any]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}
for _op, _f in COMPARISONS.items():
    case(_op, "floats, broadcast", _f, floats(3, 5), floats(5), grad=False)
    case(_op, "NaN, infinities and zeros", _f, *special_pairs(), grad=False)
    case(_op, "int32", _f, ints(3, 5, low=-2, high=3), ints(5, low=-2, high=3))
    case(_op, "bool", _f, Input((4,), kind="bool", values=(0, 0, 1, 1)), Input((4,), kind="bool", values=(0, 1, 0, 1)))
    case(_op, "an int32 and a float", _f, ints(5), floats(5, low=-5, high=5), grad=False)

for _op, _f in {"&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y}.items():
    case(_op, "bool, broadcast", _f, bools(4, 1), bools(1, 5))
    case(_op, "int32", _f, ints(3, 5, low=-1000, high=1000), ints(5, low=-1000, high=1000))
for _op, _f in {
    "logical_and": lambda x, y: x.logical_and(y),
    "logical_or": lambda x, y: x.logical_or(y),
    "logical_xor": lambda x, y: x.logical_xor(y),
}.items():
    case(_op, "bool, broadcast", _f, bools(4, 1), bools(1, 5))
    case(_op, "an int32 and a float", _f, ints(4, 3, low=-1, high=2), floats(3), grad=False)

for _op, _f in {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
    "div": lambda x, y: x / y,
}.items():
    case(_op, "int32, broadcast", _f, ints(4, 1), ints(1, 3, low=1))
    case(_op, "an int32 and a float", _f, ints(3, 5), floats(5, low=1.0, high=2.0))
case("add", "a bool and an int32", lambda x, y: x + y, bools(5), ints(5))
case("mul", "a bool and a float", lambda x, y: x * y, bools(5), floats(5))
case("add", "bool", lambda x, y: x + y, bools(5), bools(5))
case("mul", "bool", lambda x, y: x * y, bools(5), bools(5))
case("maximum", "bool", lambda x, y: x.maximum(y), bools(5), bools(5))
case("minimum", "bool", lambda x, y: x.minimum(y), bools(5), bools(5))
case("pow", "int32", lambda x, y: x**y, ints(5, low=-3, high=4), ints(5, low=0, high=5))
for _op, _f in {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
}.items():
    case(_op, "NaN, infinities and zeros", _f, *special_pairs(), grad=False)

# ---------------------------------------------------------------------------------------------- choosing

case("where", "(3, 5) three times", lambda c, x, y: x.where(c, y), bools(3, 5), floats(3, 5), floats(3, 5))
case("where", "a column, a row and 0-d", lambda c, x, y: x.where(c, y), bools(4, 1), floats(5), floats())
case("where", "a number in one branch", lambda c, x: x.where(c, 0.5), bools(3, 5), floats(5))
case("where", "int32 branches", lambda c, x, y: x.where(c, y), bools(5), ints(3, 5), ints(5))
case("where", "bool branches", lambda c, x, y: x.where(c, y), bools(5), bools(3, 5), bools(5))
case(
    "where",
    "NaN in the branch not taken",
    lambda x: x.log().where(x > 0, x),
    special((-1.0, 2.0, -3.0, 0.5)),
    grad=False,
)
case("where", "an empty condition", lambda c, x: x.where(c, 1.0), bools(0), floats(0))
case("masked_fill", "(3, 5) and a column", lambda x, m: x.masked_fill(m, -1.5), floats(3, 5), bools(3, 1))
case(
    "masked_fill",
    "minus infinity before softmax",
    lambda x, m: x.masked_fill(m, -INF).softmax(-1),
    floats(3, 5),
    Input((5,), kind="bool", values=(0, 1, 0, 0, 1)),
)

# ---------------------------------------------------------------------------------------------- reductions

AXES: dict[str, tuple[tuple[int, ...], Any]] = {
    "all axes of (3, 5)": ((3, 5), None),
    "a 0-d tensor": ((), None),
    "the rows of (3, 7)": ((3, 7), 1),
    "the columns of (5, 3)": ((5, 3), 0),
    "the middle of (2, 5, 3)": ((2, 5, 3), 1),
    "the last of (2, 1, 13)": ((2, 1, 13), -1),
    "an axis of size 1": ((3, 1, 2), 1),
}
PAIRS: dict[str, tuple[tuple[int, ...], Any]] = {
    "axes 0 and 2 of (2, 3, 4)": ((2, 3, 4), (0, 2)),
    "axes 1 and 2 of (2, 3, 4)": ((2, 3, 4), (1, 2)),
    "axes 0 and 1 of (4, 3, 2)": ((4, 3, 2), (0, 1)),
}


def reduction(op: str, pairs: bool = True, **options: Any) -> None:
    """A method (dim, keepdim), over every choice of axes."""
    for of, (shape, dim) in {**AXES, **(PAIRS if pairs else {})}.items():
        for keepdim in (False, True):

            def ours(x: Any, dim: Any = dim, keepdim: bool = keepdim) -> Any:
                if dim is None:
                    return getattr(x, op)()
                result = getattr(x, op)(dim, keepdim=keepdim)
                return result[0] if op in ("max", "min") else result

            if not (dim is None and keepdim):
                kept = ", kept" if keepdim else ""
                case(op, of + kept, ours, Input(shape, distinct=True), length=max(1, math.prod(shape)), **options)
    case(
        op,
        "a permuted (3, 4, 2)",
        lambda x: _first(getattr(x, op)(-1)),
        Input((2, 3, 4), distinct=True, layout=permuted),
        length=4,
        **options,
    )
    case(
        op,
        "every second of (3, 10)",
        lambda x: _first(getattr(x, op)(0)),
        Input((3, 10), distinct=True, layout=strided),
        length=4,
        **options,
    )


def _first(x: Any) -> Any:
    return x[0] if isinstance(x, tuple) else x


reduction("sum")
reduction("mean")
reduction("amax")
reduction("amin")
reduction("max", pairs=False)
reduction("min", pairs=False)
reduction("argmax", pairs=False, grad=False)
reduction("argmin", pairs=False, grad=False)
for _of, (_shape, _dim) in {**AXES, **PAIRS}.items():
    if (_shape and _dim != 1) or _of == "the rows of (3, 7)":
        case("var", _of, lambda x, dim=_dim: x.var(dim), floats(*_shape))
        case("std", _of, lambda x, dim=_dim: x.std(dim, keepdim=True), floats(*_shape))
        case("var without correction", _of, lambda x, dim=_dim: x.var(dim, correction=0), floats(*_shape))
for _of, (_shape, _dim) in AXES.items():
    _at = 0 if _dim is None else _dim
    case("softmax", _of, lambda x, dim=_at: x.softmax(dim), floats(*_shape))
    case("log_softmax", _of, lambda x, dim=_at: x.log_softmax(dim), floats(*_shape))
    case("logsumexp", _of, lambda x, dim=_at: x.logsumexp(dim), floats(*_shape))
case("logsumexp", "axes 0 and 2 of (2, 3, 4)", lambda x: x.logsumexp((0, 2), keepdim=True), floats(2, 3, 4))
case(
    "softmax",
    "logits of ± 1000",
    lambda x: x.softmax(-1),
    Input((2, 3), values=(1000.0, 999.0, -1000.0, -1000.0, -999.5, -1000.0)),
)
case(
    "log_softmax",
    "logits of ± 1000",
    lambda x: x.log_softmax(-1),
    Input((2, 3), values=(1000.0, 999.0, -1000.0, -1000.0, -999.5, -1000.0)),
)
case("softmax", "a permuted (5, 3)", lambda x: x.softmax(-1), floats(3, 5, layout=permuted))

case("amax", "ties", lambda x: x.amax(1), Input((2, 4), values=(1.0, 3.0, 3.0, 2.0, 0.0, 0.0, 0.0, 0.0)))
case("amin", "ties", lambda x: x.amin(0), Input((2, 2), values=(1.0, 3.0, 1.0, 2.0)))
case("max", "ties", lambda x: x.max(), Input((4,), values=(1.0, 3.0, 3.0, 2.0)))
case("max", "ties along an axis", lambda x: x.max(1)[0], Input((2, 4), values=(1.0, 3.0, 3.0, 2.0, 0.0, 0.0, 0.0, 0.0)))
case("max", "indices", lambda x: x.max(1)[1], spread(3, 7), grad=False)
case("min", "indices", lambda x: x.min(0)[1], spread(3, 7), grad=False)
case(
    "argmax", "ties", lambda x: x.argmax(1), Input((2, 4), values=(1.0, 3.0, 3.0, 2.0, 0.0, 0.0, 0.0, 0.0)), grad=False
)
for _op in ("amax", "amin", "max", "min", "argmax", "argmin", "sum", "mean"):
    _f = lambda x, op=_op: getattr(x, op)(*(() if op in ("max", "min") else (1,)))  # noqa: E731
    case(
        _op,
        "rows with NaN or infinities",
        _f,
        Input((4, 3), values=(1.0, NAN, 2.0, INF, 1.0, 0.0, -INF, 0.0, 1.0, -INF, -INF, -INF)),
        grad=False,
    )
for _op in ("sum", "amax", "amin", "argmax", "argmin"):
    case(_op, "int32", lambda x, op=_op: getattr(x, op)(1), Input((3, 7), (-50, 50), "int", distinct=True))
case("sum", "bool", lambda x: x.sum(0), bools(5, 3))
case("sum", "int32 as floats", lambda x: x.sum(1, dtype=_kind(x, "float32")), ints(3, 5))
case("mean", "int32 as floats", lambda x: x.mean(1, dtype=_kind(x, "float32")), ints(3, 5))
for _op in ("any", "all"):
    _f = lambda x, op=_op: getattr(x, op)(1)  # noqa: E731
    case(_op, "bool", _f, bools(5, 3))
    case(_op, "float", _f, Input((3, 2), values=(0.0, 0.0, 0.0, 1.0, NAN, 2.0)), grad=False)
    case(_op, "all axes", lambda x, op=_op: getattr(x, op)(), bools(2, 3))
    case(_op, "an empty axis", _f, bools(2, 0))
case("amax", "bool", lambda x: x.amax(1), bools(5, 3))
for _op in ("sum", "mean", "var"):
    case(_op, "an empty axis", lambda x, op=_op: getattr(x, op)(1), floats(2, 0), grad=_op == "sum")
    case(_op, "an empty result", lambda x, op=_op: getattr(x, op)(1), floats(0, 3))
case("amax", "an empty result", lambda x: x.amax(1), floats(0, 3))
case("softmax", "an empty (0, 3)", lambda x: x.softmax(1), floats(0, 3))
case("var", "a single element", lambda x: x.var(1), floats(3, 1), grad=False)

case("sum", "9001 elements, in two passes", lambda x: x.sum(), floats(9001), length=9001)
case("sum", "long columns of (4500, 3)", lambda x: x.sum(0), floats(4500, 3), length=4500)
case("sum", "long rows of (2, 5000)", lambda x: x.sum(1), floats(2, 5000), length=5000)
case("amax", "9001 elements, in two passes", lambda x: x.amax(), spread(9001))
case("amin", "the middle of (2, 4099, 2)", lambda x: x.amin(1), spread(2, 4099, 2))
case("sum", "columns of (300, 70)", lambda x: x.sum(0), floats(300, 70), length=300)
case("softmax", "rows of (3, 1025)", lambda x: x.softmax(1), floats(3, 1025))
case("log_softmax", "columns of (129, 5)", lambda x: x.log_softmax(0), floats(129, 5))
case("argmax", "rows of (3, 1025)", lambda x: x.argmax(1), spread(3, 1025), grad=False)
case("mean", "a map of (65, 129)", lambda x: (x * x + 1).mean(), floats(65, 129))


def _kind(x: Any, name: str) -> Any:
    """A dtype in the library of x."""
    return getattr(torch if isinstance(x, torch.Tensor) else sg, name)


# ---------------------------------------------------------------------------------------------- views

MOVES: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "reshape (3, 4) to (2, 6)": ((3, 4), lambda x: x.reshape(2, 6)),
    "reshape (3, 4) to (2, -1, 3)": ((3, 4), lambda x: x.reshape(2, -1, 3)),
    "reshape one element to 0-d": ((1, 1), lambda x: x.reshape(())),
    "reshape an empty (0, 3) to (3, 0)": ((0, 3), lambda x: x.reshape(3, 0)),
    "reshape after permute": ((2, 3, 4), lambda x: x.permute(2, 0, 1).reshape(4, 6)),
    "view": ((3, 4), lambda x: x.view(-1)),
    "flatten": ((2, 3, 4), lambda x: x.flatten(1)),
    "flatten 0-d": ((), lambda x: x.flatten()),
    "squeeze": ((1, 3, 1), lambda x: x.squeeze()),
    "squeeze one axis": ((1, 3, 1), lambda x: x.squeeze(-1)),
    "squeeze an axis that is longer": ((1, 3, 1), lambda x: x.squeeze(1)),
    "unsqueeze": ((3, 4), lambda x: x.unsqueeze(1)),
    "unsqueeze last": ((3, 4), lambda x: x.unsqueeze(-1)),
    "permute": ((2, 3, 4), lambda x: x.permute(1, 2, 0)),
    "permute with negative axes": ((2, 3, 4), lambda x: x.permute(-1, 0, 1)),
    "transpose": ((2, 3, 4), lambda x: x.transpose(0, -1)),
    "t": ((3, 4), lambda x: x.t()),
    "mT": ((2, 3, 4), lambda x: x.mT),
    "expand": ((3, 1), lambda x: x.expand(3, 4)),
    "expand with new axes": ((3, 1), lambda x: x.expand(2, -1, 4)),
    "expand 0-d": ((), lambda x: x.expand(2, 3)),
    "expand to nothing": ((1, 3), lambda x: x.expand(0, 3)),
    "broadcast_to": ((3, 1), lambda x: x.broadcast_to((2, 3, 4))),
    "slice": ((5, 7), lambda x: x[1:4, :5]),
    "slice with steps": ((5, 7), lambda x: x[::2, 1::3]),
    "slice from the end": ((5, 7), lambda x: x[-3:, :-1]),
    "slice to nothing": ((5, 7), lambda x: x[3:3]),
    "slice past the end": ((5, 7), lambda x: x[2:100]),
    "slice by an int": ((5, 7), lambda x: x[2]),
    "slice by negative ints": ((5, 7), lambda x: x[-1, -2]),
    "slice with an ellipsis": ((2, 3, 4), lambda x: x[..., 1]),
    "slice with None": ((5, 7), lambda x: x[:, None, 2:4]),
    "slice of a slice": ((9,), lambda x: x[1:][::2][1:]),
    "narrow": ((5, 7), lambda x: x.narrow(1, 2, 3)),
    "flip": ((3, 4), lambda x: x.flip(0)),
    "flip two axes": ((3, 4), lambda x: x.flip((0, 1))),
    "flip and reshape": ((3, 4), lambda x: x.flip(1).reshape(-1)),
    "contiguous": ((3, 4), lambda x: x.t().contiguous()),
    "split": ((7, 2), lambda x: x.split(3)),
    "split by sizes": ((2, 7), lambda x: x.split([1, 4, 2], 1)),
    "chunk": ((7,), lambda x: x.chunk(3)),
    "iteration": ((3, 2), lambda x: tuple(x)),
    "unpacking twice the same": ((3, 2), lambda x: x[0] * x[0] + x[1]),
}
for _op, (_shape, _f) in MOVES.items():
    case(_op, "floats", _f, floats(*_shape))
for _op in ("reshape after permute", "permute", "expand", "slice with steps", "flip and reshape"):
    case(_op, "int32", MOVES[_op][1], ints(*MOVES[_op][0]))
    case(_op, "bool", MOVES[_op][1], bools(*MOVES[_op][0]))

for _of, _shape, _padding in (
    ("the last axis of (3, 4)", (3, 4), (1, 2)),
    ("both axes of (3, 4)", (3, 4), (1, 0, 0, 2)),
    ("nothing", (3, 4), (0, 0)),
    ("negative amounts", (3, 5), (-1, 2, 1, -1)),
    ("an empty (0, 2)", (0, 2), (1, 1, 2, 0)),
):
    case(
        "pad",
        _of,
        lambda x, padding=_padding: x.pad(padding),
        floats(*_shape),
        torch=lambda x, padding=_padding: tnf.pad(x, padding),
    )
    case(
        "pad with 1.5",
        _of,
        lambda x, padding=_padding: x.pad(padding, 1.5),
        floats(*_shape),
        torch=lambda x, padding=_padding: tnf.pad(x, padding, value=1.5),
    )
case("pad", "int32", lambda x: x.pad((1, 1), 3), ints(2, 3), torch=lambda x: tnf.pad(x, (1, 1), value=3))
case(
    "pad",
    "a map",
    lambda x: x.exp().pad((1, 2, 2, 0)) * 2,
    floats(3, 4),
    torch=lambda x: tnf.pad(x.exp(), (1, 2, 2, 0)) * 2,
)
case("pad", "a permuted (4, 3)", lambda x: x.t().pad((1, 1)), floats(3, 4), torch=lambda x: tnf.pad(x.t(), (1, 1)))
case(
    "pad between elements",
    "(3, 4)",
    lambda x: wrap(make(views.Pad((1, 0), (0, 2), (2, 1), 0.5), x._node)),
    floats(3, 4),
    torch=lambda x: _dilate(x, (1, 0), (0, 2), (2, 1), 0.5),
)


def _dilate(x: torch.Tensor, low: Any, high: Any, interior: Any, value: float) -> torch.Tensor:
    shape = [a + n + b + (n - 1) * k for n, a, b, k in zip(x.shape, low, high, interior, strict=True)]
    places = tuple(slice(a, a + (n - 1) * (k + 1) + 1, k + 1) for n, a, k in zip(x.shape, low, interior, strict=True))
    result = torch.full(shape, value, dtype=x.dtype)
    result[places] = x
    return result


def joined(function: str, dim: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (lambda *x: getattr(sg, function)(x, dim)), (lambda *x: getattr(torch, function)(x, dim))


for _of, _dim, _inputs in (
    ("two along axis 0", 0, (floats(2, 3), floats(1, 3))),
    ("three along the last axis", -1, (floats(2, 3), floats(2, 1), floats(2, 4))),
    ("one", 0, (floats(2, 3),)),
    ("nine", 0, tuple(floats(k % 3 + 1, 2) for k in range(9))),
    ("an empty one between two", 1, (floats(2, 3), floats(2, 0), floats(2, 1))),
    ("a permuted one and a map of one", 0, (floats(3, 2, layout=permuted), floats(2, 3))),
    ("an int32 and a float", 0, (ints(2), floats(3))),
    ("int32", 0, (ints(2), ints(3))),
    ("bool", 0, (bools(2), bools(3))),
):
    _ours, _theirs = joined("cat", _dim)
    case("cat", _of, _ours, *_inputs, torch=_theirs)
for _of, _dim, _inputs in (
    ("two along a new first axis", 0, (floats(2, 3), floats(2, 3))),
    ("three along a new last axis", -1, (floats(2, 3), floats(2, 3), floats(2, 3))),
    ("0-d tensors", 0, (floats(), floats(), floats())),
):
    _ours, _theirs = joined("stack", _dim)
    case("stack", _of, _ours, *_inputs, torch=_theirs)
case("cat", "itself, squared", lambda x: sg.cat([x, x * x], 1), floats(2, 3), torch=lambda x: torch.cat([x, x * x], 1))

# ---------------------------------------------------------------------------------------------- products

for _of, _a, _b in (
    ("(3, 4) and (4, 5)", (3, 4), (4, 5)),
    ("(1, 1) and (1, 1)", (1, 1), (1, 1)),
    ("two vectors", (7,), (7,)),
    ("a vector and a matrix", (4,), (4, 5)),
    ("a matrix and a vector", (3, 4), (4,)),
    ("a column and a row", (5, 1), (1, 3)),
    ("a batch and a batch", (2, 3, 4), (2, 4, 5)),
    ("a batch and a matrix", (2, 3, 4), (4, 5)),
    ("a matrix and a batch", (3, 4), (2, 4, 5)),
    ("a batch and a vector", (2, 3, 4), (4,)),
    ("a vector and a batch", (4,), (2, 4, 5)),
    ("broadcast batches", (2, 1, 3, 4), (5, 4, 2)),
    ("a batch of one and a batch", (1, 3, 4), (5, 4, 2)),
    ("nothing to contract", (3, 0), (0, 2)),
    ("no rows", (0, 3), (3, 2)),
    ("no batches", (0, 2, 3), (3, 2)),
    ("odd sizes over the tile", (33, 65), (65, 17)),
    ("sizes of whole tiles", (64, 32), (32, 64)),
    ("a long contraction", (3, 1030), (1030, 2)),
    ("an odd batch over the tile", (3, 19, 35), (3, 35, 18)),
):
    _length = max(1, max(*_a, *_b))
    case("matmul", _of, lambda x, y: x @ y, floats(*_a), floats(*_b), length=_length)
case("matmul", "transposed operands", lambda x, y: x.t() @ y.t(), floats(4, 3), floats(5, 4), length=4)
case(
    "matmul",
    "a strided and a flipped operand",
    lambda x, y: x[:, ::2] @ y.flip(0),
    floats(3, 8),
    floats(4, 5),
    length=4,
)
case("matmul", "an expanded operand", lambda x, y: x.expand(3, 4) @ y, floats(1, 4), floats(4, 5), length=4)
case("matmul", "maps of its operands", lambda x, y: x.tanh() @ (y * y + 1), floats(3, 4), floats(4, 5), length=12)
case("matmul", "int32", lambda x, y: x @ y, ints(3, 4), ints(4, 5))
case("matmul", "itself", lambda x: x @ x, floats(4, 4), length=4)
case(
    "matmul with bias and relu",
    "(9, 4), (4, 5) and (5,)",
    lambda x, y, b: (x @ y + b).relu(),
    floats(9, 4),
    floats(4, 5),
    floats(5),
    length=9,
)
case(
    "matmul twice",
    "(3, 4), (4, 5) and (5, 2)",
    lambda x, y, z: x @ y @ z,
    floats(3, 4),
    floats(4, 5),
    floats(5, 2),
    length=20,
)
case("mm", "(3, 4) and (4, 5)", lambda x, y: x.mm(y), floats(3, 4), floats(4, 5), length=4)
case("bmm", "(2, 3, 4) and (2, 4, 5)", lambda x, y: x.bmm(y), floats(2, 3, 4), floats(2, 4, 5), length=4)
case("dot", "two vectors", lambda x, y: x.dot(y), floats(5), floats(5), length=5)
case("linear", "(2, 3, 4)", F.linear, floats(2, 3, 4), floats(5, 4), floats(5), torch=tnf.linear, length=6)

# ---------------------------------------------------------------------------------------------- indexing

case("gather", "rows of (3, 5)", lambda x, i: x.gather(1, i), floats(3, 5), index(3, 4, below=5))
case("gather", "one a row", lambda x, i: x.gather(1, i), floats(3, 5), index(3, 1, below=5))
case("gather", "columns of (3, 5)", lambda x, i: x.gather(0, i), floats(3, 5), index(7, 5, below=3))
case("gather", "a smaller index", lambda x, i: x.gather(1, i), floats(3, 5), index(2, 4, below=5))
case("gather", "an empty index", lambda x, i: x.gather(1, i), floats(3, 5), index(3, 0, below=5))
case("gather", "int32", lambda x, i: x.gather(1, i), ints(3, 5), index(3, 4, below=5))
case("gather", "a map, permuted", lambda x, i: x.t().exp().gather(1, i), floats(5, 3), index(3, 4, below=5))
case("index_select", "rows", lambda x, i: x.index_select(0, i), floats(5, 3), index(7, below=5))
case("index_select", "columns", lambda x, i: x.index_select(1, i), floats(2, 5, 3), index(4, below=5))
case("index_select", "nothing", lambda x, i: x.index_select(0, i), floats(5, 3), index(0, below=5))
case("x[index]", "rows by a vector", lambda x, i: x[i], floats(5, 3), index(7, below=5))
case("x[index]", "rows by a matrix", lambda x, i: x[i], floats(5, 3), index(2, 4, below=5))
case("x[index]", "columns by a vector", lambda x, i: x[:, i], floats(3, 5), index(4, below=5))
case("x[index]", "negative positions", lambda x, i: x[i], floats(5, 3), Input((3,), kind="index", values=(-1, 0, -5)))
case("x[index]", "a slice and a vector", lambda x, i: x[1:3, i], floats(3, 5), index(4, below=5))
case("x[list]", "rows", lambda x: x[[2, 0, 2]], floats(5, 3))
case(
    "scatter_add",
    "rows of (3, 5)",
    lambda x, i, s: x.scatter_add(1, i, s),
    floats(3, 5),
    index(3, 4, below=5),
    floats(3, 4),
    length=4,
)
case(
    "scatter_add",
    "columns of (3, 5)",
    lambda x, i, s: x.scatter_add(0, i, s),
    floats(3, 5),
    index(7, 5, below=3),
    floats(7, 5),
    length=7,
)
case(
    "scatter_add",
    "a smaller index",
    lambda x, i, s: x.scatter_add(1, i, s),
    floats(3, 5),
    index(2, 4, below=5),
    floats(3, 4),
    grad=False,
)
case("scatter_add", "int32", lambda x, i, s: x.scatter_add(0, i, s), ints(3), index(9, below=3), ints(9))
case("cross_entropy", "(7, 5)", F.cross_entropy, floats(7, 5), index(7, below=5), torch=tnf.cross_entropy, length=7)
case("cross_entropy", "one sample", F.cross_entropy, floats(5), index(below=5), torch=tnf.cross_entropy)
case(
    "cross_entropy",
    "(2, 5, 3)",
    F.cross_entropy,
    floats(2, 5, 3),
    index(2, 3, below=5),
    torch=tnf.cross_entropy,
    length=7,
)
for _reduction in ("sum", "none"):
    case(
        "cross_entropy",
        f"(7, 5), reduction {_reduction}",
        lambda x, t, r=_reduction: F.cross_entropy(x, t, reduction=r),
        floats(7, 5),
        index(7, below=5),
        torch=lambda x, t, r=_reduction: tnf.cross_entropy(x, t, reduction=r),
        length=7,
    )
    case(
        "mse_loss",
        f"(3, 5), reduction {_reduction}",
        lambda x, t, r=_reduction: F.mse_loss(x, t, reduction=r),
        floats(3, 5),
        floats(3, 5),
        torch=lambda x, t, r=_reduction: tnf.mse_loss(x, t, reduction=r),
        length=15,
    )
case("mse_loss", "(3, 5)", F.mse_loss, floats(3, 5), floats(3, 5), torch=tnf.mse_loss)

# ---------------------------------------------------------------------------------------------- conversions and words

for _kind_name in ("int32", "bool", "float32"):
    case(
        "to",
        f"{_kind_name} from float",
        lambda x, k=_kind_name: x.to(_kind(x, k)),
        Input((6,), values=(-2.7, -0.5, 0.0, 0.5, 1.0, 2.7)),
        grad=False,
    )
    if _kind_name != "int32":
        case(
            "to",
            f"{_kind_name} from NaN and infinities",
            lambda x, k=_kind_name: x.to(_kind(x, k)),
            special(),
            grad=False,
        )
    case("to", f"{_kind_name} from int32", lambda x, k=_kind_name: x.to(_kind(x, k)), ints(7, low=-2, high=3))
    case("to", f"{_kind_name} from bool", lambda x, k=_kind_name: x.to(_kind(x, k)), bools(7))
case("to", "float and back", lambda x: x.to(_kind(x, "float32")) * 2, floats(7), grad=False)


def _binary_node(primitive: Any) -> Callable[..., Any]:
    return lambda x, y: wrap(make(primitive, x._node, y._node))


def _constant(x: Any, value: int) -> Any:
    return build.like(x._node, value)


case(
    "floor_div",
    "int32",
    _binary_node(e.FloorDiv()),
    ints(5, 7, low=-20, high=21),
    ints(5, 7, low=1, high=9),
    torch=lambda x, y: x // y,
)
case(
    "floor_div",
    "negative divisors",
    _binary_node(e.FloorDiv()),
    ints(5, 7, low=-20, high=21),
    ints(5, 7, low=-9, high=0),
    torch=lambda x, y: x // y,
)
case("floor_div", "by 0", lambda x: wrap(make(e.FloorDiv(), x._node, _constant(x, 0))), ints(5), torch=torch.zeros_like)
case(
    "shift_left",
    "int32",
    _binary_node(e.ShiftLeft()),
    ints(7, low=0, high=1000),
    ints(7, low=0, high=9),
    torch=lambda x, y: x << y,
)
case(
    "shift_right",
    "int32",
    _binary_node(e.ShiftRight()),
    ints(7, low=-1000, high=1000),
    ints(7, low=0, high=9),
    torch=lambda x, y: x >> y,
)
case(
    "bitcast",
    "float32 to int32",
    lambda x: wrap(make(e.Bitcast(sg.int32), x.to(dtype=float32)._node)),
    floats(7),
    torch=lambda x: x.float().view(torch.int32),
    grad=False,
)


def _threefry(x0: Any, x1: Any) -> Any:
    """Both words for counters under the key 1, 2, as int32."""
    key = sg.tensor(np.array([1, 2], np.uint32), device=x0.device)
    words = make(Threefry(), key._node, *(make(e.Cast(uint32), x._node) for x in (x0, x1)))
    return wrap(make(e.Bitcast(sg.int32), words))


def threefry_reference(k0: int, k1: int, x0: int, x1: int) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds, in Python integers (Salmon et al., SC 2011)."""
    mask = 0xFFFFFFFF
    keys = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    x0, x1 = (x0 + k0) & mask, (x1 + k1) & mask
    for block in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x0 = (x0 + x1) & mask
            x1 = x0 ^ (((x1 << r) | (x1 >> (32 - r))) & mask)
        x0 = (x0 + keys[(block + 1) % 3]) & mask
        x1 = (x1 + keys[(block + 2) % 3] + block + 1) & mask
    return x0, x1


def _threefry_torch(x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
    words = [threefry_reference(1, 2, int(a), int(b)) for a, b in zip(x0, x1, strict=True)]
    return torch.from_numpy(np.array(words, np.uint32).T.copy().view(np.int32))


case("threefry", "7 counters", _threefry, ints(7, low=0, high=99), ints(7, low=0, high=99), torch=_threefry_torch)
case(
    "arange",
    "7, scaled by a tensor",
    lambda x: x * sg.arange(7, device=x.device),
    floats(3, 1),
    torch=lambda x: x * torch.arange(7),
)

# ---------------------------------------------------------------------------------------------- in mid-graph

case(
    "layer norm",
    "(3, 7)",
    lambda x: (x - x.mean(-1, keepdim=True)) * (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt(),
    floats(3, 7),
    length=7,
)
case(
    "attention",
    "(2, 3, 4) queries, keys and values",
    lambda q, k, v: (q @ k.transpose(1, 2) * 0.5).softmax(-1) @ v,
    floats(2, 3, 4),
    floats(2, 5, 4),
    floats(2, 5, 4),
    length=20,
)
case(
    "perceptron",
    "(5, 3)",
    lambda x, v, w: ((x @ v).tanh() @ w).sum(0).log_softmax(-1),
    floats(5, 3),
    floats(3, 4),
    floats(4, 2),
    length=20,
)
case("a diamond", "(3, 5)", lambda x: x.exp() * x.sin() + x.exp(), floats(3, 5))
case("a reduction beside its operand", "(3, 5)", lambda x: x.sigmoid() / x.sigmoid().sum(), floats(3, 5), length=15)

# ---------------------------------------------------------------------------------------------- further functions

for _name, _domain in {
    "exp2": (-3.0, 3.0),
    "log2": (0.1, 5.0),
    "log10": (0.1, 5.0),
    "log1p": (-0.9, 5.0),
    "tan": (-1.2, 1.2),
    "asin": (-0.95, 0.95),
    "acos": (-0.95, 0.95),
    "atan": (-3.0, 3.0),
    "sinh": (-3.0, 3.0),
    "cosh": (-3.0, 3.0),
    "ceil": (-3.0, 3.0),
    "trunc": (-3.0, 3.0),
    "round": (-3.0, 3.0),
    "frac": (-3.0, 3.0),
}.items():
    unary(_name, lambda x, n=_name: getattr(x, n)(), _domain, second=_name not in ("ceil", "trunc", "round", "frac"))
case("round", "halves", lambda x: x.round(), floats(8, values=(-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 3.5)), grad=False)
case("atan2", "(4, 5)", lambda a, b: a.atan2(b), floats(4, 5), floats(4, 5))
case("atan2", "special pairs", lambda a, b: a.atan2(b), *special_pairs(), grad=False)
for _name in ("remainder", "fmod", "floor_divide"):
    case(
        _name,
        "(4, 5)",
        lambda a, b, n=_name: getattr(a, n)(b),
        floats(4, 5, low=-9, high=9),
        floats(4, 5, low=0.6),
        grad=_name != "floor_divide",
        second=False,
    )
    case(_name, "int32", lambda a, b, n=_name: getattr(a, n)(b), ints(30, low=-20, high=20), ints(30, low=1, high=7))
case("lerp", "(5,)", lambda a, b: a.lerp(b, 0.3), floats(5), floats(5))
case("addcmul", "(5,)", lambda a, b, c: a.addcmul(b, c, value=0.5), floats(5), floats(5), floats(5))
case("addcdiv", "(5,)", lambda a, b, c: a.addcdiv(b, c, value=0.5), floats(5), floats(5), floats(5, low=0.5))

# ---------------------------------------------------------------------------------------------- scans and orders

case("prod", "all of (3, 4)", lambda x: x.prod(), floats(3, 4))
case(
    "prod",
    "rows with no, one and two zeros",
    lambda x: x.prod(1),
    floats(3, 4, values=(1.5, 2, 3, -1, 0, 2, 3, 4, 0, 0, 1, 2)),
    second=False,
)
case("prod", "nothing", lambda x: x.prod(0), floats(0, 3))
for _shape, _dim in (((5,), 0), ((3, 7), 1), ((130, 3), 0), ((2, 70, 2), 1)):
    case("cumsum", f"axis {_dim} of {_shape}", lambda x, d=_dim: x.cumsum(d), floats(*_shape), length=_shape[_dim])
    if _shape[_dim] < 70:
        case("cumprod", f"axis {_dim} of {_shape}", lambda x, d=_dim: x.cumprod(d), floats(*_shape, low=0.5, high=1.5))
case("cumsum", "int32", lambda x: x.cumsum(0), ints(90), torch=lambda x: x.cumsum(0).int())
for _down in (False, True):
    case(
        "sort",
        f"(4, 9), descending {_down}",
        lambda x, d=_down: x.sort(1, d)[0],
        spread(4, 9),
        torch=lambda x, d=_down: x.sort(1, d)[0],
    )
    case(
        "argsort",
        f"ties, descending {_down}",
        lambda x, d=_down: x.argsort(0, d),
        ints(9, 4, low=0, high=3),
        torch=lambda x, d=_down: torch.sort(x, dim=0, descending=d, stable=True)[1].int(),
    )
    case(
        "argsort",
        f"NaN and infinities, descending {_down}",
        lambda x, d=_down: x.argsort(0, d),
        special(),
        torch=lambda x, d=_down: torch.sort(x, dim=0, descending=d, stable=True)[1].int(),
        grad=False,
    )
case("topk", "3 of (4, 9)", lambda x: x.topk(3)[0], spread(4, 9))
case("topk", "2 smallest of (7, 5)", lambda x: x.topk(2, 0, False)[0], spread(7, 5))
case("kthvalue", "(4, 6)", lambda x: x.kthvalue(2, 1)[0], spread(4, 6))
case("median", "all of (4, 5)", lambda x: x.median(), spread(4, 5))
case("median", "rows of (4, 6)", lambda x: x.median(1)[0], spread(4, 6))
case("median", "NaN", lambda x: x.median(), special(), grad=False)
case("quantile", "all of (4, 5)", lambda x: x.quantile(0.3), spread(4, 5))
case("quantile", "rows of (4, 6)", lambda x: x.quantile(0.77, 1), spread(4, 6))
case("norm", "p = 0", lambda x: x.norm(0, 1), floats(4, 6), grad=False)
for _p in (1, 2, 3, math.inf, -math.inf):
    case("norm", f"p = {_p}", lambda x, p=_p: x.norm(p, 1), floats(4, 6, low=0.3), second=_p in (2, 3), length=6)

# ---------------------------------------------------------------------------------------------- windows

case(
    "unfold",
    "steps, dilation",
    lambda x: FC.unfold(x, (2, 3), (1, 2), 1, (2, 1)),
    floats(2, 3, 7, 9),
    torch=lambda x: tnf.unfold(x, (2, 3), (1, 2), 1, (2, 1)),
)
case(
    "fold",
    "overlapping",
    lambda x: FC.fold(x, (5, 4), (2, 3)),
    floats(2, 12, 8),
    torch=lambda x: tnf.fold(x, (5, 4), (2, 3)),
    length=6,
)
case(
    "fold",
    "apart",
    lambda x: FC.fold(x, (7, 8), (2, 3), 1, 1, 2),
    floats(2, 18, 16),
    torch=lambda x: tnf.fold(x, (7, 8), (2, 3), 1, 1, 2),
)
case(
    "conv2d",
    "stride, groups",
    lambda x, w: FC.conv2d(x, w, None, 2, 1, 1, 2),
    floats(2, 4, 7, 5),
    floats(6, 2, 3, 3),
    torch=lambda x, w: tnf.conv2d(x, w, None, 2, 1, 1, 2),
    length=60,
)
case(
    "conv1d",
    "dilation",
    lambda x, w: FC.conv1d(x, w, None, 1, 2, 2),
    floats(1, 2, 40),
    floats(3, 2, 3),
    torch=lambda x, w: tnf.conv1d(x, w, None, 1, 2, 2),
    length=60,
)


def _library(x: Any) -> Any:
    """The one whose tensor it is."""
    return sg if isinstance(x, sg.Tensor) else torch


def _first_columns(x: Any, s: Any) -> Any:
    """Positions that differ within each column: rows 0 and 3 shifted by the column."""
    rows = _library(x).tensor([[0, 1, 2], [3, 4, 0]], device=x.device)
    return rows if isinstance(x, sg.Tensor) else rows.long()


# ---------------------------------------------------------------------------------------------- composed functions

unary("asinh", lambda x: x.asinh())
unary("acosh", lambda x: x.acosh(), (1.1, 4.0))
unary("atanh", lambda x: x.atanh(), (-0.9, 0.9))
unary("logit", lambda x: x.logit(), (0.05, 0.95))
unary("sinc", lambda x: x.sinc())
unary("deg2rad", lambda x: x.deg2rad())
case("rad2deg", "(5,)", lambda x: x.rad2deg(), floats(5))
case("asinh", "0 and large", lambda x: x.asinh(), Input((4,), values=(-1e4, -0.5, 0.0, 1e4)))
case("sinc", "0", lambda x: x.sinc(), Input((2,), values=(0.0, 0.5)), second=False)
case("logit", "limited", lambda x: x.logit(0.25), Input((4,), values=(-1.0, 0.5, 0.125, 3.0)), second=False)
case("logit", "0 and 1", lambda x: x.logit(), Input((2,), values=(0.0, 1.0)), grad=False)
case("xlogy", "(5,)", lambda x, y: x.xlogy(y), floats(5), floats(5, low=0.3))
case("xlogy", "special pairs", lambda x, y: x.xlogy(y), *special_pairs(), grad=False)
case("hypot", "(4, 1) and (5,)", lambda x, y: x.hypot(y), floats(4, 1), floats(5, low=0.3))
case("hypot", "large", lambda x, y: x.hypot(y), Input((2,), values=(1e30, 0.0)), Input((2,), values=(1e30, 2.0)))
case("logaddexp", "(4, 1) and (5,)", lambda x, y: x.logaddexp(y), floats(4, 1), floats(5))
case("logaddexp", "special pairs", lambda x, y: x.logaddexp(y), *special_pairs(), grad=False)
case("logaddexp2", "(5,)", lambda x, y: x.logaddexp2(y), floats(5), floats(5))
case("nan_to_num", "special", lambda x: x.nan_to_num(2.0, 3.0, -3.0), special(), second=False)
case("heaviside", "-1, 0, 1", lambda x, y: x.heaviside(y), Input((3,), values=(-1.0, 0.0, 1.0)), floats(3), grad=False)
for _mode in ("floor", "trunc"):
    case(
        "div",
        f"rounded by {_mode}",
        lambda x, y, m=_mode: x.div(y, rounding_mode=m),
        floats(9),
        floats(9, low=0.6),
        grad=False,
    )
    case(
        "div",
        f"integers rounded by {_mode}",
        lambda x, y, m=_mode: x.div(y, rounding_mode=m),
        ints(4, low=-9, high=9, values=(7, -7, 7, -7)),
        ints(4, values=(2, 2, -2, -2)),
    )
case("prelu", "(2, 3, 4), a weight a channel", lambda x, w: x.prelu(w), floats(2, 3, 4), floats(3))
for _name in ("celu", "selu"):
    case(
        _name,
        "(7,)",
        lambda x, n=_name: getattr(sg, n)(x),
        floats(7),
        torch=lambda x, n=_name: getattr(torch, n)(x),
    )
for _name in ("isinf", "isposinf", "isneginf", "isfinite", "isnan"):
    case(_name, "special", lambda x, n=_name: getattr(x, n)(), special(), grad=False)
case("isclose", "special pairs", lambda x, y: x.isclose(y, equal_nan=True), *special_pairs(), grad=False)
case(
    "isclose",
    "near",
    lambda x, y: x.isclose(y, 1e-2, 1e-3),
    Input((3,), values=(1.0, 1.0, 0.0)),
    Input((3,), values=(1.005, 1.5, 0.0005)),
    grad=False,
)
for _right in (False, True):
    case(
        "bucketize",
        f"right {_right}",
        lambda x, edges, r=_right: x.bucketize(edges, right=r),
        Input((2, 4), values=(-1.0, 0.0, 0.5, 1.0, 2.0, 2.5, INF, NAN)),
        Input((3,), values=(0.0, 1.0, 2.0)),
        torch=lambda x, edges, r=_right: torch.bucketize(x, edges, right=r),
        grad=False,
    )
case(
    "searchsorted",
    "rows",
    lambda e, x: e.sort(1)[0].searchsorted(x),
    floats(3, 5),
    floats(3, 4),
    torch=lambda e, x: torch.searchsorted(e.sort(1)[0], x),
    grad=False,
)
case("count_nonzero", "rows", lambda x: x.count_nonzero(1), ints(3, 9, low=0, high=2))
case("aminmax", "rows", lambda x: sum(x.aminmax(dim=1)), spread(3, 5))
case("nansum", "rows", lambda x: x.nansum(0), Input((2, 2), values=(NAN, 1.0, 2.0, NAN)), second=False)
case("nanmean", "rows", lambda x: x.nanmean(0), Input((2, 2), values=(NAN, 1.0, 2.0, 3.0)), second=False)
case("diff", "rows", lambda x: x.diff(), floats(3, 5))
case("diff", "twice, with ends", lambda x, a: x.diff(2, 0, a, a), floats(3, 5), floats(1, 5))
case("diff", "bool", lambda x: x.diff(), bools(7))
for _name in ("var_mean", "std_mean"):
    case(
        _name,
        "rows",
        lambda x, n=_name: getattr(sg, n)(x, 1),
        floats(3, 5),
        torch=lambda x, n=_name: getattr(torch, n)(x, 1),
        length=5,
    )
case("trace", "(3, 5)", lambda x: x.trace(), floats(3, 5))
case("inner", "(2, 3) and (4, 3)", lambda x, y: x.inner(y), floats(2, 3), floats(4, 3), length=3)
case("dist", "(5,)", lambda x, y: x.dist(y), floats(5), floats(5), length=5)
case("unflatten", "one to two axes", lambda x: x.unflatten(1, (2, -1)), floats(2, 6))
case("scatter", "a permutation", lambda x, s: x.scatter(0, _first_columns(x, s), s), floats(5, 3), floats(2, 3))
case("scatter", "a number", lambda x, i: x.scatter(1, i, 3.5), floats(3, 5), index(3, 2, below=5))
case("scatter", "int32", lambda x, i: x.scatter(1, i, 9), ints(3, 5), index(3, 2, below=5))
case("index_fill", "columns", lambda x, i: x.index_fill(1, i, 2.5), floats(2, 5, 3), index(2, below=5))
case("masked_scatter", "(3, 5)", lambda x, m, s: x.masked_scatter(m, s), floats(3, 5), bools(3, 5), floats(15))
case("masked_select", "(3, 5)", lambda x, m: x.masked_select(m), floats(3, 5), bools(3, 5))
case("nonzero", "(3, 5)", lambda x: x.nonzero(), ints(3, 5, low=0, high=2))
case("hstack", "vectors", lambda x, y: _library(x).hstack([x, y]), floats(2), floats(3))
case("vstack", "a vector and a matrix", lambda x, y: _library(x).vstack([x, y]), floats(3), floats(2, 3))
for _p in (0, 0.5, 1, 1.5, 2, 3, -1, math.inf, -math.inf):
    case(
        "norm",
        f"zeros, p = {_p}",
        lambda x, p=_p: _library(x).norm(x, p, dim=1),
        Input((3, 3), values=(0.0, 0.0, 0.0, 1.0, 0.0, -2.0, 1.0, -1.0, 1.0)),
        second=False,
        length=3,
    )
case("norm", "all of zeros", lambda x: x.norm(), Input((2, 2), values=(0.0,) * 4), second=False)
case("norm", "two axes kept", lambda x: x.norm(1.5, (0, 2), True), floats(2, 3, 4, low=0.3), length=8)
case(
    "scaled_dot_product_attention",
    "heads of 16",
    lambda q, k, v: sg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    floats(1, 2, 8, 16),
    floats(1, 2, 9, 16),
    floats(1, 2, 9, 16),
    torch=lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    length=16,
    second=False,  # of PyTorch's kernel there is none; test_attention.py compares with its composed form
)

import cases_operators  # noqa: E402,F401  # more lines of the table, which need what stands above

assert len({c.id for c in CASES}) == len(CASES), "two cases have one name"
