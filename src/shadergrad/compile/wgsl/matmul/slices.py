"""The partial sums of a tile's slices, added through workgroup memory: each slice adds some rows, or the first slice adds all."""

from __future__ import annotations

from ...puller import LANES
from .operands import Operand
from .product import ProductWriter


def deal_rows(w: ProductWriter, operands: tuple[Operand, ...]) -> None:
    """Each slice's share of the rows, summed over all slices: the rows of the first half go through one operand's tile, the others
    through the other's.
    """
    t, r = w.tile, w.r
    quads, half, each = t.tn // LANES, t.tm // 2, t.tm // t.slices
    if t.stages > 1:
        r.line("workgroupBarrier();")
    for i in range(t.tm):
        for j in range(quads):
            place = f"(slice * {half * quads} + {i % half * quads + j}) * {t.slice} + own"
            for line in operands[i // half].put(place, f"c_{i}_{j}"):
                r.line(line)
    r.line("workgroupBarrier();")
    for tile, condition in zip(operands, (f"slice < {t.slices // 2}", f"slice >= {t.slices // 2}"), strict=True):
        r.line(f"if ({condition}) {{")
        for i in range(each):
            for j in range(quads):
                first = f"(slice % {t.slices // 2} * {each * quads} + {i * quads + j}) * {t.slice} + own"
                terms = (tile.quad(f"{first} + {s * half * quads * t.slice}") for s in range(t.slices))
                r.line(f"  c_{i}_{j} = {' + '.join(terms)};")
        r.line("}")


def join(w: ProductWriter, operands: tuple[Operand, ...]) -> None:
    """Adds the sums of all slices to those of the first, by halving, through the memory of the larger tile: as many
    at a time as it holds.
    """
    t, r = w.tile, w.r
    scratch = max(operands, key=lambda o: o.tile_free)
    sums = [f"c_{i}_{j}" for i in range(t.tm) for j in range(t.tn // LANES)]
    half = t.slices // 2
    if t.stages > 1:
        r.line("workgroupBarrier();")
    while half:
        room = min(len(sums), t.room // (half * t.slice))
        for start in range(0, len(sums), room):
            some = sums[start : start + room]
            places = [f"* {t.slice * len(some)} + {number * t.slice} + own" for number in range(len(some))]
            r.line(f"if (slice >= {half} && slice < {2 * half}) {{")
            for name, place in zip(some, places, strict=True):
                for line in scratch.put(f"(slice - {half}) {place}", name):
                    r.line(f"  {line}")
            r.line("}")
            r.line("workgroupBarrier();")
            r.line(f"if (slice < {half}) {{")
            for name, place in zip(some, places, strict=True):
                r.line(f"  {name} = {name} + {scratch.quad(f'slice {place}')};")
            r.line("}")
            r.line("workgroupBarrier();")
        half //= 2
