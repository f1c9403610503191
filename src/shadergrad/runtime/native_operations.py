"""Single operations of the interpreter with the same bits as native kernels. In: a primitive. Out: an object with the same method `numpy`.

A program is interpreted before it is compiled (cpu.py), and an operation may run by itself or within a captured step: its result must be the
same. So the interpreter takes functions of float32, small products, convolutions and scattered sums from machine code, each text of
which serves all sizes. It adds float32 in float64 in the order of row kernels, and computes attention by the operations that native kernels
consist of. Both use IEEE arithmetic. Operands of BLAS have the same memory layout as in native kernels: row-major results, and views of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..compile.groups import Group
from ..compile.native import kernel, product, scatter
from ..compile.native.domain import Domain, domain_of_reduction
from ..compile.native.regions import TARGET, VIEWS, attention_composed
from ..compile.native.registers import LANES
from ..compile.native.rules import OF_SINGLE
from ..compile.rewrite import Rewriter
from ..cpython import address_of
from ..dtypes import float32, parse_dtype, uint32
from ..graph.leaves import Alias, Constant, Iota, Placeholder
from ..graph.node import Node, topological
from ..graph.primitive import OWN, Primitive
from ..plan import IN_SCATTER
from ..primitives.attention import Attention, AttentionGradient
from ..primitives.dot import Dot
from ..primitives.elementwise import Pow
from ..primitives.indexing import ScatterAdd, check_range
from ..primitives.random import Threefry
from ..primitives.reduce import ReduceMax, ReduceMin, ReduceSum
from ..primitives.window import Conv
from . import llvm, native_convolution, products
from .threads import pool

FEWEST = 1 << 14  # elements that a thread takes
FEW_DRAWN = 1 << 14  # words that NumPy computes while machine code loads
FEW_SCATTERED = 1 << 10  # elements that NumPy adds in less time than a call of machine code takes


class Operation:
    """Base: an operation of the interpreter, whose result is row-major."""

    def __init__(self, of: Primitive) -> None:
        self.of = of
        self.name, self.kind, self.structural = of.name, of.kind, of.structural

    def numpy(self, *arrays: Any) -> Any:
        return np.asarray(self.of.numpy(*arrays), order="C")

    def writer(self) -> Callable[..., Any]:
        """A function that writes the value of arrays to another, `out`, which may be one of them."""
        return self.of.writer()  # type: ignore[attr-defined]


def operation_of(primitive: Any) -> Any:
    """A primitive as the interpreter runs it beside native kernels; often the primitive itself."""
    kind = _operation_for(type(primitive))
    return primitive if kind is None else kind(primitive)


@cache
def _operation_for(kind: type[Any]) -> type[Operation] | None:
    if kind.__name__ in VIEWS or issubclass(kind, Alias | Constant | Iota):
        return None
    if not kind.__module__.startswith(OWN):
        return Operation
    return next((_KINDS[k] for k in _KINDS if issubclass(kind, k)), Operation)


# -- functions of float32


class _Function(Operation):
    """Computed by the native kernel of this operation alone, on one row."""

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        if x.dtype != np.float32 or not x.size:
            return super().numpy(x)
        out = np.empty(x.shape, np.float32)
        self._into(x, out)
        return out

    def writer(self) -> Callable[..., Any]:
        return self._write

    def _write(self, x: np.ndarray, out: np.ndarray) -> None:
        if x.dtype == np.float32 and x.shape == out.shape and out.flags.c_contiguous:
            self._into(x, out)
        else:
            out[...] = self.numpy(x)

    def _into(self, x: np.ndarray, out: np.ndarray) -> None:
        x = np.asarray(x, order="C")
        rest = x.size % LANES
        whole = x.size - rest
        function = _function(type(self.of))
        if whole:
            # threads' ranges overlap by some lanes; if out is x, the function would be applied to these twice
            _run(function, (x, out), whole, whole if np.may_share_memory(x, out) else FEWEST)
        if rest:
            ends = np.zeros(LANES, np.float32)
            ends[:rest] = x.reshape(-1)[whole:]
            _run(function, (ends, ends), LANES, LANES)
            out.reshape(-1)[whole:] = ends[:rest]


@cache
def _function(kind: type[Primitive]) -> llvm.Function:
    x = Node(Placeholder(0, (LANES,), float32), (), (LANES,), float32, "cpu")
    y = Node(kind(), (x,), (LANES,), float32, "cpu")
    text = kernel.write(Group("map", [y], size=LANES), Domain(1, 1, LANES, LANES, flat=True), lambda n: n is x).text
    return llvm.function(text)


def _run(function: llvm.Function, arrays: tuple[np.ndarray, ...], units: int, least: int) -> None:
    table = np.array([*map(address_of, arrays)], np.uint64)
    pool.run(function, address_of(table), units, least)


# -- random words


class _Threefry(Operation):
    """Computed by the native kernel of this operation alone, on one row."""

    def numpy(self, *arrays: Any) -> Any:
        key, x0, x1 = arrays
        if not self.of.joined or x0.size < FEW_DRAWN:  # type: ignore[attr-defined]
            return super().numpy(key, x0, x1)
        key, x0, x1 = (np.asarray(x, order="C") for x in arrays)
        out = np.empty(x0.shape, np.uint32)
        _run(_threefry(), (key, x0, x1, out), x0.size, FEWEST)
        return out


@cache
def _threefry() -> llvm.Function:
    key, x0, x1 = (
        Node(Placeholder(k, s, uint32), (), s, uint32, "cpu") for k, s in enumerate(((2,), (LANES,), (LANES,)))
    )
    y = Node(Threefry(True), (key, x0, x1), (LANES,), uint32, "cpu")
    written = kernel.write(Group("map", [y], size=LANES), Domain(1, 1, LANES, LANES, flat=True), lambda n: n is not y)
    assert written.buffers == (key, x0, x1, y), "the buffers come in another order"
    return llvm.function(written.text)


# -- reductions


class _Reduction(Operation):
    """Joins elements in the order of row kernels; sums floats in float64."""

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        axes = self.of.axes  # type: ignore[attr-defined]
        shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
        count = math.prod(x.shape[a] for a in axes)
        if x.dtype.kind != "f" or x.dtype.itemsize < 4 or not x.size:
            return super().numpy(x)
        if count == 1:
            return x.reshape(shape)
        is_sum = isinstance(self.of, ReduceSum)
        join = np.add if is_sum else np.maximum if isinstance(self.of, ReduceMax) else np.minimum
        start = self.of.identity(parse_dtype(x.dtype))  # type: ignore[attr-defined]
        found = _joined(x, axes, join, start, np.dtype(np.float64) if is_sum else x.dtype)
        return found.astype(x.dtype).reshape(shape)


def _joined(x: np.ndarray, axes: tuple[int, ...], join: np.ufunc, start: float, dtype: np.dtype[Any]) -> np.ndarray:
    """One result a row. NumPy joins elements in order only along an axis that is not an array's last."""
    domain = domain_of_reduction(x.shape, axes)
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    if domain.columns:
        rows = x.transpose((*axes, *kept)).reshape(domain.inner, domain.outer)
        return join.reduce(np.ascontiguousarray(rows, dtype), axis=0, initial=start)
    rows = x.transpose((*kept, *axes)).reshape(domain.outer, domain.segments, domain.inner)
    lanes = domain.lanes
    full, rest = divmod(domain.inner, lanes)
    blocks = np.full((domain.outer, domain.segments, full + bool(rest), lanes), start, dtype)
    blocks[:, :, :full] = rows[:, :, : full * lanes].reshape(domain.outer, domain.segments, full, lanes)
    if rest:  # the last elements of a row are the last of the last lanes
        blocks[:, :, full, lanes - rest :] = rows[:, :, full * lanes :]
    found = join.reduce(blocks.reshape(domain.outer, -1, lanes), axis=1, initial=start)
    while lanes > 1:
        lanes //= 2
        found = join(found[:, :lanes], found[:, lanes : 2 * lanes])
    return found


