"""Chooses the tile of a matrix multiplication, and the number of parts of its contraction (split-K).

In: the sizes of a product and the target's limits. Out: the tile and the length of the parts with the least estimated time
(estimate.py). A measurement for the adapter (tuning.py) takes precedence over the estimate.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ..symbolic_sizes import factor, hint, varies
from ..target import Target
from .choices import FEW_ROWS, SHORTEST_PART, SHORTEST_STEP, Beside, Cut, Shape, Table, Tile
from .estimate import seconds_of, seconds_of_parts
from .products import Product

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
SLICED = (Tile(32, 32, 64, 4, 4, 1, 4), Tile(32, 32, 128, 8, 4, 1, 8))  # tiles with slices, for few results
STEPS = (8, 16, 32)
LONGEST_STEP = 40
LONGEST_SLICED = 1024  # contraction; for longer ones, as of weight gradients, split-K and a shared dispatch are faster
MOST_FETCHED = 28  # elements per thread; with more, registers spill
PARTS = (*range(2, 17), *range(18, 33, 2), *range(36, 65, 4), *range(72, 129, 8), *range(144, 257, 16))
# Browsers zero workgroup memory when a workgroup starts; SwiftShader does it word by word in every thread. There, products of
# fewer multiplications use the shortest steps. A GPU loses nothing by that; products of more multiplications lose up to a seventh.
SMALL = 1 << 24
COLUMNS = 256  # of a narrow multiplication's workgroup
NEAR = 0.35  # the largest distance of sizes from measured ones, as a sum of base-2 logarithms

# Tiles whose threads share loads: a load serves as many multiplications as a thread has rows, or columns, of results. Each row is loaded
# by one of SHARED_BY threads, which must belong to one subgroup.
SHARED_BY = 8
SHUFFLED = tuple(Tile(tm, SHARED_BY * tn, 1, tm, tn) for tm, tn in ((32, 8), (16, 8), (32, 4), (16, 4)))
# The cost of a shared load in multiplications. LEFT: an element of the left operand. SINGLE: an element of the right one, loaded alone;
# IN_QUAD: with three others of its row; ALONG: with three others along the contraction. WRITTEN: the driver's compilation of a result
# of a thread, divided among some eight runs.
LEFT, SINGLE, IN_QUAD, ALONG, WRITTEN = 2.5, 28, 10, 6, 300_000
LEAST_OF_ROW = 8  # columns per thread; fewer take as long, if a row is contiguous in memory
LONGEST_WALK = 131072  # steps along a contraction per thread, with at least eight per iteration
LONGEST_STEP_BY_STEP = 32768  # the same if an iteration may take a single step
LONGEST_SUM = 1024  # terms of such multiplications, to bound the rounding error
DIRECT = (Tile(32, 32, 1, 4, 4), Tile(16, 64, 1, 4, 4), Tile(64, 16, 1, 4, 4))


# -- measured choices

tables: dict[str, Table] = {}  # tables by the digest that a Target refers to


def register(table: Table) -> str:
    """The digest under which a Target may refer to the table."""
    digest = hashlib.sha256(repr(sorted(table.items(), key=str)).encode()).hexdigest()[:12]
    tables.setdefault(digest, dict(table))
    return digest


@lru_cache(maxsize=4096)
def _cut(digest: str, batch: int, m: int, n: int, k: int) -> Cut | None:
    """The measurement for a matrix multiplication, or for one with nearly the same sizes whose contraction divides as well. One that was measured
    in a shared dispatch, such as a weight's gradient, is cut in that way everywhere: it seldom runs alone, and parts are chosen before its
    partners are known.
    """
    table = tables.get(digest, {})
    wanted = Shape(batch, m, n, k)
    cut = (c for key, c in table.items() if isinstance(key, Beside) and key.shape == wanted and c.parts > 1)
    if (found := next(cut, None)) or wanted in table or 0 in wanted:
        return found or table.get(wanted)

    def apart(shape: Shape) -> float:
        return sum(abs(math.log2(a / b)) for a, b in zip(shape, wanted, strict=True))

    near = [
        shape
        for shape, found in table.items()
        if isinstance(shape, Shape) and apart(shape) <= NEAR and (k % found.tile.bk == 0 or shape.k % found.tile.bk)
    ]
    return table[min(near, key=apart)] if near else None


def _measured(batch: int, m: int, n: int, k: int, window: int, target: Target) -> Cut | None:
    """The entry of the target's table."""
    if not target.measured or takes_windows(window):
        return None
    found = _cut(target.measured, batch, m, n, k)
    return found if found is not None and fits(found.tile, target) else None


def measured_beside(product: Product, other: Product, target: Target) -> Tile | None:
    """The tile that was fastest for a product that shares a dispatch with another, if both were measured."""
    found = tables.get(target.measured, {}).get(Beside(product.shape, other.shape))
    if found is None or not fits(found.tile, target) or found.chunk(product.k) != product.chunk:
        return None
    return found.tile


# -- choosing


