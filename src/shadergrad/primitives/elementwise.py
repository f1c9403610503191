"""Elementwise operations, one record each. To add one, write a record here and a line in tests/cases.py.

A record has a name, a one-sentence description, the NumPy value, the WGSL expression over {a}, {b}, {c}, and the gradient: with one operand
dy/dx as a function of x and y, else the cotangents of the operands as functions of g, the operands and y. Further fields: the
kinds of operands (0 bool, 1 integer, 2 floating), the cost in scalar operations, the domain from which tests draw, and for a
public one an example: a tensor and its result as they are printed, which the method's docstring shows. `sg_*` functions are in
compile/wgsl/math.wgsl. Operands have one shape: broadcasting is a view.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dtypes import DType, bool_, float32, uint8, uint16, uint32
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph import node as nodes
from ..graph.build import conjugate, elementwise, equal, greater, less, where
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape
from ..system.browser import Late

special = Late("scipy.special")
Cotangents = tuple[Node | None, ...]


class Elementwise(Primitive):
    """Base: operands of one shape and dtype; the result has that shape and, unless `gives` names another, that dtype.

    public: whether the operation is a tensor's method under its own name in lower case; example: what that one's docstring
    shows, a tensor and the result.
    """

    arity: ClassVar[int] = 1
    value: ClassVar[Callable[..., Any]]
    wgsl: ClassVar[str | Callable[[DType], str]] = ""
    wgsl_bool: ClassVar[str] = ""  # the expression for booleans, if it differs
    gradient: ClassVar[Callable[..., Cotangents] | None] = None
    categories: ClassVar[tuple[int, ...]] = (1, 2)
    of_complex: ClassVar[bool] = (
        False  # whether complex operands are allowed; gradients are those of analytic functions
    )
    domain: ClassVar[tuple[float, float]] = (-3.0, 3.0)
    gives: ClassVar[DType | None] = None
    public: ClassVar[bool] = False
    example: ClassVar[tuple[str, str]] = ("", "")

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        first = inputs[0]
        for other in inputs[1:]:
            if other.shape != first.shape:
                raise ShapeError(f"[{self.name}] operands have shapes {first.shape} and {other.shape}.")
            if other.dtype is not first.dtype:
                raise DTypeError(
                    f"[{self.name}] operands have dtypes {first.dtype.name} and {other.dtype.name}. Hint: convert one with .to(dtype)."
                )
        if first.dtype.category not in self.categories and not (self.of_complex and first.dtype.is_complex):
            raise DTypeError(f"[{self.name}] is not defined for {first.dtype.name}.")
        return first.shape, self.result(first.dtype)

    def result(self, dtype: DType) -> DType:
        return self.gives or dtype

    def numpy(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return type(self).value(*args)

    def writer(self) -> Callable[..., Any]:
        """A function that writes the value into the array `out`, which may be one of the operands."""
        value = getattr(type(self), "value", None)  # casts have none
        return value if isinstance(value, np.ufunc) else self._write

    def _write(self, *operands: np.ndarray, out: np.ndarray) -> None:
        out[...] = self.numpy(*operands)

    def vjp(self, g: Node, node: Node) -> Cotangents:
        rule = type(self).gradient
        return (None,) * self.arity if rule is None else rule(g, *node.inputs, node)

    def expression(self, dtype: DType) -> str:
        """The WGSL template for operands of `dtype`."""
        if dtype is bool_ and self.wgsl_bool:
            return self.wgsl_bool
        template = type(self).wgsl
        return template if isinstance(template, str) else template(dtype)


def _from_derivative(derivative: Callable[[Node, Node], Node | float]) -> Callable[..., Cotangents]:
    def gradient(g: Node, x: Node, y: Node) -> Cotangents:
        slope = derivative(x, y)
        return (g * (conjugate(slope) if isinstance(slope, Node) else slope),)

    return gradient


def record(
    name: str,
    doc: str,
    value: Callable[..., Any],
    wgsl: str | Callable[[DType], str],
    derivative: Callable[[Node, Node], Node | float] | None = None,
    *,
    gradient: Callable[..., Cotangents] | None = None,
    **fields: Any,
) -> type[Elementwise]:
    """An elementwise operation. derivative: dy/dx from x and y; or gradient: from g, the operands and y; else none.

    fields: arity, wgsl_bool, categories, cost, domain, gives, public, example.
    """
    if derivative is not None:
        gradient = _from_derivative(derivative)

    members: dict[str, Any] = {
        "kind": "elementwise",
        "value": staticmethod(value),
        "wgsl": wgsl if isinstance(wgsl, str) else staticmethod(wgsl),
        "gradient": None if gradient is None else staticmethod(gradient),
        "differentiable": gradient is not None,
        "__doc__": doc,
        "__module__": __name__,
        **fields,
    }
    return type(
        name, (Elementwise,), members
    )  # not a dataclass: the class has no fields, and a dataclass takes a millisecond to create


ANY, NUMBERS, INTEGERS, FLOATS, DISCRETE = (0, 1, 2), (1, 2), (1,), (2,), (0, 1)


def in_same_dtype(function: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    """SciPy's function of one array, in the array's dtype: SciPy lacks float16."""
    return lambda x: function(x).astype(x.dtype, copy=False)


def flat(x: Node, y: Node) -> Node:
    """The derivative of a step function."""
    return build.like(x, 0.0)


def floating(template: str, otherwise: str) -> Callable[[DType], str]:
    """One template for floats, another for the rest."""
    return lambda dtype: template if dtype.category == 2 else otherwise


def _sign(x: np.ndarray) -> np.ndarray:
    sign = np.sign(x)
    return np.where(np.isnan(x), x.dtype.type(0), sign) if x.dtype.kind == "f" else sign


def _sign_wgsl(dtype: DType) -> str:
    if dtype.category == 2:
        return "sg_sign({a})"
    return "min({a}, {type}(1))" if dtype.wgsl == "u32" else "sign({a})"


# fmt: off
# -- arithmetic

Add = record(
    "Add", "a + b; for bools, or.", np.add, "{a} + {b}",
    gradient=lambda g, a, b, y: (g, g), arity=2, categories=ANY, of_complex=True, wgsl_bool="{a} | {b}",
)
Sub = record("Sub", "a - b.", np.subtract, "{a} - {b}", gradient=lambda g, a, b, y: (g, -g), arity=2, of_complex=True)
Mul = record(
    "Mul", "a * b; for bools, and.", np.multiply, "{a} * {b}",
    gradient=lambda g, a, b, y: (g * conjugate(b), g * conjugate(a)), arity=2, categories=ANY, of_complex=True, wgsl_bool="{a} & {b}",
)
Div = record(
    "Div", "a / b, floating.", np.divide, "{a} / {b}",
    gradient=lambda g, a, b, y: (g / conjugate(b), -(g * conjugate(y) / conjugate(b))), arity=2, of_complex=True, categories=FLOATS, cost=4, domain=(0.5, 3.0),
)


def _floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)


FloorDiv = record(
    "FloorDiv", "The largest integer not above a / b, integers; division by zero gives 0 on every device.",
    _floor_divide, lambda dtype: f"sg_floor_div_{dtype.wgsl}({{a}}, {{b}})",
    arity=2, categories=INTEGERS, cost=8, domain=(1, 9),
)


def _fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # an infinite dividend, or a divisor of 0, gives NaN
        return np.fmod(a, b)


Fmod = record(
    "Fmod", "What is left of a / b rounded towards zero, exactly; NaN for an infinite a, and for b = 0.",
    _fmod, "sg_fmod({a}, {b})",
    gradient=lambda g, a, b, y: (g, -(g * elementwise("Trunc", a / b))),
    arity=2, categories=FLOATS, cost=24, domain=(0.5, 3.0),
)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu":
        powers = np.power(a, np.abs(b))  # wraps, as in shaders
        return np.where((b < 0) & (np.abs(a) != 1), a.dtype.type(0), powers).astype(a.dtype)
    return np.power(a, b)


def _power_gradient(g: Node, a: Node, b: Node, y: Node) -> Cotangents:
    da = where(equal(b, 0), 0.0, g * conjugate(b) * conjugate(elementwise("Pow", a, b - 1)))
    at_origin = equal(a, 0)
    if not b.dtype.is_complex:  # of which none is above 0
        at_origin = build.recorded.mul(at_origin, elementwise("GreaterEqual", b, 0))
    return da, where(at_origin, 0.0, g * conjugate(y) * conjugate(elementwise("Log", a)))


Pow = record(
    "Pow", "a ** b.", _power,
    lambda dtype: "sg_pow({a}, {b})" if dtype.category == 2 else f"sg_pow_{dtype.wgsl}({{a}}, {{b}})",
    gradient=_power_gradient, arity=2, of_complex=True, cost=16, domain=(0.5, 2.0),
)


def _maximum_gradient(g: Node, a: Node, b: Node, y: Node) -> Cotangents:
    tie = where(equal(a, b), g * 0.5, 0.0)
    return where(greater(a, b), g, tie), where(less(a, b), g, tie)


def _minimum_gradient(g: Node, a: Node, b: Node, y: Node) -> Cotangents:
    tie = where(equal(a, b), g * 0.5, 0.0)
    return where(less(a, b), g, tie), where(greater(a, b), g, tie)


Maximum = record(
    "Maximum", "The larger; NaN where either is NaN. A tie halves the gradient.",
    np.maximum, floating("sg_max({a}, {b})", "max({a}, {b})"),
    gradient=_maximum_gradient, arity=2, categories=ANY, wgsl_bool="{a} | {b}",
)
Minimum = record(
    "Minimum", "The smaller; NaN where either is NaN. A tie halves the gradient.",
    np.minimum, floating("sg_min({a}, {b})", "min({a}, {b})"),
    gradient=_minimum_gradient, arity=2, categories=ANY, wgsl_bool="{a} & {b}",
)

# -- one operand

Neg = record(
    "Neg", "-x.", np.negative, lambda dtype: "0u - {a}" if dtype.wgsl == "u32" else "-{a}",
    gradient=lambda g, x, y: (-g,), categories=NUMBERS, of_complex=True,
)
Abs = record("Abs", "|x|; the derivative at 0 is 0.", np.abs, "abs({a})", lambda x, y: elementwise("Sign", x))
Sign = record("Sign", "-1, 0 or 1; 0 of NaN.", _sign, _sign_wgsl, flat)
Relu = record(
    "Relu", "max(x, 0); the derivative at 0 is 0.", lambda x: np.maximum(x, x.dtype.type(0)),
    floating("sg_relu({a})", "max({a}, {type}(0))"), gradient=lambda g, x, y: (where(greater(y, 0.0), g, 0.0),),
)
Exp = record(
    "Exp", "e ** x.", np.exp, "sg_exp({a})", lambda x, y: y, categories=FLOATS, of_complex=True, cost=4, public=True,
    example=("[0.0, 1.0]", "[1.    , 2.7183]"),
)
def _log1p(x: np.ndarray) -> np.ndarray:
    """NumPy's, except for complex numbers near 0, to which NumPy adds 1 first."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    real, imaginary = np.real(x), np.imag(x)
    size = 0.5 * np.log1p(real * (2 + real) + imaginary * imaginary)
    near = (size + 1j * np.arctan2(imaginary, 1 + real)).astype(x.dtype)
    return np.where(np.abs(x) < 0.5, near, np.log1p(x))


