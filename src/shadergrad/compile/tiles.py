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

from ..graph.index import Index, flatten, variable
from ..graph.node import Node
from ..plan import Target
from ..primitives.views import View
from ..varying import factor, hint


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
PARTS = (*range(2, 17), *range(18, 33, 2), *range(36, 65, 4), *range(72, 129, 8), *range(144, 257, 16))
# Browsers zero workgroup memory as each workgroup starts, SwiftShader word by word in every thread: products of fewer
# multiplications than this take the shortest steps there (a GPU does not notice; large ones lose up to a seventh by it)
SMALL = 1 << 24
SHORTEST_PART = 64
SHORTEST_STEP = 16  # what parts are a multiple of, so that steps do not reach from one into the next


def choose_tile(batch: int, m: int, n: int, k: int, window: int, target: Target) -> Tile:
    """The tile for `batch` products of m x n results over k, in whole windows where `window` is above 1."""
    return _best(*map(hint, (batch, m, n, k)), factor(k), window, target)[1]


@lru_cache(maxsize=4096)
def _best(batch: int, m: int, n: int, k: int, divisor: int, window: int, target: Target) -> tuple[float, Tile]:
    """The least estimated seconds, and the tile. divisor: of k, k itself where it does not vary."""
    few = not target.native and batch * m * n * k < SMALL
    found = [(_seconds(tile, batch, m, n, k), tile) for tile in _tiles(k, divisor, window, target, few)]
    return min(found, key=lambda pair: pair[0])


def takes_windows(window: int) -> bool:
    """Whether steps can be whole windows of so many places."""
    return 1 < window <= LONGEST_STEP


def _tiles(k: int, divisor: int, window: int, target: Target, shortest: bool) -> Iterator[Tile]:
    windows = [window * c for c in (1, 2, 3, 4) if window * c <= LONGEST_STEP and divisor % (window * c) == 0]
    whole = [s for s in STEPS if divisor % s == 0]
    steps = windows if takes_windows(window) and windows else whole or [s for s in STEPS if s < 2 * k] or [STEPS[0]]
    if shortest:
        steps = steps[:1]
    for bm, bn, tm, tn in SHAPES:
        for bk in steps:
            tile = Tile(bm, bn, bk, tm, tn)
            if tile.fits(target) and (tile.fetched <= MOST_FETCHED or bk == steps[0]):
                yield tile


def _seconds(tile: Tile, batch: int, m: int, n: int, k: int) -> float:
    """An estimate of the time of a product."""
    workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
    busiest = -(-workgroups // CORES)
    registers = tile.tm * tile.tn + tile.tm + tile.tn + tile.fetched + 44
    resident = max(1, min(busiest, REGISTERS // (tile.threads * registers)))
    warps = resident * max(tile.threads / 32, 1)
    steps = -(-k // tile.bk)
    uneven = tile.bk * tile.bm % tile.threads or tile.bk * tile.bn % tile.threads or k % tile.bk
    dear = 1 + 0.4 * (1 / tile.tm + 1 / tile.tn) + 20 * (1 / tile.bm + 1 / tile.bn) + 2 / tile.bk
    busy = busiest * tile.bm * tile.bn * steps * tile.bk * dear * (1.15 if uneven else 1) * (1 + 8 / warps**2) / RATE
    return LAUNCH + max(busy, busiest / resident * steps * LATENCY)


def chunk_of(batch: int, m: int, n: int, k: int, window: int, target: Target) -> int:
    """How long the stretches are into which the contraction is best cut; k: it stays whole."""
    found = _chunk_of(*map(hint, (batch, m, n, k)), factor(k), window, target)
    return k if found == hint(k) else found


@lru_cache(maxsize=4096)
def _chunk_of(batch: int, m: int, n: int, k: int, divisor: int, window: int, target: Target) -> int:
    best, least = k, _best(batch, m, n, k, divisor, window, target)[0]
    unit = window if takes_windows(window) else SHORTEST_STEP
    for parts in PARTS:
        chunk = -(-k // (parts * unit)) * unit
        if chunk < SHORTEST_PART or -(-k // chunk) != parts:
            continue
        nbytes = 4 * batch * m * n * (2 * parts + 1)
        seconds = _best(batch * parts, m, n, chunk, chunk, window, target)[0] + LAUNCH + nbytes / BANDWIDTH
        if seconds < least * 0.95:
            best, least = chunk, seconds
    return best


def is_shared(x: Node) -> bool:
    """Whether the elements of x are the same all along its first axis."""
    _, index = _behind_views(x)
    return x.shape[0] > 1 and not any("x0" in i.variables() for i in index)


def innermost(x: Node) -> int | None:
    """The axis of x along which neighbours are neighbours in the memory behind its views, if there is one."""
    source, index = _behind_views(x)
    flat = flatten(index, source.shape)
    splits = {a: flat.split(f"x{a}") for a, n in enumerate(x.shape) if n > 1}
    return next((a for a, split in splits.items() if split is not None and split[1] == 1), None)


def _behind_views(x: Node) -> tuple[Node, tuple[Index, ...]]:
    """What x is a view of, and the index into it of element (x0, x1, ...)."""
    index = tuple(variable(f"x{a}", n) for a, n in enumerate(x.shape))
    while isinstance(x.primitive, View):
        (source,) = x.inputs
        index, x = x.primitive.source_index(index, source.shape), source
    return x, index
