"""LEB128, the numbers of WebAssembly's binary format: seven bits a byte, the lowest first. Source: WebAssembly Core Specification 2.0, 5.2.2."""

from __future__ import annotations

from ..logic.circuit.export_wasm import leb


def signed_leb(value: int) -> bytes:
    """A number from 0 on where the format expects a sign, which is the highest bit written."""
    found = leb(value)
    return found if found[-1] < 0x40 else bytes([*found[:-1], found[-1] | 0x80, 0])


def sized(content: bytes) -> bytes:
    """A part with its length before it."""
    return leb(len(content)) + content


def read_leb(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number that begins at a byte, and where the next part begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
