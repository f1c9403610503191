"""The multiply-adds of a step: a thread's reads of both tiles, and the order of its operations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest

from ...puller import LANES
from .operands import Operand, Rows
from .product import SLOTS, ProductWriter

UNROLLED = (4, 3, 2, 1)  # steps per iteration of a rolled loop: as many as divide the tile's
HELD = "held"  # the position along the contraction that a step leaves to the next


def multiply(w: ProductWriter, operands: tuple[Operand, ...]) -> None:
    """Writes the multiply-adds of a step."""
    t, r = w.tile, w.r
    if w.choice.pipelined:
        _pipelined(w, operands)
    elif w.choice.unrolled:
        for step in range(t.bk // t.slices):
            _read(w, operands, str(step), step)
            (_fma_order if w.choice.fma_order else _by_rows)(w, str(step))
    else:
        unrolled = next(n for n in UNROLLED if t.bk % n == 0)
        r.open()
        for step in range(unrolled):
            _read(w, operands, str(step), f"(step + {step})" if step else "step")
            _by_rows(w, str(step))
        w.close_loop(f"for (var step = 0; step < {t.bk}; step += {unrolled})")


def multiply_held(w: ProductWriter) -> None:
    """Writes the multiply-adds of the last position of the previous step, if steps are software-pipelined."""
    _fma_order(w, HELD)


def names_read(operands: tuple[Operand, ...], place: str) -> list[str]:
    """The names of the operands that a thread multiplies at a position along the contraction."""
    return [f"{o.name}_{place}_{quad}" for o in operands for quad in range(len(o.offsets))]


def _pipelined(w: ProductWriter, operands: tuple[Operand, ...]) -> None:
    """The multiply-adds of a step, software-pipelined: position k is multiplied after the operands of k + 1 were loaded, the last one in the
    next step. A driver then places these multiply-adds between the stores to the tiles, and as some operands stay in registers from step to
    step, it moves fewer accumulators.
    """
    before = HELD
    for step in range(w.tile.bk // w.tile.slices):
        _fma_order(w, before)
        _read(w, operands, str(step), step)
        before = str(step)
    for held, read in zip(names_read(operands, HELD), names_read(operands, before), strict=True):
        w.r.line(f"{held} = {read};")


def _by_rows(w: ProductWriter, name: str) -> None:
    """The multiply-adds of one position, a vec4 of a row at a time."""
    for i in range(w.tile.tm):
        for j in range(w.tile.tn // LANES):
            a, b, c = f"a_{name}_{i // LANES}[{i % LANES}]", f"b_{name}_{j}", f"c_{i}_{j}"
            w.r.line(f"{c} = {w.multiply_add(c, a, b)};")


def _fma_order(w: ProductWriter, name: str) -> None:
    """The same as scalars, in boustrophedon order: each shares an operand with the one before, so that it reads two new registers, a
    sum and the other operand. The cores of large GPUs read two in a cycle, and wait for a third. With many rows the order starts with the row
    that was loaded last.
    """
    t = w.tile
    for n, i in enumerate(reversed(range(t.tm)) if w.choice.many_sums else range(t.tm)):
        for j in reversed(range(t.tn)) if n % 2 else range(t.tn):
            c = w.sum(i, j)
            a, b = f"a_{name}_{i // LANES}.{SLOTS[i % LANES]}", f"b_{name}_{j // LANES}.{SLOTS[j % LANES]}"
            w.r.line(f"{c} = fma({a}, {b}, {c});")


def _read(w: ProductWriter, operands: tuple[Operand, ...], name: str, step: int | str) -> None:
    """The operands that a thread multiplies at one position along the contraction; `step` is its number, or an expression of it."""
    texts = []
    for operand in operands:
        if isinstance(operand, Rows):
            assert isinstance(step, int), "slices are written out"
            texts.append(list(_rows_read(w, operand, step)))
        else:
            texts.append(list(_quads_read(w, operand, name, step)))
    left, right = texts
    in_turn = w.choice.many_sums and w.choice.fma_order
    lines = chain.from_iterable(zip_longest(right, left)) if in_turn else left + right
    for line in filter(None, lines):
        w.r.line(line)


def _quads_read(w: ProductWriter, operand: Operand, name: str, step: int | str) -> Iterator[str]:
    """The statements that load an operand at one position, four neighbours along its free axis each."""
    t = w.tile
    thread = ("tm" if operand.name == "a" else "tn") if t.stages * t.slices == 1 else f"at_{operand.name}"
    for quad, offset in enumerate(operand.offsets):
        row = operand.row(step) + offset if isinstance(step, int) else f"{step} * {operand.across} + {offset}"
        yield f"let {operand.name}_{name}_{quad} = {operand.quad(f'{row} + {thread}')};"


def _rows_read(w: ProductWriter, operand: Rows, step: int) -> Iterator[str]:
    """The same if four positions of a row are a vec4 of the tile, which is loaded at the first of them."""
    number, place = divmod(step, LANES)
    for quad, offset in enumerate(operand.offsets):
        rows = [f"{operand.name}_{number}_{quad}_{lane}" for lane in range(LANES)]
        for lane, row in enumerate(rows):
            at = (offset + lane * operand.tile_free // LANES) * operand.pitch + number
            if place == 0:
                yield f"let row_{row} = {operand.quad(f'{at} + at_{operand.name}')};"
        parts = ", ".join(f"row_{row}[{place}]" for row in rows)
        yield f"let {operand.name}_{step}_{quad} = vec4<{w.element}>({parts});"
