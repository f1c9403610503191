"""Methods that move elements: shapes, axes, repetition, padding, windows, joining."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from ..dtypes import bool_, promote_operands
from ..errors import IndexRangeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import make
from ..primitives import views as v
from ..primitives.window import Window
from .base import check_axes, check_axis, sizes_of, wrap
from .elementwise import ElementwiseTensor, where

T = TypeVar("T", bound="ShapeTensor")


class ShapeTensor(ElementwiseTensor):
    """Methods that move elements: shapes, axes, repetition, padding, windows, joining."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        """The same elements in another shape; one size may be -1."""
        sizes = list(sizes_of(shape))
        unknown = [k for k, n in enumerate(sizes) if n == -1]
        rest = math.prod(n for n in sizes if n != -1)
        if len(unknown) > 1:
            raise ShapeError("[reshape] only one dimension can be inferred")
        if unknown:
            if rest == 0 or self._node.size % rest:
                raise ShapeError(f"[reshape] shape {sizes} is invalid for input of size {self._node.size}")
            sizes[unknown[0]] = self._node.size // rest
        if min(sizes, default=0) < 0:
            raise ShapeError(f"[reshape] invalid shape dimension {min(sizes)}")
        return wrap(build.reshape(self._node, tuple(sizes)))

    def view(self, *shape: Any) -> Self:
        return self.reshape(*shape)

    def reshape_as(self, other: ShapeTensor) -> Self:
        return self.reshape(other.shape)

    def view_as(self, other: ShapeTensor) -> Self:
        return self.reshape(other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        if self.ndim == 0:
            return self.reshape(1)
        start, end = check_axis(start_dim, self.ndim, "flatten"), check_axis(end_dim, self.ndim, "flatten")
        if start > end:
            raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim")
        return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """One axis as several; one of the sizes may be -1."""
        axis = check_axis(dim, self.ndim, "unflatten")
        shape, wanted = list(self.shape), list(sizes)
        if wanted.count(-1) == 1:
            known = -math.prod(wanted)
            wanted[wanted.index(-1)] = shape[axis] // known if known else 0
        if math.prod(wanted) != shape[axis]:
            raise ShapeError(
                f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({shape[axis]}) in the input tensor"
            )
        return self.reshape(*shape[:axis], *wanted, *shape[axis + 1 :])

    def ravel(self) -> Self:
        return self.reshape(-1)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Without axes of size 1: all, or those of `dim` that have size 1."""
        axes = range(self.ndim) if dim is None else check_axes(dim, self.ndim, "squeeze")
        return self.reshape([n for a, n in enumerate(self.shape) if n != 1 or a not in axes])

    def unsqueeze(self, dim: int) -> Self:
        """With an axis of size 1 inserted before `dim`."""
        if not -self.ndim - 1 <= dim <= self.ndim:
            raise IndexRangeError(
                f"[unsqueeze] Dimension out of range (expected to be in range of [{-self.ndim - 1}, {self.ndim}], but got {dim})"
            )
        at = dim % (self.ndim + 1)
        return self.reshape(*self.shape[:at], 1, *self.shape[at:])

    def permute(self, *dims: Any) -> Self:
        axes = sizes_of(dims)
        if len(axes) != self.ndim:
            raise ShapeError(f"[permute] {len(axes)} dims for a tensor of {self.ndim}.")
        return wrap(build.permute(self._node, tuple(check_axis(a, self.ndim, "permute") for a in axes)))

    def transpose(self, dim0: int, dim1: int) -> Self:
        if self.ndim == 0:
            return self
        axes = list(range(self.ndim))
        a, b = check_axis(dim0, self.ndim, "transpose"), check_axis(dim1, self.ndim, "transpose")
        axes[a], axes[b] = axes[b], axes[a]
        return wrap(build.permute(self._node, tuple(axes)))

    def t(self) -> Self:
        if self.ndim > 2:
            raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
        return self if self.ndim < 2 else self.transpose(0, 1)

    @property
    def T(self) -> Self:
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Self:
        return self.transpose(-2, -1)

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        sources = [check_axis(a, self.ndim, "movedim") for a in ([source] if isinstance(source, int) else source)]
        targets = [
            check_axis(a, self.ndim, "movedim")
            for a in ([destination] if isinstance(destination, int) else destination)
        ]
        order = [a for a in range(self.ndim) if a not in sources]
        for target, axis in sorted(zip(targets, sources, strict=True)):
            order.insert(target, axis)
        return self.permute(order)

    def expand(self, *sizes: Any) -> Self:
        """Axes of size 1 repeated, without copying; -1 keeps a size."""
        wanted = list(sizes_of(sizes))
        extra = len(wanted) - self.ndim
        if extra < 0:
            raise ShapeError(
                f"[expand] the number of sizes provided ({len(wanted)}) must be greater or equal to the number of dimensions ({self.ndim})"
            )
        for k, n in enumerate(wanted):
            if n == -1:
                if k < extra:
                    raise ShapeError("[expand] -1 is not allowed in a leading, non-existing dimension")
                wanted[k] = self.shape[k - extra]
            elif k >= extra and self.shape[k - extra] not in (1, n):
                raise ShapeError(
                    f"[expand] the expanded size ({n}) must match the existing size ({self.shape[k - extra]}) at dimension {k}."
                )
        return wrap(build.broadcast(self._node, tuple(wanted)))

    def expand_as(self, other: ShapeTensor) -> Self:
        return self.expand(other.shape)

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        return self.expand(*shape)

    def flip(self, *dims: Any) -> Self:
        axes = check_axes(sizes_of(dims), self.ndim, "flip") if sizes_of(dims) else ()
        return wrap(make(v.Flip(axes), self._node)) if axes else self

    def fliplr(self) -> Self:
        return self.flip(1)

    def flipud(self) -> Self:
        return self.flip(0)

    def pad(self, padding: Sequence[int], value: float = 0.0) -> Self:
        """(before, after) pairs from the last axis backwards; negative amounts cut."""
        pairs = list(zip(padding[::2], padding[1::2], strict=True))
        if len(pairs) > self.ndim:
            raise ShapeError(f"[pad] {len(pairs)} pairs of padding for a tensor of {self.ndim} dimensions.")
        low = [0] * self.ndim
        high = [0] * self.ndim
        for k, (a, b) in enumerate(pairs):
            low[-1 - k], high[-1 - k] = a, b
        result = self
        if min([*low, *high], default=0) < 0:
            starts = tuple(max(-a, 0) for a in low)
            sizes = tuple(n - s + min(b, 0) for n, s, b in zip(self.shape, starts, high, strict=True))
            if min(sizes, default=0) < 0:
                raise ShapeError(f"[pad] padding {tuple(padding)} cuts more than shape {tuple(self.shape)} has.")
            result = wrap(make(v.Slice(starts, sizes, (1,) * self.ndim), self._node))
        number = bool(value) if self.dtype is bool_ else int(value) if self.dtype.category == 1 else float(value)
        lows, highs = tuple(max(a, 0) for a in low), tuple(max(b, 0) for b in high)
        return wrap(make(v.Pad(lows, highs, (0,) * self.ndim, number), result._node))

    def repeat(self, *repeats: Any) -> Self:
        """The tensor tiled so many times along every axis; extra counts come first."""
        counts = sizes_of(repeats)
        if len(counts) < self.ndim:
            raise ShapeError(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            )
        shape = (1,) * (len(counts) - self.ndim) + tuple(self.shape)
        spread = self.reshape([k for n in shape for k in (1, n)])
        spread = spread.expand(*(k for c, n in zip(counts, shape, strict=True) for k in (c, n)))
        return spread.reshape([c * n for c, n in zip(counts, shape, strict=True)])

    def tile(self, *dims: Any) -> Self:
        counts = sizes_of(dims)
        return self.repeat((1,) * max(0, self.ndim - len(counts)) + counts)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Every element `repeats` times in a row."""
        x = self.reshape(-1) if dim is None else self
        axis = 0 if dim is None else check_axis(dim, self.ndim, "repeat_interleave")
        wide = x.unsqueeze(axis + 1).expand(*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
        return wide.reshape(*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])

    def prelu(self, weight: ShapeTensor) -> Self:
        """x, and weight * x where negative; a weight for each channel (axis 1), or one for all."""
        if weight.numel() != 1:
            channels = self.shape[1] if self.ndim > 1 else 1
            if weight.numel() != channels:
                raise ShapeError(
                    "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                    f"{weight.numel()} and channel size = {channels}."
                )
            weight = weight.reshape(-1, *(1,) * (self.ndim - 2))
        elif self.ndim == 0:
            weight = weight.reshape(())
        return where(self > 0, self, weight * self)

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Windows of `size` every `step` along an axis, as a last axis. A view."""
        axis = check_axis(dimension, self.ndim, "unfold")
        if size > self.shape[axis] or step < 1:
            raise ShapeError(
                f"maximum size for tensor at dimension {axis} is {self.shape[axis]} but size is {size}; step is {step}"
            )
        return wrap(make(Window((axis,), (size,), (step,), (1,)), self._node))

    def is_contiguous(self) -> bool:
        """True: there are no strides here."""
        return True