def fits(tile: Tile, target: Target) -> bool:
    """Whether the target's limits allow the tile. Slices add their sums in the memory of the larger operand's tiles, which must hold one sum of
    each thread of half of them.
    """
    if max(tile.stages, tile.slices) > 1 and not target.traits.unrolls:
        return False
    if tile.slices > 1 and tile.room < tile.slices // 2 * tile.slice:
        return False
    return tile.threads <= target.max_workgroup_invocations and tile.storage <= target.max_workgroup_storage


def choose_tile(batch: int, m: int, n: int, k: int, window: int, target: Target, chunk: int = 0) -> Tile:
    """The tile for `batch` matrix multiplications of m x n results over k, cut into parts of `chunk` unless that is 0, in whole windows
    if `window` is above 1.
    """
    if (narrow := narrow_tile(m, n, k, window, target)) and not chunk:
        return narrow
    part, divisor = hint(chunk or k), factor(chunk or k)
    measured = None if varies(k) else _measured(hint(batch), hint(m), hint(n), k, window, target)
    if measured is not None and measured.chunk(k) == part:
        return measured.tile
    return _best(hint(batch) * -(-hint(k) // part), hint(m), hint(n), part, divisor, window, target)[1]


def tile_of(product: Product, target: Target) -> Tile:
    """The tile of a product that has a dispatch of its own."""
    p = product
    return choose_tile(p.batches, p.m, p.n, p.k, p.window, target, p.chunk if p.parts > 1 else 0)


def narrow_tile(m: int, n: int, k: int, window: int, target: Target) -> Tile | None:
    """The narrow tile of a product with a few rows over whole windows, if it fits."""
    if not target.traits.unrolls or window == 1 or varies(m) or varies(k) or not 0 < m <= FEW_ROWS or hint(n) < COLUMNS:
        return None
    tile = Tile(m, COLUMNS, k, m, 1)
    return tile if fits(tile, target) else None


def shuffled_tile(product: Shape, quads: bool, along: bool) -> Tile:
    """The tile of threads that share loads. quads: whether four elements of a row of the right operand are one load. along:
    whether four positions along the contraction are one step.
    """
    batch, m, n, k = map(hint, product)
    left, right = (0, ALONG) if along else (LEFT, IN_QUAD if quads else SINGLE)

    def cost(tile: Tile) -> float:
        workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
        across = max(tile.tn, LEAST_OF_ROW) if quads else tile.tn
        return workgroups * k * (tile.tm * (across + left) + across * right) + WRITTEN * tile.tm * tile.tn

    return min(SHUFFLED, key=cost)


def direct_tile(m: int, n: int) -> Tile:
    """The tile of a matrix multiplication whose threads read operands from memory as they need them."""
    return min(DIRECT, key=lambda t: -(-hint(m) // t.bm) * -(-hint(n) // t.bn))


@lru_cache(maxsize=4096)
def _best(
    batch: int, m: int, n: int, k: int, divisor: int, window: int, target: Target, sliced: bool | None = None
) -> tuple[float, Tile]:
    """The smallest estimated time in seconds, and its tile. divisor: of k, k itself if it does not vary. sliced: whether tiles with slices
    are candidates; None: if drivers compile their long kernels quickly.
    """
    few = target.traits.zeroes_slowly and batch * m * n * k < SMALL
    tiles = list(_tiles(k, divisor, window, target, few))
    if _takes_slices(target) if sliced is None else sliced:
        tiles += [t for t in SLICED if window == 1 and k <= LONGEST_SLICED and divisor % t.bk == 0 and fits(t, target)]
    costs = target.traits.costs
    return min(((seconds_of(tile, batch, m, n, k, costs), tile) for tile in tiles), key=lambda pair: pair[0])


def _takes_slices(target: Target) -> bool:
    return target.traits.unrolls and not target.traits.slow_loads


def takes_windows(window: int) -> bool:
    """Whether steps can be whole windows of that many elements."""
    return 1 < window <= LONGEST_STEP


_plain = lru_cache(maxsize=None)(Tile)  # cached: the same tiles are estimated many times


def _tiles(k: int, divisor: int, window: int, target: Target, shortest: bool) -> Iterator[Tile]:
    windows = [window * c for c in (1, 2, 3, 4) if window * c <= LONGEST_STEP and divisor % (window * c) == 0]
    whole = [s for s in STEPS if divisor % s == 0]
    steps = windows if takes_windows(window) and windows else whole or [s for s in STEPS if s < 2 * k] or [STEPS[0]]
    if shortest:
        steps = steps[:1]
    for bm, bn, tm, tn in SHAPES:
        for bk in steps:
            tile = _plain(bm, bn, bk, tm, tn)
            if fits(tile, target) and (tile.fetched <= MOST_FETCHED or bk == steps[0]):
                yield tile


# -- the parts of a contraction


def chunk_of(batch: int, m: int, n: int, k: int, window: int, target: Target) -> int:
    """The best length of the parts of the contraction (split-K); k if it is not cut."""
    if window == 1 and target.shuffles(hint(batch * m * n * k)):
        parts = -(-hint(k) // LONGEST_SUM)
        return k if parts == 1 else -(-hint(k) // (parts * SHORTEST_STEP)) * SHORTEST_STEP
    measured = None if varies(k) else _measured(hint(batch), hint(m), hint(n), k, window, target)
    if measured is not None:
        return bounded(measured.chunk(k), k, window, target)
    found = _chunk_of(*map(hint, (batch, m, n, k)), factor(k), window, target)
    return bounded(k if found == hint(k) else found, k, window, target)


def bounded(chunk: int, k: int, window: int, target: Target) -> int:
    """A part length with which a kernel's loop stays within the allowed iterations of an invocation (compile/loop_iterations.py)."""
    # where zeroing is slow, a kernel may have no tile, and an iteration a single step
    longest = LONGEST_STEP_BY_STEP if target.traits.zeroes_slowly else LONGEST_WALK
    if hint(chunk) <= longest:
        return chunk
    unit = window if takes_windows(window) else SHORTEST_STEP
    return -(-hint(k) // (-(-hint(k) // longest) * unit)) * unit


@lru_cache(maxsize=4096)
def _chunk_of(batch: int, m: int, n: int, k: int, divisor: int, window: int, target: Target) -> int:
    sliced = _takes_slices(target)
    # estimated without the short steps of browsers, with which no split would pay for its sum
    target = target.having(unrolls=True, zeroes_slowly=False)
    best, least = k, _best(batch, m, n, k, divisor, window, target, sliced)[0]
    unit = window if takes_windows(window) else SHORTEST_STEP
    for parts in PARTS:
        chunk = -(-k // (parts * unit)) * unit
        if chunk < SHORTEST_PART or -(-k // chunk) != parts:
            continue
        seconds = _best(batch * parts, m, n, chunk, chunk, window, target, sliced)[0]
        seconds += seconds_of_parts(batch * m * n, parts, target.traits.costs)
        if seconds < least * 0.95:
            best, least = chunk, seconds
    return best


def estimated(shape: Shape, target: Target) -> float:
    """Estimated seconds of a matrix multiplication with the best number of parts."""
    batch, m, n, k = shape
    chunk = _chunk_of(batch, m, n, k, k, 1, target)
    parts = -(-k // chunk)
    seconds = _best(batch * parts, m, n, chunk, chunk, 1, target)[0]
    return seconds + (seconds_of_parts(batch * m * n, parts, target.traits.costs) if parts > 1 else 0)


# -- candidates for tuning

TUNED = (  # tiles that tuning tries besides those of SHAPES
    Tile(256, 128, 8, 16, 8, 2),
    Tile(128, 256, 8, 16, 8, 2),
    Tile(128, 128, 8, 16, 8),
    Tile(64, 128, 16, 8, 8, 2),
    Tile(128, 64, 16, 8, 8, 2),
    Tile(64, 64, 16, 8, 8, 2),
    Tile(64, 64, 16, 8, 8),
    Tile(64, 64, 64, 8, 8, 1, 2),
    Tile(32, 32, 32, 4, 4, 1, 2),
    Tile(32, 32, 64, 4, 4, 1, 4),
    Tile(32, 32, 112, 4, 4, 1, 4),
    Tile(32, 32, 112, 4, 8, 1, 4),
    Tile(32, 32, 128, 4, 4, 1, 4),
    Tile(32, 32, 64, 8, 4, 1, 4),
    Tile(32, 32, 128, 8, 4, 1, 8),
    Tile(32, 32, 128, 8, 8, 1, 8),
    Tile(64, 32, 64, 8, 8, 1, 4),
    Tile(64, 64, 64, 8, 4, 1, 2),
    Tile(96, 192, 16, 8, 12, 1, 2),
    Tile(192, 96, 16, 8, 12, 1, 2),
    Tile(128, 96, 32, 8, 12, 1, 2),
)
WORTH_TRYING = 2  # times the smallest estimated time
MOST_TRIED = 40


def candidates(shape: Shape, target: Target) -> list[Cut]:
    """The candidates that tuning measures for a shape: the estimate's choice first, then others, the most promising first."""
    batch, m, n, k = shape
    target, costs = replace(target, measured=""), target.traits.costs
    chunk = chunk_of(batch, m, n, k, 1, target)
    own = Cut(choose_tile(batch, m, n, k, 1, target, chunk if chunk < k else 0), -(-k // chunk))
    tuned = [tile for tile in TUNED if fits(tile, target) and tile.bk < 2 * k]
    found = {}
    for tile in dict.fromkeys([*tuned, *(t for t in _tiles(k, k, 1, target, False) if t.bk > STEPS[0])]):
        workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
        for parts in {1, own.parts, *(-(-costs.cores * each // workgroups) for each in (1, 2, 4))}:
            cut = Cut(tile, parts)
            if not cut.divides(k):
                continue
            joined = seconds_of_parts(batch * m * n, parts, costs) if parts > 1 else 0
            found[cut] = seconds_of(tile, batch * parts, m, n, cut.chunk(k), costs) + joined
    least = min(found.values(), default=0)
    worth = [c for c in found if found[c] < least * WORTH_TRYING * (1 + (c.parts == 1 and c.tile in tuned))]
    return list(dict.fromkeys([own, *sorted(worth, key=lambda c: found[c])]))[:MOST_TRIED]
