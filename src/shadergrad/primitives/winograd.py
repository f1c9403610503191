"""Winograd convolution with 3x3 windows: fewer multiplications, by small transforms before and after the matrix multiplication.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), F(4x4, 3x3). ToPoints evaluates the tiles of an
image and the weights, as polynomials, at 6 x 6 points. At each point a matrix multiplication sums over the channels: 36
multiplications for 16 results instead of 144. FromPoints maps the values back to tiles of the result. Everything is linear in
either operand, so the gradient of the weights uses the transposed matrices and sums over the tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType
from ..graph.node import Node
from ..graph.primitive import Shape
from .call import Call, CallKernel, Written

WINDOW, TILE = 3, 4  # sizes along an axis: of the weights, and of a tile of the result
# errors with these points are a quarter of those with 0, 1, -1, 2, -2; the last point is infinity
FINITE = tuple(map(Fraction, ("0", "3/4", "-3/4", "3/2", "-3/2")))
POINTS = len(FINITE) + 1
THREADS = 64

Matrix = tuple[tuple[float, ...], ...]


def _times(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of (x - root) over all roots, the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def _floats(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(map(float, row)) for row in rows)


def _matrices() -> dict[str, Matrix]:
    """The matrices M of the transforms M t M^T, by the tensor that they transform; the last two transform back."""
    others = [[q for q in FINITE if q != p] for p in FINITE]
    data = [[*_times(o), Fraction(0)] for o in others] + [_times(FINITE)]
    scales = [math.prod((p - q for q in o), start=Fraction(1)) for p, o in zip(FINITE, others, strict=True)]
    at_infinity = [Fraction(k == WINDOW - 1) for k in range(WINDOW)]
    weight = [[p**k / scale for k in range(WINDOW)] for p, scale in zip(FINITE, scales, strict=True)] + [at_infinity]
    result = [[*(p**k for p in FINITE), Fraction(k == TILE - 1)] for k in range(TILE)]
    return {
        "input": _floats(data),
        "weight": _floats(weight),
        "turned weight": _floats([row[::-1] for row in weight]),
        "cotangent": _floats(list(zip(*result, strict=True))),
        "result": _floats(result),
        "weight's gradient": _floats(list(zip(*weight, strict=True))),
    }


MATRICES = _matrices()


def transformed(tiles: np.ndarray, matrix: str) -> np.ndarray:
    """M t M^T over the last two axes."""
    m = np.array(MATRICES[matrix], tiles.dtype)
    return m @ tiles @ m.T


def linear(factors: Sequence[float], names: Sequence[str]) -> str:
    """A sum of products of factors and names, in WGSL."""
    terms = [n if f == 1 else f"{f!r} * {n}" for f, n in zip(factors, names, strict=True) if f]
    return " + ".join(terms)


class Tiling(NamedTuple):
    """Images, and how they are divided into tiles.

    sizes: (rows, columns, height, width); element (r, c, i, j) lies at offset + r strides[0] + c strides[1] + .... The size of a tile is
    the width of the matrix. Tiles begin every TILE elements, the first at -low; elements beyond the borders are 0. counts: the numbers of
    tiles, down and across.
    """

    matrix: str
    low: Shape
    counts: Shape
    sizes: Shape
    strides: Shape
    offset: int

    @property
    def shape(self) -> Shape:
        """The shape of the transformed tiles: (points, rows, columns * tiles)."""
        return POINTS**2, self.sizes[0], self.sizes[1] * math.prod(self.counts)

    @property
    def reach(self) -> range:
        """The range of a tile's elements along an axis."""
        return range(len(MATRICES[self.matrix][0]))

    def value(self, x: np.ndarray) -> np.ndarray:
        """The points of all tiles, with the shape `shape`."""
        flat = np.ascontiguousarray(x).reshape(-1)[self.offset :]
        images = np.lib.stride_tricks.as_strided(flat, self.sizes, [s * x.itemsize for s in self.strides])
        sizes = self.sizes[2:]
        places = [
            TILE * np.arange(n)[:, None] + np.array(self.reach) - a for n, a in zip(self.counts, self.low, strict=True)
        ]
        inside = [(p >= 0) & (p < n) for p, n in zip(places, sizes, strict=True)]
        down, across = inside
        y, x = (np.clip(p, 0, n - 1) for p, n in zip(places, sizes, strict=True))
        tiles = images[:, :, y[:, None, :, None], x[None, :, None, :]]
        tiles = np.where(down[:, None, :, None] & across[None, :, None, :], tiles, tiles.dtype.type(0))
        points = transformed(tiles, self.matrix).reshape(self.sizes[0], -1, POINTS**2)
        return np.ascontiguousarray(np.moveaxis(points, -1, 0))

    def in_quads(self, elements: int) -> bool:
        """Whether an array of this many elements can be read four at a time."""
        *others, step = self.strides
        return (
            self.sizes[3] > 1
            and step == 1
            and not any(n % TILE for n in (self.sizes[3], *others, self.offset, elements))
        )

    def statements(self, name: str, quads: bool, start: int) -> Iterator[str]:
        """The statements of thread `at`, which transforms one tile of array `name`. start: the offset of the points in the result."""
        (_, rows, of_row), (_, _, height, _) = self.shape, self.sizes
        tiles, count, m = math.prod(self.counts), rows * of_row, MATRICES[self.matrix]
        to_row, to_column, to_line, _ = self.strides
        yield f"let tile = at % {tiles};"
        yield f"let top = tile / {self.counts[1]} * {TILE} + {-self.low[0]};"
        yield f"let across = tile % {self.counts[1]};"
        yield f"let image = {self.offset} + at / {of_row} * {to_row} + at % {of_row} / {tiles} * {to_column};"
        for i in self.reach:
            yield f"let y{i} = top + {i};"
            yield f"let in{i} = y{i} >= 0 && y{i} < {height};"
            yield f"let line{i} = image + clamp(y{i}, 0, {height - 1}) * {to_line};"
            yield from self._in_quads(name, i) if quads else self._one_by_one(name, i)
        for j in self.reach:
            for p, factors in enumerate(m):
                yield f"let t{p}_{j} = {linear(factors, [f'd{i}_{j}' for i in self.reach])};"
        for p in range(POINTS):
            for q, factors in enumerate(m):
                place = start + (p * POINTS + q) * count
                yield f"result[{place} + at] = {linear(factors, [f't{p}_{j}' for j in self.reach])};"

    def _one_by_one(self, name: str, i: int) -> Iterator[str]:
        width, step = self.sizes[3], self.strides[3]
        for j in self.reach:
            yield f"let x{i}_{j} = across * {TILE} + {j - self.low[1]};"
            inside = f"in{i} && x{i}_{j} >= 0 && x{i}_{j} < {width}"
            yield f"let d{i}_{j} = select(0.0, {name}[line{i} + clamp(x{i}_{j}, 0, {width - 1}) * {step}], {inside});"

    def _in_quads(self, name: str, i: int) -> Iterator[str]:
        count = self.sizes[3] // TILE
        places = [divmod(j - self.low[1], TILE) for j in self.reach]
        for k, quad in enumerate(dict.fromkeys(quad for quad, _ in places)):
            place = f"across + {quad}"
            inside = f"in{i} && {place} >= 0 && {place} < {count}"
            yield f"let q{i}_{k} = select(vec4f(), {name}[line{i} / {TILE} + clamp({place}, 0, {count - 1})], {inside});"
        for j, (quad, lane) in enumerate(places):
            yield f"let d{i}_{j} = q{i}_{quad - places[0][0]}.{'xyzw'[lane]};"


