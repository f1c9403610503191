"""The table of rules that write each elementwise primitive in LLVM IR. In: values of one kind. Out: a value.

A rule takes the statements, the dtype of the last operand, and the operands. The interpreter computes operations without a rule for their dtype
(`serves`). Results equal NumPy's: integers wrap, conversions are those of x86, and of two equal numbers the second is the maximum.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import DType, bool_, float32, float64
from ...graph.primitive import Primitive
from ...primitives import elementwise as e
from . import functions
from .values import FLOATS, Statements, Value, kind_of, literal

Rule = Callable[[Statements, DType, list[Value]], Value]
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
SERVED = ("bool", "float32", "float64", *INTEGERS)


def _by_category(floating: str, integer: str, truth: str = "") -> Rule:
    """An instruction of two operands for floats, integers and bools."""

    def rule(w: Statements, dtype: DType, values: list[Value]) -> Value:
        name = truth if dtype is bool_ else floating if dtype.category == 2 else integer
        return w.op(name, *values)

    return rule


def _compared(floating: str, signed: str, unsigned: str) -> Rule:
    def rule(w: Statements, dtype: DType, values: list[Value]) -> Value:
        how = f"fcmp {floating}" if dtype.category == 2 else f"icmp {signed if dtype.is_signed else unsigned}"
        return w.compare(how, *values)

    return rule


def _extremum(floating: str, signed: str, unsigned: str, truth: str) -> Rule:
    def rule(w: Statements, dtype: DType, values: list[Value]) -> Value:
        a, b = values
        if dtype is bool_:
            return w.op(truth, a, b)
        if dtype.category == 2:
            first = w.op("or", w.compare(f"fcmp {floating}", a, b), w.compare("fcmp uno", a, a))
            return w.select(first, a, b)
        return w.call(signed if dtype.is_signed else unsigned, a, b)

    return rule


maximum = _extremum("ogt", "smax", "umax", "or")
minimum = _extremum("olt", "smin", "umin", "and")


def _of_one(function: Callable[[Statements, Value], Value]) -> Rule:
    return lambda w, dtype, values: function(w, values[0])


def _intrinsic(name: str) -> Rule:
    return lambda w, dtype, values: w.call(name, values[0])


def _negative(w: Statements, dtype: DType, values: list[Value]) -> Value:
    (x,) = values
    return w.op("fneg", x) if dtype.category == 2 else w.op("sub", w.number(0, x), x)


def _absolute(w: Statements, dtype: DType, values: list[Value]) -> Value:
    (x,) = values
    if dtype.category == 2:
        return w.call("fabs", x)
    return w.call("smax", x, w.op("sub", w.number(0, x), x)) if dtype.is_signed else x


def _sign(w: Statements, dtype: DType, values: list[Value]) -> Value:
    (x,) = values
    zero, one = w.number(0, x), w.number(1, x)
    if dtype.category == 2:
        below = w.select(w.compare("fcmp olt", x, zero), w.number(-1, x), zero)  # ordered: NaN is neither, and gives 0
        return w.select(w.compare("fcmp ogt", x, zero), one, below)
    if not dtype.is_signed:
        return w.call("umin", x, one)
    return w.select(
        w.compare("icmp sgt", x, zero), one, w.select(w.compare("icmp slt", x, zero), w.number(-1, x), zero)
    )


def _relu(w: Statements, dtype: DType, values: list[Value]) -> Value:
    return maximum(w, dtype, [values[0], w.number(0, values[0])])


def _rsqrt(w: Statements, dtype: DType, values: list[Value]) -> Value:
    return w.op("fdiv", w.number(1, values[0]), w.call("sqrt", values[0]))


def _is_nan(w: Statements, dtype: DType, values: list[Value]) -> Value:
    return w.compare("fcmp uno", values[0], values[0])


def _is_finite(w: Statements, dtype: DType, values: list[Value]) -> Value:
    x = w.call("fabs", values[0])
    return w.compare("fcmp olt", x, w.number(float("inf"), x))


def _sign_bit(w: Statements, dtype: DType, values: list[Value]) -> Value:
    bits = w.convert("bitcast", values[0], f"i{dtype.bits}")
    return w.compare("icmp slt", bits, w.number(0, bits))


def _not(w: Statements, dtype: DType, values: list[Value]) -> Value:
    (x,) = values
    return w.op("xor", x, literal(True, "i1") if dtype is bool_ else w.number(-1, x))


def _shift_right(w: Statements, dtype: DType, values: list[Value]) -> Value:
    x, by = values
    # a shift by more than the width leaves the sign; a negative width, as an unsigned number, is more
    if dtype.is_signed:
        return w.op("ashr", x, w.call("umin", by, w.number(dtype.bits - 1, by)))
    return w.select(w.compare("icmp ult", by, w.number(dtype.bits, by)), w.op("lshr", x, by), w.number(0, x))


def _shift_left(w: Statements, dtype: DType, values: list[Value]) -> Value:
    x, by = values
    return w.select(w.compare("icmp ult", by, w.number(dtype.bits, by)), w.op("shl", x, by), w.number(0, x))


def _where(w: Statements, dtype: DType, values: list[Value]) -> Value:
    return w.select(*values)


ARITHMETIC: dict[type[Primitive], Rule] = {
    e.Add: _by_category("fadd", "add", "or"),
    e.Sub: _by_category("fsub", "sub"),
    e.Mul: _by_category("fmul", "mul", "and"),
    e.Maximum: maximum,
    e.Minimum: minimum,
    e.Neg: _negative,
    e.Abs: _absolute,
    e.Sign: _sign,
    e.Relu: _relu,
    e.Less: _compared("olt", "slt", "ult"),
    e.LessEqual: _compared("ole", "sle", "ule"),
    e.Greater: _compared("ogt", "sgt", "ugt"),
    e.GreaterEqual: _compared("oge", "sge", "uge"),
    e.Equal: _compared("oeq", "eq", "eq"),
    e.NotEqual: _compared("une", "ne", "ne"),
    e.Where: _where,
}
OF_FLOATS: dict[type[Primitive], Rule] = {
    e.Div: _by_category("fdiv", ""),
    e.Sqrt: _intrinsic("sqrt"),
    e.Rsqrt: _rsqrt,
    e.Floor: _intrinsic("floor"),
    e.Round: _intrinsic("rint"),
    e.Trunc: _intrinsic("trunc"),
    e.IsNan: _is_nan,
    e.IsFinite: _is_finite,
    e.SignBit: _sign_bit,
}
OF_SINGLE: dict[type[Primitive], Rule] = {
    e.Exp: _of_one(functions.exp),
    e.Exp2: _of_one(functions.exp2),
    e.Expm1: _of_one(functions.expm1),
    e.Log: _of_one(functions.log),
    e.Log2: _of_one(functions.log2),
    e.Log10: _of_one(functions.log10),
    e.Log1p: _of_one(functions.log1p),
    e.Tanh: _of_one(functions.tanh),
    e.Sigmoid: _of_one(functions.sigmoid),
    e.Erf: _of_one(functions.erf),
    e.Erfinv: _of_one(functions.erfinv),
}
OF_BITS: dict[type[Primitive], Rule] = {
    e.And: _by_category("", "and", "and"),
    e.Or: _by_category("", "or", "or"),
    e.Xor: _by_category("", "xor", "xor"),
    e.Not: _not,
    e.ShiftLeft: _shift_left,
    e.ShiftRight: _shift_right,
}


def rule_of(primitive: Primitive, dtype: DType) -> Rule | None:
    """The rule of an elementwise operation on operands of `dtype` (the last one's); None where there is none."""
    kind = type(primitive)
    if kind in ARITHMETIC:
        return ARITHMETIC[kind]
    if dtype.category == 2:
        return OF_FLOATS.get(kind) or (OF_SINGLE.get(kind) if dtype is float32 else None)
    return OF_BITS.get(kind)


# -- conversions


def converts(source: DType, result: DType) -> bool:
    """Whether a Cast has a rule. C does not define casts of floats out of range; for wide unsigned integers NumPy's are not the processor's."""
    if source.category == 2 and result.category == 1:
        return result.is_signed or result.itemsize < 4
    return True


def cast(w: Statements, x: Value, source: DType, result: DType) -> Value:
    """A value of a dtype as one of another."""
    kind = kind_of(result)
    if source is result:
        return x
    if result is bool_:
        zero = w.number(0, x)
        return w.compare("fcmp une" if x.kind in FLOATS else "icmp ne", x, zero)
    if source.category == 2:
        if result.category == 2:
            return w.convert("fpext" if result is float64 else "fptrunc", x, kind)
        whole = "i64" if kind == "i64" else "i32"  # narrower integers wrap, as in C
        number = w.op("freeze", w.convert("fptosi", x, whole))
        return number if kind == whole else w.convert("trunc", number, kind)
    if result.category == 2:
        return w.convert("sitofp" if source.is_signed else "uitofp", x, kind)
    bits, wanted = int(x.kind[1:]), int(kind[1:])
    if bits == wanted:
        return x
    if bits > wanted:
        return w.convert("trunc", x, kind)
    return w.convert("sext" if source.is_signed else "zext", x, kind)


def bitcasts(source: DType, result: DType) -> bool:
    return source.itemsize == result.itemsize and bool_ not in (source, result)


def bitcast(w: Statements, x: Value, result: DType) -> Value:
    kind = kind_of(result)
    return x if kind == x.kind else w.convert("bitcast", x, kind)
