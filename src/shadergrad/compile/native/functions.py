"""Functions of one float32 as LLVM IR: within 2 ulp of the exact value, NaN, infinities and signed zeros as NumPy has them.

exp, sigmoid, tanh and erf are the most frequent ones in networks. They are computed in float32, of which a register holds twice as many. The others
are computed in float64 by a polynomial with an error of about 1e-10, and rounded once. They use no table and no branch, so that all lanes of a
vector take the same path.
Sources: exp and log by argument reduction and series, as in Muller et al., "Handbook of Floating-Point Arithmetic", 2018, chapter 10;
erf and tanh by interpolants at Chebyshev's points.
"""

from __future__ import annotations

import math

import numpy as np

from .values import Statements, Value, literal

LN2 = math.log(2.0)
LARGEST, SMALLEST = 700.0, -700.0  # exp clamps its argument to these; float32 overflows long before
EXP = [1.0 / math.factorial(k) for k in range(9, -1, -1)]  # |r| <= ln(2) / 2: 6e-12
EXP32 = [
    0.0013926191,
    0.0083631855,
    0.041666556,
    0.16666576,
    0.5,
    1.0,
    1.0,
]  # its Chebyshev interpolant, without rounding 2e-9
EXP32_ENDS = (-104.0, 89.0)  # 0 and infinity
ATANH = [1.0 / k for k in range(15, 0, -2)]  # atanh(s) / s in s * s, |s| <= 0.1716: 4e-14
ERF_FROM, ERF_END = 1.0, 3.95  # erf is 1 to float32's last bit beyond the end
ERF_NEAR = [  # of erf(a) / a - 1 in a * a below ERF_FROM
    -9.673590284364764e-06,
    0.00011268253729213029,
    -0.0008484396385028958,
    0.005221053492277861,
    -0.026865437626838684,
    0.11283782869577408,
    -0.37612637877464294,
    0.12837916612625122,
]
ERFC = [  # of 1 - erf(a) from there to the end, in v from -1 to 1: 6e-9
    -0.00023438778589479625,
    -4.047115726280026e-05,
    0.0017760589253157377,
    -0.0015825314912945032,
    -0.0038107081782072783,
    0.009549813345074654,
    -0.007128810975700617,
    -0.0076075284741818905,
    0.029741691425442696,
    -0.045637622475624084,
    0.04455805569887161,
    -0.029692882671952248,
    0.013282771222293377,
    -0.0036383760161697865,
    0.0004649466718547046,
]
TANH_FROM, TANH_END = 0.67, 10.0  # tanh is 1 to the last bit beyond the end
TANH_NEAR = [  # of tanh(a) / a - 1 in a * a below TANH_FROM
    -0.005315152462571859,
    0.020265351980924606,
    -0.05361461266875267,
    0.13329727947711945,
    -0.33333197236061096,
    0.0,
]
ERFINV_FROM, ERFINV_END = 5.0, 16.0  # of the logarithm -log(1 - x * x), which is 15.9 for the largest float32 below 1
ERFINV_NEAR = [  # of erfinv(x) / x in v, from -1 to 1 where the logarithm is between 0 and ERFINV_FROM: 5e-10
    2.943652816611575e-06,
    4.139543591463735e-06,
    -4.143432962185519e-05,
    2.518256394049937e-05,
    0.00029216901025108655,
    -0.0008364907751203057,
    -0.0004878906352736579,
    0.008525942391609902,
    -0.019573561833758985,
    -0.026108281752897162,
    0.6166006918714643,
    1.5014093517481772,
]
ERFINV_FAR = [  # the same between ERFINV_FROM and ERFINV_END: 1.3e-9
    -7.287554966108927e-06,
    -3.803929749190331e-06,
    7.55310392125342e-05,
    -0.00017043519709513668,
    0.00025755525864239404,
    -0.0003073495071944729,
    7.73366127475921e-06,
    0.0015532205715613266,
    -0.006980485524206658,
    0.025871039357736415,
    -0.10776058595888105,
    0.8530428451415907,
    3.0742058190907926,
]
SHIFT = 1.5 * 2.0**52  # added to a double, it rounds to the nearest whole number, which is then in the last bits
SHIFT32, SHIFT32_BITS = 1.5 * 2.0**23, 0x4B400000  # the same of float32
ONE, TWO_52, HALF_RANGE = 0x3FF0 << 48, 0x4330 << 48, 0x3FE6A09E667F3BCD  # the bits of 1, 2 ** 52 and sqrt(1/2)


def _wide(w: Statements, x: Value) -> Value:
    return w.convert("fpext", x, "double")


def _narrow(w: Statements, x: Value) -> Value:
    return w.convert("fptrunc", x, "float")


def _power_of_two(w: Statements, shifted: Value) -> Value:
    """2 ** k from SHIFT + k, for a whole k within +-1022, whose bits are the last bits of the sum. AVX2 cannot convert doubles to 64-bit integers."""
    bits = w.op("shl", w.convert("bitcast", shifted, "i64"), literal(52, "i64"))
    return w.convert("bitcast", w.op("add", bits, literal(ONE, "i64")), "double")


