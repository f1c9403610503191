// What makes 32-bit values of a buffer that is declared as pairs of 64 bits; kernels that have one take both.

// Four words of 32 bits that were read as two of 64.
fn sg_four(words: vec2<u64>) -> vec4<u32> {
  return vec4<u32>(u32(words.x), u32(words.x >> 32u), u32(words.y), u32(words.y >> 32u));
}

// One of the two words of 32 bits in one of 64.
fn sg_one(word: u64, half: i32) -> u32 {
  return u32(word >> u32(32 * half));
}
