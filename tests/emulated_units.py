"""Matrix units in plain WGSL, for adapters without them.

In: the text of a kernel for matrix units of 16x16x16. Out: one that computes the same anywhere, in float32 for float16. A matrix of an
operand is where it lies in the tile; each of a subgroup's 32 threads has half a row of sums.
"""

from __future__ import annotations

import re

from shadergrad.compile.render import functions_text
from shadergrad.compile.wgsl.matmul.units import ENABLES

FUNCTIONS = """
fn placed(at: u32, turned: bool, pitch: u32) -> vec3<u32> {
  return vec3<u32>(at, select(pitch, 1u, turned), select(1u, pitch, turned));
}
fn multiply(lane: i32, left: vec3<u32>, right: vec3<u32>, sum: mat2x4<f32>) -> mat2x4<f32> {
  var found = sum;
  let row = left.x + u32(lane) / 2u * left.y;
  let column = right.x + u32(lane) % 2u * 8u * right.z;
  for (var k = 0u; k < 16u; k += 1u) {
    let x = tile_a[row + k * left.z];
    let b = column + k * right.y;
    let y = mat2x4<f32>(
      tile_b[b], tile_b[b + right.z], tile_b[b + 2u * right.z], tile_b[b + 3u * right.z],
      tile_b[b + 4u * right.z], tile_b[b + 5u * right.z], tile_b[b + 6u * right.z], tile_b[b + 7u * right.z]);
    found = found + x * y;
  }
  return found;
}
fn keep(lane: i32, at: u32, sum: mat2x4<f32>, pitch: u32) {
  let place = at + u32(lane) / 2u * pitch + u32(lane) % 2u * 8u;
  for (var e = 0u; e < 4u; e += 1u) {
    sums[place + e] = sum[0][e];
    sums[place + 4u + e] = sum[1][e];
  }
}
"""


def emulated(text: str) -> str:
    """The kernel without matrix units; another kernel as it is."""
    if ENABLES not in text:
        return text
    text = text.replace(ENABLES, "").replace("array<f16, ", "array<f32, ")
    text = re.sub(r"alias (Left|Right) = .*?;\n", "", text)
    text = re.sub(r"alias Sums = .*?;", "alias Sums = mat2x4<f32>;", text)
    text = re.sub(r"bitcast<vec4<f16>>\((.*)\);", r"sg_four_float16(\1);", text)
    text = re.sub(r"bitcast<vec2<f16>>\((.*)\)\.x;", r"sg_one_float16(\1, 0);", text)
    text = re.sub(r"subgroupMatrixLoad<\w+, (\w+)>\(&tile_(\w), ", r"placed_\1(", text)
    text = text.replace("subgroupMatrixMultiplyAccumulate(", "multiply(lane, ")
    text = re.sub(r"subgroupMatrixStore\(&sums, (.*), false, (\d+u)\);", r"keep(lane, \1, \2);", text)
    library = functions_text({"sg_four_float16", "sg_one_float16"})
    missing = (
        f for f in re.findall(r"^fn .*?^\}\n", library, flags=re.M | re.S) if f.partition("(")[0] + "(" not in text
    )
    return text.replace("@compute", "".join(missing) + FUNCTIONS + "@compute", 1)