Exp2 = record(  # not by exp, whose operand would be rounded
    "Exp2", "2 ** x.", np.exp2, "sg_exp2({a})", lambda x, y: y * math.log(2.0), categories=FLOATS, cost=4, public=True,
    example=("[0.0, 1.0, 3.0]", "[1., 2., 8.]"),
)
Expm1 = record(
    "Expm1", "e ** x - 1, exact near 0.", np.expm1, "sg_expm1({a})", lambda x, y: y + 1.0,
    categories=FLOATS, of_complex=True, cost=8, public=True,
    example=("[0.0, 1.0]", "[0.    , 1.7183]"),
)
Log = record(
    "Log", "The natural logarithm; -inf at 0, NaN below.", np.log, "sg_log({a})", lambda x, y: 1.0 / x,
    categories=FLOATS, of_complex=True, cost=4, domain=(0.1, 5.0), public=True,
    example=("[1.0, 10.0]", "[0.    , 2.3026]"),
)
Log2 = record(  # not by log: the logarithms of powers of 2 would not be whole numbers
    "Log2", "The logarithm to base 2; -inf at 0, NaN below.", np.log2, "sg_log2({a})", lambda x, y: (1.0 / math.log(2.0)) / x,
    categories=FLOATS, of_complex=True, cost=4, domain=(0.1, 5.0), public=True,
    example=("[1.0, 2.0, 8.0]", "[0., 1., 3.]"),
)
Log10 = record(  # the same of powers of 10
    "Log10", "The logarithm to base 10; -inf at 0, NaN below.", np.log10, "sg_log10({a})", lambda x, y: (1.0 / math.log(10.0)) / x,
    categories=FLOATS, of_complex=True, cost=4, domain=(0.1, 5.0), public=True,
    example=("[1.0, 10.0, 100.0]", "[0., 1., 2.]"),
)
Log1p = record(
    "Log1p", "log(1 + x), exact near 0; -inf at -1, NaN below.", _log1p, "sg_log1p({a})",
    lambda x, y: 1.0 / (x + 1.0),
    categories=FLOATS, of_complex=True, cost=8, domain=(-0.9, 5.0), public=True,
    example=("[0.0, 1.0]", "[0.    , 0.6931]"),
)
Sqrt = record(
    "Sqrt", "The square root; NaN below 0.", np.sqrt, "sqrt({a})", lambda x, y: 0.5 / y,
    categories=FLOATS, of_complex=True, cost=4, domain=(0.1, 5.0), public=True,
    example=("[4.0, 9.0]", "[2., 3.]"),
)
Rsqrt = record(
    "Rsqrt", "1 / sqrt(x); inf at 0, NaN below.", lambda x: np.divide(x.dtype.type(1), np.sqrt(x)), "inverseSqrt({a})",
    lambda x, y: y * y * y * -0.5, categories=FLOATS, of_complex=True, cost=4, domain=(0.1, 5.0), public=True,
    example=("[4.0, 16.0]", "[0.5 , 0.25]"),
)
Sin = record(
    "Sin", "The sine of an angle in radians.", np.sin, "sg_sin({a})", lambda x, y: elementwise("Cos", x),
    categories=FLOATS, of_complex=True, cost=12, public=True,
    example=("[0.0, 1.0]", "[0.    , 0.8415]"),
)
Cos = record(
    "Cos", "The cosine of an angle in radians.", np.cos, "sg_cos({a})", lambda x, y: -elementwise("Sin", x),
    categories=FLOATS, of_complex=True, cost=12, public=True,
    example=("[0.0, 1.0]", "[1.    , 0.5403]"),
)
Asin = record(  # through atan2 the derivative at the ends of [-1, 1] would be NaN
    "Asin", "The inverse sine, in radians from -pi / 2 to pi / 2; NaN outside [-1, 1].", np.arcsin, "sg_asin({a})",
    lambda x, y: elementwise("Rsqrt", 1.0 - x * x), categories=FLOATS, of_complex=True, cost=16, domain=(-0.95, 0.95), public=True,
    example=("[0.0, 0.5]", "[0.    , 0.5236]"),
)
Acos = record(
    "Acos", "The inverse cosine, in radians from 0 to pi; NaN outside [-1, 1].", np.arccos, "sg_acos({a})",
    lambda x, y: -elementwise("Rsqrt", 1.0 - x * x), categories=FLOATS, of_complex=True, cost=16, domain=(-0.95, 0.95), public=True,
    example=("[1.0, 0.5]", "[0.    , 1.0472]"),
)
Tanh = record(
    "Tanh", "The hyperbolic tangent, saturating where the naive form overflows.", np.tanh, "sg_tanh({a})",
    lambda x, y: 1.0 - y * y, categories=FLOATS, of_complex=True, cost=8, public=True,
    example=("[0.0, 1.0]", "[0.    , 0.7616]"),
)
Sigmoid = record(
    "Sigmoid", "1 / (1 + e ** -x).", in_same_dtype(special.expit), "1.0 / (1.0 + sg_exp(-{a}))", lambda x, y: y * (1.0 - y),
    categories=FLOATS, cost=8, public=True,
    example=("[0.0, 1.0]", "[0.5   , 0.7311]"),
)
Erf = record(
    "Erf", "The error function, 2 / sqrt(pi) times the integral of e ** -t**2 from 0 to x.",
    in_same_dtype(special.erf), "sg_erf({a})",
    lambda x, y: elementwise("Exp", -(x * x)) * (2.0 / math.sqrt(math.pi)), categories=FLOATS, cost=12, public=True,
    example=("[0.0, 1.0]", "[0.    , 0.8427]"),
)
Erfinv = record(
    "Erfinv", "The inverse of the error function on (-1, 1); infinite at the ends, NaN outside.",
    in_same_dtype(lambda x: np.copysign(special.erfinv(x), x)), "sg_erfinv({a})",  # SciPy's of -0.0 is 0.0
    lambda x, y: elementwise("Exp", y * y) * (math.sqrt(math.pi) / 2.0),
    categories=FLOATS, cost=16, domain=(-0.9, 0.9), public=True,
    example=("[0.0, 0.5]", "[0.    , 0.4769]"),
)
Floor = record("Floor", "The largest integer not above x.", np.floor, "floor({a})", flat, categories=FLOATS)
Round = record("Round", "The nearest integer, halves to the even one.", np.round, "round({a})", flat, categories=FLOATS)
Trunc = record("Trunc", "The integer part.", np.trunc, "trunc({a})", flat, categories=FLOATS)


