"""Reading device memory: copies to mappable staging buffers that are made once and kept.

In: a buffer and a size. Out: bytes in a host array. A small read is one copy, one submission and one wait. A large one
goes in chunks through two staging buffers, so that copying to the host overlaps with copying on the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..plan import round_up

CHUNK = 16 << 20
SMALLEST = 64 << 10


class _Staging:
    """One mappable buffer, and the status word its mapping reports to."""

    def __init__(self, status: Any) -> None:
        self.raw: Any = None
        self.capacity = 0
        self.status = status


class Readback:
    def __init__(self, native: Any, module: Any) -> None:
        self._native = native
        self._module = module
        self._ring = self._new_ring()
        self._spoilt: list[Any] = []

    def read(self, wanted: Sequence[tuple[Any, np.ndarray]]) -> None:
        """Fill arrays (bytes, not empty) from the starts of buffers; waits for the work that writes them."""
        try:
            self._read(wanted)
        except BaseException:
            self._spoilt += self._raws()  # a staging buffer may be left half mapped
            self._ring = self._new_ring()
            raise

    def abandon(self) -> list[Any]:
        """After the device's loss: the raw staging buffers, to be released. This object is of no use any more."""
        return self._spoilt + self._raws()

    def _raws(self) -> list[Any]:
        return [staging.raw for staging in self._ring if staging.raw is not None]

    def _new_ring(self) -> deque[_Staging]:
        return deque(_Staging(self._module.new_status()) for _ in range(2))

    def _read(self, wanted: Sequence[tuple[Any, np.ndarray]]) -> None:
        pending: deque[tuple[_Staging, int, np.ndarray]] = deque()
        for raw, out in wanted:
            for start in range(0, out.nbytes, CHUNK):
                if len(pending) == len(self._ring):
                    self._finish(*pending.popleft())
                if pending:
                    self._ring.rotate(1)  # a small read alone always takes the same staging buffer
                pending.append(self._start(raw, start, out[start : start + CHUNK]))
        while pending:
            self._finish(*pending.popleft())

    def _start(self, raw: Any, start: int, into: np.ndarray) -> tuple[_Staging, int, np.ndarray]:
        nbytes = round_up(into.nbytes, 4)
        staging = self._ring[0]
        self._grow(staging, nbytes)
        index = self._native.copy(raw, start, staging.raw, nbytes)
        self._native.map_read(staging.raw, nbytes, staging.status)
        return staging, index, into

    def _finish(self, staging: _Staging, index: int, into: np.ndarray) -> None:
        self._native.wait(index)
        self._native.read_mapped(staging.raw, into, staging.status)

    def _grow(self, staging: _Staging, nbytes: int) -> None:
        if staging.capacity >= nbytes:
            return
        if staging.raw is not None:
            raw, staging.raw, staging.capacity = staging.raw, None, 0
            self._native.destroy_buffer(raw)
        capacity = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        staging.raw = self._native.create_buffer(capacity, self._module.STAGING_USAGE)
        staging.capacity = capacity
