"""Functions of several tensors: combinations, comparisons, multi-dimensional histograms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments import checked
from ..dtypes import bool_, default_dtype, int32, promote_operands
from ..errors import ArgumentTypeError, DTypeError, ShapeError
from ..graph import build
from ..graph.build import cast
from .axes import check_axis, common_shape
from .base import TensorBase
from .coercion import Number, host_tensor
from .comparison import where
from .counts import Histogram, _bins_of, _edges
from .handle import wrap
from .joining import cat, stack
from .public import Tensor


def _tensors(tensors: Any) -> list[Any]:
    """Tensors given as arguments, or as one sequence."""
    several = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    for k, t in enumerate(several):
        if not isinstance(t, TensorBase):
            raise ArgumentTypeError(f"expected tensors, but argument {k} is {type(t).__name__}.")
    return list(several)


@checked
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Each tensor with at least one axis; one for one, a tuple for several.

    >>> sg.atleast_1d(sg.tensor(3))
    tensor([3])
    """
    return _atleast(tensors, lambda x: x.reshape(1) if x.ndim == 0 else x)


@checked
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Each tensor with at least two axes: a vector is a row; one for one, a tuple for several.

    >>> sg.atleast_2d(sg.tensor([3, 4]))
    tensor([[3, 4]])
    """
    return _atleast(tensors, lambda x: x.reshape(1, -1) if x.ndim < 2 else x)


@checked
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Each tensor with at least three axes: a vector is (1, n, 1), a matrix (n, m, 1); one for one, a tuple for several.

    >>> sg.atleast_3d(sg.tensor([3, 4])).shape
    shadergrad.Size([1, 2, 1])
    """
    return _atleast(tensors, lambda x: x.reshape(1, -1, 1) if x.ndim < 2 else x.unsqueeze(-1) if x.ndim == 2 else x)


def _atleast(tensors: Any, widen: Any) -> Any:
    found = tuple(widen(t) for t in _tensors(tensors))
    return found[0] if len(tensors) == 1 and isinstance(tensors[0], TensorBase) else found


