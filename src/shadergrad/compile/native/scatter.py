"""Scattered sums as functions in LLVM IR, one text for all sizes. In: types. Out: a text.

A unit is a block of LANES columns of one outer index. One thread adds all elements of its columns, from the first position to the last. So there are
no races, and for any number of threads a sum has the bits of NumPy's `add.at`. Buffers are positions, source, result (zeros)
and (j, columns, size): arrays are [outer, j, columns], the result [outer, size, columns], and positions [outer, j] where all columns share them.
"""

from __future__ import annotations

from functools import cache

from .function_text import function_text
from .registers import LANES

TYPES = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}
POSITIONS = {"int32": "i32", "int64": "i64"}


@cache
def scatter_text(dtype: str, positions: str, shared: bool) -> str:
    """The function for a dtype of sources and a dtype of positions. shared: one position for a whole row of columns."""
    kind, at = TYPES[dtype], POSITIONS[positions]
    size = 8 if kind in ("double", "i64") else 4
    wide, mask, load, store = _vectors(kind)
    numbers = ", ".join(f"i64 {k}" for k in range(LANES))
    body = _rows_added(kind, at, size) if shared else _elements_added(kind, at)
    lines = [
        *_loaded("positions", 0, "buffers"),
        *_loaded("source", 1, "buffers"),
        *_loaded("result", 2, "buffers"),
        *_loaded("sizes", 3, "buffers"),
        *_number("length", 0),
        *_number("columns", 1),
        *_number("size", 2),
        f"%columns.past = add i64 %columns, {LANES - 1}",
        f"%blocks = udiv i64 %columns.past, {LANES}",
        "br label %each",
        "each:",
        "%u = phi i64 [ %begin, %entry ], [ %u.next, %each.end ]",
        "%o = udiv i64 %u, %blocks",
        "%block = urem i64 %u, %blocks",
        f"%column = mul i64 %block, {LANES}",
        f"%column.all = add i64 %column, {LANES}",
        "%is.last = icmp sgt i64 %column.all, %columns",
        "%column.end = select i1 %is.last, i64 %columns, i64 %column.all",
        "%count = sub i64 %column.end, %column",
        f"%count.first = insertelement <{LANES} x i64> poison, i64 %count, i32 0",
        f"%count.wide = shufflevector <{LANES} x i64> %count.first, <{LANES} x i64> poison, <{LANES} x i32> zeroinitializer",
        f"%mask = icmp slt <{LANES} x i64> <{numbers}>, %count.wide",
        "%source.first = mul i64 %o, %length",
        "%row.first = mul i64 %o, %size",
        "br label %along",
        "along:",
        "%j = phi i64 [ 0, %each ], [ %j.next, %j.end ]",
        *body,
        "j.end:",
        "%j.next = add i64 %j, 1",
        "%j.more = icmp slt i64 %j.next, %length",
        "br i1 %j.more, label %along, label %each.end",
        "each.end:",
        "%u.next = add i64 %u, 1",
        "%u.more = icmp slt i64 %u.next, %end",
        "br i1 %u.more, label %each, label %done",
        "done:",
        "ret void",
    ]
    declared = [
        f"declare {wide} {load}(ptr, {mask}, {wide})",
        f"declare void {store}({wide}, ptr, {mask})",
    ]
    return function_text(lines, declared if shared else ())


def _rows_added(kind: str, at: str, size: int) -> list[str]:
    """Add the columns of one position, a vector, if all columns share the position."""
    wide, mask, load, store = _vectors(kind)
    return [
        "%position.at = add i64 %source.first, %j",
        *_position(at),
        "%from.at = mul i64 %position.at, %columns",
        "%from.column = add i64 %from.at, %column",
        "%to.column = add i64 %row.at, %column",
        f"%from = getelementptr {kind}, ptr %source, i64 %from.column",
        f"%to = getelementptr {kind}, ptr %result, i64 %to.column",
        f"%x = call {wide} {load}(ptr align {size} %from, {mask} %mask, {wide} zeroinitializer)",
        f"%sum = call {wide} {load}(ptr align {size} %to, {mask} %mask, {wide} zeroinitializer)",
        f"%new = {_add(kind)} {wide} %sum, %x",
        f"call void {store}({wide} %new, ptr align {size} %to, {mask} %mask)",
        "br label %j.end",
    ]


def _elements_added(kind: str, at: str) -> list[str]:
    """Add the columns of one position one by one, each with its own position."""
    return [
        "%from.row = add i64 %source.first, %j",
        "%from.at = mul i64 %from.row, %columns",
        "br label %lane",
        "lane:",
        "%i = phi i64 [ %column, %along ], [ %i.next, %lane ]",
        "%position.at = add i64 %from.at, %i",
        *_position(at),
        "%to.column = add i64 %row.at, %i",
        f"%from = getelementptr {kind}, ptr %source, i64 %position.at",
        f"%to = getelementptr {kind}, ptr %result, i64 %to.column",
        f"%x = load {kind}, ptr %from",
        f"%sum = load {kind}, ptr %to",
        f"%new = {_add(kind)} {kind} %sum, %x",
        f"store {kind} %new, ptr %to",
        "%i.next = add i64 %i, 1",
        "%i.more = icmp slt i64 %i.next, %column.end",
        "br i1 %i.more, label %lane, label %j.end",
    ]


def _position(at: str) -> list[str]:
    """Load a position, and find the row of the result that it names."""
    return [
        f"%position.address = getelementptr {at}, ptr %positions, i64 %position.at",
        f"%position = load {at}, ptr %position.address",
        f"%v = {'sext i32 %position to i64' if at == 'i32' else 'add i64 %position, 0'}",
        "%row = add i64 %row.first, %v",
        "%row.at = mul i64 %row, %columns",
    ]


def _vectors(kind: str) -> tuple[str, str, str, str]:
    """The types of a vector and of a mask, and the names of the masked load and store."""
    suffix = {"float": "f32", "double": "f64"}.get(kind, kind)
    name = f"v{LANES}{suffix}.p0"
    return f"<{LANES} x {kind}>", f"<{LANES} x i1>", f"@llvm.masked.load.{name}", f"@llvm.masked.store.{name}"


def _add(kind: str) -> str:
    return "fadd" if kind in ("float", "double") else "add"


def _loaded(name: str, k: int, table: str) -> list[str]:
    return [f"%{name}.slot = getelementptr ptr, ptr %{table}, i64 {k}", f"%{name} = load ptr, ptr %{name}.slot"]


def _number(name: str, k: int) -> list[str]:
    return [f"%{name}.slot = getelementptr i64, ptr %sizes, i64 {k}", f"%{name} = load i64, ptr %{name}.slot"]
