"""Matrix multiplications on the cpu device. In: arrays of matrices. Out: their products.

Most multiplications of float32 are own kernels (compile/native/panel_product.py), others are calls of BLAS, or of NumPy if neither can be used. The
choice depends on sizes and strides alone. So the result's bits are the same in a compiled program, in a single operation, and for any number
of threads.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from ..compile.native import panel_product
from ..cpython import address_of
from . import blas, llvm
from .threads import pool

FEWEST = 1 << 18  # scalar multiplications of a chunk, at least
DESCRIPTIONS = 1024  # cached descriptions of multiplications


class Product(NamedTuple):
    """A matrix multiplication for certain sizes and strides, as machine code reads it.

    words: the description. units: of the kernel, which threads share; least: the minimum of a chunk. is_swapped: the right operand is the
    first buffer. needs_library: BLAS multiplies, and would start its own threads.
    """

    function: llvm.Function
    words: np.ndarray
    units: int
    least: int
    is_swapped: bool = False
    needs_library: bool = False
    panel: panel_product.Panel | None = None

    def table(self, a: int, b: int, out: int) -> tuple[int, int, int, int]:
        """The function's table of buffers, for the addresses of the operands and the result."""
        return *((b, a) if self.is_swapped else (a, b)), out, address_of(self.words)


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """out = a @ b, of matrices (batch, m, k) and (batch, k, n) of floats."""
    product = product_of(a, b, out)
    if product is None:
        threaded = a.ndim == b.ndim == 3 and blas.is_threaded(a.shape[1], b.shape[2], a.shape[2])
        # one thread, as in a program that limits BLAS's threads for its other operations: the bits depend on their number
        with blas.alone() if threaded else nullcontext():
            return np.matmul(a, b, out=out)
    table = np.array(product.table(*map(address_of, (a, b, out))), np.uint64)
    with blas.alone() if product.needs_library else nullcontext():
        pool.run(product.function, address_of(table), product.units, product.least)
    return out


def product_of(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Product | None:
    """The multiplication for arrays with these sizes and strides; None if NumPy multiplies."""
    if not (a.dtype == b.dtype == out.dtype) or a.shape[0] != out.shape[0] or out.shape[1:] != (a.shape[1], b.shape[2]):
        return None
    return _described(a.dtype.name, a.shape, b.shape[2], a.strides, b.strides, out.strides)


@lru_cache(DESCRIPTIONS)
def _described(
    dtype: str, left: tuple[int, int, int], n: int, a: blas.Strides, b: blas.Strides, out: blas.Strides
) -> Product | None:
    own = _by_panels(left, n, a, b, out) if dtype == "float32" and llvm.installed() and llvm.code().has_fma else None
    if own is not None:
        return own
    called = blas.product_of(dtype, left, n, a, b, out)
    if called is None:
        return None
    return Product(*called, needs_library=blas.is_threaded(left[1], n, left[2]))


def _by_panels(
    left: tuple[int, int, int], n: int, a: blas.Strides, b: blas.Strides, out: blas.Strides
) -> Product | None:
    batch, m, k = left
    size = np.dtype(np.float32).itemsize
    if not batch or any(s % size for s in (*a, *b, *out)) or min(*a, *b) < 0 or out[2] != size:
        return None
    (left_batch, left_row, left_column), (right_batch, *right) = ([s // size for s in strides] for strides in (a, b))
    if 1 not in right:
        return None
    is_turned = right[1] != 1
    is_packed = panel_product.packs(m, left_row, left_column)
    panel = panel_product.panel_for(m, n, k, is_packed, llvm.code().tile)
    if panel is None:
        return None
    panels, stretches = -(-n // panel.width), panel_product.stretches_of(k)
    ranges, rows = panel_product.ranges_of(m, batch * panels, is_packed, panel)
    words = [m, n, k, left_row, left_column, right[1 if is_turned else 0], is_turned, out[1] // size]
    words += [left_batch, right_batch, out[0] // size, panels, stretches, is_packed, ranges, rows]
    least = max(1, FEWEST * ranges // (m * k * panel.width))
    return Product(_panels(panel), np.array(words, np.int64), batch * panels * ranges, least, panel=panel)


@cache
def _panels(panel: panel_product.Panel) -> llvm.Function:
    return llvm.function(panel_product.text_for(panel))
