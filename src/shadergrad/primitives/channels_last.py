"""A copy of images with their channels last (NHWC) and a border of zeros, for convolutions on matrix units.

In that order the channels of a window element are adjacent, so that one load of 16 bytes is eight operands of a matrix multiplication.
Only the compiler makes it (compile/convolution_on_units.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType
from ..graph.node import Node
from ..graph.primitive import Shape
from .call import Call, CallKernel

THREADS = 256
PIXELS, CHANNELS = 32, 64  # of a workgroup's tile
PITCH = PIXELS + 1  # words between the channels of the tile: neighbours are in different banks
HALVES = 2  # per word


@dataclass(frozen=True, eq=False)
class ChannelsLast(Call):
    """Images of float16 in any order, as (images, height, width, channels) with zeros around them; the number of channels is even.

    sizes: (images, channels, height, width). Element (n, c, i, j) lies at offset + n strides[0] + c strides[1] + ... of the input's
    elements. low, high: rows and columns of zeros before and after an image.
    """

    kind = "call"
    differentiable = False
    arguments = ("x",)
    sizes: Shape
    strides: Shape
    offset: int
    low: Shape
    high: Shape

    @property
    def padded(self) -> tuple[int, int]:
        """Height and width with the zeros."""
        height, width = (n + a + b for n, a, b in zip(self.sizes[2:], self.low, self.high, strict=True))
        return height, width

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (self.sizes[0], *self.padded, self.sizes[1]), inputs[0].dtype

    def numpy(self, x):
        flat = np.ascontiguousarray(x).reshape(-1)[self.offset :]
        images = np.lib.stride_tricks.as_strided(flat, self.sizes, [s * x.itemsize for s in self.strides])
        around = [(0, 0), *zip(self.low, self.high, strict=True), (0, 0)]
        return np.pad(images.transpose(0, 2, 3, 1), around)

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        """Tiles of pixels and channels go through workgroup memory: reads are adjacent along pixels, writes along channels."""
        images, channels, height, width = self.sizes
        to_image, to_channel, to_row, to_column = self.strides
        rows, columns = self.padded
        pixels = rows * columns
        across, down = -(-pixels // PIXELS), -(-channels // CHANNELS)
        words = CHANNELS // HALVES
        text = f"""
let image = wg / {across * down};
let first_pixel = wg % {across} * {PIXELS};
let first_channel = wg / {across} % {down} * {CHANNELS};
let thread = i32(lid);
let at = first_pixel + thread % {PIXELS};
let row = at / {columns} - {self.low[0]};
let column = at % {columns} - {self.low[1]};
let inside = row >= 0 && row < {height} && column >= 0 && column < {width};
let start = {self.offset} + image * {to_image} + clamp(row, 0, {height - 1}) * {to_row} + clamp(column, 0, {width - 1}) * {to_column};
for (var c = thread / {PIXELS}; c < {CHANNELS}; c += {THREADS // PIXELS}) {{
  let place = start + min(first_channel + c, {channels - 1}) * {to_channel};
  let bits = (x[place / {HALVES}] >> (16u * u32(place % {HALVES}))) & 0xffffu;
  turned[c * {PITCH} + thread % {PIXELS}] = select(0u, bits, inside);
}}
workgroupBarrier();
let word = thread % {words};
for (var p = thread / {words}; p < {PIXELS}; p += {THREADS // words}) {{
  let pixel = first_pixel + p;
  let channel = first_channel + word * {HALVES};
  if (pixel < {pixels} && channel < {channels}) {{
    let lower = turned[word * {HALVES * PITCH} + p];
    let upper = turned[word * {HALVES * PITCH} + {PITCH} + p];
    result[((image * {pixels} + pixel) * {channels} + channel) / {HALVES}] = lower | (upper << 16u);
  }}
}}
"""
        return CallKernel(
            text,
            THREADS,
            images * across * down,
            f"var<workgroup> turned: array<u32, {CHANNELS * PITCH}>;\n",
        )
