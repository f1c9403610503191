"""Writes an ONNX graph: names, constants, one copy of equal nodes, and no views without effect.

A `Value` may be smaller than its tensor: it is broadcast only when an operator needs the whole, since most of ONNX's operators broadcast
their operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dtypes import DType, bool_, int32, int64, named_dtype
from ..system.optional_packages import require
from .errors import OnnxError
from .sizes import Dim, Share, Size

TO_THE_END = np.iinfo(np.int64).max  # of an axis, in a Slice
WIDER = {
    "uint8": "int32",
    "int8": "int32",
    "uint16": "int32",
    "int16": "int32",
    "uint32": "int64",
}  # with arithmetic in runtimes
TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}  # those that ONNX calls otherwise
Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class Value:
    """A tensor of the graph. name: a tensor of shape `own`, which broadcasts to `shape`: of the same rank, or one element of shape ().

    made: what it is, for rules that know what comes next: a window view, an extremum, and what looks for its place.
    """

    name: str
    own: Shape
    shape: Shape
    dtype: DType
    made: tuple[Any, ...] = ()


class Writer:
    """The nodes of a graph. symbols: of each dynamic axis's name an input and the axis in it."""

    def __init__(self, symbols: dict[str, tuple[str, int]]) -> None:
        self.onnx = require("onnx", "onnx", "export to ONNX")
        self.symbols = symbols
        self.nodes: list[Any] = []
        self.initializers: dict[str, np.ndarray] = {}
        self._known: dict[Any, str] = {}  # nodes and constants, to their names
        self._reshaped: dict[str, tuple[str, Shape]] = {}  # what a name is a reshape of
        self._transposed: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._count = 0

    # -- nodes and constants

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """The name of the last result of an operator; equal nodes are one."""
        key = (op, inputs, repr(sorted(attributes.items())))
        if key not in self._known:
            names = [self.fresh(op.lower()) for _ in range(outputs)]
            self.nodes.append(self.onnx.helper.make_node(op, list(inputs), names, **attributes))
            self._known[key] = names[-1]
        return self._known[key]

    def fresh(self, word: str) -> str:
        self._count += 1
        return f"{word}_{self._count}"

    def constant(self, value: Any, dtype: DType | str) -> str:
        """The name of a constant array; equal ones are one."""
        dtype = named_dtype(dtype) if isinstance(dtype, str) else dtype
        array = np.asarray(value, dtype.numpy)
        key = (array.shape, dtype.name, array.tobytes())
        if key not in self._known:
            name = self._known[key] = self.fresh("constant")
            if dtype.is_half and array.dtype.itemsize > dtype.itemsize:  # NumPy has no bfloat16
                wide = self.constant(array, "float32")
                self.nodes.append(self.onnx.helper.make_node("Cast", [wide], [name], to=self.type_of(dtype)))
            else:
                self.initializers[name] = array
        return self._known[key]

    def type_of(self, dtype: DType) -> int:
        """ONNX's number of a dtype. Raises OnnxError for complex ones, which no runtime computes with."""
        if dtype.is_complex:
            raise OnnxError(f"[onnx] {dtype.name} has no arithmetic in ONNX. Hint: export real and imaginary parts.")
        return getattr(self.onnx.TensorProto, TYPES.get(dtype.name, dtype.name.upper()))

    def cast(self, name: str, before: DType | str, after: DType | str) -> str:
        before, after = (named_dtype(d) if isinstance(d, str) else d for d in (before, after))
        return name if before is after else self.node("Cast", name, to=self.type_of(after))

    # -- sizes

    def size(self, size: Dim) -> str:
        """A size as int64 of shape (1,)."""
        if size is None:
            raise OnnxError(
                "[onnx] a size follows from the dynamic axes by no formula that is known. Hint: export with fixed sizes, or fewer dynamic axes."
            )
        if not isinstance(size, Size):
            return self.constant([size], int64)
        found = ""
        for symbol in size.names:
            name, axis = self.symbols[symbol]
            here = self.node("Shape", name, start=axis, end=axis + 1)
            found = self.node("Mul", found, here) if found else here
        if size.factor != 1:
            found = self.node("Mul", found, self.constant([size.factor], int64))
        return self.node("Add", found, self.constant([size.offset], int64)) if size.offset else found

    def sizes(self, sizes: Sequence[Dim]) -> str:
        """Sizes as one array."""
        if all(isinstance(n, int) for n in sizes):
            return self.constant(list(sizes), int64)
        parts: list[str] = []
        plain: list[int] = []
        for n in sizes:
            if isinstance(n, int):
                plain.append(n)
                continue
            parts += [self.constant(plain, int64)] if plain else []
            parts.append(self.size(n))
            plain = []
        parts += [self.constant(plain, int64)] if plain else []
        return self.node("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def number(self, value: Any, dtype: DType) -> str:
        """A number of shape (), which a size may decide."""
        if isinstance(value, Share):
            size = self.cast(self.scalar(value.size), int64, dtype)
            number = self.constant(value.number, dtype)
            return self.node("Div" if value.divides else "Mul", number, size)
        if isinstance(value, Size):
            return self.cast(self.scalar(value), int64, dtype)
        if value is None:
            raise OnnxError(
                "[onnx] a number follows from the dynamic axes by no formula that is known. Hint: export with fixed sizes."
            )
        return self.constant(dtype.holding(value), dtype)

    def scalar(self, size: Dim) -> str:
        """A size as int64 of shape ()."""
        if isinstance(size, int):
            return self.constant(size, int64)
        return self.node("Squeeze", self.size(size), self.constant([0], int64))

    # -- values

    def value(self, name: str, shape: Shape, dtype: DType, *made: Any) -> Value:
        return Value(name, shape, shape, dtype, made)

    def full(self, v: Value) -> str:
        """The name of the whole tensor."""
        if v.own == v.shape:
            return v.name
        same = len(v.own) == len(v.shape)
        target = [1 if same and a == b else b for a, b in zip(v.own if same else v.shape, v.shape, strict=True)]
        return self.node("Expand", v.name, self.sizes(target))

    def reshape(self, v: Value, shape: Shape) -> Value:
        """The same elements in another shape."""
        if math.prod(n if isinstance(n, int) else 2 for n in v.own) == 1 and all(n is not None for n in v.own):
            return replace(v, name=self.reshaped(v.name, v.own, ()), own=(), shape=shape, made=())
        if without_ones(v.shape) == without_ones(shape):
            sizes = iter([a for a, n in zip(v.own, v.shape, strict=True) if n != 1])
            own = tuple(1 if n == 1 else next(sizes) for n in shape)
            return Value(self.reshaped(v.name, v.own, own), own, shape, v.dtype)
        return self.value(self.reshaped(self.full(v), v.shape, shape), shape, v.dtype)

    def reshaped(self, name: str, before: Shape, after: Shape) -> str:
        """A tensor in another shape; reshapes of reshapes are one."""
        name, before = self._reshaped.get(name, (name, before))
        if before == after:
            return name
        made = self._reshape(name, before, after)
        self._reshaped[made] = (name, before)
        return made

    def _reshape(self, name: str, before: Shape, after: Shape) -> str:
        unknown = [k for k, n in enumerate(after) if not isinstance(n, int)]
        if not unknown or 0 in after:
            return self.node("Reshape", name, self.sizes(after), allowzero=1)
        if len(unknown) == 1:
            return self.node(
                "Reshape", name, self.constant([-1 if k in unknown else n for k, n in enumerate(after)], int64)
            )
        same = _common_beginning(before, after)
        if all(k < same for k in unknown[:-1]):  # 0: the size that it has
            sizes = [0 if k < same and k in unknown else -1 if k in unknown else n for k, n in enumerate(after)]
            return self.node("Reshape", name, self.constant(sizes, int64))
        if without_ones(before) != without_ones(after):
            return self.node("Reshape", name, self.sizes(after), allowzero=1)
        ones = [k for k, n in enumerate(before) if n == 1]
        if ones:
            name = self.node("Squeeze", name, self.constant(ones, int64))
        ones = [k for k, n in enumerate(after) if n == 1]
        return self.node("Unsqueeze", name, self.constant(ones, int64)) if ones else name

    def transposed(self, name: str, shape: Shape, axes: Sequence[int]) -> str:
        """A tensor with its axes in another order; transpositions of transpositions are one."""
        after = tuple(shape[a] for a in axes)
        if [a for a in axes if shape[a] != 1] == sorted(a for a in axes if shape[a] != 1):
            return self.reshaped(name, shape, after)
        source, order = self._transposed.get(name, (name, tuple(range(len(shape)))))
        order = tuple(order[a] for a in axes)
        if order == tuple(range(len(order))):
            return source
        made = self.node("Transpose", source, perm=list(order))
        self._transposed[made] = (source, order)
        return made

    def elementwise(self, form: Callable[..., str], inputs: Sequence[Value], shape: Shape, dtype: DType) -> Value:
        """An operator of elements, of inputs as small as they are. form: the name of the result, of the writer and names."""
        rank = max(len(v.own) for v in inputs)
        own = tuple(_broadcast([v.own[k] for v in inputs if len(v.own) == rank]) for k in range(rank))
        return Value(form(self, *(v.name for v in inputs)), own, shape, dtype)

    def widened(self, dtype: DType) -> DType:
        """The dtype in which runtimes have arithmetic for numbers of this one."""
        return named_dtype(WIDER.get(dtype.name, dtype.name))

    # -- parts that several rules need

    def slice(
        self, name: str, starts: Sequence[Dim], ends: Sequence[Dim], axes: Sequence[int], steps: Sequence[Dim]
    ) -> str:
        parts = (
            self.sizes(starts),
            self.sizes(ends),
            self.constant(list(axes), int64),
            self.sizes(list(steps)),
        )
        return self.node("Slice", name, *parts)

    def pad(
        self,
        name: str,
        shape: Shape,
        dtype: DType,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int],
        value: Any,
    ) -> tuple[str, Shape]:
        """With elements around, and between neighbours, along each axis; below 0, so many are left out."""
        if not all(isinstance(n, int) for n in (*low, *high, *interior)):
            raise OnnxError(
                "[onnx] a border is wider for other sizes of the dynamic axes. Hint: export with fixed sizes."
            )
        fill = self.number(value, dtype)
        for axis, count in enumerate(interior):
            if count and shape[axis] != 1:
                name, shape = self._spread(name, shape, axis, count, fill)
        cut = [k for k, (a, b) in enumerate(zip(low, high, strict=True)) if min(a, b) < 0]
        if cut:
            ends = [min(high[k], 0) or TO_THE_END for k in cut]
            name = self.slice(name, [max(-low[k], 0) for k in cut], ends, cut, [1] * len(cut))
        wide = [k for k, (a, b) in enumerate(zip(low, high, strict=True)) if max(a, b) > 0]
        if wide:
            borders = [*(max(low[k], 0) for k in wide), *(max(high[k], 0) for k in wide)]
            name = self._padded(name, dtype, borders, fill, wide)
        return name, tuple(plus(n, a + b) for n, a, b in zip(shape, low, high, strict=True))

    def _padded(self, name: str, dtype: DType, borders: Sequence[int], fill: str, axes: Sequence[int]) -> str:
        """Pads, of which runtimes have fewer dtypes."""
        wide = int32 if dtype is bool_ else self.widened(dtype)
        made = self.node(
            "Pad",
            self.cast(name, dtype, wide),
            self.constant(borders, int64),
            self.cast(fill, dtype, wide),
            self.constant(list(axes), int64),
        )
        return self.cast(made, wide, dtype)

    def _spread(self, name: str, shape: Shape, axis: int, count: int, fill: str) -> tuple[str, Shape]:
        """Elements between neighbours along one axis: after each, and those after the last cut off."""
        inner = (*shape[: axis + 1], 1, *shape[axis + 1 :])
        name = self.reshaped(name, shape, inner)
        borders = self.constant([0, count], int64)
        name = self.node("Pad", name, borders, fill, self.constant([axis + 1], int64))
        n = shape[axis]
        whole = n.times(count + 1) if isinstance(n, Size) else None if n is None else n * (count + 1)
        wide = (*shape[:axis], whole, *shape[axis + 1 :])
        name = self.reshaped(name, (*shape[: axis + 1], count + 1, *shape[axis + 1 :]), wide)
        return self.slice(name, [0], [-count], [axis], [1]), tuple(
            plus(n, -count) if k == axis else n for k, n in enumerate(wide)
        )


def plus(n: Dim, number: int) -> Dim:
    return n.plus(number) if isinstance(n, Size) else None if n is None else n + number


def _common_beginning(before: Shape, after: Shape) -> int:
    """How many axes a reshape leaves as they are. Of sizes that nothing is known of, they are equal if those of the rest are."""
    count = next(
        (k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    unknown = None in before[:count]
    rest = (*before[count:], *after[count:])
    return count if not unknown or all(isinstance(n, int) for n in rest) else before[:count].index(None)


def without_ones(shape: Shape) -> list[Dim]:
    return [n for n in shape if n != 1]


def _broadcast(sizes: Sequence[Dim]) -> Dim:
    return next((n for n in sizes if n != 1), 1)
