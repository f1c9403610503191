"""Reads device memory, by copies to mappable staging buffers that are created once and reused.

In: a buffer and a size. Out: bytes in a host array. A small read is one copy, one submission and one wait. A large one
goes in chunks through a ring of staging buffers, so that copies on the host overlap with copies on the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..plan import round_up
from .interface import STAGING_USAGE, Device, Stretch
from .staging import CHUNK, Ring, Staging, copy_bytes


class Reading:
    """A read of a range that is in flight."""

    def __init__(self, readback: Readback, ring: Ring) -> None:
        self._readback, self.ring, self.staging = readback, ring, ring.current()

    def is_ready(self) -> bool:
        """Whether `finish` would not wait."""
        return self._readback.is_ready(self.staging)

    def finish(self, into: np.ndarray) -> None:
        self._readback.finish(self, into)


class Readback:
    def __init__(self, native: Device) -> None:
        self._native = native
        self._ring = Ring(native, STAGING_USAGE)
        self._spoilt: list[Any] = []
        self._lent: list[Ring] = []  # of `begin`, each of one buffer

    def read(self, wanted: Sequence[tuple[Any, np.ndarray]]) -> None:
        """Fill arrays (bytes, not empty) from the starts of buffers; waits for the work that writes them."""
        try:
            self._read(wanted)
        except BaseException:
            self._spoilt += self._ring.raws()  # a staging buffer may be left half mapped
            self._ring = Ring(self._native, STAGING_USAGE)
            raise

    def begin(self, raw: Any, sizes: Sequence[int]) -> list[Reading]:
        """Start reading ranges of that many bytes from the start of a buffer, after the work submitted so far."""
        readings: list[Reading] = []
        stretches: list[Stretch] = []
        start = 0
        for nbytes in sizes:
            ring = self._lent.pop() if self._lent else Ring(self._native, STAGING_USAGE)
            ring.grow(ring.current(), round_up(nbytes, 4))
            readings.append(Reading(self, ring))
            stretches.append((raw, start, ring.current().raw, 0, round_up(nbytes, 4)))
            start += nbytes
        submission = self._native.copy_all(stretches)
        for reading, stretch in zip(readings, stretches, strict=True):
            reading.staging.submission = submission
            self._native.map(reading.staging.raw, stretch[-1], reading.staging.status)
        return readings

    def finish(self, reading: Reading, into: np.ndarray) -> None:
        """Wait for a started read, and fill an array with the bytes."""
        self._finish(reading.staging, into)
        self._lent.append(reading.ring)

    def is_ready(self, staging: Staging) -> bool:
        return self._native.is_mapped(staging.status)

    def abandon(self) -> list[Any]:
        """After the device's loss: returns the raw staging buffers, to be released. The object must not be used afterwards."""
        return self._spoilt + self._ring.raws() + [raw for ring in self._lent for raw in ring.raws()]

    def _read(self, wanted: Sequence[tuple[Any, np.ndarray]]) -> None:
        pending: deque[tuple[Staging, np.ndarray]] = deque()
        for raw, out in wanted:
            for start in range(0, out.nbytes, CHUNK):
                if len(pending) == len(self._ring):
                    self._finish(*pending.popleft())
                if pending:
                    self._ring.turn()  # a small read alone always takes the same staging buffer
                pending.append(self._start(raw, start, out[start : start + CHUNK]))
        while pending:
            self._finish(*pending.popleft())

    def _start(self, raw: Any, start: int, into: np.ndarray) -> tuple[Staging, np.ndarray]:
        nbytes = round_up(into.nbytes, 4)
        staging = self._ring.current()
        self._ring.grow(staging, nbytes)
        staging.submission = self._native.copy(raw, start, staging.raw, nbytes)
        self._native.map(staging.raw, nbytes, staging.status)
        return staging, into

    def _finish(self, staging: Staging, into: np.ndarray) -> None:
        self._native.wait(staging.submission)
        mapped = self._native.mapped(staging.raw, round_up(into.nbytes, 4), staging.status)
        copy_bytes(into, mapped[: into.nbytes])
        self._native.unmap(staging.raw)