NextAfter = record(
    "NextAfter", "The next number that the dtype holds after a, towards b.", np.nextafter, "sg_next_after({a}, {b})",
    gradient=lambda g, a, b, y: (g, None), arity=2, categories=FLOATS, cost=8,
)
Gcd = record(
    "Gcd", "The greatest common divisor, not negative; of 0 and 0 it is 0.", np.gcd,
    lambda dtype: f"sg_gcd_{dtype.wgsl}({{a}}, {{b}})", arity=2, categories=INTEGERS, cost=64, domain=(0, 60),
)
Exponent = record(
    "Exponent", "The e of x = m * 2 ** e with 0.5 <= |m| < 1, as a float; 0 of 0, infinities and NaN.",
    lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(x.dtype), "sg_exponent({a})", flat,
    categories=FLOATS, cost=8,
)


def _angle_gradient(g: Node, a: Node, b: Node, y: Node) -> Cotangents:
    scale = g / (a * a + b * b)
    return scale * b, -(scale * a)


Atan2 = record(
    "Atan2", "The angle of the point (b, a) from the positive first axis, in (-pi, pi].", np.arctan2,
    "sg_atan2({a}, {b})", gradient=_angle_gradient, arity=2, categories=FLOATS, cost=16,
)

# -- comparison and logic: results are bools or integers, without a gradient


