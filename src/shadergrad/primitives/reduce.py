"""Reductions over axes. Reduced axes stay with size 1, so that gradients broadcast back directly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..dtypes import DType, parse_dtype
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph import node as nodes
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape, named

FEW = 16  # elements per result, as in pooling windows: NumPy is faster over many results than along few elements
ONE_BY_ONE = 256  # terms that NumPy may add sequentially in float32


@dataclass(frozen=True, eq=False)
class Reduce(Primitive):
    """Base. `identity` initializes the accumulator; `combine` combines two values in WGSL."""

    axes: tuple[int, ...]
    wgsl: ClassVar[str] = ""

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if x.dtype.category == 0:
            raise DTypeError(f"[{self.name}] is not defined for bool; convert to int32 first.")
        if x.dtype.category == 3 and not isinstance(self, ReduceSum):
            raise DTypeError(f"[{self.name}] is not defined for {x.dtype.name}.")
        if any(not 0 <= a < x.ndim for a in self.axes):
            raise ShapeError(f"[{self.name}] axes {self.axes} are not all axes of shape {x.shape}.")
        return tuple(1 if a in self.axes else n for a, n in enumerate(x.shape)), x.dtype

    def identity(self, dtype: DType) -> float | int:
        """The initial value of the accumulator, on a GPU."""
        raise NotImplementedError

    def expression(self, dtype: DType) -> str:
        """The WGSL template that combines {a} and {b}."""
        return self.wgsl


@dataclass(frozen=True, eq=False)
class ReduceSum(Reduce):
    """The sum."""

    kind = "reduce"
    wgsl = "{a} + {b}"

    def identity(self, dtype):
        return 0

    def numpy(self, x):
        # NumPy adds pairwise along a contiguous last axis, and one by one along others: long ones lose digits
        rows = [x.shape[a] for a in self.axes if a != x.ndim - 1]
        exact = np.float64 if x.dtype == np.float32 and math.prod(rows) > ONE_BY_ONE else x.dtype
        return np.sum(x, axis=self.axes, keepdims=True, dtype=exact).astype(x.dtype, copy=False)

    def vjp(self, g, node):
        return (build.broadcast(g, node.inputs[0].shape),)


class _Extremum(Reduce):
    """The gradient is divided equally among ties (as in torch.amax)."""

    selects = True

    def vjp(self, g, node):
        (x,) = node.inputs
        chosen = build.equal(x, build.broadcast(node, x.shape))
        ones = build.where(chosen, build.like(x, 1.0), 0.0)
        share = g / build.sum_over(ones, self.axes)
        return (build.broadcast(share, x.shape) * ones,)


@dataclass(frozen=True, eq=False)
class ReduceMax(_Extremum):
    """The largest; NaN if any is NaN."""

    kind = "reduce"
    wgsl = "max({a}, {b})"

    def expression(self, dtype):
        return "sg_max({a}, {b})" if dtype.category == 2 else self.wgsl

    def identity(self, dtype):
        return -np.inf if dtype.category == 2 else dtype.stored_range[0]

    def numpy(self, x):
        lowest = -np.inf if x.dtype.kind == "f" else _dtype(x).range[0]
        return _extreme(np.maximum, x, self.axes, lowest)


@dataclass(frozen=True, eq=False)
class ReduceMin(_Extremum):
    """The smallest; NaN if any is NaN."""

    kind = "reduce"
    wgsl = "min({a}, {b})"

    def expression(self, dtype):
        return "sg_min({a}, {b})" if dtype.category == 2 else self.wgsl

    def identity(self, dtype):
        return np.inf if dtype.category == 2 else dtype.stored_range[1]

    def numpy(self, x):
        highest = np.inf if x.dtype.kind == "f" else _dtype(x).range[1]
        return _extreme(np.minimum, x, self.axes, highest)


@dataclass(frozen=True, eq=False)
class ReduceProd(Reduce):
    """The product. The gradient of an element that is 0 is the product of the others."""

    kind = "reduce"
    wgsl = "{a} * {b}"

    def identity(self, dtype):
        return 1

    def numpy(self, x):
        return np.prod(x, axis=self.axes, keepdims=True, dtype=x.dtype)

    def vjp(self, g, node):
        (x,) = node.inputs
        if nodes.mode.grad:  # for second derivatives, in which the products of the other elements depend on a zero
            return (build.broadcast(g, x.shape) * _products_of_others(x, self.axes),)
        zero = build.equal(x, 0.0)
        safe = build.where(zero, 1.0, x)
        others = nodes.make(ReduceProd(self.axes), safe)  # the product without zeros
        zeros = build.sum_over(build.where(zero, build.like(x, 1.0), 0.0), self.axes)
        without_zeros = build.where(build.equal(zeros, 0.0), g * others, 0.0)
        with_one = build.where(build.equal(zeros, 1.0), g * others, 0.0)
        spread = build.broadcast(without_zeros, x.shape)
        return (build.where(zero, build.broadcast(with_one, x.shape), spread / safe),)


def _products_of_others(x: Node, axes: tuple[int, ...]) -> Node:
    """For each element the product of all others along `axes`: of those before it times those after it."""
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    order = (*rest, *axes)
    moved = build.permute(x, order)
    n = math.prod(x.shape[a] for a in axes)
    rows = build.reshape(moved, (x.size // max(n, 1), n))
    flip = named("Flip", (1,))
    behind = nodes.make(flip, _products_before(nodes.make(flip, rows)))
    back = tuple(order.index(a) for a in range(x.ndim))
    return build.permute(build.reshape(_products_before(rows) * behind, moved.shape), back)


def _products_before(rows: Node) -> Node:
    """For each element the product of those before it in its row, by doubling."""
    count, n = rows.shape

    def shifted(x: Node, distance: int) -> Node:
        padded = nodes.make(named("Pad", (0, distance), (0, 0), (0, 0), 1.0), x)
        return nodes.make(named("Slice", (0, 0), (count, n), (1, 1)), padded)

    product, distance = shifted(rows, 1), 1
    while distance < n:
        product = product * shifted(product, distance)
        distance *= 2
    return product


def _dtype(x: np.ndarray) -> DType:
    return parse_dtype(x.dtype)


def _extreme(join: np.ufunc, x: np.ndarray, axes: tuple[int, ...], start: float) -> np.ndarray:
    """The largest or smallest along axes, which stay with size 1."""
    count = math.prod(x.shape[a] for a in axes)
    if not 0 < count <= FEW or x.size < 64 * count:
        return join.reduce(x, axis=axes, keepdims=True, initial=start)
    places = np.ndindex(*(x.shape[a] for a in axes))
    at = [dict(zip(axes, place, strict=True)) for place in places]
    parts = [x[tuple(slice(p[a], p[a] + 1) if a in p else slice(None) for a in range(x.ndim))] for p in at]
    result = parts[0].copy() if len(parts) == 1 else join(parts[0], parts[1])
    for part in parts[2:]:
        join(result, part, out=result)
    return result