def _clamped(w: Statements, x: Value, low: float, high: float) -> Value:
    """x within LARGEST and SMALLEST; NaN for NaN."""
    x = w.select(w.compare("fcmp ogt", x, w.number(high, x)), w.number(high, x), x)
    return w.select(w.compare("fcmp olt", x, w.number(low, x)), w.number(low, x), x)


def _reduced(w: Statements, x: Value) -> tuple[Value, Value]:
    """(2 ** k, r) with x = k ln 2 + r, |r| <= ln(2) / 2. If x is NaN, r is NaN and 2 ** k any number."""
    shifted = w.fma(x, w.number(1.0 / LN2, x), w.number(SHIFT, x))
    k = w.op("fsub", shifted, w.number(SHIFT, x))
    high = 0.6931471803691238  # ln 2 in 33 bits: its product with k is exact
    r = w.fma(k, w.number(-high, x), x)
    return _power_of_two(w, shifted), w.fma(k, w.number(-(1.9082149292705877e-10), x), r)


def _exp(w: Statements, x: Value) -> Value:
    """e ** x of a double, with x clamped to +-700."""
    scale, r = _reduced(w, _clamped(w, x, SMALLEST, LARGEST))
    return w.op("fmul", w.polynomial(r, EXP), scale)


def _expm1(w: Statements, x: Value) -> Value:
    scale, r = _reduced(w, _clamped(w, x, SMALLEST, LARGEST))
    p = w.op("fmul", r, w.polynomial(r, EXP[:-1]))
    return w.fma(p, scale, w.op("fsub", scale, w.number(1.0, x)))


def exp(w: Statements, x: Value) -> Value:
    """Within 1 ulp."""
    x = _clamped(w, x, *EXP32_ENDS)
    shifted = w.fma(x, w.number(1.0 / LN2, x), w.number(SHIFT32, x))
    k = w.op("fsub", shifted, w.number(SHIFT32, x))
    high = float(np.float32(LN2))
    r = w.fma(k, w.number(high - LN2, x), w.fma(k, w.number(-high, x), x))
    whole = w.op("sub", w.convert("bitcast", shifted, "i32"), literal(SHIFT32_BITS, "i32"))
    half = w.op("ashr", whole, literal(1, "i32"))  # 2 ** 128 is no float32, nor is 2 ** -150
    result = w.polynomial(r, EXP32)
    for part in (half, w.op("sub", whole, half)):
        bits = w.op("shl", w.op("add", part, literal(127, "i32")), literal(23, "i32"))
        result = w.op("fmul", result, w.convert("bitcast", bits, "float"))
    return result


def exp2(w: Statements, x: Value) -> Value:
    x = _wide(w, x)
    return _narrow(w, _exp(w, w.op("fmul", _clamped(w, x, -1000.0, 1000.0), w.number(LN2, x))))


def expm1(w: Statements, x: Value) -> Value:
    result = _narrow(w, _expm1(w, _wide(w, x)))
    return w.select(w.compare("fcmp oeq", x, w.number(0.0, x)), x, result)  # the sign of 0


def sigmoid(w: Statements, x: Value) -> Value:
    """By e ** -|x|, which does not overflow. A step of Newton's method corrects the roundings of 1 + e and of the quotient."""
    one = w.number(1.0, x)
    e = exp(w, w.op("fneg", w.call("fabs", x)))
    top = w.select(w.compare("fcmp olt", x, w.number(0.0, x)), e, one)
    below = w.op("fadd", one, e)
    lost = w.op("fsub", e, w.op("fsub", below, one))
    quotient = w.op("fdiv", top, below)
    less = w.op("fneg", quotient)
    rest = w.fma(less, lost, w.fma(less, below, top))
    about = w.fma(below, w.number(-0.5, x), w.number(1.457, x))  # 1 / below within 0.05
    return w.fma(rest, about, quotient)


def _near(w: Statements, a: Value, coefficients: list[float]) -> Value:
    """a + a p(a * a). |p| is small compared with 1, so its rounding error is, too."""
    return w.fma(a, w.polynomial(w.op("fmul", a, a), coefficients), a)


def tanh(w: Statements, x: Value) -> Value:
    a = _clamped(w, w.call("fabs", x), 0.0, TANH_END)
    one = w.number(1.0, a)
    e = exp(w, w.op("fmul", w.number(2.0, a), a))
    far = w.op("fsub", one, w.op("fdiv", w.number(2.0, a), w.op("fadd", e, one)))
    return w.call(
        "copysign", w.select(w.compare("fcmp olt", a, w.number(TANH_FROM, a)), _near(w, a, TANH_NEAR), far), x
    )