def comparison(
    name: str, doc: str, value: Callable[..., Any], wgsl: Any, wgsl_bool: str = "", of_complex: bool = False
) -> type[Elementwise]:
    return record(
        name, doc, value, wgsl, arity=2, categories=ANY, gives=bool_, wgsl_bool=wgsl_bool, of_complex=of_complex
    )


Less = comparison("Less", "a < b.", np.less, "{a} < {b}", "!{a} & {b}")
LessEqual = comparison("LessEqual", "a <= b.", np.less_equal, "{a} <= {b}", "!{a} | {b}")
Greater = comparison("Greater", "a > b.", np.greater, "{a} > {b}", "{a} & !{b}")
GreaterEqual = comparison("GreaterEqual", "a >= b.", np.greater_equal, "{a} >= {b}", "{a} | !{b}")
Equal = comparison("Equal", "a == b.", np.equal, "{a} == {b}", of_complex=True)
NotEqual = comparison(
    "NotEqual", "a != b; NaN differs from everything.", np.not_equal, floating("sg_not_equal({a}, {b})", "{a} != {b}"),
    of_complex=True,
)
# own operations, because shaders may simplify x != x to false and x - x to 0
IsNan = record("IsNan", "Whether x is NaN.", np.isnan, "sg_is_nan({a})", categories=FLOATS, of_complex=True, gives=bool_)
SignBit = record(
    "SignBit", "Whether the sign is minus, -0.0 and NaN included.", np.signbit, "sg_sign_bit({a})",
    categories=FLOATS, gives=bool_,
)
IsFinite = record(
    "IsFinite", "Whether x is neither infinite nor NaN.", np.isfinite, "sg_is_finite({a})",
    categories=FLOATS, of_complex=True, gives=bool_,
)
And = record("And", "a & b.", np.bitwise_and, "{a} & {b}", arity=2, categories=DISCRETE)
Or = record("Or", "a | b.", np.bitwise_or, "{a} | {b}", arity=2, categories=DISCRETE)
Xor = record("Xor", "a ^ b.", np.bitwise_xor, "{a} ^ {b}", arity=2, categories=DISCRETE, wgsl_bool="{a} != {b}")
# WGSL takes a width modulo 32, and rejects larger constants. Here, as in NumPy and PyTorch, such widths, and negative ones, shift out all bits.
ShiftRight = record(
    "ShiftRight", "a >> b; all bits go for b below 0 and beyond the width.", np.right_shift,
    lambda dtype: "select({a} >> ({b} & {utype}(31u)), {utype}(0u), {b} > {utype}(31u))" if dtype is uint32
    else "{a} >> min({utype}({b}), {utype}(31u))",
    arity=2, categories=INTEGERS, domain=(0, 9),
)
ShiftLeft = record(
    "ShiftLeft", "a << b; all bits go for b below 0 and beyond the width.", np.left_shift,
    "select({a} << ({utype}({b}) & {utype}(31u)), {type}(0), {utype}({b}) > {utype}(31u))",
    arity=2, categories=INTEGERS, domain=(0, 9),
)
Not = record(
    "Not", "Logical for bools, bitwise for integers.", np.invert, "~{a}", categories=DISCRETE, wgsl_bool="!{a}"
)
# fmt: on

