"""How a matrix product is cut up: tiles, steps along the contraction, and parts of it that are summed afterwards.

In: the sizes of a product and what the target allows. Out: the tile, and the number of parts, with the least estimated
time. What was measured for an adapter (tuning.py) goes before the estimate, which knows three things: what a multiplication
costs in a tile of that shape, how full the busiest core of a large GPU is, and that a step along the contraction waits for
memory. Its numbers were fitted to an H200 (benchmarks/products.py); a GPU with fewer cores wants the same order, only sooner.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from ..graph.index import Index, flatten, variable
from ..graph.node import Node
from ..plan import Target
from ..primitives.views import SliceAt, View
from ..primitives.window import Window
from ..primitives.winograd import POINTS
from ..symbolic_sizes import factor, hint, varies


@dataclass(frozen=True)
class Tile:
    """bm x bn results a workgroup in steps of bk; tm x tn results a thread. stages: how many steps' tiles are in workgroup
    memory at a time; with two, one is filled while the other is read, and a step takes one barrier. slices: a step is cut into
    so many, each for some of the threads, which then have as many sums of the same results: more threads where there are few
    results and a long contraction."""

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    stages: int = 1
    slices: int = 1

    @cached_property
    def threads(self) -> int:
        return self.slice * self.slices

    @cached_property
    def slice(self) -> int:
        """Threads of a slice."""
        return (self.bm // self.tm) * (self.bn // self.tn)

    @cached_property
    def keeps_rows(self) -> bool:
        """Whether operands whose neighbours along k are neighbours in memory lie so in the tile, too: where slices take many of them,
        four at a time, and threads have registers for four of each of their rows and columns."""
        places = self.bk // self.slices
        if self.slices == 1 or places % QUAD or places < MANY_PLACES or self.tm + self.tn > FEW_SUMS:
            return False
        return self._registers(QUAD) * self.threads <= REGISTERS

    @property
    def deals_rows(self) -> bool:
        """Whether the sums of all slices have room in both operands' tiles, so that each slice joins those of some rows."""
        room = 2 * self.bk * min(self.bm, self.bn) * self.stages
        return self.slices % 2 == 0 and self.tm % self.slices == 0 and self.slices * self.bm * self.bn <= room

    @property
    def narrow(self) -> bool:
        """Whether each thread has a whole column of results, and only the left operand is shared."""
        return self.tn == 1

    @cached_property
    def storage(self) -> int:
        """Bytes of workgroup memory, rows without padding."""
        if self.narrow:
            return 4 * self.bk * FEW_ROWS
        return 4 * self.bk * (self.bm + self.bn) * self.stages

    @property
    def room(self) -> int:
        """vec4s of the larger operand's tiles, rows without padding."""
        return self.bk * max(self.bm, self.bn) * self.stages // 4

    @cached_property
    def fetched(self) -> int:
        """Elements of both operands that a thread keeps in registers while they are on their way."""
        return -(-self.bk * (self.bm + self.bn) // self.threads)

    @cached_property
    def registers(self) -> int:
        """Of a thread, about."""
        return self._registers(QUAD if self.keeps_rows else 1)

    def _registers(self, places: int) -> int:
        """Of a thread that reads so many places along the contraction at a time."""
        return self.tm * self.tn + places * (self.tm + self.tn) + self.fetched + 44

    def fits(self, target: Target) -> bool:
        """Whether the target allows it. Sums of slices are joined in the larger operand's tiles, which must have room for one of
        each thread of half of them."""
        if max(self.stages, self.slices) > 1 and not target.native:
            return False
        if self.slices > 1 and self.room < self.slices // 2 * self.slice:
            return False
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
SLICED = (Tile(32, 32, 64, 4, 4, 1, 4), Tile(32, 32, 128, 8, 4, 1, 8))  # for few results
STEPS = (8, 16, 32)
LONGEST_STEP = 40
QUAD = 4  # elements of a load
LONGEST_SLICED = 1024  # contraction: longer ones, as of weights' gradients, are better cut and put beside others
MANY_PLACES = 16  # along k; rows of fewer were slower than their transposes (masked LM, H200)
FEW_SUMS = 12  # rows and columns of a thread's results of which it can hold four places each
LARGEST = 128 * 128  # results of a workgroup, of which a core has room for two
MOST_FETCHED = 28  # with more, registers spill
CORES = 132
REGISTERS = 65536  # of a core
RATE = 224e9  # multiplications a second and core
LATENCY = 0.45e-6  # seconds that a step along the contraction waits
LAUNCH = 3e-6
JOIN = 1.3e-6  # seconds that a workgroup takes to join the sums of its slices
BANDWIDTH = 2.5e12  # bytes a second, of partial results
PARTS = (*range(2, 17), *range(18, 33, 2), *range(36, 65, 4), *range(72, 129, 8), *range(144, 257, 16))
# Browsers zero workgroup memory as each workgroup starts, SwiftShader word by word in every thread: products of fewer
# multiplications than this take the shortest steps there (a GPU does not notice; large ones lose up to a seventh by it)
SMALL = 1 << 24
# and SwiftShader compiles a tile for half a second, so that those of fewer than this take none at all
SMALLEST = 1 << 22
# Tiles of threads that hand each other what they load: a load serves as many multiplications as a thread has results down, or
# across. Each row is loaded by one of so many threads, which must be of one subgroup
HANDED_BY = 8
HANDED = tuple(Tile(tm, HANDED_BY * tn, 1, tm, tn) for tm, tn in ((32, 8), (16, 8), (32, 4), (16, 4)))
# Multiplications that take as long there as an element of the left operand, of the right one by itself, with three others of its row,
# and with three others along the contraction; and as it takes the driver to compile a result of a thread, divided among some eight runs
LEFT, SINGLE, IN_QUAD, ALONG, WRITTEN = 2.5, 28, 10, 6, 300_000
LEAST_OF_ROW = 8  # columns of a thread: fewer of a row, which lies in memory by itself, take no less
LONGEST_SUM = 1024  # of such products, for the error's sake
# A product with a few rows over windows: a thread has a whole column, reads what it alone wants as it goes, and the rows lie
# whole in workgroup memory
FEW_ROWS, COLUMNS = 4, 256
DIRECT = (Tile(32, 32, 1, 4, 4), Tile(16, 64, 1, 4, 4), Tile(64, 16, 1, 4, 4))
NEAR = 0.35  # how far sizes may be from those that were measured, as a sum of logarithms to base 2
SHORTEST_PART = 64
# Multiplications that take as long as the transforms to points and back on llvmpipe, and the driver to compile them; and the
# share of a plain product's that what is left, a fourth, may take with them
TRANSFORMS, SHARE = 1 << 29, 0.7
# Bytes of values at points, which stand beside all that is kept for a backward pass: of MANY_SAMPLES, and of more in proportion,
# for what is kept grows with them
MOST_POINTS, MANY_SAMPLES = 1 << 27, 128
SHORTEST_STEP = 16  # what parts are a multiple of, so that steps do not reach from one into the next


# -- measured choices


class Shape(NamedTuple):
    """`batch` products of m x n results over k."""

    batch: int
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return "x".join(map(str, self if self.batch > 1 else self[1:]))


@dataclass(frozen=True)
class Choice:
    """A tile, and into how many parts the contraction is cut."""

    tile: Tile
    parts: int = 1

    def chunk(self, k: int) -> int:
        """How long the parts of a contraction over k are; k: it stays whole."""
        unit = math.lcm(self.tile.bk, SHORTEST_STEP)
        chunk = -(-k // (self.parts * unit)) * unit
        return k if chunk >= k else chunk

    def divides(self, k: int) -> bool:
        """Whether a contraction over k has so many parts of some length."""
        return self.parts == 1 or (self.chunk(k) >= SHORTEST_PART and -(-k // self.chunk(k)) == self.parts)


class Beside(NamedTuple):
    """A product that shares a dispatch with another."""

    shape: Shape
    other: Shape


Table = Mapping[Shape | Beside, Choice]
tables: dict[str, Table] = {}  # those that targets name, by digest


def register(table: Table) -> str:
    """The digest under which a Target may name the table."""
    digest = hashlib.sha256(repr(sorted(table.items(), key=str)).encode()).hexdigest()[:12]
    tables.setdefault(digest, dict(table))
    return digest


@lru_cache(maxsize=4096)
def _choice(digest: str, batch: int, m: int, n: int, k: int) -> Choice | None:
    """What was measured for a product, or for one with nearly the same sizes whose contraction divides as well. One that is cut
    beside another, as a weight's gradient is, is cut so wherever it is: it seldom runs alone, and parts are chosen before it
    is known beside what."""
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


# -- what is taken


def choose_tile(batch: int, m: int, n: int, k: int, window: int, target: Target, chunk: int = 0) -> Tile:
    """The tile for `batch` products of m x n results over k, cut into parts of `chunk` if that is not 0, in whole windows
    where `window` is above 1."""
    if (narrow := narrow_tile(m, n, k, window, target)) and not chunk:
        return narrow
    part, divisor = hint(chunk or k), factor(chunk or k)
    measured = None if varies(k) else _measured(hint(batch), hint(m), hint(n), k, window, target)
    if measured is not None and measured.chunk(k) == part:
        return measured.tile
    return _best(hint(batch) * -(-hint(k) // part), hint(m), hint(n), part, divisor, window, target)[1]


def narrow_tile(m: int, n: int, k: int, window: int, target: Target) -> Tile | None:
    """That of a product with a few rows over whole windows, where it fits."""
    if not target.native or window == 1 or varies(m) or varies(k) or not 0 < m <= FEW_ROWS or hint(n) < COLUMNS:
        return None
    tile = Tile(m, COLUMNS, k, m, 1)
    return tile if tile.fits(target) else None


def _measured(batch: int, m: int, n: int, k: int, window: int, target: Target) -> Choice | None:
    """What the target's table says."""
    if not target.tiles or takes_windows(window):
        return None
    found = _choice(target.tiles, batch, m, n, k)
    return found if found is not None and found.tile.fits(target) else None


def measured_beside(shape: Shape, other: Shape, target: Target) -> Choice | None:
    """What the target's table says of a product that shares a dispatch with another."""
    found = tables.get(target.tiles, {}).get(Beside(shape, other))
    return found if found is not None and found.tile.fits(target) else None


@lru_cache(maxsize=4096)
def _best(
    batch: int, m: int, n: int, k: int, divisor: int, window: int, target: Target, sliced: bool | None = None
) -> tuple[float, Tile]:
    """The least estimated seconds, and the tile. divisor: of k, k itself where it does not vary. sliced: whether tiles of slices
    are among them; None: where drivers compile their long texts in no time."""
    few = not target.native and batch * m * n * k < SMALL
    tiles = list(_tiles(k, divisor, window, target, few))
    if _takes_slices(target) if sliced is None else sliced:
        tiles += [t for t in SLICED if window == 1 and k <= LONGEST_SLICED and divisor % t.bk == 0 and t.fits(target)]
    return min(((_seconds(tile, batch, m, n, k), tile) for tile in tiles), key=lambda pair: pair[0])


def _takes_slices(target: Target) -> bool:
    return target.native and not target.dear_loads


def takes_windows(window: int) -> bool:
    """Whether steps can be whole windows of so many places."""
    return 1 < window <= LONGEST_STEP


_plain = lru_cache(maxsize=None)(Tile)  # what was computed of a tile is asked again and again


def _tiles(k: int, divisor: int, window: int, target: Target, shortest: bool) -> Iterator[Tile]:
    windows = [window * c for c in (1, 2, 3, 4) if window * c <= LONGEST_STEP and divisor % (window * c) == 0]
    whole = [s for s in STEPS if divisor % s == 0]
    steps = windows if takes_windows(window) and windows else whole or [s for s in STEPS if s < 2 * k] or [STEPS[0]]
    if shortest:
        steps = steps[:1]
    for bm, bn, tm, tn in SHAPES:
        for bk in steps:
            tile = _plain(bm, bn, bk, tm, tn)
            if tile.fits(target) and (tile.fetched <= MOST_FETCHED or bk == steps[0]):
                yield tile


def _seconds(tile: Tile, batch: int, m: int, n: int, k: int) -> float:
    """An estimate of the time of a product."""
    workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
    busiest = -(-workgroups // CORES)
    registers = tile.registers
    resident = max(1, min(busiest, REGISTERS // (tile.threads * registers)))
    warps = resident * max(tile.threads / 32, 1)
    steps = -(-k // tile.bk)
    uneven = tile.bk * tile.bm % tile.threads or tile.bk * tile.bn % tile.threads or k % tile.bk
    dear = 1 + 0.4 * (1 / tile.tm + 1 / tile.tn) + 20 * (1 / tile.bm + 1 / tile.bn) + 2 / tile.bk
    busy = busiest * tile.bm * tile.bn * steps * tile.bk * dear * (1.15 if uneven else 1) * (1 + 8 / warps**2) / RATE
    if tile.threads * tile.tm * tile.tn >= LARGEST and (m % 4 or n % 4 or k % 4):
        busy *= 1.25  # elements that come or go one by one take registers: a core has room for one workgroup, not two
    joined = busiest * JOIN if tile.slices > 1 else 0
    return LAUNCH + max(busy, busiest / resident * steps * LATENCY) + joined


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
WORTH_TRYING = 2  # times the least estimated seconds
MOST_TRIED = 40


def candidates(shape: Shape, target: Target) -> list[Choice]:
    """What tuning tries for a shape: the estimate's choice first, then others that may be better, the likeliest first."""
    batch, m, n, k = shape
    target = replace(target, tiles="")
    chunk = chunk_of(batch, m, n, k, 1, target)
    own = Choice(choose_tile(batch, m, n, k, 1, target, chunk if chunk < k else 0), -(-k // chunk))
    tuned = [tile for tile in TUNED if tile.fits(target) and tile.bk < 2 * k]
    found = {}
    for tile in dict.fromkeys([*tuned, *(t for t in _tiles(k, k, 1, target, False) if t.bk > STEPS[0])]):
        workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
        for parts in {1, own.parts, *(-(-CORES * each // workgroups) for each in (1, 2, 4))}:
            choice = Choice(tile, parts)
            if not choice.divides(k):
                continue
            joined = LAUNCH + 4 * batch * m * n * (2 * parts + 1) / BANDWIDTH if parts > 1 else 0
            found[choice] = _seconds(tile, batch * parts, m, n, choice.chunk(k)) + joined
    least = min(found.values(), default=0)
    worth = [c for c in found if found[c] < least * WORTH_TRYING * (1 + (c.parts == 1 and c.tile in tuned))]
    return list(dict.fromkeys([own, *sorted(worth, key=lambda c: found[c])]))[:MOST_TRIED]


def chunk_of(batch: int, m: int, n: int, k: int, window: int, target: Target) -> int:
    """How long the stretches are into which the contraction is best cut; k: it stays whole."""
    if window == 1 and target.shares_loads(hint(batch * m * n * k)):
        parts = -(-hint(k) // LONGEST_SUM)
        return k if parts == 1 else -(-hint(k) // (parts * SHORTEST_STEP)) * SHORTEST_STEP
    measured = None if varies(k) else _measured(hint(batch), hint(m), hint(n), k, window, target)
    if measured is not None:
        return measured.chunk(k)
    found = _chunk_of(*map(hint, (batch, m, n, k)), factor(k), window, target)
    return k if found == hint(k) else found


@lru_cache(maxsize=4096)
def _chunk_of(batch: int, m: int, n: int, k: int, divisor: int, window: int, target: Target) -> int:
    sliced = _takes_slices(target)
    # short steps, which browsers get for their text's sake, make no part worth its sum
    target = replace(target, native=True)
    best, least = k, _best(batch, m, n, k, divisor, window, target, sliced)[0]
    unit = window if takes_windows(window) else SHORTEST_STEP
    for parts in PARTS:
        chunk = -(-k // (parts * unit)) * unit
        if chunk < SHORTEST_PART or -(-k // chunk) != parts:
            continue
        nbytes = 4 * batch * m * n * (2 * parts + 1)
        seconds = _best(batch * parts, m, n, chunk, chunk, window, target, sliced)[0] + LAUNCH + nbytes / BANDWIDTH
        if seconds < least * 0.95:
            best, least = chunk, seconds
    return best


def points_pay(m: int, n: int, k: int, plain: Shape, samples: int, target: Target) -> bool:
    """Whether a convolution, as m x n results over k at each point (primitives/winograd.py), takes less than
    `target.points` times what it takes as a plain product. Its operands and results at the points go through memory twice;
    where loads are dear, multiplications stand for the time."""
    if target.points <= 0 and not target.dear_loads:
        return False
    operands, results = 4 * POINTS**2 * (m * k + k * n), 4 * POINTS**2 * m * n
    moved = 2 * (operands + results)
    most = MOST_POINTS * max(samples, MANY_SAMPLES) // MANY_SAMPLES
    if max(operands, results) > min(most, target.max_binding_bytes):
        return False
    if target.dear_loads:
        return POINTS**2 * m * n * k + TRANSFORMS < (target.points or SHARE) * math.prod(plain)
    seconds = _estimate(Shape(POINTS**2, m, n, k), target) + moved / BANDWIDTH + 2 * LAUNCH
    return seconds < target.points * _estimate(plain, target)


def _estimate(shape: Shape, target: Target) -> float:
    """Seconds of a product in the best number of parts."""
    batch, m, n, k = shape
    chunk = _chunk_of(batch, m, n, k, k, 1, target)
    parts = -(-k // chunk)
    seconds = _best(batch * parts, m, n, chunk, chunk, 1, target)[0]
    return seconds + (LAUNCH + 4 * batch * m * n * (2 * parts + 1) / BANDWIDTH if parts > 1 else 0)


def handed_tile(product: Shape, quads: bool, along: bool) -> Tile:
    """That of threads which hand each other what they load. quads: whether four elements of a row of the right operand are one load.
    along: whether four places along the contraction are one turn."""
    batch, m, n, k = map(hint, product)
    left, right = (0, ALONG) if along else (LEFT, IN_QUAD if quads else SINGLE)

    def cost(tile: Tile) -> float:
        workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
        across = max(tile.tn, LEAST_OF_ROW) if quads else tile.tn
        return workgroups * k * (tile.tm * (across + left) + across * right) + WRITTEN * tile.tm * tile.tn

    return min(HANDED, key=cost)


def is_shared(x: Node) -> bool:
    """Whether the elements of x are the same all along its first axis."""
    _, index = _behind_views(x)
    return x.shape[0] > 1 and not any("x0" in i.variables() for i in index)


def has_windows(x: Node) -> bool:
    """Whether x is a view of windows that overlap."""
    while isinstance(x.primitive, View | SliceAt):
        if isinstance(x.primitive, Window):
            return True
        x = x.inputs[0]
    return False


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
