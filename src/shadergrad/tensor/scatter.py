"""Methods that write at positions given by tensors: scatter reductions, replaced parts, filled diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from ..dtypes import float32, int32
from ..errors import AxisError, DTypeError, IndexRangeError, ShapeError
from ..graph import build
from ..graph.node import make, mode
from ..plan import IN_GATHER, IN_SCATTER
from ..primitives.indexing import ScatterAdd
from ..primitives.scatter import REDUCTIONS, ScatterReduce
from .axes import check_axis
from .base import TensorBase
from .coercion import Number, host_tensor
from .comparison import where
from .creation import arange
from .handle import wrap
from .index import IndexTensor
from .overwrite import overwrite
from .placement import widest_float
from .positions import in_range, wrapped
from .results import joint
from .subscript import casts

T = TypeVar("T", bound="ScatterTensor")


class ScatterTensor(IndexTensor):
    """Methods that write at positions given by tensors: scatter reductions, replaced parts, filled diagonals."""

    __slots__ = ()

    def scatter_reduce(
        self, dim: int, index: ScatterTensor, src: ScatterTensor, reduce: str, *, include_self: bool = True
    ) -> Self:
        """self with the reduction of all src[..., j, ...] at position index[..., j, ...] along `dim`.

        reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'. include_self: whether self's element takes part in a reduction; elements
        without a source stay. index: as in scatter_add. Raises ShapeError for another reduction, and as scatter_add.

        >>> x, index = sg.tensor([1.0, 2.0, 3.0]), sg.tensor([0, 0, 2])
        >>> x.scatter_reduce(0, index, sg.tensor([5.0, 7.0, 1.0]), "amax")
        tensor([7., 2., 3.])
        """
        if reduce not in ("sum", "mean", *REDUCTIONS):
            raise ShapeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
        if not self.ndim:
            flat: Any = self.reshape(1)
            found = flat.scatter_reduce(dim, index.reshape(-1), src.reshape(-1), reduce, include_self=include_self)
            return found.reshape(())
        if not self.dtype.takes(src.dtype):
            raise DTypeError(
                f"scatter(): Expected self.dtype to be equal to src.dtype, got {self.dtype.name} and {src.dtype.name}."
            )
        src = src.to(dtype=self.dtype)
        axis = check_axis(dim, self.ndim, "scatter_reduce")
        if self.dtype.is_small:
            wide = self.to(dtype=int32).scatter_reduce(
                dim, index, src.to(dtype=int32), reduce, include_self=include_self
            )
            return wide.to(dtype=self.dtype)
        source: Any = src[tuple(slice(0, n) for n in index.shape)] if src.shape != index.shape else src
        index = in_range(index, self.shape[axis], IN_SCATTER)
        if reduce in ("sum", "mean"):
            return _summed(self, axis, index, source, include_self, reduce == "mean")
        return _reduced(self, axis, index, source, reduce, include_self)

    def index_reduce(
        self, dim: int, index: ScatterTensor, source: ScatterTensor, reduce: str, *, include_self: bool = True
    ) -> Self:
        """scatter_reduce of whole slices: those of `source` at positions `index`, integers (k,), along `dim`.

        reduce: 'prod', 'mean', 'amax' or 'amin'. Raises ShapeError for another one, and if the shapes do not fit.

        >>> x = sg.tensor([[1.0], [2.0]])
        >>> x.index_reduce(0, sg.tensor([0, 0]), sg.tensor([[5.0], [7.0]]), "prod")
        tensor([[35.],
                [ 2.]])
        """
        if reduce not in ("mean", *REDUCTIONS):
            raise ShapeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
        places = _slices("index_reduce", self, dim, index, source)
        return self.scatter_reduce(dim, places, source, reduce, include_self=include_self)

    def index_copy(self, dim: int, index: ScatterTensor, source: ScatterTensor) -> Self:
        """self with the slices of `source` at positions `index`, integers (k,), along `dim`.

        Raises ShapeError if the shapes do not fit, DTypeError if the dtypes differ.

        >>> x = sg.zeros(3, 2)
        >>> x.index_copy(0, sg.tensor([2]), sg.tensor([[1.0, 2.0]]))
        tensor([[0., 0.],
                [0., 0.],
                [1., 2.]])
        """
        if not self.dtype.takes(source.dtype):
            raise DTypeError(
                f"index_copy_(): self and source expected to have the same dtype, but got {self.dtype.name} and {source.dtype.name}."
            )
        return self.scatter(dim, _slices("index_copy", self, dim, index, source), source)

    def index_put(self, indices: Sequence[ScatterTensor], values: ScatterTensor, accumulate: bool = False) -> Self:
        """self with `values`, broadcast, at self[indices]; accumulate adds them. Bool indices are read.

        Of several values for one position the last one stays (PyTorch: any), unless they are added. Raises DTypeError if
        the dtypes differ, except for one number at the places of a single mask; ShapeError or IndexRangeError if shapes or positions do not fit.

        >>> x = sg.zeros(3)
        >>> x.index_put((sg.tensor([0, 0]),), sg.tensor([1.0, 2.0]), accumulate=True)
        tensor([3., 0., 0.])
        """
        if not casts(tuple(indices), values) and not self.dtype.takes(values.dtype):
            raise DTypeError(
                f"Index put requires the source and destination dtypes match, got {self.dtype.name} and {values.dtype.name}."
            )
        places = (_numbers(self) + 1)[tuple(indices)] - 1  # -1 for positions out of range
        return _placed(self, places, values.expand(*places.shape), accumulate)

    def put(self, index: ScatterTensor, source: ScatterTensor, accumulate: bool = False) -> Self:
        """self with the elements of `source` at row-major positions `index`; accumulate adds them.

        Negative positions count from the end. Raises DTypeError if the dtypes differ, ShapeError if `index` and
        `source` have different numbers of elements.

        >>> x = sg.zeros(2, 2)
        >>> x.put(sg.tensor([0, -1]), sg.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
        """
        if not self.dtype.takes(source.dtype):
            raise DTypeError(
                f"put_(): self and source expected to have the same dtype, but got {self.dtype.name} and {source.dtype.name}."
            )
        if not index.dtype.is_position:
            raise DTypeError(f"put_(): Expected a long tensor for index, but got {index.dtype.name}. Hint: .long() it.")
        if source.numel() != index.numel():
            raise ShapeError(
                f"put_(): Expected source and index to have the same number of elements, but got {source.numel()} and {index.numel()}."
            )
        return _placed(self, wrapped(index, self.numel(), IN_SCATTER), source.reshape(index.shape), accumulate)

    def take(self, index: ScatterTensor) -> Self:
        """The elements at row-major positions `index`, of the shape of `index`.

        Negative positions count from the end. Raises DTypeError for an index that is not of integers.

        >>> sg.tensor([[4, 3], [5, 8]]).take(sg.tensor([0, 3]))
        tensor([4, 8])
        """
        if not index.dtype.is_position:
            raise DTypeError(f"take(): Expected a long tensor for index, but got {index.dtype.name}.")
        if index.numel() and not self.numel():
            raise IndexRangeError("take(): tried to take from an empty tensor")
        if not index.numel():
            return self.reshape(-1)[:0].reshape(index.shape)
        flat = wrapped(index.reshape(-1), self.numel(), IN_GATHER)
        return self.reshape(-1).gather(0, flat).reshape(index.shape)

    def select_scatter(self, src: ScatterTensor, dim: int, index: int) -> Self:
        """self with `src` in place of self.select(dim, index). Raises ShapeError for another shape.

        >>> sg.zeros(2, 2).select_scatter(sg.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
        """
        return _replaced("select_scatter", self, _numbers(self).select(dim, index), src)

    def slice_scatter(
        self, src: ScatterTensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Self:
        """self with `src` in place of the slice start:end:step along `dim`. Raises ShapeError for another shape.

        >>> sg.zeros(4).slice_scatter(sg.ones(2), start=1, end=3)
        tensor([0., 1., 1., 0.])
        """
        axis = check_axis(dim, self.ndim, "slice_scatter")
        places = _numbers(self)[(slice(None),) * axis + (slice(start, end, step),)]
        return _replaced("slice_scatter", self, places, src)

    def diagonal_scatter(self, src: ScatterTensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """self with `src` in place of self.diagonal(offset, dim1, dim2). Raises ShapeError for another shape.

        >>> sg.zeros(2, 2).diagonal_scatter(sg.ones(2))
        tensor([[1., 0.],
                [0., 1.]])
        """
        return _replaced("diagonal_scatter", self, _numbers(self).diagonal(offset, dim1, dim2), src)

    def fill_diagonal_(self, fill_value: Number, wrap: bool = False) -> Self:
        """Set the main diagonal, where all indices are equal, to a number. In place; returns self.

        wrap: in a tall matrix, start again below the square. Raises ShapeError for fewer than two axes, and for more of
        different sizes.

        >>> sg.zeros(2, 3).fill_diagonal_(5)
        tensor([[5., 0., 0.],
                [0., 5., 0.]])
        """
        if self.ndim < 2:
            raise ShapeError("fill_diagonal_: dimensions must larger than 1")
        if self.ndim > 2 and len(set(self.shape)) > 1:
            raise ShapeError("fill_diagonal_: all dimensions of input must be of equal length")
        columns = self.shape[-1]
        step = sum(int(np.prod(self.shape[k + 1 :])) for k in range(self.ndim))
        last = self.numel() if wrap or self.ndim > 2 else min(self.numel(), columns * columns)
        places = arange(self.numel(), device=self.device).reshape(self.shape)
        chosen = (places % step == 0) & (places < last)
        return self._update_in_place(self.masked_fill(chosen, fill_value), "fill_diagonal_")

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """The last axis on a diagonal of two new ones, dim1 and dim2 of the result, with zeros elsewhere.

        offset > 0: above the main diagonal, < 0: below. Raises ShapeError for dim1 = dim2.

        >>> sg.tensor([1, 2]).diag_embed()
        tensor([[1, 0],
                [0, 2]])
        """
        rank = self.ndim + 1
        a, b = check_axis(dim1, rank, "diag_embed"), check_axis(dim2, rank, "diag_embed")
        if a == b:
            raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        if not self.ndim:
            raise IndexRangeError("[diag_embed] a tensor of shape () has no axis.")
        n = self.shape[-1] + abs(offset)
        low = (max(-offset, 0), max(offset, 0))
        rows = arange(n, device=self.device).reshape(n, 1)
        chosen = arange(n, device=self.device) - rows == offset
        column = self.pad((low[0], n - self.shape[-1] - low[0])).unsqueeze(-1)
        square = where(chosen, column, wrap(build.constant(0, self.dtype, self._node.device)))
        order = [k for k in range(rank) if k not in (a, b)]
        axes = [0] * rank
        for k, axis in enumerate((*order, a, b)):
            axes[axis] = k
        return square.permute(*axes)

    def diagflat(self, offset: int = 0) -> Self:
        """A square matrix with all elements, in row-major order, on a diagonal.

        >>> sg.tensor([[1], [2]]).diagflat()
        tensor([[1, 0],
                [0, 2]])
        """
        return self.reshape(-1).diag_embed(offset)

    def argwhere(self) -> Self:
        """The positions of elements that are not 0, int32 (count, ndim). Reads self.

        >>> sg.tensor([[0, 1], [2, 0]]).argwhere()
        tensor([[0, 1],
                [1, 0]])
        """
        return self.nonzero()

    def bincount(self, weights: ScatterTensor | None = None, minlength: int = 0) -> Self:
        """The number of occurrences of each value from 0 on in a vector of integers, int32, or the sums of its `weights`, floating.

        The length is the largest value plus one, or minlength. Reads self. Raises DTypeError for bools, complex numbers, uint16 and
        uint32, ShapeError for floats, negative values and other shapes.

        >>> sg.tensor([0, 2, 2]).bincount()
        tensor([1, 0, 2])
        """
        if self.dtype.category == 2 or self.ndim != 1 or minlength < 0:
            raise ShapeError("bincount only supports 1-d non-negative integral inputs, and a minlength of at least 0.")
        if self.dtype.category != 1 or self.dtype.name in ("uint16", "uint32"):
            raise DTypeError(f"bincount() is not implemented for {self.dtype.name}. Hint: .long() first.")
        if weights is not None and weights.shape != self.shape:
            raise ShapeError("weights should be 1-d and have the same length as input")
        values = self._read("bincount()")
        if values.size and values.min() < 0:
            raise ShapeError("bincount only supports 1-d non-negative integral inputs.")
        size = max(minlength, int(values.max()) + 1 if values.size else 0)
        ones: Any = host_tensor(np.ones(values.shape, np.int32), device=self.device)
        counted = ones if weights is None else weights
        if weights is not None and counted.dtype is not float32:
            counted = counted.to(dtype=widest_float(counted._node.device))
        total: Any = wrap(build.constant(0, counted.dtype, counted._node.device, (size,)))
        return total.scatter_add(0, self.to(dtype=int32), counted)

    def repeat_interleave(
        self, repeats: int | ScatterTensor, dim: int | None = None, *, output_size: int | None = None
    ) -> Self:
        """Every element `repeats` times in a row along `dim`; by default of the flattened tensor.

        repeats: a number, or integers, one for each element along the axis, which are read. output_size: the resulting size of
        the axis, which saves nothing. Raises ShapeError for negative or too few repeats.

        >>> sg.tensor([1, 2]).repeat_interleave(2)
        tensor([1, 1, 2, 2])
        >>> sg.tensor([1, 2]).repeat_interleave(sg.tensor([1, 2]))
        tensor([1, 2, 2])
        """
        x = self.reshape(-1) if dim is None else self
        if not x.ndim:
            x = x.reshape(1)
        axis = 0 if dim is None else check_axis(dim, x.ndim, "repeat_interleave")
        if not isinstance(repeats, int):
            return _repeated(x, axis, repeats)
        if repeats < 0:
            raise ShapeError(f"repeats must be non-negative, but got {repeats}")
        wide = x.unsqueeze(axis + 1).expand(*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
        sizes = (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])
        return wide._viewed(sizes, "repeat_interleave")._copied()


def _repeated(x: T, axis: int, repeats: ScatterTensor) -> T:
    if not repeats.dtype.is_position or repeats.ndim > 1:
        raise DTypeError(
            "repeat_interleave(): repeats must be a number, or a vector of int32 or int64, "
            f"not {repeats.dtype.name} of shape {tuple(repeats.shape)}. Hint: .long() it."
        )
    counts = repeats._read("repeat_interleave()").reshape(-1)
    if counts.size == 1:
        counts = np.broadcast_to(counts, (x.shape[axis],))
    if counts.size != x.shape[axis]:
        raise ShapeError("repeats must have the same size as input along dim")
    if counts.size and counts.min() < 0:
        raise ShapeError("repeats can not be negative")
    places = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
    return x.index_select(axis, host_tensor(places, device=x.device))


def _slices(what: str, x: TensorBase, dim: int, index: ScatterTensor, source: ScatterTensor) -> Any:
    """Positions of slices as positions of elements: the index in the shape of `source`."""
    axis = check_axis(dim, x.ndim, what)
    if index.ndim > 1:
        raise IndexRangeError(f"{what}_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if not index.dtype.is_position:
        raise DTypeError(f"{what}_(): Expected a long tensor for index, but got {index.dtype.name}.")
    if not x.ndim:
        return index.reshape(source.shape)
    wanted = tuple(index.numel() if a == axis else n for a, n in enumerate(x.shape))
    if tuple(source.shape) != wanted:
        raise AxisError(
            f"[{what}] for {index.numel()} positions along dimension {dim} of {tuple(x.shape)} the source must be "
            f"{wanted}, not {tuple(source.shape)}."
        )
    flat = index.reshape(*(index.numel() if a == axis else 1 for a in range(x.ndim)))
    return flat.expand(*source.shape)


def _numbers(x: TensorBase) -> Any:
    """The positions of all elements in row-major order, in the shape of x."""
    return arange(x._node.size, device=x.device).reshape(x.shape)


def _replaced(what: str, x: T, places: Any, src: TensorBase) -> T:
    if tuple(src.shape) != tuple(places.shape):
        raise ShapeError(
            f"{what}: expected src to have a size equal to the part, {list(places.shape)}, not {list(src.shape)}."
        )
    return _placed(x, places, src.to(dtype=x.dtype), False)


def _placed(x: T, places: Any, values: Any, accumulate: bool) -> T:
    """x with values at positions of its elements in row-major order."""
    flat, index, source = x.reshape(-1), places.reshape(-1), values.to(dtype=x.dtype).reshape(-1)
    if not index.numel():
        return x._copied()
    if not accumulate:
        return wrap(overwrite(flat._node, 0, index._node, source._node)).reshape(x.shape)
    dtype = int32 if x.dtype.is_small else x.dtype
    added = wrap(make(ScatterAdd(0, x._node.size), index._node, source.to(dtype=dtype)._node))
    return (flat.to(dtype=dtype) + added).to(dtype=x.dtype).reshape(x.shape)


def _summed(x: T, axis: int, index: Any, source: Any, include_self: bool, mean: bool) -> T:
    nothing = wrap(build.like(x._node, 0))
    total = nothing.scatter_add(axis, index, source)
    if include_self and not mean:
        return x + total
    count = nothing.scatter_add(axis, index, wrap(build.like(source._node, 1)))
    if include_self:
        total = total + x
    if mean:
        divisor = count + 1 if include_self else count.clamp(min=1)
        total = total / divisor if x.dtype.category == 2 else total.floor_divide(divisor)
    return where(count > 0, total, x)


def _reduced(x: T, axis: int, index: Any, source: Any, reduce: str, include_self: bool) -> T:
    """A product or an extremum, with PyTorch's gradient."""
    plain, values = x.detach(), source.detach()
    found = _value(plain, axis, index, values, reduce, include_self)
    if not (mode.grad and (x.requires_grad or source.requires_grad)):
        return found

    def backward(grads: Sequence[Any]) -> Sequence[Any]:
        (g,) = grads
        rule = _product_gradients if reduce == "prod" else _extremum_gradients
        dx, dsource = rule(g, x, axis, index, source, found, reduce, include_self)
        if not include_self:
            touched = wrap(build.like(found._node, 0)).scatter_add(axis, index, wrap(build.like(values._node, 1))) > 0
            dx = where(touched, 0.0, dx)
        return [d for d, t in ((dx, x), (dsource, source)) if t.requires_grad]

    return joint([t for t in (x, source) if t.requires_grad], [found], backward)[0]


def _value(x: Any, axis: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    part = tuple(n if a == axis else m for a, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)))
    reached = x if part == tuple(x.shape) else x[tuple(slice(0, n) for n in part)]
    scattered = wrap(make(ScatterReduce(axis, x.shape[axis], reduce), index._node, source._node))
    count = wrap(build.like(reached._node, 0)).scatter_add(axis, index, wrap(build.like(source._node, 1)))
    if include_self:
        joined = (
            reached * scattered
            if reduce == "prod"
            else getattr(reached, "maximum" if reduce == "amax" else "minimum")(scattered)
        )
        scattered = joined
    result = where(count > 0, scattered, reached)
    if part == tuple(x.shape):
        return result
    whole: Any = x
    return whole.put(_numbers(x)[tuple(slice(0, n) for n in part)], result)


def _extremum_gradients(g: Any, x: Any, axis: int, index: Any, source: Any, found: Any, *_: Any) -> tuple[Any, Any]:
    """Ties share the gradient."""
    mine, its = (x == found).to(dtype=g.dtype), (source == found.gather(axis, index)).to(dtype=g.dtype)
    share = g / mine.scatter_add(axis, index, its).clamp(min=1)
    return mine * share, its * share.gather(axis, index)


def _product_gradients(
    g: Any, x: Any, axis: int, index: Any, source: Any, found: Any, reduce: str, include_self: bool
) -> tuple[Any, Any]:
    """The product of the others; if exactly one element at a position is zero, its gradient is the product without it."""
    safe = where(x == 0, 1.0, x)
    dx = g * _reduced(safe, axis, index, source, reduce, include_self) / safe
    zero = source == 0
    zeros = wrap(build.like(found._node, 0)).scatter_add(axis, index, zero.to(dtype=g.dtype)).gather(axis, index)
    alone = zero & (zeros == 1)
    others = _reduced(x, axis, index, where(alone, 1.0, source), reduce, include_self)
    whole = _reduced(x, axis, index, source, reduce, include_self)
    dsource = where(alone, (g * others).gather(axis, index), (g * whole).gather(axis, index) / where(zero, 1.0, source))
    return dx, dsource
