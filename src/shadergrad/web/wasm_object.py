"""Converts an LLVM object file to a WebAssembly module. In: the only object of a program. Out: a module with its own memory.

A WebAssembly object is almost a module: with a single object, all indices and addresses that a linker would fill in are already right.
It has no exports, and imports its memory and the stack pointer. Sections as in the WebAssembly specification,
version 2, 5.5; objects as in "WebAssembly Object File Linking", tool-conventions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..system.leb128 import leb, read_leb, signed_leb, sized
from .errors import WebError

HEAD = b"\0asm\1\0\0\0"
PAGE = 1 << 16  # bytes
CUSTOM, IMPORT, MEMORY, GLOBAL, EXPORT, DATA = 0, 2, 5, 6, 7, 11
KINDS = ("function", "table", "memory", "global")  # of imports, by number
LINKING, SYMBOLS = "linking", 8  # the section for linkers, and a part of it
FUNCTION, OF_DATA, SECTION = 0, 1, 3  # symbols
UNDEFINED, NAMED = 0x10, 0x40  # flags of symbols
I32, CHANGES, I32_CONST, END = 0x7F, 1, 0x41, 0x0B


def linked(code: bytes, functions: Sequence[str], stack_top: int, end: int) -> bytes:
    """The module. functions: names of those that it exports, beside `memory`. The stack grows down from stack_top; memory has `end`
    bytes at least. Raises WebError if the code calls an undefined function.
    """
    sections, numbers = dict(_sections(code)), _functions(code)
    _check_imports(sections.pop(IMPORT, b"\0"))
    sections[MEMORY] = b"\1\0" + leb(-(-end // PAGE))
    sections[GLOBAL] = b"\1" + bytes([I32, CHANGES, I32_CONST]) + signed_leb(stack_top) + bytes([END])
    exports = [(name, 0, numbers[name]) for name in functions] + [("memory", 2, 0)]
    sections[EXPORT] = leb(len(exports)) + b"".join(
        sized(name.encode()) + bytes([kind]) + leb(k) for name, kind, k in exports
    )
    order = sorted(
        sections, key=lambda number: (number == DATA, number)
    )  # section 12, the count of data segments, comes before the code
    if 12 in sections:
        order.remove(12)
        order.insert(order.index(10), 12)
    return HEAD + b"".join(bytes([number]) + sized(sections[number]) for number in order)


def data_end(code: bytes) -> int:
    """The end of an object's data in memory."""
    body = dict(_sections(code)).get(DATA, b"\0")
    (count, at), end = read_leb(body, 0), 0
    for _ in range(count):
        flags, at = read_leb(body, at)
        if flags or body[at] != I32_CONST:
            raise WebError("[wasm] LLVM's object has data of another form than is known.")
        start, at = read_leb(body, at + 1)
        size, at = read_leb(body, at + 1)
        at, end = at + size, max(end, start + size)
    return end


def _sections(code: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the content of each section, without those that only a linker reads."""
    yield from ((number, content) for number, content in _all_sections(code) if number != CUSTOM)


def _functions(code: bytes) -> dict[str, int]:
    """The numbers of an object's functions, by name: from the symbol table in its section for linkers."""
    for number, content in _all_sections(code):
        name, at = _text(content, 0) if number == CUSTOM else ("", 0)
        if name == LINKING:
            break
    else:
        raise WebError("[wasm] LLVM's object has no section for linkers.")
    _, at = read_leb(content, at)  # its version
    found = {}
    while at < len(content):
        part, (size, at) = content[at], read_leb(content, at + 1)
        if part == SYMBOLS:
            found = dict(_symbols(content[at : at + size]))
        at += size
    return found


def _symbols(table: bytes) -> Iterator[tuple[str, int]]:
    """Of functions."""
    count, at = read_leb(table, 0)
    for _ in range(count):
        kind, (flags, at) = table[at], read_leb(table, at + 1)
        if kind == SECTION:
            _, at = read_leb(table, at)
        elif kind == OF_DATA:
            _, at = _text(table, at)
            for _ in range(0 if flags & UNDEFINED else 3):
                _, at = read_leb(table, at)
        else:
            number, at = read_leb(table, at)
            name = ""
            if not flags & UNDEFINED or flags & NAMED:
                name, at = _text(table, at)
            if kind == FUNCTION:
                yield name, number


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = read_leb(data, at)
    return data[at : at + size].decode("utf-8", "replace"), at + size


def _all_sections(code: bytes) -> Iterator[tuple[int, bytes]]:
    at = len(HEAD)
    if code[:at] != HEAD:
        raise WebError("[wasm] LLVM's object is no module of WebAssembly.")
    while at < len(code):
        number = code[at]
        size, at = read_leb(code, at + 1)
        yield number, code[at : at + size]
        at += size


def _check_imports(body: bytes) -> None:
    count, at = read_leb(body, 0)
    for _ in range(count):
        names = []
        for _ in range(2):
            name, at = _text(body, at)
            names.append(name)
        kind, at = KINDS[body[at]], at + 1
        if kind == "memory":
            flags, at = read_leb(body, at)
            for _ in range(1 + (flags & 1)):
                _, at = read_leb(body, at)
        elif kind == "global" and names[1] == "__stack_pointer":
            at += 2
        else:
            raise WebError(f"[wasm] the step calls {names[1]}, which WebAssembly does not have.")
