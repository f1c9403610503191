"""The kernel of a matrix multiplication, or of several that share a dispatch, each with a range of workgroups."""

from __future__ import annotations

from ...choices import Choice, DotChoice
from ...groups import Group
from ...kernel import Rendered, finish, indent, workgroup_index
from ...puller import LANES
from ...render import Renderer
from ..statements import Scope
from . import direct, loop, narrow, results, slices, units
from .operands import Operand, held_as_numbers
from .product import ProductWriter

STRIPE = 16  # tiles side by side in a stripe
SUBGROUP = ", @builtin(subgroup_size) subgroup_size: u32, @builtin(subgroup_invocation_id) subgroup_lane: u32"
METHODS = {
    "tiled": "tile",
    "narrow": "narrow",
    "direct": "direct",
    "shuffled": "direct",
    "units": "units",
}  # in the line that `explain` shows


def render_dot(group: Group, choice: Choice, r: Renderer) -> Rendered:
    """The kernel of a dot group, or of several that share a dispatch."""
    products: list[ProductWriter] = []
    for part, own in zip(group.parts or [group], choice.parts, strict=True):
        assert isinstance(own, DotChoice)
        products.append(ProductWriter(part, own, r))
    numbers = frozenset(name for w in products for name in held_as_numbers(w.choice))
    for w in products:
        w.numbers = numbers  # the tiles of all parts share workgroup memory
    total = sum(w.workgroups for w in products)
    index = workgroup_index(total, choice)
    tiles: dict[str, Operand] = {}  # the largest of all parts
    body: list[str] = []
    start = 0
    for w in products:
        r.scopes = [Scope()]  # names of one part are not visible in others
        alone = len(products) == 1
        for operand in _write(w, index if alone else f"number - {start}" if start else "number", alone):
            tiles[operand.name] = max(tiles.get(operand.name, operand), operand, key=lambda o: o.held)
        start += w.workgroups
        lines = r.scopes[0].lines
        body += (
            lines if alone else [f"if (number >= {start - w.workgroups} && number < {start}) {{", *indent(lines), "}"]
        )
    if len(products) > 1:
        body = [f"let number = {index};", *body]
    first = products[0]
    return finish(
        r,
        group,
        choice,
        threads=first.tile.threads,
        workgroups=total,
        body=body,
        enables=units.enables(products),
        globals_=units.declarations(products)
        + "".join(operand.declaration() for operand in tiles.values())
        + narrow.declaration(first),
        arguments=SUBGROUP if any(w.choice.method == "shuffled" for w in products) else "",
        shape=" + ".join(map(_shape, products)),
        flops=sum(w.flops for w in products),
    )


def _shape(w: ProductWriter) -> str:
    t, batch = w.tile, w.dot.shape[0]
    sizes = f"{batch} x " * (batch > 1) + f"{w.m} x {w.n} x {w.chunk}"
    return f"{sizes} ({METHODS[w.choice.method]} {t.bm} x {t.bn} x {t.bk})"


def _write(w: ProductWriter, number: str, alone: bool) -> tuple[Operand, ...]:
    """Writes the statements of a matrix multiplication; `number` is the workgroup's number in it. Returns the operands that have tiles."""
    t, r = w.tile, w.r
    tiles_m, tiles_n = -(-w.m // t.bm), -(-w.columns // t.bn)
    r.lanes = 1 if t.narrow else LANES
    r.line(f"let wg = {number};")
    _origin(w, tiles_m, tiles_n)
    if w.product.batches > 1:
        r.line(f"let b = wg / {tiles_n * tiles_m * w.parts};")
    if w.parts > 1:
        r.line(f"let part = wg / {tiles_n * tiles_m} % {w.parts};")
        r.line(f"let first = part * {w.chunk};")
        r.line(f"let last = min(first + {w.chunk}, {w.k});")
    r.line("let id = i32(lid);")
    if w.choice.method == "narrow":
        narrow.columns(w)
        return ()
    if w.choice.method == "units":
        return units.write(w)
    _places(w)
    for i in range(t.tm):
        for j in range(t.tn // LANES):
            r.line(f"var c_{i}_{j} = vec4<{w.element}>();")
    operands: tuple[Operand, ...] = ()
    if w.choice.method == "tiled":
        operands = loop.over_contraction(w)
    elif w.choice.method == "shuffled":
        direct.sum_up_shuffled(w)
    else:
        direct.sum_up(w)
    if t.distributes_rows:
        slices.deal_rows(w, operands)
    elif t.slices > 1:
        slices.join(w, operands)
        _write_by_first_slice(w, alone)
        return operands
    results.write(w)
    return operands


def _write_by_first_slice(w: ProductWriter, alone: bool) -> None:
    """The results, by the threads of the first slice. The others return, unless barriers of another multiplication follow: WGSL allows no
    barriers after a return of some threads, although no thread would execute both.
    """
    r = w.r
    if alone:
        r.line("if (slice > 0) { return; }")
        results.write(w)
        return
    lines = r.scopes[-1].lines
    start = len(lines)
    results.write(w)
    lines[start:] = ["if (slice == 0) {", *indent(lines[start:]), "}"]


def _origin(w: ProductWriter, tiles_m: int, tiles_n: int) -> None:
    """The first row and column of the tile. Tiles are numbered row by row, or, if there are many, in stripes (swizzled): then concurrent
    workgroups share their reads of both operands in the cache.
    """
    t, r = w.tile, w.r
    if not w.choice.striped:
        r.line(f"let n0 = (wg % {tiles_n}) * {t.bn};")
        r.line(f"let m0 = ((wg / {tiles_n}) % {tiles_m}) * {t.bm};")
        return
    r.line(f"let stripe = wg % {tiles_m * tiles_n} / {STRIPE * tiles_m} * {STRIPE};")
    r.line(f"let across = min({STRIPE}, {tiles_n} - stripe);")
    r.line(f"let inside = wg % {tiles_m * tiles_n} - stripe * {tiles_m};")
    r.line(f"let n0 = (stripe + inside % across) * {t.bn};")
    r.line(f"let m0 = inside / across * {t.bm};")


def _places(w: ProductWriter) -> None:
    """The positions of a thread's results in the tile. A subgroup has 8 by 4 threads, which read few different elements. Two neighbours
    share their rows, and those two apart their columns: large GPUs deliver 16 bytes to eight threads at a time, or to
    sixteen if such pairs read the same bytes.
    """
    t, r = w.tile, w.r
    down, across = t.bm // t.tm, t.bn // t.tn
    own = "id"
    if t.slices > 1:
        own = "own"
        r.line(f"let own = id % {t.slice};")
        r.line(f"let slice = id / {t.slice};")
    if down % 4 or across % 8:
        r.line(f"let tm = {own} / {across};")
        r.line(f"let tn = {own} % {across};")
    else:
        row, column = f"{own} % 8 / 2", f"{own} % 32 / 8 * 2 + {own} % 2"
        if w.choice.many_sums:
            row, column = f"{own} % 32 / 8", f"{own} % 8"
        r.line(f"let tm = {own} / 32 / {across // 8} * 4 + {row};")
        r.line(f"let tn = {own} / 32 % {across // 8} * 8 + {column};")
