"""Convolutions of float32 by machine code. In: a Conv and arrays. Out: the same bits for any number of threads.

A convolution is two kernels: a copy of x with zeros around it (compile/native/padded_copy.py), and a matrix multiplication of the weights by its windows
(compile/native/convolution.py). Vectors go along windows if these are small and many, as in a forward pass, and along the elements of a window if
these are large and few, as in a gradient of weights. Their elements are neighbours in the copy, (groups, images, channels, *rests, *size): an axis along
which they are `step` apart is split into rests modulo `step` and quotients.

A convolution of a dilated x, as in the input gradient of a strided one, is computed as one for each residue of the result's positions, none of which
reads the zeros between elements (compile/convolution.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from ..compile.convolution import residues_of
from ..compile.native import convolution, padded_copy
from ..compile.native.convolution import Packing, Storing
from ..compile.native.panel_product import Panel
from ..compile.native.registers import LANES
from ..cpython import address_of
from ..graph.primitive import Shape
from ..primitives.window import Conv
from . import llvm
from .threads import pool

FEWEST = 1 << 18  # scalar multiplications of a chunk, at least
FEWEST_COPIED = 1 << 14  # elements of a chunk
FEW_VECTORS = 64  # vectors of columns; below it, several threads share a contraction
MANY_WINDOWS = 1 << 10  # of an image; from here on, all images share the tables of one
MOST_BYTES = 1 << 28  # of the tables of all plans
MOST_ELEMENTS = 1 << 31  # of an array, because offsets have 32 bits
MARGIN = 1.4  # by which the exchange of x and weights has to save time
COSTS: dict[Packing, int] = {
    "copy": 2,
    "turn": 5,
    "gather": 16,
}  # cycles that packing a vector takes; a row of weights multiplies it in half a cycle


class Strided(NamedTuple):
    """The layout of an array in memory, with strides in elements."""

    shape: Shape
    strides: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray) -> Strided:
        return Strided(array.shape, tuple(s // array.itemsize for s in array.strides))

    @property
    def is_in_order(self) -> bool:
        """Whether it is row-major, without gaps."""
        return all(n == 1 or s == math.prod(self.shape[k + 1 :]) for k, (n, s) in enumerate(zip(*self, strict=True)))


class Target(NamedTuple):
    """The elements of the result that a convolution computes: every `apart`-th along each axis from `first` on. shape: of the whole result."""

    shape: Shape
    first: tuple[int, ...]
    apart: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(len(range(f, n, a)) for f, n, a in zip(self.first, self.shape[3:], self.apart, strict=True))


class Plan:
    """How a convolution of arrays with these layouts is computed.

    is_forward: whether windows are small and many. is_copied: whether x is not read in place. packing, storing, panel: of the kernel that multiplies.
    parts: the number of parts of a contraction, whose sums are added in the end. copied, multiplied: the tables of both kernels.
    """

    def __init__(self, conv: Conv, x: Strided, w: Strided, target: Target) -> None:
        self.conv, self.x_shape, self.w_shape = conv, x.shape, w.shape
        self.counts = target.counts
        self.is_forward = math.prod(self.w_shape[3:]) <= math.prod(self.counts)
        lengths, along = conv.lengths(self.x_shape[3:]), conv.steps if self.is_forward else conv.dilations
        self.along = tuple(map(min, along, lengths))  # a step is at most the length
        self.size = tuple(-(-n // s) for n, s in zip(lengths, self.along, strict=True))
        self.plane = math.prod(self.along) * math.prod(self.size)
        self._plan_copy(x)
        self._plan_product(w, target)
        is_padded = self.size != self.x_shape[3:] or any(s > 1 for s in self.along) or any(conv.low)
        self.is_copied = is_padded or not x.is_in_order or self._reads_behind

    def _plan_copy(self, x: Strided) -> None:
        """For each row of a plane, the offset in x that its first element would have, and which elements are from x."""
        groups, images, channels, *size = self.x_shape
        rank = len(size)
        offsets, are_inside = np.zeros((1,) * 2 * rank, np.int64), np.ones((1,) * 2 * rank, bool)
        axes = zip(size, self.conv.low, self.along, self.size, x.strides[3:], strict=True)
        for axis, (n, low, step, count, stride) in enumerate(axes):
            shape = [1] * 2 * rank
            shape[axis], shape[rank + axis] = step, count
            positions = (np.arange(step)[:, None] + np.arange(count) * step - low).reshape(
                shape
            )  # by rests and quotients
            offsets = offsets + positions * stride
            are_inside = are_inside & (positions >= 0) & (positions < n)
        rows, inside = offsets.reshape(-1, self.size[-1])[:, 0].copy(), are_inside.reshape(-1, self.size[-1])
        begins = np.where(inside.any(1), inside.argmax(1), 0)
        step = self.along[-1] * x.strides[-1]
        words = np.array([channels, images, *x.strides[:3], step, len(rows), self.size[-1]])
        self.copied = (words, rows, begins, begins + inside.sum(1))
        self.planes = groups * images * channels

    def _plan_product(self, w: Strided, target: Target) -> None:
        groups, images, channels, *_ = self.x_shape
        m, k, count = self.w_shape[1], channels * math.prod(self.w_shape[3:]), math.prod(target.shape[3:])
        image = channels * self.plane
        rows = np.add.outer(
            np.arange(channels) * self.plane, self._offsets(self.w_shape[3:], self.conv.dilations)
        ).reshape(-1)
        terms = np.zeros(1, np.int64)
        for n, stride in zip(self.w_shape[2:], w.strides[2:], strict=True):
            terms = np.add.outer(terms, np.arange(n) * stride).reshape(-1)
        together = 1 if math.prod(self.counts) >= MANY_WINDOWS else images  # images that share the columns of a panel
        self.packing: Packing
        self.storing: Storing
        self.packing, self.storing, columns, places = self._columns(together, m, rows, target)
        vectors = len(columns)
        self.panel = convolution.panel_for(m, vectors, k, llvm.code().tile)
        panels = -(-vectors // self.panel.wide)
        missing = ((0, panels * self.panel.wide - vectors), (0, 0))
        columns, places = np.pad(columns, missing), np.pad(places, missing, constant_values=-1)
        self._reads_behind = self.packing == "copy" and bool((places < 0).any())
        masks = ((places >= 0) << np.arange(LANES)).sum(1)
        if self.storing == "compress":
            stored_first = np.argsort(places < 0, axis=1, kind="stable")
            places = np.take_along_axis(places, stored_first, 1)
        stretches, matrices = convolution.stretches_of(k), groups * images // together
        self.parts = min(stretches, -(-FEW_VECTORS // (matrices * vectors))) if self.counts == target.shape[3:] else 1
        self.units = matrices * panels * self.parts
        self.least = max(1, FEWEST * self.parts // (m * k * self.panel.width))
        words = [m, k, panels, self.parts, stretches, images // together, images * image, image, *w.strides[:2]]
        words += [groups * images * m * count, images * m * count, m * count, count]
        self.multiplied = (
            *(np.array(words), rows, terms, columns.astype(np.int32)),
            *(masks.astype(np.uint16), places.astype(np.int32)),
        )

    def _offsets(self, counts: Shape, steps: Sequence[int]) -> np.ndarray:
        """The offsets in a plane of positions that are `steps` apart."""
        found = np.zeros(counts, np.int64)
        for axis, (n, step, along) in enumerate(zip(counts, steps, self.along, strict=True)):
            at = np.arange(n) * step
            rest = math.prod(self.along[axis + 1 :]) * math.prod(self.size)
            offsets = at % along * rest + at // along * math.prod(self.size[axis + 1 :])
            found += offsets.reshape(-1, *(1,) * (len(counts) - axis - 1))
        return found

    def _columns(
        self, together: int, m: int, rows: np.ndarray, target: Target
    ) -> tuple[Packing, Storing, np.ndarray, np.ndarray]:
        """How columns are packed and stored; by vectors, their offsets in the copy of x, and in the result, which are -1 if they are not stored.

        Columns are the windows of some images one after the other, or, if that takes less time, all elements of a plane from the first window to
        the last, so that each vector is one load.
        """
        windows, count = self._offsets(self.counts, self.conv.steps).reshape(-1), math.prod(target.shape[3:])
        to = np.arange(count).reshape(target.shape[3:])
        to = to[tuple(slice(f, None, a) for f, a in zip(target.first, target.apart, strict=True))].reshape(-1)
        of_images, to_images = np.arange(together) * self.x_shape[2] * self.plane, np.arange(together) * m * count
        columns = _vectors(np.add.outer(of_images, windows).reshape(1, -1), 0)
        places = _vectors(np.add.outer(to_images, to).reshape(1, -1), -1)
        storing: Storing = "run" if _are_runs(places, places) else "scatter"
        if _are_runs(columns, places):
            return "copy", storing, columns, places
        if not self.is_forward:
            of_rows = rows[: rows.size // LANES * LANES].reshape(-1, LANES)
            turns = of_rows.size == rows.size and _are_runs(of_rows, of_rows)
            return "turn" if turns else "gather", storing, columns, places
        plane = np.full((1, int(windows.max()) + 1), -1)
        plane[0, windows] = to
        over = _vectors(plane, -1)
        used = (over >= 0).any(1)
        if together * used.sum() * (m / 2 + COSTS["copy"]) >= len(columns) * (m / 2 + COSTS["gather"]):
            return "gather", storing, columns, places
        elements, over = np.arange(over.size).reshape(over.shape)[used], over[used]
        columns = np.add.outer(of_images, elements).reshape(-1, LANES)
        places = np.where(over >= 0, np.add.outer(to_images, over).reshape(together, *over.shape), -1).reshape(
            -1, LANES
        )
        return "copy", "compress" if len(to) == count else "scatter", columns, places

    @property
    def nbytes(self) -> int:
        """Of the tables."""
        return sum(table.nbytes for table in (*self.copied, *self.multiplied))

    def run(self, x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        """Write results to their places in `out`."""
        source = x
        if self.is_copied:
            source = np.empty(self.planes * self.plane + LANES, np.float32)
            source[-LANES:] = 0  # a vector may read elements after the last plane
            _run(_copy(), (x, source), self._addresses[0], self.planes, max(1, FEWEST_COPIED // self.plane))
        function = _product(self.panel, self.packing, self.storing)
        parts = np.empty((self.parts, *out.shape), np.float32) if self.parts > 1 else out
        _run(function, (source, w, parts), self._addresses[1], self.units, self.least)
        if self.parts > 1:
            parts.sum(0, out=out)

    @cached_property
    def _addresses(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the tables of both kernels."""
        return tuple(map(address_of, self.copied)), tuple(map(address_of, self.multiplied))


