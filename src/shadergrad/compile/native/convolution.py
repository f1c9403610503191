"""Convolution as a matrix multiplication in LLVM IR: `void kernel(ptr buffers, i64 begin, i64 end)`. A unit is a panel of columns, or a part of
its contraction.

The left operand is the weights. In the right one, a column is a window of the padded input x, and a row is a channel and an element of the window. Each
element is found in x at the sum of the offsets of its row and column, so windows are never stored (implicit GEMM): a panel of columns is packed on the stack,
as in panel_product.py, and multiplied by all weights. Sums are accumulated by fma along a stretch of the contraction, and the sums of stretches are added, so
the bits depend on neither the tile nor the number of threads.

The buffers are those in BUFFERS: x; the weights; the result; a description in 64-bit words, named in WORDS, with strides in elements; the offsets of
rows in x, and of the weights that they are multiplied with (k, 64 bits); the offsets of columns in x (panels * width, 32 bits); for each vector of
columns, a bit of each lane that is stored (16 bits); and the places of columns in the result (panels * width, 32 bits), -1 for those that are not
stored; if results are compressed, the places of a vector's stored columns come first.
"""

from __future__ import annotations

from typing import Literal

from .convolution_text import INDICES, MASK, POINTERS, TRUE, again, described, function_of
from .panel_product import RATES, VECTOR, Panel, transposed
from .registers import LANES, LARGE, Tile

BUFFERS = ("x", "weights", "result", "words", "rows", "terms", "columns", "masks", "places")
WORDS = (
    *("m", "k", "panels", "parts", "stretches", "images", "x.group", "x.image", "weights.group", "weights.row"),
    *("result.part", "result.group", "result.image", "result.row"),
)
A_STRETCH = 512  # rows whose panel is packed at a time; errors of sums stay small, too

Packing = Literal["copy", "turn", "gather"]
"""How a panel is packed. copy: the columns of a vector are neighbours in x. turn: each LANES rows are neighbours in x, and blocks are transposed in registers;
k is a multiple of LANES. gather: each element is loaded by its own offset."""
Storing = Literal["run", "compress", "scatter"]
"""How results are stored. run: the stored columns of a vector are its first ones, and neighbours in the result. compress: they are neighbours in the
result. scatter: each has its own place."""