# -- operations whose operands or results differ in dtype

SELECTED = 4096  # elements from which on operations on the bits are faster than NumPy's `where`, which branches at each element
BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def _select(condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bits = BITS.get(a.dtype.itemsize)
    if condition.size < SELECTED or bits is None:
        return np.where(condition, a, b)
    x, y, chosen = a.view(bits), b.view(bits), condition.view(np.int8)
    if _is_zero(y) and y.size <= max(x.size, chosen.size):  # one of the three has the shape of the result
        return np.bitwise_and(x, np.negative(chosen), dtype=bits).view(a.dtype)  # all ones where it holds
    if _is_zero(x) and x.size <= max(y.size, chosen.size):
        return np.bitwise_and(y, np.subtract(chosen, np.int8(1)), dtype=bits).view(a.dtype)
    mask = np.negative(chosen, dtype=bits)
    differing = np.bitwise_xor(x, y)
    return np.bitwise_xor(y, np.bitwise_and(differing, mask)).view(a.dtype)


def _is_zero(bits: np.ndarray) -> bool:
    """Whether all elements are one number, 0 (not -0.0)."""
    return not any(bits.strides[a] for a, n in enumerate(bits.shape) if n > 1) and not bits[(0,) * bits.ndim]


@dataclass(frozen=True, eq=False)
class Where(Elementwise):
    """a where the condition holds, else b."""

    moves = True
    kind = "elementwise"
    arity = 3
    categories = ANY
    wgsl = "select({b}, {a}, {c})"  # c is the condition
    value = staticmethod(_select)

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

    def vjp(self, g, node):
        condition = node.inputs[0]
        return None, where(condition, g, 0.0), where(condition, 0.0, g)


@dataclass(frozen=True, eq=False)
class Cast(Elementwise):
    """The same value in another dtype; floats round towards zero to integers."""

    moves = True
    kind = "elementwise"
    categories = ANY
    of_complex = True
    dtype: DType = float32
    wgsl = "{type}({a})"

    def result(self, dtype):
        return self.dtype

    def expression(self, dtype):
        if self.dtype in (uint8, uint16) and dtype.category == 2:
            return "{type}({itype}({a}))"  # negative numbers wrap, as on the cpu device; u32() takes them to 0
        if self.dtype.is_half and dtype is not self.dtype:
            return f"sg_as_{self.dtype.name}({{type}}({{a}}))"
        return "sg_truth({a})" if self.dtype is bool_ and dtype.category == 2 else "{type}({a})"

    def numpy(self, x):
        x = x.real if x.dtype.kind == "c" and not self.dtype.is_complex else x
        return self.dtype.holding(x) if self.dtype.is_half else x.astype(self.dtype.numpy)

    def vjp(self, g, node):
        source = node.inputs[0].dtype
        return (nodes.make(Cast(source), g) if source.category >= 2 else None,)


@dataclass(frozen=True, eq=False)
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
