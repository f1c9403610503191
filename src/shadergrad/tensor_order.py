# pyright: reportGeneralTypeIssues=false
# Why: in a mixin, self is the whole Tensor, and pyright cannot know that the mixin is used nowhere else.
"""Tensor methods that scan and order: products, cumulative sums, sorting, quantiles, norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import bool_, int32, parse_dtype
from .errors import DTypeError, IndexRangeError, ShapeError
from .graph import node as nodes
from .graph.node import Node, make
from .norms import vector_norm
from .primitives import elementwise as e
from .primitives import views as v
from .primitives.dot import Dot
from .primitives.indexing import ArgSort, Gather
from .primitives.reduce import ReduceProd
from .tensor_math import ValuesAndIndices, _reduce, _without, cast, check_axis, floating, where, wrap

if TYPE_CHECKING:
    from .tensor import Tensor

SCAN_BLOCK = 64


class OrderMethods:
    """Scans, sorting and what is made of them."""

    __slots__ = ()

    def prod(self: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The product; bools give int32."""
        return _reduce(ReduceProd, _summable(self, dtype), dim, keepdim, "prod")

    def cumsum(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """The sums of the first 1, 2, … elements along `dim`."""
        return _along_last(_summable(self, dtype), dim, "cumsum", _running_sum)

    def cumprod(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """The products of the first 1, 2, … elements along `dim`."""
        return _along_last(_summable(self, dtype), dim, "cumprod", _running_product)

    def argsort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
        """Positions that sort along `dim`, int32; always stable, NaN as the largest."""
        axis = check_axis(dim, self.ndim, "argsort")
        node = cast(self.detach()._node, int32) if self.dtype is bool_ else self.detach()._node
        if not node.ndim:
            return wrap(nodes.constant(0, int32, node.device))
        return wrap(make(ArgSort(axis, bool(descending)), node))

    def sort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
        """(values, indices) in order along `dim`."""
        if not self.ndim:
            return ValuesAndIndices(self.clone(), self.argsort())
        indices = self.argsort(dim, descending)
        return ValuesAndIndices(_pick(self, check_axis(dim, self.ndim, "sort"), indices), indices)

    def topk(self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """(values, indices) of the k largest or smallest along `dim`, in order."""
        axis = check_axis(dim, self.ndim, "topk")
        size = self.shape[axis] if self.ndim else 1
        if not 0 <= k <= size:
            raise IndexRangeError(f"[topk] selected index k out of range: k is {k}, the axis has {size} elements.")
        if not self.ndim:
            return ValuesAndIndices(self.clone(), self.argsort())
        indices = self.argsort(axis, descending=largest).narrow(axis, 0, k)
        return ValuesAndIndices(_pick(self, axis, indices), indices)

    def kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        """(value, index) of the k-th smallest, counted from 1, along `dim`."""
        axis = check_axis(dim, self.ndim, "kthvalue")
        if not 1 <= k <= self.shape[axis]:
            raise IndexRangeError(f"[kthvalue] selected number k out of range for dimension {dim}: {k}.")
        indices = self.argsort(axis).narrow(axis, k - 1, 1)
        values = _pick(self, axis, indices)
        return (
            ValuesAndIndices(values, indices)
            if keepdim
            else ValuesAndIndices(_without(values, [axis]), _without(indices, [axis]))
        )

    def median(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        """The lower median; of all, or as (values, indices) along `dim`. NaN where any element is NaN."""
        if dim is None:
            flat = self.reshape(-1)
            return _median(flat, 0, False)[0]
        return _median(self, check_axis(dim, self.ndim, "median"), keepdim)

    def quantile(self: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Quantiles with linear interpolation; a 1-d q gives a new first axis."""
        if self.dtype.category != 2:
            raise DTypeError("quantile() input tensor must be either float or double dtype")
        points = np.asarray(q if isinstance(q, int | float) else q.detach().numpy(), np.float64)
        if points.ndim > 1 or points.min(initial=0.0) < 0 or points.max(initial=0.0) > 1:
            raise ShapeError("quantile() q must be a scalar or a 1-d tensor with values in the range [0, 1]")
        x, axis = (self.reshape(-1), 0) if dim is None else (self, check_axis(dim, self.ndim, "quantile"))
        ordered = x.sort(axis)[0]
        last = x.shape[axis] - 1
        spoiled = x.isnan().any(axis, keepdim=True)
        results = []
        for point in points.reshape(-1):
            place = point * last
            low = min(math.floor(float(place)), last)
            a, b = ordered.narrow(axis, low, 1), ordered.narrow(axis, min(low + 1, last), 1)
            value = where(spoiled, math.nan, a + (b - a) * (place - low))
            if dim is None:
                value = value.reshape((1,) * self.ndim if keepdim else ())
            elif not keepdim:
                value = _without(value, [axis])
            results.append(value)
        from .tensor_shape import stack

        return results[0] if points.ndim == 0 else stack(results)

    def norm(
        self: Tensor,
        p: float | str | None = "fro",
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
    ) -> Tensor:
        """The p-norm of the elements: 'fro' and 2, 1, 0, inf, -inf or any number. Its gradient at 0 is 0."""
        if p not in ("fro", None) and not isinstance(p, int | float):
            raise ShapeError(f"[norm] p is {p!r}; known are 'fro' and numbers.")
        x = self if dtype is None else self.to(dtype=dtype)
        return vector_norm(wrap(floating(x)), float(p) if isinstance(p, int | float) else 2.0, dim, keepdim)


def _summable(x: Tensor, dtype: Any) -> Node:
    if dtype is not None:
        return cast(x._node, parse_dtype(dtype))
    return cast(x._node, int32) if x.dtype is bool_ else x._node


def _pick(x: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Elements at positions along an axis."""
    node = x._node
    sizes = tuple(n if a == axis else m for a, (n, m) in enumerate(zip(node.shape, indices.shape, strict=True)))
    assert sizes == node.shape
    return wrap(make(Gather(axis), node, indices._node))


def _median(x: Tensor, axis: int, keepdim: bool) -> Any:
    n = x.shape[axis]
    if n == 0:
        raise IndexRangeError(f"[median] expected a non-empty axis, but the shape is {tuple(x.shape)}.")
    order = x.argsort(axis)
    middle, end = order.narrow(axis, (n - 1) // 2, 1), order.narrow(axis, n - 1, 1)
    if x.dtype.category == 2:
        first_nan = x.isnan().to(dtype=int32).argmax(axis, keepdim=True)
        middle = where(_pick(x.detach(), axis, end).isnan(), first_nan, middle)
    values = _pick(x, axis, middle)
    return (
        ValuesAndIndices(values, middle)
        if keepdim
        else ValuesAndIndices(_without(values, [axis]), _without(middle, [axis]))
    )


def _along_last(node: Node, dim: int, what: str, scan: Any) -> Tensor:
    """A scan of rows, applied along any axis."""
    axis = check_axis(dim, node.ndim, what)
    if node.ndim == 0 or node.size == 0:
        return wrap(node)
    order = (*(a for a in range(node.ndim) if a != axis), axis)
    moved = nodes.permute(node, order)
    rows = nodes.reshape(moved, (node.size // node.shape[axis], node.shape[axis]))
    back = tuple(int(a) for a in np.argsort(order))
    return wrap(nodes.permute(nodes.reshape(scan(rows), moved.shape), back))


def _running_sum(rows: Node) -> Node:
    """Blocks are multiplied by a triangle of ones, and the sums of the blocks before are added: a product each level."""
    count, n = rows.shape
    if n <= SCAN_BLOCK:
        return _triangle_product(rows)
    blocks = -(-n // SCAN_BLOCK)
    extra = blocks * SCAN_BLOCK - n
    if extra:
        rows = make(v.Pad((0, 0), (0, extra), (0, 0), 0), rows)
    inside = _triangle_product(nodes.reshape(rows, (count * blocks, SCAN_BLOCK)))
    inside = nodes.reshape(inside, (count, blocks, SCAN_BLOCK))
    totals = nodes.reshape(
        make(v.Slice((0, 0, SCAN_BLOCK - 1), (count, blocks, 1), (1, 1, 1)), inside), (count, blocks)
    )
    running = _running_sum(totals)
    before = make(v.Slice((0, 0), (count, blocks), (1, 1)), make(v.Pad((0, 1), (0, 0), (0, 0), 0), running))
    result = inside + nodes.broadcast(nodes.reshape(before, (count, blocks, 1)), inside.shape)
    flat = nodes.reshape(result, (count, blocks * SCAN_BLOCK))
    return make(v.Slice((0, 0), (count, n), (1, 1)), flat) if extra else flat


def _triangle_product(rows: Node) -> Node:
    """Running sums of short rows: entry (j, i) of the triangle is 1 where j <= i."""
    count, n = rows.shape
    place = nodes.iota(n, rows.device)
    j, i = (nodes.broadcast(nodes.reshape(place, s), (n, n)) for s in ((n, 1), (1, n)))
    triangle = make(e.Cast(rows.dtype), make(e.LessEqual(), j, i))
    product = make(Dot(), nodes.reshape(rows, (1, count, n)), nodes.reshape(triangle, (1, n, n)))
    return nodes.reshape(product, (count, n))


def _running_product(rows: Node) -> Node:
    """Doubling (Hillis and Steele, 1986): after the pass with distance d, an element is the product of the last 2 d."""
    count, n = rows.shape
    distance = 1
    while distance < n:
        one = 1 if rows.dtype.category == 1 else 1.0
        shifted = make(v.Pad((0, distance), (0, 0), (0, 0), one), rows)
        rows = make(e.Mul(), rows, make(v.Slice((0, 0), (count, n), (1, 1)), shifted))
        distance *= 2
    return rows
