// Scalar functions that WGSL lacks, or gives with too little accuracy or another meaning of NaN.
// Kernels take only the functions that they use; vec4 forms are generated from these.

// A float from its bits; not a constant expression, so that infinities and NaN can be written.
fn sg_bits(bits: u32) -> f32 {
  return bitcast<f32>(bits);
}

// By the bits: x != x is false for NaN where a driver compares ordered (SPIR-V's FOrdNotEqual) or assumes none.
fn sg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn sg_is_finite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

fn sg_sign_bit(x: f32) -> bool {
  return (bitcast<u32>(x) >> 31u) == 1u;
}

// The neighbour of a towards b, by its bits: they order as the size does.
fn sg_next_after(a: f32, b: f32) -> f32 {
  if (sg_is_nan(a) || sg_is_nan(b)) { return sg_bits(0x7fc00000u); }
  let x = bitcast<u32>(a);
  let y = bitcast<u32>(b);
  if (x == y || ((x | y) & 0x7fffffffu) == 0u) { return b; }
  if ((x & 0x7fffffffu) == 0u) { return sg_bits((y & 0x80000000u) | 1u); }
  let negative = (x >> 31u) == 1u;
  let grows = (a < b) != negative;
  return sg_bits(select(x - 1u, x + 1u, grows));
}

// The e of x = m * 2 ** e with 0.5 <= |m| < 1.
fn sg_exponent(x: f32) -> f32 {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits == 0u || bits >= 0x7f800000u) { return 0.0; }
  if (bits < 0x800000u) { return f32(firstLeadingBit(bits)) - 148.0; }
  return f32(bits >> 23u) - 126.0;
}

fn sg_gcd_i32(a: i32, b: i32) -> i32 {
  return i32(sg_gcd_u32(u32(abs(a)), u32(abs(b))));
}

// Euclid's algorithm.
fn sg_gcd_u32(a: u32, b: u32) -> u32 {
  var x = a;
  var y = b;
  while (y != 0u) {
    let rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

// Whether x counts as true: all but 0, NaN included.
fn sg_truth(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) != 0u;
}

fn sg_not_equal(a: f32, b: f32) -> bool {
  return !(a == b) || sg_is_nan(a) || sg_is_nan(b);
}

// The larger; NaN where either is NaN (max alone may drop it).
fn sg_max(a: f32, b: f32) -> f32 {
  return select(max(a, b), a + b, sg_is_nan(a) || sg_is_nan(b));
}

fn sg_min(a: f32, b: f32) -> f32 {
  return select(min(a, b), a + b, sg_is_nan(a) || sg_is_nan(b));
}

fn sg_relu(x: f32) -> f32 {
  return select(max(x, 0.0), x, sg_is_nan(x));
}

fn sg_floor_div_i32(a: i32, b: i32) -> i32 {
  let d = select(b, 1, b == 0);
  let q = a / d;
  let rest = a - q * d;  // not a % d: Vulkan leaves the remainder of negative numbers undefined
  return select(select(q, q - 1, (rest != 0) && ((a < 0) != (d < 0))), 0, b == 0);
}

fn sg_floor_div_u32(a: u32, b: u32) -> u32 {
  return select(a / select(b, 1u, b == 0u), 0u, b == 0u);
}

// What is left of a / b rounded towards zero, by long division of the significands, eight bits at a time: exact.
fn sg_fmod(a: f32, b: f32) -> f32 {
  let x = bitcast<u32>(a) & 0x7fffffffu;
  let y = bitcast<u32>(b) & 0x7fffffffu;
  if (y == 0u || x >= 0x7f800000u || y > 0x7f800000u) { return sg_bits(0x7fc00000u); }
  if (x < y) { return a; }
  let low = select(y & 0x7fffffu, (y & 0x7fffffu) | 0x800000u, y >= 0x800000u);
  var rest = select(x & 0x7fffffu, (x & 0x7fffffu) | 0x800000u, x >= 0x800000u) % low;
  let exponent = max(i32(y >> 23u), 1);
  var steps = max(i32(x >> 23u), 1) - exponent;
  while (steps >= 8) {
    rest = (rest << 8u) % low;
    steps -= 8;
  }
  rest = (rest << u32(steps)) % low;
  let size = ldexp(f32(rest), exponent - 150);
  return select(size, -size, (bitcast<u32>(a) >> 31u) == 1u);
}

// a ** b as C's pow. Zero, infinite and NaN operands are decided by hand: log2 and exp2 may give anything for them.
fn sg_pow(a: f32, b: f32) -> f32 {
  let infinity = sg_bits(0x7f800000u);
  let m = abs(a);
  let whole = b == floor(b);
  let odd = whole && (abs(b) % 2.0 == 1.0);
  let grows = (m > 1.0) == (b > 0.0);
  let extreme = m == 0.0 || m == infinity || abs(b) == infinity;
  let magnitude = select(exp2(b * log2(m)), select(0.0, infinity, grows), extreme);
  let value = select(magnitude, -magnitude, odd && (bitcast<u32>(a) >> 31u) == 1u);
  let undefined = sg_is_nan(a) || sg_is_nan(b) || (a < 0.0 && !whole && !extreme);
  let one = b == 0.0 || a == 1.0 || (m == 1.0 && abs(b) == infinity);
  return select(select(value, sg_bits(0x7fc00000u), undefined), 1.0, one);
}

fn sg_pow_i32(a: i32, b: i32) -> i32 {
  var result = 1;
  var base = a;
  var exponent = abs(b);
  while (exponent > 0) {
    if ((exponent & 1) == 1) { result = result * base; }
    base = base * base;
    exponent = exponent >> 1u;
  }
  return select(result, 0, b < 0 && abs(a) != 1);
}

fn sg_pow_u32(a: u32, b: u32) -> u32 {
  var result = 1u;
  var base = a;
  var exponent = b;
  while (exponent > 0u) {
    if ((exponent & 1u) == 1u) { result = result * base; }
    base = base * base;
    exponent = exponent >> 1u;
  }
  return result;
}

// Taylor's series below 0.5 in magnitude, where exp(x) - 1 would cancel.
fn sg_expm1(x: f32) -> f32 {
  let series = x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * (0.0013888889 + x * 0.0001984127))))));
  return select(exp(x) - 1.0, series, abs(x) < 0.5);
}

