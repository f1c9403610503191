"""Calls of NumPy's BLAS from machine code. In: sizes and strides of matrices. Out: a function, and words that describe the multiplication.

OpenBLAS's own threads spin for a tenth of a second after a multiplication, on the cores that kernels need in the meantime. So BLAS is limited to one
thread, and large multiplications are cut into blocks for the thread pool. The cuts depend on sizes alone, so results are bitwise equal for any
number of threads. threadpoolctl finds the library and sets its number of threads. Without threadpoolctl, or with a library unknown to it, NumPy multiplies
with BLAS's own threads.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile.native import library_product
from . import llvm

THREADED = 1 << 18  # scalar multiplications from which OpenBLAS uses threads
FEWEST_CUT = 1 << 22  # scalar multiplications from which a matrix is cut
A_BLOCK = 1 << 25  # scalar multiplications of a block, about
MOST_BLOCKS = 16
NARROWEST = 256  # rows, or columns, of more than two blocks: BLAS packs the whole other operand for each
STEP = 16  # blocks begin at multiples of it
A_STRETCH = 1 << 17  # scalar multiplications of a block of matrix times vector, which packs nothing
FEWEST = 1 << 18  # scalar multiplications of a chunk, at least
NAMES = ("scipy_cblas_{}64_", "cblas_{}64_", "scipy_cblas_{}", "cblas_{}")  # with 64-bit integers, then 32-bit
PREFIXES = {"float32": "s", "float64": "d"}

Cut = tuple[slice, slice]  # rows and columns of a block
Strides = tuple[int, int, int]  # in bytes


def is_threaded(m: int, n: int, k: int) -> bool:
    """Whether BLAS would multiply matrices of these sizes in several threads."""
    return m * n * k >= THREADED


class Called(NamedTuple):
    """A matrix multiplication as calls of BLAS (compile/native/library_product.py).

    words: the description. units: calls. least: the minimum of a chunk. is_swapped: the right operand is the first buffer.
    """

    function: llvm.Function
    words: np.ndarray
    units: int
    least: int
    is_swapped: bool


def product_of(dtype: str, left: tuple[int, int, int], n: int, a: Strides, b: Strides, out: Strides) -> Called | None:
    """The multiplication of matrices `left` (batch, m, k) by (batch, k, n) with these strides in bytes; None if there is no library, or BLAS does not
    accept the strides.
    """
    batch, m, k = left
    size = np.dtype(dtype).itemsize
    of_vector = m == 1 or n == 1
    function = _function(dtype, "gemv" if of_vector else "gemm")
    if function is None or not batch * m * n * k:
        return None
    lies = [_lies(*a[1:], m, k, size), _lies(*b[1:], k, n, size), _lies(*out[1:], m, n, size)]
    if any(found is None for found in lies) or lies[2][0]:  # type: ignore[index]
        return None
    (left_turned, left_leading), (right_turned, right_leading), (_, leading) = lies  # type: ignore[misc]
    if max(m, n, k, left_leading, right_leading, leading) >= 1 << 31:  # beyond the integers of some libraries
        return None
    found = cuts(batch, m, n, k)
    swapped = m == 1 and n != 1  # the result is the transposed right operand times a vector
    if of_vector:
        if swapped:
            is_turned, leading, matrix, along, vector, by, to = (
                not right_turned,
                right_leading,
                b,
                b[2],
                a,
                a[2],
                out[2],
            )
        else:
            is_turned, leading, matrix, along, vector, by, to = left_turned, left_leading, a, a[1], b, b[1], out[1]
        strides = (_step(by, k, size), _step(to, max(m, n), size))
        words = [function, _form(is_turned), 0, leading, *strides, 0, len(found), matrix[0], vector[0], out[0]]
        for part in (columns if swapped else rows for rows, columns in found):
            count = part.stop - part.start
            lines = (k, count) if is_turned else (count, k)  # by the matrix's memory order
            words += [*lines, part.start * along, 0, part.start * to]
    else:
        words = [function, _form(left_turned), _form(right_turned), left_leading, right_leading, leading, k, len(found)]
        words += [a[0], b[0], out[0]]
        for rows, columns in found:
            i, j = rows.start, columns.start
            words += [rows.stop - i, columns.stop - j, i * a[1], j * b[2], i * out[1] + j * out[2]]
    fewest = A_STRETCH if of_vector else FEWEST
    least = max(1, fewest * len(found) // (m * n * k))
    text = llvm.function(library_product.text_for(dtype, of_vector))
    return Called(text, np.array(words, np.int64), batch * len(found), least, swapped)


def _step(stride: int, count: int, size: int) -> int:
    """The stride of a vector in elements. A vector of one element may have any stride, also 0, which BLAS refuses."""
    return stride // size if count > 1 else 1


def _form(is_turned: bool) -> int:
    return library_product.TRANSPOSED if is_turned else library_product.NOT_TRANSPOSED


def _lies(rows_apart: int, columns_apart: int, rows: int, columns: int, size: int) -> tuple[bool, int] | None:
    """Whether a matrix is transposed for BLAS, and its leading dimension; None if BLAS does not accept its strides."""
    for is_turned, inner, outer, along, across in (
        (False, columns_apart, rows_apart, columns, rows),
        (True, rows_apart, columns_apart, rows, columns),
    ):
        if inner != size and along > 1:
            continue
        leading = along if across == 1 else outer // size
        if leading >= along and (across == 1 or not outer % size):
            return is_turned, leading
    return None


@cache
def cuts(batch: int, m: int, n: int, k: int) -> list[Cut]:
    """How each matrix of the result is cut: along its longer side, or not at all if the batch gives enough blocks."""
    total, longer = batch * m * n * k, max(m, n)
    if m == 1 or n == 1:
        count = min(MOST_BLOCKS, total // A_STRETCH, longer // STEP)
    elif total < FEWEST_CUT:
        count = 1
    else:
        count = min(MOST_BLOCKS, max(2, min(total // A_BLOCK, longer // NARROWEST)))
    count = -(-count // batch)
    if count < 2:
        return [(slice(0, m), slice(0, n))]
    step = -(-longer // (count * STEP)) * STEP
    parts = [slice(at, min(at + step, longer)) for at in range(0, longer, step)]
    return [(part, slice(0, n)) for part in parts] if m >= n else [(slice(0, m), part) for part in parts]


@cache
def _function(dtype: str, form: str) -> int | None:
    """The address of a library's function, "gemm" or "gemv", for a dtype."""
    prefix = PREFIXES.get(dtype)
    if prefix is None or not llvm.installed():
        return None
    for library in sorted(_libraries(), key=lambda found: "numpy" not in found.filepath):
        with suppress(OSError):
            loaded = ctypes.CDLL(library.filepath)
            for name in NAMES:
                with suppress(AttributeError):
                    return ctypes.cast(getattr(loaded, name.format(prefix + form)), ctypes.c_void_p).value
    return None


@contextmanager
def alone() -> Iterator[None]:
    """Limits BLAS to one thread, if its threads can be set. Use it for several products: setting them takes as long as a small product."""
    _users.enter()
    try:
        yield
    finally:
        _users.leave()


class _Users:
    """Counts the users of single-threaded BLAS, in all threads: the first one limits its threads, the last one restores their number."""

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
if hasattr(os, "register_at_fork"):  # in a child the users' threads do not exist
    os.register_at_fork(after_in_child=lambda: globals().update(_users=_Users()))


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process, NumPy's among them; none if their threads cannot be set."""
    try:
        found = importlib.import_module("threadpoolctl").ThreadpoolController().lib_controllers
    except ImportError:
        return []
    return [library for library in found if library.user_api == "blas"]
