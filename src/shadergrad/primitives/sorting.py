"""Merge sort and segment sums for long axes: the calls that `lower` substitutes where comparing all pairs is too expensive.

Sorted rows are one uint32 array (2, rows, n): the sort keys, then their original positions. Keys order as unsigned numbers for
every dtype. The sort is stable, so results are the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType, uint32
from ..graph.node import Node
from ..graph.primitive import Shape
from .call import Call, CallKernel

THREADS = 256
BLOCK = 2048  # elements that one workgroup sorts or merges: with their positions they fill 16 KiB of workgroup memory
PROBES = THREADS // 2  # positions tested in parallel when searching for an end of a workgroup's part of a merge
LANES = 4
LONGEST_LOOP = 32768  # iterations of a thread; software devices stop an invocation after 65,535

# NaN is the largest; both zeros are equal
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
    """Unsigned integers with the same order as the values of x."""
    if x.dtype.kind != "f":
        return (x.astype(np.int64) - (np.iinfo(np.int32).min if x.dtype.kind == "i" else 0)).astype(np.uint32)
    bits = (x.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 + 0 is 0
    keys = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return np.where(np.isnan(x), np.uint32(0xFFFFFFFF), keys)


SLOT = """fn slot(i: i32) -> i32 { return i ^ ((i >> 5u) & 7); }
"""  # avoids bank conflicts: the first elements of different threads are in different banks


def each(own: int, text: str) -> str:
    """The text once for each of a thread's elements, with the element's number in place of @."""
    return "\n".join(text.replace("@", str(e)) for e in range(own))


def merged(own: int, in_a: str, in_b: str, last: int) -> str:
    """Statements that merge two sorted parts of `keys` in workgroup memory, which begin at `a` and `b`: a thread's elements are key@,
    from position source@. `d`: how many elements of both parts come before the thread's first. Equal keys of `a` come first."""
    steps = f"""let from_a@ = (i < end_a) & ((j >= end_b) | (key_a <= key_b));
let key@ = select(key_b, key_a, from_a@); let source@ = select(j, i, from_a@);
i += select(0, 1, from_a@); j += select(1, 0, from_a@);
let next@ = keys[slot(min(select(j, i, from_a@), {last}))];
key_a = select(key_a, next@, from_a@); key_b = select(next@, key_b, from_a@);"""
    return f"""var low = max(0, d - {in_b});
var high = min(d, {in_a});
while (low < high) {{
  let middle = (low + high) / 2;
  if (keys[slot(a + middle)] <= keys[slot(b + d - 1 - middle)]) {{ low = middle + 1; }} else {{ high = middle; }}
}}
var i = a + low;
var j = b + d - low;
let end_a = a + {in_a};
let end_b = b + {in_b};
var key_a = keys[slot(min(i, {last}))];
var key_b = keys[slot(min(j, {last}))];
{each(own, steps)}"""


