// What math.wgsl does with integers, by a device's own conversions: for devices that were seen to round so (runtime/halves.py).
fn sg_bits_float16(x: f32) -> u32 {
  return bitcast<u32>(vec2<f16>(f16(x), f16(0.0)));
}

fn sg_from_float16(half: u32) -> f32 {
  return f32(bitcast<vec2<f16>>(half).x);
}

fn sg_as_float16(x: f32) -> f32 {
  return f32(f16(x));
}

fn sg_four_float16(words: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(bitcast<vec4<f16>>(words));
}

fn sg_words_float16(x: vec4<f32>) -> vec2<u32> {
  return bitcast<vec2<u32>>(vec4<f16>(x));
}
