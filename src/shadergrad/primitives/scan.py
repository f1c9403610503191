"""Cumulative sums and products along the last axis of rows.

Each is a primitive, because the composition would be a matrix multiplication with a triangle of ones, in which an infinity
times 0 spoils earlier results. A GPU computes masked sums within blocks and adds the sums of earlier blocks (Hillis and Steele,
"Data parallel algorithms", 1986, for the products).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType
from ..errors import DTypeError, ShapeError
from ..graph import node as nodes
from ..graph.build import Builder
from ..graph.node import Node
from ..graph.primitive import Shape
from .call import Call
from .reduce import ReduceSum
from .views import Pad, Slice

BLOCK = 64  # elements whose sums are computed separately


@dataclass(frozen=True, eq=False)
class RunningSum(Call):
    """out[r, i] = the sum of x[r, j] over j <= i, or over j >= i if `back`; x (rows, n)."""

    kind = "call"
    arguments = ("x",)
    back: bool = False

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if x.ndim != 2:
            raise ShapeError(f"[cumsum] rows are wanted, not {x.shape}.")
        if x.dtype.category == 0:
            raise DTypeError("[cumsum] is not defined for bool; convert to int32 first.")
        return x.shape, x.dtype

    def numpy(self, x):
        # NumPy adds sequentially: a sum of a million float32 numbers would have an error of a hundredth
        exact = np.float64 if x.dtype.kind == "f" else x.dtype
        with np.errstate(over="ignore", invalid="ignore"):
            forward = x[:, ::-1] if self.back else x
            sums = np.cumsum(forward, axis=1, dtype=exact).astype(x.dtype, copy=False)
            return sums[:, ::-1] if self.back else sums

    def vjp(self, g, node):
        return (nodes.make(RunningSum(not self.back), g),)

    def expand(self, r: Builder, *inputs: Node) -> Node | None:
        (x,) = inputs
        count, n = x.shape
        if n <= BLOCK:
            return self._within(r, x)
        blocks = -(-n // BLOCK)
        extra = blocks * BLOCK - n
        borders = ((0, extra), (0, 0)) if self.back else ((0, 0), (0, extra))
        if extra:
            x = r.make(Pad(*borders, (0, 0), 0), x)
        inside = r.reshape(self._within(r, r.reshape(x, (count * blocks, BLOCK))), (count, blocks, BLOCK))
        last = 0 if self.back else BLOCK - 1
        totals = r.reshape(r.make(Slice((0, 0, last), (count, blocks, 1), (1, 1, 1)), inside), (count, blocks))
        running = self.expand(r, totals)
        assert running is not None
        result = r.add(inside, r.broadcast(r.reshape(self._shifted(r, running), (count, blocks, 1)), inside.shape))
        flat = r.reshape(result, (count, blocks * BLOCK))
        return r.make(Slice(borders[0] if self.back else (0, 0), (count, n), (1, 1)), flat) if extra else flat

    def _shifted(self, r: Builder, running: Node) -> Node:
        """For each block the sum of those that come before it."""
        count, blocks = running.shape
        if self.back:
            return r.make(Slice((0, 1), (count, blocks), (1, 1)), r.make(Pad((0, 0), (0, 1), (0, 0), 0), running))
        return r.make(Slice((0, 0), (count, blocks), (1, 1)), r.make(Pad((0, 1), (0, 0), (0, 0), 0), running))

    def _within(self, r: Builder, rows: Node) -> Node:
        """Every element sums those up to it: a choice, not a product, so that infinities stay where they are."""
        count, n = rows.shape
        place = r.iota(n, rows.device)
        i, j = (r.broadcast(r.reshape(place, s), (count, n, n)) for s in ((1, n, 1), (1, 1, n)))
        chosen = r.inverted(r.less(j, i) if self.back else r.less(i, j))
        terms = r.where(chosen, r.broadcast(r.reshape(rows, (count, 1, n)), (count, n, n)), 0)
        return r.reshape(r.make(ReduceSum((2,)), terms), (count, n))
