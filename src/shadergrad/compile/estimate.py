"""Estimates the time of a matrix multiplication, to rank tiles. In: a tile, sizes and the target's Costs. Out: seconds.

The model has three terms: the cost of a multiplication in a tile of this shape, the load of the busiest core of a large GPU, and the
time that each step along the contraction waits for memory.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate

from ..target import Costs
from .choices import Tile
from .products import Product

LARGEST = 128 * 128  # results of a workgroup, of which a core can run two


def seconds_of(tile: Tile, batch: int, m: int, n: int, k: int, costs: Costs) -> float:
    """Seconds of `batch` matrix multiplications of m x n results over k that run alone on the GPU."""
    workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
    busiest = -(-workgroups // costs.cores)
    resident = max(1, min(busiest, costs.registers // (tile.threads * tile.registers)))
    warps = resident * max(tile.threads / 32, 1)
    busy = busiest * seconds_busy(tile, k, costs) * (1 + 8 / warps**2)
    if tile.threads * tile.tm * tile.tn >= LARGEST and (m % 4 or n % 4 or k % 4):
        busy *= 1.25  # scalar loads and stores take more registers, so a core has room for one workgroup instead of two
    joined = busiest * costs.join if tile.slices > 1 else 0
    return costs.launch + max(busy, busiest / resident * -(-k // tile.bk) * costs.step) + joined


def seconds_of_parts(results: int, parts: int, costs: Costs) -> float:
    """Additional seconds of split-K: a second dispatch reads the partial sums and writes the results."""
    return costs.launch + 4 * results * (2 * parts + 1) / costs.bandwidth


def seconds_beside(chosen: Sequence[tuple[Product, Tile]], costs: Costs) -> float:
    """Seconds of matrix multiplications in one dispatch: the multiplications of the busiest core, and the time that steps wait for memory.
    Concurrent workgroups are assigned to the cores in turn, so the first core has the first of each round.
    """
    counts = [product.workgroups(tile) for product, tile in chosen]
    total, threads = sum(counts), max(tile.threads for _, tile in chosen)
    registers = max(t.registers for _, t in chosen)
    fit = max(1, costs.registers // (threads * registers))
    resident = max(1, min(-(-total // costs.cores), fit))
    busy = [seconds_busy(tile, product.chunk, costs) for product, tile in chosen]
    steps = [-(-product.chunk // tile.bk) for product, tile in chosen]
    work = sum(n * each for n, each in zip(counts, busy, strict=True)) / costs.cores
    waits = sum(n * each for n, each in zip(counts, steps, strict=True)) / costs.cores / resident
    ends = list(accumulate(counts))
    dealt = sum(busy[bisect(ends, number)] for number in range(0, min(total, fit * costs.cores), costs.cores))
    warps = resident * max(threads / 32, 1)
    return costs.launch + max(max(work, dealt) * (1 + 8 / warps**2), max(waits, *steps) * costs.step)


def seconds_busy(tile: Tile, k: int, costs: Costs) -> float:
    """Seconds of a workgroup's multiplications over k: the cost of each depends on the tile's shape, and is higher if threads fetch unequal parts."""
    fetched = tile.bk * tile.bm, tile.bk * tile.bn
    uneven = any(n % tile.threads for n in fetched) or k % tile.bk
    dear = 1 + 0.4 * (1 / tile.tm + 1 / tile.tn) + 20 * (1 / tile.bm + 1 / tile.bn) + 2 / tile.bk
    return tile.bm * tile.bn * -(-k // tile.bk) * tile.bk * dear * (1.15 if uneven else 1) / costs.rate
