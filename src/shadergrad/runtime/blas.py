"""Products by NumPy's BLAS, in blocks that the threads of native kernels share. In: arrays of matrices. Out: their products.

Threads of BLAS's own wait for the next product on the cores that kernels need meanwhile: OpenBLAS's spin for a tenth of a second. So BLAS has one
thread while it multiplies here, and large products are cut. Where depends on their sizes alone, so results have the same bits for any
number of threads. threadpoolctl tells BLAS; without it, and for BLAS libraries that it does not know, their own threads multiply.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from .threads import pool

THREADED = 1 << 18  # multiplications of a matrix from which on OpenBLAS uses threads
A_BLOCK = 1 << 23  # multiplications of a block, about
MOST_BLOCKS = 16
NARROWEST = 64  # rows, or columns, of a block: BLAS copies the whole other operand for each
STEP = 16  # of where blocks begin

Cut = tuple[slice, slice, slice]  # matrices, rows and columns of a block


def is_threaded(m: int, n: int, k: int) -> bool:
    """Whether BLAS would multiply matrices of these sizes in several threads."""
    return m * n * k >= THREADED


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """out = a @ b, of matrices (batch, m, k) and (batch, k, n) of floats."""
    batch, m, n = out.shape
    if not is_threaded(m, n, a.shape[2]) or not _libraries():
        return np.matmul(a, b, out=out)
    cuts = blocks(batch, m, n, a.shape[2])

    def some(_: int, begin: int, end: int) -> None:
        with np.errstate(all="ignore"):  # which each thread has of its own
            for each, rows, columns in cuts[begin:end]:
                np.matmul(a[each, rows], b[each, :, columns], out=out[each, rows, columns])

    with alone():
        if len(cuts) == 1:
            np.matmul(a, b, out=out)
        else:
            pool.run(some, 0, len(cuts), 1)
    return out


@cache
def blocks(batch: int, m: int, n: int, k: int) -> list[Cut]:
    """How a product is cut: along the batch where that suffices, else along the longer side of the result."""
    count, whole = min(MOST_BLOCKS, batch * m * n * k // A_BLOCK), slice(None)
    if count < 2:
        return [(whole, whole, whole)]
    if batch >= count:
        return [(part, whole, whole) for part in _cut(batch, -(-batch // count))]
    longer = max(m, n)
    parts = _cut(longer, max(NARROWEST, -(-longer // (count * STEP)) * STEP))
    return [(whole, part, whole) if m >= n else (whole, whole, part) for part in parts]


def _cut(size: int, step: int) -> list[slice]:
    return [slice(at, min(at + step, size)) for at in range(0, size, step)]


@contextmanager
def alone() -> Iterator[None]:
    """BLAS multiplies in one thread meanwhile, where it can be told: for several products, as telling it takes as long as a small one."""
    _users.enter()
    try:
        yield
    finally:
        _users.leave()


class _Users:
    """Who wants BLAS to have one thread: the first tells it, the last gives its threads back, whichever threads of a program these are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before: list[int] = []

    def enter(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._before = [library.get_num_threads() for library in _libraries()]
                for library in _libraries():
                    library.set_num_threads(1)

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                for library, count in zip(_libraries(), self._before, strict=True):
                    library.set_num_threads(count)


_users = _Users()


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process, NumPy's among them; none where their threads cannot be told."""
    try:
        found = importlib.import_module("threadpoolctl").ThreadpoolController().lib_controllers
    except ImportError:
        return []
    return [library for library in found if library.user_api == "blas"]