@dataclass(frozen=True, eq=False)
class ToPoints(Call):
    """The points of the tiles of one operand of a matrix product, or of both operands, concatenated. cut: a Tiling for each operand."""

    kind = "call"
    differentiable = False
    may_share = True
    cut: tuple

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("a", "b")[: len(self.cut)]

    @property
    def tilings(self) -> list[Tiling]:
        return [Tiling(*each) for each in self.cut]

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (sum(math.prod(t.shape) for t in self.tilings),), inputs[0].dtype

    def numpy(self, *operands):
        return np.concatenate([t.value(x).reshape(-1) for t, x in zip(self.tilings, operands, strict=True)])

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        text, start, workgroups, vectors, flops = [], 0, 0, set(), 0
        for name, x, tiling in zip(self.arguments, inputs, self.tilings, strict=True):
            count = math.prod(tiling.shape[1:])
            quads = tiling.in_quads(x.size)
            vectors |= {name} if quads else set()
            own = -(-count // THREADS)
            text += [
                f"if (wg >= {workgroups} && wg < {workgroups + own}) {{",
                f"  let at = (wg - {workgroups}) * {THREADS} + i32(lid);",
                f"  if (at < {count}) {{",
                *(f"    {line}" for line in tiling.statements(name, quads, start)),
                "  }",
                "}",
            ]
            start, workgroups = start + math.prod(tiling.shape), workgroups + own
            flops += 2 * count * len(tiling.reach) * POINTS * (len(tiling.reach) + POINTS)
        return CallKernel("\n".join(text), THREADS, workgroups, "", frozenset(vectors), flops)


@dataclass(frozen=True, eq=False)
class FromPoints(Call):
    """The images whose tiles have these points: (36 * parts, rows, columns * tiles), summed over the parts, gives (columns,
    rows, height, width), or with `by_row` (rows, columns, height, width).

    The size of a tile is the height of the matrix. Tiles do not overlap; elements outside of the image are dropped.
    """

    kind = "call"
    differentiable = False
    may_share = True
    arguments = ("points",)
    matrix: str
    sizes: Shape  # of an image
    columns: int
    by_row: bool
    parts: int

    @property
    def epilogue(self) -> bool:
        """False for the gradient of weights, because an epilogue there would write elements that are not adjacent."""
        return self.side == TILE

    @property
    def side(self) -> int:
        """The size of a tile along an axis."""
        return len(MATRICES[self.matrix])

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of tiles, down and across."""
        return -(-self.sizes[0] // self.side), -(-self.sizes[1] // self.side)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        rows = inputs[0].shape[1]
        return (*((rows, self.columns) if self.by_row else (self.columns, rows)), *self.sizes), inputs[0].dtype

    def numpy(self, points):
        rows = points.shape[1]
        total = points.reshape(POINTS, POINTS, self.parts, rows, self.columns, *self.counts).sum(2)
        tiles = transformed(np.moveaxis(total, (0, 1), (-2, -1)), self.matrix)
        images = tiles.swapaxes(3, 4).reshape(rows, self.columns, *(n * self.side for n in self.counts))
        images = images[:, :, : self.sizes[0], : self.sizes[1]]
        return np.ascontiguousarray(images if self.by_row else images.swapaxes(0, 1))

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        rows, m, side = inputs[0].shape[1], MATRICES[self.matrix], self.side
        (height, width), (down, across) = self.sizes, self.counts
        tiles = down * across
        of_row = self.columns * tiles
        count, every = rows * of_row, range(POINTS)
        row, column = f"at / {of_row}", f"at % {of_row} / {tiles}"
        image = f"{row} * {self.columns} + {column}" if self.by_row else f"{column} * {rows} + {row}"
        sums = []
        for q in every:
            places = [((p * POINTS + q) * self.parts * count) for p in every]
            sums += [f"let d{p}_{q} = points[{place} + part * {count} + at];" for p, place in enumerate(places)]
            sums += [f"t{r}_{q} += {linear(m[r], [f'd{p}_{q}' for p in every])};" for r in range(side)]
        text = [
            f"let thread = wg * {THREADS} + i32(lid);",
            f"let at = min(thread, {count - 1});",
            *(f"var t{r}_{q} = 0.0;" for r in range(side) for q in every),
            f"for (var part = 0; part < {self.parts}; part++) {{",
            *sums,
            "}",
            f"let top = at % {tiles} / {across} * {side};",
            f"let left = at % {across} * {side};",
            f"let base = (({image}) * {height} + top) * {width} + left;",
        ]
        inside = [f"thread < {count}"] if count % THREADS else []
        written = []
        quads = side == TILE and width % TILE == 0
        for r in range(side):
            values = [linear(m[s], [f"t{r}_{q}" for q in every]) for s in range(side)]
            guards = inside + ([f"top + {r} < {height}"] if height % side else [])
            if quads:
                value, place = f"vec4f({', '.join(values)})", f"(base + {r * width}) / {TILE}"
                written.append(Written(value, place, " && ".join(guards), True))
                continue
            for s, value in enumerate(values):
                within = guards + ([f"left + {s} < {width}"] if width % side else [])
                written.append(Written(value, f"base + {r * width + s}", " && ".join(within)))
        flops = 2 * count * POINTS * side * (POINTS * self.parts + side)
        workgroups = -(-count // THREADS)
        return CallKernel("\n".join(text), THREADS, workgroups, flops=flops, written=tuple(written))
