# pyright: reportGeneralTypeIssues=false
# Why: in a mixin, self is the whole Tensor, and pyright cannot know that the mixin is used nowhere else.
"""Tensor methods that repeat, roll, mask triangles, take diagonals and windows; and assignment to parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import bool_, int32
from .errors import DTypeError, IndexRangeError, ShapeError
from .graph import node as nodes
from .graph.node import make
from .primitives import views as v
from .primitives.window import Window
from .tensor_math import cast, check_axis, where, wrap
from .tensor_shape import _sizes, cat

if TYPE_CHECKING:
    from .tensor import Tensor


class MoveMethods:
    """Movement that is more than one view."""

    __slots__ = ()

    def repeat(self: Tensor, *repeats: Any) -> Tensor:
        """The tensor tiled so many times along every axis; extra counts come first."""
        counts = _sizes(repeats)
        if len(counts) < self.ndim:
            raise ShapeError(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            )
        shape = (1,) * (len(counts) - self.ndim) + tuple(self.shape)
        spread = self.reshape([k for n in shape for k in (1, n)])
        spread = spread.expand(*(k for c, n in zip(counts, shape, strict=True) for k in (c, n)))
        return spread.reshape([c * n for c, n in zip(counts, shape, strict=True)])

    def tile(self: Tensor, *dims: Any) -> Tensor:
        counts = _sizes(dims)
        return self.repeat((1,) * max(0, self.ndim - len(counts)) + counts)

    def repeat_interleave(self: Tensor, repeats: int, dim: int | None = None) -> Tensor:
        """Every element `repeats` times in a row."""
        x = self.reshape(-1) if dim is None else self
        axis = 0 if dim is None else check_axis(dim, self.ndim, "repeat_interleave")
        wide = x.unsqueeze(axis + 1).expand(*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
        return wide.reshape(*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])

    def roll(self: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
        """Elements moved on, those that fall off the end at the start."""
        if dims is None:
            if not isinstance(shifts, int):
                raise ShapeError("[roll] several shifts want as many dims.")
            return self.reshape(-1).roll(shifts, 0).reshape(self.shape)
        moves = [shifts] if isinstance(shifts, int) else list(shifts)
        axes = [dims] if isinstance(dims, int) else list(dims)
        if len(moves) != len(axes):
            raise ShapeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}")
        x = self
        for shift, dim in zip(moves, axes, strict=True):
            axis = check_axis(dim, self.ndim, "roll")
            n = x.shape[axis]
            k = shift % n if n else 0
            if k:
                x = cat([x.narrow(axis, n - k, k), x.narrow(axis, 0, n - k)], axis)
        return x

    def movedim(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        sources = [check_axis(a, self.ndim, "movedim") for a in ([source] if isinstance(source, int) else source)]
        targets = [
            check_axis(a, self.ndim, "movedim")
            for a in ([destination] if isinstance(destination, int) else destination)
        ]
        order = [a for a in range(self.ndim) if a not in sources]
        for target, axis in sorted(zip(targets, sources, strict=True)):
            order.insert(target, axis)
        return self.permute(order)

    def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
        axis = check_axis(dim, self.ndim, "unbind")
        return tuple(self.select(axis, k) for k in range(self.shape[axis]))

    def select(self: Tensor, dim: int, index: int) -> Tensor:
        return self[(slice(None),) * check_axis(dim, self.ndim, "select") + (index,)]

    def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
        """Windows of `size` every `step` along an axis, as a last axis. A view."""
        axis = check_axis(dimension, self.ndim, "unfold")
        if size > self.shape[axis] or step < 1:
            raise ShapeError(
                f"maximum size for tensor at dimension {axis} is {self.shape[axis]} but size is {size}; step is {step}"
            )
        return wrap(make(Window((axis,), (size,), (step,), (1,)), self._node))

    def tril(self: Tensor, diagonal: int = 0) -> Tensor:
        """The lower triangle of the last two axes, zeros above."""
        return where(_offsets(self) <= diagonal, self, _zero(self))

    def triu(self: Tensor, diagonal: int = 0) -> Tensor:
        """The upper triangle of the last two axes, zeros below."""
        return where(_offsets(self) >= diagonal, self, _zero(self))

    def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The diagonal of two axes, as a last axis. A view: every (n + 1)-th element of their row-major order."""
        a, b = check_axis(dim1, self.ndim, "diagonal"), check_axis(dim2, self.ndim, "diagonal")
        if a == b:
            raise ShapeError("diagonal dimensions cannot be identical")
        rest = [k for k in range(self.ndim) if k not in (a, b)]
        x = self.permute(*rest, a, b)
        rows, columns = x.shape[-2:]
        start = (0, offset) if offset >= 0 else (-offset, 0)
        count = max(0, min(rows - start[0], columns - start[1]))
        if count == 0:
            return (
                x.narrow(-1, 0, 0).reshape(*x.shape[:-2], -1).narrow(-1, 0, 0)
                if x.numel()
                else x.reshape(*x.shape[:-2], 0)
            )
        block = x[(..., slice(start[0], start[0] + count), slice(start[1], start[1] + count))]
        padded = block.reshape(*block.shape[:-2], count * count).pad((0, count))
        return padded.reshape(*block.shape[:-2], count, count + 1).select(-1, 0)

    def diag(self: Tensor, diagonal: int = 0) -> Tensor:
        """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
        if self.ndim == 2:
            return self.diagonal(diagonal)
        if self.ndim != 1:
            raise ShapeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
        n = self.shape[0] + abs(diagonal)
        low = max(0, diagonal)
        column = self.pad((low, n - self.shape[0] - low)) if diagonal >= 0 else self.pad((0, n - self.shape[0]))
        square = column.expand(n, n)
        return where(_offsets(square) == diagonal, square, _zero(square))

    def take_along_dim(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
        if dim is None:
            return self.reshape(-1).gather(0, indices.reshape(-1))
        return self.gather(dim, indices)

    def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
        """self plus slices of `source` at positions `index` along `dim`, in a fixed order."""
        axis = check_axis(dim, self.ndim, "index_add")
        shape = [1] * self.ndim
        shape[axis] = index.numel()
        places = index.reshape(shape).expand(*source.shape)
        return self.scatter_add(axis, places, source if alpha == 1 else source * alpha)

    def __setitem__(self: Tensor, key: Any, value: Any) -> None:
        """Assignment to a part, as a new value of the whole tensor. Of values for one place, their mean is taken."""
        _assign(self, key, value)


def _zero(x: Tensor) -> Tensor:
    return wrap(nodes.constant(0, x.dtype, x._node.device))


def _offsets(x: Tensor) -> Tensor:
    """Column less row, over the last two axes."""
    from .creation import arange

    if x.ndim < 2:
        raise ShapeError(f"input must have at least 2 dimensions, not shape {tuple(x.shape)}")
    rows, columns = x.shape[-2:]
    return arange(columns, device=x.device) - arange(rows, device=x.device).reshape(rows, 1)


def _assign(x: Tensor, key: Any, value: Any) -> None:
    from .creation import arange
    from .tensor import Tensor

    if not isinstance(value, Tensor):
        value = Tensor(value, dtype=x.dtype, device=x.device)
    value = wrap(cast(value.to(x.device)._node, x.dtype))
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) == 1 and isinstance(keys[0], Tensor) and keys[0].dtype is bool_ and value.numel() == 1:
        mask = keys[0].reshape(*keys[0].shape, *(1,) * (x.ndim - keys[0].ndim))
        x._update_in_place(where(mask, value.reshape(()), x), "setitem")
        return
    numbers = arange(x.numel(), device=x.device).reshape(x.shape)
    places = numbers[key]
    value = value.expand(*places.shape).reshape(-1)
    if all(k is None or k is Ellipsis or isinstance(k, int | np.integer | slice) for k in keys):
        x._update_in_place(_with_block(x, keys, value), "setitem")
        return
    flat = places.reshape(-1)
    total = wrap(nodes.constant(0, x.dtype, x._node.device, (x.numel(),)))
    count = total.scatter_add(0, flat, value * 0 + 1)
    total = total.scatter_add(0, flat, value)
    mean = total / count if x.dtype.category == 2 else total.floor_divide(count.maximum(count * 0 + 1))
    result = where(count > 0, mean.to(dtype=x.dtype), x.reshape(-1)).reshape(x.shape)
    x._update_in_place(result, "setitem")


def _with_block(x: Tensor, keys: tuple[Any, ...], value: Tensor) -> Tensor:
    """x with a strided block replaced: the block padded to the whole, chosen where it lies."""
    used = sum(k is not None and k is not Ellipsis for k in keys)
    plain: list[Any] = []
    for k in keys:
        if k is Ellipsis:
            plain += [slice(None)] * (x.ndim - used)
        elif k is not None:
            plain.append(k)
    plain += [slice(None)] * (x.ndim - len(plain))
    starts, sizes, steps = [], [], []
    for k, n in zip(plain, x.shape, strict=True):
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            size = max(0, -(-(stop - start) // step))
        else:
            start, size, step = int(k) % n, 1, 1
        starts.append(start)
        sizes.append(size)
        steps.append(step)
    if math.prod(sizes) == 0:
        return x
    high = [n - a - (k - 1) * s - 1 for n, a, k, s in zip(x.shape, starts, sizes, steps, strict=True)]

    def place(block: Tensor, fill: float) -> Tensor:
        number = bool(fill) if block.dtype is bool_ else fill
        return wrap(make(v.Pad(tuple(starts), tuple(high), tuple(s - 1 for s in steps), number), block._node))

    inside = wrap(nodes.constant(True, bool_, x._node.device, tuple(sizes)))
    return where(place(inside, False), place(value.reshape(sizes), 0), x)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grids of coordinates; indexing 'ij' or 'xy'."""
    axes: list[Tensor] = (
        list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else list(tensors)
    )  # type: ignore[arg-type]
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


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Ones at the given classes, int32, in a new last axis. Without num_classes the largest class is read."""
    from .creation import arange

    if tensor.dtype.category != 1:
        raise DTypeError("one_hot is only applicable to index tensor.")
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1 if tensor.numel() else 0
    if num_classes <= 0:
        raise IndexRangeError("Class values must be smaller than num_classes, which must be positive.")
    return (tensor.unsqueeze(-1) == arange(num_classes, device=tensor.device)).to(dtype=int32)