def stretches_of(k: int) -> int:
    """The number of stretches of a contraction."""
    return -(-k // A_STRETCH)


def panel_for(m: int, vectors: int, k: int, tile: Tile) -> Panel:
    """The tile for m channels and so many vectors of columns. Its width takes the least time, the padding of the last panel included."""
    widths = range(4 if tile == LARGE else 1, 0, -1)
    wide = min(widths, key=lambda w: -(-vectors // w) * w * RATES[w - 1])
    tall = min(24 // wide, 12) if tile == LARGE else 6
    if stretches_of(k) > 1:  # tiles do not overlap, and rows behind the last are computed one by one
        tall = next((t for t in range(tall, 3, -1) if m % t == 0), tall)
    return Panel(min(tall, m), wide)


def text_for(panel: Panel, packing: Packing, storing: Storing) -> str:
    """The function."""
    grain = LANES if packing == "turn" else 1
    lines = [
        f"%panel = alloca float, i64 {A_STRETCH * panel.width}, align 64",
        *described(BUFFERS, WORDS),
        "%is.long = icmp ugt i64 %stretches, 1",
        f"%grains = udiv i64 %k, {grain}",
        f"%rest = urem i64 %m, {panel.tall}",
        "%whole = sub i64 %m, %rest",
        "%many.end = select i1 %is.long, i64 %whole, i64 %m",
        "%has.many = icmp sgt i64 %many.end, 0",
        "%has.few = icmp slt i64 %many.end, %m",
        "br label %each",
        "each:",
        "%unit = phi i64 [ %begin, %entry ], [ %unit.next, %each.end ]",
        *_placed(panel),
        *_columns(panel, packing),
        "br label %stretch",
        "stretch:",
        "%s = phi i64 [ %stretch.first, %each ], [ %s.next, %stretched ]",
        "%s.after = add i64 %s, 1",
        "%first.total = mul i64 %grains, %s",
        "%behind.total = mul i64 %grains, %s.after",
        "%first.grain = udiv i64 %first.total, %stretches",
        "%behind.grain = udiv i64 %behind.total, %stretches",
        f"%first = mul i64 %first.grain, {grain}",
        f"%behind = mul i64 %behind.grain, {grain}",
        "%length = sub i64 %behind, %first",
        "%is.first = icmp eq i64 %s, %stretch.first",
        "%row.offsets = getelementptr i64, ptr %rows, i64 %first",
        "%term.offsets = getelementptr i64, ptr %terms, i64 %first",
        "br label %pack",
        *_packed(panel, packing),
        "packed:",
        "br i1 %has.many, label %many, label %rest.begin",
        *_tiles(panel, "many", panel.tall, "packed", "rest.begin", storing),
        "rest.begin:",
        "br i1 %has.few, label %few, label %stretched",
        *_tiles(panel, "few", 1, "rest.begin", "stretched", storing),
        "stretched:",
        *again("s", "1", "%stretch.end", "stretch", "each.end"),
        "each.end:",
        *again("unit", "1", "%end", "each", "done"),
        "done:",
        "ret void",
    ]
    return function_of(lines)


def _placed(panel: Panel) -> list[str]:
    """The addresses of a unit: its columns, its matrices of x, weights and result, and its stretches of the contraction."""
    return [
        "%part = urem i64 %unit, %parts",
        "%column = udiv i64 %unit, %parts",
        "%number = urem i64 %column, %panels",
        "%of.panels = udiv i64 %column, %panels",
        "%image = urem i64 %of.panels, %images",
        "%group = udiv i64 %of.panels, %images",
        f"%j = mul i64 %number, {panel.width}",
        f"%vector = mul i64 %number, {panel.wide}",
        "%x.by.group = mul i64 %group, %x.group",
        "%x.by.image = mul i64 %image, %x.image",
        "%x.at = add i64 %x.by.group, %x.by.image",
        "%here = getelementptr float, ptr %x, i64 %x.at",
        "%weights.at = mul i64 %group, %weights.group",
        "%left = getelementptr float, ptr %weights, i64 %weights.at",
        "%result.by.group = mul i64 %group, %result.group",
        "%result.by.image = mul i64 %image, %result.image",
        "%result.by.part = mul i64 %part, %result.part",
        "%result.at = add i64 %result.by.group, %result.by.image",
        "%result.from = add i64 %result.at, %result.by.part",
        "%there = getelementptr float, ptr %result, i64 %result.from",
        "%part.after = add i64 %part, 1",
        "%stretch.total = mul i64 %stretches, %part",
        "%stretch.totals = mul i64 %stretches, %part.after",
        "%stretch.first = udiv i64 %stretch.total, %parts",
        "%stretch.end = udiv i64 %stretch.totals, %parts",
    ]


def _columns(panel: Panel, packing: Packing) -> list[str]:
    """Load the offsets of a panel's columns, for packing."""
    lines = ["%column.offsets = getelementptr i32, ptr %columns, i64 %j"]
    if packing == "turn":
        return lines
    for v in range(panel.wide):
        lines.append(f"%column{v}.entry = getelementptr i32, ptr %column.offsets, i64 {LANES * v}")
        if packing == "gather":
            lines.append(f"%column{v} = load {INDICES}, ptr %column{v}.entry, align 4")
        else:
            lines += [
                f"%column{v}.first = load i32, ptr %column{v}.entry",
                f"%column{v} = sext i32 %column{v}.first to i64",
            ]
    return lines


def _packed(panel: Panel, packing: Packing) -> list[str]:
    """The loop over rows that packs the panel, or over LANES of them at a time."""
    lines = [
        "pack:",
        "%q = phi i64 [ 0, %stretch ], [ %q.next, %pack ]",
        "%q.entry = getelementptr i64, ptr %row.offsets, i64 %q",
        "%q.offset = load i64, ptr %q.entry",
        "%q.x = getelementptr float, ptr %here, i64 %q.offset",
        f"%q.first = mul i64 %q, {panel.width}",
        "%q.to = getelementptr float, ptr %panel, i64 %q.first",
    ]
    for v in range(panel.wide):
        if packing == "turn":
            lines += _turned(panel, v)
            continue
        if packing == "copy":
            lines += [
                f"%q{v}.from = getelementptr float, ptr %q.x, i64 %column{v}",
                f"%q{v} = load {VECTOR}, ptr %q{v}.from, align 4",
            ]
        else:
            lines += [
                f"%q{v}.from = getelementptr float, ptr %q.x, {INDICES} %column{v}",
                f"%q{v} = call {VECTOR} @llvm.masked.gather.v{LANES}f32.v{LANES}p0({POINTERS} %q{v}.from, i32 4, {MASK} {TRUE}, {VECTOR} poison)",
            ]
        lines += [
            f"%q{v}.to = getelementptr float, ptr %q.to, i64 {LANES * v}",
            f"store {VECTOR} %q{v}, ptr %q{v}.to, align 64",
        ]
    return [*lines, *again("q", str(LANES if packing == "turn" else 1), "%length", "pack", "packed")]


def _turned(panel: Panel, v: int) -> list[str]:
    """LANES columns of LANES rows, transposed in registers."""
    lines, loaded = [], []
    for r in range(LANES):
        name = f"%t{v}.{r}"
        lines += [
            f"{name}.entry = getelementptr i32, ptr %column.offsets, i64 {LANES * v + r}",
            f"{name}.short = load i32, ptr {name}.entry",
            f"{name}.offset = sext i32 {name}.short to i64",
            f"{name}.from = getelementptr float, ptr %q.x, i64 {name}.offset",
            f"{name} = load {VECTOR}, ptr {name}.from, align 4",
        ]
        loaded.append(name)
    shuffles, turned = transposed(loaded, f"%t{v}")
    lines += shuffles
    for r, name in enumerate(turned):
        lines += [
            f"%t{v}.{r}.to = getelementptr float, ptr %q.to, i64 {r * panel.width + LANES * v}",
            f"store {VECTOR} {name}, ptr %t{v}.{r}.to, align 64",
        ]
    return lines


def _tiles(panel: Panel, label: str, tall: int, before: str, behind: str, storing: Storing) -> list[str]:
    """The loop over tiles of `tall` rows of weights: all those of a multiplication of one stretch, of which the last overlaps the one before;
    whole ones ("many") and the remaining rows one by one ("few") if sums of stretches are added to stored ones."""
    p = f"%{label}"
    begin, end = ("0", "%many.end") if label == "many" else ("%many.end", "%m")
    sums = [(i, v) for i in range(tall) for v in range(panel.wide)]
    lines = [
        f"{label}:",
        f"{p}.i = phi i64 [ {begin}, %{before} ], [ {p}.i.next, %{label}.store ]",
        f"{p}.last = sub i64 {end}, {tall}",
        f"{p}.row = call i64 @llvm.umin.i64(i64 {p}.i, i64 {p}.last)",
    ]
    for i in range(tall):
        lines += [
            f"{p}.row{i} = add i64 {p}.row, {i}",
            f"{p}.left{i}.at = mul i64 {p}.row{i}, %weights.row",
            f"{p}.left{i} = getelementptr float, ptr %left, i64 {p}.left{i}.at",
        ]
    lines += [
        f"br label %{label}.along",
        f"{label}.along:",
        f"{p}.p = phi i64 [ 0, %{label} ], [ {p}.p.next, %{label}.along ]",
        *(
            f"{p}.sum{i}.{v} = phi {VECTOR} [ zeroinitializer, %{label} ], [ {p}.next{i}.{v}, %{label}.along ]"
            for i, v in sums
        ),
        *_multiplied(panel, p, tall),
        f"{p}.p.next = add i64 {p}.p, 1",
        f"{p}.p.more = icmp slt i64 {p}.p.next, %length",
        f"br i1 {p}.p.more, label %{label}.along, label %{label}.store",
        f"{label}.store:",
        *_places(panel, p, storing),
    ]
    for i in range(tall):
        lines += [
            f"{p}.out{i}.at = mul i64 {p}.row{i}, %result.row",
            f"{p}.out{i} = getelementptr float, ptr %there, i64 {p}.out{i}.at",
        ]
        for v in range(panel.wide):
            lines += _stored(f"{p}.out{i}.{v}", f"{p}.out{i}", f"{p}.next{i}.{v}", p, v, storing)
    return [
        *lines,
        f"{p}.i.next = add i64 {p}.i, {tall}",
        f"{p}.i.more = icmp slt i64 {p}.i.next, {end}",
        f"br i1 {p}.i.more, label %{label}, label %{behind}",
    ]


def _multiplied(panel: Panel, p: str, tall: int) -> list[str]:
    """The multiply-adds of one position of the contraction: `tall` weights times the row of the panel."""
    lines = [
        f"{p}.term.entry = getelementptr i64, ptr %term.offsets, i64 {p}.p",
        f"{p}.term = load i64, ptr {p}.term.entry",
        f"{p}.b.first = mul i64 {p}.p, {panel.width}",
        f"{p}.b.at = getelementptr float, ptr %panel, i64 {p}.b.first",
    ]
    for v in range(panel.wide):
        lines += [
            f"{p}.b{v}.at = getelementptr float, ptr {p}.b.at, i64 {LANES * v}",
            f"{p}.b{v} = load {VECTOR}, ptr {p}.b{v}.at, align 64",
        ]
    for i in range(tall):
        lines += [
            f"{p}.a{i}.at = getelementptr float, ptr {p}.left{i}, i64 {p}.term",
            f"{p}.a{i} = load float, ptr {p}.a{i}.at",
            f"{p}.a{i}.one = insertelement {VECTOR} poison, float {p}.a{i}, i32 0",
            f"{p}.a{i}.all = shufflevector {VECTOR} {p}.a{i}.one, {VECTOR} poison, <{LANES} x i32> zeroinitializer",
        ]
        for v in range(panel.wide):
            operands = f"{VECTOR} {p}.a{i}.all, {VECTOR} {p}.b{v}, {VECTOR} {p}.sum{i}.{v}"
            lines.append(f"{p}.next{i}.{v} = call {VECTOR} @llvm.fma.v{LANES}f32({operands})")
    return lines


def _places(panel: Panel, p: str, storing: Storing) -> list[str]:
    """Load the places of the panel's columns in the result, and the masks of the lanes to store, and of those with earlier sums."""
    lines = [
        f"{p}.places = getelementptr i32, ptr %places, i64 %j",
    ]
    for v in range(panel.wide):
        lines += [
            f"{p}.places{v}.at = getelementptr i32, ptr {p}.places, i64 {LANES * v}",
            f"{p}.places{v} = load {INDICES}, ptr {p}.places{v}.at, align 4",
            f"{p}.some{v} = icmp sge {INDICES} {p}.places{v}, zeroinitializer",
            f"{p}.again{v} = select i1 %is.first, {MASK} zeroinitializer, {MASK} {p}.some{v}",
            f"{p}.place{v}.short = extractelement {INDICES} {p}.places{v}, i32 0",
            f"{p}.place{v} = sext i32 {p}.place{v}.short to i64",
        ]
        if storing == "compress":
            lines += [
                f"{p}.vector{v} = add i64 %vector, {v}",
                f"{p}.bits{v}.at = getelementptr i16, ptr %masks, i64 {p}.vector{v}",
                f"{p}.bits{v} = load i16, ptr {p}.bits{v}.at",
                f"{p}.mask{v} = bitcast i16 {p}.bits{v} to {MASK}",
            ]
    return lines


def _stored(name: str, row: str, value: str, p: str, v: int, storing: Storing) -> list[str]:
    """Store a vector of a row of the result, or add it to what earlier stretches have stored."""
    vector = f"v{LANES}f32"
    if storing == "scatter":
        pointer, to = POINTERS, f"getelementptr float, ptr {row}, {INDICES} {p}.places{v}"
        load, store = f"gather.{vector}.v{LANES}p0", f"scatter.{vector}.v{LANES}p0"
    else:
        pointer, to = "ptr", f"getelementptr float, ptr {row}, i64 {p}.place{v}"
        load, store = f"load.{vector}.p0", f"store.{vector}.p0"
    lines = [f"{name}.to = {to}"]
    if storing == "compress":
        lines.append(
            f"{name} = call {VECTOR} @llvm.experimental.vector.compress.{vector}({VECTOR} {value}, {MASK} {p}.mask{v}, {VECTOR} poison)"
        )
        value = name
    return [
        *lines,
        f"{name}.before = call {VECTOR} @llvm.masked.{load}({pointer} {name}.to, i32 4, {MASK} {p}.again{v}, {VECTOR} zeroinitializer)",
        f"{name}.both = fadd {VECTOR} {value}, {name}.before",
        f"{name}.total = select i1 %is.first, {VECTOR} {value}, {VECTOR} {name}.both",
        f"call void @llvm.masked.{store}({VECTOR} {name}.total, {pointer} {name}.to, i32 4, {MASK} {p}.some{v})",
    ]
