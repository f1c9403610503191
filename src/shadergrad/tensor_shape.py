# pyright: reportGeneralTypeIssues=false
# Why: in a mixin, self is the whole Tensor, and pyright cannot know that the mixin is used nowhere else.
"""Tensor methods that move elements, index, and multiply matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import bool_, promote_operands
from .errors import DeviceError, DTypeError, IndexRangeError, ShapeError
from .graph import node as nodes
from .graph.node import make
from .primitives import views as v
from .primitives.dot import Dot
from .primitives.indexing import Gather, ScatterAdd
from .tensor_math import cast, check_axes, check_axis, wrap

if TYPE_CHECKING:
    from .tensor import Tensor


def _sizes(args: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given as arguments or as one sequence."""
    if len(args) == 1 and not isinstance(args[0], int | np.integer):
        args = tuple(args[0])
    return tuple(int(a) for a in args)


class ShapeMethods:
    """Movement, indexing and linear algebra."""

    __slots__ = ()

    # -- shape

    def reshape(self: Tensor, *shape: Any) -> Tensor:
        """The same elements in another shape; one size may be -1."""
        sizes = list(_sizes(shape))
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
        return wrap(nodes.reshape(self._node, tuple(sizes)))

    def view(self: Tensor, *shape: Any) -> Tensor:
        return self.reshape(*shape)

    def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        if self.ndim == 0:
            return self.reshape(1)
        start, end = check_axis(start_dim, self.ndim, "flatten"), check_axis(end_dim, self.ndim, "flatten")
        if start > end:
            raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim")
        return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def squeeze(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without axes of size 1: all, or those of `dim` that have size 1."""
        axes = range(self.ndim) if dim is None else check_axes(dim, self.ndim, "squeeze")
        return self.reshape([n for a, n in enumerate(self.shape) if n != 1 or a not in axes])

    def unsqueeze(self: Tensor, dim: int) -> Tensor:
        """With an axis of size 1 inserted before `dim`."""
        if not -self.ndim - 1 <= dim <= self.ndim:
            raise IndexRangeError(
                f"[unsqueeze] Dimension out of range (expected to be in range of [{-self.ndim - 1}, {self.ndim}], but got {dim})"
            )
        at = dim % (self.ndim + 1)
        return self.reshape(*self.shape[:at], 1, *self.shape[at:])

    def permute(self: Tensor, *dims: Any) -> Tensor:
        axes = _sizes(dims)
        if len(axes) != self.ndim:
            raise ShapeError(f"[permute] {len(axes)} dims for a tensor of {self.ndim}.")
        return wrap(nodes.permute(self._node, tuple(check_axis(a, self.ndim, "permute") for a in axes)))

    def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
        if self.ndim == 0:
            return self
        axes = list(range(self.ndim))
        a, b = check_axis(dim0, self.ndim, "transpose"), check_axis(dim1, self.ndim, "transpose")
        axes[a], axes[b] = axes[b], axes[a]
        return wrap(nodes.permute(self._node, tuple(axes)))

    def t(self: Tensor) -> Tensor:
        if self.ndim > 2:
            raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
        return self if self.ndim < 2 else self.transpose(0, 1)

    @property
    def T(self: Tensor) -> Tensor:
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self: Tensor) -> Tensor:
        return self.transpose(-2, -1)

    def expand(self: Tensor, *sizes: Any) -> Tensor:
        """Axes of size 1 repeated, without copying; -1 keeps a size."""
        wanted = list(_sizes(sizes))
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
        return wrap(nodes.broadcast(self._node, tuple(wanted)))

    def expand_as(self: Tensor, other: Tensor) -> Tensor:
        return self.expand(other.shape)

    def broadcast_to(self: Tensor, shape: Sequence[int]) -> Tensor:
        return self.expand(*shape)

    def flip(self: Tensor, *dims: Any) -> Tensor:
        axes = check_axes(_sizes(dims), self.ndim, "flip") if _sizes(dims) else ()
        return wrap(make(v.Flip(axes), self._node)) if axes else self

    def pad(self: Tensor, padding: Sequence[int], value: float = 0.0) -> Tensor:
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

    # -- indexing

    def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
        axis = check_axis(dim, self.ndim, "narrow")
        return self[(slice(None),) * axis + (slice(start, start + length),)]

    def __getitem__(self: Tensor, key: Any) -> Tensor:
        """By ints, slices with positive steps, None, Ellipsis, integer and bool tensors (bools are read)."""
        return _index(self, key if isinstance(key, tuple) else (key,))

    def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
        """The slices at `index` (1-d) along `dim`."""
        axis = check_axis(dim, self.ndim, "index_select")
        if index.ndim > 1:
            raise ShapeError(f"index_select(): Index is supposed to be a vector, but has shape {tuple(index.shape)}.")
        return _select(self, axis, index.reshape(-1))

    def gather(self: Tensor, dim: int, index: Tensor) -> Tensor:
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

    def scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
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

    def split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
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

    def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        n = self.shape[check_axis(dim, self.ndim, "chunk")]
        return self.split(max(1, -(-n // chunks)), dim)

    # -- products

    def matmul(self: Tensor, other: Tensor) -> Tensor:
        """Vectors, matrices, and batches of matrices with broadcasting."""
        return _matmul(self, other)

    def __matmul__(self: Tensor, other: Tensor) -> Tensor:
        return _matmul(self, other)

    def mm(self: Tensor, other: Tensor) -> Tensor:
        if self.ndim != 2 or other.ndim != 2:
            raise ShapeError(f"[mm] both must be matrices: {tuple(self.shape)}, {tuple(other.shape)}.")
        return _matmul(self, other)

    def bmm(self: Tensor, other: Tensor) -> Tensor:
        if self.ndim != 3 or other.ndim != 3 or self.shape[0] != other.shape[0]:
            raise ShapeError(
                f"[bmm] both must be batches of matrices of one size: {tuple(self.shape)}, {tuple(other.shape)}."
            )
        return _matmul(self, other)

    def dot(self: Tensor, other: Tensor) -> Tensor:
        if self.ndim != 1 or other.ndim != 1:
            raise ShapeError(f"1D tensors expected, but got {self.ndim}D and {other.ndim}D tensors")
        return _matmul(self, other)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D")
    if a.dtype is not b.dtype:
        raise DTypeError(f"[matmul] expected both to have the same dtype, but got: {a.dtype.name} != {b.dtype.name}")
    if a.device != b.device:
        raise DeviceError(
            f"[matmul] operands are on different devices: {list(a.shape)} on {a.device}, {list(b.shape)} on {b.device}."
            f" Hint: move one with .to({str(a.device)!r})."
        )
    contracted = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != contracted:
        raise ShapeError(
            f"[matmul] cannot contract: a is {tuple(a.shape)}, b is {tuple(b.shape)}; a's last axis ({a.shape[-1]}) != "
            f"b's {'second-last' if b.ndim > 1 else 'only'} ({contracted})."
        )
    left = a._node if a.ndim > 1 else nodes.reshape(a._node, (1, a.shape[0]))
    right = b._node if b.ndim > 1 else nodes.reshape(b._node, (b.shape[0], 1))
    k, m, n = a.shape[-1], left.shape[-2], right.shape[-1]
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"[matmul] the batch axes do not broadcast: a is {tuple(a.shape)}, b is {tuple(b.shape)}."
        ) from None
    if right.ndim == 2 or math.prod(right.shape[:-2]) == 1:  # one matrix for all: rows of all batches are one product
        product = make(Dot(), nodes.reshape(left, (1, math.prod(left.shape[:-1]), k)), nodes.reshape(right, (1, k, n)))
    else:
        size = math.prod(batch)
        left = nodes.reshape(nodes.broadcast(left, (*batch, m, k)), (size, m, k))
        right = nodes.reshape(nodes.broadcast(right, (*batch, k, n)), (size, k, n))
        product = make(Dot(), left, right)
    shape = (*batch, *((m,) if a.ndim > 1 else ()), *((n,) if b.ndim > 1 else ()))
    return wrap(nodes.reshape(product, shape))


def _select(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """x at positions `index` (any shape) along an axis, which the axes of `index` replace."""
    if index.dtype.category != 1:
        raise DTypeError(f"[index] positions are {index.dtype.name}, not integers.")
    count = index._node.size
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    flat = nodes.reshape(index._node, tuple(count if a == axis else 1 for a in range(x.ndim)))
    picked = make(Gather(axis), x._node, nodes.broadcast(flat, shape))
    return wrap(nodes.reshape(picked, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])))


def _index(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    from .tensor import Tensor

    key = tuple(Tensor(k, device=x.device) if isinstance(k, list | np.ndarray) else k for k in key)
    key = tuple(p for k in key for p in (_positions_of(k) if isinstance(k, Tensor) and k.dtype is bool_ else (k,)))
    used = sum(k is not None and k is not Ellipsis for k in key)
    if used > x.ndim:
        raise IndexRangeError(f"too many indices for tensor of dimension {x.ndim}")
    dots = [p for p, k in enumerate(key) if isinstance(k, EllipsisType)]
    if len(dots) > 1:
        raise IndexRangeError("an index can only have a single ellipsis ('...')")
    fill = (slice(None),) * (x.ndim - used)
    key = key[: dots[0]] + fill + key[dots[0] + 1 :] if dots else key + fill
    starts, sizes, steps, shape = [], [], [], []
    selected: list[tuple[int, Tensor]] = []  # axis of the sliced tensor, positions along it
    axis = 0
    for k in key:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[axis]
        if isinstance(k, Tensor):
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
    result = wrap(nodes.reshape(node, tuple(shape)))
    if not selected:
        return result
    if len(selected) == 1:
        return _select(result, *selected[0])
    return _select_several(result, selected)


def _positions_of(mask: Tensor) -> tuple[Tensor, ...]:
    """A bool index as positions along each of its axes. Reads the mask: how many there are is the result's shape."""
    from .tensor import Tensor

    return tuple(
        Tensor(p.astype(np.int32), device=mask.device) for p in np.nonzero(mask._read("indexing by a bool tensor"))
    )


def _select_several(x: Tensor, selected: list[tuple[int, Tensor]]) -> Tensor:
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
    flat: Tensor | None = None
    for axis, positions in selected:
        flat = positions if flat is None else flat * x.shape[axis] + positions
    assert flat is not None
    picked = _select(front, 0, flat.expand(*shape))
    if axes != list(range(axes[0], axes[-1] + 1)):
        return picked  # apart from each other: their axes come first, as in NumPy
    k, before = len(shape), axes[0]
    return picked.permute(*range(k, k + before), *range(k), *range(k + before, picked.ndim))


def _wrapped(index: Tensor, size: int) -> Tensor:
    """Negative positions count from the end."""
    from .tensor_math import where

    return where(index < 0, index + size, index)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
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


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
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
