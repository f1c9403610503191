"""Matrix units in plain WGSL, for adapters without them.

In: the text of a kernel for matrix units of 16x16x16, whose tiles have names of one letter. Out: one that computes the same anywhere, in float32 for float16. A matrix of an
operand is where it lies in the tile; each of a subgroup's 32 threads has half a row of sums.
"""

from __future__ import annotations

import re

from shadergrad.compile.wgsl.functions import functions_text
from shadergrad.compile.wgsl.matmul.units import ENABLES

FUNCTIONS = """
fn placed(tile: u32, at: u32, turned: bool, pitch: u32) -> vec4<u32> {
  return vec4<u32>(tile, at, select(pitch, 1u, turned), select(1u, pitch, turned));
}
fn multiply(lane: i32, left: vec4<u32>, right: vec4<u32>, sum: mat2x4<f32>) -> mat2x4<f32> {
  var found = sum;
  let row = left.y + u32(lane) / 2u * left.z;
  let column = right.y + u32(lane) % 2u * 8u * right.w;
  for (var k = 0u; k < 16u; k += 1u) {
    let x = half_of(left.x, row + k * left.w);
    let b = column + k * right.z;
    var y = mat2x4<f32>();
    for (var e = 0u; e < 8u; e += 1u) {
      y[e / 4u][e % 4u] = half_of(right.x, b + e * right.w);
    }
    found = found + x * y;
  }
  return found;
}
fn keep(lane: i32, at: u32, sum: mat2x4<f32>, pitch: u32) {
  let place = at + u32(lane) / 2u * pitch + u32(lane) % 2u * 8u;
  STORED
}
"""
STORED = {
    "f32": "for (var e = 0u; e < 4u; e += 1u) { sums[place + e] = sum[0][e]; sums[place + 4u + e] = sum[1][e]; }",
    "vec4<f32>": "sums[place / 4u] = sum[0]; sums[place / 4u + 1u] = sum[1];",
}


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
    names = list(kinds)
    (of_sums,) = re.findall(r"var<workgroup> sums: array<(.*), ", text)

    def placed(match: re.Match[str]) -> str:
        order, name, at, pitch = match.groups()
        per = READ[kinds[name]][0]
        return f"placed({names.index(name)}u, {per}u * ({at}), {str(order == 'col').lower()}, {per * int(pitch)}u)"

    text = text.replace(ENABLES, "").replace("array<f16, ", "array<f32, ")
    text = re.sub(r"alias (Left|Right) = .*?;\n", "", text)
    text = re.sub(r"alias Sums = .*?;", "alias Sums = mat2x4<f32>;", text)
    text = re.sub(r"bitcast<vec2<f16>>\((.*)\)\.x;", r"sg_one_float16(\1, 0);", text)
    text = re.sub(r"subgroupMatrixLoad<\w+, (row|col)_major>\(&tile_(\w), (.*), (\d+)u\)", placed, text)
    text = text.replace("subgroupMatrixMultiplyAccumulate(", "multiply(lane, ")
    text = re.sub(r"subgroupMatrixStore\(&sums, (.*), false, (\d+u)\);", r"keep(lane, \1, \2);", text)
    text = re.sub(
        r"subgroupMatrixStore<row_major>\(&sums, (.*), (\w+), (\d+u)\);", r"keep(lane, 4u * \1, \2, 4u * \3);", text
    )
    library = functions_text({"sg_one_float16"})
    missing = [
        f for f in re.findall(r"^fn .*?^\}\n", library, flags=re.M | re.S) if f.partition("(")[0] + "(" not in text
    ]
    cases = (
        f"  if (tile == {number}u) {{ return {READ[kind][1].format(name=name)}; }}\n"
        for number, (name, kind) in enumerate(kinds.items())
    )
    made = f"fn half_of(tile: u32, i: u32) -> f32 {{\n{''.join(cases)}  return 0.0;\n}}\n"
    functions = FUNCTIONS.replace("STORED", STORED[of_sums])
    return text.replace("@compute", "".join(missing) + made + functions + "@compute", 1)
