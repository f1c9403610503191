"""Scatter with a product or an extremum as the reduction; for sums there is ScatterAdd."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType, parse_dtype
from ..errors import ShapeError
from ..graph.build import Builder
from ..graph.node import Node
from ..graph.primitive import Shape
from ..plan import IN_SCATTER
from .call import Call
from .indexing import check_positions, check_range
from .reduce import Reduce, ReduceMax, ReduceMin, ReduceProd

REDUCTIONS: dict[str, type[Reduce]] = {"prod": ReduceProd, "amax": ReduceMax, "amin": ReduceMin}
UFUNCS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def neutral(kind: str, dtype: DType, stored: bool) -> float:
    """The neutral element of a reduction. stored: limited to the range that a GPU stores."""
    if kind == "prod":
        return 1
    if dtype.category == 2:
        return -np.inf if kind == "amax" else np.inf
    low, high = dtype.stored_range if stored else dtype.range
    return low if kind == "amax" else high


@dataclass(frozen=True, eq=False)
class ScatterReduce(Call):
    """out[..., v, ...] = the reduction of source[..., j, ...] over all j with positions[..., j, ...] == v, and the
    reduction's neutral element if there is no such j; v < size. The operations that use it define the gradient."""

    kind = "call"
    differentiable = False
    arguments = ("positions", "source")
    axis: int
    size: int
    reduction: str

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        positions, source = inputs
        check_positions("scatter_reduce", positions)
        if positions.shape != source.shape:
            raise ShapeError(f"[scatter_reduce] positions are {positions.shape}, the source is {source.shape}.")
        return tuple(self.size if a == self.axis else n for a, n in enumerate(source.shape)), source.dtype

    def numpy(self, positions, source):
        check_range(IN_SCATTER, positions, self.size)
        shape = tuple(self.size if a == self.axis else n for a, n in enumerate(source.shape))
        result = np.full(shape, neutral(self.reduction, parse_dtype(source.dtype), False), source.dtype)
        where_to = list(np.ogrid[tuple(slice(0, n) for n in source.shape)])
        where_to[self.axis] = positions
        UFUNCS[self.reduction].at(result, tuple(where_to), source)
        return result

    def vjp(self, g, node):
        return None, None

    def expand(self, r: Builder, *inputs: Node) -> Node | None:
        """A reduction over all j for each element of the result, which skips other positions: no two threads write the same element."""
        positions, source = inputs
        axis = self.axis
        shape = (*source.shape[:axis], self.size, *source.shape[axis:])  # v before j

        def spread(x: Node) -> Node:
            return r.broadcast(r.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])), shape)

        counter = r.iota(self.size, source.device, positions.dtype)
        counter = r.broadcast(r.reshape(counter, tuple(n if a == axis else 1 for a, n in enumerate(shape))), shape)
        chosen = r.equal(spread(positions), counter)
        terms = r.where(chosen, spread(source), neutral(self.reduction, source.dtype, True))
        total = r.make(REDUCTIONS[self.reduction]((axis + 1,)), terms)
        return r.reshape(total, (*source.shape[:axis], self.size, *source.shape[axis + 1 :]))
