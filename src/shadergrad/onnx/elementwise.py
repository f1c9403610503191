"""Elementwise primitives as ONNX operators.

A rule takes the writer and the names of the operands, and gives the name of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..dtypes import DType, bool_, float32, int32, int64
from .captured import Operation, Row
from .writer import Value, Writer

Rule = Callable[..., str]  # of a writer, the dtype that is computed in, and names


def plain(op: str, **attributes: Any) -> Rule:
    """An operator of ONNX by its name."""
    return lambda w, dtype, *names: w.node(op, *names, **attributes)


def _sign(w: Writer, dtype: DType, x: str) -> str:
    """ONNX leaves the sign of NaN to the runtime; here it is 0."""
    sign = w.node("Sign", x)
    return w.node("Where", w.node("IsNaN", x), w.constant(0, dtype), sign) if dtype.category == 2 else sign


def _trunc(w: Writer, dtype: DType, x: str) -> str:
    return w.node("Mul", w.node("Sign", x), w.node("Floor", w.node("Abs", x)))


def _floor_div(w: Writer, dtype: DType, a: str, b: str) -> str:
    """ONNX rounds towards zero; division by zero gives 0 here."""
    zero = w.node("Equal", b, w.constant(0, dtype))
    b = w.node("Where", zero, w.constant(1, dtype), b)
    found = w.node("Div", w.node("Sub", a, w.node("Mod", a, b)), b)
    return w.node("Where", zero, w.constant(0, dtype), found)


def _atan2(w: Writer, dtype: DType, y: str, x: str) -> str:
    """By the arc tangent of the quotient; signs of zeros count, and two infinities are as far as each other."""
    zero, pi, half = (w.constant(c, dtype) for c in (0, math.pi, math.pi / 2))
    far = w.node("And", w.node("IsInf", y), w.node("IsInf", x))
    y, x = (w.node("Where", far, w.node("Sign", side), side) for side in (y, x))
    turn = w.node("Where", _sign_bit(w, dtype, y), w.node("Neg", pi), pi)
    angle = w.node("Atan", w.node("Div", y, x))
    level = w.node("Where", _sign_bit(w, dtype, x), turn, y)
    upright = w.node("Where", w.node("Equal", y, zero), level, w.node("Mul", w.node("Sign", y), half))
    found = w.node("Where", w.node("Less", x, zero), w.node("Add", angle, turn), angle)
    return w.node("Where", w.node("Equal", x, zero), upright, found)


def _expm1(w: Writer, dtype: DType, x: str) -> str:
    """2 sinh(x / 2) e ** (x / 2), exact near 0; elsewhere e ** x - 1, for a large sinh overflows."""
    half, one = w.constant(0.5, dtype), w.constant(1, dtype)
    halved = w.node("Mul", x, half)
    near = w.node("Mul", w.node("Mul", w.node("Sinh", halved), w.node("Exp", halved)), w.constant(2, dtype))
    return w.node("Where", w.node("Less", w.node("Abs", x), one), near, w.node("Sub", w.node("Exp", x), one))


def _log1p(w: Writer, dtype: DType, x: str) -> str:
    """log(u) x / (u - 1) near 0, with u = 1 + x as it was rounded: what rounding took from u is in both (Goldberg, 1991)."""
    one = w.constant(1, dtype)
    u = w.node("Add", x, one)
    log, rest = w.node("Log", u), w.node("Sub", u, one)
    exact = w.node("Mul", log, w.node("Div", x, rest))
    near = w.node("Where", w.node("Equal", u, one), x, exact)
    return w.node("Where", w.node("Less", w.node("Abs", x), w.constant(0.5, dtype)), near, log)


def _sign_bit(w: Writer, dtype: DType, x: str) -> str:
    zero = w.constant(0, dtype)
    below = w.node("Less", w.node("Reciprocal", x), zero)
    return w.node("Or", w.node("And", w.node("Equal", x, zero), below), w.node("Less", x, zero))


def _is_finite(w: Writer, dtype: DType, x: str) -> str:
    return w.node("Not", w.node("Or", w.node("IsNaN", x), w.node("IsInf", x)))


def _power_of_two(w: Writer, dtype: DType, b: str) -> tuple[str, str]:
    """2 ** b as int64, and whether b is a bit of the dtype, which it is set to 0 where not."""
    wide = w.cast(b, dtype, int64)
    bits = dtype.itemsize * 8
    low = w.node("GreaterOrEqual", wide, w.constant(0, int64))
    fits = w.node("And", low, w.node("Less", wide, w.constant(bits, int64)))
    safe = w.cast(w.node("Where", fits, wide, w.constant(0, int64)), "int64", "uint64")
    return w.cast(w.node("BitShift", w.constant(1, "uint64"), safe, direction="LEFT"), "uint64", int64), fits


def _shift_right(w: Writer, dtype: DType, a: str, b: str) -> str:
    """The quotient by 2 ** b, rounded down: arithmetic, for ONNX shifts unsigned numbers alone. The remainder has the divisor's sign."""
    power, fits = _power_of_two(w, dtype, b)
    wide, zero = w.cast(a, dtype, int64), w.constant(0, int64)
    found = w.node("Div", w.node("Sub", wide, w.node("Mod", wide, power)), power)
    gone = w.node("Where", w.node("Less", wide, zero), w.constant(-1, int64), zero)
    return w.cast(w.node("Where", fits, found, gone), int64, dtype)


