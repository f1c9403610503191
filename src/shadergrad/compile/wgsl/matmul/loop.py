"""The software-pipelined loop over the contraction: each step stores the tiles loaded before, starts loading the next ones, and multiplies."""

from __future__ import annotations

from ....symbolic_sizes import hint, varies
from ...kernel import indent
from ...puller import LANES
from .multiply import HELD, multiply, multiply_held, names_read
from .operands import Operand, Rows, operand_of
from .product import ProductWriter

WRITTEN_TWICE = 8  # the longest double-buffered step that is unrolled by two


def over_contraction(w: ProductWriter) -> tuple[Operand, Operand]:
    """Writes the accumulation of all multiply-adds into the thread's registers. Returns the operands that have tiles."""
    t, r, choice = w.tile, w.r, w.choice
    (a, b), (of_a, of_b) = w.dot.inputs, choice.layouts
    operands = (
        operand_of(of_a, w, a, "a", w.m, t.bm, "m0", w.index.left),
        operand_of(of_b, w, b, "b", w.columns, t.bn, "n0", w.index.right),
    )
    for operand in operands:
        for register in operand.registers():
            r.line(register)
    first, last = w.stretch()
    r.line(f"var k0 = {first};")
    _fetch(w, operands, "{")
    # sums are declared after the first loads: before them, one driver makes a product of 2048³ take 8 % longer (H200)
    w.sums_are_scalars = choice.scalar_sums
    if choice.scalar_sums:
        _declare_scalars(w)
    if choice.pipelined:
        for name in names_read(operands, HELD):
            r.line(f"var {name} = vec4<{w.element}>();")
    if t.stages > 1:
        _staged_steps(w, operands, first, last)
    else:
        _steps(w, operands, first, last)
    if choice.pipelined:
        multiply_held(w)
    if choice.scalar_sums:
        _join_scalars(w)
    return operands


def _declare_scalars(w: ProductWriter) -> None:
    """Declares scalar accumulators."""
    for i in range(w.tile.tm):
        for j in range(w.tile.tn):
            w.r.line(f"var {w.sum(i, j)} = {w.element}();")


def _join_scalars(w: ProductWriter) -> None:
    """Combines scalar accumulators into the vectors that the epilogue reads."""
    for i in range(w.tile.tm):
        for j in range(0, w.tile.tn, LANES):
            four = ", ".join(w.sum(i, j + e) for e in range(LANES))
            w.r.line(f"c_{i}_{j // LANES} = vec4<{w.element}>({four});")


def _steps(w: ProductWriter, operands: tuple[Operand, ...], first: str, last: str) -> None:
    """Steps with one tile per operand (single buffering), which is read between two barriers."""
    t, r = w.tile, w.r
    if t.slices > 1:
        for operand in operands:
            r.line(f"let at_{operand.name} = {_own_place(w, operand)};")
    r.line(f"for (var k = {first}; k < {last}; k += {t.bk}) {{")
    r.open()
    _store(w, operands)
    r.line("workgroupBarrier();")
    if hint(w.chunk) > t.bk or varies(w.chunk):
        _fetch_next(w, operands, last)
    multiply(w, operands)
    r.line("workgroupBarrier();")
    _close(w)


def _staged_steps(w: ProductWriter, operands: tuple[Operand, ...], first: str, last: str) -> None:
    """Steps with two tiles per operand (double buffering): while one is read, the other is filled for the next step. Short steps are unrolled
    by two, so that the addresses of the tiles are constants.
    """
    t, r = w.tile, w.r
    pairs = t.bk <= WRITTEN_TWICE
    if not pairs:
        for operand in operands:
            r.line(f"var fill_{operand.name} = 0;")
    r.line(f"for (var k = {first}; k < {last}; k += {t.bk * (2 if pairs else 1)}) {{")
    r.open()
    for step in range(2 if pairs else 1):
        if pairs:
            r.line(f"if (k + {t.bk} < {last}) {{" if step else "{")
            for operand in operands:
                r.line(f"const fill_{operand.name} = {step * operand.quads};")
        _store(w, operands)
        r.line("workgroupBarrier();")
        r.line(f"k0 = k + {t.bk * (step + 1)};")
        _fetch(w, operands, f"if (k0 < {last}) {{")
        for operand in operands:
            r.line(f"let at_{operand.name} = fill_{operand.name} + {_own_place(w, operand)};")
        multiply(w, operands)
        if pairs:
            r.line("}")
        else:
            for operand in operands:
                r.line(f"fill_{operand.name} = {operand.quads} - fill_{operand.name};")
    _close(w)


def _close(w: ProductWriter) -> None:
    """Closes the body of a loop whose head is written."""
    for line in indent(w.r.close()):
        w.r.line(line)
    w.r.line("}")


def _own_place(w: ProductWriter, operand: Operand) -> str:
    """The position in a tile, in vec4s, at which a thread starts to read."""
    thread = "tm" if operand.name == "a" else "tn"
    if isinstance(operand, Rows):
        return f"slice * {w.tile.bk // LANES // w.tile.slices} + {thread} * {operand.pitch}"
    if w.tile.slices == 1:
        return thread
    return f"slice * {operand.quads // w.tile.slices} + {thread}"


def _store(w: ProductWriter, operands: tuple[Operand, ...]) -> None:
    for operand in operands:
        for line in operand.store():
            w.r.line(line)


def _fetch_next(w: ProductWriter, operands: tuple[Operand, ...], last: str) -> None:
    """Writes the loads for the next step. If the choice says `loads_always`, the last step loads its own tiles again instead of a test for
    a next one: without a branch a driver interleaves loads and multiplications.
    """
    r, following = w.r, f"k + {w.tile.bk}"
    if w.choice.loads_always:
        r.line(f"k0 = select(k, {following}, {following} < {last});")
        _fetch(w, operands, "{")
    else:
        r.line(f"k0 = {following};")
        _fetch(w, operands, f"if (k0 < {last}) {{")


def _fetch(w: ProductWriter, operands: tuple[Operand, ...], head: str) -> None:
    """Writes loads into registers, in a block with this head."""
    w.r.open("k0")
    for operand in operands:
        operand.fetch()
    lines = w.r.close()
    w.r.line(head)
    for line in indent(lines):
        w.r.line(line)
    w.r.line("}")