// log(1 + x): the rounding of 1 + x is known, and put right to first order.
fn sg_log1p(x: f32) -> f32 {
  let series = x * (1.0 + x * (-0.5 + x * (0.33333334 + x * (-0.25 + x * (0.2 + x * (-0.16666667 + x * 0.14285715))))));
  return select(log(1.0 + x), series, abs(x) < 0.125);
}

// Cephes' reduction (Moshier): above tan(3 pi / 8) the reciprocal, above tan(pi / 8) a rotation by pi / 4.
fn sg_atan_positive(x: f32) -> f32 {
  let steep = x > 2.4142135;
  let middle = x > 0.41421357 && !steep;
  let r = select(select(x, (x - 1.0) / (x + 1.0), middle), -1.0 / x, steep);
  let start = select(select(0.0, 0.7853982, middle), 1.5707964, steep);
  let s = r * r;
  return start + r * (1.0 + s * (-0.33333287 + s * (0.19977711 + s * (-0.13877685 + s * 0.080537446))));
}

fn sg_atan2(y: f32, x: f32) -> f32 {
  let ay = abs(y);
  let ax = abs(x);
  let both_infinite = ax > 3.4e38 && ay > 3.4e38;
  let ratio = select(select(ay / ax, 0.0, ay == 0.0), 1.0, both_infinite);
  let first = select(sg_atan_positive(ratio), 1.5707964, ax == 0.0 && ay > 0.0);
  let left = (bitcast<u32>(x) >> 31u) == 1u;
  let angle = select(first, 3.1415927 - first, left);
  let signed_angle = select(angle, -angle, (bitcast<u32>(y) >> 31u) == 1u);
  return select(signed_angle, sg_bits(0x7fc00000u), sg_is_nan(x) || sg_is_nan(y));
}

fn sg_asin(x: f32) -> f32 {
  let root = sqrt((1.0 - x) * (1.0 + x));
  return select(sg_atan2(x, root), sg_bits(0x7fc00000u), abs(x) > 1.0 || sg_is_nan(x));
}