def _vectors(x: np.ndarray, fill: int) -> np.ndarray:
    """Rows as vectors of LANES, of which the last is filled up."""
    return np.pad(x, ((0, 0), (0, -x.shape[1] % LANES)), constant_values=fill).reshape(-1, LANES)


def _are_runs(x: np.ndarray, places: np.ndarray) -> bool:
    """Whether the elements of each vector that are stored have consecutive offsets."""
    return bool(((x - x[:, :1] == np.arange(LANES)) | (places < 0)).all())


def _run(function: llvm.Function, arrays: Sequence[np.ndarray], tables: Sequence[int], units: int, least: int) -> None:
    buffers = np.array([*map(address_of, arrays), *tables], np.uint64)
    pool.run(function, address_of(buffers), units, least)


@cache
def _copy() -> llvm.Function:
    return llvm.function(padded_copy.text())


@cache
def _product(panel: Panel, packing: Packing, storing: Storing) -> llvm.Function:
    return llvm.function(convolution.text_for(panel, packing, storing))


_plans: dict[tuple[Any, ...], Plan] = {}


def _plan(words: tuple[tuple[int, ...], ...], x: Strided, w: Strided, target: Target) -> Plan:
    """The plan, kept for the next time. If the tables of all plans take more than MOST_BYTES, the others are dropped."""
    key = (words, x, w, target)
    found = _plans.get(key)
    if found is None:
        found = Plan(Conv(*words), x, w, target)
        if found.nbytes + sum(plan.nbytes for plan in [*_plans.values()]) > MOST_BYTES:
            _plans.clear()
            _wholes.clear()
        _plans[key] = found
    return found


