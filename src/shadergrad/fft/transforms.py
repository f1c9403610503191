"""Discrete Fourier transforms: one primitive, the transform of complex numbers along axes; all others are composed of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..arguments import checked_with_out
from ..complex_numbers import conj, real
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph import node as nodes
from ..graph.primitive import Primitive
from ..system.browser import Late
from ..tensor import Tensor, cat, check_axis, check_storable
from ..tensor import zeros as _zeros

transforms = Late("scipy.fft")

Transform = Callable[
    [str, Tensor, Any, Any, str | None, bool], Tensor
]  # of a name for errors, input, sizes, axes, norm, inverse
NORMS = ("forward", "backward", "ortho", None)


@dataclass(frozen=True, eq=False)
class Fourier(Primitive):
    """scale times the sum of x e ** (-2 pi i j k / n) along axes, or + where inverse; complex to complex."""

    kind = "host"
    axes: tuple[int, ...]
    inverse: bool
    scale: float

    def infer(self, *inputs):
        return inputs[0].shape, inputs[0].dtype

    def numpy(self, z):  # type: ignore[override]
        if not z.size:
            return z
        found = (
            transforms.ifftn(z, axes=self.axes, norm="forward") if self.inverse else transforms.fftn(z, axes=self.axes)
        )
        return (found * z.dtype.type(self.scale)).astype(z.dtype, copy=False)

    def vjp(self, g, node):
        return (nodes.make(Fourier(self.axes, not self.inverse, self.scale), g),)


def _as_complex(what: str, x: Tensor) -> Tensor:
    check_storable(x.dtype.complex, str(x.device))
    if x.dtype.name == "float16":
        raise DTypeError(f"{what}: Unsupported dtype float16. Hint: .float() it.")
    return x if x.dtype.is_complex else x.to(x.dtype.complex)


def _sized(x: Tensor, axis: int, n: int) -> Tensor:
    """Cut, or filled with zeros, to n elements along an axis."""
    have = x.shape[axis]
    if n == have:
        return x
    if n < have:
        return x.narrow(axis, 0, n)
    shape = [n - have if a == axis else size for a, size in enumerate(x.shape)]
    return cat([x, _zeros(shape, dtype=x.dtype, device=x.device)], axis)


def _scale(what: str, norm: str | None, count: int, inverse: bool) -> float:
    if norm not in NORMS:
        raise ArgumentError(f"{what}: Invalid normalization mode: {norm!r}. Hint: 'forward', 'backward' or 'ortho'.")
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if inverse == (norm in (None, "backward")) else 1.0


def _axes(what: str, x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """The axes to transform, and their sizes."""
    sizes = None if s is None else [int(n) for n in ([s] if isinstance(s, int) else s)]
    if dim is None:
        count = x.ndim if sizes is None else len(sizes)
        if count > x.ndim:
            raise ShapeError(f"{what}: Got shape with {count} values but input tensor only has {x.ndim} dimensions.")
        axes = list(range(x.ndim - count, x.ndim))
    else:
        axes = [check_axis(d, x.ndim, what) for d in ([dim] if isinstance(dim, int) else dim)]
    if x.ndim == 0 and axes:
        raise ShapeError(f"{what}: the input has no axis.")
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{what}: FFT dims must be unique, but dim is {dim}.")
    if sizes is not None and len(sizes) != len(axes):
        raise ShapeError(f"{what}: When given, dim and shape arguments must have the same length: {dim}, {s}.")
    lengths = [x.shape[a] if sizes is None or sizes[k] == -1 else sizes[k] for k, a in enumerate(axes)]
    for n in lengths:
        if n < 1:
            raise ShapeError(f"{what}: Invalid number of data points ({n}) specified")
    return axes, lengths


def _transform(what: str, x: Tensor, s: Any, dim: Any, norm: str | None, inverse: bool) -> Tensor:
    axes, sizes = _axes(what, x, s, dim)
    z = _as_complex(what, x)
    for axis, n in zip(axes, sizes, strict=True):
        z = _sized(z, axis, n)
    if not axes:
        return z
    operation = Fourier(tuple(axes), inverse, _scale(what, norm, math.prod(sizes), inverse))
    return Tensor._of(nodes.make(operation, z._node))


def _half(what: str, x: Tensor, s: Any, dim: Any, norm: str | None, inverse: bool) -> Tensor:
    """The transform of real numbers: the non-negative frequencies of the last axis; the others are their conjugates."""
    if x.dtype.is_complex:
        raise DTypeError(f"{what} expects a real input tensor, but got {x.dtype.name}.")
    axes, sizes = _axes(what, x, s, dim)
    if not axes:
        raise ShapeError(f"{what} must transform at least one axis")
    return _transform(what, x, sizes, axes, norm, inverse).narrow(axes[-1], 0, sizes[-1] // 2 + 1)


def _whole(what: str, x: Tensor, s: Any, dim: Any, norm: str | None, inverse: bool) -> Tensor:
    """Real numbers from the non-negative frequencies of the last axis, by Hermitian symmetry."""
    axes, _ = _axes(what, x, None if s is None else s, dim)
    if not axes:
        raise ShapeError(f"{what} must transform at least one axis")
    last = axes[-1]
    given = None if s is None else [s] if isinstance(s, int) else list(s)
    n = 2 * (x.shape[last] - 1) if given is None or given[-1] == -1 else int(given[-1])
    if n < 1:
        raise ShapeError(f"{what}: Invalid number of data points ({n}) specified")
    z = _as_complex(what, x)
    if len(axes) > 1:
        z = _transform(what, z, None if given is None else given[:-1], axes[:-1], norm, inverse)
    z = _sized(z, last, n // 2 + 1)
    mirrored = conj(z.narrow(last, 1, (n - 1) // 2).flip(last))
    return real(_transform(what, cat([z, mirrored], last), n, last, norm, inverse))


class AlongAxis(Protocol):
    """A transform along one axis."""

    def __call__(
        self, input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
    ) -> Tensor: ...


class AlongTwoAxes(Protocol):
    """A transform along two axes."""

    def __call__(
        self, input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
    ) -> Tensor: ...


class AlongAxes(Protocol):
    """A transform along several axes, by default all."""

    def __call__(
        self, input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
    ) -> Tensor: ...


def _named(function: Any, name: str, says: str, called: str, gives: str) -> Any:
    """The public function: its docstring `says` what it does, with an example: how it is `called`, and what that `gives`."""
    function.__name__ = name
    function.__doc__ = f"{says}\n\n>>> sg.fft.{name}{called}\n{gives}\n"
    return checked_with_out(function)


def _along(name: str, transform: Transform, inverse: bool, *shown: str) -> AlongAxis:
    """A public transform along one axis. shown: the docstring and its example, for `_named`."""

    def function(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        return transform(name, input, n, dim, norm, inverse)

    return _named(function, name, *shown)


def _along_two(name: str, transform: Transform, inverse: bool, *shown: str) -> AlongTwoAxes:
    """A public transform along two axes."""

    def function(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
        return transform(name, input, s, dim, norm, inverse)

    return _named(function, name, *shown)


def _along_all(name: str, transform: Transform, inverse: bool, *shown: str) -> AlongAxes:
    """A public transform along several axes."""

    def function(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
        return transform(name, input, s, dim, norm, inverse)

    return _named(function, name, *shown)


# fmt: off
fft = _along("fft", _transform, False, """The discrete Fourier transform along an axis, complex. n: the axis is cut, or filled with zeros, to that size first.