@dataclass(frozen=True, eq=False)
class SortBlocks(Call):
    """Sorted runs of BLOCK elements along the rows of x (rows, n): uint32 (2, rows, n), keys and positions."""

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

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        (x,) = inputs
        rows, n = x.shape
        blocks = -(-n // BLOCK)
        own = -(-min(n, BLOCK) // THREADS)  # elements per thread
        size = own * THREADS
        swaps = "\n".join(
            f"""if (key{e + 1} < key{e}) {{
  let key = key{e}; key{e} = key{e + 1}; key{e + 1} = key;
  let from_ = from{e}; from{e} = from{e + 1}; from{e + 1} = from_;
}}"""
            for turn in range(own)
            for e in range(turn % 2, own - 1, 2)
        )
        stored = each(own, "let at@ = slot(mine + @); keys[at@] = key@; order[at@] = from@;")
        body = f"""
let row = wg / {blocks};
let start = (wg % {blocks}) * {BLOCK};
let count = min({BLOCK}, {n} - start);
let mine = i32(lid) * {own};
for (var e = i32(lid); e < {size}; e += {THREADS}) {{
  let key = {"~" if self.descending else ""}sort_key(x[row * {n} + start + min(e, count - 1)]);
  keys[slot(e)] = select(0xffffffffu, key, e < count);
}}
workgroupBarrier();
{{
{each(own, "var key@ = keys[slot(mine + @)]; var from@ = u32(start + mine + @);")}
{swaps}
{stored}
}}
workgroupBarrier();
for (var width = {own}; width < count; width *= 2) {{
  let a = mine / (2 * width) * (2 * width);
  let b = a + width;
  let d = mine - a;
  {merged(own, "width", "width", size - 1)}
{each(own, "let from@ = order[slot(source@)];")}
  workgroupBarrier();
{stored}
  workgroupBarrier();
}}
for (var e = i32(lid); e < count; e += {THREADS}) {{
  result[row * {n} + start + e] = keys[slot(e)];
  result[{rows * n} + row * {n} + start + e] = order[slot(e)];
}}"""
        preamble = f"""var<workgroup> keys: array<u32, {size}>;
var<workgroup> order: array<u32, {size}>;
{SLOT}{KEYS[str(x.dtype.wgsl)]}"""
        steps = own + own.bit_length() * 8
        return CallKernel(body, THREADS, rows * blocks, preamble, flops=rows * n * steps)


def _search() -> str:
    """A round of the search for the beginning and the end of a workgroup's part: each probe tests one position."""
    return f"""
  {{
    let low = ends[2 * side];
    let high = ends[2 * side + 1];
    workgroupBarrier();
    let step = max((high - low + {PROBES - 1}) / {PROBES}, 1);
    let at = low + probe * step;
    if (probe == 0 && (low >= high || !is_before(a + low, b + d - 1 - low))) {{ ends[2 * side + 1] = low; }}
    if (at < high && is_before(a + at, b + d - 1 - at)) {{
      if (at + step >= high || !is_before(a + at + step, b + d - 1 - at - step)) {{
        ends[2 * side] = at + 1;
        ends[2 * side + 1] = min(at + step, high);
      }}
    }}
    workgroupBarrier();
  }}"""


@dataclass(frozen=True, eq=False)
class MergeRuns(Call):
    """Merges pairs of neighbouring sorted runs of `width` elements, along the rows of (2, rows, n) keys and positions.

    A workgroup writes BLOCK elements. It finds the beginning and the end of its part in either run with several probes in parallel. An
    element's position in the result is its position in its own part plus the number of elements of the other part that come before it.
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

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        _, rows, n = inputs[0].shape
        tiles = -(-n // BLOCK)
        own = BLOCK // THREADS  # elements per thread
        rounds, length = 0, self.width
        while length:
            rounds, length = rounds + 1, -(-length // PROBES) - 1
        body = f"""
let row = (wg / {tiles}) * {n};
let start = (wg % {tiles}) * {BLOCK};
let first = start / {2 * self.width} * {2 * self.width};
let in_a = min({self.width}, {n} - first);
let in_b = clamp({n} - first - {self.width}, 0, {self.width});
let a = row + first;
let b = a + in_a;
let side = i32(lid) / {PROBES};
let probe = i32(lid) % {PROBES};
let count = min({BLOCK}, in_a + in_b - (start - first));
let d = start - first + side * count;
if (probe == 0) {{
  ends[2 * side] = max(0, d - in_b);
  ends[2 * side + 1] = min(d, in_a);
}}
workgroupBarrier();
{_search() * rounds}
let a0 = ends[0];
let of_a = ends[2] - a0;
let b0 = start - first - a0;
for (var e = i32(lid); e < count; e += {THREADS}) {{
  keys[slot(e)] = runs[select(b + b0 + e - of_a, a + a0 + e, e < of_a)];
}}
workgroupBarrier();
let mine = i32(lid) * {own};
{{
let of_b = count - of_a;
let a = 0;
let b = of_a;
let d = min(mine, count);
{merged(own, "of_a", "of_b", BLOCK - 1)}
workgroupBarrier();
{each(own, "keys[slot(mine + @)] = key@;")}
workgroupBarrier();
for (var e = i32(lid); e < count; e += {THREADS}) {{ result[row + start + e] = keys[slot(e)]; }}
workgroupBarrier();
{each(own, "keys[slot(mine + @)] = u32(source@);")}
}}
workgroupBarrier();
for (var e = i32(lid); e < count; e += {THREADS}) {{
  let source = i32(keys[slot(e)]);
  result[{rows * n} + row + start + e] = runs[{rows * n} + select(b + b0 + source - of_a, a + a0 + source, source < of_a)];
}}"""
        preamble = f"""var<workgroup> keys: array<u32, {BLOCK}>;
var<workgroup> ends: array<i32, 4>;
{SLOT}fn is_before(i: i32, j: i32) -> bool {{ return runs[i] <= runs[j]; }}
"""
        return CallKernel(body, THREADS, rows * tiles, preamble, flops=rows * n * BLOCK.bit_length())


@dataclass(frozen=True, eq=False)
class SegmentStarts(Call):
    """For each row of sorted keys and positions (2, rows, n), the first place whose key is at least v, for v from 0 to `size`:
    uint32 (rows, size + 1)."""

    kind = "call"
    differentiable = False
    arguments = ("index",)
    size: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (inputs[0].shape[1], self.size + 1), uint32

    def numpy(self, index):
        return np.stack([np.searchsorted(keys, np.arange(self.size + 1)) for keys in index[0]]).astype(np.uint32)

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        _, rows, n = inputs[0].shape
        total = rows * (self.size + 1)
        body = f"""
let t = wg * {THREADS} + i32(lid);
if (t < {total}) {{
  let row = t / {self.size + 1} * {n};
  let v = u32(t % {self.size + 1});
  var low = 0;
  var high = {n};
  while (low < high) {{
    let middle = (low + high) / 2;
    if (index[row + middle] < v) {{ low = middle + 1; }} else {{ high = middle; }}
  }}
  result[t] = u32(low);
}}"""
        return CallKernel(body, THREADS, -(-total // THREADS), flops=total * n.bit_length())


@dataclass(frozen=True)
class SegmentChoice:
    """How a scattered sum is computed. lanes: elements per load, 1 or 4. helpers: threads per sum. unrolled: terms per
    iteration of a thread's loop."""

    lanes: int
    helpers: int
    unrolled: int = 1

    def __str__(self) -> str:
        threads = "a thread" if self.helpers == 1 else f"{self.helpers} threads"
        rounds = f", {self.unrolled} terms a round" if self.unrolled > 1 else ""
        return f"{threads} a sum, loads of {self.lanes}{rounds}"


@dataclass(frozen=True, eq=False)
class SegmentSum(Call):
    """out[a, v, b] = the sum of source[a, j, b] over the positions j whose key is v, for v < size.

    Inputs: sorted keys and positions (2, rows, n), with one row for all or a row for each (a, b); the starts of the keys, from
    SegmentStarts; source (A, n, B). The sorted positions are the inverse index of a scatter, so no two threads write the same element.
    """

    kind = "call"
    differentiable = False
    arguments = ("index", "starts", "source")
    size: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        source = inputs[2]
        return (source.shape[0], self.size, source.shape[2]), source.dtype

    def numpy(self, index, starts, source):
        keys, order = index.astype(np.int64)
        a, _, b = source.shape
        result = np.zeros((a, self.size, b), source.dtype)
        for r in range(a * b):
            row, (i, k) = min(r, len(keys) - 1), divmod(r, b)
            inside = keys[row] < self.size
            np.add.at(result[i, :, k], keys[row][inside], source[i, order[row][inside], k])
        return result

    def kernel(self, options: SegmentChoice, *inputs: Node) -> CallKernel:
        index, _, source = inputs
        _, rows, n = index.shape
        outer, _, inner = source.shape
        lanes, helpers = options.lanes, options.helpers
        element = f"vec4<{source.dtype.wgsl}>" if lanes > 1 else str(source.dtype.wgsl)
        inner //= lanes
        total = outer * self.size * inner
        results = THREADS // helpers  # results per workgroup, each summed by `helpers` threads
        row = "0" if rows == 1 else f"(o / {self.size * inner}) * {inner} + o % {inner}"
        times = options.unrolled
        added = f"""  let from_j = i32(index[{rows * n} + row * {n} + @]);
  sum += source[((o / {self.size * inner}) * {n} + from_j) * {inner} + o % {inner}];"""
        if times > 1:
            added = f"  if (@ < end) {{\n{added}\n  }}"
        body = f"""
let o = min(wg * {results} + i32(lid) % {results}, {total - 1});
let v = (o / {inner}) % {self.size};
let row = {row};
let first = i32(starts[row * {self.size + 1} + v]);
let end = i32(starts[row * {self.size + 1} + v + 1]);
var sum = {element}();
for (var j = first + i32(lid) / {results}; j < end; j += {helpers * times}) {{
{chr(10).join(added.replace("@", f"j + {k * helpers}" if k else "j") for k in range(times))}
}}
"""
        preamble = ""
        if helpers > 1:
            preamble = f"var<workgroup> sums: array<{element}, {THREADS}>;\n"
            body += "sums[lid] = sum;\nworkgroupBarrier();\n"
            step = helpers // 2
            while step:
                body += f"if (lid < {step * results}u) {{ sums[lid] += sums[lid + {step * results}u]; }}\nworkgroupBarrier();\n"
                step //= 2
            body += "sum = sums[lid];\n"
        wrapped = source.dtype.narrowed("sum", lanes > 1)
        body += f"if (lid < {results}u && wg * {results} + i32(lid) < {total}) {{ result[o] = {wrapped}; }}"
        vectors = frozenset(("source", "result") if lanes > 1 else ())
        return CallKernel(body, THREADS, -(-total // results), preamble, flops=source.size, vectors=vectors)
