"""Convolutions as functions in LLVM IR, each of which serves all sizes: what changes between two is in tables that they are given.

Elements of x lie so that neighbouring places of a window's sum are neighbours in memory: where windows move by `step`, the elements of x with
the same rest modulo `step` lie together (runtime/native_convolution.py lays them). Then a place of the window is an offset, and a vector of
places is one load, without windows in memory (im2col). Rows of x are longer than those of what is computed; what a vector computes between
two rows is masked. No element of a result depends on the range that its unit is in.
"""

from __future__ import annotations

from collections.abc import Sequence

from .registers import LANES, Tile

CHAIN = (
    128  # products that are added one after the other, before their sum is added to those of others: errors stay small
)


_HEAD = 'define void @kernel(ptr noalias %buffers, i64 %begin, i64 %end) nounwind "prefer-vector-width"="512" {'
_VECTOR = f"<{LANES} x float>"
_MASK = f"<{LANES} x i1>"
_FMA = f"declare {_VECTOR} @llvm.fma.v{LANES}f32({_VECTOR}, {_VECTOR}, {_VECTOR})"


def _pointers(names: Sequence[str]) -> list[str]:
    """The table of buffers."""
    lines = []
    for k, name in enumerate(names):
        lines += [f"%{name}.entry = getelementptr ptr, ptr %buffers, i64 {k}", f"%{name} = load ptr, ptr %{name}.entry"]
    return lines


def _numbers(names: Sequence[str]) -> list[str]:
    """The table of sizes, which is a buffer itself."""
    lines = []
    for k, name in enumerate(names):
        lines += [f"%{name}.size = getelementptr i64, ptr %sizes, i64 {k}", f"%{name} = load i64, ptr %{name}.size"]
    return lines


def _load(name: str, kind: str, buffer: str, at: str) -> list[str]:
    """An element of a buffer; a vector begins at any float."""
    element = "float" if kind == _VECTOR else kind
    return [
        f"%{name}.p = getelementptr {element}, ptr %{buffer}, i64 {at}",
        f"%{name} = load {kind}, ptr %{name}.p, align {2 if kind == 'i16' else 8 if kind == 'i64' else 4}",
    ]


def _splat(name: str, of: str) -> list[str]:
    return [
        f"%{name}.one = insertelement {_VECTOR} poison, float %{of}, i32 0",
        f"%{name} = shufflevector {_VECTOR} %{name}.one, {_VECTOR} poison, <{LANES} x i32> zeroinitializer",
    ]


def _again(name: str, step: str, end: str, begin: str, behind: str) -> list[str]:
    """The end of a loop over %name."""
    return [
        f"%{name}.next = add i64 %{name}, {step}",
        f"%{name}.more = icmp slt i64 %{name}.next, {end}",
        f"br i1 %{name}.more, label %{begin}, label %{behind}",
        f"{behind}:",
    ]


def _joined(lines: Sequence[str], declared: Sequence[str]) -> str:
    body = (line if line.endswith(":") else "  " + line for line in lines)
    return "\n".join([_HEAD, *body, "}", *declared, ""])


COUNTS_BUFFERS = ("x", "w", "result", "sizes", "offsets", "masks", "starts")
COUNTS_SIZES = ("places", "blocks", "image", "tiles", "channels", "batch", "count")


