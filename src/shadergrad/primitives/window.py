"""Sliding windows and convolution.

Window is a view: im2col without a buffer. Fold is its adjoint. Conv is a primitive, because the gradient of the composition
would store every window. The gradients of the primitive are convolutions, too, and the compiler lowers all of them to matrix
multiplications over window views.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph import node as nodes
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape
from .views import Flip, Indices, View

COLUMNS = 1 << 19  # bytes of windows that the cpu device materializes at a time, so that they stay in the CPU's caches


def window_count(size: int, window: int, step: int, dilation: int) -> int:
    """The number of windows that fit."""
    return (size - (window - 1) * dilation - 1) // step + 1


@dataclass(frozen=True, eq=False)
class Window(View):
    """Windows along `axes`: of `sizes` elements that are `dilations` apart, with a window every `steps` elements.

    The size of each axis becomes its number of windows, and axes of `sizes` are appended: (8,) with size 3, step 1 gives (6, 3).
    """

    kind = "view"
    axes: tuple[int, ...]
    sizes: Shape
    steps: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (x,) = inputs
        shape = list(x.shape)
        for axis, size, step, dilation in zip(self.axes, self.sizes, self.steps, self.dilations, strict=True):
            shape[axis] = window_count(x.shape[axis], size, step, dilation)
            if shape[axis] < 1 or min(size, step, dilation) < 1:
                raise ShapeError(
                    f"[window] windows of {size} elements, {dilation} apart, every {step}, do not fit axis {axis} of {x.shape}."
                )
        return (*shape, *self.sizes), x.dtype

    def numpy(self, x):
        shape, strides = list(x.shape), list(x.strides)
        for axis, size, step, dilation in zip(self.axes, self.sizes, self.steps, self.dilations, strict=True):
            shape[axis] = window_count(x.shape[axis], size, step, dilation)
            strides[axis] *= step
            shape.append(size)
            strides.append(x.strides[axis] * dilation)
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)

    def vjp(self, g, node):
        shape = node.inputs[0].shape
        lengths = tuple(shape[a] for a in self.axes)
        return (nodes.make(Fold(self.axes, lengths, self.steps, self.dilations), g),)

    def source_index(self, index: Indices, shape: Shape) -> Indices:
        result = list(index[: len(shape)])
        inner = index[len(shape) :]
        for axis, k, step, dilation in zip(self.axes, inner, self.steps, self.dilations, strict=True):
            result[axis] = result[axis] * step + k * dilation
        return tuple(result)


@dataclass(frozen=True, eq=False)
class Fold(Primitive):
    """The adjoint of Window: each element, on axes of `lengths`, is the sum over the windows that contain it.

    On the GPU it is a sum over the positions within a window (see Unwindow), a gather, so no two threads write the same element.
    """

    kind = "index"
    axes: tuple[int, ...]
    lengths: Shape
    steps: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (g,) = inputs
        shape = list(g.shape[: g.ndim - len(self.axes)])
        for axis, length in zip(self.axes, self.lengths, strict=True):
            shape[axis] = length
        return tuple(shape), g.dtype

    def numpy(self, g):
        rank = g.ndim - len(self.axes)
        shape = list(g.shape[:rank])
        for axis, length in zip(self.axes, self.lengths, strict=True):
            shape[axis] = length
        result = np.zeros(shape, g.dtype)
        for place in itertools.product(*(range(n) for n in g.shape[rank:])):
            target = [slice(None)] * rank
            for axis, k, step, dilation in zip(self.axes, place, self.steps, self.dilations, strict=True):
                start = k * dilation
                target[axis] = slice(start, start + (g.shape[axis] - 1) * step + 1, step)
            result[tuple(target)] += g[(..., *place)]
        return result

    def vjp(self, g, node):
        sizes = node.inputs[0].shape[node.ndim :]
        return (nodes.make(Window(self.axes, sizes, self.steps, self.dilations), g),)


@dataclass(frozen=True, eq=False)
class Unwindow(Primitive):
    """The terms of Fold: (length, size) along an axis; element (i, k) is element k of window (i - k * dilation) / step,
    or 0 if there is no such window. Only the compiler makes it."""

    moves = True
    kind = "view"
    differentiable = False
    axes: tuple[int, ...]
    lengths: Shape
    steps: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        (g,) = inputs
        shape = list(g.shape)
        for axis, length in zip(self.axes, self.lengths, strict=True):
            shape[axis] = length
        return tuple(shape), g.dtype

    def numpy(self, g):
        rank = g.ndim - len(self.axes)
        shape = list(g.shape)
        for axis, length in zip(self.axes, self.lengths, strict=True):
            shape[axis] = length
        result = np.zeros(shape, g.dtype)
        for place in itertools.product(*(range(n) for n in g.shape[rank:])):
            target: list[Any] = [slice(None)] * rank
            for axis, k, step, dilation in zip(self.axes, place, self.steps, self.dilations, strict=True):
                target[axis] = slice(k * dilation, k * dilation + (g.shape[axis] - 1) * step + 1, step)
            result[(*target, *place)] = g[(..., *place)]
        return result

    def vjp(self, g, node):
        return (None,)


@dataclass(frozen=True, eq=False)
class Conv(Primitive):
    """Cross-correlation in groups: x (group, batch, c, *size), w (group, o, c, *window) give (group, batch, o, *count).

    First, x is dilated: its elements are `spread` apart, with zeros between. Then it is padded with `low` and `high` zeros; a
    negative padding removes elements. With these three parameters both gradients are convolutions again.
    """

    kind = "index"
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    spread: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        rank = len(self.steps)
        for name, value in (("low", 0), ("high", 0), ("spread", 1)):
            if not getattr(self, name):
                object.__setattr__(self, name, (value,) * rank)

    def lengths(self, size: Shape) -> tuple[int, ...]:
        """The lengths of the axes along which the windows move, after dilation and padding."""
        return tuple((n - 1) * s + 1 + a + b for n, s, a, b in zip(size, self.spread, self.low, self.high, strict=True))

    def counts(self, size: Shape, window: Shape) -> tuple[int, ...]:
        """The number of windows along each axis."""
        return tuple(map(window_count, self.lengths(size), window, self.steps, self.dilations))

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        x, w = inputs
        rank = len(self.steps)
        if x.ndim != rank + 3 or w.ndim != rank + 3 or x.shape[0] != w.shape[0] or x.shape[2] != w.shape[2]:
            raise ShapeError(f"[conv] x is {x.shape}, w is {w.shape}: groups or channels differ.")
        if x.dtype is not w.dtype:
            raise DTypeError(f"[conv] x is {x.dtype.name}, w is {w.dtype.name}.")
        counts = self.counts(x.shape[3:], w.shape[3:])
        if min(counts) < 1:
            raise ShapeError(f"[conv] a window of {w.shape[3:]} does not fit an input of {x.shape[3:]}.")
        return (x.shape[0], x.shape[1], w.shape[1], *counts), x.dtype

    def numpy(self, x, w):
        counts = self.counts(x.shape[3:], w.shape[3:])
        if not x.size or not w.size:
            return np.zeros((*x.shape[:2], w.shape[1], *counts), x.dtype)
        moved = self.moved(x)
        if math.prod(w.shape[3:]) <= math.prod(counts):
            return self._by_window(moved, w, counts)
        return self._by_count(moved, w, counts)

    def _by_window(self, x: np.ndarray, w: np.ndarray, counts: Shape) -> np.ndarray:
        """A matrix product for each position within the window: the weights times that element of all windows. Copies whole rows."""
        groups, batch, channels = x.shape[:3]
        result = np.empty((groups, batch, w.shape[1], *counts), x.dtype)
        weights, outs = w.reshape(groups, 1, w.shape[1], -1), result.reshape(groups, batch, w.shape[1], -1)
        of_one = math.prod((groups, channels, *w.shape[3:], *counts)) * x.itemsize
        size = min(batch, max(1, COLUMNS // max(of_one, 1)))
        columns = np.empty((groups, size, channels, *w.shape[3:], *counts), x.dtype)
        for begin in range(0, batch, size):
            part = x[:, begin : begin + size]
            here = columns[:, : part.shape[1]]
            for place in np.ndindex(*w.shape[3:]):
                starts = (k * d for k, d in zip(place, self.dilations, strict=True))
                at = (slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, self.steps, strict=True))
                here[(slice(None), slice(None), slice(None), *place)] = part[(..., *at)]
            flat = here.reshape(groups, part.shape[1], -1, math.prod(counts))
            np.matmul(weights, flat, out=outs[:, begin : begin + size])
        return result

    def _by_count(self, x: np.ndarray, w: np.ndarray, counts: Shape) -> np.ndarray:
        """A matrix product for each window: for few, large windows, as in the gradient of the weights."""
        groups, batch = x.shape[:2]
        result = np.empty((groups, batch, w.shape[1], *counts), x.dtype)
        weights = w.reshape(groups, w.shape[1], -1).transpose(0, 2, 1)
        for place in np.ndindex(*counts):
            starts = (k * s for k, s in zip(place, self.steps, strict=True))
            at = (slice(a, a + (n - 1) * d + 1, d) for a, n, d in zip(starts, w.shape[3:], self.dilations, strict=True))
            result[(..., *place)] = np.matmul(x[(..., *at)].reshape(groups, batch, -1), weights)
        return result

    def moved(self, x: np.ndarray) -> np.ndarray:
        """x dilated and padded with zeros, or with elements at the borders removed."""
        if not any((*self.low, *self.high)) and all(s == 1 for s in self.spread):
            return x
        pads = [(max(a, 0), max(b, 0)) for a, b in zip(self.low, self.high, strict=True)]
        sizes = [(n - 1) * s + 1 + a + b for n, s, (a, b) in zip(x.shape[3:], self.spread, pads, strict=True)]
        wide = np.zeros((*x.shape[:3], *sizes), x.dtype)
        inside = (slice(a, a + (n - 1) * s + 1, s) for n, s, (a, _) in zip(x.shape[3:], self.spread, pads, strict=True))
        wide[(..., *inside)] = x
        kept = (slice(max(-a, 0), n - max(-b, 0)) for n, a, b in zip(sizes, self.low, self.high, strict=True))
        return np.ascontiguousarray(wide[(..., *kept)])

    def vjp(self, g, node):
        x, w = node.inputs
        dx = self._input_gradient(g, x, w) if x.requires_grad else None
        dw = self._weight_gradient(g, x, w) if w.requires_grad else None
        return dx, dw

    def _input_gradient(self, g: Node, x: Node, w: Node) -> Node:
        """A convolution of the cotangent with the reversed window, with steps and spread exchanged."""
        low, high = [], []
        for a, n, m, k, step, dilation, spread in self._axes(x, w, g):
            low.append((k - 1) * dilation - a)
            high.append((n - 1) * spread + a - (m - 1) * step)
        reversed_w = nodes.make(Flip(tuple(range(3, w.ndim))), w)
        swapped = build.permute(reversed_w, (0, 2, 1, *range(3, w.ndim)))
        return nodes.make(Conv(self.spread, self.dilations, tuple(low), tuple(high), self.steps), g, swapped)

    def _weight_gradient(self, g: Node, x: Node, w: Node) -> Node:
        """A convolution of the input with the cotangent, with steps and dilations exchanged, and batch and channels
        exchanged."""
        swap = (0, 2, 1, *range(3, x.ndim))
        high = tuple(
            (k - 1) * dilation + (m - 1) * step - (n - 1) * spread - a
            for a, n, m, k, step, dilation, spread in self._axes(x, w, g)
        )
        conv = Conv(self.dilations, self.steps, self.low, high, self.spread)
        return build.permute(nodes.make(conv, build.permute(x, swap), build.permute(g, swap)), swap)

    def _axes(self, x: Node, w: Node, g: Node) -> Iterator[tuple[int, ...]]:
        """For each axis: low, the sizes of x, g and w, step, dilation, spread."""
        sizes = (x.shape[3:], g.shape[3:], w.shape[3:])
        return zip(self.low, *sizes, self.steps, self.dilations, self.spread, strict=True)
