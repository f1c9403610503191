"""Gather with indices from a tensor, and its adjoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType, int32
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph import node as nodes
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape
from ..plan import IN_GATHER, IN_SCATTER, fault_error


def check_range(fault: int, positions: np.ndarray, size: int, low: int = 0) -> None:
    if positions.size and (positions.min() < low or positions.max() >= size):
        bad = positions[(positions < low) | (positions >= size)].flat[0]
        raise fault_error(fault, int(bad), size)


def check_positions(name: str, positions: Node) -> None:
    if not positions.dtype.is_position:
        wanted = "int32 or int64. Hint: .long() them" if positions.dtype.category == 1 else "integers"
        raise DTypeError(f"[{name}] positions are {positions.dtype.name}, not {wanted}.")


@dataclass(frozen=True, eq=False)
class Gather(Primitive):
    """out[..., j, ...] = x[..., positions[..., j, ...], ...] along `axis`; other axes have equal sizes."""

    moves = True
    kind = "index"
    axis: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        x, positions = inputs
        check_positions("gather", positions)
        same = x.ndim == positions.ndim and all(
            n == m for a, (n, m) in enumerate(zip(x.shape, positions.shape, strict=True)) if a != self.axis
        )
        if not same:
            raise ShapeError(
                f"[gather] x is {x.shape}, positions are {positions.shape}: sizes must agree except along axis {self.axis}."
            )
        return positions.shape, x.dtype

    def numpy(self, x, positions):
        check_range(IN_GATHER, positions, x.shape[self.axis])
        others = [s for a, s in enumerate(positions.strides) if a != self.axis]
        if positions.size and not any(others):  # all rows share the positions, so whole slices are copied
            return np.take(
                x, positions[tuple(slice(None) if a == self.axis else 0 for a in range(x.ndim))], axis=self.axis
            )
        return np.take_along_axis(x, positions, axis=self.axis)

    def vjp(self, g, node):
        x, positions = node.inputs
        if positions.shape[self.axis] == 1:
            chosen = build.equal(build.broadcast(positions, x.shape), build.iota_along(x, self.axis, positions.dtype))
            return build.where(chosen, build.broadcast(g, x.shape), 0.0), None
        return nodes.make(ScatterAdd(self.axis, x.shape[self.axis]), positions, g), None


@dataclass(frozen=True, eq=False)
class InRange(Primitive):
    """The same positions; one outside [low, size) is an error: at once on the cpu device, at the next read on a GPU.

    fault: the error, a number of plan.FAULTS.
    """

    kind = "index"
    differentiable = False
    size: int
    fault: int
    low: int = 0

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (positions,) = inputs
        check_positions("in_range", positions)
        return positions.shape, positions.dtype

    def numpy(self, positions):
        check_range(self.fault, positions, self.size, self.low)
        return positions

    def vjp(self, g, node):
        return (None,)


@dataclass(frozen=True, eq=False)
class ScatterAdd(Primitive):
    """out[..., v, ...] = sum of source[..., j, ...] over all j with positions[..., j, ...] == v; v < size.

    The adjoint of Gather. On the GPU it is lowered to a sum over j for every v: a gather, no atomics, so that the
    result is the same in every run. Positions out of range add nothing on the GPU; the cpu device raises.
    """

    kind = "index"
    axis: int
    size: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        positions, source = inputs
        check_positions("scatter_add", positions)
        if positions.shape != source.shape:
            raise ShapeError(f"[scatter_add] positions are {positions.shape}, the source is {source.shape}.")
        return tuple(self.size if a == self.axis else n for a, n in enumerate(source.shape)), source.dtype

    def numpy(self, positions, source):
        check_range(IN_SCATTER, positions, self.size)
        result = np.zeros(tuple(self.size if a == self.axis else n for a, n in enumerate(source.shape)), source.dtype)
        where_to = list(np.ogrid[tuple(slice(0, n) for n in source.shape)])
        where_to[self.axis] = positions
        np.add.at(result, tuple(where_to), source)
        return result

    def vjp(self, g, node):
        return None, nodes.make(Gather(self.axis), g, node.inputs[0])


@dataclass(frozen=True, eq=False)
class ArgSort(Primitive):
    """Positions that sort along an axis, stable, as int32; NaN is the largest.

    On a GPU it is lowered to ranks: the number of elements before each. It is a primitive because the reference
    would otherwise materialize every pair of elements.
    """

    kind = "index"
    differentiable = False
    axis: int
    descending: bool

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if x.dtype.category == 0:
            raise DTypeError("[argsort] is not defined for bool; convert to int32 first.")
        return x.shape, int32

    def numpy(self, x):
        if not self.descending:
            return np.argsort(x, axis=self.axis, kind="stable").astype(np.int32)
        reverse = np.flip(x, self.axis)  # descending and stable: sort the reversed array, and count from the end
        positions = np.flip(np.argsort(reverse, axis=self.axis, kind="stable"), self.axis)
        return (x.shape[self.axis] - 1 - positions).astype(np.int32)

    def vjp(self, g, node):
        return (None,)
