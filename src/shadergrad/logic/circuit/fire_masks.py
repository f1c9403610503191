"""Draws the cells that fire on the device, directly into packed words, without storing a board of floats.

A cell fires if a uniform number of 24 bits is below the rate. The numbers of a word's 32 cells are compared bit by bit, all
cells at once, from the highest: a cell is decided at the first bit that differs from the rate's. A few random words suffice,
because a few bits decide every cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...dtypes import uint32
from ...extend import Limits, Operation, Shader, Spec, threefry2x32, wgsl_functions

THREADS = 64
DIGITS = 24  # of the rate, in binary
_ALL = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class DrawFire(Operation):
    """Words (rows, words) in which each bit is 1 with a probability of threshold / 2**24. Input: key, uint32 (2,).

    Word i compares its cells' numbers with the threshold by the random words that threefry gives for the counters
    (0, i), (1, i), ..., two a counter.
    """

    arguments = ("key",)
    threshold: int
    rows: int
    words: int

    def infer(self, *inputs: Spec) -> Spec:
        return Spec((self.rows, self.words), uint32)

    def numpy(self, key):
        place = np.arange(self.rows * self.words, dtype=np.uint32)
        fires, undecided = np.zeros_like(place), np.full_like(place, _ALL)
        for digit in range(0, DIGITS, 2):
            drawn = threefry2x32(key, np.full_like(place, digit // 2), place)
            for k, word in enumerate(drawn):
                if self.threshold >> (DIGITS - 1 - digit - k) & 1:
                    fires |= undecided & ~word
                    undecided &= word
                else:
                    undecided &= ~word
        return fires.reshape(self.rows, self.words)

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        count = self.rows * self.words
        body = f"""
let t = wg * {THREADS} + i32(lid);
if (t < {count}) {{
  var fires = 0u;
  var undecided = 0xffffffffu;
  for (var digit = 0u; digit < {DIGITS}u && undecided != 0u; digit += 2u) {{
    let drawn = sg_threefry(key[0], key[1], digit / 2u, u32(t));
    for (var k = 0u; k < 2u; k++) {{
      let less = 0u - (({self.threshold}u >> ({DIGITS - 1}u - digit - k)) & 1u);
      let differs = drawn[k] ^ less;
      fires |= undecided & differs & less;
      undecided &= ~differs;
    }}
  }}
  result[t] = fires;
}}"""
        return Shader(body, THREADS, -(-count // THREADS), wgsl_functions("sg_threefry"), flops=8 * 80 * count)
