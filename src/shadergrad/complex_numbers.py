"""Complex tensors: made of parts and taken apart. They live on the cpu device; shaders have no complex numbers.

Arithmetic, products, sums, views and the functions exp, log, sqrt, sin, cos, tanh take them, with PyTorch's gradients.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from .arguments import checked, checked_with_out
from .errors import DTypeError, ShapeError
from .graph.node import Node, make
from .primitives.complex import Conj, MakeComplex
from .primitives.dtype_views import AsComplex, AsReal
from .primitives.views import Reshape, Slice
from .tensor import Tensor, check_storable, common_shape, where


def _apply(primitive: Any, *tensors: Tensor) -> Tensor:
    node = make(primitive, *(t._node for t in tensors))
    check_storable(node.dtype, node.device)
    return Tensor._of(node)


def _part(input: Tensor, which: int) -> Tensor:
    """A view of the real parts (0) or of the imaginary ones (1)."""

    def show(z: Node) -> Node:
        none = (0,) * z.ndim
        part = make(Slice((*none, which), (*z.shape, 1), (1,) * (z.ndim + 1)), make(AsReal(), z))
        return make(Reshape(z.shape), part)

    return input._view(show)


@checked
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag, of float32 or float64; the two broadcast. Raises DTypeError for other dtypes and off the cpu device.

    >>> sg.complex(sg.tensor([1.0]), sg.tensor([2.0]))
    tensor([1.+2.j])
    """
    shape = common_shape(tuple(real.shape), tuple(imag.shape))
    return _apply(MakeComplex(), real.expand(*shape), imag.expand(*shape))


@checked
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * (cos(angle) + i sin(angle)).

    >>> sg.polar(sg.tensor([2.0]), sg.tensor([0.0]))
    tensor([2.+0.j])
    """
    return complex(abs * angle.cos(), abs * angle.sin())


@checked
def real(input: Tensor) -> Tensor:
    """The real part, a view; of a real tensor itself.

    >>> sg.real(sg.tensor([1 + 2j]))
    tensor([1.])
    """
    return _part(input, 0) if input.dtype.is_complex else input


@checked
def imag(input: Tensor) -> Tensor:
    """The imaginary part, a view. Raises DTypeError of a real tensor, as PyTorch.

    >>> sg.imag(sg.tensor([1 + 2j]))
    tensor([2.])
    """
    if not input.dtype.is_complex:
        raise DTypeError("imag is not implemented for tensors with non-complex dtypes.")
    return _part(input, 1)


@checked
def conj(input: Tensor) -> Tensor:
    """The conjugate, a view; of a real tensor itself.

    >>> sg.conj(sg.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return input._view(lambda z: make(Conj(), z)) if input.dtype.is_complex else input


@checked_with_out
def angle(input: Tensor) -> Tensor:
    """The angle of a complex number, in (-pi, pi]; of a real one 0, or pi where it is negative.

    >>> sg.angle(sg.tensor([1j]))
    tensor([1.5708])
    """
    if input.dtype.is_complex:
        return imag(input).atan2(real(input))
    x = input if input.dtype.category == 2 else input.float()
    return where(x < 0, math.pi, where(x.isnan(), x, x.sign() * 0.0))


@checked
def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary parts along a new last axis (*, 2): a view. Raises DTypeError of a real tensor.

    >>> sg.view_as_real(sg.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if not input.dtype.is_complex:
        raise DTypeError("view_as_real is only supported for complex tensors")
    return input._view(lambda z: make(AsReal(), z))


@checked
def view_as_complex(input: Tensor) -> Tensor:
    """Complex numbers of pairs along the last axis, which has 2 elements: a view. Raises ShapeError where that axis has another
    size, or its pairs are not neighbours in memory; DTypeError for other dtypes than float32 and float64, and off the cpu device.

    >>> sg.view_as_complex(sg.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    check_storable(input.dtype.complex, input._node.device)
    if input.ndim == 0:
        raise ShapeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise ShapeError("Tensor must have a last dimension of size 2")
    (*outer, last), offset = input._strides()
    if last != 1:
        raise ShapeError("Tensor must have a last dimension with stride 1. Hint: .contiguous().")
    if any(step % 2 for step in outer):
        raise ShapeError("Tensor must have a stride divisible by 2 for all but last dimension. Hint: .contiguous().")
    if offset % 2:
        raise ShapeError("Tensor must have a storage_offset divisible by 2. Hint: .clone().")
    return input._view(lambda x: make(AsComplex(), x))


@checked
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex64 or complex128.

    >>> sg.is_complex(sg.ones(1))
    False
    """
    return input.dtype.is_complex


def _real(self: Tensor) -> Tensor:
    """The real part, as `sg.real`.

    >>> sg.tensor([1 + 2j]).real
    tensor([1.])
    """
    return real(self)


def _imag(self: Tensor) -> Tensor:
    """The imaginary part, as `sg.imag`.

    >>> sg.tensor([1 + 2j]).imag
    tensor([2.])
    """
    return imag(self)


def _conj(self: Tensor) -> Tensor:
    """The conjugate, as `sg.conj`.

    >>> sg.tensor([1 + 2j]).conj()
    tensor([1.-2.j])
    """
    return conj(self)


def _angle(self: Tensor) -> Tensor:
    """The angle, as `sg.angle`.

    >>> sg.tensor([1j]).angle()
    tensor([1.5708])
    """
    return angle(self)


def _is_complex(self: Tensor) -> bool:
    """Whether the dtype is complex64 or complex128.

    >>> sg.ones(1).is_complex()
    False
    """
    return self.dtype.is_complex


METHODS = {"conj": _conj, "angle": _angle, "is_complex": _is_complex}
for _name, _method in METHODS.items():
    _method.__name__ = _method.__qualname__ = _name
    setattr(Tensor, _name, checked(_method, _name, method=True))


def _set(part: Tensor, value: Any) -> None:
    """Write a part of complex numbers; of complex ones, as PyTorch does, the real part."""
    if isinstance(value, Tensor) and value.dtype.is_complex and not part.dtype.is_complex:
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3)
        value = value.real
    part.copy_(value)


PROPERTIES = {"real": _real, "imag": _imag}
for _name, _method in PROPERTIES.items():
    setattr(Tensor, _name, property(_method, lambda self, value, read=_method: _set(read(self), value)))
