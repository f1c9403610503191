"""Methods that read and write parts: indices, slices, gather and scatter, diagonals, masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Self, TypeVar

import numpy as np

from ..dtypes import bool_, int32
from ..errors import DTypeError, IndexRangeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import make, mode
from ..primitives import views as v
from ..primitives.indexing import Gather, InRange, ScatterAdd
from .base import Number, TensorBase, check_axis, host_tensor, wrap
from .creation import arange
from .elementwise import where
from .reduce import ReduceTensor
from .results import joint
from .shape import cat, stack

T = TypeVar("T", bound="IndexTensor")


class IndexTensor(ReduceTensor):
    """Methods that read and write parts: indices, slices, gather and scatter, diagonals, masks."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Self:
        """By ints, slices with positive steps, None, Ellipsis, integer and bool tensors (bools are read)."""
        return _index(self, key if isinstance(key, tuple) else (key,))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assignment to a part, as a new value of the whole tensor. Of values for one place, their mean is taken."""
        _assign(self, key, value)

    def __iter__(self):
        if not self._node.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self._node.shape[0]))

    def narrow(self, dim: int, start: int, length: int) -> Self:
        axis = check_axis(dim, self.ndim, "narrow")
        return self[(slice(None),) * axis + (slice(start, start + length),)]

    def select(self, dim: int, index: int) -> Self:
        return self[(slice(None),) * check_axis(dim, self.ndim, "select") + (index,)]

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The slices along `dim`. Their gradients are stacked once, not padded and added slice by slice."""
        axis = check_axis(dim, self.ndim, "unbind")
        plain = self.detach()
        slices = [plain.select(axis, k) for k in range(self.shape[axis])]
        if not (self.requires_grad and mode.grad) or not slices:
            return tuple(slices)

        def backward(grads: Sequence[Any]) -> Sequence[Any]:
            zero = wrap(build.like(slices[0]._node, 0))
            return [stack([zero if g is None else g for g in grads], axis)]

        return tuple(joint([self], slices, backward))

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        axis = check_axis(dim, self.ndim, "split")
        n = self.shape[axis]
        if isinstance(split_size, int):
            if split_size <= 0:
                raise ShapeError("split expects split_size be positive")
            sizes = [min(split_size, n - k) for k in range(0, n, split_size)] or [0]
        else:
            sizes = list(split_size)
            if sum(sizes) != n:
                raise ShapeError(
                    f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got {sizes}"
                )
        starts = np.cumsum([0, *sizes[:-1]])
        return tuple(self.narrow(axis, int(a), k) for a, k in zip(starts, sizes, strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        n = self.shape[check_axis(dim, self.ndim, "chunk")]
        return self.split(max(1, -(-n // chunks)), dim)

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
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

    def index_select(self, dim: int, index: IndexTensor) -> Self:
        """The slices at `index` (1-d) along `dim`."""
        axis = check_axis(dim, self.ndim, "index_select")
        if index.ndim > 1:
            raise ShapeError(f"index_select(): Index is supposed to be a vector, but has shape {tuple(index.shape)}.")
        return select_positions(self, axis, index.reshape(-1))

    def gather(self, dim: int, index: IndexTensor) -> Self:
        """out[..., j, ...] = self[..., index[..., j, ...], ...] along `dim`."""
        axis = check_axis(dim, self.ndim, "gather")
        x = self._node
        if index.ndim != self.ndim:
            raise ShapeError("Index tensor must have the same number of dimensions as input tensor")
        if index.shape != self.shape:  # as PyTorch, a smaller index takes the leading part of the other axes
            sizes = tuple(n if a == axis else m for a, (n, m) in enumerate(zip(self.shape, index.shape, strict=True)))
            if any(m > n for a, (n, m) in enumerate(zip(self.shape, index.shape, strict=True)) if a != axis):
                raise ShapeError(
                    f"Size does not match at dimension: index {tuple(index.shape)} is larger than {tuple(self.shape)} apart from dimension {dim}"
                )
            if sizes != x.shape:
                x = make(v.Slice((0,) * self.ndim, sizes, (1,) * self.ndim), x)
        if index.dtype.category != 1:
            raise DTypeError("gather(): Expected dtype int32/int64 for index")
        return wrap(make(Gather(axis), x, index._node))

    def scatter_add(self, dim: int, index: IndexTensor, src: IndexTensor) -> Self:
        """self plus src[..., j, ...] at position index[..., j, ...] along `dim`; the order of the sum is fixed."""
        axis = check_axis(dim, self.ndim, "scatter_add")
        if index.ndim != self.ndim or src.ndim != self.ndim:
            raise ShapeError("Index tensor must have the same number of dimensions as self tensor")
        source = src
        if index.shape != src.shape:
            if any(m > n for n, m in zip(src.shape, index.shape, strict=True)):
                raise ShapeError(f"[scatter_add] index {tuple(index.shape)} is larger than src {tuple(src.shape)}.")
            source = src[tuple(slice(0, n) for n in index.shape)]
        if any(m > n for a, (n, m) in enumerate(zip(self.shape, index.shape, strict=True)) if a != axis):
            raise ShapeError(
                f"[scatter_add] index {tuple(index.shape)} is larger than self {tuple(self.shape)} apart from dimension {dim}."
            )
        added = wrap(make(ScatterAdd(axis, self.shape[axis]), index._node, cast(source._node, self.dtype)))
        padding: list[int] = []
        for a in reversed(range(self.ndim)):
            padding += [0, self.shape[a] - added.shape[a]]
        return self + (added.pad(padding) if any(padding) else added)

    def scatter(self, dim: int, index: IndexTensor, src: Any) -> Self:
        """self with src[..., j, ...] at position index[..., j, ...] along `dim`. src: of at least the index's shape, or
        a number. Of several values for one place, the mean is taken."""
        if not isinstance(src, TensorBase):
            src = wrap(build.constant(src, self.dtype, index._node.device, tuple(index.shape)))
        elif src.dtype is not self.dtype:
            raise DTypeError(
                f"scatter(): Expected self.dtype to be equal to src.dtype, got {self.dtype.name} and {src.dtype.name}."
            )
        if self.dtype is bool_:
            return self.to(dtype=int32).scatter(dim, index, src.to(dtype=int32)).to(dtype=bool_)
        nothing = wrap(build.like(self._node, 0))
        ones = wrap(build.like(src._node, 1))
        count, total = nothing.scatter_add(dim, index, ones), nothing.scatter_add(dim, index, src)
        divisor = count.clamp(min=1)
        return where(count > 0, total / divisor if self.dtype.category == 2 else total.floor_divide(divisor), self)

    def index_add(self, dim: int, index: IndexTensor, source: IndexTensor, *, alpha: float = 1) -> Self:
        """self plus slices of `source` at positions `index` along `dim`, in a fixed order."""
        axis = check_axis(dim, self.ndim, "index_add")
        shape = [1] * self.ndim
        shape[axis] = index.numel()
        places = index.reshape(shape).expand(*source.shape)
        return self.scatter_add(axis, places, source if alpha == 1 else source * alpha)

    def index_fill(self, dim: int, index: IndexTensor, value: Number) -> Self:
        """self with `value` in the slices at positions `index` along `dim`."""
        axis = check_axis(dim, self.ndim, "index_fill")
        places = wrap(build.constant(0, int32, self._node.device, (self.shape[axis],)))
        chosen = places.index_add(0, index, wrap(build.like(index._node, 1)).to(dtype=int32)) > 0
        return self.masked_fill(chosen.reshape(-1, *(1,) * (self.ndim - axis - 1)), value)

    def take_along_dim(self, indices: IndexTensor, dim: int | None = None) -> Self:
        if dim is None:
            return self.reshape(-1).gather(0, indices.reshape(-1))
        return self.gather(dim, indices)

    def masked_scatter(self, mask: IndexTensor, source: IndexTensor) -> Self:
        """self with the first elements of `source`, in order, where the mask holds."""
        mask = mask.expand(*self.shape)
        order = (mask.reshape(-1).to(dtype=int32).cumsum(0) - 1).clamp(min=0)
        return where(mask, source.reshape(-1).index_select(0, order).reshape(self.shape), self)

    def masked_select(self, mask: IndexTensor) -> Self:
        """The elements where the mask holds, in one axis. Reads the mask."""
        shape = np.broadcast_shapes(tuple(self.shape), tuple(mask.shape))
        return self.expand(*shape)[mask.expand(*shape)]

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The positions of elements that are not 0, (count, ndim) int32, or a tuple of one tensor an axis. Reads."""
        found = np.nonzero((self.detach() != 0)._read("nonzero()"))
        if as_tuple:
            return tuple(host_tensor(p.astype(np.int32), device=self.device) for p in found)
        return host_tensor(np.stack(found, 1).astype(np.int32).reshape(-1, self.ndim), device=self.device)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
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

    def diag(self, diagonal: int = 0) -> Self:
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

    def trace(self) -> Self:
        """The sum of a matrix's diagonal."""
        if self.ndim != 2:
            raise ShapeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
        return self.diagonal().sum()

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of the last two axes, zeros above."""
        return where(_offsets(self) <= diagonal, self, _zero(self))

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of the last two axes, zeros below."""
        return where(_offsets(self) >= diagonal, self, _zero(self))

    def diff(
        self, n: int = 1, dim: int = -1, prepend: IndexTensor | None = None, append: IndexTensor | None = None
    ) -> Self:
        """Differences of neighbours along `dim`, n times; bools: whether they differ."""
        if self.ndim == 0:
            raise ShapeError("diff expects input to be at least one-dimensional")
        axis = check_axis(dim, self.ndim, "diff")
        x: Any = cat([t for t in (prepend, self, append) if t is not None], axis)
        for _ in range(min(n, x.shape[axis])):
            count = x.shape[axis] - 1
            after, before = x.narrow(axis, 1, count), x.narrow(axis, 0, count)
            x = after ^ before if x.dtype is bool_ else after - before
        return x


def select_positions(x: T, axis: int, index: IndexTensor) -> T:
    """x at positions `index` (any shape) along an axis, which the axes of `index` replace."""
    if index.dtype.category != 1:
        raise DTypeError(f"[index] positions are {index.dtype.name}, not integers.")
    count = index._node.size
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    flat = build.reshape(index._node, tuple(count if a == axis else 1 for a in range(x.ndim)))
    picked = make(Gather(axis), x._node, build.broadcast(flat, shape))
    return wrap(build.reshape(picked, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])))


def in_range(index: T, size: int, fault: int) -> T:
    """The same positions; one outside [0, size) raises IndexRangeError: at once on cpu, at the next read on webgpu.

    fault: what is told, a number of plan.FAULTS.
    """
    return wrap(make(InRange(size, fault), index._node))


def _index(x: T, key: tuple[Any, ...]) -> T:
    key = tuple(host_tensor(k, device=x.device) if isinstance(k, list | np.ndarray) else k for k in key)
    key = tuple(p for k in key for p in (_positions_of(k) if isinstance(k, TensorBase) and k.dtype is bool_ else (k,)))
    used = sum(k is not None and k is not Ellipsis for k in key)
    if used > x.ndim:
        raise IndexRangeError(f"too many indices for tensor of dimension {x.ndim}")
    dots = [p for p, k in enumerate(key) if isinstance(k, EllipsisType)]
    if len(dots) > 1:
        raise IndexRangeError("an index can only have a single ellipsis ('...')")
    fill = (slice(None),) * (x.ndim - used)
    key = key[: dots[0]] + fill + key[dots[0] + 1 :] if dots else key + fill
    starts, sizes, steps, shape = [], [], [], []
    selected: list[tuple[int, Any]] = []  # axis of the sliced tensor, positions along it
    axis = 0
    for k in key:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[axis]
        if isinstance(k, TensorBase):
            if k.dtype.category != 1:
                raise DTypeError(f"[index] tensors used as indices must be of integers or bools, not {k.dtype.name}")
            selected.append((len(shape), _wrapped(k, n)))
            k = slice(None)
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            if step < 1:
                raise IndexRangeError("step must be greater than zero. Hint: use flip().")
            size = max(0, -(-(stop - start) // step))
            start = min(start, n) if size else 0
            shape.append(size)
        else:
            at = int(k)
            if not -n <= at < n:
                raise IndexRangeError(f"index {at} is out of bounds for dimension {axis} with size {n}")
            start, size, step = at % n, 1, 1
        starts.append(start)
        sizes.append(size)
        steps.append(step)
        axis += 1
    node = x._node
    if tuple(sizes) != node.shape:
        node = make(v.Slice(tuple(starts), tuple(sizes), tuple(steps)), node)
    result = wrap(build.reshape(node, tuple(shape)))
    if not selected:
        return result
    if len(selected) == 1:
        return select_positions(result, *selected[0])
    return _select_several(result, selected)


def _positions_of(mask: TensorBase) -> tuple[Any, ...]:
    """A bool index as positions along each of its axes. Reads the mask: how many there are is the result's shape."""
    return tuple(
        host_tensor(p.astype(np.int32), device=mask.device) for p in np.nonzero(mask._read("indexing by a bool tensor"))
    )


def _select_several(x: T, selected: list[tuple[int, Any]]) -> T:
    """Positions along several axes at once, broadcast together: one gather over the axes joined."""
    axes = [axis for axis, _ in selected]
    try:
        shape = np.broadcast_shapes(*(tuple(p.shape) for _, p in selected))
    except ValueError:
        raise IndexRangeError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {[list(p.shape) for _, p in selected]}"
        ) from None
    rest = [a for a in range(x.ndim) if a not in axes]
    front = x.permute(*axes, *rest).reshape(math.prod(x.shape[a] for a in axes), *(x.shape[a] for a in rest))
    flat: Any = None
    for axis, positions in selected:
        flat = positions if flat is None else flat * x.shape[axis] + positions
    assert flat is not None
    picked = select_positions(front, 0, flat.expand(*shape))
    if axes != list(range(axes[0], axes[-1] + 1)):
        return picked  # apart from each other: their axes come first, as in NumPy
    k, before = len(shape), axes[0]
    return picked.permute(*range(k, k + before), *range(k), *range(k + before, picked.ndim))


def _wrapped(index: Any, size: int) -> Any:
    """Negative positions count from the end."""
    return where(index < 0, index + size, index)


def _zero(x: T) -> T:
    return wrap(build.constant(0, x.dtype, x._node.device))


def _offsets(x: T) -> T:
    """Column less row, over the last two axes."""
    if x.ndim < 2:
        raise ShapeError(f"input must have at least 2 dimensions, not shape {tuple(x.shape)}")
    rows, columns = x.shape[-2:]
    return arange(columns, device=x.device) - arange(rows, device=x.device).reshape(rows, 1)


def _assign(x: Any, key: Any, value: Any) -> None:
    if not isinstance(value, TensorBase):
        value = host_tensor(value, dtype=x.dtype, device=x.device)
    value = wrap(cast(value.to(x.device)._node, x.dtype))
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) == 1 and isinstance(keys[0], TensorBase) and keys[0].dtype is bool_ and value.numel() == 1:
        chosen: Any = keys[0]
        mask = chosen.reshape(*chosen.shape, *(1,) * (x.ndim - chosen.ndim))
        x._update_in_place(where(mask, value.reshape(()), x), "setitem")
        return
    numbers = arange(x.numel(), device=x.device).reshape(x.shape)
    places = numbers[key]
    value = value.expand(*places.shape).reshape(-1)
    if all(k is None or k is Ellipsis or isinstance(k, int | np.integer | slice) for k in keys):
        x._update_in_place(_with_block(x, keys, value), "setitem")
        return
    flat = places.reshape(-1)
    total = wrap(build.constant(0, x.dtype, x._node.device, (x.numel(),)))
    count = total.scatter_add(0, flat, value * 0 + 1)
    total = total.scatter_add(0, flat, value)
    mean = total / count if x.dtype.category == 2 else total.floor_divide(count.maximum(count * 0 + 1))
    result = where(count > 0, mean.to(dtype=x.dtype), x.reshape(-1)).reshape(x.shape)
    x._update_in_place(result, "setitem")


def _with_block(x: T, keys: tuple[Any, ...], value: IndexTensor) -> T:
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

    def place(block: Any, fill: float) -> Any:
        number = bool(fill) if block.dtype is bool_ else fill
        return wrap(make(v.Pad(tuple(starts), tuple(high), tuple(s - 1 for s in steps), number), block._node))

    inside = wrap(build.constant(True, bool_, x._node.device, tuple(sizes)))
    return where(place(inside, False), place(value.reshape(sizes), 0), x)


def one_hot(tensor: T, num_classes: int = -1) -> T:
    """Ones at the given classes, int32, in a new last axis. Without num_classes the largest class is read."""
    if tensor.dtype.category != 1:
        raise DTypeError("one_hot is only applicable to index tensor.")
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1 if tensor.numel() else 0
    if num_classes <= 0:
        raise IndexRangeError("Class values must be smaller than num_classes, which must be positive.")
    return (tensor.unsqueeze(-1) == arange(num_classes, device=tensor.device)).to(dtype=int32)