def over_counts(tile: Tile) -> str:
    """Windows that are small and many. A unit is an image and `tall` channels of its result.

    w (groups, blocks, places, tall): weights. offsets (places): of x, from that of a result. masks, starts (tiles * wide): which elements
    of a vector are results, and where the first of them lies in its channel. sizes: places of a window in all channels, blocks of channels,
    elements of an image of x, tiles of `wide` vectors, channels of the result, images of a group, results of a channel.
    """
    tall, wide = tile.tall, tile.wide
    sums = [(j, v) for j in range(tall) for v in range(wide)]
    multiplied = []
    for v in range(wide):
        multiplied += [f"%x{v}.at = add i64 %x.at, {LANES * v}", *_load(f"x{v}", _VECTOR, "x", f"%x{v}.at")]
    for j in range(tall):
        multiplied += [
            f"%w{j}.at = add i64 %w.at, {j}",
            *_load(f"w{j}.s", "float", "w", f"%w{j}.at"),
            *_splat(f"w{j}", f"w{j}.s"),
        ]
    for j, v in sums:
        multiplied.append(
            f"%a{j}.{v}.next = call {_VECTOR} @llvm.fma.v{LANES}f32({_VECTOR} %w{j}, {_VECTOR} %x{v}, {_VECTOR} %a{j}.{v})"
        )
    stored = []
    for v in range(wide):
        stored += [
            f"%v{v} = add i64 %v.at, {v}",
            *_load(f"bits{v}", "i16", "masks", f"%v{v}"),
            f"%mask{v} = bitcast i16 %bits{v} to {_MASK}",
            *_load(f"start{v}", "i64", "starts", f"%v{v}"),
            f"%r{v}.at = add i64 %r.at, %start{v}",
        ]
    for j, v in sums:
        stored += [
            f"%r{j}.{v}.at = add i64 %r{v}.at, %plane{j}",
            f"%r{j}.{v} = getelementptr float, ptr %result, i64 %r{j}.{v}.at",
            f"%m{j}.{v} = select i1 %some{j}, {_MASK} %mask{v}, {_MASK} zeroinitializer",
            f"call void @llvm.masked.compressstore.v{LANES}f32({_VECTOR} %s{j}.{v}.sum, ptr %r{j}.{v}, {_MASK} %m{j}.{v})",
        ]
    planes = []
    for j in range(tall):  # channels beyond the last are not stored
        planes += [
            f"%plane{j} = mul i64 %count, {j}",
            f"%channel{j} = add i64 %channel, {j}",
            f"%some{j} = icmp slt i64 %channel{j}, %channels",
        ]
    lines = [
        "entry:",
        *_pointers(COUNTS_BUFFERS),
        *_numbers(COUNTS_SIZES),
        "br label %each",
        "each:",
        "%u = phi i64 [ %begin, %entry ], [ %u.next, %each.end ]",
        "%n = udiv i64 %u, %blocks",
        "%block = urem i64 %u, %blocks",
        "%group = udiv i64 %n, %batch",
        f"%channel = mul i64 %block, {tall}",
        "%group.block = mul i64 %group, %blocks",
        "%w.block = add i64 %group.block, %block",
        "%w.place = mul i64 %w.block, %places",
        f"%w.first = mul i64 %w.place, {tall}",
        "%x.first = mul i64 %n, %image",
        "%r.image = mul i64 %n, %channels",
        "%r.channel = add i64 %r.image, %channel",
        "%r.at = mul i64 %r.channel, %count",
        *planes,
        "br label %tile",
        "tile:",
        "%t = phi i64 [ 0, %each ], [ %t.next, %chain.end ]",
        f"%v.at = mul i64 %t, {wide}",
        f"%p = mul i64 %t, {LANES * wide}",
        "%x.tile = add i64 %x.first, %p",
        "br label %chain",
        "chain:",
        "%b = phi i64 [ 0, %tile ], [ %b.next, %along.end ]",
        *(f"%s{j}.{v} = phi {_VECTOR} [ zeroinitializer, %tile ], [ %s{j}.{v}.sum, %along.end ]" for j, v in sums),
        f"%b.end = add i64 %b, {CHAIN}",
        "%b.last = icmp slt i64 %b.end, %places",
        "%k.end = select i1 %b.last, i64 %b.end, i64 %places",
        "br label %along",
        "along:",
        "%k = phi i64 [ %b, %chain ], [ %k.next, %along ]",
        *(f"%a{j}.{v} = phi {_VECTOR} [ zeroinitializer, %chain ], [ %a{j}.{v}.next, %along ]" for j, v in sums),
        *_load("offset", "i64", "offsets", "%k"),
        "%x.at = add i64 %x.tile, %offset",
        f"%w.row = mul i64 %k, {tall}",
        "%w.at = add i64 %w.first, %w.row",
        *multiplied,
        *_again("k", "1", "%k.end", "along", "along.end"),
        *(f"%s{j}.{v}.sum = fadd {_VECTOR} %s{j}.{v}, %a{j}.{v}.next" for j, v in sums),
        *_again("b", str(CHAIN), "%places", "chain", "chain.end"),
        *stored,
        *_again("t", "1", "%tiles", "tile", "each.end"),
        *_again("u", "1", "%end", "each", "done"),
        "ret void",
    ]
    store = f"declare void @llvm.masked.compressstore.v{LANES}f32({_VECTOR}, ptr, {_MASK})"
    return _joined(lines, (_FMA, store))


