"""Matrix multiplication of float32 in LLVM IR: `void kernel(ptr buffers, i64 begin, i64 end)`. A unit is a panel of columns of one matrix, or a range
of its rows.

One text serves all sizes and strides. A panel of the right operand is packed row by row. Then each tile of `tall` rows keeps its sums in registers
along the contraction, or along a stretch of a long one. A sum is accumulated by fma from the first element of a stretch to the last, and the sums of stretches
are added, so its bits do not depend on the tiles. If the size of an axis is no multiple of the tile, the last tile overlaps the one before. In a contraction
of several stretches tiles must not overlap, because each adds to the stored sums; there the remaining rows are computed one by one. A transposed left
operand is packed, too, a block of rows at a time, because elements of a column of a large matrix map to few cache sets.

BLAS packs both operands in each call, which takes as long as the multiplication if there are few rows, as in a recurrent network.

If several products of few rows have the same right operand, as the time steps of a recurrent network do, its panels are packed once, by the kernel of
`packing_text_for`.

The buffers are left, right, result and a description in 64-bit words, named in WORDS. Strides are in elements. `packing` is the layout of
the right operand: COPIED, rows of a matrix; TURNED, rows of its transpose; READY, panels. `packs` is 1 if the left operand is packed. Each of `ranges` ranges has
`range.rows` rows, the last one the rest, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .function_text import function_text
from .registers import LANES, LARGE, Tile

WORDS = (
    *("m", "n", "k", "left.row", "left.column", "right.along", "packing", "result.row"),
    *("left.batch", "right.batch", "result.batch", "panels", "stretches", "packs", "ranges", "range.rows"),
)
COPIED, TURNED, READY = 0, 1, 2
A_STRETCH = 1 << 10  # elements of a contraction whose panel is packed at a time, on the stack
A_BLOCK = 48  # rows of a left operand that are packed at a time
MOST_PACKED = 1 << 27  # scalar multiplications; with a packed left operand, BLAS is faster for more
FEWEST_ROWS = 512  # of a range; each range packs the panel again
UNITS = 16  # at most, where rows are divided into ranges
RATES = (1.25, 1.08, 1.03, 1.0)  # the relative time of a panel of 1 to 4 vectors, for each of them
VECTOR = f"<{LANES} x float>"


class Panel(NamedTuple):
    """A tile of sums in registers: `tall` rows by `wide` vectors."""

    tall: int
    wide: int

    @property
    def width(self) -> int:
        """Columns."""
        return LANES * self.wide


def panel_for(m: int, n: int, k: int, is_packed: bool, tile: Tile) -> Panel | None:
    """The tile for a multiplication of m x k by k x n on a processor; None if BLAS is to multiply."""
    if m < 2 or n < LANES or k < LANES or (is_packed and m * n * k >= MOST_PACKED):
        return None
    fitting = range(1, min(4 if tile == LARGE else 1, n // LANES) + 1)
    if stretches_of(k) > 1:
        fitting = [w for w in fitting if n % (LANES * w) == 0]
        if not fitting:
            return None
    wide = min(fitting, key=lambda w: -(-n // (LANES * w)) * w * RATES[w - 1])
    tall = min(24 // wide, 12) if tile == LARGE else 6
    if stretches_of(k) > 1 and m % tall and m % 4 == 0:
        tall = 4
    return Panel(min(tall, m), wide)


def stretches_of(k: int) -> int:
    """The number of stretches of a contraction."""
    return -(-k // A_STRETCH)


def packs(m: int, left_row: int, left_column: int) -> bool:
    """Whether a left operand with these strides is packed."""
    return left_row == 1 and left_column > A_BLOCK and m >= A_BLOCK


def ranges_of(m: int, panels: int, is_packed: bool, panel: Panel) -> tuple[int, int]:
    """The number of ranges of rows, and the rows of each, for threads to share products of few panels."""
    ranges = 1
    while panels * ranges * 2 <= UNITS and m >= FEWEST_ROWS * ranges * 2:
        ranges *= 2
    unit = A_BLOCK if is_packed else panel.tall
    return ranges, m // ranges // unit * unit if ranges > 1 else m


def text_for(panel: Panel) -> str:
    """The function."""
    lines = [
        f"%panel.own = alloca float, i64 {(A_STRETCH + 1) * panel.width}, align 64",
        f"%block = alloca float, i64 {(A_STRETCH + 1) * A_BLOCK}, align 64",
        *_described(),
        "%is.packed = icmp ne i64 %packs, 0",
        "%is.long = icmp ugt i64 %stretches, 1",
        "br label %each",
        "each:",
        "%unit = phi i64 [ %begin, %entry ], [ %unit.next, %each.end ]",
        "%column = udiv i64 %unit, %ranges",
        "%range = urem i64 %unit, %ranges",
        "%range.next = add i64 %range, 1",
        "%is.last = icmp eq i64 %range.next, %ranges",
        "%low = mul i64 %range, %range.rows",
        "%low.next = add i64 %low, %range.rows",
        "%high = select i1 %is.last, i64 %m, i64 %low.next",
        "%range.count = sub i64 %high, %low",
        f"%rows = select i1 %is.packed, i64 {A_BLOCK}, i64 %range.count",
        "%block.last = sub i64 %high, %rows",
        *_placed(panel),
        "%left.begin = mul i64 %matrix, %left.batch",
        "%result.begin = mul i64 %matrix, %result.batch",
        "br label %stretch",
        "stretch:",
        "%part = phi i64 [ 0, %each ], [ %part.next, %stretch.end ]",
        "%part.after = add i64 %part, 1",
        "%first.total = mul i64 %k, %part",
        "%behind.total = mul i64 %k, %part.after",
        "%first = udiv i64 %first.total, %stretches",
        "%behind = udiv i64 %behind.total, %stretches",
        "%length = sub i64 %behind, %first",
        "%is.first = icmp eq i64 %part, 0",
        f"switch i64 %packing, label %copy [ i64 {TURNED}, label %turn i64 {READY}, label %ready ]",
        *_copy(panel, "%panel.own", "stretch"),
        *_turn(panel, "%panel.own", "stretch"),
        "ready:",
        "%ready.first = add i64 %number.first, %first",
        f"%ready.begin = mul i64 %ready.first, {panel.width}",
        "%ready.at = add i64 %ready.begin, %right.begin",
        "%panel.ready = getelementptr float, ptr %right, i64 %ready.at",
        "br label %packed",
        "packed:",
        "%panel = phi ptr [ %panel.own, %copy ], [ %panel.own, %turn ], [ %panel.ready, %ready ]",
        *_blocks(panel),
        "stretch.end:",
        "%part.next = add i64 %part, 1",
        "%part.more = icmp ult i64 %part.next, %stretches",
        "br i1 %part.more, label %stretch, label %each.end",
        "each.end:",
        "%unit.next = add i64 %unit, 1",
        "%unit.more = icmp slt i64 %unit.next, %end",
        "br i1 %unit.more, label %each, label %done",
        "done:",
        "ret void",
    ]
    return _function(lines)


def packing_text_for(panel: Panel) -> str:
    """The function that packs the panels of a right operand into the result: a unit is a panel of one matrix."""
    lines = [
        *_described(),
        f"%is.turned = icmp eq i64 %packing, {TURNED}",
        "br label %each",
        "each:",
        "%column = phi i64 [ %begin, %entry ], [ %column.next, %packed ]",
        *_placed(panel),
        "%result.begin = mul i64 %matrix, %result.batch",
        f"%number.begin = mul i64 %number.first, {panel.width}",
        "%panel.begin = add i64 %number.begin, %result.begin",
        "%panel = getelementptr float, ptr %result, i64 %panel.begin",
        "%first = add i64 0, 0",
        "%length = add i64 %k, 0",
        "br i1 %is.turned, label %turn, label %copy",
        *_copy(panel, "%panel", "each"),
        *_turn(panel, "%panel", "each"),
        "packed:",
        "%column.next = add i64 %column, 1",
        "%column.more = icmp slt i64 %column.next, %end",
        "br i1 %column.more, label %each, label %done",
        "done:",
        "ret void",
    ]
    return _function(lines)


def _function(lines: Sequence[str]) -> str:
    declared = [
        f"declare {VECTOR} @llvm.fma.v{LANES}f32({VECTOR}, {VECTOR}, {VECTOR})",
        "declare i64 @llvm.umin.i64(i64, i64)",
    ]
    return function_text(lines, declared)


def _placed(panel: Panel) -> list[str]:
    """The matrix and the number of a panel, its first column, and its offset among the packed panels."""
    return [
        "%matrix = udiv i64 %column, %panels",
        "%number = urem i64 %column, %panels",
        f"%j.at = mul i64 %number, {panel.width}",
        f"%j.last = sub i64 %n, {panel.width}",
        "%j = call i64 @llvm.umin.i64(i64 %j.at, i64 %j.last)",
        "%right.begin = mul i64 %matrix, %right.batch",
        "%number.first = mul i64 %number, %k",
    ]


def _described() -> list[str]:
    """Load the addresses and the words of the description."""
    lines = []
    for k, name in enumerate(("left", "right", "result", "words")):
        lines += [f"%{name}.at = getelementptr ptr, ptr %buffers, i64 {k}", f"%{name} = load ptr, ptr %{name}.at"]
    for k, name in enumerate(WORDS):
        lines += [f"%{name}.word = getelementptr i64, ptr %words, i64 {k}", f"%{name} = load i64, ptr %{name}.word"]
    return lines


def _load(name: str, base: str, at: str, kind: str = VECTOR) -> list[str]:
    address = f"{name}.address"
    return [f"{address} = getelementptr float, ptr {base}, i64 {at}", f"{name} = load {kind}, ptr {address}, align 4"]


def _store(value: str, base: str, at: str, name: str) -> list[str]:
    return [f"{name} = getelementptr float, ptr {base}, i64 {at}", f"store {VECTOR} {value}, ptr {name}, align 4"]


def _again(name: str, at: str, step: int, end: str, begin: str, behind: str) -> list[str]:
    return [
        f"{name} = add i64 {at}, {step}",
        f"{name}.more = icmp slt i64 {name}, {end}",
        f"br i1 {name}.more, label %{begin}, label %{behind}",
    ]


def _copy(panel: Panel, to: str, before: str) -> list[str]:
    """Pack a panel of a right operand in row-major order."""
    lines = [
        "copy:",
        f"%c = phi i64 [ 0, %{before} ], [ %c.next, %copy ]",
        "%c.place = add i64 %c, %first",
        "%c.row = mul i64 %c.place, %right.along",
        "%c.from = add i64 %c.row, %right.begin",
        "%c.column = add i64 %c.from, %j",
        f"%c.to = mul i64 %c, {panel.width}",
    ]
    for v in range(panel.wide):
        lines += [f"%c{v}.at = add i64 %c.column, {LANES * v}", f"%c{v}.to = add i64 %c.to, {LANES * v}"]
        lines += [*_load(f"%c{v}", "%right", f"%c{v}.at"), *_store(f"%c{v}", to, f"%c{v}.to", f"%c{v}.place")]
    return [*lines, *_again("%c.next", "%c", 1, "%length", "copy", "packed")]


def _turn(panel: Panel, to: str, before: str) -> list[str]:
    """Pack a panel of a transposed right operand: square blocks are transposed in registers."""
    lines = [
        "turn:",
        f"%t.at = phi i64 [ 0, %{before} ], [ %t.next, %turn ]",
        f"%t.last = sub i64 %length, {LANES}",
        "%t = call i64 @llvm.umin.i64(i64 %t.at, i64 %t.last)",
        "%t.place = add i64 %t, %first",
        f"%t.to = mul i64 %t, {panel.width}",
    ]
    for v in range(panel.wide):
        rows = []
        for r in range(LANES):
            name = f"%t{v}.{r}"
            lines += [
                f"{name}.column = add i64 %j, {LANES * v + r}",
                f"{name}.first = mul i64 {name}.column, %right.along",
                f"{name}.begin = add i64 {name}.first, %right.begin",
                f"{name}.at = add i64 {name}.begin, %t.place",
                *_load(name, "%right", f"{name}.at"),
            ]
            rows.append(name)
        shuffles, rows = transposed(rows, f"%t{v}")
        lines += shuffles
        for q, row in enumerate(rows):
            lines.append(f"%t{v}.{q}.to = add i64 %t.to, {q * panel.width + LANES * v}")
            lines += _store(row, to, f"%t{v}.{q}.to", f"%t{v}.{q}.place")
    return [*lines, *_again("%t.next", "%t.at", LANES, "%length", "turn", "packed")]


def transposed(rows: Sequence[str], prefix: str) -> tuple[list[str], list[str]]:
    """Transpose LANES vectors of LANES elements: the shuffles, and the names of the results, which begin with the prefix."""
    lines, rows, step = [], list(rows), 1
    while step < LANES:
        turned = list(rows)
        for i in range(LANES):
            if i & step:
                continue
            a, b = rows[i], rows[i + step]
            low = [lane if not lane & step else LANES + lane - step for lane in range(LANES)]
            high = [lane + step if not lane & step else LANES + lane for lane in range(LANES)]
            for row, order in ((i, low), (i + step, high)):
                turned[row] = f"{prefix}.{row}.by{step}"
                mask = f"<{LANES} x i32> <{', '.join(f'i32 {o}' for o in order)}>"
                lines.append(f"{turned[row]} = shufflevector {VECTOR} {a}, {VECTOR} {b}, {mask}")
        rows, step = turned, 2 * step
    return lines, rows


def _blocks(panel: Panel) -> list[str]:
    """The loop over blocks of rows, packed or in place; in each, tiles, then the remaining rows one by one."""
    lines = [
        "br label %block.begin",
        "block.begin:",
        "%block.at = phi i64 [ %low, %packed ], [ %block.next, %block.end ]",
        "%row = call i64 @llvm.umin.i64(i64 %block.at, i64 %block.last)",
        "%row.first = mul i64 %row, %left.row",
        "%row.place = mul i64 %first, %left.column",
        "%row.offset = add i64 %row.first, %row.place",
        "%row.begin = add i64 %row.offset, %left.begin",
        "%there = getelementptr float, ptr %left, i64 %row.begin",
        "br i1 %is.packed, label %pack, label %tiles",
        "pack:",
        "%q = phi i64 [ 0, %block.begin ], [ %q.next, %pack ]",
        "%q.from = mul i64 %q, %left.column",
        f"%q.to = mul i64 %q, {A_BLOCK}",
    ]
    for v in range(A_BLOCK // LANES):
        lines += [f"%q{v}.at = add i64 %q.from, {LANES * v}", f"%q{v}.to = add i64 %q.to, {LANES * v}"]
        lines += [*_load(f"%q{v}", "%there", f"%q{v}.at"), *_store(f"%q{v}", "%block", f"%q{v}.to", f"%q{v}.place")]
    lines += [
        *_again("%q.next", "%q", 1, "%length", "pack", "tiles"),
        "tiles:",
        "%base = phi ptr [ %there, %block.begin ], [ %block, %pack ]",
        "%base.row = phi i64 [ %left.row, %block.begin ], [ 1, %pack ]",
        f"%base.column = phi i64 [ %left.column, %block.begin ], [ {A_BLOCK}, %pack ]",
        "%done.rows = sub i64 %block.at, %row",
        "%new.rows = sub i64 %rows, %done.rows",
        f"%tiles.rest = urem i64 %new.rows, {panel.tall}",
        "%tiles.whole = sub i64 %rows, %tiles.rest",
        "%tiles.end = select i1 %is.long, i64 %tiles.whole, i64 %rows",
        "%is.none = icmp eq i64 %tiles.end, %done.rows",
        "br i1 %is.none, label %few.begin, label %many",
        *_rows(panel, "many", "tiles", panel.tall, "%tiles.end", "few.begin"),
        "few.begin:",
        "%is.left = icmp ult i64 %tiles.end, %rows",
        "br i1 %is.left, label %few, label %block.end",
        *_rows(panel, "few", "few.begin", 1, "%rows", "block.end"),
        "block.end:",
        "%block.next = add i64 %block.at, %rows",
        "%block.more = icmp ult i64 %block.next, %high",
        "br i1 %block.more, label %block.begin, label %stretch.end",
    ]
    return lines


def _rows(panel: Panel, label: str, before: str, tall: int, end: str, behind: str) -> list[str]:
    """The loop over tiles of `tall` rows of a block, up to row `end`."""
    p = f"%{label}"
    begin = "%done.rows" if label == "many" else "%tiles.end"
    lines = [
        f"{label}:",
        f"{p}.i.at = phi i64 [ {begin}, %{before} ], [ {p}.i.next, %{label}.store ]",
        f"{p}.i.last = sub i64 {end}, {tall}",
        f"{p}.i = call i64 @llvm.umin.i64(i64 {p}.i.at, i64 {p}.i.last)",
    ]
    sums = [(i, v) for i in range(tall) for v in range(panel.wide)]
    for i in range(tall):
        lines += [
            f"{p}.row{i} = add i64 {p}.i, {i}",
            f"{p}.left{i}.first = mul i64 {p}.row{i}, %base.row",
            f"{p}.left{i} = getelementptr float, ptr %base, i64 {p}.left{i}.first",
            f"{p}.out{i}.row = add i64 {p}.row{i}, %row",
            f"{p}.out{i}.first = mul i64 {p}.out{i}.row, %result.row",
            f"{p}.out{i}.begin = add i64 {p}.out{i}.first, %result.begin",
            f"{p}.out{i} = add i64 {p}.out{i}.begin, %j",
        ]
    for i, v in sums:
        lines += [
            f"{p}.out{i}.{v} = add i64 {p}.out{i}, {LANES * v}",
        ]
    lines += [
        f"br label %{label}.along",
        f"{label}.along:",
        f"{p}.p = phi i64 [ 0, %{label} ], [ {p}.p.next, %{label}.along ]",
        *(
            f"{p}.sum{i}.{v} = phi {VECTOR} [ zeroinitializer, %{label} ], [ {p}.next{i}.{v}, %{label}.along ]"
            for i, v in sums
        ),
        f"{p}.a.at = mul i64 {p}.p, %base.column",
        f"{p}.b.at = mul i64 {p}.p, {panel.width}",
    ]
    for v in range(panel.wide):
        lines += [f"{p}.b{v}.at = add i64 {p}.b.at, {LANES * v}", *_load(f"{p}.b{v}", "%panel", f"{p}.b{v}.at")]
    for i in range(tall):
        lines += [
            *_load(f"{p}.a{i}", f"{p}.left{i}", f"{p}.a.at", "float"),
            f"{p}.a{i}.one = insertelement {VECTOR} poison, float {p}.a{i}, i32 0",
            f"{p}.a{i}.all = shufflevector {VECTOR} {p}.a{i}.one, {VECTOR} poison, <{LANES} x i32> zeroinitializer",
        ]
        for v in range(panel.wide):
            operands = f"{VECTOR} {p}.a{i}.all, {VECTOR} {p}.b{v}, {VECTOR} {p}.sum{i}.{v}"
            lines.append(f"{p}.next{i}.{v} = call {VECTOR} @llvm.fma.v{LANES}f32({operands})")
    lines += [*_again(f"{p}.p.next", f"{p}.p", 1, "%length", f"{label}.along", f"{label}.store"), f"{label}.store:"]
    for i, v in sums:
        lines += [
            *_load(f"{p}.before{i}.{v}", "%result", f"{p}.out{i}.{v}"),
            f"{p}.both{i}.{v} = fadd {VECTOR} {p}.next{i}.{v}, {p}.before{i}.{v}",
            f"{p}.total{i}.{v} = select i1 %is.first, {VECTOR} {p}.next{i}.{v}, {VECTOR} {p}.both{i}.{v}",
            *_store(f"{p}.total{i}.{v}", "%result", f"{p}.out{i}.{v}", f"{p}.place{i}.{v}"),
        ]
    return [*lines, *_again(f"{p}.i.next", f"{p}.i.at", tall, end, label, behind)]
