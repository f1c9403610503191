"""Methods that read and write parts: indices, slices, gather and scatter, diagonals, masks."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, NamedTuple, Self, TypeVar, overload

import numpy as np

from ..arguments import refuse, type_name
from ..dtypes import bool_, int32, uint8
from ..errors import ArgumentTypeError, AxisError, DTypeError, IndexRangeError, IndexTypeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import Node, make, mode
from ..primitives import views as v
from ..primitives.indexing import Gather, InRange, ScatterAdd
from ..symbolic_sizes import bounds_of, broadcast_shapes
from .axes import check_axis, sizes_of
from .base import TensorBase
from .coercion import OPERANDS, Number, RaggedError, host_tensor
from .comparison import where
from .creation import arange
from .handle import wrap
from .overwrite import overwrite
from .reduce import ReduceTensor
from .results import joint
from .shape import cat, stack
from .succession import without_history

T = TypeVar("T", bound="IndexTensor")


class StepError(IndexRangeError, ValueError):
    """A slice that goes backwards or stands still."""


class IndexTensor(ReduceTensor):
    """Methods that read and write parts: indices, slices, gather and scatter, diagonals, masks."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Self:
        """By ints, slices with positive steps, None, Ellipsis, integer and bool tensors (bools are read)."""
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) == 1 and isinstance(key, IndexTensor) and key.dtype is bool_ and not key.ndim:
            return self.unsqueeze(0)[key.unsqueeze(0)]  # one or none
        return _index(self, tuple(list(k) if isinstance(k, range) else _beside(self, k) for k in parts))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assignment to a part. Of several values for one place, the last one stays."""
        _assign(self, key, value)

    def __iter__(self):
        if not self._node.shape:
            raise ArgumentTypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, OPERANDS):
            refuse("__contains__", "element", element, "Tensor or Number")
        return bool((self == element).any().item())

    def narrow(self, dim: int, start: int | IndexTensor, length: int) -> Self:
        """`length` slices along `dim` from `start` on, a number or an integer tensor of shape (), which is read; a negative
        start counts from the end.

        Raises ShapeError where start + length exceeds the axis, or length is negative, IndexRangeError for a start
        outside it.

        >>> sg.arange(6).narrow(0, 1, 3)
        tensor([1, 2, 3])
        """
        axis, n = _axis_of(self, dim, "narrow")
        if isinstance(start, TensorBase):
            if start.ndim or start.dtype.category != 1:
                raise ShapeError("narrow(): start must be an 0-dim integral Tensor.")
            start = int(start.item())
        if not -n <= start <= n:
            raise IndexRangeError(
                f"[narrow] start out of range (expected to be in range of [{-n}, {n}], but got {start})"
            )
        start += n if start < 0 else 0
        if length < 0 or start + length > n:
            raise ShapeError(
                f"[narrow] start ({start}) + length ({length}) exceeds dimension size ({n}), or is negative."
            )
        return self[(slice(None),) * axis + (slice(start, start + length),)]

    def select(self, dim: int, index: int) -> Self:
        """The slice at `index` along `dim`, without that axis. Raises IndexRangeError outside it.

        >>> sg.tensor([[1, 2], [3, 4]]).select(1, 0)
        tensor([1, 3])
        """
        return self[(slice(None),) * _axis_of(self, dim, "select")[0] + (index,)]

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The slices along `dim`, without that axis. Their gradients are stacked once, not padded and added slice by
        slice.

        Raises ShapeError for a tensor without axes.

        >>> a, b = sg.tensor([[1, 2], [3, 4]]).unbind()
        >>> b
        tensor([3, 4])
        """
        axis, _ = _axis_of(self, dim, "unbind")
        views = tuple(self.select(axis, k) for k in range(self.shape[axis]))
        if not (self.requires_grad and mode.grad) or not views:
            return views
        plain = [wrap(without_history(t._node)) for t in views]

        def backward(grads: Sequence[Any]) -> Sequence[Any]:
            zero = wrap(build.like(plain[0]._node, 0))
            return [stack([zero if g is None else g for g in grads], axis)]

        for view, value, t in zip(views, plain, joint([self], plain, backward), strict=True):
            view._current = t._node  # until the base changes
            t._node.owner = value._node.owner = weakref.ref(view)
        return views

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts along `dim`: of `split_size` each, the last one smaller, or of the sizes that a sequence lists.

        Raises ShapeError for a size that is not positive, or sizes that do not sum to the axis.

        >>> sg.arange(5).split(2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
        >>> sg.arange(5).split([1, 4])
        (tensor([0]), tensor([1, 2, 3, 4]))
        """
        axis, n = _axis_of(self, dim, "split")
        if isinstance(split_size, int):
            if split_size <= 0:
                raise ShapeError("split expects split_size be positive")
            sizes = [min(split_size, n - k) for k in range(0, n, split_size)] or [0]
        else:
            sizes = list(sizes_of((split_size,), "split"))
            if min(sizes, default=0) < 0:
                raise ShapeError(
                    f"split_with_sizes expects split_sizes have only non-negative entries, but got {sizes}"
                )
            if sum(sizes) != n:
                raise ShapeError(
                    f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got {sizes}"
                )
        starts = np.cumsum([0, *sizes[:-1]])
        return tuple(self.narrow(axis, int(a), k) for a, k in zip(starts, sizes, strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """`chunks` parts along `dim` of equal size, the last one smaller; fewer where the sizes do not give as many.

        Raises ShapeError for chunks below 1.

        >>> sg.arange(5).chunk(2)
        (tensor([0, 1, 2]), tensor([3, 4]))
        """
        _, n = _axis_of(self, dim, "chunk")
        if chunks < 1:
            raise ShapeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
        return self.split(max(1, -(-n // chunks)), dim)

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Elements moved on by `shifts` along `dims`; those that fall off the end come in at the start.

        Without dims the tensor is rolled in row-major order. Raises ShapeError for shifts and dims of different
        numbers.

        >>> sg.arange(5).roll(2)
        tensor([3, 4, 0, 1, 2])
        """
        if dims is None:
            if not isinstance(shifts, int):
                raise ShapeError("[roll] several shifts want as many dims.")
            return self.reshape(-1).roll(shifts, 0).reshape(self.shape)
        if not self.ndim:
            raise IndexRangeError("[roll] a tensor of shape () has no axis; roll(shifts) alone takes it.")
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
        return self._copied() if x is self else x

    def index_select(self, dim: int, index: IndexTensor) -> Self:
        """The slices at positions `index`, integers (k,), along `dim`, whose size becomes k. Raises ShapeError for
        another index.

        Positions outside the axis raise IndexRangeError when the value is computed; on webgpu only with SHADERGRAD_CHECKED=1.

        >>> sg.tensor([[1, 2], [3, 4]]).index_select(1, sg.tensor([1, 1, 0]))
        tensor([[2, 2, 1],
                [4, 4, 3]])
        """
        axis = check_axis(dim, self.ndim, "index_select")
        if index.ndim > 1:
            raise AxisError(f"index_select(): Index is supposed to be a vector, but has shape {tuple(index.shape)}.")
        if not self.ndim:
            if index.numel() != 1:
                raise IndexRangeError(
                    f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)"
                )
            return self.reshape(1).index_select(0, index.reshape(1)).reshape(())
        return select_positions(self, axis, index.reshape(-1))

    def gather(self, dim: int, index: IndexTensor) -> Self:
        """out[..., j, ...] = self[..., index[..., j, ...], ...] along `dim`; of the shape of `index`, integers.

        index: as many axes as self, of at most its sizes apart from `dim`. Raises ShapeError for others, DTypeError for
        an index that is not of integers.

        >>> sg.tensor([[1, 2], [3, 4]]).gather(1, sg.tensor([[1], [0]]))
        tensor([[2],
                [3]])
        """
        axis = check_axis(dim, self.ndim, "gather")
        if not index.numel() and index.dtype.category == 1:
            return self.reshape(-1)[:0].reshape(index.shape)
        if not self.ndim:
            return self.reshape(1).gather(0, index.reshape(-1)).reshape(index.shape)
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
        if not index.dtype.is_position:
            raise DTypeError("gather(): Expected dtype int32/int64 for index")
        return wrap(make(Gather(axis), x, index._node))

    def scatter_add(self, dim: int, index: IndexTensor, src: IndexTensor) -> Self:
        """self plus src[..., j, ...] at position index[..., j, ...] along `dim`; the order of the sum is fixed.

        index: integers, as many axes as self, no larger than src, nor than self apart from `dim`. Raises ShapeError for
        others, DTypeError where src is not of self's dtype.

        >>> sg.zeros(3).scatter_add(0, sg.tensor([0, 2, 2]), sg.tensor([1.0, 2.0, 3.0]))
        tensor([1., 0., 5.])
        """
        if self.dtype is bool_ and src.dtype is bool_:  # or, which is a sum that is not 0
            return self.to(dtype=int32).scatter_add(dim, index, src.to(dtype=int32)) != 0
        if not self.ndim:
            return self.reshape(1).scatter_add(dim, index.reshape(-1), src.reshape(-1)).reshape(())
        axis, source = self._scattered_along("scatter_add", dim, index, src)
        added = wrap(make(ScatterAdd(axis, self.shape[axis]), index._node, source))
        padding: list[int] = []
        for a in reversed(range(self.ndim)):
            padding += [0, self.shape[a] - added.shape[a]]
        return self + (added.pad(padding) if any(padding) else added)

    def _scattered_along(self, what: str, dim: int, index: IndexTensor, src: IndexTensor) -> tuple[int, Node]:
        """The axis, and what of src goes to the places in the index; raises what scatter_add says."""
        axis = check_axis(dim, self.ndim, what)
        if src.dtype is not self.dtype:
            raise DTypeError(
                f"{what}(): Expected self.dtype to be equal to src.dtype, got {self.dtype.name} and {src.dtype.name}."
            )
        if index.ndim != self.ndim or src.ndim != self.ndim:
            raise ShapeError("Index tensor must have the same number of dimensions as self tensor")
        if index.shape != src.shape:
            if any(m > n for n, m in zip(src.shape, index.shape, strict=True)):
                raise ShapeError(f"[{what}] index {tuple(index.shape)} is larger than src {tuple(src.shape)}.")
            src = src[tuple(slice(0, n) for n in index.shape)]
        if any(m > n for a, (n, m) in enumerate(zip(self.shape, index.shape, strict=True)) if a != axis):
            raise ShapeError(
                f"[{what}] index {tuple(index.shape)} is larger than self {tuple(self.shape)} apart from dimension {dim}."
            )
        return axis, src._node

    def scatter(
        self,
        dim: int,
        index: IndexTensor,
        src: IndexTensor | Number | None = None,
        *,
        value: Number | None = None,
        reduce: str | None = None,
    ) -> Self:
        """self with src[..., j, ...] at position index[..., j, ...] along `dim`. src: a number, or a tensor of at least
        the index's shape. index: as scatter_add's.

        Of several values for one place, the last one stays (PyTorch: any of them). value: another name of a number as src.
        reduce: 'add' or 'multiply' joins the values with self in place of replacing it. Raises DTypeError where src is not
        of self's dtype, ShapeError for another `reduce`.

        >>> sg.zeros(3).scatter(0, sg.tensor([2, 0]), sg.tensor([5.0, 6.0]))
        tensor([6., 0., 5.])
        """
        src = value if src is None else src
        if src is None:
            raise ArgumentTypeError("scatter(): missing a required argument: 'src' or 'value'")
        given: Any = src
        if not isinstance(src, IndexTensor):
            given = wrap(build.constant(src, self.dtype, index._node.device, tuple(index.shape)))
        if not self.ndim:
            flat = self.reshape(1).scatter(dim, index.reshape(-1), given.reshape(-1), reduce=reduce)
            return flat.reshape(())
        axis, source = self._scattered_along("scatter", dim, index, given)
        if reduce is not None:
            return _scattered(self, dim, index, given, reduce)
        return wrap(overwrite(self._node, axis, index._node, source))

    def index_add(self, dim: int, index: IndexTensor, source: IndexTensor, *, alpha: float = 1) -> Self:
        """self plus alpha times the slices of `source` at positions `index`, integers (k,), along `dim`, in a fixed
        order.

        source: of self's dtype and shape, with size k along `dim`. Raises ShapeError or DTypeError for others, and
        IndexRangeError for an index that is no vector.

        >>> sg.zeros(3).index_add(0, sg.tensor([0, 0, 2]), sg.tensor([1.0, 2.0, 3.0]))
        tensor([3., 0., 3.])
        """
        if not self.ndim:
            if source.ndim:
                raise ShapeError(
                    f"[index_add] the source of a tensor without axes must have none, not {tuple(source.shape)}."
                )
            return self.reshape(1).index_add(dim, index, source.reshape(-1), alpha=alpha).reshape(())
        axis = check_axis(dim, self.ndim, "index_add")
        wanted = tuple(index.numel() if a == axis else n for a, n in enumerate(self.shape))
        if index.ndim > 1:
            raise IndexRangeError(f"[index_add] the index is a vector, not of shape {tuple(index.shape)}.")
        if tuple(source.shape) != wanted:
            raise ShapeError(
                f"[index_add] for {index.numel()} positions along dimension {dim} of {tuple(self.shape)} the source must be "
                f"{wanted}, not {tuple(source.shape)}."
            )
        shape = [1] * self.ndim
        shape[axis] = index.numel()
        places = index.reshape(shape).expand(*source.shape)
        return self.scatter_add(axis, places, source if alpha == 1 else source * alpha)

    def index_fill(self, dim: int, index: IndexTensor, value: IndexTensor | Number) -> Self:
        """self with `value`, a number or a tensor of shape (), in the slices at positions `index`, integers (k,), along `dim`.

        >>> sg.zeros(2, 3).index_fill(1, sg.tensor([0, 2]), 7)
        tensor([[7., 0., 7.],
                [7., 0., 7.]])
        """
        if not self.ndim:
            return self.reshape(1).index_fill(dim, index, value).reshape(())
        axis = check_axis(dim, self.ndim, "index_fill")
        if not index.dtype.is_position:
            raise IndexTypeError(f"index_fill(): argument 'index' must be of integers, not {index.dtype.name}.")
        index = _wrapped(index.reshape(-1), self.shape[axis])
        places = wrap(build.constant(0, int32, self._node.device, (self.shape[axis],)))
        chosen = places.index_add(0, index, wrap(build.like(index._node, 1)).to(dtype=int32)) > 0
        return self.masked_fill(chosen.reshape(-1, *(1,) * (self.ndim - axis - 1)), value)

    def take_along_dim(self, indices: IndexTensor, dim: int | None = None) -> Self:
        """gather, with `indices` and self broadcast to each other apart from `dim`; without dim, of the elements in
        row-major order. Negative indices count from the end.

        >>> x = sg.tensor([[3, 1, 2]])
        >>> x.take_along_dim(x.argsort(1), 1)
        tensor([[1, 2, 3]])
        """
        if dim is None:
            return self.reshape(-1).gather(0, _wrapped(indices.reshape(-1), self.numel()))
        axis = check_axis(dim, self.ndim, "take_along_dim")
        if indices.ndim != self.ndim:
            raise ShapeError(
                f"[take_along_dim] input and indices should have the same number of dimensions, but got {self.ndim} and {indices.ndim}"
            )
        x, along = self.transpose(axis, -1), indices.transpose(axis, -1)
        shape = _broadcast(x.shape[:-1], along.shape[:-1], "take_along_dim")
        along = _wrapped(along.expand(*shape, along.shape[-1]), x.shape[-1])
        picked = x.expand(*shape, x.shape[-1]).gather(-1, along)
        return picked.transpose(axis, -1)

    def masked_scatter(self, mask: IndexTensor, source: IndexTensor) -> Self:
        """self with the first elements of `source`, in order, where the bool `mask` holds. The two are broadcast.

        Raises DTypeError for a mask that is not of bools, or a source of another dtype.

        >>> sg.zeros(4).masked_scatter(sg.tensor([True, False, True, False]), sg.tensor([5.0, 6.0]))
        tensor([5., 0., 6., 0.])
        """
        if mask.dtype is not bool_ or source.dtype is not self.dtype:
            raise DTypeError(
                f"[masked_scatter] the mask must be of bools, not {mask.dtype.name}, and self and source of the same dtype, "
                f"not {self.dtype.name} and {source.dtype.name}."
            )
        shape = _broadcast(self.shape, mask.shape, "masked_scatter")
        mask = mask.expand(*shape)
        order = (mask.reshape(-1).to(dtype=int32).cumsum(0) - 1).clamp(min=0)
        return where(mask, source.reshape(-1).index_select(0, order).reshape(shape), self)

    def masked_select(self, mask: IndexTensor) -> Self:
        """The elements where the bool `mask` holds, in one axis; the two are broadcast. Reads the mask.

        Raises DTypeError for a mask that is not of bools, ShapeError for shapes that do not broadcast.

        >>> x = sg.tensor([3, 1, 2])
        >>> x.masked_select(x > 1)
        tensor([3, 2])
        """
        if mask.dtype is not bool_:
            raise DTypeError(f"masked_select: expected BoolTensor for mask, not {mask.dtype.name}.")
        shape = _broadcast(self.shape, mask.shape, "masked_select")
        return self.expand(*shape).reshape(-1)[mask.expand(*shape).reshape(-1)]

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Self: ...
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Self, ...]: ...
    def nonzero(self, *, as_tuple: bool = False) -> Self | tuple[Self, ...]:
        """The positions of elements that are not 0, int32 (count, ndim), or a tuple of one (count,) tensor an axis.
        Reads self.

        >>> sg.tensor([[0, 1], [2, 0]]).nonzero()
        tensor([[0, 1],
                [1, 0]])
        """
        found = np.nonzero(np.atleast_1d((self.detach() != 0)._read("nonzero()")))
        if as_tuple:
            return tuple(host_tensor(p.astype(np.int32), device=self.device) for p in found)
        return host_tensor(np.stack(found, 1)[:, : self.ndim].astype(np.int32), device=self.device)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The diagonal of axes dim1 and dim2, as a last axis: offset > 0 above the main one, < 0 below.

        A view: every (n + 1)-th element of their row-major order. Raises ShapeError for dim1 = dim2.

        >>> sg.arange(6).reshape(2, 3).diagonal(1)
        tensor([1, 5])
        """
        a, b = check_axis(dim1, self.ndim, "diagonal"), check_axis(dim2, self.ndim, "diagonal")
        if a == b:
            raise ShapeError("diagonal dimensions cannot be identical")
        rest = [k for k in range(self.ndim) if k not in (a, b)]
        x = self.permute(*rest, a, b)
        rows, columns = x.shape[-2:]
        start = (0, offset) if offset >= 0 else (-offset, 0)
        count = max(0, min(rows - start[0], columns - start[1]))
        first = start[0] * columns + start[1]
        flat = x.view(*x.shape[:-2], rows * columns)
        return flat[(..., slice(first, first + (count - 1) * (columns + 1) + 1, columns + 1) if count else slice(0, 0))]

    def diag(self, diagonal: int = 0) -> Self:
        """(n, m) -> its diagonal; (n,) -> the square matrix with the vector on that diagonal. Raises ShapeError for
        others.

        >>> sg.tensor([1, 2]).diag()
        tensor([[1, 0],
                [0, 2]])
        >>> sg.tensor([[1, 2], [3, 4]]).diag()
        tensor([1, 4])
        """
        if self.ndim == 2:
            return self.diagonal(diagonal)._copied()
        if self.ndim != 1:
            raise ShapeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
        n = self.shape[0] + abs(diagonal)
        low = max(0, diagonal)
        column = self.pad((low, n - self.shape[0] - low)) if diagonal >= 0 else self.pad((0, n - self.shape[0]))
        square = column.expand(n, n)
        return where(_offsets(square) == diagonal, square, _zero(square))

    def trace(self) -> Self:
        """The sum of the diagonal of a matrix (n, m). Raises ShapeError for other shapes.

        >>> sg.tensor([[1, 2], [3, 4]]).trace()
        tensor(5)
        """
        if self.ndim != 2:
            raise ShapeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
        return self.diagonal().sum()

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of the last two axes, up to `diagonal`, with zeros above. Raises ShapeError for fewer than
        two axes.

        >>> sg.tensor([[1, 2], [3, 4]]).tril()
        tensor([[1, 0],
                [3, 4]])
        """
        return where(_offsets(self) <= diagonal, self, _zero(self))

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of the last two axes, from `diagonal` on, with zeros below. Raises ShapeError for fewer
        than two axes.

        >>> sg.tensor([[1, 2], [3, 4]]).triu()
        tensor([[1, 2],
                [0, 4]])
        """
        return where(_offsets(self) >= diagonal, self, _zero(self))

    def diff(
        self, n: int = 1, dim: int = -1, prepend: IndexTensor | None = None, append: IndexTensor | None = None
    ) -> Self:
        """Differences of neighbours along `dim`, n times: the axis gets n smaller. Of bools: whether they differ.

        prepend, append: tensors that are joined to self along `dim` before. Raises ShapeError for a tensor without
        axes.

        >>> sg.tensor([1, 4, 9, 16]).diff()
        tensor([3, 5, 7])
        """
        if self.ndim == 0:
            raise ShapeError("diff expects input to be at least one-dimensional")
        axis = check_axis(dim, self.ndim, "diff")
        if n < 0:
            raise ShapeError(f"[diff] order must be non-negative but got {n}")
        if n == 0:
            return self._copied()
        x: Any = cat([t for t in (prepend, self, append) if t is not None], axis)
        for _ in range(min(n, x.shape[axis])):
            count = x.shape[axis] - 1
            after, before = x.narrow(axis, 1, count), x.narrow(axis, 0, count)
            x = after ^ before if x.dtype is bool_ else after - before
        return x


def _scattered(x: T, dim: int, index: IndexTensor, source: Any, reduce: str) -> T:
    """scatter with reduce=."""
    if reduce == "add":
        return x.scatter_add(dim, index, source[tuple(slice(0, n) for n in index.shape)])
    if reduce != "multiply":
        raise ShapeError(f"scatter(): reduce argument must be either add or multiply, not {reduce!r}.")
    found: Any = x
    return found.scatter_reduce(dim, index, source, "prod")


def _axis_of(x: TensorBase, dim: int, what: str) -> tuple[int, int]:
    """An axis and its size; raises IndexRangeError for a tensor that has none."""
    axis = check_axis(dim, x.ndim, what)
    if not x.ndim:
        raise AxisError(f"{what}() cannot be applied to a 0-dim tensor.")
    return axis, x.shape[axis]


def _broadcast(a: Sequence[int], b: Sequence[int], what: str) -> tuple[int, ...]:
    try:
        return broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        raise ShapeError(f"[{what}] the shapes {tuple(a)} and {tuple(b)} do not broadcast.") from None


def select_positions(x: T, axis: int, index: IndexTensor) -> T:
    """x at positions `index` (any shape) along an axis, which the axes of `index` replace."""
    if not index.dtype.is_position:
        wanted = "int32 or int64. Hint: .long() them" if index.dtype is uint8 else "integers"
        raise DTypeError(f"[index] positions are {index.dtype.name}, not {wanted}.")
    count = index._node.size
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    flat = build.reshape(index._node, tuple(count if a == axis else 1 for a in range(x.ndim)))
    picked = make(Gather(axis), x._node, build.broadcast(flat, shape))
    return wrap(build.reshape(picked, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])))


def select_along(x: T, axis: int, index: IndexTensor) -> T:
    """The element of x along an axis, which is gone, for each position on the others. index: of the shape that is left."""
    if not index._node.size:
        return x.gather(axis, index.unsqueeze(axis)).squeeze(axis)
    shape = index._node.shape
    column = build.reshape(index._node, (*shape[:axis], 1, *shape[axis:]))
    return wrap(build.reshape(make(Gather(axis), x._node, column), shape))


def in_range(index: T, size: int, fault: int) -> T:
    """The same positions; one outside [0, size) raises IndexRangeError: at once on cpu, at the next read on webgpu.

    fault: what is told, a number of plan.FAULTS.
    """
    return wrap(make(InRange(size, fault), index._node))


def holds(condition: T, fault: int) -> T:
    """The condition, a bool tensor; where it does not hold, IndexRangeError: at once on cpu, at the next read on webgpu.

    fault: what is told, a number of plan.FAULTS.
    """
    return in_range(where(condition, 0, -1), 1, fault) == 0


class _Block(NamedTuple):
    """Every `step`-th of `size` positions along an axis, from `start` on."""

    start: int
    size: int
    step: int


def _index(x: T, key: tuple[Any, ...]) -> T:
    shape: list[int] = []
    blocks: list[_Block] = []
    selected: list[tuple[int, Any]] = []  # axis of the sliced tensor, positions along it
    for k in _full_key(x, key):
        if k is None:
            shape.append(1)
            continue
        axis = len(blocks)
        if isinstance(k, TensorBase):
            selected.append((len(shape), _wrapped(k, x.shape[axis])))
            k = slice(None)
        blocks.append(_block(k, axis, x.shape[axis]))
        if isinstance(k, slice):
            shape.append(blocks[-1].size)

    def shown(node: Node) -> Node:
        if any(block.size != n for block, n in zip(blocks, node.shape, strict=True)):
            starts, sizes, steps = zip(*blocks, strict=True)
            node = make(v.Slice(starts, sizes, steps), node)
        return build.reshape(node, tuple(shape))

    if not selected:
        return x._view(shown)
    result = wrap(shown(x._node))
    if len(selected) == 1:
        return select_positions(result, *selected[0])
    return _select_several(result, selected)


def _full_key(x: TensorBase, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """An entry for every axis: an int, a slice or a tensor of integers; and None where there shall be a new one."""
    parts = [_host_index(k, x) if isinstance(k, list | np.ndarray) else k for k in key]
    used = sum(_axes_of(k) for k in parts)
    if used > x.ndim:
        raise IndexRangeError(f"too many indices for tensor of dimension {x.ndim}: {used}.")
    dots = [p for p, k in enumerate(parts) if isinstance(k, EllipsisType)]
    if len(dots) > 1:
        raise IndexRangeError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(parts)
    full: list[Any] = []
    axis = 0
    for k in (*parts[:at], *(slice(None),) * (x.ndim - used), *parts[at + 1 :]):
        if isinstance(k, TensorBase) and k.dtype is bool_:
            full += _positions_of(k, axis, x)
        else:
            full.append(k)
        axis += _axes_of(k)
    return tuple(full)


def _axes_of(k: Any) -> int:
    """How many axes an entry is for."""
    if k is None or k is Ellipsis:
        return 0
    if not isinstance(k, TensorBase) or k.dtype.is_position:
        return 1
    if k.dtype is bool_:
        return k.ndim
    hint = " Hint: .bool() is a mask, .long() gives positions." if k.dtype is uint8 else ""
    raise IndexTypeError(f"tensors used as indices must be of integers or bools, not {k.dtype.name}.{hint}")


def _beside(x: TensorBase, key: Any) -> Any:
    """An index tensor of the cpu device where x is; another that is elsewhere is refused later on."""
    elsewhere = isinstance(key, TensorBase) and key.device != x.device and key.device == "cpu"
    return key.to(x.device) if elsewhere else key


def _host_index(key: list[Any] | np.ndarray, x: TensorBase) -> Any:
    """Positions in a list or an array as a tensor; of an empty list, no positions."""
    try:
        return host_tensor(key, dtype=None if len(key) else int32, device=x.device)
    except (DTypeError, RaggedError):
        raise _no_index(key) from None


def _no_index(key: Any) -> IndexTypeError:
    hint = " Hint: x[None] adds an axis." if isinstance(key, bool | np.bool_) else ""
    return IndexTypeError(
        "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid indices "
        f"(got {type_name(key)}).{hint}"
    )


def _block(k: Any, axis: int, n: int) -> _Block:
    """The positions that an int or a slice means along an axis of n elements."""
    if isinstance(k, slice):
        try:
            start, stop, step = bounds_of(k, n)
        except TypeError:
            raise IndexTypeError(f"slice indices must be integers or None, not {k}.") from None
        except ValueError:
            start, stop, step = 0, 0, 0
        if step < 1:
            raise StepError(f"step must be greater than zero, not {k.step}. Hint: use flip().")
        size = max(0, -(-(stop - start) // step))
        return _Block(min(start, n) if size else 0, size, step)
    if isinstance(k, bool | np.bool_) or not hasattr(k, "__index__"):
        raise _no_index(k)
    at = operator.index(k)
    if not -n <= at < n:
        raise IndexRangeError(f"index {at} is out of bounds for dimension {axis} with size {n}")
    return _Block(at + n if at < 0 else at, 1, 1)


def _positions_of(mask: TensorBase, axis: int, x: TensorBase) -> tuple[Any, ...]:
    """A bool index as positions along each of its axes, which begin at `axis` of x. Reads the mask: how many there are
    is the result's shape."""
    if mask.shape != x.shape[axis : axis + mask.ndim]:
        raise IndexRangeError(
            f"the shape of the mask {list(mask.shape)} at index {axis} does not match the shape of the indexed tensor "
            f"{list(x.shape)} at index {axis}."
        )
    return tuple(
        host_tensor(p.astype(np.int32), device=mask.device) for p in np.nonzero(mask._read("indexing by a bool tensor"))
    )


