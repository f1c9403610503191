"""Staging buffers: host memory that a GPU reads or writes, allocated once and reused.

A large transfer goes in chunks through a ring of them, so that copies on the host, which several threads share, overlap with
copies on the device. The ring bounds the memory: LARGEST bytes in each direction, and nothing if there was no transfer.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import cache
from typing import Any

import numpy as np

from ..plan import round_up
from ..system.browser import thread_pool
from .interface import UPLOAD_USAGE, Device, Stretch

CHUNK = 8 << 20  # bytes
RING = 4  # buffers
LARGEST = CHUNK * RING
SMALLEST = 64 << 10
MOST_THREADS = 8
LENT = 1 << 20  # bytes of the smallest array whose memory is reused
MOST_LEFT = 128 << 20
PART = 2 * CHUNK  # bytes that are read and exchanged at a time
MOST_BEGUN = 1 << 30  # bytes of reads in flight: the gradients of a whole model, which each step reads
SHARE = 1 << 20  # bytes that a thread copies at least, because waking it takes time


class Staging:
    """One mappable buffer, and the status word to which its mapping reports.

    submission: the last one that uses it. asked: bytes whose mapping was requested, 0 if none. held: whether it has bytes that are
    not submitted yet.
    """

    def __init__(self, status: Any) -> None:
        self.raw: Any = None
        self.capacity = 0
        self.status = status
        self.submission = 0
        self.asked = 0
        self.held = False


class Ring:
    """Staging buffers of one usage, taken in turns."""

    def __init__(self, native: Device, usage: int) -> None:
        self._native = native
        self._usage = usage
        self._buffers = deque(Staging(native.new_status()) for _ in range(RING))

    def __len__(self) -> int:
        return len(self._buffers)

    def raws(self) -> list[Any]:
        """The raw buffers that there are."""
        return [staging.raw for staging in self._buffers if staging.raw is not None]

    def current(self) -> Staging:
        return self._buffers[0]

    def turn(self) -> None:
        """Advance to the next buffer, the least recently used one."""
        self._buffers.rotate(-1)

    def add(self) -> Staging:
        """Add a buffer, which becomes the next."""
        self._buffers.appendleft(Staging(self._native.new_status()))
        return self._buffers[0]

    def grow(self, staging: Staging, nbytes: int) -> None:
        """Ensure that the buffers hold that many bytes."""
        if staging.capacity >= nbytes:
            return
        if staging.raw is not None:
            raw, staging.raw, staging.capacity, staging.asked = staging.raw, None, 0, 0
            self._native.destroy_buffer(raw)
        capacity = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        staging.raw = self._native.create_buffer(capacity, self._usage)
        staging.capacity = capacity


class Uploads:
    """Large writes to device memory, in the order of submissions; the values are those at the time of the call."""

    def __init__(self, native: Device) -> None:
        self._native = native
        self._ring = Ring(native, UPLOAD_USAGE)
        self._spoilt: list[Any] = []
        self._begun: list[tuple[Staging, Stretch, Any]] = []

    def begin(self, buffer: Any, to: int, data: np.ndarray, owner: Any) -> None:
        """Copy `data`, as in `write`, for byte `to` of a buffer, which gets it with `submit`. Does not wait for the device, up to
        MOST_BEGUN bytes in flight. owner: of the buffer, kept alive until then, so that after an error no other
        tensor gets the bytes.
        """
        view = data.reshape(-1).view(np.uint8)
        try:
            for start in range(0, view.nbytes, CHUNK):
                chunk = view[start : start + CHUNK]
                staging = self._ring.current()
                if staging.held or (staging.asked and not self._native.is_mapped(staging.status)):
                    if len(self._ring) * CHUNK < MOST_BEGUN:
                        staging = self._ring.add()
                    elif staging.held:
                        self.submit()
                self._fill(staging, chunk)
                staging.held = True
                self._begun.append((staging, (staging.raw, 0, buffer, to + start, chunk.nbytes), owner))
                self._ring.turn()
        except BaseException:
            self._spoil()
            raise

    def submit(self) -> None:
        """Submit the copies."""
        begun, self._begun = self._begun, []
        if not begun:
            return
        submission = self._native.copy_all([stretch for _, stretch, _ in begun])
        for staging, *_ in begun:
            staging.submission, staging.held = submission, False
            self._ask(staging)

    def write(self, buffer: Any, data: np.ndarray) -> None:
        """Contiguous `data`, its size a multiple of 4 bytes, to the start of a buffer."""
        self.submit()
        view = data.reshape(-1).view(np.uint8)
        try:
            for start in range(0, view.nbytes, CHUNK):
                self._send(buffer, start, view[start : start + CHUNK])
        except BaseException:
            self._spoil()
            raise

    def abandon(self) -> list[Any]:
        """After the device's loss: returns the raw staging buffers, to be released. The object must not be used afterwards."""
        return self._spoilt + self._ring.raws()

    def _spoil(self) -> None:
        """Use a new ring, because a buffer may be left half mapped."""
        self._spoilt += self._ring.raws()
        self._ring, self._begun = Ring(self._native, UPLOAD_USAGE), []

    def _send(self, buffer: Any, start: int, chunk: np.ndarray) -> None:
        staging = self._ring.current()
        self._fill(staging, chunk)
        staging.submission = self._native.copy(staging.raw, 0, buffer, chunk.nbytes, start)
        self._ask(staging)  # mapped again when the device has read it
        self._ring.turn()

    def _fill(self, staging: Staging, chunk: np.ndarray) -> None:
        native = self._native
        self._ring.grow(staging, chunk.nbytes)
        if not staging.asked:
            self._ask(staging)
        if staging.submission:
            native.wait(staging.submission)
        copy_bytes(native.mapped(staging.raw, chunk.nbytes, staging.status, write=True), chunk)
        native.unmap(staging.raw)
        staging.asked = staging.submission = 0

    def _ask(self, staging: Staging) -> None:
        staging.asked = staging.capacity
        self._native.map(staging.raw, staging.capacity, staging.status, write=True)


