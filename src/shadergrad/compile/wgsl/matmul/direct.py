"""Matrix multiplications without tiles: threads read operands as they need them, or share loads within a subgroup."""

from __future__ import annotations

from ....graph.index import Index, variable
from ....symbolic_sizes import divides
from ...puller import LANES, lane_variable
from .product import SLOTS, ProductWriter


def sum_up(w: ProductWriter) -> None:
    """Writes the loop along the contraction: load tm elements of the left operand and tn of the right one, and accumulate their products."""
    r = w.r
    rows = _rows(w)
    first, last = w.stretch()
    r.open("k")
    k = variable("k", w.k)
    with w.single():
        left = [[r.pull(w.dot.inputs[0], w.index.left(row, k))] for row in rows]
    _multiply_rows(w, left, [k])
    w.close_loop(f"for (var k = {first}; k < {last}; k++)")


def sum_up_shuffled(w: ProductWriter) -> None:
    """As above, but for rows that all threads of a subgroup need: each thread loads one row, at one position along the contraction or at four,
    and the others get it by a subgroup shuffle. The number of a row tells which thread has loaded it.
    """
    t, r, along_k = w.tile, w.r, w.choice.along_k
    first, last = w.stretch()
    places = LANES if along_k else 1
    by = f" / {places}" if places > 1 else ""
    r.line("let lane = i32(subgroup_lane);")
    r.open("at")
    at = variable("at", w.k // places)
    for i in range(0, t.tm, t.threads):
        row, _ = w.clamped(f"m0 + {i} + lane", w.m, divides(t.bm, w.m), "row")
        r.line(f"let own_{i // t.threads} = {_own(w, row, at)};")
    rows = [f"own_{i // t.threads}{{}}, {i % t.threads}u" for i in range(t.tm)]
    if along_k:
        left = [[f"subgroupShuffle({row.format(f'.{c}')})" for c in SLOTS] for row in rows]
        _multiply_rows(w, left, [at * LANES + c for c in range(LANES)])
    else:
        _multiply_rows(w, [[f"subgroupShuffle({row.format('')})"] for row in rows], [at])
    w.close_loop(f"for (var at = {first}{by}; at < {last}{by}; at++)")


def _own(w: ProductWriter, row: Index, place: Index) -> str:
    """A thread's load of a row of the left operand."""
    r, a = w.r, w.dot.inputs[0]
    if w.choice.along_k:
        return r.as_vector(r.pull(a, w.index.left(row, place * LANES + lane_variable())), w.dot.dtype)
    with w.single():
        return r.pull(a, w.index.left(row, place))


def _rows(w: ProductWriter) -> list[Index]:
    """The rows of a thread's results."""
    t = w.tile
    down, exact = t.bm // t.tm, divides(t.bm, w.m)
    places = [f"m0 + ({i // LANES * down} + tm) * {LANES} + {i % LANES}" for i in range(t.tm)]
    return [w.clamped(place, w.m, exact, "row")[0] for place in places]


def _multiply_rows(w: ProductWriter, left: list[list[str]], places: list[Index]) -> None:
    """The multiply-adds at some positions along the contraction: values of the left operand are given for each row, those of the right one
    are loaded.
    """
    for j in range(w.tile.tn // LANES):
        right = _right(w, j, places)
        for i, values in enumerate(left):
            total = f"c_{i}_{j}"
            for a, b in zip(values, right, strict=True):
                total = w.multiply_add(total, a, b)
            w.r.line(f"c_{i}_{j} = {total};")


def _right(w: ProductWriter, j: int, places: list[Index]) -> list[str]:
    """Four neighbours of a row of the right operand, at some positions along the contraction."""
    t, r, index, dtype = w.tile, w.r, w.index.right, w.dot.dtype
    b, depth = w.dot.inputs[1], len(r.scopes) - 1
    across, exact = t.bn // t.tn, divides(t.bn, w.columns)
    start = f"n0 + ({j * across} + tn) * {LANES}"
    if w.choice.quads:
        q = w.clamped(f"({start}) / {LANES}", w.columns // LANES, exact, "q")[0] * LANES + lane_variable()
        return [r.as_vector(r.pull(b, index(q, k)), dtype) for k in places]
    columns = [w.clamped(f"{start} + {e}", w.columns, exact, "column")[0] for e in range(LANES)]
    if w.choice.along_k:
        four = places[0] + lane_variable()
        by_column = [r.as_vector(r.pull(b, index(column, four)), dtype) for column in columns]
        parts = [[f"{value}.{place}" for value in by_column] for place in SLOTS]
    else:
        with w.single():
            parts = [[r.pull(b, index(column, k)) for column in columns] for k in places]
    return [r.define(f"vec4<{w.element}>({', '.join(p)})", depth) for p in parts]
