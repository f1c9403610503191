"""Matrix units in plain WGSL, for adapters without them.

In: the text of a kernel for matrix units of 16x16x16. Out: one that computes the same anywhere, in float32 for float16. A matrix of an
operand is where it lies in the tile; each of a subgroup's 32 threads has half a row of sums.
"""

from __future__ import annotations

import re

from shadergrad.compile.wgsl.functions import functions_text
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
    let x = half_a(row + k * left.z);
    let b = column + k * right.y;
    let y = mat2x4<f32>(
      half_b(b), half_b(b + right.z), half_b(b + 2u * right.z), half_b(b + 3u * right.z),
      half_b(b + 4u * right.z), half_b(b + 5u * right.z), half_b(b + 6u * right.z), half_b(b + 7u * right.z));
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


# an element of a tile, by the type of the tile's array
READ = {
    "vec4<u32>": (8, "sg_one_float16(tile_{name}[i / 8u][i % 8u / 2u], i32(i % 2u))"),
    "vec2<u32>": (4, "sg_one_float16(tile_{name}[i / 4u][i % 4u / 2u], i32(i % 2u))"),
    "f16": (1, "tile_{name}[i]"),
}


def emulated(text: str) -> str:
    """The kernel without matrix units; another kernel as it is."""
    if ENABLES not in text:
        return text
    kinds = dict(re.findall(r"var<workgroup> tile_(\w): array<(.*), ", text))

    def placed(match: re.Match[str]) -> str:
        order, name, at, pitch = match.groups()
        per = READ[kinds[name]][0]
        return f"placed({per}u * ({at}), {str(order == 'col').lower()}, {per * int(pitch)}u)"

    text = text.replace(ENABLES, "").replace("array<f16, ", "array<f32, ")
    text = re.sub(r"alias (Left|Right) = .*?;\n", "", text)
    text = re.sub(r"alias Sums = .*?;", "alias Sums = mat2x4<f32>;", text)
    text = re.sub(r"bitcast<vec2<f16>>\((.*)\)\.x;", r"sg_one_float16(\1, 0);", text)
    text = re.sub(r"subgroupMatrixLoad<\w+, (row|col)_major>\(&tile_(\w), (.*), (\d+)u\)", placed, text)
    text = text.replace("subgroupMatrixMultiplyAccumulate(", "multiply(lane, ")
    text = re.sub(r"subgroupMatrixStore\(&sums, (.*), false, (\d+u)\);", r"keep(lane, \1, \2);", text)
    library = functions_text({"sg_one_float16"})
    missing = [
        f for f in re.findall(r"^fn .*?^\}\n", library, flags=re.M | re.S) if f.partition("(")[0] + "(" not in text
    ]
    made = (
        f"fn half_{name}(i: u32) -> f32 {{\n  return {READ[kind][1].format(name=name)};\n}}\n"
        for name, kind in kinds.items()
    )
    return text.replace("@compute", "".join(missing) + "".join(made) + FUNCTIONS + "@compute", 1)
