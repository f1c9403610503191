"""TensorBoard's event files. In: encoded messages. Out: a file of records, each with its length and checksums.

A record is the length (uint64), the length's checksum, the data, and the data's checksum, all little-endian; a checksum is CRC-32C, rotated
and shifted, as TensorFlow's records have it. Messages are protocol buffers, of which `fields` writes the wire format: there are
few of them, they are small, and a package for them would be larger than this file.
"""

from __future__ import annotations

import os
import socket
import struct
import time
import warnings
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

_POLYNOMIAL = 0x82F63B78  # of CRC-32C (Castagnoli), its bits reversed
_serial = count()


class SummaryWarning(UserWarning):
    """A summary that is not written. A training goes on without it."""


def _table() -> list[int]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return found


_TABLE = _table()


def masked_checksum(data: bytes) -> int:
    """The CRC-32C of bytes as records hold it."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """A record of these bytes."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_checksum(length)) + data + struct.pack("<I", masked_checksum(data))


class Float32(float):
    """A number in a field of four bytes."""


class Packed(list[float]):
    """Doubles in one field."""


def fields(*pairs: tuple[int, Any]) -> bytes:
    """A message of numbered fields: ints, floats (doubles, or Float32), strings, bytes (messages too), Packed. None is left out."""
    parts: list[bytes] = []
    for number, value in pairs:
        if value is None:
            continue
        if isinstance(value, bool | int):
            parts += [_varint(number << 3), _varint(int(value) & (1 << 64) - 1)]
        elif isinstance(value, Float32):
            parts += [_varint(number << 3 | 5), struct.pack("<f", value)]
        elif isinstance(value, float):
            parts += [_varint(number << 3 | 1), struct.pack("<d", value)]
        else:
            data = value.encode() if isinstance(value, str) else value
            data = struct.pack(f"<{len(data)}d", *data) if isinstance(data, Packed) else bytes(data)
            parts += [_varint(number << 3 | 2), _varint(len(data)), data]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


class EventFile:
    """A file of events in a folder, which is made. Where the disk refuses, it warns once and takes no more."""

    def __init__(self, folder: Path, suffix: str, max_queue: int, flush_secs: float, purge_step: int | None) -> None:
        self._most, self._patience = max_queue, flush_secs
        self._waiting, self._flushed = 0, time.monotonic()
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_serial)}{suffix}"
        self._file: Any = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / name).open("wb")
        except OSError as error:
            self._give_up(error)
        self._add(fields((1, now), (2, purge_step), (3, "brain.Event:2")))
        if purge_step is not None:  # readers drop what an earlier run wrote from this step on
            self._add(fields((1, now), (2, purge_step), (7, fields((1, 1)))))
        self.flush()

    def add(self, values: Iterable[bytes], step: int | None, walltime: float | None) -> None:
        """An event of encoded summary values."""
        summary = fields(*((1, value) for value in values))
        self._add(fields((1, time.time() if walltime is None else float(walltime)), (2, step), (5, summary)))

    def _add(self, event: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(record(event))
        except OSError as error:
            self._give_up(error)
        self._waiting += 1
        if self._waiting >= self._most or time.monotonic() - self._flushed > self._patience:
            self.flush()

    def flush(self) -> None:
        """Write what waits to the disk."""
        if self._file is None:
            return
        try:
            self._file.flush()
        except OSError as error:
            self._give_up(error)
        self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.flush()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _give_up(self, error: OSError) -> None:
        self._file = None
        warnings.warn(
            f"[SummaryWriter] nothing more is written: {error.filename or 'the file'}: {error.strerror}. "
            "Hint: another log_dir, or room on the disk.",
            SummaryWarning,
            stacklevel=2,
        )
