"""Views: the same elements under another index. They cost nothing, because a kernel that reads a view only transforms the index.
`source_index` maps an index of the result to an index of the input (see graph/index.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dtypes import DType, int32
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph import node as nodes
from ..graph.index import ZERO, Index, reshape_index
from ..graph.node import Node
from ..graph.primitive import Form, Number, Primitive, Shape
from ..symbolic_sizes import Varying

Indices = tuple[Index, ...]
Places = tuple[int | None, ...]


class View(Primitive):
    """Base class of views: each element of the result is an element of the only input."""

    moves = True
    kind: ClassVar[str] = ""

    def source_index(self, index: Indices, shape: Shape) -> Indices:
        """The index into the input, of the given shape, for `index` into the result."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Reshape(View):
    """The elements in row-major order, in another shape."""

    kind = "view"
    shape: Shape

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if math.prod(self.shape) != x.size:
            raise ShapeError(f"[reshape] shape {self.shape} is invalid for input of size {x.size} (shape {x.shape}).")
        return self.shape, x.dtype

    def numpy(self, x):
        return np.reshape(x, self.shape)

    def vjp(self, g, node):
        return (build.reshape(g, node.inputs[0].shape),)

    def source_index(self, index, shape):
        return reshape_index(index, self.shape, shape)


@dataclass(frozen=True, eq=False)
class Permute(View):
    """Axes in another order: axis i of the result is axis axes[i] of the input."""

    kind = "view"
    axes: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if sorted(self.axes) != list(range(x.ndim)):
            raise ShapeError(f"[permute] axes {self.axes} do not name each axis of shape {x.shape} once.")
        return tuple(x.shape[a] for a in self.axes), x.dtype

    def numpy(self, x):
        return np.transpose(x, self.axes)

    def vjp(self, g, node):
        return (build.permute(g, tuple(int(a) for a in np.argsort(self.axes))),)

    def source_index(self, index, shape):
        result = [index[0]] * len(index) if index else []
        for position, axis in enumerate(self.axes):
            result[axis] = index[position]
        return tuple(result)


@dataclass(frozen=True, eq=False)
class Expand(View):
    """Repeats axes of size 1 to the given shape, which has the same rank."""

    kind = "view"
    shape: Shape

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if len(self.shape) != x.ndim or any(a not in (1, b) for a, b in zip(x.shape, self.shape, strict=True)):
            raise ShapeError(f"[expand] shape {x.shape} does not broadcast to {self.shape}.")
        return self.shape, x.dtype

    def numpy(self, x):
        return np.broadcast_to(x, self.shape)

    def vjp(self, g, node):
        shape = node.inputs[0].shape
        axes = tuple(a for a, (n, m) in enumerate(zip(shape, self.shape, strict=True)) if n != m)
        return (build.sum_over(g, axes),)

    def source_index(self, index, shape):
        return tuple(ZERO if n == 1 else i for i, n in zip(index, shape, strict=True))


@dataclass(frozen=True, eq=False)
class Slice(View):
    """The elements start, start + step, ... along each axis, `sizes` of them; steps are positive."""

    kind = "view"
    starts: tuple[int, ...]
    sizes: Shape
    steps: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        for n, start, size, step in zip(x.shape, self.starts, self.sizes, self.steps, strict=True):
            if start < 0 or step < 1 or size < 0 or (size and start + (size - 1) * step >= n):
                raise ShapeError(
                    f"[slice] starts {self.starts}, sizes {self.sizes}, steps {self.steps} leave shape {x.shape}."
                )
        return self.sizes, x.dtype

    def _slices(self) -> tuple[slice, ...]:
        return tuple(
            slice(a, a + max(n - 1, 0) * s + 1 if n else a, s)
            for a, n, s in zip(self.starts, self.sizes, self.steps, strict=True)
        )

    def numpy(self, x):
        return x[self._slices()]

    def vjp(self, g, node):
        shape = node.inputs[0].shape
        if g.size == 0:
            return (build.constant(0, g.dtype, g.device, shape),)
        highs = tuple(
            n - a - (k - 1) * s - 1 for n, a, k, s in zip(shape, self.starts, self.sizes, self.steps, strict=True)
        )
        return (nodes.make(Pad(self.starts, highs, tuple(s - 1 for s in self.steps), 0), g),)

    def source_index(self, index, shape):
        return tuple(i * step + start for i, start, step in zip(index, self.starts, self.steps, strict=True))

    def without_numbers(self):
        return Form(Slice, self.sizes, self.steps)

    def numbers(self, dtype):
        return tuple((start, int32) for start in self.starts)

    def opened(self, inputs, numbers):
        return nodes.make(SliceAt(_known(numbers), self.sizes, self.steps), *inputs, *_open(numbers))


def _known(numbers: Sequence[int | Node]) -> Places:
    """The numbers, with None in place of each node."""
    return tuple(None if isinstance(n, Node) else n for n in numbers)


def _open(numbers: Sequence[Number | Node]) -> Iterator[Node]:
    return (n for n in numbers if isinstance(n, Node))


def _filled_in(places: Places, given: Iterable[Any]) -> tuple[Any, ...]:
    """The places, with each None replaced by the next given value."""
    rest = iter(given)
    return tuple(next(rest) if place is None else place for place in places)


def _check_places(name: str, places: Places, given: Sequence[Node]) -> None:
    if places.count(None) != len(given) or any(n.shape != () or n.dtype is not int32 for n in given):
        raise ShapeError(f"[{name}] {places} asks for {places.count(None)} int32 numbers, and got {list(given)}.")


