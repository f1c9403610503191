"""Methods that select parts by slices, and diagonals."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from ..dtypes import bool_
from ..errors import ArgumentTypeError, AxisError, IndexRangeError, ShapeError
from ..graph import build
from ..graph.node import make, mode
from ..primitives.joint import Result, Unbound
from ..primitives.views import Slice
from .axes import check_axis, sizes_of
from .base import TensorBase
from .comparison import where
from .creation import arange
from .handle import wrap
from .joining import cat
from .subscript import SubscriptTensor
from .succession import without_history

T = TypeVar("T", bound="SliceTensor")


class SliceTensor(SubscriptTensor):
    """Methods that select parts by slices, and diagonals."""

    __slots__ = ()

    def __iter__(self):
        if not self._node.shape:
            raise ArgumentTypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Self:
        return self.flip(0) if self.ndim else self

    def narrow(self, dim: int, start: int | SliceTensor, length: int) -> Self:
        """`length` slices along `dim` from `start` on, a number or a 0-d integer tensor, which is read; a negative
        start counts from the end.

        Raises ShapeError if start + length exceeds the axis, or length is negative, IndexRangeError for a start
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
        if length == n:
            return self[(slice(None),) * axis + (slice(start, start + length),)]
        sizes = tuple(self._node.shape)
        first = tuple([start if a == axis else 0 for a in range(len(sizes))])
        part = Slice(first, (*sizes[:axis], length, *sizes[axis + 1 :]), (1,) * len(sizes))
        return self._view(lambda x: make(part, x))

    def select(self, dim: int, index: int) -> Self:
        """The slice at `index` along `dim`, without that axis. Raises IndexRangeError outside it.

        >>> sg.tensor([[1, 2], [3, 4]]).select(1, 0)
        tensor([1, 3])
        """
        return self[(slice(None),) * _axis_of(self, dim, "select")[0] + (index,)]

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The slices along `dim`, without that axis. The backward pass stacks their gradients once, instead of padding and adding each.

        Raises ShapeError for a 0-d tensor.

        >>> a, b = sg.tensor([[1, 2], [3, 4]]).unbind()
        >>> b
        tensor([3, 4])
        """
        axis, _ = _axis_of(self, dim, "unbind")
        views = tuple(self.select(axis, k) for k in range(self.shape[axis]))
        if not (self.requires_grad and mode.grad) or not views:
            return views
        meeting = make(Unbound(axis), self._node)
        for k, view in enumerate(views):
            view._current = result = make(Result(k), without_history(view._node), meeting)  # until the base changes
            result.owner = weakref.ref(view)
        return views

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts along `dim`: of `split_size` each, the last one smaller, or of the sizes in a sequence.

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
        """`chunks` parts along `dim` of equal size, the last one smaller; fewer if the size does not permit as many.

        Raises ShapeError for chunks below 1.

        >>> sg.arange(5).chunk(2)
        (tensor([0, 1, 2]), tensor([3, 4]))
        """
        _, n = _axis_of(self, dim, "chunk")
        if chunks < 1:
            raise ShapeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
        return self.split(max(1, -(-n // chunks)), dim)

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Elements shifted cyclically by `shifts` along `dims`.

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
        self, n: int = 1, dim: int = -1, prepend: SliceTensor | None = None, append: SliceTensor | None = None
    ) -> Self:
        """Differences of neighbours along `dim`, n times: the axis gets n smaller. For bools: whether they differ.

        prepend, append: tensors that are joined to self along `dim` first. Raises ShapeError for a 0-d tensor.

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


def _axis_of(x: TensorBase, dim: int, what: str) -> tuple[int, int]:
    """An axis and its size; raises IndexRangeError for a tensor that has none."""
    axis = check_axis(dim, x.ndim, what)
    if not x.ndim:
        raise AxisError(f"{what}() cannot be applied to a 0-dim tensor.")
    return axis, x.shape[axis]


def _zero(x: T) -> T:
    return wrap(build.constant(0, x.dtype, x._node.device))


def _offsets(x: T) -> T:
    """Column less row, over the last two axes."""
    if x.ndim < 2:
        raise ShapeError(f"input must have at least 2 dimensions, not shape {tuple(x.shape)}")
    rows, columns = x.shape[-2:]
    return arange(columns, device=x.device) - arange(rows, device=x.device).reshape(rows, 1)