def _shift_left(w: Writer, dtype: DType, a: str, b: str) -> str:
    power, fits = _power_of_two(w, dtype, b)
    found = w.node("Mul", w.cast(a, dtype, int64), power)
    return w.cast(w.node("Where", fits, found, w.constant(0, int64)), int64, dtype)


def _times(op: str, factor: float) -> Rule:
    return lambda w, dtype, x: w.node("Mul", w.node(op, x), w.constant(factor, dtype))


def _negated(op: str) -> Rule:
    return lambda w, dtype, *names: w.node("Not", w.node(op, *names))


COMPUTED: dict[str, Rule] = {  # in a dtype with arithmetic
    "Add": plain("Add"), "Sub": plain("Sub"), "Mul": plain("Mul"), "Div": plain("Div"), "Pow": plain("Pow"),
    "Maximum": plain("Max"), "Minimum": plain("Min"), "Neg": plain("Neg"), "Abs": plain("Abs"), "Sign": _sign,
    "Relu": lambda w, dtype, x: w.node("Relu", x) if dtype is float32 else w.node("Max", x, w.constant(0, dtype)),
    "Exp": plain("Exp"), "Log": plain("Log"), "Sqrt": plain("Sqrt"), "Sin": plain("Sin"), "Cos": plain("Cos"),
    "Asin": plain("Asin"), "Acos": plain("Acos"), "Tanh": plain("Tanh"), "Sigmoid": plain("Sigmoid"), "Erf": plain("Erf"),
    "Floor": plain("Floor"), "Round": plain("Round"), "Trunc": _trunc, "FloorDiv": _floor_div, "Fmod": plain("Mod", fmod=1),
    "Exp2": lambda w, dtype, x: w.node("Pow", w.constant(2, dtype), x), "Expm1": _expm1, "Log1p": _log1p,
    "Log2": _times("Log", 1 / math.log(2)), "Log10": _times("Log", 1 / math.log(10)),
    "Rsqrt": lambda w, dtype, x: w.node("Reciprocal", w.node("Sqrt", x)), "Atan2": _atan2,
    "Erfc": lambda w, dtype, x: w.node("Sub", w.constant(1, dtype), w.node("Erf", x)),
    "Less": plain("Less"), "LessEqual": plain("LessOrEqual"), "Greater": plain("Greater"), "GreaterEqual": plain("GreaterOrEqual"),
    "Equal": plain("Equal"), "NotEqual": _negated("Equal"), "IsNan": plain("IsNaN"), "IsFinite": _is_finite, "SignBit": _sign_bit,
}  # fmt: skip
BITS: dict[str, Rule] = {  # of integers as they are
    "And": plain("BitwiseAnd"), "Or": plain("BitwiseOr"), "Xor": plain("BitwiseXor"), "Not": plain("BitwiseNot"),
    "ShiftRight": _shift_right, "ShiftLeft": _shift_left,
}  # fmt: skip
TRUTHS: dict[str, Rule] = {  # of bools
    "And": plain("And"), "Or": plain("Or"), "Xor": plain("Xor"), "Not": plain("Not"), "Add": plain("Or"), "Mul": plain("And"),
    "Maximum": plain("Or"), "Minimum": plain("And"), "Equal": plain("Equal"), "NotEqual": plain("Xor"),
    "Less": lambda w, dtype, a, b: w.node("And", w.node("Not", a), b), "LessEqual": lambda w, dtype, a, b: w.node("Or", w.node("Not", a), b),
    "Greater": lambda w, dtype, a, b: w.node("And", a, w.node("Not", b)), "GreaterEqual": lambda w, dtype, a, b: w.node("Or", a, w.node("Not", b)),
}  # fmt: skip