def erf(w: Statements, x: Value) -> Value:
    a = _clamped(w, w.call("fabs", x), 0.0, ERF_END)
    v = w.fma(
        a,
        w.number(2.0 / (ERF_END - ERF_FROM), a),
        w.number(-(ERF_FROM + ERF_END) / (ERF_END - ERF_FROM), a),
    )
    far = w.op("fsub", w.number(1.0, a), w.polynomial(v, ERFC))
    return w.call("copysign", w.select(w.compare("fcmp olt", a, w.number(ERF_FROM, a)), _near(w, a, ERF_NEAR), far), x)


def _log_parts(w: Statements, x: Value) -> tuple[Value, Value]:
    """(e, m) with x = 2 ** e * m, m from sqrt(1/2) to sqrt(2); for a positive, normal double."""
    bits = w.convert("bitcast", x, "i64")
    exponent = w.op("lshr", w.op("add", bits, literal(ONE - HALF_RANGE, "i64")), literal(52, "i64"))  # e + 1023
    rest = w.op("sub", w.op("add", bits, literal(ONE, "i64")), w.op("shl", exponent, literal(52, "i64")))
    shifted = w.convert("bitcast", w.op("or", exponent, literal(TWO_52, "i64")), "double")
    return w.op("fsub", shifted, w.number(2.0**52 + 1023, x)), w.convert("bitcast", rest, "double")


def _log_of(w: Statements, m: Value, less_one: Value) -> Value:
    """log(m), where less_one is m - 1."""
    s = w.op("fdiv", less_one, w.op("fadd", m, w.number(1.0, m)))
    return w.op("fmul", w.op("fmul", s, w.number(2.0, m)), w.polynomial(w.op("fmul", s, s), ATANH))


def _ends(w: Statements, x: Value, result: Value) -> Value:
    """The logarithm of x at 0, of negative numbers, NaN and infinity. x: the argument as a double."""
    result = w.select(w.compare("fcmp oeq", x, w.number(math.inf, x)), x, result)
    result = w.select(w.compare("fcmp oeq", x, w.number(0.0, x)), w.number(-math.inf, x), result)
    outside = w.compare("fcmp ult", x, w.number(0.0, x))  # NaN, too
    return w.select(outside, w.number(math.nan, x), result)


def _log(w: Statements, x: Value, scale: float, by_two: float) -> Value:
    """scale * log(x). by_two: scale * log(2)."""
    x = _wide(w, x)
    e, m = _log_parts(w, x)
    part = _log_of(w, m, w.op("fsub", m, w.number(1.0, m)))
    return _narrow(w, _ends(w, x, w.fma(e, w.number(by_two, x), w.op("fmul", part, w.number(scale, x)))))


def log(w: Statements, x: Value) -> Value:
    return _log(w, x, 1.0, LN2)


def log2(w: Statements, x: Value) -> Value:
    return _log(w, x, 1.0 / LN2, 1.0)


def log10(w: Statements, x: Value) -> Value:
    return _log(w, x, 1.0 / math.log(10.0), math.log10(2.0))


def log1p(w: Statements, x: Value) -> Value:
    d = _wide(w, x)
    y = w.op("fadd", d, w.number(1.0, d))
    e, m = _log_parts(w, y)
    near = w.compare("fcmp oeq", e, w.number(0.0, d))  # then y - 1 would have lost digits of x
    part = _log_of(w, m, w.select(near, d, w.op("fsub", m, w.number(1.0, m))))
    result = _narrow(w, _ends(w, y, w.fma(e, w.number(LN2, d), part)))
    return w.select(w.compare("fcmp oeq", x, w.number(0.0, x)), x, result)


def erfinv(w: Statements, x: Value) -> Value:
    """By polynomials in the logarithm of 1 - x * x, as M. Giles, "Approximating the erfinv function", 2010."""
    d = _wide(w, x)
    one = w.number(1.0, d)
    y = w.op("fmul", w.op("fsub", one, d), w.op("fadd", one, d))
    e, m = _log_parts(w, y)
    t = w.op("fneg", w.fma(e, w.number(LN2, d), _log_of(w, m, w.op("fsub", m, one))))
    near = _between(w, t, 0.0, ERFINV_FROM, ERFINV_NEAR)
    far = _between(w, t, ERFINV_FROM, ERFINV_END, ERFINV_FAR)
    result = w.op("fmul", d, w.select(w.compare("fcmp olt", t, w.number(ERFINV_FROM, t)), near, far))
    size = w.call("fabs", d)
    result = w.select(w.compare("fcmp oeq", size, one), w.call("copysign", w.number(math.inf, d), d), result)
    return _narrow(w, w.select(w.compare("fcmp ugt", size, one), w.number(math.nan, d), result))


def _between(w: Statements, t: Value, low: float, high: float, coefficients: list[float]) -> Value:
    """A polynomial in v, which goes from -1 to 1 where t goes from low to high."""
    v = w.fma(t, w.number(2.0 / (high - low), t), w.number(-(low + high) / (high - low), t))
    return w.polynomial(v, coefficients)