norm: 'backward' (the inverse is divided by n), 'ortho' (both by its root) or 'forward'. Complex numbers, and so this
namespace, live on the cpu device: x.cpu() of a tensor elsewhere passes gradients. Raises ArgumentError for another norm.""",
    "(sg.tensor([1.0, 0.0, 0.0, 0.0]))", "tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])")
ifft = _along("ifft", _transform, True, "The inverse of `fft`.",
    "(sg.tensor([4.0, 0.0, 0.0, 0.0]))", "tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])")
rfft = _along("rfft", _half, False, "The n // 2 + 1 non-negative frequencies of `fft` of real numbers; the others are their conjugates.",
    "(sg.tensor([1.0, 0.0, 0.0, 0.0]))", "tensor([1.+0.j, 1.+0.j, 1.+0.j])")
irfft = _along("irfft", _whole, True, "The inverse of `rfft`: n real numbers, 2 (m - 1) of m complex ones if n is left out.",
    "(sg.tensor([1.0, 1.0, 1.0]))", "tensor([1., 0., 0., 0.])")
hfft = _along("hfft", _whole, False, "The transform of a Hermitian-symmetric signal from its non-negative half: real numbers.",
    "(sg.tensor([1.0, 0.0, 0.0]))", "tensor([1., 1., 1., 1.])")
ihfft = _along("ihfft", _half, True, "The inverse of `hfft`.",
    "(sg.tensor([4.0, 0.0, 0.0, 0.0])).real", "tensor([1., 1., 1.])")
fft2 = _along_two("fft2", _transform, False, "`fft` along two axes, by default the last two.",
    "(sg.ones(2, 2))[0, 0]", "tensor(4.+0.j)")
ifft2 = _along_two("ifft2", _transform, True, "The inverse of `fft2`.",
    "(sg.ones(2, 2))[0, 0]", "tensor(1.+0.j)")
rfft2 = _along_two("rfft2", _half, False, "`rfft` along the last of two axes, and `fft` along the other.",
    "(sg.ones(2, 4)).shape", "shadergrad.Size([2, 3])")
irfft2 = _along_two("irfft2", _whole, True, "The inverse of `rfft2`.",
    "(sg.ones(2, 3)).shape", "shadergrad.Size([2, 4])")
hfft2 = _along_two("hfft2", _whole, False, "`hfft` along the last of two axes, and `fft` along the other.",
    "(sg.ones(2, 3)).shape", "shadergrad.Size([2, 4])")
ihfft2 = _along_two("ihfft2", _half, True, "The inverse of `hfft2`.",
    "(sg.ones(2, 4)).shape", "shadergrad.Size([2, 3])")
fftn = _along_all("fftn", _transform, False, "`fft` along several axes, by default all.",
    "(sg.ones(2, 2, 2))[0, 0, 0]", "tensor(8.+0.j)")
ifftn = _along_all("ifftn", _transform, True, "The inverse of `fftn`.",
    "(sg.ones(2, 2, 2))[0, 0, 0]", "tensor(1.+0.j)")
rfftn = _along_all("rfftn", _half, False, "`rfft` along the last of several axes, and `fft` along the others.",
    "(sg.ones(2, 4)).shape", "shadergrad.Size([2, 3])")
irfftn = _along_all("irfftn", _whole, True, "The inverse of `rfftn`.",
    "(sg.ones(2, 3)).shape", "shadergrad.Size([2, 4])")
hfftn = _along_all("hfftn", _whole, False, "`hfft` along the last of several axes, and `fft` along the others.",
    "(sg.ones(2, 3)).shape", "shadergrad.Size([2, 4])")
ihfftn = _along_all("ihfftn", _half, True, "The inverse of `hfftn`.",
    "(sg.ones(2, 4)).shape", "shadergrad.Size([2, 3])")
# fmt: on