fn sg_acos(x: f32) -> f32 {
  let root = sqrt((1.0 - x) * (1.0 + x));
  return select(sg_atan2(root, x), sg_bits(0x7fc00000u), abs(x) > 1.0 || sg_is_nan(x));
}

// Through a power of a non-positive number, so nothing overflows; an odd series below 0.3, where 1 - t would cancel. The sign
// goes over as a bit.
fn sg_tanh(x: f32) -> f32 {
  let a = abs(x);
  let t = exp2(-2.8853901 * a);
  let s = x * x;
  let series = a * (1.0 + s * (-0.33333334 + s * (0.13333334 + s * (-0.053968254 + s * (0.021869488 + s * -0.008863236)))));
  let value = select((1.0 - t) / (1.0 + t), series, a < 0.3);
  return bitcast<f32>(bitcast<u32>(value) | (bitcast<u32>(x) & 0x80000000u));
}

// x less the nearest multiple of pi/2, in three parts (Cody and Waite); exact enough to |x| of about 1e4.
fn sg_reduce_angle(x: f32) -> vec2<f32> {
  let q = round(x * 0.63661975);
  let r = ((x - q * 1.5703125) - q * 0.0004837513) - q * 7.5497903e-8;
  return vec2<f32>(r, q);
}

fn sg_sin_core(r: f32) -> f32 {
  let s = r * r;
  return r * (1.0 + s * (-0.16666667 + s * (0.008333331 + s * (-0.00019840874 + s * 0.0000027526))));
}

fn sg_cos_core(r: f32) -> f32 {
  let s = r * r;
  return 1.0 + s * (-0.5 + s * (0.041666657 + s * (-0.0013888529 + s * 0.00002476)));
}

fn sg_quarter(r: f32, quarter: i32) -> f32 {
  let value = select(sg_sin_core(r), sg_cos_core(r), (quarter & 1) == 1);
  return select(value, -value, (quarter & 2) == 2);
}

fn sg_sin(x: f32) -> f32 {
  let reduced = sg_reduce_angle(x);
  return sg_quarter(reduced.x, i32(reduced.y));
}

fn sg_cos(x: f32) -> f32 {
  let reduced = sg_reduce_angle(x);
  return sg_quarter(reduced.x, i32(reduced.y) + 1);
}

// Below 1 a polynomial of (erf(x) / x - 1), above one of log2(erfc(x)) / x, both fitted for the least largest error, which is 1.4e-7
// of the value. The latter's leading term keeps its sign, so that erfc goes to 0 without end.
fn sg_erf(x: f32) -> f32 {
  let a = abs(x);
  let s = x * x;
  let series = a + a * (0.12837912 + s * (-0.37612355 + s * (0.11280409 + s * (-0.026717672 + s * (0.0049247690 + s * -0.00056601333)))));
  let tail = 1.0 - exp2(-a * (1.6257660 + a * (0.92531359 + a * (0.14069296 + a * (-0.025564115 + a * 0.0022078848)))));
  let value = select(tail, series, a < 1.0);
  return select(bitcast<f32>(bitcast<u32>(value) | (bitcast<u32>(x) & 0x80000000u)), x, sg_is_nan(x));
}

// Giles, "Approximating the erfinv function", GPU Computing Gems, 2011.
fn sg_erfinv(x: f32) -> f32 {
  let w = -log((1.0 - x) * (1.0 + x));
  let c = w - 2.5;
  let central = 1.5014094 + c * (0.24664073 + c * (-0.0041776816 + c * (-0.001253725 + c * (0.00021858087 + c * (-0.0000043915065 + c * (-0.0000035233877 + c * (3.4327394e-7 + c * 2.8102264e-8)))))));
  let d = sqrt(max(w, 5.0)) - 3.0;
  let tail = 2.8329768 + d * (1.0016741 + d * (0.009438870 + d * (-0.007622461 + d * (0.0057395077 + d * (-0.0036734284 + d * (0.0013493432 + d * (0.00010095056 + d * -0.00020021426)))))));
  let value = select(tail, central, w < 5.0) * x;
  let inside = select(value, x * sg_bits(0x7f800000u), abs(x) == 1.0);
  return select(inside, sg_bits(0x7fc00000u), abs(x) > 1.0 || sg_is_nan(x));
}

