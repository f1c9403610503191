"""Views of the same memory with another dtype: complex numbers as pairs, pairs as complex numbers, bytes as other elements.

For the cpu device only: a GPU has elements of 32 bits, and reads them as another dtype with `Bitcast`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType
from ..errors import DTypeError, ShapeError
from ..graph import node as nodes
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape


@dataclass(frozen=True, eq=False)
class AsReal(Primitive):
    """Complex numbers (*) as their real and imaginary parts (*, 2)."""

    kind = "host"

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (z,) = inputs
        if not z.dtype.is_complex:
            raise DTypeError(f"[view_as_real] is only supported for complex tensors, not {z.dtype.name}.")
        return (*z.shape, 2), z.dtype.real

    def numpy(self, z):  # type: ignore[override]
        return np.ascontiguousarray(z).view(z.real.dtype).reshape(*z.shape, 2)

    def vjp(self, g, node):
        return (nodes.make(AsComplex(), g),)


@dataclass(frozen=True, eq=False)
class AsComplex(Primitive):
    """Pairs (*, 2) of float32 or float64 as complex numbers (*)."""

    kind = "host"

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if x.dtype.name not in ("float32", "float64"):
            raise DTypeError(f"[view_as_complex] is only supported for float32 and float64, not {x.dtype.name}.")
        if x.shape[-1:] != (2,):
            raise ShapeError("[view_as_complex] Tensor must have a last dimension of size 2")
        return x.shape[:-1], x.dtype.complex

    def numpy(self, x):
        return np.ascontiguousarray(x).view(np.result_type(x.dtype, np.complex64)).reshape(x.shape[:-1])

    def vjp(self, g, node):
        return (nodes.make(AsReal(), g),)


@dataclass(frozen=True, eq=False)
class Reinterpret(Primitive):
    """The bytes of elements of one dtype as elements of another. If these are larger or smaller, the last axis becomes shorter
    or longer.
    """

    kind = "host"
    moves = True
    differentiable = False
    source: DType
    dtype: DType

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return self.shown(inputs[0].shape), self.dtype

    def shown(self, shape: Shape) -> Shape:
        """The shape of the result. Raises ShapeError if the last axis is no multiple of a larger element."""
        old, new = self.source.itemsize, self.dtype.itemsize
        if old == new:
            return shape
        if not shape or shape[-1] * old % new:
            raise ShapeError(f"[view] {self.source.name} of shape {shape} cannot be seen as {self.dtype.name}.")
        return (*shape[:-1], shape[-1] * old // new)

    def numpy(self, x):
        given = np.ascontiguousarray(x)
        if self.source.is_half:
            given = self.source.encoded(given)[: x.size].reshape(x.shape)
        if self.dtype.is_half:
            return self.dtype.decoded(given.view(np.uint16)).reshape(self.shown(x.shape))
        return given.view(self.dtype.numpy).reshape(self.shown(x.shape))