def _select_several(x: T, selected: list[tuple[int, Any]]) -> T:
    """Positions along several axes at once, broadcast together: one gather over the axes joined."""
    axes = [axis for axis, _ in selected]
    try:
        shape = broadcast_shapes(*(tuple(p.shape) for _, p in selected))
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
    keys = tuple(_beside(x, k) for k in (key if isinstance(key, tuple) else (key,)))
    is_plain = all(k is None or k is Ellipsis or isinstance(k, int | np.integer | slice) for k in keys)
    if is_plain and isinstance(value, bool | int | float):
        part = x[keys]
        part._update_in_place(build.like(part._node, value), "setitem")
        return
    if not isinstance(value, TensorBase):
        value = host_tensor(value, dtype=x.dtype, device=x.device)
    if is_plain:
        _assign_to_part(x[keys], value)
        return
    x._check_writable("setitem")  # before keys are looked at, as in PyTorch
    value = wrap(cast(value.to(x.device)._node, x.dtype))
    if len(keys) == 1 and isinstance(keys[0], TensorBase) and keys[0].dtype is bool_ and value.numel() == 1:
        chosen: Any = keys[0]
        if tuple(chosen.shape) != tuple(x.shape[: chosen.ndim]):
            raise IndexRangeError(
                f"The shape of the mask {list(chosen.shape)} does not match the shape of the indexed tensor {list(x.shape)}"
            )
        mask = chosen.reshape(*chosen.shape, *(1,) * (x.ndim - chosen.ndim))
        x._update_in_place(where(mask, value.reshape(()), x), "setitem")
        return
    numbers = arange(x.numel(), device=x.device).reshape(x.shape)
    places = numbers[key]
    value = value.expand(*places.shape).reshape(-1)
    written = overwrite(x.reshape(-1)._node, 0, places.reshape(-1)._node, value._node)
    x._update_in_place(build.reshape(written, tuple(x.shape)), "setitem")


def _assign_to_part(part: Any, value: Any) -> None:
    if part._is_the_same_view(value):  # x[0] += 1, which has written already
        part._check_writable("setitem")
        return
    value = value.to(part.device, part.dtype)
    while value.ndim > part.ndim and value.shape[0] == 1:  # leading axes of size 1 fall away, as in PyTorch
        value = value.squeeze(0)
    part._update_in_place(value.expand(*part.shape), "setitem")
