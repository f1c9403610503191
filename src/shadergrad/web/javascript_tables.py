"""Tables of the operations in JavaScript: expressions of a, b, c, and functions that JavaScript lacks."""

from __future__ import annotations

ARRAYS = {
    "float32": "Float32Array",
    "float16": "Float32Array",  # of rounded numbers
    "bfloat16": "Float32Array",
    "uint32": "Uint32Array",
    "bool": "Uint8Array",
    "uint8": "Uint8Array",
    "int8": "Int8Array",
    "uint16": "Uint16Array",
    "int16": "Int16Array",
}  # others: Int32
ROUNDED = {"float16": "asFloat16(%s)", "bfloat16": "asBfloat16(%s)"}
UNARY = {
    "Neg": "-a", "Exp": "Math.exp(a)", "Log": "Math.log(a)", "Expm1": "Math.expm1(a)", "Log1p": "Math.log1p(a)",
    "Exp2": "2 ** a", "Log2": "Math.log2(a)", "Log10": "Math.log10(a)",
    "Sqrt": "Math.sqrt(a)", "Rsqrt": "1 / Math.sqrt(a)", "Abs": "Math.abs(a)", "Sin": "Math.sin(a)", "Cos": "Math.cos(a)",
    "Tanh": "Math.tanh(a)", "Sigmoid": "1 / (1 + Math.exp(-a))", "Relu": "a > 0 || a !== a ? a : 0", "Not": "a ? 0 : 1",
    "IsNan": "a !== a ? 1 : 0", "Floor": "Math.floor(a)", "Cast": "a", "Reciprocal": "1 / a", "Sign": "(a > 0) - (a < 0)",
    "Trunc": "Math.trunc(a)", "Asin": "Math.asin(a)", "Acos": "Math.acos(a)", "IsFinite": "Number.isFinite(a) ? 1 : 0",
    "Erf": "erf(a)", "Erfc": "erfc(a)", "Erfinv": "erfinv(a)", "Lgamma": "lgamma(a)", "Round": "a % 1 === 0.5 || a % 1 === -0.5 ? 2 * Math.round(a / 2) : Math.round(a)",
}  # fmt: skip
BINARY = {
    "Add": "a + b", "Sub": "a - b", "Mul": "a * b", "Div": "a / b", "Pow": "a ** b", "Maximum": "Math.max(a, b)",
    "Minimum": "Math.min(a, b)", "Equal": "a === b ? 1 : 0", "NotEqual": "a !== b ? 1 : 0", "Less": "a < b ? 1 : 0",
    "LessEqual": "a <= b ? 1 : 0", "Greater": "a > b ? 1 : 0", "GreaterEqual": "a >= b ? 1 : 0", "And": "a & b", "Or": "a | b",
    "Xor": "a ^ b", "ShiftRight": "a >> Math.min(b, 31)", "ShiftLeft": "b >>> 0 > 31 ? 0 : a << b", "Atan2": "Math.atan2(a, b)", "Fmod": "a % b",
}  # fmt: skip
OTHERWISE = {  # for results other than floats
    ("Add", "bool"): "a | b", ("Mul", "bool"): "a & b", ("Cast", "bool"): "a !== 0 ? 1 : 0", ("Mul", "int32"): "Math.imul(a, b)",
    ("Mul", "uint32"): "Math.imul(a, b)", ("Not", "int32"): "~a", ("Not", "uint32"): "~a",
    ("ReduceProd", "int32"): "Math.imul(s, a)", ("ReduceProd", "uint32"): "Math.imul(s, a) >>> 0",
    ("ShiftRight", "uint32"): "b > 31 ? 0 : a >>> b",
}  # fmt: skip
REDUCE = {
    "ReduceSum": ("0", "s + a"),
    "ReduceProd": ("1", "s * a"),
    "ReduceMax": ("-Infinity", "Math.max(s, a)"),
    "ReduceMin": ("Infinity", "Math.min(s, a)"),
}


HELPERS = {  # functions that JavaScript lacks. erf: Abramowitz and Stegun 7.1.26, to 1.5e-7. erfc: Numerical Recipes, 6.2, to 1.2e-7
    # of its size. erfinv: M. Giles, "Approximating the erfinv function", 2010. lgamma: Lanczos, g = 7
    "asFloat16": """function asFloat16(x) {
  const y = rounded(x, 11, 113);
  return Math.abs(y) > 65504 ? y * Infinity : y;
}""",
    "asBfloat16": """function asBfloat16(x) {
  return rounded(x, 8, 1);
}""",
    "rounded": """const WIDE = new Float32Array(1), BITS = new Uint32Array(WIDE.buffer);
/** To so many bits, ties to even, with an exponent (as float32 stores it) of at least that: a sum with a large number rounds there. */
function rounded(x, bits, least) {
  WIDE[0] = x;
  const large = 1.5 * 2 ** (Math.max((BITS[0] >>> 23) & 255, least) - 127 + 53 - bits);
  return WIDE[0] + large - large || x * 0;
}""",
    "erf": """function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}""",
    "erfc": """function erfc(x) {
  const t = 1 / (1 + 0.5 * Math.abs(x));
  const of = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223];
  const y = t * Math.exp(-x * x + of.reduce((s, c) => s * t + c));
  return x >= 0 ? y : 2 - y;
}""",
    "erfinv": """function erfinv(x) {
  if (!(Math.abs(x) < 1)) return Math.abs(x) === 1 ? x * Infinity : NaN;
  const w = -Math.log1p(-x * x);
  const of = w < 5
    ? [2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
    : [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682];
  const at = w < 5 ? w - 2.5 : Math.sqrt(w) - 3;
  return x * of.reduce((s, c) => s * at + c);
}""",
    "lgamma": """function lgamma(x) {
  if (Math.abs(x) === Infinity || (x <= 0 && x % 1 === 0)) return Infinity;
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * (x % 2)))) - lgamma(1 - x);
  const of = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  const sum = of.reduce((s, c, k) => s + c / (x + k), 0.99999999999980993);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(x + 6.5) - (x + 6.5) + Math.log(sum);
}""",
    "threefry": """function threefry(k, a, b) {
  const keys = [k[0], k[1], k[0] ^ k[1] ^ 0x1bd11bda];
  let x = (a + keys[0]) | 0, y = (b + keys[1]) | 0;
  for (let g = 0; g < 5; g++) {
    for (const r of g % 2 ? [17, 29, 16, 24] : [13, 15, 26, 6]) { x = (x + y) | 0; y = ((y << r) | (y >>> (32 - r))) ^ x; }
    x = (x + keys[(g + 1) % 3]) | 0; y = (y + keys[(g + 2) % 3] + g + 1) | 0;
  }
  return [x >>> 0, y >>> 0];
}""",
}
# one row i of a head's weights: scores, masked scores, and each one's factor of dropout
SCORES = """const score = (i0, i1, i2, i3) => {{
    let s = 0; for (let e = 0; e < {d}; e++) s += Q[{q}] * K[{k}]; s *= {scale};
    {mask} return {causal};
  }};
  const kept = (i0, i1, i2, i3) => {kept};
  const all = Array.from({{ length: {columns} }}, (_, k) => k);"""
OVER_ROWS = "for (let i0 = 0; i0 < {0}; i0++) for (let i1 = 0; i1 < {1}; i1++) for (let i2 = 0; i2 < {2}; i2++)"
