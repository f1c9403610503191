"""Chooses how matrix units multiply: for products of float16 with sums in float32.

In: a product and the target. Out: a DotChoice with method "units", or None where the target has no such units, or the product is not
for them. Which operands hold float16: those that are casts of it to float32 (docs/decisions/0029), which lose nothing on their way back.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..dtypes import float16, float32
from ..graph.index import variable
from ..graph.node import Node
from ..primitives.views import SliceAt, View
from ..symbolic_sizes import divides
from ..target import Matrices, Target
from .choices import DotChoice, Layout, Tile, Units
from .layouts import IndexOf, IsBuffer, OperandIndex, has_windows, reads_quads
from .products import Product
from .render import LANES, lane_variable

OCTET = 8  # halves of 16 bytes
GRID = (2, 2)  # subgroups of a workgroup
PADDING = OCTET
VECTORS = True
JOINED = 64  # columns of sums that go through workgroup memory at a time
WIDEST = 16  # columns of an instruction
LEAST = 32  # rows, columns and places of a product
SMALLEST = 1 << 21  # multiplications
STEPS = (32, 16)
TILES = {(128, 128): 1.0, (128, 64): 1.2, (64, 128): 1.2, (64, 64): 1.6}  # relative time of a multiplication
AT_A_TIME = 2  # workgroups of a core
MANY_TILES = 512  # above which they are taken in stripes


def choice_of(
    dot: Node, product: Product, index: OperandIndex, target: Target, is_buffer: IsBuffer
) -> DotChoice | None:
    """The choice for a product on matrix units; None where it is not for them."""
    matrices = _matrices(target)
    if matrices is None or dot.dtype is not float32 or product.varies() or product.window > 1:
        return None
    if min(product.m, product.n, product.k) < LEAST or product.multiplications < SMALLEST:
        return None
    halves = [half_behind(operand, is_buffer) for operand in dot.inputs]
    step = next((s for s in STEPS if product.parts == 1 or product.chunk % s == 0), None)
    if step is None or any(half is None or has_windows(x) for half, x in zip(halves, dot.inputs, strict=True)):
        return None
    sizes = (product.m, index.left), (product.n, index.right)
    found = [_layout(x, free, product.k, of, is_buffer) for x, (free, of) in zip(dot.inputs, sizes, strict=True)]
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
        vectors=VECTORS,
        widths=(widths[0], widths[1]),
        packed=(packed[0] is not None, packed[1] is not None),
    )
    return _best(product, step, layouts, units, target)


def alike(choices: list[DotChoice]) -> list[DotChoice]:
    """The choices of products that share a dispatch and its workgroup memory: loads are as wide as those of all."""
    own = [c.units for c in choices if c.units is not None]
    left, right = (min(u.widths[side] for u in own) for side in (0, 1))
    return [replace(c, units=replace(u, widths=(left, right))) for c, u in zip(choices, own, strict=True)]


def _matrices(target: Target) -> Matrices | None:
    """The units' product that kernels use."""
    if not target.f16 or target.subgroups[0] != target.subgroups[1] or not target.traits.unrolls:
        return None
    if math.prod(GRID) * target.subgroups[0] > target.max_workgroup_invocations:
        return None
    fitting = (m for m in target.matrices if (m.operand, m.result) == ("f16", "f32") and m.k == 16)
    return max((m for m in fitting if 16 % m.m == 0 and WIDEST % m.n == 0), key=lambda m: m.m * m.n, default=None)


def half_behind(operand: Node, is_buffer: IsBuffer) -> Node | None:
    """The cast of float16 to float32 of which an operand is a view."""
    node = operand
    while isinstance(node.primitive, View | SliceAt) and not is_buffer(node):
        node = node.inputs[0]
    is_cast = node.primitive.name == "cast" and node.storage is None and len(node.inputs) == 1
    return node if is_cast and node.dtype is float32 and node.inputs[0].dtype is float16 else None


def buffer_behind(cast: Node, is_buffer: IsBuffer) -> Node | None:
    """The buffer of halves of which a cast is a view, if it is."""
    if is_buffer(cast):
        return None
    (node,) = cast.inputs
    while isinstance(node.primitive, View | SliceAt) and not is_buffer(node):
        node = node.inputs[0]
    return node if is_buffer(node) else None


def _layout(operand: Node, free: int, k: int, index: IndexOf, is_buffer: IsBuffer) -> tuple[Layout, int]:
    """Along which axis an operand is loaded, and how many elements at once."""
    for width in (OCTET, LANES):
        if divides(width, k):
            place = variable("q", k // width) * width + lane_variable()
            if reads_quads(operand, index(variable("f", free), place), is_buffer, width):
                return "along k", width
        if divides(width, free):
            place = variable("q", free // width) * width + lane_variable()
            if reads_quads(operand, index(place, variable("k", k)), is_buffer, width):
                return "along free", width
    return "scalars along k", 1


def _best(
    product: Product, step: int, layouts: tuple[Layout, Layout], units: Units, target: Target
) -> DotChoice | None:
    """The choice with the tile of the least estimated time among those for which workgroup memory has room."""
    found: list[tuple[float, DotChoice]] = []
    for (bm, bn), relative in TILES.items():
        choice = with_tile(
            bm,
            bn,
            step,
            layouts,
            replace(units, rows=bm // GRID[0], columns=bn // GRID[1], joined=min(JOINED, bn // GRID[1])),
        )
        if workgroup_bytes(choice) > target.max_workgroup_storage:
            continue
        tile = choice.tile
        rounds = -(-product.workgroups(tile) // (AT_A_TIME * target.traits.costs.cores))
        down, across = -(-product.m // bm), -(-product.n // bn)
        found.append((rounds * bm * bn * relative, replace(choice, striped=down * across > MANY_TILES and down > 1)))
    return min(found, key=lambda pair: pair[0], default=(0, None))[1]


def with_tile(bm: int, bn: int, bk: int, layouts: tuple[Layout, Layout], units: Units) -> DotChoice:
    """A choice with a tile of bm x bn results, of as many threads as the blocks of its subgroups have."""
    threads = bm // units.rows * (bn // units.columns) * units.subgroup
    tm = next(
        t
        for t in (32, 16, 8, 4, 2, 1)
        if bm % t == 0 and bm * bn % (t * threads) == 0 and t * t <= 2 * bm * bn // threads
    )
    return DotChoice("units", Tile(bm, bn, bk, tm, bm * bn // threads // tm), layouts, units=units)


def workgroup_bytes(choice: DotChoice) -> int:
    """Bytes of workgroup memory: both tiles, and a row of each subgroup's sums."""
    t, units = choice.tile, choice.units
    assert units is not None
    halves = 0
    for layout, free in zip(choice.layouts, (t.bm, t.bn), strict=True):
        rows, along = (t.bk, free) if layout == "along free" else (free, t.bk)
        halves += rows * (along + units.padding)
    return 2 * halves + 4 * t.threads // units.subgroup * units.m * (units.joined + LANES)
