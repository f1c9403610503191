"""Sorting and summing by position, for axes too long for comparing all pairs: the calls that `lower` puts in their place.

Sorted rows travel as one uint32 array (2, rows, n): the sort keys, then the positions that they came from. Keys order
as unsigned numbers whatever the values were. The sort is stable, so everything that follows is the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType, uint8, uint32
from ..graph.node import Node
from ..graph.primitive import Shape
from ..plan import Target
from .call import Call, CallKernel

BLOCK = 256  # elements that one workgroup sorts by comparing all pairs
LONGEST_LOOP = 32768  # a thread's iterations: llvmpipe stops an invocation after 65,535

# NaN is the largest, both zeros are one
KEYS = {
    "f32": """fn sort_key(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0xffffffffu; }
  if ((bits & 0x7fffffffu) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}
""",
    "i32": "fn sort_key(x: i32) -> u32 { return bitcast<u32>(x) ^ 0x80000000u; }\n",
    "u32": "fn sort_key(x: u32) -> u32 { return x; }\n",
}


def sort_keys(x: np.ndarray) -> np.ndarray:
    """Unsigned numbers that order as the values of x do."""
    if x.dtype.kind != "f":
        return (x.astype(np.int64) - (np.iinfo(np.int32).min if x.dtype.kind == "i" else 0)).astype(np.uint32)
    bits = (x.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 + 0 is 0
    keys = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return np.where(np.isnan(x), np.uint32(0xFFFFFFFF), keys)


@dataclass(frozen=True, eq=False)
class SortBlocks(Call):
    """Sorted runs of 256 elements along the rows of x (rows, n): uint32 (2, rows, n), keys and positions."""

    kind = "call"
    differentiable = False
    arguments = ("x",)
    descending: bool

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        return (2, *x.shape), uint32

    def numpy(self, x):
        keys = ~sort_keys(x) if self.descending else sort_keys(x)
        starts = range(0, x.shape[1], BLOCK)
        blocks = [np.argsort(keys[:, s : s + BLOCK], axis=1, kind="stable") + s for s in starts]
        order = np.concatenate(blocks, axis=1)
        return np.stack([np.take_along_axis(keys, order, axis=1), order.astype(np.uint32)])

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        (x,) = inputs
        rows, n = x.shape
        blocks = -(-n // BLOCK)
        body = f"""
let row = wg / {blocks};
let start = (wg % {blocks}) * {BLOCK};
let count = min({BLOCK}, {n} - start);
let own = i32(lid);
var key = 0u;
if (own < count) {{
  key = {"~" if self.descending else ""}sort_key(x[row * {n} + start + own]);
  keys[lid] = key;
}}
workgroupBarrier();
if (own < count) {{
  var place = row * {n} + start;
  for (var j = 0; j < count; j++) {{
    if (keys[j] < key || (keys[j] == key && j < own)) {{ place++; }}
  }}
  result[place] = key;
  result[{rows * n} + place] = u32(start + own);
}}"""
        preamble = f"var<workgroup> keys: array<u32, {BLOCK}>;\n" + KEYS[str(x.dtype.wgsl)]
        return CallKernel(body, BLOCK, rows * blocks, preamble, flops=rows * n * BLOCK)


@dataclass(frozen=True, eq=False)
class MergeRuns(Call):
    """Neighbouring sorted runs of `width` elements become one, along the rows of (2, rows, n) keys and positions.

    An element's new place is its place in its own run and the number of those in the other that come before it.
    """

    kind = "call"
    differentiable = False
    arguments = ("runs",)
    width: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, uint32

    def numpy(self, runs):
        keys, order = runs
        pair = np.arange(keys.shape[1]) // (2 * self.width)
        merged = np.lexsort((keys, np.broadcast_to(pair, keys.shape)), axis=1)
        return np.stack([np.take_along_axis(part, merged, axis=1) for part in (keys, order)])

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        _, rows, n = inputs[0].shape
        body = f"""
