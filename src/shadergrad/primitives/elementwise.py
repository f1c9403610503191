"""Operations on single elements. To add one, write one record here and one line in tests/cases.py.

A record gives the NumPy value, the WGSL expression over {a}, {b}, {c}, the gradient, and the domain from which tests
draw inputs. `sg_*` functions are in compile/wgsl/math.wgsl. Operands have one shape: broadcasting is a view.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..dtypes import DType, bool_, float32, uint32
from ..errors import DTypeError, ShapeError
from ..graph import node as nodes
from ..graph.primitive import Primitive, Shape

if TYPE_CHECKING:
    from ..graph.node import Node

Cotangents = tuple["Node | None", ...]


class Elementwise(Primitive):
    """Base: operands of one shape and dtype; the result has that shape and, unless said otherwise, that dtype."""

    arity: ClassVar[int] = 1
    wgsl: ClassVar[str] = ""
    wgsl_bool: ClassVar[str] = ""  # where booleans are written differently
    categories: ClassVar[tuple[int, ...]] = (1, 2)  # of the operands: 0 bool, 1 integer, 2 floating
    domain: ClassVar[tuple[float, float]] = (-3.0, 3.0)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        first = inputs[0]
        for other in inputs[1:]:
            if other.shape != first.shape:
                raise ShapeError(f"[{self.name}] operands have shapes {first.shape} and {other.shape}.")
            if other.dtype is not first.dtype:
                raise DTypeError(
                    f"[{self.name}] operands have dtypes {first.dtype.name} and {other.dtype.name}. Hint: convert one with .to(dtype)."
                )
        if first.dtype.category not in self.categories:
            raise DTypeError(f"[{self.name}] is not defined for {first.dtype.name}.")
        return first.shape, self.result(first.dtype)

    def result(self, dtype: DType) -> DType:
        return dtype

    def expression(self, dtype: DType) -> str:
        """The WGSL template for operands of `dtype`."""
        return self.wgsl_bool if dtype is bool_ and self.wgsl_bool else self.wgsl


class Unary(Elementwise):
    """One operand. `derivative` gives dy/dx from x and y."""

    def vjp(self, g: Node, node: Node) -> Cotangents:
        return (g * self.derivative(node.inputs[0], node),)

    def derivative(self, x: Node, y: Node) -> Node:
        raise NotImplementedError


class FloatUnary(Unary):
    categories = (2,)


class Binary(Elementwise):
    arity = 2


class Comparison(Binary):
    """Two operands, a bool result, no gradient."""

    differentiable = False
    categories = (0, 1, 2)

    def result(self, dtype: DType) -> DType:
        return bool_

    def vjp(self, g: Node, node: Node) -> Cotangents:
        return (None, None)


class Bitwise(Binary):
    """Two operands of integers or bools, no gradient."""

    differentiable = False
    categories = (0, 1)

    def vjp(self, g: Node, node: Node) -> Cotangents:
        return (None, None)


def _record(cls: type) -> type:
    return dataclass(frozen=True, eq=False)(cls)


def where(condition: Node, a: Node | float, b: Node | float) -> Node:
    """Node form of Where; a number takes its shape and dtype from the other branch."""
    if not isinstance(a, nodes.Node):
        assert isinstance(b, nodes.Node)
        a = nodes.like(b, a)
    return nodes.make(Where(), condition, a, nodes.like(a, b))


def unary(primitive: type[Primitive], x: Node) -> Node:
    return nodes.make(primitive(), x)


def compare(primitive: type[Comparison], a: Node, b: Node | float) -> Node:
    return nodes.make(primitive(), a, nodes.like(a, b))


# -- arithmetic


@_record
class Add(Binary):
    """a + b; for bools, or."""

    kind = "elementwise"
    categories = (0, 1, 2)
    wgsl = "{a} + {b}"
    wgsl_bool = "{a} | {b}"

    def numpy(self, a, b):
        return np.add(a, b)

    def vjp(self, g, node):
        return g, g


@_record
class Sub(Binary):
    """a - b."""

    kind = "elementwise"
    wgsl = "{a} - {b}"

    def numpy(self, a, b):
        return np.subtract(a, b)

    def vjp(self, g, node):
        return g, -g


@_record
class Mul(Binary):
    """a * b; for bools, and."""

    kind = "elementwise"
    categories = (0, 1, 2)
    wgsl = "{a} * {b}"
    wgsl_bool = "{a} & {b}"

    def numpy(self, a, b):
        return np.multiply(a, b)

    def vjp(self, g, node):
        a, b = node.inputs
        return g * b, g * a


@_record
class Div(Binary):
    """a / b, floating."""

    kind = "elementwise"
    categories = (2,)
    cost = 4
    wgsl = "{a} / {b}"
    domain = (0.5, 3.0)

    def numpy(self, a, b):
        return np.divide(a, b)

    def vjp(self, g, node):
        b = node.inputs[1]
        return g / b, -(g * node / b)


@_record
class FloorDiv(Binary):
    """The largest integer not above a / b, integers; division by zero gives 0 on every device."""

    kind = "elementwise"
    differentiable = False
    categories = (1,)
    cost = 8
    domain = (1, 9)

    def expression(self, dtype):
        return f"sg_floor_div_{dtype.wgsl}({{a}}, {{b}})"

    def numpy(self, a, b):
        return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)

    def vjp(self, g, node):
        return (None, None)


@_record
class Pow(Binary):
    """a ** b."""

    kind = "elementwise"
    cost = 16
    domain = (0.5, 2.0)

    def expression(self, dtype):
        return "sg_pow({a}, {b})" if dtype.category == 2 else f"sg_pow_{dtype.wgsl}({{a}}, {{b}})"

    def numpy(self, a, b):
        if a.dtype.kind in "iu":
            powers = np.power(a, np.abs(b))  # wraps, as in shaders
            return np.where((b < 0) & (np.abs(a) != 1), a.dtype.type(0), powers).astype(a.dtype)
        return np.power(a, b)

    def vjp(self, g, node):
        a, b = node.inputs
        zero = compare(Equal, b, 0)
        da = where(zero, 0.0, g * b * nodes.make(Pow(), a, b - 1))
        at_origin = nodes.make(Mul(), compare(Equal, a, 0), compare(GreaterEqual, b, 0))
        db = where(at_origin, 0.0, g * node * unary(Log, a))
        return da, db


@_record
class Maximum(Binary):
    """The larger; NaN where either is NaN. A tie halves the gradient."""

    kind = "elementwise"
    categories = (0, 1, 2)
    wgsl = "max({a}, {b})"
    wgsl_bool = "{a} | {b}"

    def expression(self, dtype):
        return "sg_max({a}, {b})" if dtype.category == 2 else super().expression(dtype)

    def numpy(self, a, b):
        return np.maximum(a, b)

    def vjp(self, g, node):
        a, b = node.inputs
        tie = where(compare(Equal, a, b), g * 0.5, 0.0)
        return where(compare(Greater, a, b), g, tie), where(compare(Less, a, b), g, tie)


@_record
class Minimum(Binary):
    """The smaller; NaN where either is NaN. A tie halves the gradient."""

    kind = "elementwise"
    categories = (0, 1, 2)
    wgsl = "min({a}, {b})"
    wgsl_bool = "{a} & {b}"

    def expression(self, dtype):
        return "sg_min({a}, {b})" if dtype.category == 2 else super().expression(dtype)

    def numpy(self, a, b):
        return np.minimum(a, b)

    def vjp(self, g, node):
        a, b = node.inputs
        tie = where(compare(Equal, a, b), g * 0.5, 0.0)
        return where(compare(Less, a, b), g, tie), where(compare(Greater, a, b), g, tie)


# -- one operand


@_record
class Neg(Unary):
    """-x."""

    kind = "elementwise"
    wgsl = "-{a}"

    def expression(self, dtype):
        return "0u - {a}" if dtype is uint32 else "-{a}"

    def numpy(self, x):
        return np.negative(x)

    def vjp(self, g, node):
        return (-g,)


@_record
class Abs(Unary):
    """|x|; the derivative at 0 is 0."""

    kind = "elementwise"
    wgsl = "abs({a})"

    def numpy(self, x):
        return np.abs(x)

    def derivative(self, x, y):
        return unary(Sign, x)


@_record
class Sign(Unary):
    """-1, 0 or 1."""

    kind = "elementwise"
    wgsl = "sign({a})"

    def expression(self, dtype):
        return "min({a}, 1u)" if dtype is uint32 else "sign({a})"

    def numpy(self, x):
        return np.sign(x)

    def derivative(self, x, y):
        return nodes.like(x, 0.0)


@_record
class Exp(FloatUnary):
    """e ** x."""

    kind = "elementwise"
    cost = 4
    wgsl = "exp({a})"

    def numpy(self, x):
        return np.exp(x)

    def derivative(self, x, y):
        return y


@_record
class Expm1(FloatUnary):
    """e ** x - 1, exact near 0."""

    kind = "elementwise"
    cost = 8
    wgsl = "sg_expm1({a})"

    def numpy(self, x):
        return np.expm1(x)

    def derivative(self, x, y):
        return y + 1.0


@_record
class Log(FloatUnary):
    """The natural logarithm."""

    kind = "elementwise"
    cost = 4
    wgsl = "log({a})"
    domain = (0.1, 5.0)

    def numpy(self, x):
        return np.log(x)

    def derivative(self, x, y):
        return 1.0 / x


@_record
class Sqrt(FloatUnary):
    """The square root."""

    kind = "elementwise"
    cost = 4
    wgsl = "sqrt({a})"
    domain = (0.1, 5.0)

    def numpy(self, x):
        return np.sqrt(x)

    def derivative(self, x, y):
        return 0.5 / y


@_record
class Rsqrt(FloatUnary):
    """1 / sqrt(x)."""

    kind = "elementwise"
    cost = 4
    wgsl = "inverseSqrt({a})"
    domain = (0.1, 5.0)

    def numpy(self, x):
        return np.divide(x.dtype.type(1), np.sqrt(x))

    def derivative(self, x, y):
        return y * y * y * -0.5


@_record
class Sin(FloatUnary):
    """The sine."""

    kind = "elementwise"
    cost = 12
    wgsl = "sg_sin({a})"

    def numpy(self, x):
        return np.sin(x)

    def derivative(self, x, y):
        return unary(Cos, x)


@_record
class Cos(FloatUnary):
    """The cosine."""

    kind = "elementwise"
    cost = 12
    wgsl = "sg_cos({a})"

    def numpy(self, x):
        return np.cos(x)

    def derivative(self, x, y):
        return -unary(Sin, x)


@_record
class Tanh(FloatUnary):
    """The hyperbolic tangent, saturating where the naive form overflows."""

    kind = "elementwise"
    cost = 8
    wgsl = "sg_tanh({a})"

    def numpy(self, x):
        return np.tanh(x)

    def derivative(self, x, y):
        return 1.0 - y * y


@_record
class Sigmoid(FloatUnary):
    """1 / (1 + e ** -x)."""

    kind = "elementwise"
    cost = 8
    wgsl = "1.0 / (1.0 + exp(-{a}))"

    def numpy(self, x):
        e = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)

    def derivative(self, x, y):
        return y * (1.0 - y)


@_record
class Relu(Unary):
    """max(x, 0); the derivative at 0 is 0."""

    kind = "elementwise"
    wgsl = "sg_relu({a})"

    def expression(self, dtype):
        return "sg_relu({a})" if dtype.category == 2 else "max({a}, {type}(0))"

    def numpy(self, x):
        return np.maximum(x, x.dtype.type(0))

    def vjp(self, g, node):
        return (where(compare(Greater, node, 0.0), g, 0.0),)


@_record
class Erf(FloatUnary):
    """The error function."""

    kind = "elementwise"
    cost = 12
    wgsl = "sg_erf({a})"

    def numpy(self, x):
        return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype) if x.size < 64 else _erf(x)

    def derivative(self, x, y):
        return unary(Exp, -(x * x)) * (2.0 / math.sqrt(math.pi))


@_record
class Erfinv(FloatUnary):
    """The inverse of the error function on (-1, 1)."""

    kind = "elementwise"
    cost = 16
    wgsl = "sg_erfinv({a})"
    domain = (-0.9, 0.9)

    def numpy(self, x):
        return _erfinv(x)

    def derivative(self, x, y):
        return unary(Exp, y * y) * (math.sqrt(math.pi) / 2.0)


@_record
class Floor(FloatUnary):
    """The largest integer not above x."""

    kind = "elementwise"
    wgsl = "floor({a})"

    def numpy(self, x):
        return np.floor(x)

    def derivative(self, x, y):
        return nodes.like(x, 0.0)


@_record
class Round(FloatUnary):
    """The nearest integer, halves to the even one."""

    kind = "elementwise"
    wgsl = "round({a})"

    def numpy(self, x):
        return np.round(x)

    def derivative(self, x, y):
        return nodes.like(x, 0.0)


@_record
class Trunc(FloatUnary):
    """The integer part."""

    kind = "elementwise"
    wgsl = "trunc({a})"

    def numpy(self, x):
        return np.trunc(x)

    def derivative(self, x, y):
        return nodes.like(x, 0.0)


@_record
class Log1p(FloatUnary):
    """log(1 + x), exact near 0."""

    kind = "elementwise"
    cost = 8
    wgsl = "sg_log1p({a})"
    domain = (-0.9, 5.0)

    def numpy(self, x):
        return np.log1p(x)

    def derivative(self, x, y):
        return 1.0 / (x + 1.0)


@_record
class Asin(FloatUnary):
    """The inverse sine. A primitive, for through atan2 the derivative at the ends of [-1, 1] would be NaN."""

    kind = "elementwise"
    cost = 16
    wgsl = "sg_asin({a})"
    domain = (-0.95, 0.95)

    def numpy(self, x):
        return np.arcsin(x)

    def derivative(self, x, y):
        return unary(Rsqrt, 1.0 - x * x)


@_record
class Acos(FloatUnary):
    """The inverse cosine; a primitive as Asin is."""

    kind = "elementwise"
    cost = 16
    wgsl = "sg_acos({a})"
    domain = (-0.95, 0.95)

    def numpy(self, x):
        return np.arccos(x)

    def derivative(self, x, y):
        return -unary(Rsqrt, 1.0 - x * x)


@_record
class Atan2(Binary):
    """The angle of the point (b, a) from the positive first axis, in (-pi, pi]."""

    kind = "elementwise"
    categories = (2,)
    cost = 16
    wgsl = "sg_atan2({a}, {b})"

    def numpy(self, a, b):
        return np.arctan2(a, b)

    def vjp(self, g, node):
        a, b = node.inputs
        scale = g / (a * a + b * b)
        return scale * b, -(scale * a)


# -- comparison and logic


@_record
class Less(Comparison):
    """a < b."""

    kind = "elementwise"
    wgsl = "{a} < {b}"
    wgsl_bool = "!{a} & {b}"

    def numpy(self, a, b):
        return np.less(a, b)


@_record
class LessEqual(Comparison):
    """a <= b."""

    kind = "elementwise"
    wgsl = "{a} <= {b}"
    wgsl_bool = "!{a} | {b}"

    def numpy(self, a, b):
        return np.less_equal(a, b)


@_record
class Greater(Comparison):
    """a > b."""

    kind = "elementwise"
    wgsl = "{a} > {b}"
    wgsl_bool = "{a} & !{b}"

    def numpy(self, a, b):
        return np.greater(a, b)


@_record
class GreaterEqual(Comparison):
    """a >= b."""

    kind = "elementwise"
    wgsl = "{a} >= {b}"
    wgsl_bool = "{a} | !{b}"

    def numpy(self, a, b):
        return np.greater_equal(a, b)


@_record
class Equal(Comparison):
    """a == b."""

    kind = "elementwise"
    wgsl = "{a} == {b}"

    def numpy(self, a, b):
        return np.equal(a, b)


@_record
class NotEqual(Comparison):
    """a != b; NaN differs from everything."""

    kind = "elementwise"
    wgsl = "{a} != {b}"

    def expression(self, dtype):
        return "sg_not_equal({a}, {b})" if dtype.category == 2 else self.wgsl

    def numpy(self, a, b):
        return np.not_equal(a, b)


class Test(FloatUnary):
    """A question about one number; no gradient."""

    differentiable = False

    def result(self, dtype: DType) -> DType:
        return bool_

    def vjp(self, g: Node, node: Node) -> Cotangents:
        return (None,)


@_record
class IsNan(Test):
    """Whether x is NaN. A primitive, for shaders may take x != x as false."""

    kind = "elementwise"
    wgsl = "sg_is_nan({a})"

    def numpy(self, x):
        return np.isnan(x)


@_record
class IsFinite(Test):
    """Whether x is neither infinite nor NaN. A primitive, for shaders may take x - x as 0."""

    kind = "elementwise"
    wgsl = "sg_is_finite({a})"

    def numpy(self, x):
        return np.isfinite(x)


@_record
class And(Bitwise):
    """a & b."""

    kind = "elementwise"
    wgsl = "{a} & {b}"

    def numpy(self, a, b):
        return np.bitwise_and(a, b)


@_record
class Or(Bitwise):
    """a | b."""

    kind = "elementwise"
    wgsl = "{a} | {b}"

    def numpy(self, a, b):
        return np.bitwise_or(a, b)


@_record
class Xor(Bitwise):
    """a ^ b."""

    kind = "elementwise"
    wgsl = "{a} ^ {b}"
    wgsl_bool = "{a} != {b}"

    def numpy(self, a, b):
        return np.bitwise_xor(a, b)


@_record
class ShiftRight(Bitwise):
    """a >> b, for b from 0 to 31."""

    kind = "elementwise"
    categories = (1,)
    wgsl = "{a} >> {utype}({b})"
    domain = (0, 9)

    def numpy(self, a, b):
        return np.right_shift(a, b)


@_record
class ShiftLeft(Bitwise):
    """a << b, for b from 0 to 31."""

    kind = "elementwise"
    categories = (1,)
    wgsl = "{a} << {utype}({b})"
    domain = (0, 9)

    def numpy(self, a, b):
        return np.left_shift(a, b)


@_record
class Not(Unary):
    """Logical for bools, bitwise for integers."""

    kind = "elementwise"
    differentiable = False
    categories = (0, 1)
    wgsl = "~{a}"
    wgsl_bool = "!{a}"

    def numpy(self, x):
        return np.invert(x)

    def vjp(self, g, node):
        return (None,)


@_record
class Where(Elementwise):
    """a where the condition holds, else b."""

    kind = "elementwise"
    arity = 3
    categories = (0, 1, 2)
    wgsl = "select({b}, {a}, {c})"  # c is the condition

    def infer(self, *inputs):
        condition, a, b = inputs
        if condition.dtype is not bool_:
            raise DTypeError(
                f"[where] the condition is {condition.dtype.name}, not bool. Hint: compare it with something."
            )
        if not condition.shape == a.shape == b.shape:
            raise ShapeError(f"[where] shapes differ: {condition.shape}, {a.shape}, {b.shape}.")
        if a.dtype is not b.dtype:
            raise DTypeError(f"[where] the branches have dtypes {a.dtype.name} and {b.dtype.name}.")
        return a.shape, a.dtype

    def numpy(self, condition, a, b):
        return np.where(condition, a, b)

    def vjp(self, g, node):
        condition = node.inputs[0]
        return None, where(condition, g, 0.0), where(condition, 0.0, g)


# -- conversion


@_record
class Cast(Elementwise):
    """The same value in another dtype; floats round towards zero to integers."""

    kind = "elementwise"
    categories = (0, 1, 2)
    dtype: DType = float32
    wgsl = "{type}({a})"

    def result(self, dtype):
        return self.dtype

    def expression(self, dtype):
        return "sg_truth({a})" if self.dtype is bool_ and dtype.category == 2 else self.wgsl

    def numpy(self, x):
        return x.astype(self.dtype.numpy)

    def vjp(self, g, node):
        source = node.inputs[0].dtype
        return (nodes.make(Cast(source), g) if source.category == 2 else None,)


@_record
class Bitcast(Elementwise):
    """The same 32 bits read as another dtype."""

    kind = "elementwise"
    differentiable = False
    dtype: DType = float32
    wgsl = "bitcast<{type}>({a})"

    def result(self, dtype):
        return self.dtype

    def numpy(self, x):
        return np.array(x, order="C").view(self.dtype.numpy)

    def vjp(self, g, node):
        return (None,)


# -- NumPy twins that NumPy lacks


def _erf(x: np.ndarray) -> np.ndarray:
    """erf to about 1e-16: a Taylor series below 2, a continued fraction of erfc above (Abramowitz and Stegun 7.1.6, 7.1.14)."""
    z = np.minimum(np.abs(np.asarray(x, np.float64)), 6.5)
    small = np.minimum(z, 2.0)
    term = small.copy()
    total = small.copy()
    for n in range(1, 60):
        term = term * (2.0 * small * small) / (2 * n + 1)
        total = total + term
    series = 2.0 / math.sqrt(math.pi) * np.exp(-small * small) * total
    large = np.maximum(z, 2.0)
    fraction = large.copy()
    for k in range(100, 0, -1):
        fraction = large + (k / 2.0) / fraction
    tail = 1.0 - np.exp(-large * large) / (math.sqrt(math.pi) * fraction)
    result = np.where(z < 2.0, series, tail)
    result = np.where(np.isnan(x), np.nan, np.copysign(result, x))
    return result.astype(x.dtype)


def _erfinv(x: np.ndarray) -> np.ndarray:
    """Giles' polynomial start (GPU Computing Gems, 2011, ch. 10), then Newton steps on erf."""
    y = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        w = -np.log((1.0 - y) * (1.0 + y))
        result = y * np.where(
            w < 5.0, _polynomial(ERFINV_CENTRAL, w - 2.5), _polynomial(ERFINV_TAIL, np.sqrt(np.maximum(w, 5.0)) - 3.0)
        )
        result = np.where(np.abs(y) == 1.0, np.copysign(np.inf, y), result)
        for _ in range(2):
            step = (_erf(result) - y) / (2.0 / math.sqrt(math.pi) * np.exp(-result * result))
            result = np.where(np.isfinite(step), result - step, result)
    return result.astype(x.dtype)


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    result = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        result = result * x + c
    return result


# Giles 2011, single precision; the same figures stand in math.wgsl.
ERFINV_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
ERFINV_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