def _is_served(conv: Conv, x: np.ndarray, w: np.ndarray) -> bool:
    """Whether the arrays are of float32 and have elements, the offsets that kernels add have 32 bits, and the processor has fma."""
    if (
        not x.dtype == w.dtype == np.float32
        or not x.size
        or not w.size
        or not llvm.code().has_fma
        or any(s % x.itemsize for s in (*x.strides, *w.strides))
    ):
        return False
    lengths = conv.lengths(x.shape[3:])
    steps = [min(n, max(both)) for n, *both in zip(lengths, conv.steps, conv.dilations, strict=True)]
    plane = math.prod(n + step for n, step in zip(lengths, steps, strict=True))
    results = x.shape[0] * x.shape[1] * w.shape[1] * math.prod(conv.counts(x.shape[3:], w.shape[3:]))
    gap = max(abs(x.strides[-1]) * steps[-1], *map(abs, w.strides[3:])) // x.itemsize * LANES  # of a gather of a row
    return max(math.prod(x.shape[:3]) * plane, results, gap) < MOST_ELEMENTS


def _is_read_in_order(w: np.ndarray) -> bool:
    """Whether memory has the elements of each output channel in the order of the contraction, perhaps with others between."""
    extent = w.itemsize
    for n, stride in zip(w.shape[:1:-1], w.strides[:1:-1], strict=True):
        if n > 1:
            if stride < extent:
                return False
            extent = n * stride
    return True


