"""Which products share a dispatch, and with which tiles.

In: products that do not wait for each other. Out: those that run as one, each with its tile.

A product of a few hundred workgroups ends with most of a GPU idle, and a dispatch begins when all before it has ended. Both
gradients of a layer, say, are such products, and together they take less time than one after another. A workgroup has as many
threads in all parts of a kernel, so tiles are chosen anew, by an estimate of the time of all. Those that last longest begin first.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from itertools import product as pairs_of

from ..graph.node import Node
from ..plan import Target
from ..primitives.dot import Dot
from ..primitives.winograd import POINTS
from ..symbolic_sizes import varies
from .tiles import (
    CORES,
    LATENCY,
    LAUNCH,
    MOST_FETCHED,
    RATE,
    REGISTERS,
    SHAPES,
    Shape,
    Tile,
    choose_tile,
    is_shared,
    measured_beside,
)

FULL = 3  # workgroups a core of a product that needs no other beside it
MOST = 1 << 30  # multiplications; of more, the idle time at begin and end does not count
# both gradients of a convolution at points (primitives/winograd.py) are faster together (H200, 2026-11-23), large as they are
MOST_AT_POINTS = 1 << 31
STEPS = (8, 16)  # longer ones were slower beside others
GAIN = 0.95  # of the time one after another that they may take together


@dataclass(frozen=True)
class Product:
    """`batches` products of m x n results over k, cut into `parts` of `chunk`. window: as of Dot."""

    batches: int
    m: int
    n: int
    k: int
    chunk: int
    parts: int
    window: int

    @classmethod
    def of(cls, dot: Node) -> Product:
        primitive = dot.primitive
        assert isinstance(primitive, Dot)
        batch, m, k = dot.inputs[0].shape
        parts = primitive.parts(k)
        shared = parts == 1 and is_shared(dot.inputs[0])  # all samples have one left operand: they are further columns
        batches, n = (1, dot.shape[2] * batch) if shared else (batch, dot.shape[2])
        return cls(batches, m, n, k, primitive.chunk or k, parts, primitive.window)

    def tile(self, target: Target) -> Tile:
        """That which it has alone."""
        chunk = self.chunk if self.parts > 1 else 0
        return choose_tile(self.batches, self.m, self.n, self.k, self.window, target, chunk)

    def workgroups(self, tile: Tile) -> int:
        return self.batches * self.parts * -(-self.m // tile.bm) * -(-self.n // tile.bn)

    def tiles(self, target: Target) -> tuple[Tile, ...]:
        """Those that it may have beside others, first that which it has alone."""
        steps = [bk for bk in STEPS if self.chunk % bk == 0 and bk % self.window == 0]
        found = (Tile(bm, bn, bk, tm, tn) for bm, bn, tm, tn in SHAPES for bk in steps)
        return (self.tile(target), *(t for t in found if t.fits(target) and t.fetched <= MOST_FETCHED))

    def measured_beside(self, other: Product, target: Target) -> Tile | None:
        """That which was fastest beside another one, where both were measured."""
        found = measured_beside(self.shape, other.shape, target)
        return found.tile if found is not None and found.chunk(self.k) == self.chunk else None

    @property
    def shape(self) -> Shape:
        return Shape(self.batches, self.m, self.n, self.k)

    def varies(self) -> bool:
        return any(varies(n) for n in (self.batches, self.m, self.n, self.k))


Chosen = tuple[tuple[Product, Tile], ...]  # in the order in which they begin


def may_share(product: Product, target: Target) -> bool:
    """Whether a product leaves cores idle. Sizes that vary have no estimate, browsers mind long texts, and whole windows, dear in
    registers, gained where they were measured: on a large GPU."""
    if not target.native or product.varies() or (product.window > 1 and not target.points):
        return False
    multiplications = product.batches * product.m * product.n * product.k
    if target.shares_loads(multiplications) or not target.takes_branches(product.batches * product.m * product.n):
        return False
    if product.tile(target).narrow:
        return False
    if target.points and product.batches % POINTS**2 == 0:
        return multiplications <= MOST_AT_POINTS
    if multiplications > MOST:
        return False
    return product.workgroups(product.tile(target)) <= FULL * CORES


@lru_cache(maxsize=4096)
def beside(chosen: Chosen, other: Product, target: Target) -> Chosen | None:
    """Tiles with which another product runs in the same dispatch as those that were chosen; None where it gains nothing. Of two
    both tiles are free, and what was measured goes before the estimate; of more that of the last."""
    if len(chosen) == 1 and (measured := _measured(chosen[0][0], other, target)):
        return measured
    alone = seconds(((other, other.tile(target)),))
    least, best = (seconds(chosen) + alone) * GAIN, None
    head, *rest = chosen
    first: list[Chosen] = [chosen] if rest else [((head[0], tile),) for tile in head[0].tiles(target)]
    for known, tile in pairs_of(first, other.tiles(target)):
        if all(t.threads == tile.threads for _, t in known):
            found = longest_first((*known, (other, tile)))
            time = seconds(found)
            if time < least:
                least, best = time, found
    return best


def _measured(first: Product, second: Product, target: Target) -> Chosen | None:
    tiles = first.measured_beside(second, target), second.measured_beside(first, target)
    if tiles[0] is None or tiles[1] is None or tiles[0].threads != tiles[1].threads:
        return None
    return longest_first(((first, tiles[0]), (second, tiles[1])))


def longest_first(chosen: Iterable[tuple[Product, Tile]]) -> Chosen:
    return tuple(sorted(chosen, key=lambda pair: -_busy(*pair)))


def seconds(chosen: Chosen) -> float:
    """An estimate of the time of products in one dispatch: what the busiest core has to multiply, and what steps wait for memory.
    The workgroups that fit are dealt to the cores in turn, so the first core has the first of each round."""
    counts = [product.workgroups(tile) for product, tile in chosen]
    total, threads = sum(counts), max(tile.threads for _, tile in chosen)
    registers = max(t.registers for _, t in chosen)
    fit = max(1, REGISTERS // (threads * registers))
    resident = max(1, min(-(-total // CORES), fit))
    busy = [_busy(*pair) for pair in chosen]
    steps = [-(-product.chunk // tile.bk) for product, tile in chosen]
    work = sum(n * each for n, each in zip(counts, busy, strict=True)) / CORES
    waits = sum(n * each for n, each in zip(counts, steps, strict=True)) / CORES / resident
    ends = list(accumulate(counts))
    dealt = sum(busy[bisect(ends, number)] for number in range(0, min(total, fit * CORES), CORES))
    warps = resident * max(threads / 32, 1)
    return LAUNCH + max(max(work, dealt) * (1 + 8 / warps**2), max(waits, *steps) * LATENCY)


def _busy(product: Product, tile: Tile) -> float:
    """Seconds of a workgroup's multiplications."""
    steps = -(-product.chunk // tile.bk)
    fetched = tile.bk * tile.bm, tile.bk * tile.bn
    uneven = any(n % tile.threads for n in fetched) or product.chunk % tile.bk
    dear = 1 + 0.4 * (1 / tile.tm + 1 / tile.tn) + 20 * (1 / tile.bm + 1 / tile.bn) + 2 / tile.bk
    return tile.bm * tile.bn * steps * tile.bk * dear * (1.15 if uneven else 1) / RATE
