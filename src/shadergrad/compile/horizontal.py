"""Chooses the matrix multiplications that share a dispatch (horizontal fusion), and their tiles.

In: independent matrix multiplications. Out: those that share a dispatch, each with its tile.

A matrix multiplication of a few hundred workgroups leaves most of a GPU idle at its end, and a dispatch begins only after the earlier
ones end. Both gradients of a layer are such a pair; together they take less time than one after the other. All parts of a kernel have the
same number of threads per workgroup, so their tiles are chosen again, by an estimate of the total time. The longest parts start first.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import product as pairs_of

from ..primitives.winograd import POINTS
from ..target import Costs, Target
from .choices import Tile
from .estimate import seconds_beside, seconds_busy
from .products import Product
from .tiles import MOST_FETCHED, SHAPES, fits, measured_beside, tile_of

FULL = 3  # workgroups per core from which on sharing a dispatch gains nothing
MOST = 1 << 30  # multiply-adds; in larger ones the idle time at start and end does not matter
# exception: both gradients of a Winograd convolution (primitives/winograd.py) are faster together at any size (H200, 2026-11-23)
MOST_AT_POINTS = 1 << 31
STEPS = (8, 16)  # longer steps were slower beside others
GAIN = 0.95  # the largest share of the sequential time that the common dispatch may take

Chosen = tuple[tuple[Product, Tile], ...]  # in the order in which they begin


def may_share(product: Product, target: Target) -> bool:
    """Whether a matrix multiplication may share a dispatch. It must leave cores idle, its sizes must not vary (the estimate needs numbers), the
    target must tolerate long kernels, and it must not read whole windows, except on large GPUs, where a gain was measured.
    """
    traits = target.traits
    if not traits.unrolls or product.varies() or (product.window > 1 and not traits.winograd):
        return False
    multiplications = product.multiplications
    if target.shuffles(multiplications) or not target.takes_branches(product.batches * product.m * product.n):
        return False
    if tile_of(product, target).narrow:
        return False
    if traits.winograd and product.batches % POINTS**2 == 0:
        return multiplications <= MOST_AT_POINTS
    if multiplications > MOST:
        return False
    return product.workgroups(tile_of(product, target)) <= FULL * traits.costs.cores


@lru_cache(maxsize=4096)
def beside(chosen: Chosen, other: Product, target: Target) -> Chosen | None:
    """Tiles with which another matrix multiplication runs in the same dispatch as those already chosen; None if nothing is gained. With two,
    both tiles are free, and measurements take precedence over the estimate; with more, only the last tile is free.
    """
    if len(chosen) == 1 and (measured := _measured(chosen[0][0], other, target)):
        return measured
    costs = target.traits.costs
    alone = seconds_beside(((other, tile_of(other, target)),), costs)
    least, best = (seconds_beside(chosen, costs) + alone) * GAIN, None
    head, *rest = chosen
    first: list[Chosen] = [chosen] if rest else [((head[0], tile),) for tile in _tiles(head[0], target)]
    for known, tile in pairs_of(first, _tiles(other, target)):
        if all(t.threads == tile.threads for _, t in known):
            found = longest_first((*known, (other, tile)), costs)
            time = seconds_beside(found, costs)
            if time < least:
                least, best = time, found
    return best


def _tiles(product: Product, target: Target) -> tuple[Tile, ...]:
    """The candidate tiles beside others, first the tile that the multiplication has alone."""
    steps = [bk for bk in STEPS if product.chunk % bk == 0 and bk % product.window == 0]
    found = (Tile(bm, bn, bk, tm, tn) for bm, bn, tm, tn in SHAPES for bk in steps)
    return (tile_of(product, target), *(t for t in found if fits(t, target) and t.fetched <= MOST_FETCHED))


def _measured(first: Product, second: Product, target: Target) -> Chosen | None:
    tiles = measured_beside(first, second, target), measured_beside(second, first, target)
    if tiles[0] is None or tiles[1] is None or tiles[0].threads != tiles[1].threads:
        return None
    return longest_first(((first, tiles[0]), (second, tiles[1])), target.traits.costs)


def longest_first(chosen: Iterable[tuple[Product, Tile]], costs: Costs) -> Chosen:
    return tuple(sorted(chosen, key=lambda pair: -seconds_busy(pair[1], pair[0].chunk, costs)))