def _in_order(w: np.ndarray) -> np.ndarray:
    """A row-major copy: each window is one row, also of weights that are reversed."""
    flat = w.reshape(*w.shape[:3], -1)
    size = flat.shape[3]
    words = np.array([*w.shape[2:0:-1], *Strided.of(flat).strides, 1, size])
    out = np.empty(w.shape, np.float32)
    tables = (np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([size]))
    addresses = [*map(address_of, (words, *tables))]
    _run(_copy(), (flat, out), addresses, math.prod(w.shape[:3]), max(1, FEWEST_COPIED // size))
    return out


class _Whole(NamedTuple):
    """How a convolution is computed for arrays of certain layouts.

    exchanged: the convolution of the weights by x, which has the result's elements. moved: x is dilated and padded first. is_reordered: the weights are
    copied first. is_partial: some elements of the result are zero, because no part computes them. parts: the plans, each with the part of the weights that
    it uses; None for all weights.
    """

    exchanged: Conv | None
    moved: Conv | None
    is_reordered: bool
    is_partial: bool
    parts: list[tuple[Plan, tuple[slice, ...] | None]]


def _exchanged(conv: Conv, x: Shape, w: Shape) -> Conv | None:
    """The convolution of w by x, which gives the same elements, reversed and with images and channels exchanged; None if it is not used.

    Element p of x, at p * spread + low, meets element k of a window at i + k * dilation. So element k of w, at k * dilation, meets element p of a window at
    i + low - p * spread, and counted from the last i these windows are dilated by `spread`. If that adds zeros around w, what is not finite in x reaches
    more results. Only the gradient of the weights of a transposed convolution may do so, where PyTorch adds these zeros, too.
    """
    if any(step != 1 for step in conv.steps):
        return None
    counts = conv.counts(x[3:], w[3:])
    low = tuple(n - 1 - a for n, a in zip(counts, conv.low, strict=True))
    axes = zip(counts, x[3:], w[3:], conv.spread, conv.dilations, low, strict=True)
    high = tuple(n + (p - 1) * spread - (k - 1) * dilation - 1 - a for n, p, k, spread, dilation, a in axes)
    is_gradient = max(conv.spread) > 1 and math.prod(w[3:]) > math.prod(counts)
    if max(*low, *high) > 0 and not is_gradient:
        return None
    found = Conv(conv.steps, conv.spread, low, high, conv.dilations)
    return found if MARGIN * _cycles(found, w, x) < _cycles(conv, x, w) else None


def _cycles(conv: Conv, x: Shape, w: Shape) -> float:
    """An estimate of a convolution's time, up to a factor: for each image, window and row of the contraction, of packing and of multiplication."""
    rows = w[2] * math.prod(w[3:]) / math.prod(conv.spread)
    return x[1] * math.prod(conv.counts(x[3:], w[3:])) * rows * (w[1] / 2 + COSTS["gather"])


_wholes: dict[tuple[Any, ...], _Whole] = {}  # dropped with the plans


def _whole(conv: Conv, x: np.ndarray, w: np.ndarray, shape: Shape) -> _Whole:
    """The convolution of arrays with the layouts of x and w to a result of `shape`."""
    exchanged = _exchanged(conv, x.shape, w.shape)
    if exchanged is not None and _is_served(exchanged, w, x):
        return _Whole(exchanged, None, False, False, [])
    moved = None
    if any(s > 1 and step > 1 for s, step in zip(conv.spread, conv.steps, strict=True)):
        moved = conv
        x, conv = conv.moved(x), Conv(conv.steps, conv.dilations)
    is_reordered = not _is_read_in_order(w)
    if is_reordered:
        w = np.empty(w.shape, np.float32)
    axes = residues_of(conv, x.shape, w.shape)
    apart = tuple(map(len, axes))
    parts: list[tuple[Plan, tuple[slice, ...] | None]] = []
    for chosen in itertools.product(*map(enumerate, axes)):
        first, residues = tuple(n for n, _ in chosen), [r for _, r in chosen]
        target = Target(shape, first, apart)
        if 0 in (*target.counts, *(r.places for r in residues)):
            continue
        used = (slice(None),) * 3 + tuple(slice(r.first, None, r.every) for r in residues)
        words = tuple(zip(*((r.step, r.dilation, r.low, r.high) for r in residues), strict=True))
        plan = _plan(words, Strided.of(x), Strided.of(w[used]), target)
        parts.append((plan, None if all(r.first == 0 and r.every == 1 for r in residues) else used))
    return _Whole(None, moved, is_reordered, any(r.places == 0 for residues in axes for r in residues), parts)


def convolve(conv: Conv, x: np.ndarray, w: np.ndarray, out: np.ndarray) -> bool:
    """Write the convolution of x and w, as Conv takes them, to the row-major `out`. False, and nothing is written, if NumPy has to compute it."""
    key = (conv, x.dtype, x.shape, x.strides, w.dtype, w.shape, w.strides, out.shape)
    whole = _wholes.get(key)
    if whole is None:
        if not _is_served(conv, x, w):
            return False
        whole = _whole(conv, x, w, out.shape)
        _wholes[key] = whole
    if whole.exchanged is not None:
        found = np.empty((out.shape[0], out.shape[2], out.shape[1], *out.shape[3:]), np.float32)
        convolve(whole.exchanged, w, x, found)
        out[...] = np.flip(found.swapaxes(1, 2), tuple(range(3, out.ndim)))
        return True
    if whole.moved is not None:
        x = whole.moved.moved(x)
    if whole.is_reordered:
        w = _in_order(w)
    if whole.is_partial:
        out[...] = 0
    for plan, used in whole.parts:
        plan.run(x, w if used is None else w[used], out)
    return True


def convolved(conv: Conv, x: np.ndarray, w: np.ndarray) -> np.ndarray | None:
    """The convolution of x and w; None if NumPy has to compute it."""
    out = np.empty((*x.shape[:2], w.shape[1], *conv.counts(x.shape[3:], w.shape[3:])), x.dtype)
    return out if convolve(conv, x, w, out) else None