WINDOWS_BUFFERS = ("x", "w", "result", "sizes", "offsets", "masks", "totals")
WINDOWS_SIZES = ("images", "channels", "contracted", "plane", "vectors", "counts", "chunk")


def over_windows(tile: Tile) -> str:
    """Windows that are large and few, as of the gradient of weights. A unit is `side` channels of the result.

    w (groups, side * channels, contracted, LANES * vectors): windows as they lie over x. result (groups, side * images, side * channels, counts).
    offsets (counts): of x, for each result. masks (vectors): which elements of a vector a window has. totals (groups, channels, images, counts,
    side * side, LANES): room for sums. sizes: images and channels of the result by side, channels that are contracted, elements of a channel of
    x, vectors of a window, results of a channel, and how many contracted channels of all images the caches hold, which are read by all units of
    the range in turn. What is added to a result of one contracted channel is added up by itself first.
    """
    side = tile.side
    sums = [(i, j) for i in range(side) for j in range(side)]
    multiplied, rows = [], []
    for i in range(side):
        rows += [
            f"%n{i} = add i64 %n.first, {i}",
            f"%nc{i} = mul i64 %n{i}, %contracted",
            f"%xc{i} = add i64 %nc{i}, %c",
        ]
        rows += [f"%x{i}.first = mul i64 %xc{i}, %plane", f"%x{i}.tap = add i64 %x{i}.first, %offset"]
        multiplied += [f"%x{i}.at = add i64 %x{i}.tap, %p", *_load(f"x{i}.all", _VECTOR, "x", f"%x{i}.at")]
        multiplied.append(f"%x{i} = select {_MASK} %mask, {_VECTOR} %x{i}.all, {_VECTOR} zeroinitializer")
    for j in range(side):
        rows += [
            f"%o{j} = add i64 %o.first, {j}",
            f"%oc{j} = mul i64 %o{j}, %contracted",
            f"%wc{j} = add i64 %oc{j}, %c",
        ]
        rows += [f"%w{j}.first = mul i64 %wc{j}, %long"]
        multiplied += [f"%w{j}.at = add i64 %w{j}.first, %p", *_load(f"w{j}", _VECTOR, "w", f"%w{j}.at")]
    for i, j in sums:
        multiplied.append(
            f"%s{i}.{j}.next = call {_VECTOR} @llvm.fma.v{LANES}f32({_VECTOR} %w{j}, {_VECTOR} %x{i}, {_VECTOR} %s{i}.{j})"
        )
    added, stored = [], []
    for n, (i, j) in enumerate(sums):
        added += [
            f"%t{n}.at = add i64 %sum.at, {n * LANES}",
            *_load(f"t{n}", _VECTOR, "totals", f"%t{n}.at"),
            f"%t{n}.more = fadd {_VECTOR} %t{n}, %s{i}.{j}.next",
            f"store {_VECTOR} %t{n}.more, ptr %t{n}.p, align 4",
        ]
        stored += [
            f"%e{n}.at = add i64 %last.at, {n * LANES}",
            *_load(f"e{n}", _VECTOR, "totals", f"%e{n}.at"),
            f"%e{n}.sum = call float @llvm.vector.reduce.fadd.v{LANES}f32(float 0.0, {_VECTOR} %e{n})",
            f"%e{n}.row = add i64 %e.first, {i}",
            f"%e{n}.rows = mul i64 %e{n}.row, %r.row",
            f"%e{n}.column = add i64 %e.own, {j}",
            f"%e{n}.place = add i64 %e{n}.rows, %e{n}.column",
            f"%e{n}.first = mul i64 %e{n}.place, %counts",
            f"%e{n}.to = add i64 %e{n}.first, %l",
            f"%e{n}.result = getelementptr float, ptr %result, i64 %e{n}.to",
            f"store float %e{n}.sum, ptr %e{n}.result, align 4",
        ]
    size = LANES * side * side
    lines = [
        "entry:",
        *_pointers(WINDOWS_BUFFERS),
        *_numbers(WINDOWS_SIZES),
        f"%long = mul i64 %vectors, {LANES}",
        f"%r.row = mul i64 %channels, {side}",
        "%of.unit = mul i64 %images, %counts",
        "%tiles.begin = mul i64 %begin, %images",
        "%tiles.end = mul i64 %end, %images",
        "%sums.begin = mul i64 %begin, %of.unit",
        "%sums.end = mul i64 %end, %of.unit",
        f"%totals.begin = mul i64 %sums.begin, {size}",
        f"%totals.end = mul i64 %sums.end, {size}",
        "br label %clear",
        "clear:",
        "%z = phi i64 [ %totals.begin, %entry ], [ %z.next, %clear ]",
        "%z.at = getelementptr float, ptr %totals, i64 %z",
        f"store {_VECTOR} zeroinitializer, ptr %z.at, align 4",
        *_again("z", str(LANES), "%totals.end", "clear", "clear.end"),
        "br label %chunk.each",
        "chunk.each:",
        "%h = phi i64 [ 0, %clear.end ], [ %h.next, %tile.end ]",
        "%h.end = add i64 %h, %chunk",
        "%h.last = icmp slt i64 %h.end, %contracted",
        "%c.end = select i1 %h.last, i64 %h.end, i64 %contracted",
        "br label %tile",
        "tile:",
        "%t = phi i64 [ %tiles.begin, %chunk.each ], [ %t.next, %contract.end ]",
        "%u = udiv i64 %t, %images",
        "%image = urem i64 %t, %images",
        "%group = udiv i64 %u, %channels",
        f"%o.first = mul i64 %u, {side}",
        "%group.image = mul i64 %group, %images",
        "%n.tile = add i64 %group.image, %image",
        f"%n.first = mul i64 %n.tile, {side}",
        "%sum.tile = mul i64 %t, %counts",
        "br label %contract",
        "contract:",
        "%c = phi i64 [ %h, %tile ], [ %c.next, %tap.end ]",
        "br label %tap",
        "tap:",
        "%k = phi i64 [ 0, %contract ], [ %k.next, %along.end ]",
        *_load("offset", "i64", "offsets", "%k"),
        *rows,
        "br label %along",
        "along:",
        "%v = phi i64 [ 0, %tap ], [ %v.next, %along ]",
        *(f"%s{i}.{j} = phi {_VECTOR} [ zeroinitializer, %tap ], [ %s{i}.{j}.next, %along ]" for i, j in sums),
        f"%p = mul i64 %v, {LANES}",
        *_load("bits", "i16", "masks", "%v"),
        f"%mask = bitcast i16 %bits to {_MASK}",
        *multiplied,
        *_again("v", "1", "%vectors", "along", "along.end"),
        "%sum.place = add i64 %sum.tile, %k",
        f"%sum.at = mul i64 %sum.place, {size}",
        *added,
        *_again("k", "1", "%counts", "tap", "tap.end"),
        *_again("c", "1", "%c.end", "contract", "contract.end"),
        *_again("t", "1", "%tiles.end", "tile", "tile.end"),
        *_again("h", "%chunk", "%contracted", "chunk.each", "store.begin"),
        "br label %store",
        "store:",
        "%e = phi i64 [ %sums.begin, %store.begin ], [ %e.next, %store ]",
        f"%last.at = mul i64 %e, {size}",
        "%l = urem i64 %e, %counts",
        "%e.tile = udiv i64 %e, %counts",
        "%e.u = udiv i64 %e.tile, %images",
        "%e.image = urem i64 %e.tile, %images",
        "%e.group = udiv i64 %e.u, %channels",
        "%e.channel = urem i64 %e.u, %channels",
        f"%e.own = mul i64 %e.channel, {side}",
        "%e.rows = mul i64 %e.group, %images",
        "%e.row = add i64 %e.rows, %e.image",
        f"%e.first = mul i64 %e.row, {side}",
        *stored,
        *_again("e", "1", "%sums.end", "store", "done"),
        "ret void",
    ]
    reduce = f"declare float @llvm.vector.reduce.fadd.v{LANES}f32(float, {_VECTOR})"
    return _joined(lines, (_FMA, reduce))