// Threefry-2x32, 20 rounds (Salmon et al., SC 2011).
fn sg_rotate(x: u32, by: u32) -> u32 {
  return (x << by) | (x >> (32u - by));
}

fn sg_rounds(x: vec2<u32>, r: vec4<u32>) -> vec2<u32> {
  var y = x;
  y.x = y.x + y.y;
  y.y = sg_rotate(y.y, r.x) ^ y.x;
  y.x = y.x + y.y;
  y.y = sg_rotate(y.y, r.y) ^ y.x;
  y.x = y.x + y.y;
  y.y = sg_rotate(y.y, r.z) ^ y.x;
  y.x = y.x + y.y;
  y.y = sg_rotate(y.y, r.w) ^ y.x;
  return y;
}

fn sg_threefry(k0: u32, k1: u32, x0: u32, x1: u32) -> vec2<u32> {
  let k2 = k0 ^ k1 ^ 0x1bd11bdau;
  let even = vec4<u32>(13u, 15u, 26u, 6u);
  let odd = vec4<u32>(17u, 29u, 16u, 24u);
  var x = vec2<u32>(x0 + k0, x1 + k1);
  x = sg_rounds(x, even) + vec2<u32>(k1, k2 + 1u);
  x = sg_rounds(x, odd) + vec2<u32>(k2, k0 + 2u);
  x = sg_rounds(x, even) + vec2<u32>(k0, k1 + 3u);
  x = sg_rounds(x, odd) + vec2<u32>(k1, k2 + 4u);
  x = sg_rounds(x, even) + vec2<u32>(k2, k0 + 5u);
  return x;
}

// log(gamma(x)) for x > 0: moved to 8 and beyond by x gamma(x) = gamma(x + 1), then Stirling's series.
fn sg_lgamma_positive(x: f32) -> f32 {
  var z = x;
  var product = 1.0;
  for (var k = 0; k < 8; k++) {
    if (z < 8.0) {
      product = product * z;
      z = z + 1.0;
    }
  }
  let r = 1.0 / (z * z);
  let series = (0.083333336 - r * (0.0027777778 - r * 0.0007936508)) / z;
  return (z - 0.5) * (log(z) - 1.0) - 0.5 + 0.9189385 + series - log(product);
}

// Below 1/2 by reflection: gamma(x) gamma(1 - x) = pi / sin(pi x).
fn sg_lgamma(x: f32) -> f32 {
  let low = x < 0.5;
  let value = sg_lgamma_positive(select(x, 1.0 - x, low));
  let fraction = x - floor(x);
  let sine = abs(sg_sin(3.1415927 * min(fraction, 1.0 - fraction)));
  let reflected = 1.1447299 - log(sine) - value;
  let inside = select(value, reflected, low);
  let pole = x <= 0.0 && fraction == 0.0;
  let infinite = pole || abs(x) > 3.4028233e38;
  return select(select(inside, sg_bits(0x7f800000u), infinite), x, sg_is_nan(x));
}

// Moved to 8 and beyond by digamma(x) = digamma(x + 1) - 1 / x, then the asymptotic series.
fn sg_digamma_positive(x: f32) -> f32 {
  var z = x;
  var sum = 0.0;
  for (var k = 0; k < 8; k++) {
    if (z < 8.0) {
      sum = sum + 1.0 / z;
      z = z + 1.0;
    }
  }
  let r = 1.0 / (z * z);
  return log(z) - 0.5 / z - r * (0.083333336 - r * (0.008333334 - r * 0.003968254)) - sum;
}

// Below 0 by reflection: digamma(x) = digamma(1 - x) - pi / tan(pi x).
fn sg_digamma(x: f32) -> f32 {
  let low = x < 0.0;
  let value = sg_digamma_positive(select(x, 1.0 - x, low));
  let angle = 3.1415927 * (x - round(x));
  let reflected = value - 3.1415927 * sg_cos(angle) / sg_sin(angle);
  let inside = select(value, reflected, low);
  let at_pole = select(sg_bits(0x7fc00000u), sg_bits((bitcast<u32>(x) & 0x80000000u) ^ 0xff800000u), x == 0.0);
  let pole = x <= 0.0 && x == floor(x);
  return select(select(inside, at_pole, pole), x, sg_is_nan(x) || x > 3.4028233e38);
}

