"""Radix sort of long rows, digit by digit from the lowest: three calls per digit, whose cost does not depend on the values.

DigitCounts counts the elements of each digit tile by tile. DigitStarts adds the counts of earlier tiles, which gives each
tile's first position among equal digits. MoveByDigit moves the elements of every tile in their order, so the sort is stable. No
workgroup waits for another. The first digit reads the values (rows, n), later ones the previous result: keys and positions (2,
rows, n), as in `sorting`. Reference: Merrill and Grimshaw, Revisiting Sorting for GPGPU Stream Architectures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType, uint32
from ..graph.node import Node
from ..graph.primitive import Shape
from .call import Call, CallKernel
from .sorting import KEYS, THREADS, each, sort_keys

BITS = 8  # of a digit: a thread per digit value
DIGITS = 1 << BITS
TEAM = 32  # threads of a team, which share, in the bits of a word, which of them have the same digit
SLOTS = THREADS // TEAM * DIGITS  # a word per digit value and team
OWN, OWN_OF_MANY = 8, 16  # elements of a thread; more make for fewer counts and for longer runs of a digit to write


def add_those_before(store: str, load: str) -> str:
    """Statements for a prefix sum over the threads: each thread's `sum` becomes the sum of those before it, through workgroup memory."""
    return f"""for (var step = 1u; step < {THREADS}u; step *= 2u) {{
  {store}
  workgroupBarrier();
  if (lid >= step) {{ sum += {load}; }}
  workgroupBarrier();
}}"""


