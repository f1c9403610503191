"""Methods that read and write elements at positions given by tensors: gather and scatter, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeVar, overload

import numpy as np

from ..dtypes import bool_, int32
from ..errors import ArgumentTypeError, AxisError, DTypeError, IndexRangeError, IndexTypeError, ShapeError
from ..graph import build
from ..graph.node import Node, make
from ..plan import IN_GATHER, IN_MASKED, IN_SCATTER
from ..primitives import views as v
from ..primitives.indexing import Gather, ScatterAdd
from ..symbolic_sizes import broadcast_shapes
from .axes import check_axis
from .coercion import Number, host_tensor
from .comparison import where
from .handle import wrap
from .overwrite import overwrite
from .placement import check_fits
from .positions import in_range, wrapped
from .slices import SliceTensor
from .subscript import select_positions

T = TypeVar("T", bound="IndexTensor")


class IndexTensor(SliceTensor):
    """Methods that read and write elements at positions given by tensors: gather and scatter, masks."""

    __slots__ = ()

    def index_select(self, dim: int, index: IndexTensor) -> Self:
        """The slices at positions `index`, integers (k,), along `dim`, whose size becomes k. Raises ShapeError for
        another index.

        Positions outside the axis raise IndexRangeError: at once on cpu, on webgpu at once or at the next read.

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
        return select_positions(self, axis, in_range(index.reshape(-1), self.shape[axis], IN_GATHER))

    def gather(self, dim: int, index: IndexTensor, *, sparse_grad: bool = False) -> Self:
        """out[..., j, ...] = self[..., index[..., j, ...], ...] along `dim`; of the shape of `index`, integers. The gradient is
        dense, even with sparse_grad.

        index: as many axes as self, and at most its sizes except along `dim`. Raises ShapeError for others, DTypeError for
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
        return wrap(make(Gather(axis), x, in_range(index, x.shape[axis], IN_GATHER)._node))

    def scatter_add(self, dim: int, index: IndexTensor, src: IndexTensor) -> Self:
        """self plus src[..., j, ...] at position index[..., j, ...] along `dim`; the order of the sum is fixed.

        index: integers, as many axes as self, no larger than src, nor than self except along `dim`. Raises ShapeError for
        others, DTypeError if src does not have self's dtype.

        >>> sg.zeros(3).scatter_add(0, sg.tensor([0, 2, 2]), sg.tensor([1.0, 2.0, 3.0]))
        tensor([1., 0., 5.])
        """
        if self.dtype is bool_ and src.dtype is bool_:  # or, which is a sum that is not 0
            return self.to(dtype=int32).scatter_add(dim, index, src.to(dtype=int32)) != 0
        if not self.ndim:
            return self.reshape(1).scatter_add(dim, index.reshape(-1), src.reshape(-1)).reshape(())
        axis, source, index = self._scattered_along("scatter_add", dim, index, src)
        added = wrap(make(ScatterAdd(axis, self.shape[axis]), index._node, source))
        padding: list[int] = []
        for a in reversed(range(self.ndim)):
            padding += [0, self.shape[a] - added.shape[a]]
        return self + (added.pad(padding) if any(padding) else added)

    def _scattered_along(
        self, what: str, dim: int, index: IndexTensor, src: IndexTensor
    ) -> tuple[int, Node, IndexTensor]:
        """The axis, the part of src that is scattered, and the positions; raises as scatter_add."""
        axis = check_axis(dim, self.ndim, what)
        if not self.dtype.takes(src.dtype):
            raise DTypeError(
                f"{what}(): Expected self.dtype to be equal to src.dtype, got {self.dtype.name} and {src.dtype.name}. "
                f"Hint: .to(self.dtype) it."
            )
        src = src.to(dtype=self.dtype)
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
        return axis, src._node, in_range(index, self.shape[axis], IN_SCATTER)

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
        the index's shape. index: as in scatter_add.

        Of several values for one position, the last one stays (PyTorch: any of them). value: another name for a number as src.
        reduce: 'add' or 'multiply' combines the values with self instead of replacing it. Raises DTypeError if src does not have
        self's dtype, ShapeError for another `reduce`.

        >>> sg.zeros(3).scatter(0, sg.tensor([2, 0]), sg.tensor([5.0, 6.0]))
        tensor([6., 0., 5.])
        """
        src = value if src is None else src
        if src is None:
            raise ArgumentTypeError("scatter(): missing a required argument: 'src' or 'value'")
        given: Any = src
        if not isinstance(src, IndexTensor):
            check_fits(src, self.dtype)
            given = wrap(build.constant(src, self.dtype, index._node.device, tuple(index.shape)))
        if not self.ndim:
            flat = self.reshape(1).scatter(dim, index.reshape(-1), given.reshape(-1), reduce=reduce)
            return flat.reshape(())
        axis, source, index = self._scattered_along("scatter", dim, index, given)
        if reduce is not None:
            return _scattered(self, dim, index, given, reduce)
        return wrap(overwrite(self._node, axis, index._node, source))

    def index_add(self, dim: int, index: IndexTensor, source: IndexTensor, *, alpha: float = 1) -> Self:
        """self plus alpha times the slices of `source` at positions `index`, integers (k,), along `dim`, in a fixed
        order.

        source: of self's dtype and shape, with size k along `dim`. Raises ShapeError or DTypeError for others, and
        IndexRangeError for an index that is not a vector.

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
        if index.ndim > 1:
            raise ShapeError(f"index_fill(): Index has to be a vector or a scalar, but has shape {tuple(index.shape)}.")
        index = wrapped(index.reshape(-1), self.shape[axis], IN_SCATTER)
        places = wrap(build.constant(0, int32, self._node.device, (self.shape[axis],)))
        chosen = places.index_add(0, index, wrap(build.like(index._node, 1)).to(dtype=int32)) > 0
        return self.masked_fill(chosen.reshape(-1, *(1,) * (self.ndim - axis - 1)), value)

    def take_along_dim(self, indices: IndexTensor, dim: int | None = None) -> Self:
        """gather, with `indices` and self broadcast to each other except along `dim`; without dim, over the elements in
        row-major order. Negative indices count from the end.

        >>> x = sg.tensor([[3, 1, 2]])
        >>> x.take_along_dim(x.argsort(1), 1)
        tensor([[1, 2, 3]])
        """
        if dim is not None and indices.ndim != self.ndim:
            raise ShapeError(
                f"[take_along_dim] input and indices should have the same number of dimensions, but got {self.ndim} and {indices.ndim}"
            )
        if not indices.dtype.is_position:
            raise DTypeError(f"take_along_dim(): dtype of indices should be int64 or int32, not {indices.dtype.name}.")
        if dim is None:
            return self.reshape(-1).gather(0, wrapped(indices.reshape(-1), self.numel(), IN_GATHER))
        axis = check_axis(dim, self.ndim, "take_along_dim")
        x, along = self.transpose(axis, -1), indices.transpose(axis, -1)
        shape = _broadcast(x.shape[:-1], along.shape[:-1], "take_along_dim")
        along = wrapped(along, x.shape[-1], IN_GATHER).expand(*shape, along.shape[-1])
        picked = x.expand(*shape, x.shape[-1]).gather(-1, along)
        return picked.transpose(axis, -1)

    def masked_scatter(self, mask: IndexTensor, source: IndexTensor) -> Self:
        """self with the first elements of `source`, in order, where the bool `mask` is true. The two are broadcast.

        Raises DTypeError for a mask that is not of bools, or a source of another dtype, IndexRangeError if `source` has too few
        elements: at once on cpu, at the next read on webgpu.

        >>> sg.zeros(4).masked_scatter(sg.tensor([True, False, True, False]), sg.tensor([5.0, 6.0]))
        tensor([5., 0., 6., 0.])
        """
        if mask.dtype is not bool_ or not self.dtype.takes(source.dtype):
            raise DTypeError(
                f"[masked_scatter] the mask must be of bools, not {mask.dtype.name}, and self and source of the same dtype, "
                f"not {self.dtype.name} and {source.dtype.name}."
            )
        shape = _broadcast(self.shape, mask.shape, "masked_scatter")
        mask = mask.expand(*shape)
        flat = mask.reshape(-1)
        number = where(flat, flat.to(dtype=int32).cumsum(0), 0)  # from 1 on
        order = (in_range(number, source.numel() + 1, IN_MASKED) - 1).clamp(min=0)
        given: Any = source.to(dtype=self.dtype).reshape(-1)
        if not source.numel():  # then the mask may hold nowhere
            given = wrap(build.constant(0, self.dtype, self._node.device, (1,)))
        is_given = flat & (number <= source.numel())
        return where(is_given.reshape(shape), select_positions(given, 0, order).reshape(shape), self)

    def masked_select(self, mask: IndexTensor) -> Self:
        """The elements where the bool `mask` is true, as a vector; the two are broadcast. Reads the mask.

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


