"""Chooses the tiles of matrix multiplications on matrix units: float16 operands, float32 sums.

In: a matrix multiplication and the target. Out: a DotChoice with method "units", or None if the target has no suitable units, or they do
not suit the multiplication. The operands are casts of float16 to float32 (docs/decisions/0029), so casting them back is lossless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..dtypes import float16, float32
from ..graph.index import variable
from ..graph.node import Node
from ..primitives.elementwise import Cast
from ..primitives.views import SliceAt, View
from ..symbolic_sizes import divides
from ..target import Matrices, Target
from .choices import DotChoice, Layout, Tile, Units
from .estimate import seconds_of_parts
from .layouts import IndexOf, IsBuffer, OperandIndex, has_windows, moves_along_rows, reads_quads
from .products import Product
from .puller import LANES, lane_variable
from .rewrite import Rewriter

OCTET = 8  # halves in 16 bytes
LEAST = 32  # the smallest m, n and k of a multiplication
SMALLEST = 1 << 21  # multiply-adds of the smallest multiplication
PADDING = OCTET  # halves between rows, so that they start in different banks
JOINED = (32, 16)  # columns of sums that pass through workgroup memory at a time
MANY_TILES = 512  # above which tiles are numbered in stripes
ALONE = 1.4  # relative time of a workgroup that has a core to itself, if two fit


class Candidate(NamedTuple):
    """A tile of bm x bn results in steps of bk, by down x across subgroups. relative: time of a multiplication. at_a_time: workgroups
    that keep a core busy. ahead: see Units. Measured on an H100 and an H200 (2026-11-30, benchmarks/units.py)."""

    bm: int
    bn: int
    bk: int
    down: int
    across: int
    relative: float
    at_a_time: int
    ahead: int = 0


TILES = (
    Candidate(128, 256, 32, 2, 4, 1.0, 1, ahead=1),
    Candidate(256, 128, 32, 4, 2, 1.02, 1, ahead=1),
    Candidate(128, 128, 64, 2, 4, 1.05, 1, ahead=1),
    Candidate(128, 128, 64, 2, 2, 1.11, 2),
    Candidate(128, 128, 32, 2, 2, 1.5, 2),
    Candidate(128, 64, 32, 2, 2, 1.37, 2),
    Candidate(64, 128, 32, 2, 2, 1.37, 2),
    Candidate(64, 64, 32, 2, 2, 1.75, 2),
    Candidate(64, 64, 16, 2, 2, 2.5, 2),
)
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
STEP = 64  # the granularity of split-K parts
RATE = 1.1e12  # multiply-adds per second of a core, with the first tile
ENDS = 2e-10  # seconds per result of a workgroup before its first multiplication and after its last
SUBGROUPS = 4  # per workgroup, if it may share a dispatch with others


def choice_of(
    dot: Node, product: Product, index: OperandIndex, target: Target, is_buffer: IsBuffer, alone: bool
) -> DotChoice | None:
    """The choice for a matrix multiplication on matrix units; None if they do not suit it. alone: whether it has a dispatch to itself."""
    matrices = instruction(target)
    if matrices is None or dot.dtype is not float32 or not suits(product, target):
        return None
    halves = [half_behind(operand, is_buffer) for operand in dot.inputs]
    if any(half is None or moves_along_rows(x) for half, x in zip(halves, dot.inputs, strict=True)):
        return None
    sizes = (product.m, index.left), (product.n, index.right)
    found = [_layout(x, free, product.k, of, is_buffer) for x, (free, of) in zip(dot.inputs, sizes, strict=True)]
    if any(width < OCTET and has_windows(x) for (_, width), x in zip(found, dot.inputs, strict=True)):
        return None
    packed = [buffer_behind(half, is_buffer) for half in halves if half is not None]
    layouts = found[0][0], found[1][0]
    widths = tuple(
        min(width, LANES) if width > 1 and (node is not None and node.size % OCTET) else width
        for (_, width), node in zip(found, packed, strict=True)
    )
    units = Units(
        matrices.m,
        matrices.n,
        matrices.k,
        subgroup=target.subgroups[0],
        padding=PADDING,
        widths=(widths[0], widths[1]),
        packed=(packed[0] is not None, packed[1] is not None),
    )
    return _best(product, layouts, units, target, alone)


def takes_halves(target: Target) -> bool:
    """Whether float16 multiplications should get their operands as halves in memory, instead of computing them while tiles are loaded."""
    return instruction(target) is not None


def halves_of(r: Rewriter, x: Node) -> Node | None:
    """x before its cast from float16, through views; None if it is something else."""
    if isinstance(x.primitive, View):
        inner = halves_of(r, x.inputs[0])
        return None if inner is None else r.make(x.primitive, inner)
    is_cast = isinstance(x.primitive, Cast) and x.dtype is float32 and x.inputs[0].dtype is float16
    return x.inputs[0] if is_cast else None


def common_loads(choices: list[DotChoice], target: Target) -> list[DotChoice] | None:
    """The choices of matrix multiplications that share a dispatch and its workgroup memory, with loads of the width that suits all of them. None if
    the memory is too small.
    """
    own = [c.units for c in choices if c.units is not None]
    left, right = (min(u.widths[side] for u in own) for side in (0, 1))
    sizes = zip(*map(_bytes, choices), strict=True)
    if sum(map(max, sizes)) > target.max_workgroup_storage:
        return None
    return [replace(c, units=replace(u, widths=(left, right))) for c, u in zip(choices, own, strict=True)]


def instruction(target: Target) -> Matrices | None:
    """The instruction shape of the matrix units that kernels use; None without such units."""
    if not target.f16 or target.subgroups[0] != target.subgroups[1] or not target.traits.unrolls:
        return None
    fitting = (m for m in target.matrices if (m.operand, m.result) == ("f16", "f32") and m.k == 16)
    return max((m for m in fitting if 16 % m.m == 0 and 16 % m.n == 0), key=lambda m: m.m * m.n, default=None)


def half_behind(operand: Node, is_buffer: IsBuffer) -> Node | None:
    """The cast of float16 to float32 of which an operand is a view."""
    node = operand
    while isinstance(node.primitive, View | SliceAt) and not is_buffer(node):
        node = node.inputs[0]
    is_cast = node.primitive.name == "cast" and node.storage is None and len(node.inputs) == 1
    return node if is_cast and node.dtype is float32 and node.inputs[0].dtype is float16 else None


def buffer_behind(cast: Node, is_buffer: IsBuffer) -> Node | None:
    """The buffer of halves of which a cast is a view, if there is one."""
    if is_buffer(cast):
        return None
    (node,) = cast.inputs
    while isinstance(node.primitive, View | SliceAt) and not is_buffer(node):
        node = node.inputs[0]
    return node if is_buffer(node) else None


def _layout(operand: Node, free: int, k: int, index: IndexOf, is_buffer: IsBuffer) -> tuple[Layout, int]:
    """The axis along which an operand is loaded, and the elements per load. Along the free axis the last load may reach past the end, into the
    padding of a row (odd_rows.py): what is multiplied with it is not stored. Along k it must not.
    """
    for width in (OCTET, LANES):
        if divides(width, k):
            place = variable("q", k // width) * width + lane_variable()
            if reads_quads(operand, index(variable("f", free), place), is_buffer, width):
                return "along k", width
        if divides(width, free) or _has_padding(operand, width, is_buffer):
            place = variable("q", -(-free // width)) * width + lane_variable()
            if reads_quads(operand, index(place, variable("k", k)), is_buffer, width):
                return "along free", width
    return "scalars along k", 1


def _has_padding(operand: Node, width: int, is_buffer: IsBuffer) -> bool:
    """Whether a load of so many halves that begins within an operand stays within its buffer, if it begins at a multiple of `width`."""
    half = half_behind(operand, is_buffer)
    buffer = None if half is None else buffer_behind(half, is_buffer)
    return buffer is not None and divides(width, buffer.size)


def _best(
    product: Product, layouts: tuple[Layout, Layout], units: Units, target: Target, alone: bool
) -> DotChoice | None:
    """The choice with the tile of the least estimated time among those that the target's limits allow."""
    found: list[tuple[float, DotChoice]] = []
    for tile in TILES:
        if product.parts > 1 and product.chunk % tile.bk:
            continue
        if not alone and tile.down * tile.across != SUBGROUPS:
            continue
        for joined in JOINED:
            choice = _with_tile(tile, min(joined, tile.bn // tile.across), product, layouts, units)
            if (
                choice.tile.threads <= target.max_workgroup_invocations
                and sum(_bytes(choice)) <= target.max_workgroup_storage
            ):
                found.append((_seconds(tile, product, target), choice))
                break
    return min(found, key=lambda pair: pair[0], default=(0, None))[1]


def _with_tile(
    tile: Candidate, joined: int, product: Product, layouts: tuple[Layout, Layout], units: Units
) -> DotChoice:
    """A choice with a tile, each of whose threads has as many rows as columns, or twice as many."""
    threads = tile.down * tile.across * units.subgroup
    each = tile.bm * tile.bn // threads
    tm = 1 << (each.bit_length() // 2)
    tiles_m, tiles_n = -(-product.m // tile.bm), -(-product.n // tile.bn)
    return DotChoice(
        "units",
        Tile(tile.bm, tile.bn, tile.bk, tm, each // tm),
        layouts,
        striped=tiles_m * tiles_n > MANY_TILES and tiles_m > 1,
        units=replace(
            units, rows=tile.bm // tile.down, columns=tile.bn // tile.across, joined=joined, ahead=tile.ahead
        ),
    )


def _seconds(tile: Candidate, product: Product, target: Target) -> float:
    """The time of the busiest core: whole rounds of concurrent workgroups, and the rest."""
    workgroups = product.batches * product.parts * -(-product.m // tile.bm) * -(-product.n // tile.bn)
    cores = target.traits.costs.cores
    rounds, rest = divmod(workgroups, tile.at_a_time * cores)
    last = -(-rest // cores)
    most = rounds * tile.at_a_time + (ALONE if last == 1 and tile.at_a_time > 1 else last)
    contraction = -(-product.chunk // tile.bk) * tile.bk
    return most * tile.bm * tile.bn * (tile.relative * contraction / RATE + ENDS)


def chunk_of(product: Product, target: Target) -> int:
    """The best length of the parts of a contraction on matrix units (split-K); the whole length if it is not split."""
    tiles = [t for t in TILES if t.down * t.across * target.subgroups[0] <= target.max_workgroup_invocations]

    def seconds(parts: int) -> tuple[float, int]:
        chunk = -(-product.k // (parts * STEP)) * STEP if parts > 1 else product.k
        cut = replace(product, chunk=chunk, parts=-(-product.k // chunk))
        joining = seconds_of_parts(product.batches * product.m * product.n, cut.parts, target.traits.costs)
        return min(_seconds(t, cut, target) for t in tiles) + (joining if cut.parts > 1 else 0), chunk

    return min(map(seconds, PARTS))[1] if tiles else product.k


def is_for_units(operands: Sequence[Node], product: Product, target: Target) -> bool:
    """Whether a multiplication of these operands, none of which has been computed yet, will use matrix units."""
    if not suits(product, target):
        return False
    return all(half_behind(x, lambda node: False) is not None and not moves_along_rows(x) for x in operands)


def suits(product: Product, target: Target) -> bool:
    """Whether the target has matrix units, and the sizes of a multiplication suit them."""
    if instruction(target) is None or product.varies() or product.window > 1:
        return False
    return min(product.m, product.n, product.k) >= LEAST and product.multiplications >= SMALLEST


def _bytes(choice: DotChoice) -> tuple[int, int, int]:
    """Bytes of workgroup memory: both operands' tiles, and the sums of all subgroups for the epilogue."""
    t, units = choice.tile, choice.units
    assert units is not None
    halves = []
    for layout, free in zip(choice.layouts, (t.bm, t.bn), strict=True):
        rows, along = (t.bk, free) if layout == "along free" else (free, t.bk)
        halves.append(2 * rows * (along + units.padding) * (2 if units.ahead == 2 else 1))
    return halves[0], halves[1], 4 * t.threads // units.subgroup * units.m * (units.joined + LANES)
