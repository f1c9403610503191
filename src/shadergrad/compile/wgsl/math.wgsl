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

// -1, 0 or 1; 0 of NaN, for which WGSL leaves the sign open.
fn sg_sign(x: f32) -> f32 {
  return select(sign(x), 0.0, sg_is_nan(x));
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

// a ** b as C's pow: the logarithm to base 2 in two parts, of which the first has twelve bits, so that its products are exact (as in Sun's
// fdlibm). They are cut off as bits, for a driver may take other ways of splitting a number for zero. Zero, infinite and NaN operands are
// decided by hand.
fn sg_high(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

fn sg_pow(a: f32, b: f32) -> f32 {
  let infinity = sg_bits(0x7f800000u);
  let m = abs(a);
  let whole = b == floor(b);
  let odd = whole && (abs(b) % 2.0 == 1.0);
  let grows = (m > 1.0) == (b > 0.0);
  let extreme = m == 0.0 || m == infinity || abs(b) == infinity;
  let parts = sg_split_power(m);
  let f = parts.x;
  let sum = 2.0 + f;
  let sum_high = sg_high(sum);
  let sum_low = f - (sum_high - 2.0);
  let s = f / sum;
  let s_high = sg_high(s);
  let s_low = ((f - s_high * sum_high) - s_high * sum_low) / sum;
  let t = s * s;
  let rest = 2.0 * s_low + s * t * (0.6666666 + t * (0.40000337 + t * (0.2853717 + t * 0.23584987)));
  let high = sg_high(2.0 * s_high + rest);
  let low = rest - (high - 2.0 * s_high);
  let product = 1.4423828 * high;
  let product_low = 0.00031222839 * high + 1.442695 * low;
  let log_high = sg_high(parts.y + (product + product_low));
  let log_low = product_low - ((log_high - parts.y) - product);
  let exponent = clamp(b, -1.0e12, 1.0e12);
  let exponent_high = sg_high(exponent);
  let power = exponent_high * log_high;
  let power_low = (exponent - exponent_high) * log_high + exponent * log_low;
  let n = round(clamp(power + power_low, -152.0, 130.0));
  let near = sg_exp2_near((power - n) + power_low, n);
  let finite = select(select(near, 0.0, power + power_low < -151.0), infinity, power + power_low > 128.5);
  let magnitude = select(finite, select(0.0, infinity, grows), extreme);
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

// x * 2 ** n for n from -252 to 254, in two steps, so that neither over- nor underflows before its time.
fn sg_scaled(x: f32, n: f32) -> f32 {
  let whole = i32(n);
  let half = whole >> 1u;
  return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(whole - half + 127) << 23u);
}

// 2 ** (x + n) for |x| <= 1/2, by a polynomial of least largest error.
fn sg_exp2_near(x: f32, n: f32) -> f32 {
  let p = 0.6931472 + x * (0.24022648 + x * (0.05550332 + x * (0.009618439 + x * (0.0013399003 + x * 0.00015353259))));
  return sg_scaled(1.0 + x * p, n);
}

fn sg_exp2(x: f32) -> f32 {
  let c = clamp(x, -152.0, 129.0);
  let n = round(c);
  return select(sg_exp2_near(c - n, n), x, sg_is_nan(x));
}

// WGSL's own loses digits as x grows: 64 units in the last place at 87. x less a multiple of log 2, which has two parts (Cody and Waite).
fn sg_exp(x: f32) -> f32 {
  let c = clamp(x, -105.0, 89.0);
  let n = round(c * 1.442695);
  let r = (c - n * 0.693359375) - n * -0.00021219444;
  let p = 1.0 + (r + r * r * (0.49999994 + r * (0.16666521 + r * (0.04166839 + r * (0.008368745 + r * 0.001381454)))));
  return select(sg_scaled(p, n), x, sg_is_nan(x));
}

// As exp, 2 ** n taken off the 1: e ** x - 1 = 2 ** n ((e ** r - 1) + (1 - 2 ** -n)). The sign goes over as a bit.
fn sg_expm1(x: f32) -> f32 {
  let c = clamp(x, -28.0, 89.0);
  let n = round(c * 1.442695);
  let r = (c - n * 0.693359375) - n * -0.00021219444;
  let p = r + r * r * (0.5 + r * (0.16666666 + r * (0.04166636 + r * (0.00833339 + r * (0.0013940668 + r * 0.00019845882)))));
  let value = sg_scaled(p + (1.0 - bitcast<f32>(u32(127 - min(i32(n), 126)) << 23u)), n);
  return select(bitcast<f32>(bitcast<u32>(value) | (bitcast<u32>(x) & 0x80000000u)), x, sg_is_nan(x));
}

// The f and e of x = (1 + f) * 2 ** e, f from sqrt(1/2) - 1 to sqrt(2) - 1; of a positive number.
fn sg_split_power(x: f32) -> vec2<f32> {
  let small = x < 1.1754944e-38;
  let bits = bitcast<u32>(select(x, x * 8388608.0, small));
  let e = bitcast<i32>(bits - 0x3f3504f3u) >> 23u;
  return vec2<f32>(bitcast<f32>(bits - (bitcast<u32>(e) << 23u)) - 1.0, f32(e) - select(0.0, 23.0, small));
}

// log(1 + f) for f as above, by a polynomial of least largest error.
fn sg_log_near(f: f32) -> f32 {
  let s = f * f;
  let p = 0.3333333 + f * (-0.2500082 + f * (0.20001227 + f * (-0.16623357 + f * (0.14201757 + f * (-0.13160183 + f * (0.12761578 + f * -0.07634497))))));
  return f + (f * s * p - 0.5 * s);
}

// `value`, except for zeros, negative numbers, infinity and NaN: the logarithm of x is decided by hand there.
fn sg_log_decided(x: f32, value: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let positive = select(value, x, bits >= 0x7f800000u);
  let negative = select(sg_bits(0x7fc00000u), x, sg_is_nan(x));
  return select(select(positive, negative, bits > 0x80000000u), sg_bits(0xff800000u), x == 0.0);
}

// WGSL's own is exact to 2 ** -21 near 1, where the logarithm is as small.
fn sg_log(x: f32) -> f32 {
  let parts = sg_split_power(x);
  return sg_log_decided(x, (sg_log_near(parts.x) + parts.y * -0.00021219444) + parts.y * 0.693359375);
}

fn sg_log2(x: f32) -> f32 {
  let parts = sg_split_power(x);
  return sg_log_decided(x, sg_log_near(parts.x) * 1.442695 + parts.y);
}

fn sg_log10(x: f32) -> f32 {
  let parts = sg_split_power(x);
  return sg_log_decided(x, (sg_log_near(parts.x) * 0.4342945 + parts.y * 0.000004605039) + parts.y * 0.3010254);
}

// log(1 + x): the e of 1 + x, and x in place of what 1 + x has lost; where x is large that is nothing.
fn sg_log1p(x: f32) -> f32 {
  let whole = 1.0 + x;
  let parts = sg_split_power(whole);
  let by = bitcast<f32>(u32(127 - clamp(i32(parts.y), -100, 100)) << 23u);
  let f = select(x * by + (by - 1.0), parts.x, parts.y > 24.0);
  let value = (sg_log_near(f) + parts.y * -0.00021219444) + parts.y * 0.693359375;
  return select(sg_log_decided(whole, value), x, abs(x) < 1.0e-9);
}

// The angle of the point (x, y), neither negative: a polynomial of least largest error to 1, beyond through the reciprocal and pi/2, which has
// two parts.
// WGSL bounds division for divisors up to 2^126: larger ones are 0 on some GPUs, which multiply by the reciprocal.
fn sg_atan_quotient(y: f32, x: f32) -> f32 {
  let steep = y > x;
  let large = max(x, y);
  let scale = select(1.0, 0.25, large > 8.5e37);
  let r = (min(x, y) * scale) / (large * scale);
  let s = r * r;
  let p = r * s * (-0.33333299 + s * (0.19998549 + s * (-0.14264242 + s * (0.10952186 + s * (-0.084034510 + s * (0.057957601 + s * (-0.031177854 + s * (0.010914610 + s * -0.0017936226))))))));
  return select(r + p, 1.5707964 - (r + (p + 4.371139e-8)), steep);
}

fn sg_atan2(y: f32, x: f32) -> f32 {
  let ay = abs(y);
  let ax = abs(x);
  let steep = bitcast<u32>(ay) == 0x7f800000u;
  let both_infinite = steep && bitcast<u32>(ax) == 0x7f800000u;
  let left = (bitcast<u32>(x) >> 31u) == 1u;
  let quotient = select(sg_atan_quotient(ay, ax), 0.7853982, both_infinite);
  let first = select(select(quotient, 0.0, ay == 0.0), 1.5707964, steep && !both_infinite);
  let angle = select(first, 3.1415927 - (first + 8.742278e-8), left);
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

// Through a power of a non-positive number, so nothing overflows. The sign goes over as a bit.
fn sg_tanh(x: f32) -> f32 {
  let t = sg_expm1(-2.0 * abs(x));
  return bitcast<f32>(bitcast<u32>(-t / (2.0 + t)) | (bitcast<u32>(x) & 0x80000000u));
}

// x less the nearest multiple of pi/2, and which multiple: in five parts (Cody and Waite), of which the first four have so few bits that
// their multiples are exact; beyond, in integers.
fn sg_reduce_angle(x: f32) -> vec2<f32> {
  if (abs(x) > 20000.0) { return sg_reduce_large_angle(x); }
  let q = round(x * 0.63661975);
  let r = ((((x - q * 1.5703125) - q * 0.00048351288) - q * 3.138557e-7) - q * 6.070877e-11) - q * 6.223372e-14;
  return vec2<f32>(r, q);
}

// The high and the low word of a product of a number of 24 bits.
fn sg_wide_product(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let first = (a & 0xffffu) * (b >> 16u);
  let second = (a >> 16u) * (b & 0xffffu);
  let middle = (low >> 16u) + (first & 0xffffu) + (second & 0xffffu);
  return vec2<u32>((a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u) + (middle >> 16u), a * b);
}

// Payne and Hanek's way: those 96 bits of 2/pi that matter times the significand. What comes before them makes whole turns.
fn sg_reduce_large_angle(x: f32) -> vec2<f32> {
  let bits = bitcast<u32>(x);
  let m = (bits & 0x7fffffu) | 0x800000u;
  let start = min(((bits >> 23u) & 0xffu) - 120u, 134u);  // the first bit that matters, 32 zeros before the first of 2/pi
  let word = start >> 5u;
  var four = vec4<u32>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u);
  four = select(four, vec4<u32>(0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u), word == 1u);
  four = select(four, vec4<u32>(0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u), word == 2u);
  four = select(four, vec4<u32>(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u), word == 3u);
  four = select(four, vec4<u32>(0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu), word == 4u);
  let shift = start & 31u;
  let three = (four.xyz << vec3<u32>(shift)) | ((four.yzw >> vec3<u32>(1u)) >> vec3<u32>(31u - shift));
  let low = sg_wide_product(m, three.z);
  let middle = sg_wide_product(m, three.y);
  let second = middle.y + low.x;
  let first = m * three.x + middle.x + select(0u, 1u, second < low.x);
  // two bits of quarters, and a fraction of which the nearest one is taken off
  var high = (first << 2u) | (second >> 30u);
  var rest = (second << 2u) | (low.y >> 30u);
  let above = high >= 0x80000000u;
  let quarter = (first >> 30u) + select(0u, 1u, above);
  if (above) {
    rest = ~rest + 1u;
    high = ~high + select(0u, 1u, rest == 0u);
  }
  let zeros = min(countLeadingZeros(high), 31u);
  let fraction = (high << zeros) | ((rest >> 1u) >> (31u - zeros));
  let size = f32(fraction) * bitcast<f32>((95u - zeros) << 23u) * 1.5707964;
  let negative = above != (bits >= 0x80000000u);
  let turned = select(quarter, 0u - quarter, bits >= 0x80000000u) & 3u;
  return select(vec2<f32>(select(size, -size, negative), f32(turned)), vec2<f32>(sg_bits(0x7fc00000u), 0.0), (bits & 0x7f800000u) == 0x7f800000u);
}

// Polynomials of least largest error to pi/4.
fn sg_sin_core(r: f32) -> f32 {
  let s = r * r;
  return r + r * s * (-0.16666655 + s * (0.0083321687 + s * -0.0001951596));
}

fn sg_cos_core(r: f32) -> f32 {
  let s = r * r;
  return 1.0 + s * (-0.5 + s * (0.041666646 + s * (-0.0013887304 + s * 0.000024431669)));
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
  let tail = 1.0 - sg_exp2(-a * (1.6257660 + a * (0.92531359 + a * (0.14069296 + a * (-0.025564115 + a * 0.0022078848)))));
  let value = select(tail, series, a < 1.0);
  return select(bitcast<f32>(bitcast<u32>(value) | (bitcast<u32>(x) & 0x80000000u)), x, sg_is_nan(x));
}

// Giles, "Approximating the erfinv function", GPU Computing Gems, 2011.
fn sg_erfinv(x: f32) -> f32 {
  let w = -sg_log((1.0 - x) * (1.0 + x));
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

// log(gamma(x)) for x > 0: near 2 by a polynomial of least largest error, from 1/2 to 8 moved there by x gamma(x) = gamma(x + 1), beyond by
// Stirling's series.
fn sg_lgamma_positive(x: f32) -> f32 {
  var z = x;
  var product = 1.0;
  for (var k = 0; k < 6; k++) {
    if (z > 2.5 && x < 8.0) {
      z = z - 1.0;
      product = product * z;
    }
  }
  let tiny = z < 0.5;
  let below = z < 1.5;
  let t = select(select(z - 2.0, z - 1.0, below), z, tiny);
  let p = t * (0.42278433 + t * (0.32246703 + t * (-0.067352220 + t * (0.020581601 + t * (-0.0073874271 + t * (0.0028790568 + t * (-0.0011778421 + t * (0.00056982145 + t * -0.00026985092))))))));
  let factor = select(select(product, z, below), z * (1.0 + z), tiny);
  let log_factor = sg_log(select(factor, x, x >= 8.0));
  let near = p + select(log_factor, -log_factor, below);
  let r = 1.0 / (x * x);
  let series = (0.083333336 - r * (0.0027777778 - r * 0.0007936508)) / x;
  let far = (x - 0.5) * (log_factor - 1.0) - 0.5 + 0.9189385 + series;
  return select(near, far, x >= 8.0);
}

// Below 0 by reflection: gamma(x) gamma(1 - x) = pi / sin(pi x).
fn sg_lgamma(x: f32) -> f32 {
  let low = x < 0.0;
  let value = sg_lgamma_positive(select(x, 1.0 - x, low));
  let distance = abs(x - round(x));
  let sine = sg_sin(3.1415927 * distance);
  let reflected = 1.1447299 - sg_log(sine) - value;
  let inside = select(value, reflected, low);
  let pole = x <= 0.0 && x == floor(x);
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
  return sg_log(z) - 0.5 / z - r * (0.083333336 - r * (0.008333334 - r * 0.003968254)) - sum;
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

// Euler and Maclaurin's sum: nine terms or more, the integral of the rest, and its first corrections.
fn sg_zeta(s: f32, q: f32) -> f32 {
  var sum = 0.0;
  let terms = clamp(i32(ceil(9.0 - q)), 9, 4096); // of a negative q more, for the asymptotic series holds above 9
  for (var k = 0; k < terms; k++) {
    sum = sum + sg_pow(q + f32(k), -s);
  }
  let n = q + f32(terms);
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
  let value = t * sg_exp(g);
  let b = min(a, 10.0);
  let high = sg_high(b);
  let growth = 2.0 * sg_exp(high * high) * sg_exp((b - high) * (b + high));
  return select(select(value, growth - value, x < 0.0), x, sg_is_nan(x));
}

fn sg_erfc(x: f32) -> f32 {
  let a = min(abs(x), 12.0);
  let high = sg_high(a);
  let tail = sg_erfcx(a) * sg_exp(-high * high) * sg_exp(-(a - high) * (a + high));
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

// r - log(1 + r), from r and 1 + r; by its series where the two cancel.
fn sg_excess(r: f32, one_more: f32) -> f32 {
  let series = r * r * (0.5 - r * (0.33333334 - r * (0.25 - r * (0.2 - r * (0.16666667 - r * (0.14285715 - r * 0.125))))));
  return select(r - log(one_more), series, abs(r) < 0.1);
}

// x^a e^-x / gamma(a), for a and x > 0; from 8 on by Stirling's formula, in which no large terms cancel.
fn sg_gamma_weight(a: f32, x: f32) -> f32 {
  let i = 1.0 / a;
  let stirling = i * (0.083333336 - i * i * (0.0027777778 - i * i * 0.0007936508));
  let large = sqrt(a * 0.15915494) * exp(-a * sg_excess((x - a) / a, x / a) - stirling);
  let small = a * exp(a * log(x) - x - sg_lgamma_positive(a + 1.0));
  return select(small, large, a >= 8.0);
}

// The lower incomplete gamma function over x^a e^-x, and its derivative of a: the sum of x^n / (a (a + 1) ... (a + n)).
fn sg_gamma_series(a: f32, x: f32) -> vec2<f32> {
  var term = 1.0 / a;
  var slope = -term / a;
  var sum = vec2<f32>(term, slope);
  for (var n = 1; n < 300; n++) {
    let b = a + f32(n);
    slope = (slope - term / b) * (x / b);
    term = term * (x / b);
    sum = sum + vec2<f32>(term, slope);
    if (term <= 3e-8 * sum.x && abs(slope) <= 3e-8 * abs(sum.y)) { break; }
  }
  return sum;
}

// The upper one over x^a e^-x, and its derivative of a: Legendre's continued fraction by Lentz' method, for x > a and x > 1.
fn sg_gamma_fraction(a: f32, x: f32) -> vec2<f32> {
  var b = x + 1.0 - a;
  var c = vec2<f32>(b, -1.0);
  var d = vec2<f32>(1.0 / b, 1.0 / (b * b));
  var value = d;
  for (var n = 1; n < 300; n++) {
    let k = f32(n);
    let p = k * (a - k);
    b = b + 2.0;
    let below = p * d.x + b;
    d = vec2<f32>(1.0 / below, (1.0 - k * d.x - p * d.y) / (below * below));
    if (n == 1) {
      c = vec2<f32>(b, -1.0);
    } else {
      c = vec2<f32>(b + p / c.x, k / c.x - p * c.y / (c.x * c.x) - 1.0);
    }
    let change = vec2<f32>(c.x * d.x, c.x * d.y + c.y * d.x);
    value = vec2<f32>(value.x * change.x, value.x * change.y + value.y * change.x);
    if (abs(change.x - 1.0) <= 1e-7 && abs(change.y * value.x) <= 1e-7 * abs(value.y)) { break; }
  }
  return value;
}

// The regularised incomplete gamma function, lower (part 0) or upper (1); from 1000 on by Temme's expansion about x = a.
fn sg_gamma_part(a: f32, x: f32, part: f32) -> f32 {
  let upper = part > 0.5;
  let infinity = sg_bits(0x7f800000u);
  if (sg_is_nan(a) || sg_is_nan(x) || a < 0.0 || x < 0.0 || (a == 0.0 && x == 0.0) || (a == infinity && x == infinity)) {
    return sg_bits(0x7fc00000u);
  }
  if (x == 0.0 || a == infinity) { return select(0.0, 1.0, upper); }
  if (a == 0.0 || x == infinity) { return select(1.0, 0.0, upper); }
  if (a >= 1000.0) {
    let r = (x - a) / a;
    let d = min(sg_excess(r, x / a), 50.0);
    let eta = sign(r) * sqrt(2.0 * d);
    let near = -0.33333334 + eta * (0.083333336 - eta * (0.014814815 - eta * 0.0011574074));
    let rest = exp(-a * d) * sqrt(0.15915494 / a) * (near - 0.0018518519 / a);
    let tail = sg_erfc(select(-eta, eta, upper) * sqrt(0.5 * a)) * 0.5;
    return select(tail - rest, tail + rest, upper);
  }
  let weight = sg_gamma_weight(a, x);
  if (x > a && x > 1.0) {
    let high = weight * sg_gamma_fraction(a, x).x;
    return select(1.0 - high, high, upper);
  }
  let low = weight * sg_gamma_series(a, x).x;
  return select(low, 1.0 - low, upper);
}

fn sg_gammainc(a: f32, x: f32) -> f32 {
  return sg_gamma_part(a, x, 0.0);
}

fn sg_gammaincc(a: f32, x: f32) -> f32 {
  return sg_gamma_part(a, x, 1.0);
}

// How a quantile x of a gamma variable moves with its shape a: -(dP / da) / (dP / dx). The drift is log(x) - digamma(a);
// from 1000 on by Wilson and Hilferty's cube.
fn sg_gamma_slope(a: f32, x: f32) -> f32 {
  if (!(a > 0.0) || !(x > 0.0)) { return select(0.0, sg_bits(0x7fc00000u), sg_is_nan(a) || sg_is_nan(x)); }
  if (a >= 1000.0) {
    let z = 3.0 * sqrt(a) * (exp(log(x / a) / 3.0) - 1.0 + 1.0 / (9.0 * a));
    return 1.0 + 0.5 * z / sqrt(a) - (z * z * z - 7.0 * z) / (72.0 * a * sqrt(a));
  }
  let i = 1.0 / a;
  let far = log(x / a) + i * (0.5 + i * (0.083333336 - i * i * 0.008333334));
  let drift = select(log(x) - sg_digamma_positive(a), far, a >= 8.0);
  if (x > a && x > 1.0) {
    let high = sg_gamma_fraction(a, x);
    return x * (high.y + high.x * drift);
  }
  let low = sg_gamma_series(a, x);
  return -x * (low.y + low.x * drift);
}

// Halves: the bits of a number rounded to nearest even, and the number of such bits, by integers, for what the conversions of a driver
// make of infinities, NaN and subnormal numbers is its own affair.
fn sg_bits_float16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let size = bits & 0x7fffffffu;
  let normal = (size - 0x38000000u + 0x0fffu + ((size >> 13u) & 1u)) >> 13u;
  let small = u32(round(bitcast<f32>(min(size, 0x38800000u)) * 16777216.0));
  var half = select(normal, small, size < 0x38800000u);
  half = select(half, 0x7c00u, size >= 0x477ff000u);
  half = select(half, 0x7e00u, size > 0x7f800000u);
  return ((bits >> 16u) & 0x8000u) | half;
}

fn sg_from_float16(half: u32) -> f32 {
  let size = half & 0x7fffu;
  let normal = (size << 13u) + select(0x38000000u, 0x70000000u, size >= 0x7c00u);
  let bits = select(normal, bitcast<u32>(f32(size) * 5.9604644775390625e-8), size < 0x0400u);
  return sg_bits(bits | ((half & 0x8000u) << 16u));
}

fn sg_as_float16(x: f32) -> f32 {
  return sg_from_float16(sg_bits_float16(x));
}

fn sg_one_float16(word: u32, half: i32) -> f32 {
  return sg_from_float16((word >> u32(16 * half)) & 0xffffu);
}

fn sg_four_float16(words: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(
    sg_from_float16(words.x & 0xffffu), sg_from_float16(words.x >> 16u),
    sg_from_float16(words.y & 0xffffu), sg_from_float16(words.y >> 16u));
}

fn sg_words_float16(x: vec4<f32>) -> vec2<u32> {
  return vec2<u32>(
    sg_bits_float16(x.x) | (sg_bits_float16(x.y) << 16u), sg_bits_float16(x.z) | (sg_bits_float16(x.w) << 16u));
}

fn sg_bits_bfloat16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  return select(rounded, 0x7fc0u, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn sg_as_bfloat16(x: f32) -> f32 {
  return sg_bits(sg_bits_bfloat16(x) << 16u);
}

fn sg_one_bfloat16(word: u32, half: i32) -> f32 {
  return sg_bits((word >> u32(16 * half)) << 16u);
}

fn sg_four_bfloat16(words: vec2<u32>) -> vec4<f32> {
  return bitcast<vec4<f32>>(vec4<u32>(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}

fn sg_words_bfloat16(x: vec4<f32>) -> vec2<u32> {
  return vec2<u32>(
    sg_bits_bfloat16(x.x) | (sg_bits_bfloat16(x.y) << 16u), sg_bits_bfloat16(x.z) | (sg_bits_bfloat16(x.w) << 16u));
}
