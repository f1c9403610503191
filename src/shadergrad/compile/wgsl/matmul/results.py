"""The epilogue: computes the results of the group from a thread's sums, and stores them."""

from __future__ import annotations

from ....graph.index import opaque, variable
from ....symbolic_sizes import divides
from ...groups import behind_reshapes
from ...kernel import indent, store_results
from ...puller import LANES, lane_variable
from ..functions import narrowed
from .product import ProductWriter

AT_ONCE = 4  # rows of results per loop iteration


def write(w: ProductWriter) -> None:
    """tm x tn results per thread, as vec4s if rows are a multiple of four."""
    t, r = w.tile, w.r
    rows, across = t.bm // t.tm, t.bn // t.tn
    vector = divides(LANES, w.n)
    r.lanes = LANES if vector else 1
    for j in range(t.tn // LANES):
        r.line(f"let n_{j} = n0 + ({j * across} + tn) * {LANES};")
    if w.choice.method == "shuffled":
        _row_by_row(w, vector)
        return
    if w.choice.moves_sums:  # no driver knows that this added value is zero
        r.line(f"let zero = vec4<{w.element}>({w.element}(wid.z));")
    dealt = t.tm // t.slices if t.distributes_rows else t.tm
    for i in range(dealt):
        if t.distributes_rows:
            r.line(f"let row_{i} = slice * {dealt} + {i};")
            r.line(f"let m_{i} = m0 + (row_{i} / {LANES} * {rows} + tm) * {LANES} + row_{i} % {LANES};")
        else:
            r.line(f"let m_{i} = m0 + ({i // LANES * rows} + tm) * {LANES} + {i % LANES};")
        for j in range(t.tn // LANES):
            for e in range(1 if vector else LANES):
                result(w, i, j, e, vector)


def _row_by_row(w: ProductWriter, vector: bool) -> None:
    """A loop that computes the results of the first rows, while the others are shifted up. Unrolled, it would take a software driver four times
    as long to compile, so its iteration count is hidden from drivers. With an epilogue, rows are processed one by one.
    """
    t, r = w.tile, w.r
    alone = all(behind_reshapes(root) is w.dot for root in w.group.roots)
    quads, some = range(t.tn // LANES), range(AT_ONCE if alone else 1)
    # values computed from sums stay in the loop
    r.open(*(f"m_{i}" for i in some), *(f"c_{i}_{j}" for i in some for j in quads))
    for i in some:
        r.line(f"let m_{i} = m0 + row + {i};" if i else "let m_0 = m0 + row;")
    for j in quads:
        for i in some:
            for e in range(1 if vector else LANES):
                result(w, i, j, e, vector)
        for i in range(t.tm - len(some)):
            r.line(f"c_{i}_{j} = c_{i + len(some)}_{j};")
    r.line(f"let rows = {t.tm} * min(i32(subgroup_size), 1);", len(r.scopes) - 2)
    w.close_loop(f"for (var row = 0; row < rows; row += {len(some)})")


def result(w: ProductWriter, i: int, j: int, e: int, vector: bool) -> None:
    """The roots at one position, or at four neighbours, if they lie within the result."""
    r, t = w.r, w.tile
    checks = []
    if not divides(t.bm, w.m):
        checks.append(f"m_{i} < {w.m}")
    if not divides(t.bn, w.columns):
        checks.append(f"n_{j} < {w.columns}" if vector else f"n_{j} + {e} < {w.columns}")
    total = f"c_{i}_{j}"
    if w.choice.moves_sums:
        total = f"moved_{i}_{j}"
        r.line(f"let {total} = c_{i}_{j} + zero;")
    r.open(f"m_{i}")  # nothing that depends on m may leave the guard
    m = opaque(f"m_{i}", 0, w.m - 1)
    if vector:
        column = w.known(w.inside(f"n_{j} / {LANES}", w.columns // LANES), w.columns // LANES, "q")
        column = column * LANES + lane_variable()
    else:
        text = w.inside(f"n_{j} + {e}" if e else f"n_{j}", w.columns)
        column = w.known(text, w.columns, "column")
    value = narrowed(total if vector else f"{total}[{e}]", w.dot.dtype, vector)
    if vector:
        r.vectors.add(value)
    b, _, n = w.index.right(column, m)
    flat = ((b * w.parts + variable("part", w.parts)) * w.m + m) * w.n + n
    store_results(r, w.group, w.dot, value, flat)
    lines = r.close()
    r.line(f"if ({' && '.join(checks)}) {{" if checks else "{")
    for line in indent(lines):
        r.line(line)
    r.line("}")