def cat(tensors: Sequence[T], dim: int = 0) -> T:
    """One after another along `dim`; dtypes are promoted."""
    tensors = list(tensors)
    if not tensors:
        raise ShapeError("cat(): expected a non-empty list of Tensors")
    if any(t.ndim == 0 for t in tensors):
        raise ShapeError("zero-dimensional tensor (at position 0) cannot be concatenated. Hint: use stack.")
    full = [t for t in tensors if tuple(t.shape) != (0,)] or tensors[:1]
    dtype = promote_operands([(t.dtype, 2) for t in tensors])
    axis = check_axis(dim, full[0].ndim, "cat")
    parts = [cast(t._node, dtype) for t in full]
    while len(parts) > 1:  # in groups, so that no kernel needs more buffers than a device has
        parts = [
            make(v.Cat(axis), *parts[k : k + 4]) if len(parts[k : k + 4]) > 1 else parts[k]
            for k in range(0, len(parts), 4)
        ]
    return wrap(parts[0])


def stack(tensors: Sequence[T], dim: int = 0) -> T:
    """Along a new axis."""
    tensors = list(tensors)
    if not tensors:
        raise ShapeError("stack expects a non-empty TensorList")
    for t in tensors[1:]:
        if t.shape != tensors[0].shape:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and {list(t.shape)} at another"
            )
    return cat([t.unsqueeze(dim) for t in tensors], dim if dim >= 0 else dim + tensors[0].ndim + 1)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Grids of coordinates; indexing 'ij' or 'xy'."""
    axes: list[Any] = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else list(tensors)  # type: ignore[arg-type]
    if indexing not in ("ij", "xy"):
        raise ShapeError(f'[meshgrid] indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(axes) > 1
    if swap:
        axes[0], axes[1] = axes[1], axes[0]
    shape = [t.numel() for t in axes]
    grids = [t.reshape([-1 if b == a else 1 for b in range(len(axes))]).expand(*shape) for a, t in enumerate(axes)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)
