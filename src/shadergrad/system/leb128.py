"""LEB128, the numbers of WebAssembly's binary format: seven bits a byte, the lowest first. Source: WebAssembly Core Specification 2.0, 5.2.2."""

from __future__ import annotations


def leb(value: int) -> bytes:
    """A non-negative number, unsigned."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def signed_leb(value: int) -> bytes:
    """A non-negative number in the signed format, whose highest written bit is the sign."""
    found = leb(value)
    return found if found[-1] < 0x40 else bytes([*found[:-1], found[-1] | 0x80, 0])


def sized(content: bytes) -> bytes:
    """Bytes with their length in front."""
    return leb(len(content)) + content


def read_leb(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number that starts at a byte, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