class HostMemory:
    """Memory for large arrays that are returned to users. Freed memory is reused, because new pages cost more than
    copying into them; at most `most` bytes are kept for reuse.
    """

    def __init__(self, most: int = MOST_LEFT) -> None:
        self._most = most
        self._left: list[np.ndarray] = []  # the latest last
        self._lock = threading.RLock()  # an array may end anywhere, in this class too

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array with arbitrary contents, as np.empty."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        if not LENT <= nbytes <= self._most:
            return np.empty(shape, dtype)
        with self._lock:
            place = next((k for k, block in enumerate(self._left) if block.nbytes == nbytes), None)
            block = np.empty(nbytes, np.uint8) if place is None else self._left.pop(place)
        lent: Any = (ctypes.c_char * nbytes).from_buffer(block.data)  # lives as long as the array or a view of it
        weakref.finalize(lent, self._take_back, block).atexit = False
        return np.frombuffer(lent, dtype).reshape(shape)

    def _take_back(self, block: np.ndarray) -> None:
        with self._lock:
            self._left.append(block)
            while sum(left.nbytes for left in self._left) > self._most:
                self._left.pop(0)


def copy_bytes(into: np.ndarray, source: np.ndarray) -> None:
    """Copy bytes on the host, with several threads: one core does not saturate the memory, least of all with new pages."""
    threads = min(MOST_THREADS, _cores(), source.nbytes // SHARE)
    if threads < 2:
        into[:] = source
        return
    step = round_up(-(-source.nbytes // threads), 4096)
    parts: Iterable[int] = range(step, source.nbytes, step)
    under_way = [_copiers().submit(np.copyto, into[k : k + step], source[k : k + step]) for k in parts]
    into[:step] = source[:step]
    for copy in under_way:
        copy.result()


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _copiers() -> Executor:
    return thread_pool(MOST_THREADS - 1, "copy")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_copiers.cache_clear)  # the threads exist in the parent alone
