"""Reads TensorBoard's event files as TensorBoard does: records, then protocol buffers, by their numbers of fields."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def crc32c(data: bytes) -> int:
    """The checksum bit by bit, as it is defined."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> Iterator[bytes]:
    """The data of a file's records, whose checksums fit."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8) == (_masked(data[at : at + 8]),)
        body = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length) == (_masked(body),)
        yield body
        at += length + 16


def message(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number: ints, floats and bytes."""
    found, at = defaultdict(list), 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found[key >> 3].append(varint())
        elif key & 7 == 2:
            length = varint()
            found[key >> 3].append(data[at : at + length])
            at += length
        else:
            size, code = {1: (8, "<d"), 5: (4, "<f")}[key & 7]
            found[key >> 3].append(struct.unpack_from(code, data, at)[0])
            at += size
    return found


def value(data: bytes) -> dict[str, Any]:
    """A summary value: its tag, and what it holds."""
    fields = message(data)
    found: dict[str, Any] = {"tag": fields[1][0].decode()}
    if 2 in fields:
        found["scalar"] = fields[2][0]
    if 4 in fields:
        image = message(fields[4][0])
        found["image"] = image[1][0], image[2][0], image[3][0], image[4][0]
    if 5 in fields:
        histogram = message(fields[5][0])
        found["histogram"] = [histogram[k][0] for k in range(1, 6)]
        found["limits"], found["counts"] = (
            list(struct.unpack(f"<{len(p) // 8}d", p)) for p in (histogram[6][0], histogram[7][0])
        )
    if 6 in fields:
        found["audio"] = message(fields[6][0])
    if 8 in fields:
        found["tensor"] = message(fields[8][0])
    if 9 in fields:
        plugin = message(message(fields[9][0])[1][0])
        found["plugin"] = plugin[1][0].decode(), plugin[2][0]
    return found


def _written(path: Path) -> tuple[int, int]:
    """The second and the number of a file in its process, by its name: the tenth comes after the ninth."""
    parts = path.name.split(".")
    return int(parts[3]), int(next(p for p in reversed(parts) if p.isdigit()))


def events_in(folder: Path) -> list[dict[str, Any]]:
    """The events of all files of a folder, in order, but for those that say only which version wrote them."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*"), key=_written):
        first, *others = map(message, records(path))
        assert first[3] == [b"brain.Event:2"]
        for event in others:
            values = [value(v) for v in message(event[5][0])[1]] if 5 in event else []
            found.append({"time": event[1][0], "step": event.get(2, [0])[0], "values": values, "session": event.get(7)})
    return found