let t = wg * {BLOCK} + i32(lid);
if (t < {rows * n}) {{
  let row = (t / {n}) * {n};
  let i = t % {n};
  let later = (i / {self.width}) % 2 == 1;
  let first = (i / {2 * self.width}) * {2 * self.width};
  let other = min(first + select({self.width}, 0, later), {n});
  let key = runs[t];
  var low = other;
  var high = min(other + {self.width}, {n});
  while (low < high) {{
    let middle = (low + high) / 2;
    let k = runs[row + middle];
    if (k < key || (later && k == key)) {{ low = middle + 1; }} else {{ high = middle; }}
  }}
  let place = row + i - select(0, {self.width}, later) + low - other;
  result[place] = key;
  result[{rows * n} + place] = runs[{rows * n} + t];
}}"""
        return CallKernel(body, BLOCK, -(-rows * n // BLOCK), flops=rows * n * self.width.bit_length())


@dataclass(frozen=True, eq=False)
class SegmentSum(Call):
    """out[a, v, b] = the sum of source[a, j, b] over the positions j whose key is v, for v < size.

    Inputs: sorted keys and positions (2, rows, n), with one row for all or a row for each (a, b); source (A, n, B).
    The inverse index of a scatter: a thread finds its segment by bisection, so no two threads write to one place.
    """

    kind = "call"
    differentiable = False
    arguments = ("index", "source")
    size: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        _, source = inputs
        return (source.shape[0], self.size, source.shape[2]), source.dtype

    def numpy(self, index, source):
        keys, order = index.astype(np.int64)
        a, _, b = source.shape
        result = np.zeros((a, self.size, b), source.dtype)
        for r in range(a * b):
            row, (i, k) = min(r, len(keys) - 1), divmod(r, b)
            inside = keys[row] < self.size
            np.add.at(result[i, :, k], keys[row][inside], source[i, order[row][inside], k])
        return result

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        index, source = inputs
        _, rows, n = index.shape
        outer, _, inner = source.shape
        total = outer * self.size * inner
        wgsl = source.dtype.wgsl
        helpers = min(BLOCK, power_of_two_below(max(n // (4 * self.size), -(-n // LONGEST_LOOP), 1)))
        results = BLOCK // helpers  # of one workgroup, each summed by `helpers` threads
        row = "0" if rows == 1 else f"((o / {self.size * inner}) * {inner} + o % {inner}) * {n}"
        body = f"""
let o = min(wg * {results} + i32(lid) % {results}, {total - 1});
let v = u32((o / {inner}) % {self.size});
let row = {row};
var low = 0;
var high = {n};
while (low < high) {{
  let middle = (low + high) / 2;
  if (index[row + middle] < v) {{ low = middle + 1; }} else {{ high = middle; }}
}}
var sum = {wgsl}(0);
for (var j = low + i32(lid) / {results}; j < {n}; j += {helpers}) {{
  if (index[row + j] != v) {{ break; }}
  sum += source[((o / {self.size * inner}) * {n} + i32(index[{rows * n} + row + j])) * {inner} + o % {inner}];
}}
"""
        preamble = ""
        if helpers > 1:
            preamble = f"var<workgroup> sums: array<{wgsl}, {BLOCK}>;\n"
            body += "sums[lid] = sum;\nworkgroupBarrier();\n"
            step = helpers // 2
            while step:
                body += f"if (lid < {step * results}u) {{ sums[lid] += sums[lid + {step * results}u]; }}\nworkgroupBarrier();\n"
                step //= 2
            body += "sum = sums[lid];\n"
        wrapped = "sum & 255u" if source.dtype is uint8 else "sum"
        body += f"if (lid < {results}u && wg * {results} + i32(lid) < {total}) {{ result[o] = {wrapped}; }}"
        return CallKernel(body, BLOCK, -(-total // results), preamble, flops=source.size)


def power_of_two_below(n: int) -> int:
    """The largest power of two that is not above n (at least 1)."""
    return 1 << (n.bit_length() - 1)
