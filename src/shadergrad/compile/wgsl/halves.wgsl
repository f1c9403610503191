// What math.wgsl does with integers, by the device's own conversions: for devices that were seen to round so (runtime/halves.py).
// A driver takes a conversion and its inverse for nothing, and drops the rounding: `hidden_zero`, which is 0, keeps them apart.
fn sg_bits_float16(x: f32) -> u32 {
  return pack2x16float(vec2<f32>(x, 0.0));
}

fn sg_from_float16(half: u32) -> f32 {
  return unpack2x16float(half).x;
}

fn sg_as_float16(x: f32) -> f32 {
  return unpack2x16float(pack2x16float(vec2<f32>(x, 0.0)) | hidden_zero).x;
}

fn sg_as_float16_v4(x: vec4<f32>) -> vec4<f32> {
  let low = pack2x16float(x.xy) | hidden_zero;
  let high = pack2x16float(x.zw) | hidden_zero;
  return vec4<f32>(unpack2x16float(low), unpack2x16float(high));
}

fn sg_four_float16(words: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn sg_words_float16(x: vec4<f32>) -> vec2<u32> {
  return vec2<u32>(pack2x16float(x.xy), pack2x16float(x.zw));
}
