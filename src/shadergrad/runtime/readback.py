"""Reading device memory: copies to mappable staging buffers that are made once and kept.

In: a buffer and a size. Out: bytes in a host array. A small read is one copy, one submission and one wait. A large one
goes in chunks through a ring of staging buffers, so that copying to the host overlaps with copying on the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..plan import round_up
from .interface import STAGING_USAGE, Device
from .staging import CHUNK, Ring, Staging, copy_bytes


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

    def begin(self, raw: Any, nbytes: int) -> Callable[[np.ndarray], None]:
        """Begin to read a buffer, behind the work submitted so far. Gives what waits, and fills an array with the bytes."""
        ring = self._lent.pop() if self._lent else Ring(self._native, STAGING_USAGE)
        staging = ring.current()
        ring.grow(staging, round_up(nbytes, 4))
        staging.submission = self._native.copy(raw, 0, staging.raw, round_up(nbytes, 4))
        self._native.map(staging.raw, round_up(nbytes, 4), staging.status)

        def finish(into: np.ndarray) -> None:
            self._finish(staging, into)
            self._lent.append(ring)

        return finish

    def abandon(self) -> list[Any]:
        """After the device's loss: the raw staging buffers, to be released. This object is of no use any more."""
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