NEUTRAL: dict[tuple[str, bool], Any] = {
    ("Mul", False): 1,
    ("Add", True): False,
    ("Or", True): False,
    ("And", True): True,
}


def _form(name: str, dtype: DType, result: DType) -> Callable[..., str] | None:
    """The operator for operands of a dtype, as `Writer.elementwise` takes it."""
    if dtype is bool_:
        rule = TRUTHS.get(name)
        return rule and (lambda w, *names: rule(w, dtype, *names))
    if dtype.category == 1 and name in BITS:
        return lambda w, *names: BITS[name](w, dtype, *names)

    def form(w: Writer, *names: str) -> str:
        wide = w.widened(dtype)
        found = COMPUTED[name](w, wide, *(w.cast(n, dtype, wide) for n in names))
        return found if result is bool_ else w.cast(found, wide, result)

    return form if name in COMPUTED else None


def of_elements(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    same = _unchanged(operation.primitive, inputs)
    if same is not None:
        return replace(same, shape=out.shape)
    form = _form(operation.primitive, inputs[0].dtype, out.dtype)
    assert form is not None, "has_form says which there are"
    found = w.elementwise(form, inputs, out.shape, out.dtype)
    return Value(found.name, found.own, found.shape, found.dtype, _extremum_of(operation.primitive, inputs))


def _unchanged(name: str, inputs: Sequence[Value]) -> Value | None:
    """The operand that comes out as it went in: times 1, or with False, as clone() does."""
    neutral = NEUTRAL.get((name, inputs[0].dtype is bool_))
    for x, other in (inputs, inputs[::-1]) if len(inputs) == 2 else ():
        if other.made[:1] == ("constant",) and neutral is not None and other.made[1] == neutral:
            return x
    return None


def has_form(name: str, dtype: DType) -> bool:
    """Whether an elementwise primitive has operators for operands of a dtype."""
    return _form(name, dtype, dtype) is not None


def _extremum_of(name: str, inputs: Sequence[Value]) -> tuple[Any, ...]:
    """Comparing with the extremum of the same values finds its places; those of NaN come along."""
    made = {v.made[:1]: v for v in inputs if v.made}
    if name == "Equal" and len(inputs) == 2:
        for x, top in (inputs, inputs[::-1]):
            if top.made[:1] == ("extremum",) and top.made[2].name == x.name:
                return ("places", *top.made[1:])
    if name == "IsNan":
        return ("nan", inputs[0].name)
    if name == "Or" and ("places",) in made and ("nan",) in made:
        places = made[("places",)].made
        return places if places[2].name == made[("nan",)].made[1] else ()
    return ()


def of_where(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """Runtimes choose among few dtypes; bools are chosen by logic."""

    def form(w: Writer, c: str, a: str, b: str) -> str:
        if out.dtype is bool_:
            return w.node("Or", w.node("And", c, a), w.node("And", w.node("Not", c), b))
        wide = float32 if out.dtype.is_half else w.widened(out.dtype)
        return w.cast(w.node("Where", c, w.cast(a, out.dtype, wide), w.cast(b, out.dtype, wide)), wide, out.dtype)

    found = w.elementwise(form, inputs, out.shape, out.dtype)
    condition, counter, otherwise = inputs
    if condition.made[:1] == ("places",) and counter.made[:1] == ("counter",) and otherwise.made[:1] == ("constant",):
        return Value(
            found.name,
            found.own,
            found.shape,
            found.dtype,
            ("first", *condition.made[1:], counter.made[1], otherwise.made[1]),
        )
    return found


def of_cast(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """Negative floats wrap in small unsigned integers, as they do by way of int32."""
    before = inputs[0].dtype

    def form(w: Writer, x: str) -> str:
        if before.category == 2 and out.dtype.name in ("uint8", "uint16", "int8", "int16"):
            return w.cast(w.cast(x, before, int32), int32, out.dtype)
        if before.category == 2 and out.dtype.name == "uint32":
            return w.cast(w.cast(x, before, int64), int64, out.dtype)
        return w.cast(x, before, out.dtype)

    found = w.elementwise(form, inputs, out.shape, out.dtype)
    (x,) = inputs
    return Value(
        found.name,
        found.own,
        found.shape,
        found.dtype,
        x.made if x.made[:1] in (("argument",), ("counter",), ("constant",)) else (),
    )


RULES: dict[str, Any] = {"Where": of_where, "Cast": of_cast}
ELEMENTS = (COMPUTED.keys() | BITS.keys() | TRUTHS.keys()) - RULES.keys()
