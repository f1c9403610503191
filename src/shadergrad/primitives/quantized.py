"""Quantised numbers: integers of a few bits, packed into words, with a scale for each group of neighbours.

Unpacking is a primitive, not a composition of shifts and multiplications, so that the compiler never stores the unpacked values, and the
cpu device unpacks them for each reader (`Primitive.unpacks`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType, float32, int32
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph import node as nodes
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape

WORD = 32  # bits


@dataclass(frozen=True, eq=False)
class Dequantize(Primitive):
    """Words (*, n * bits / 32) of int32, scales (*, groups) and perhaps offsets (*, groups) to float32 (*, n).

    A word holds 32 / bits codes, the first in its lowest bits; groups have equal length along the last axis. The value of a code is
    code * scale + offset, or without offsets (code - 2 ** (bits - 1)) * scale.
    """

    kind = "index"
    unpacks = True
    cost = 5
    bits: int

    @property
    def codes(self) -> int:
        """Codes per word."""
        return WORD // self.bits

    @property
    def zero(self) -> int:
        """The code of 0, without offsets."""
        return 1 << (self.bits - 1)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        words, *others = inputs
        if words.dtype is not int32 or any(x.dtype.category != 2 for x in others):
            names = ", ".join(x.dtype.name for x in inputs)
            raise DTypeError(f"[dequantize] takes words of int32 with floating scales and offsets, not {names}.")
        columns = words.shape[-1] * self.codes if words.ndim else 0
        scales = others[0]
        fits = scales.ndim == words.ndim > 0 and scales.shape[:-1] == words.shape[:-1]
        if not fits or any(x.shape != scales.shape for x in others) or not scales.shape[-1]:
            shapes = ", ".join(str(x.shape) for x in inputs)
            raise ShapeError(f"[dequantize] words, scales and offsets have the shapes {shapes}: rows must agree.")
        if columns % scales.shape[-1]:
            raise ShapeError(f"[dequantize] {columns} columns are not {scales.shape[-1]} equal groups.")
        return (*words.shape[:-1], columns), float32

    def numpy(self, words, scales, *offsets):
        octets = np.ascontiguousarray(words).astype("<i4", copy=False).view(np.uint8)
        if self.bits == 4:
            codes = np.empty((*octets.shape, 2), np.uint8)
            np.bitwise_and(octets, 15, out=codes[..., 0])
            np.right_shift(octets, 4, out=codes[..., 1])
        else:
            codes = octets
        found = codes.reshape(*scales.shape, -1).astype(np.float32)
        if not offsets:
            found -= np.float32(self.zero)
        found *= scales[..., None].astype(np.float32, copy=False)
        if offsets:
            found += offsets[0][..., None].astype(np.float32, copy=False)
        return found.reshape(*words.shape[:-1], -1)

    def vjp(self, g, node):
        words, scales, *offsets = node.inputs
        grouped = (*scales.shape, g.shape[-1] // scales.shape[-1])

        def of_groups(x: Node) -> Node:
            return build.reshape(build.sum_over(build.reshape(x, grouped), (scales.ndim,)), scales.shape)

        if not any(x.requires_grad for x in (scales, *offsets)):
            return (None,) * len(node.inputs)
        one, nothing = build.like(scales, 1.0), [build.like(x, 0.0) for x in offsets]
        codes = nodes.make(self, words, one, *nothing)
        return None, of_groups(g * codes), *(of_groups(g) for _ in offsets)
