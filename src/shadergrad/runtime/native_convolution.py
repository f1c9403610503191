"""Convolutions by machine code (compile/native/convolution.py). In: a Conv and arrays. Out: the same bits for any number of threads.

Both functions read x as it is laid here: (groups, images, channels, *rests, *size), where an axis along which neighbours in a vector are
`step` apart is split into rests modulo `step` and quotients. Each place of the other factor is then an offset into a channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from ..compile.native import convolution
from ..compile.native.registers import LANES, LARGE, Tile
from ..graph.primitive import Shape
from ..primitives.window import Conv
from . import llvm
from .threads import pool

LEAST_SHARE = 0.3  # of what vectors compute that is a result; below it, products by BLAS are faster
FEWEST_VECTORS = 16  # of a large window: of smaller ones sums take longer than products
MOST_TOTALS = 64 << 20  # bytes of sums where windows are large
CACHED = 1 << 19  # bytes of x that caches hold
FEWEST = 1 << 18  # multiplications that a thread takes
PLANS = 256  # of shapes that come again
ROOM = LANES * (LARGE.wide + 1)  # elements behind x that a vector may read


class Plan:
    """How convolutions of arrays of such shapes are computed. many: windows are many and small, and vectors go over what they give.

    offsets: of each place of the factor that x is multiplied with, in a channel of x. masks: which elements of each vector are computed
    for, as bits, and starts: how many are so before it.
    """

    def __init__(self, conv: Conv, x: Shape, w: Shape, tile: Tile) -> None:
        self.conv, self.x, self.w, self.tile = conv, x, w, tile
        self.counts = conv.counts(x[3:], w[3:])
        self.many = math.prod(w[3:]) <= math.prod(self.counts)
        # neighbours in a vector lie `along` apart, and there are `span` of them; the others `across`, `taps` of them
        self.along, self.span = (conv.steps, self.counts) if self.many else (conv.dilations, w[3:])
        self.across, self.taps = (conv.dilations, w[3:]) if self.many else (conv.steps, self.counts)
        self.size = tuple(-(-n // s) for n, s in zip(conv.lengths(x[3:]), self.along, strict=True))
        self.plane = math.prod(self.along) * math.prod(self.size)
        self.vectors = -(-(_flat([n - 1 for n in self.span], self.size) + 1) // LANES)
        if self.many:
            self.vectors = _up(self.vectors, tile.wide)
        self.pays = self._pays()
        if self.pays:
            self.offsets = self._offsets()
            self.masks, self.starts = self._masks()

    def _pays(self) -> bool:
        """Whether most of what vectors compute is a result."""
        images, outs, tall, side = self.x[1], self.w[1], self.tile.tall, self.tile.side
        if self.many:
            computed, results = self.vectors * LANES * _up(outs, tall), math.prod(self.span) * outs
        elif self.vectors < FEWEST_VECTORS or self.totals > MOST_TOTALS:
            return False
        else:
            computed = self.vectors * LANES * _up(outs, side) * _up(images, side)
            results = math.prod(self.span) * outs * images
        return results >= LEAST_SHARE * computed

    @property
    def totals(self) -> int:
        """Bytes of the sums where windows are large: LANES of each result."""
        side = self.tile.side
        return self.x[0] * _up(self.x[1], side) * _up(self.w[1], side) * math.prod(self.counts) * LANES * 4

    def _offsets(self) -> np.ndarray:
        found = np.zeros(self.taps, np.int64)
        for place in np.ndindex(*self.taps):
            at = [t * d for t, d in zip(place, self.across, strict=True)]
            rest = _flat([a % s for a, s in zip(at, self.along, strict=True)], self.along)
            quotient = [a // s for a, s in zip(at, self.along, strict=True)]
            found[place] = rest * math.prod(self.size) + _flat(quotient, self.size)
        return found.reshape(-1)

    def _masks(self) -> tuple[np.ndarray, np.ndarray]:
        inside = np.zeros(self.vectors * LANES, bool)
        self.over_x(inside)[...] = True
        lanes = inside.reshape(self.vectors, LANES)
        bits = (lanes << np.arange(LANES)).sum(1).astype(np.uint16)
        starts = np.cumsum(lanes.sum(1)) - lanes.sum(1)
        return bits, starts.astype(np.int64)

    def over_x(self, array: np.ndarray) -> np.ndarray:
        """The elements of the span in vectors (..., LANES * vectors), as they lie over x: (..., *span)."""
        steps = [math.prod(self.size[k + 1 :]) * array.itemsize for k in range(len(self.size))]
        return np.lib.stride_tricks.as_strided(array, (*array.shape[:-1], *self.span), (*array.strides[:-1], *steps))

    def laid(self, x: np.ndarray, images: int) -> np.ndarray:
        """x with zeros around and between its elements, by rests and quotients, and room behind it."""
        conv = self.conv
        shape = (self.x[0], images, self.x[2], *self.along, *self.size)
        count = math.prod(shape)
        flat = np.empty(count + ROOM, np.float32)
        flat[count:] = 0
        whole = flat[:count].reshape(shape)
        whole[:, self.x[1] :] = 0
        whole = whole[:, : self.x[1]]
        if all(s == 1 for s in (*self.along, *conv.spread)) and min(*conv.low, *conv.high) >= 0:
            _put(whole.reshape(*self.x[:3], *self.size), x, conv.low)
            return flat
        moved = conv.moved(x)
        for rest in np.ndindex(*self.along):
            at = (slice(r, None, s) for r, s in zip(rest, self.along, strict=True))
            _put(whole[(slice(None), slice(None), slice(None), *rest)], moved[(..., *at)], (0,) * len(self.size))
        return flat


def _up(n: int, by: int) -> int:
    """The multiple of `by` that is n or follows it."""
    return -(-n // by) * by


def _flat(place: Sequence[int], shape: Sequence[int]) -> int:
    """Where a place of an array lies."""
    at = 0
    for k, n in zip(place, shape, strict=True):
        at = at * n + k
    return at


def _put(target: np.ndarray, x: np.ndarray, low: Sequence[int]) -> None:
    """x behind `low` zeros along each axis after the third, and zeros behind it."""
    inside: tuple[slice, ...] = (slice(None),) * 3
    for a, n in zip(low, x.shape[3:], strict=True):
        target[(*inside, slice(a))] = 0
        target[(*inside, slice(a + n, None))] = 0
        inside = (*inside, slice(a, a + n))
    target[inside] = x


@lru_cache(PLANS)
def _plan(words: tuple[tuple[int, ...], ...], x: Shape, w: Shape) -> Plan:
    return Plan(Conv(*words), x, w, llvm.code().tile)


def convolved(conv: Conv, x: np.ndarray, w: np.ndarray) -> np.ndarray | None:
    """The convolution of float32; None where products by BLAS are faster."""
    if not x.size or not w.size:
        return None
    words = (conv.steps, conv.dilations, conv.low, conv.high, conv.spread)
    plan = _plan(words, x.shape, w.shape)
    if not plan.pays:
        return None
    return _over_counts(plan, x, w) if plan.many else _over_windows(plan, x, w)


@cache
def _function(many: bool, tile: Tile) -> llvm.Function:
    return llvm.function(convolution.over_counts(tile) if many else convolution.over_windows(tile))


def _run(plan: Plan, arrays: tuple[np.ndarray, ...], units: int, work: int) -> None:
    table = np.array([a.ctypes.data for a in arrays], np.uint64)
    pool.run(_function(plan.many, plan.tile), table.ctypes.data, units, max(1, FEWEST // work))


def _over_counts(plan: Plan, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    groups, batch, channels = plan.x[:3]
    tall = plan.tile.tall
    outs, places = plan.w[1], channels * math.prod(plan.taps)
    blocks = _up(outs, tall) // tall
    weights = np.zeros((groups, blocks * tall, places), np.float32)
    weights[:, :outs] = w.reshape(groups, outs, places)
    weights = np.ascontiguousarray(weights.reshape(groups, blocks, tall, places).swapaxes(2, 3))
    offsets = (np.arange(channels)[:, None] * plan.plane + plan.offsets).reshape(-1)
    result = np.empty((groups, batch, outs, *plan.counts), np.float32)
    tiles, count = plan.vectors // plan.tile.wide, math.prod(plan.counts)
    sizes = np.array([places, blocks, channels * plan.plane, tiles, outs, batch, count])
    arrays = (plan.laid(x, batch), weights, result, sizes, offsets, plan.masks, plan.starts)
    _run(plan, arrays, groups * batch * blocks, places * plan.vectors * LANES * tall)
    return result


def _over_windows(plan: Plan, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    groups, images, contracted = plan.x[:3]
    side = plan.tile.side
    outs, count = plan.w[1], math.prod(plan.counts)
    rows, columns = _up(images, side) // side, _up(outs, side) // side
    windows = np.zeros((groups, columns * side, contracted, plan.vectors * LANES), np.float32)
    plan.over_x(windows)[:, :outs] = w
    chunk = max(1, CACHED // (4 * plan.plane * rows * side))
    sizes = np.array([rows, columns, contracted, plan.plane, plan.vectors, count, chunk])
    result = np.empty((groups, rows * side, columns * side, count), np.float32)
    totals = np.empty(plan.totals // 4, np.float32)
    arrays = (plan.laid(x, rows * side), windows, result, sizes, plan.offsets, plan.masks, totals)
    _run(plan, arrays, groups * columns, contracted * rows * side * count * plan.vectors * LANES * side)
    return np.ascontiguousarray(result[:, :images, :outs]).reshape(groups, images, outs, *plan.counts)