@checked
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors along axis 1; vectors and numbers are columns. Raises ShapeError if the other axes differ.

    >>> sg.column_stack([sg.tensor([1, 2]), sg.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    if not tensors:
        raise ShapeError("column_stack expects a non-empty TensorList")
    return cat([t.reshape(t.numel(), 1) if t.ndim < 2 else t for t in tensors], 1)


@checked
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors along axis 2, each with at least three axes. Raises ShapeError if the other axes differ.

    >>> sg.dstack([sg.tensor([1, 2]), sg.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    if not tensors:
        raise ShapeError("dstack expects a non-empty TensorList")
    return cat([atleast_3d(t) for t in tensors], 2)


@checked
def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """A matrix with the given matrices along its diagonal, and zeros elsewhere; vectors are rows, dtypes are promoted.

    >>> sg.block_diag(sg.tensor([[1, 2]]), sg.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    parts = _tensors(tensors)
    for k, t in enumerate(parts):
        if t.ndim > 2:
            raise ShapeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has {t.ndim} dimensions"
            )
    if not parts:
        return wrap(build.constant(0, default_dtype(), "cpu", (1, 0)))
    dtype = promote_operands([(t.dtype, 2) for t in parts])
    blocks = [wrap(cast(t._node, dtype)).reshape(1, -1) if t.ndim < 2 else wrap(cast(t._node, dtype)) for t in parts]
    width, at, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        rows.append(block.pad((at, width - at - block.shape[1])))
        at += block.shape[1]
    return cat(rows, 0)


@checked
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """The Cartesian product of vectors, as rows; for one vector, the vector.

    >>> sg.cartesian_prod(sg.tensor([1, 2]), sg.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    vectors = _tensors(tensors)
    for t in vectors:
        if t.ndim != 1:
            raise ShapeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(vectors) == 1:
        return vectors[0]
    shape = [t.numel() for t in vectors]
    grids = [t.reshape([-1 if b == a else 1 for b in range(len(shape))]).expand(*shape) for a, t in enumerate(vectors)]
    return stack([g.reshape(-1) for g in grids], 1)


@checked
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, as rows in order; with_replacement: elements may repeat.

    Raises ShapeError for another shape and a negative r.

    >>> sg.combinations(sg.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise ShapeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise ShapeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input[:0]
    ways = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(ways(range(input.shape[0]), r)), np.int32).reshape(-1, r)
    return input.take(host_tensor(places, device=input.device))


@checked
def isin(
    elements: Tensor | Number, test_elements: Tensor | Number, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Which elements are among `test_elements`, bools of the shape of `elements`; invert: which are not.

    Compares all pairs. assume_unique changes nothing. One of the two may be a number.

    >>> sg.isin(sg.tensor([1, 2, 3]), sg.tensor([2, 5]))
    tensor([False,  True, False])
    """
    if not isinstance(elements, TensorBase) and not isinstance(test_elements, TensorBase):
        raise ArgumentTypeError("isin(): one of elements and test_elements must be a Tensor.")
    if not isinstance(test_elements, TensorBase):
        found: Any = elements == test_elements
    elif not isinstance(elements, TensorBase):
        found = (test_elements == elements).any()
    elif not test_elements.numel() or not elements.numel():
        found = wrap(build.constant(False, bool_, elements._node.device, tuple(elements.shape)))
    else:
        found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


@checked
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distances between rows: (..., n, d) and (..., m, d) give (..., n, m); batches are broadcast.

    Computed from differences, whatever compute_mode says: exact, in n m d operations. Raises ShapeError for fewer than
    two axes, rows of different lengths and a negative p.

    >>> sg.cdist(sg.tensor([[0.0, 0.0]]), sg.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if x1.ndim < 2 or x2.ndim < 2:
        raise ShapeError(f"cdist only supports at least 2D tensors, X1 got: {x1.ndim}D and X2 got: {x2.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise ShapeError("cdist only supports non-negative p values")
    if x1.dtype.category != 2 or x2.dtype.category != 2:
        raise DTypeError(f"cdist only supports floating-point dtypes, got: {x1.dtype.name} and {x2.dtype.name}")
    if not x1.shape[-1]:
        shape = (*common_shape(tuple(x1.shape[:-2]), tuple(x2.shape[:-2])), x1.shape[-2], x2.shape[-2])
        return (x1.sum() * 0.0 + x2.sum() * 0.0).expand(*shape)
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


@checked
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The numerical gradient along each axis of `dim`, by second-order differences; at the boundaries of order `edge_order` (1 or 2).

    spacing: a number, one for each axis, or tensors of coordinates, one for each axis. Raises ShapeError for too few
    elements along an axis and for spacings that do not fit.

    >>> sg.gradient(sg.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    if edge_order not in (1, 2):
        raise ShapeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    axes = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    axes = [check_axis(d, input.ndim, "gradient") for d in axes]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"dim {next(a for a in axes if axes.count(a) > 1)} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    steps = (
        list(spacing)
        if isinstance(spacing, list | tuple)
        else [spacing] * (1 if isinstance(spacing, TensorBase) and spacing.ndim else len(axes))
    )
    if len(steps) != len(axes):
        raise ShapeError(
            f"torch.gradient expected spacing to be unspecified, a scalar or a list of length {len(axes)} but got {len(steps)}"
        )
    for a in axes:
        if input.shape[a] < edge_order + 1:
            raise ShapeError("torch.gradient expected each dimension size to be at least edge_order+1")
    x = input if input.dtype.category == 2 else input.to(dtype=default_dtype())
    return tuple(_slopes(x, a, step, edge_order) for a, step in zip(axes, steps, strict=True))


def _slopes(x: Any, axis: int, step: Any, edge_order: int) -> Any:
    n = x.shape[axis]

    def part(start: int, length: int) -> Any:
        return x.narrow(axis, start, length)

    if isinstance(step, TensorBase) and step.ndim:
        if step.shape[0] != n:
            raise ShapeError(
                f"torch.gradient expected each coordinate tensor to have {n} elements, but got {step.shape[0]}"
            )
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        coordinates: Any = step
        widths: Any = coordinates.diff().reshape(shape)
    else:
        widths = (
            wrap(build.constant(1, x.dtype, x._node.device, tuple(n - 1 if a == axis else 1 for a in range(x.ndim))))
            * step
        )
    left, right = widths.narrow(axis, 0, n - 2), widths.narrow(axis, 1, n - 2)
    slopes = (part(1, n - 1) - part(0, n - 1)) / widths
    below, above = slopes.narrow(axis, 0, n - 2), slopes.narrow(axis, 1, n - 2)
    middle = (below * right + above * left) / (left + right)
    first, last = slopes.narrow(axis, 0, 1), slopes.narrow(axis, n - 2, 1)
    if edge_order == 2:
        h1, h2 = widths.narrow(axis, 0, 1), widths.narrow(axis, 1, 1)
        first = first - h1 * (slopes.narrow(axis, 1, 1) - first) / (h1 + h2)
        h1, h2 = widths.narrow(axis, n - 2, 1), widths.narrow(axis, n - 3, 1)
        last = last + h1 * (last - slopes.narrow(axis, n - 3, 1)) / (h1 + h2)
    return cat([first, middle, last], axis)


@checked
def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """(hist, bin_edges) of points (..., d): the number of points in each cell of a grid, or the sum of their weights.

    bins: the number of bins for all axes or for each, or the edges along each axis. range: low and high of each axis in
    a flat list, by default the extent of the points. density: divide by the total and the cell volumes.

    >>> hist, edges = sg.histogramdd(sg.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2])
    >>> hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    if input.dtype.category != 2:
        raise DTypeError(f'"histogramdd" not implemented for {input.dtype.name}')
    if input.ndim < 2:
        raise ShapeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    d = input.shape[-1]
    points = input.detach().reshape(-1, d)
    wanted = [bins] * d if isinstance(bins, int) else list(bins)
    if len(wanted) != d:
        raise ShapeError(
            f"torch.histogramdd: size of bins should match the innermost dimension of input, {d}, but got {len(wanted)}"
        )
    ranges = [None] * d if range is None else [range[2 * k : 2 * k + 2] for k in np.arange(d)]
    columns = [points[:, k] for k in np.arange(d)]
    edges = [_edges(c, b, r) for c, b, r in zip(columns, wanted, ranges, strict=True)]
    shape = [e.shape[0] - 1 for e in edges]
    place: Any = wrap(build.constant(0, int32, input._node.device, (points.shape[0],)))
    inside: Any = None
    for column, edge, size in zip(columns, edges, shape, strict=True):
        at = _bins_of(column, edge)
        inside = at >= 0 if inside is None else inside & (at >= 0)
        place = place * size + at.clamp(min=0)
    mass: Any = wrap(build.constant(1, input.dtype, input._node.device, (points.shape[0],)))
    if weight is not None:
        mass = weight.detach().reshape(-1)
    hist = wrap(build.constant(0, input.dtype, input._node.device, (math.prod(shape),)))
    hist = hist.scatter_add(0, place, where(inside, mass, 0.0)).reshape(shape)
    if density:
        hist = hist / hist.sum()
        for k, edge in enumerate(edges):
            hist = hist / edge.diff().reshape([-1 if a == k else 1 for a in np.arange(d)])
    return Histogram(hist, tuple(edges))


@checked
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Row-major positions as positions along each axis of `shape`. Reads no values.

    Raises DTypeError for indices that are not integers, ShapeError for negative sizes.

    >>> sg.unravel_index(sg.tensor([4, 1]), (2, 3))
    (tensor([1, 0]), tensor([1, 1]))
    """
    if indices.dtype.category != 1 or indices.dtype.name in ("uint16", "uint32", "uint64"):
        raise DTypeError(
            f"unravel_index(): expected 'indices' to be an integer tensor, but got {indices.dtype.name}. Hint: .long() it."
        )
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"unravel_index(): 'shape' cannot have negative values, but got {sizes}")
    found, rest = [], indices
    for n in reversed(sizes):
        found.append(rest.remainder(n))
        rest = rest.floor_divide(n)
    return tuple(reversed(found))


@checked
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The positions of the lower triangle of a (row, col) matrix, in row-major order: (2, count), int32 unless `dtype` says another.

    >>> sg.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle("tril_indices", np.tril_indices, row, col, offset, dtype, device)


@checked
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The positions of the upper triangle of a (row, col) matrix, in row-major order: (2, count), int32 unless `dtype` says another.

    >>> sg.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle("triu_indices", np.triu_indices, row, col, offset, dtype, device)


def _triangle(what: str, places: Any, row: int, col: int, offset: int, dtype: Any, device: Any) -> Any:
    if row < 0 or col < 0:
        raise ShapeError(f"[{what}] row and col must be non-negative, got {row} and {col}")
    found = np.stack(places(row, offset, col)).astype(np.int32)
    made = host_tensor(found, device=device)
    return made if dtype is None else made.to(dtype=dtype)


__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "cartesian_prod",
    "cdist",
    "column_stack",
    "combinations",
    "dstack",
    "gradient",
    "histogramdd",
    "isin",
    "tril_indices",
    "triu_indices",
    "unravel_index",
]