# -- products


class _Product(Operation):
    """Small products of a batch are machine code, which adds from the first element of the contraction to the last; BLAS computes others."""

    def numpy(self, *arrays: Any) -> Any:
        a, b = arrays
        (batch, m, k), n = a.shape, b.shape[2]
        if self.of.chunk or a.dtype != np.float32 or not product.serves_sizes(batch, m, n, k):  # type: ignore[attr-defined]
            return self._by_blas(laid(a), laid(b))
        a, b = np.asarray(a, order="C"), np.asarray(b, order="C")
        out, sizes = np.empty((batch, m, n), np.float32), np.array([m, n, k])
        _run(_product(), (a, b, out, sizes), batch, max(1, FEWEST // (m * n)))
        return out

    def _by_blas(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if self.of.chunk or a.dtype.kind != "f" or a.dtype.itemsize < 4 or a.dtype != b.dtype:  # type: ignore[attr-defined]
            return super().numpy(a, b)
        return products.multiply(a, b, np.empty((*a.shape[:2], b.shape[2]), a.dtype))


@cache
def _product() -> llvm.Function:
    return llvm.function(product.ANY_SIZE)


def laid(x: np.ndarray) -> np.ndarray:
    """An array of matrices in which axes of one element have the strides of their shape, because BLAS is called by strides."""
    if x.flags.c_contiguous:
        return x.reshape(-1).reshape(x.shape)
    turned = x.swapaxes(-1, -2)
    return turned.reshape(-1).reshape(turned.shape).swapaxes(-1, -2) if turned.flags.c_contiguous else x


class _Convolution(Operation):
    """Computed by machine code, for float32."""

    def numpy(self, *arrays: Any) -> Any:
        x, w = arrays
        found = native_convolution.convolved(self.of, x, w)  # type: ignore[arg-type]
        return super().numpy(x, w) if found is None else found


# -- scattered sums


class _ScatterAdd(Operation):
    """Computed by machine code, which adds to an element in the order of the axis, as NumPy's `add.at` does: threads share out columns."""

    def numpy(self, *arrays: Any) -> Any:
        positions, source = arrays
        axis, size = self.of.axis, self.of.size  # type: ignore[attr-defined]
        if not _serves_scatter(positions, source):
            return super().numpy(positions, source)
        positions = _checked_positions(self.of, positions, source)
        out = np.zeros((*source.shape[:axis], size, *source.shape[axis + 1 :]), source.dtype)
        _scatter(self.of, positions, source, out)
        return out


def scatter_into(of: Any, positions: np.ndarray, source: np.ndarray, out: np.ndarray) -> None:
    """Write the scattered sums to an array. Raises PositionError before it writes."""
    if not _serves_scatter(positions, source) or out.dtype != source.dtype:
        out[...] = of.numpy(positions, source)
        return
    positions = _checked_positions(of, positions, source)
    out.fill(0)
    _scatter(of, positions, source, out)


def _serves_scatter(positions: np.ndarray, source: np.ndarray) -> bool:
    served = source.dtype.name in scatter.TYPES and positions.dtype.name in scatter.POSITIONS
    return served and source.size > FEW_SCATTERED


def _checked_positions(of: Any, positions: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Checked positions; one for a row of columns if all columns have the same."""
    behind = source.shape[of.axis + 1 :]
    same = all(n == 1 or s == 0 for n, s in zip(behind, positions.strides[of.axis + 1 :], strict=True))
    if math.prod(behind) > 1 and same:
        positions = positions[(..., *(0 for _ in behind))]
    check_range(IN_SCATTER, positions, of.size)
    return positions


def _scatter(of: Any, positions: np.ndarray, source: np.ndarray, out: np.ndarray) -> None:
    """Add to zeros. positions: as checked."""
    axis, shape = of.axis, source.shape
    length, outer, columns = shape[axis], math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    shared = columns > 1 and positions.ndim == axis + 1
    positions, source = np.asarray(positions, order="C"), np.asarray(source, order="C")
    text = scatter.scatter_text(source.dtype.name, positions.dtype.name, shared)
    units = outer * -(-columns // scatter.LANES)
    arrays = (positions, source, out, np.array([length, columns, of.size], np.int64))
    _run(llvm.function(text), arrays, units, max(1, FEWEST // (length * min(columns, scatter.LANES))))


# -- what is composed


class _Power(Operation):
    """With one exponent for all elements, computed as in native kernels with a constant exponent."""

    def numpy(self, *arrays: Any) -> Any:
        x, exponent = arrays
        if x.dtype.kind == "f" and exponent.size and (exponent == exponent.flat[0]).all():
            rule = _POWERS.get(float(exponent.flat[0]))
            if rule is not None:
                return np.array(np.broadcast_to(rule(x), np.broadcast_shapes(x.shape, exponent.shape)))
        return super().numpy(x, exponent)

    def writer(self) -> Callable[..., Any]:
        def write(x: np.ndarray, exponent: np.ndarray, out: np.ndarray) -> None:
            out[...] = self.numpy(x, exponent)

        return write


_POWERS: dict[float, Callable[[Any], Any]] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    0.5: np.sqrt,
    -1.0: lambda x: x.dtype.type(1) / x,
}


class _Attention(Operation):
    """Computed by the operations of its composition, if native kernels use these."""

    def numpy(self, *arrays: Any) -> Any:
        dtypes = [parse_dtype(a.dtype) for a in arrays]
        given = tuple(
            Node(Placeholder(k, a.shape, d), (), a.shape, d, "cpu")
            for k, (a, d) in enumerate(zip(arrays, dtypes, strict=True))
        )
        composed = attention_composed(Rewriter((), "cpu", TARGET), self.of, given)
        if composed is None:
            return super().numpy(*arrays)
        values: dict[int, Any] = {id(n): a for n, a in zip(given, arrays, strict=True)}
        for node in topological([composed], lambda n: n.inputs):
            if id(node) not in values:
                values[id(node)] = operation_of(node.primitive).numpy(*(values[id(i)] for i in node.inputs))
        return values[id(composed)]


_KINDS: dict[type[Primitive], type[Operation]] = {
    **dict.fromkeys(OF_SINGLE, _Function),
    ReduceSum: _Reduction,
    ReduceMax: _Reduction,
    ReduceMin: _Reduction,
    Dot: _Product,
    Conv: _Convolution,
    ScatterAdd: _ScatterAdd,
    Pow: _Power,
    Threefry: _Threefry,
    Attention: _Attention,
    AttentionGradient: _Attention,
}
