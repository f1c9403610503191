"""How a matrix product is cut up: tiles, steps along the contraction, and parts of it that are summed afterwards.

In: the sizes of a product and what the target allows. Out: the tile, and the number of parts, with the least estimated
time. The estimate knows three things: what a multiplication costs in a tile of that shape, how full the busiest core of
a large GPU is, and that a step along the contraction waits for memory. Its numbers were fitted to an H200
(benchmarks/products.py); a GPU with fewer cores wants the same order, only sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..graph.index import variable
from ..graph.node import Node
from ..plan import Target
from ..primitives.views import View


@dataclass(frozen=True)
class Tile:
    """bm x bn results a workgroup in steps of bk; tm x tn results a thread."""

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int

    @property
    def threads(self) -> int:
        return (self.bm // self.tm) * (self.bn // self.tn)

    @property
    def storage(self) -> int:
        """Bytes of workgroup memory, rows without padding."""
        return 4 * self.bk * (self.bm + self.bn)

    @property
    def fetched(self) -> int:
        """Elements of both operands that a thread keeps in registers while they are on their way."""
        return -(-self.bk * (self.bm + self.bn) // self.threads)

    def fits(self, target: Target) -> bool:
        return self.threads <= target.max_workgroup_invocations and self.storage <= target.max_workgroup_storage


SHAPES = (  # bm, bn, tm, tn
    (128, 128, 8, 8),
    (128, 64, 8, 8),
    (64, 128, 8, 8),
    (64, 64, 8, 4),
    (32, 128, 8, 8),
    (128, 32, 8, 4),
    (32, 64, 4, 4),
    (64, 32, 4, 4),
    (32, 32, 4, 4),
    (16, 128, 4, 4),
    (128, 16, 4, 4),
    (16, 16, 4, 4),
    (4, 256, 4, 4),
)
STEPS = (8, 16, 32)
LONGEST_STEP = 40
MOST_FETCHED = 28  # with more, registers spill
CORES = 132
REGISTERS = 65536  # of a core
RATE = 224e9  # multiplications a second and core
LATENCY = 0.45e-6  # seconds that a step along the contraction waits
LAUNCH = 3e-6
BANDWIDTH = 2.5e12  # bytes a second, of partial results
MOST_PARTS = 256
SHORTEST_PART = 64


def choose_tile(batch: int, m: int, n: int, k: int, window: int, target: Target) -> Tile:
    """The tile for `batch` products of m x n results over k, in whole windows where `window` is above 1."""
    return _best(batch, m, n, k, window, target)[1]


@lru_cache(maxsize=4096)
def _best(batch: int, m: int, n: int, k: int, window: int, target: Target) -> tuple[float, Tile]:
    """The least estimated seconds, and the tile."""
    found = [(_seconds(tile, batch, m, n, k), tile) for tile in _tiles(k, window, target)]
    return min(found, key=lambda pair: pair[0])


def _tiles(k: int, window: int, target: Target) -> Iterator[Tile]:
    windows = [window * c for c in (1, 2, 3, 4) if window * c <= LONGEST_STEP and k % (window * c) == 0]
    steps = windows if 1 < window <= LONGEST_STEP and windows else [s for s in STEPS if s < 2 * k] or [STEPS[0]]
    for bm, bn, tm, tn in SHAPES:
        for bk in steps:
            tile = Tile(bm, bn, bk, tm, tn)
            if tile.fits(target) and (tile.fetched <= MOST_FETCHED or bk == steps[0]):
                yield tile


def _seconds(tile: Tile, batch: int, m: int, n: int, k: int) -> float:
    """An estimate of the time of a product."""
    workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
    busiest = -(-workgroups // CORES)
    resident = max(1, min(busiest, REGISTERS // (tile.threads * (tile.tm * tile.tn + tile.fetched + 48))))
    warps = resident * max(tile.threads / 32, 1)
    steps = -(-k // tile.bk)
    uneven = tile.bk * tile.bm % tile.threads or tile.bk * tile.bn % tile.threads or k % tile.bk
    dear = 1 + 0.4 * (1 / tile.tm + 1 / tile.tn) + 20 * (1 / tile.bm + 1 / tile.bn) + 2 / tile.bk
    busy = busiest * tile.bm * tile.bn * steps * tile.bk * dear * (1.15 if uneven else 1) * (1 + 1 / warps) / RATE
    return LAUNCH + max(busy, busiest / resident * steps * LATENCY)


@lru_cache(maxsize=4096)
def parts_of(batch: int, m: int, n: int, k: int, window: int, target: Target) -> int:
    """Into how many parts of equal length the contraction is best cut; 1: it stays whole."""
    whole = _best(batch, m, n, k, window, target)[0]
    best, least = 1, whole
    for parts in range(2, min(MOST_PARTS, k // SHORTEST_PART) + 1):
        if k % (parts * window):
            continue
        nbytes = 4 * batch * m * n * (2 * parts + 1)
        seconds = _best(batch * parts, m, n, k // parts, window, target)[0] + LAUNCH + nbytes / BANDWIDTH
        if seconds < least * 0.95:
            best, least = parts, seconds
    return best


def is_shared(x: Node) -> bool:
    """Whether the elements of x are the same all along its first axis."""
    if x.shape[0] == 1:
        return False
    index = tuple(variable(f"x{a}", n) for a, n in enumerate(x.shape))
    while isinstance(x.primitive, View):
        (source,) = x.inputs
        index, x = x.primitive.source_index(index, source.shape), source
    return not any("x0" in i.variables() for i in index)
