"""A copy with zeros around the elements, in LLVM IR: `void kernel(ptr buffers, i64 begin, i64 end)`. A unit is the plane of a channel.

The buffers are the array x (groups, images, channels, *size); the copy, whose planes have `rows` rows of `size` elements; a description in 64-bit words,
named in WORDS, with strides in elements; and of each row of a plane, in 64 bits, the offset in x that its first element would have, and the first and the end
of those elements that are from x. All others are zero. `x.step` is the stride between two elements of a row.
"""

from __future__ import annotations

from .convolution_text import INDICES, MASK, POINTERS, TRUE, again, described, function_of
from .panel_product import VECTOR
from .registers import LANES

BUFFERS = ("x", "padded", "words", "offsets", "begins", "ends")
WORDS = ("channels", "images", "x.group", "x.image", "x.channel", "x.step", "rows", "size")


def text() -> str:
    """The function."""
    lanes = f"{INDICES} <{', '.join(f'i32 {lane}' for lane in range(LANES))}>"
    lines = [
        *described(BUFFERS, WORDS),
        "%step.short = trunc i64 %x.step to i32",
        *_splat("steps", "%step.short"),
        f"%gaps = mul {lanes}, %steps",
        "%is.dense = icmp eq i64 %x.step, 1",
        "%plane = mul i64 %rows, %size",
        "br label %each",
        "each:",
        "%unit = phi i64 [ %begin, %entry ], [ %unit.next, %each.end ]",
        "%channel = urem i64 %unit, %channels",
        "%of.images = udiv i64 %unit, %channels",
        "%image = urem i64 %of.images, %images",
        "%group = udiv i64 %of.images, %images",
        "%at.group = mul i64 %group, %x.group",
        "%at.image = mul i64 %image, %x.image",
        "%at.channel = mul i64 %channel, %x.channel",
        "%at.both = add i64 %at.group, %at.image",
        "%at = add i64 %at.both, %at.channel",
        "%here = getelementptr float, ptr %x, i64 %at",
        "%to = mul i64 %unit, %plane",
        "%there = getelementptr float, ptr %padded, i64 %to",
        "br label %row.begin",
        "row.begin:",
        "%row = phi i64 [ 0, %each ], [ %row.next, %row.end ]",
    ]
    for name, buffer in (("offset", "offsets"), ("low", "begins"), ("high", "ends")):
        lines += [
            f"%{name}.entry = getelementptr i64, ptr %{buffer}, i64 %row",
            f"%{name} = load i64, ptr %{name}.entry",
        ]
    lines += [
        "%from = getelementptr float, ptr %here, i64 %offset",
        "%row.to = mul i64 %row, %size",
        "%row.there = getelementptr float, ptr %there, i64 %row.to",
        "br label %along",
        "along:",
        "%j = phi i64 [ 0, %row.begin ], [ %j.next, %store ]",
        *_along(lanes),
        "row.end:",
        *again("row", "1", "%rows", "row.begin", "each.end"),
        "each.end:",
        *again("unit", "1", "%end", "each", "done"),
        "done:",
        "ret void",
    ]
    return function_of(lines)


def _along(lanes: str) -> list[str]:
    """The body of the loop along a row: load and store a vector, with zeros for elements that are not from x. lanes: 0, 1, 2, ..."""
    vector = f"v{LANES}f32"
    lines: list[str] = []
    for name, end in (("before", "low"), ("inside", "high"), ("stored", "size")):
        lines += [
            f"%{name}.far = sub i64 %{end}, %j",
            f"%{name}.least = call i64 @llvm.smax.i64(i64 %{name}.far, i64 0)",
            f"%{name}.near = call i64 @llvm.smin.i64(i64 %{name}.least, i64 {LANES})",
            f"%{name}.short = trunc i64 %{name}.near to i32",
            *_splat(f"{name}.all", f"%{name}.short"),
            f"%{name} = icmp slt {lanes}, %{name}.all",
        ]
    lines += [
        f"%is.behind = xor {MASK} %before, {TRUE}",
        f"%loaded = and {MASK} %inside, %is.behind",
        "%j.at = mul i64 %j, %x.step",
        "%j.from = getelementptr float, ptr %from, i64 %j.at",
        "br i1 %is.dense, label %dense, label %apart",
        "dense:",
        f"%run = call {VECTOR} @llvm.masked.load.{vector}.p0(ptr %j.from, i32 4, {MASK} %loaded, {VECTOR} zeroinitializer)",
        "br label %store",
        "apart:",
        f"%each.from = getelementptr float, ptr %j.from, {INDICES} %gaps",
        f"%gathered = call {VECTOR} @llvm.masked.gather.{vector}.v{LANES}p0({POINTERS} %each.from, i32 4, {MASK} %loaded, {VECTOR} zeroinitializer)",
        "br label %store",
        "store:",
        f"%value = phi {VECTOR} [ %run, %dense ], [ %gathered, %apart ]",
        "%j.there = getelementptr float, ptr %row.there, i64 %j",
        f"call void @llvm.masked.store.{vector}.p0({VECTOR} %value, ptr %j.there, i32 4, {MASK} %stored)",
        *again("j", str(LANES), "%size", "along", "row.end"),
    ]
    return lines


def _splat(name: str, value: str) -> list[str]:
    return [
        f"%{name}.one = insertelement {INDICES} poison, i32 {value}, i32 0",
        f"%{name} = shufflevector {INDICES} %{name}.one, {INDICES} poison, <{LANES} x i32> zeroinitializer",
    ]