@dataclass(frozen=True, eq=False)
class ByDigit(Call):
    """Base of counting and moving: x is values (rows, n), or their keys and positions (2, rows, n).

    shift: the digit's lowest bit. descending: whether the order of keys is reversed. own: elements per thread.
    """

    differentiable = False
    shift: int
    descending: bool
    own: int

    @property
    def tile(self) -> int:
        """Elements per workgroup."""
        return THREADS * self.own

    def tiles(self, x: Node) -> int:
        """The tiles of a row."""
        return -(-x.shape[-1] // self.tile)

    def place(self, x: Node) -> str:
        """Statements that compute a workgroup's tile: its start in its row, and its number of elements."""
        n, tiles = x.shape[-1], self.tiles(x)
        return f"""let row = wg / {tiles};
let tile = wg % {tiles};
let start = tile * {self.tile};
let count = min({self.tile}, {n} - start);"""

    def keys(self, x: np.ndarray) -> np.ndarray:
        """The keys (rows, n)."""
        if x.ndim == 3:
            return x[0]
        return ~sort_keys(x) if self.descending else sort_keys(x)

    def digits(self, x: np.ndarray) -> np.ndarray:
        """The digit of every element."""
        return (self.keys(x) >> np.uint32(self.shift)) & np.uint32(DIGITS - 1)

    def functions_of(self, x: Node) -> str:
        """key_at(i), the key of element i of all rows, and digit_of(key)."""
        of_values = x.ndim == 2
        key = f"{'~' if self.descending else ''}sort_key(x[i])" if of_values else "x[i]"
        return f"""{KEYS[str(x.dtype.wgsl)] if of_values else ""}fn key_at(i: i32) -> u32 {{ return {key}; }}
fn digit_of(key: u32) -> i32 {{ return i32((key >> {self.shift}u) & {DIGITS - 1}u); }}
"""


@dataclass(frozen=True, eq=False)
class DigitCounts(ByDigit):
    """The number of elements of a tile with each digit: uint32 (rows, digits, tiles)."""

    kind = "call"
    arguments = ("x",)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        rows = inputs[0].shape[-2]
        return (rows, DIGITS, self.tiles(inputs[0])), uint32

    def numpy(self, x):
        digits = self.digits(x)
        tiles = np.array_split(digits, range(self.tile, digits.shape[1], self.tile), axis=1)
        return np.stack([[np.bincount(r, minlength=DIGITS) for r in t] for t in tiles], axis=-1).astype(np.uint32)

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        (x,) = inputs
        *_, rows, n = x.shape
        tiles = self.tiles(x)
        body = f"""
{self.place(x)}
atomicStore(&counts[lid], 0u);
workgroupBarrier();
{each(self.own, f"let at@ = i32(lid) + @ * {THREADS}; let key@ = key_at(row * {n} + start + min(at@, count - 1));")}
{each(self.own, "if (at@ < count) { atomicAdd(&counts[digit_of(key@)], 1u); }")}
workgroupBarrier();
result[(row * {DIGITS} + i32(lid)) * {tiles} + tile] = atomicLoad(&counts[lid]);"""
        preamble = f"var<workgroup> counts: array<atomic<u32>, {DIGITS}>;\n" + self.functions_of(x)
        return CallKernel(body, THREADS, rows * tiles, preamble, flops=rows * n)


@dataclass(frozen=True, eq=False)
class DigitStarts(Call):
    """From counts (rows, digits, tiles) the elements of a digit in the tiles before each, and in all: uint32 (rows, digits, tiles + 1)."""

    kind = "call"
    differentiable = False
    arguments = ("counts",)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        rows, digits, tiles = inputs[0].shape
        return (rows, digits, tiles + 1), uint32

    def numpy(self, counts):
        return np.pad(counts.cumsum(-1, dtype=np.uint32), ((0, 0), (0, 0), (1, 0)))

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        rows, digits, tiles = inputs[0].shape
        own = -(-tiles // THREADS)  # tiles of a thread
        body = f"""
let first = min(i32(lid) * {own}, {tiles});
let end = min(first + {own}, {tiles});
var sum = 0u;
for (var t = first; t < end; t++) {{ sum += counts[wg * {tiles} + t]; }}
let own = sum;
{add_those_before("sums[lid] = sum;", "sums[lid - step]")}
sum -= own;
for (var t = first; t < end; t++) {{
  result[wg * {tiles + 1} + t] = sum;
  sum += counts[wg * {tiles} + t];
}}
if (lid == {THREADS - 1}u) {{ result[wg * {tiles + 1} + {tiles}] = sum; }}"""
        preamble = f"var<workgroup> sums: array<u32, {THREADS}>;\n"
        return CallKernel(body, THREADS, rows * digits, preamble, flops=rows * digits * tiles)


@dataclass(frozen=True, eq=False)
class MoveByDigit(ByDigit):
    """Keys and positions, uint32 (2, rows, n), ordered by a digit; equal digits keep their order.

    A team of threads takes 32 adjacent elements at a time. Its threads with one digit set their bits in the same word: the lower bits are
    the elements before one's own, and the first of these threads remembers their number. Then the tile is sorted in
    workgroup memory, so that elements of a digit are written contiguously.
    """

    kind = "call"
    arguments = ("x", "starts")

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        *_, rows, n = inputs[0].shape
        return (2, rows, n), uint32

    def numpy(self, x, starts):
        keys = self.keys(x)
        order = np.argsort(self.digits(x), axis=1, kind="stable")
        positions = x[1] if x.ndim == 3 else np.broadcast_to(np.arange(x.shape[1], dtype=np.uint32), x.shape)
        return np.stack([np.take_along_axis(part, order, axis=1) for part in (keys, positions)])

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        x, _ = inputs
        *_, rows, n = x.shape
        tiles = self.tiles(x)
        position = f"x[{rows * n} + row * {n} + start + min(at@, count - 1)]" if x.ndim == 3 else "u32(start + at@)"

        def of_teams(text: str) -> str:
            return f"for (var slot = i32(lid); slot < {SLOTS}; slot += {DIGITS}) {{ {text} }}"

        ranked = """if (own@) { atomicOr(&words[slot@], bit); }
workgroupBarrier();
let same@ = atomicLoad(&words[slot@]); let earlier@ = before[slot@];
let rank@ = earlier@ + countOneBits(same@ & (bit - 1u));
workgroupBarrier();
if (own@ && (same@ & (bit - 1u)) == 0u) { atomicStore(&words[slot@], 0u); before[slot@] = earlier@ + countOneBits(same@); }
workgroupBarrier();"""
        scanned = add_those_before(
            f"atomicStore(&words[lid], sum.x); atomicStore(&words[lid + {DIGITS}u], sum.y);",
            f"vec2(atomicLoad(&words[lid - step]), atomicLoad(&words[lid - step + {DIGITS}u]))",
        )
        body = f"""
{self.place(x)}
let first = i32(lid) / {TEAM} * {TEAM * self.own} + i32(lid) % {TEAM};
let bit = 1u << (lid % {TEAM}u);
{each(self.own, f"let at@ = first + @ * {TEAM}; let own@ = at@ < count;")}
{each(self.own, f"let key@ = key_at(row * {n} + start + min(at@, count - 1));")}
{each(self.own, f"let position@ = {position};")}
{each(self.own, f"let slot@ = i32(lid) / {TEAM} * {DIGITS} + digit_of(key@);")}
{of_teams("atomicStore(&words[slot], 0u); before[slot] = 0u;")}
workgroupBarrier();
let of_digit = (row * {DIGITS} + i32(lid)) * {tiles + 1};
let in_row = starts[of_digit + {tiles}];
let in_tiles = starts[of_digit + tile];
{each(self.own, ranked)}
var in_tile = 0u;
{of_teams("in_tile += before[slot];")}
var sum = vec2(in_tile, in_row);
{scanned}
let starts_here = sum - vec2(in_tile, in_row);
var place = starts_here.x;
{of_teams("let more = before[slot]; before[slot] = place; place += more;")}
workgroupBarrier();
{each(self.own, "let place@ = before[slot@] + rank@;")}
workgroupBarrier();
before[lid] = starts_here.y + in_tiles - starts_here.x;
{each(self.own, "if (own@) { atomicStore(&words[place@], key@); }")}
workgroupBarrier();
{each(self.own, f"let i@ = i32(lid) + @ * {THREADS}; let moved@ = atomicLoad(&words[i@]);")}
{each(self.own, f"let to@ = row * {n} + i32(before[digit_of(moved@)]) + i@;")}
{each(self.own, "if (i@ < count) { result[to@] = moved@; }")}
workgroupBarrier();
{each(self.own, "if (own@) { atomicStore(&words[place@], position@); }")}
workgroupBarrier();
{each(self.own, f"if (i@ < count) {{ result[{rows * n} + to@] = atomicLoad(&words[i@]); }}")}"""
        preamble = f"""var<workgroup> words: array<atomic<u32>, {max(self.tile, SLOTS)}>;
var<workgroup> before: array<u32, {SLOTS}>;
""" + self.functions_of(x)
        return CallKernel(body, THREADS, rows * tiles, preamble, flops=rows * n)