// Euler and Maclaurin's sum: nine terms, the integral of the rest, and its first corrections.
fn sg_zeta(s: f32, q: f32) -> f32 {
  var sum = 0.0;
  for (var k = 0; k < 9; k++) {
    sum = sum + sg_pow(q + f32(k), -s);
  }
  let n = q + 9.0;
  let power = sg_pow(n, -s);
  let rest = power * n / (s - 1.0) + 0.5 * power;
  let a = s * power / n;
  let b = a * (s + 1.0) * (s + 2.0) / (n * n);
  let c = b * (s + 3.0) * (s + 4.0) / (n * n);
  let value = sum + rest + a / 12.0 - b / 720.0 + c / 30240.0;
  let pole = select(sg_bits(0x7fc00000u), sg_bits(0x7f800000u), s == 1.0 || (s > 1.0 && q <= 0.0 && q == floor(q)));
  return select(value, pole, s <= 1.0 || (q <= 0.0 && (q == floor(q) || s != floor(s))));
}

// t e^g(t) with t = 1 / (1 + x / 2), g a polynomial fitted at Chebyshev's points; of negative numbers by 2 e^(x x) - erfcx(-x).
fn sg_erfcx(x: f32) -> f32 {
  let a = abs(x);
  let t = 1.0 / (1.0 + 0.5 * a);
  let u = 2.0 * t - 1.0;
  let g = -0.6717941 + u * (0.6726431 + u * (0.04734389 + u * (-0.04689364 + u * (-0.009880019 + u * (0.008808825 + u * (0.0017940663 + u * (-0.0022887653 + u * (-0.00022791096 + u * (0.00057376636 + u * (0.000008000738 + u * -0.00008728381))))))))));
  let value = t * exp(g);
  return select(select(value, 2.0 * exp(x * x) - value, x < 0.0), x, sg_is_nan(x));
}

fn sg_erfc(x: f32) -> f32 {
  let a = min(abs(x), 12.0);
  let high = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  let tail = sg_erfcx(a) * exp(-high * high) * exp(-(a - high) * (a + high));
  return select(select(tail, 2.0 - tail, x < 0.0), x, sg_is_nan(x));
}

// Polynomials fitted at Chebyshev's points: to 8, and of 8 / x beyond.
fn sg_i0e(x: f32) -> f32 {
  let a = abs(x);
  let u = min(a, 8.0) * 0.25 - 1.0;
  let near = 0.20700186 + u * (-0.11300412 + u * (0.09452295 + u * (-0.08905348 + u * (0.08719175 + u * (-0.08482473 + u * (0.08046535 + u * (-0.07039681 + u * (0.05222548 + u * (-0.040206153 + u * (0.0395061 + u * (-0.024741372 + u * (0.0016486861 + u * (-0.0016816029 + u * (0.009153639 + u * -0.0043758284))))))))))))));
  let v = 16.0 / max(a, 8.0) - 1.0;
  let far = (0.4021765 + v * (0.0033605557 + v * (0.00013615603 + v * (0.000011112148 + v * (0.0000016391349 + v * 3.6266704e-7))))) / sqrt(max(a, 8.0));
  return select(select(far, near, a < 8.0), x, sg_is_nan(x));
}

fn sg_i1e(x: f32) -> f32 {
  let a = abs(x);
  let u = min(a, 8.0) * 0.25 - 1.0;
  let near = 0.0446877 + u * (-0.061124306 + u * (0.06805874 + u * (-0.06848407 + u * (0.06374368 + u * (-0.055259753 + u * (0.04486118 + u * (-0.033796802 + u * (0.02297009 + u * (-0.015162569 + u * (0.011058179 + u * (-0.0062816055 + u * (0.001363228 + u * (-0.0007787035 + u * (0.0016410991 + u * -0.0007282785))))))))))))));
  let v = 16.0 / max(a, 8.0) - 1.0;
  let far = (0.38939846 + v * (-0.009749581 + v * (-0.00021916808 + v * (-0.000015003965 + v * (-0.000002009789 + v * -4.2103503e-7))))) / sqrt(max(a, 8.0));
  return select(select(sign(x) * far, near * x, a < 8.0), x, sg_is_nan(x));
}