def _scattered(x: T, dim: int, index: IndexTensor, source: Any, reduce: str) -> T:
    """scatter with reduce=."""
    if reduce == "add":
        return x.scatter_add(dim, index, source[tuple(slice(0, n) for n in index.shape)])
    if reduce != "multiply":
        raise ShapeError(f"scatter(): reduce argument must be either add or multiply, not {reduce!r}.")
    found: Any = x
    return found.scatter_reduce(dim, index, source, "prod")


def _broadcast(a: Sequence[int], b: Sequence[int], what: str) -> tuple[int, ...]:
    try:
        return broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        raise ShapeError(f"[{what}] the shapes {tuple(a)} and {tuple(b)} do not broadcast.") from None


def select_along(x: T, axis: int, index: IndexTensor) -> T:
    """The element of x along an axis, which is removed, for each position on the others. index: of the remaining shape."""
    if not index._node.size:
        return x.gather(axis, index.unsqueeze(axis)).squeeze(axis)
    shape = index._node.shape
    column = build.reshape(index._node, (*shape[:axis], 1, *shape[axis:]))
    return wrap(build.reshape(make(Gather(axis), x._node, column), shape))


def holds(condition: T, fault: int) -> T:
    """Checks a condition, a bool tensor; if it is false, IndexRangeError is raised: at once on cpu, at the next read on webgpu.

    fault: the error, a number of plan.FAULTS.
    """
    return in_range(where(condition, 0, -1), 1, fault) == 0