@dataclass(frozen=True, eq=False)
class SliceAt(Primitive):
    """A Slice whose starts are data: after the sliced input, there is an int32 input of shape () for each None. A GPU limits the start
    so that the slice stays within the input."""

    moves = True
    kind = "view"
    differentiable = False
    starts: Places
    sizes: Shape
    steps: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        x, *starts = inputs
        _check_places("slice_at", self.starts, starts)
        return Slice(_filled_in(self.starts, [0] * len(starts)), self.sizes, self.steps).infer(x)

    def numpy(self, x, *starts):
        return Slice(_filled_in(self.starts, map(int, starts)), self.sizes, self.steps).numpy(x)


@dataclass(frozen=True, eq=False)
class Flip(View):
    """Reverses the order of elements along axes."""

    kind = "view"
    axes: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        return x.shape, x.dtype

    def numpy(self, x):
        return np.flip(x, self.axes)

    def vjp(self, g, node):
        return (nodes.make(self, g),)

    def source_index(self, index, shape):
        return tuple(i * -1 + (shape[a] - 1) if a in self.axes else i for a, i in enumerate(index))


@dataclass(frozen=True, eq=False)
class Pad(Primitive):
    """Inserts elements of `value` along each axis: low before, high after, interior between neighbours."""

    moves = True
    kind = "view"
    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]
    value: float | int | bool

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        if not len(self.low) == len(self.high) == len(self.interior) == x.ndim:
            raise ShapeError(f"[pad] {len(self.low)} paddings for shape {x.shape}.")
        if min((*self.low, *self.high, *self.interior), default=0) < 0:
            raise ShapeError(f"[pad] negative padding {self.low}, {self.high}. Hint: slice instead.")
        sizes = (
            a + n + b + max(n - 1, 0) * k
            for n, a, b, k in zip(x.shape, self.low, self.high, self.interior, strict=True)
        )
        return tuple(sizes), x.dtype

    def numpy(self, x):
        shape = tuple(
            a + n + b + max(n - 1, 0) * k
            for n, a, b, k in zip(x.shape, self.low, self.high, self.interior, strict=True)
        )
        result = np.full(shape, self.value, x.dtype)
        result[self._inside(x.shape)] = x
        return result

    def _inside(self, shape: Shape) -> tuple[slice, ...]:
        return tuple(
            slice(a, a + (n - 1) * (k + 1) + 1 if n else a, k + 1)
            for n, a, k in zip(shape, self.low, self.interior, strict=True)
        )

    def vjp(self, g, node):
        return (nodes.make(Slice(self.low, node.inputs[0].shape, tuple(k + 1 for k in self.interior)), g),)

    def of_half(self, dtype):
        value = self.value if isinstance(self.value, Varying) else dtype.holding(self.value).item()
        return Pad(self.low, self.high, self.interior, value)

    def without_numbers(self):
        borders = tuple(a + b for a, b in zip(self.low, self.high, strict=True))
        return Form(Pad, borders, self.interior, type(self.value))

    def numbers(self, dtype):
        return (*((low, int32) for low in self.low), (self.value, dtype))

    def opened(self, inputs, numbers):
        (x,) = inputs
        *low, fill = numbers
        sizes, dtype = self.infer(x)
        fill = fill if isinstance(fill, Node) else build.constant(fill, dtype, x.device)
        if not x.size:
            return build.broadcast(fill, sizes)
        return nodes.make(PadAt(_known(low), sizes, self.interior), x, fill, *_open(low))


@dataclass(frozen=True, eq=False)
class PadAt(Primitive):
    """A Pad to the shape `sizes` whose value is its second input, of shape (), and whose lower borders may be data: an int32
    input of shape () for each None, after the second input."""

    moves = True
    kind = "view"
    differentiable = False
    low: Places
    sizes: Shape
    interior: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        x, fill, *low = inputs
        _check_places("pad_at", self.low, low)
        if fill.shape != () or fill.dtype is not x.dtype:
            raise ShapeError(f"[pad_at] the fill is {fill!r}, not a number of {x.dtype.name}.")
        self._pad(x.shape, [0] * len(low), 0).infer(x)
        return self.sizes, x.dtype

    def _pad(self, shape: Shape, given: Iterable[int], fill: Number) -> Pad:
        """The equivalent Pad of an input of `shape`."""
        low = _filled_in(self.low, given)
        high = tuple(
            size - a - n - max(n - 1, 0) * k
            for size, a, n, k in zip(self.sizes, low, shape, self.interior, strict=True)
        )
        return Pad(low, high, self.interior, fill)

    def numpy(self, x, fill, *low):
        return self._pad(x.shape, map(int, low), fill.item()).numpy(x)


@dataclass(frozen=True, eq=False)
class Cat(Primitive):
    """Concatenates its inputs along an axis."""

    moves = True
    kind = "view"
    axis: int

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        first = inputs[0]
        for x in inputs[1:]:
            if x.ndim != first.ndim or any(
                n != m for a, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if a != self.axis
            ):
                raise ShapeError(
                    f"[cat] sizes must match except along axis {self.axis}: {', '.join(str(i.shape) for i in inputs)}."
                )
            if x.dtype is not first.dtype:
                raise DTypeError(f"[cat] dtypes differ: {', '.join(i.dtype.name for i in inputs)}.")
        total = sum(x.shape[self.axis] for x in inputs)
        return (*first.shape[: self.axis], total, *first.shape[self.axis + 1 :]), first.dtype

    def numpy(self, *arrays):
        return np.concatenate(arrays, axis=self.axis)

    def vjp(self, g, node):
        result, start = [], 0
        for x in node.inputs:
            starts = tuple(start if a == self.axis else 0 for a in range(x.ndim))
            result.append(nodes.make(Slice(starts, x.shape, (1,) * x.ndim), g))
            start += x.shape[self.axis]
        return tuple(result)
