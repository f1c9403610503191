"""Conversions between complex numbers and their real parts, on the cpu device only.

The gradient of z is dL/d(real) + i dL/d(imaginary), as in PyTorch: for analytic functions g times the conjugate of the derivative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph import node as nodes
from ..graph.build import where
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape


class OfComplex(Primitive):
    """Base of elementwise operations on complex numbers; `gives_real`: whether the result is real."""

    gives_real = True

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (z,) = inputs
        if not z.dtype.is_complex:
            raise DTypeError(f"[{self.name}] is of complex numbers, not {z.dtype.name}.")
        return z.shape, z.dtype.real if self.gives_real else z.dtype


@dataclass(frozen=True, eq=False)
class RealPart(OfComplex):
    """The real part."""

    kind = "host"

    def numpy(self, z):  # type: ignore[override]
        return np.array(z.real)

    def vjp(self, g, node):
        return (nodes.make(MakeComplex(), g, build.like(g, 0.0)),)


@dataclass(frozen=True, eq=False)
class ImaginaryPart(OfComplex):
    """The imaginary part."""

    kind = "host"

    def numpy(self, z):  # type: ignore[override]
        return np.array(z.imag)

    def vjp(self, g, node):
        return (nodes.make(MakeComplex(), build.like(g, 0.0), g),)


@dataclass(frozen=True, eq=False)
class Conj(OfComplex):
    """The conjugate."""

    kind = "host"
    gives_real = False

    def numpy(self, z):  # type: ignore[override]
        return np.conj(z)

    def vjp(self, g, node):
        return (build.conjugate(g),)


@dataclass(frozen=True, eq=False)
class Magnitude(OfComplex):
    """|z|; the gradient at 0 is 0."""

    kind = "host"

    def numpy(self, z):  # type: ignore[override]
        return np.abs(z)

    def vjp(self, g, node):
        (z,) = node.inputs
        zero = build.equal(node, 0.0)
        scale = where(zero, 0.0, g / where(zero, 1.0, node))
        return (z * build.cast(scale, z.dtype),)


@dataclass(frozen=True, eq=False)
class MakeComplex(Primitive):
    """a + i b of real numbers."""

    kind = "host"

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        a, b = inputs
        if a.dtype is not b.dtype or a.dtype.name not in ("float32", "float64"):
            raise DTypeError(
                f"[complex] Expected both inputs to be float or double, but got {a.dtype.name} and {b.dtype.name}."
            )
        if a.shape != b.shape:
            raise ShapeError(f"[complex] the parts are {a.shape} and {b.shape}.")
        return a.shape, a.dtype.complex

    def numpy(self, a, b):  # type: ignore[override]
        z = np.empty(a.shape, np.result_type(a.dtype, np.complex64))
        z.real, z.imag = a, b
        return z

    def vjp(self, g, node):
        return nodes.make(RealPart(), g), nodes.make(ImaginaryPart(), g)
