"""Products of matrices on the cpu device, as machine code computes them. In: arrays of matrices. Out: their products.

Most products of float32 are computed by own kernels (compile/native/panel_product.py), others by BLAS, and by NumPy where neither serves. Which
one depends on sizes and strides alone, and so do a result's bits: they are the same in a native kernel, in a single operation, and
for any number of threads.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from ..compile.native import panel_product
from . import blas, llvm
from .threads import pool

FEWEST = 1 << 18  # multiplications that a thread takes
DESCRIPTIONS = 1024  # of products that come again


class Product(NamedTuple):
    """A product of arrays of certain sizes and strides as machine code reads it.

    words: the description. units: what threads share out; least: those that are worth a thread. is_swapped: the right operand comes first.
    needs_library: BLAS multiplies, and would use threads of its own.
    """

    function: llvm.Function
    words: np.ndarray
    units: int
    least: int
    is_swapped: bool = False
    needs_library: bool = False

    def table(self, a: int, b: int, out: int) -> tuple[int, int, int, int]:
        """The buffers of the function, of addresses."""
        return *((b, a) if self.is_swapped else (a, b)), out, self.words.ctypes.data


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """out = a @ b, of matrices (batch, m, k) and (batch, k, n) of floats."""
    product = product_of(a, b, out)
    if product is None:
        return np.matmul(a, b, out=out)
    table = np.array(product.table(a.ctypes.data, b.ctypes.data, out.ctypes.data), np.uint64)
    with blas.alone() if product.needs_library else nullcontext():
        pool.run(product.function, table.ctypes.data, product.units, product.least)
    return out


def product_of(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Product | None:
    """The product of arrays that lie in memory like these; None where NumPy multiplies."""
    if not (a.dtype == b.dtype == out.dtype) or a.shape[0] != out.shape[0] or out.shape[1:] != (a.shape[1], b.shape[2]):
        return None
    return _described(a.dtype.name, a.shape, b.shape[2], a.strides, b.strides, out.strides)


@lru_cache(DESCRIPTIONS)
def _described(
    dtype: str, left: tuple[int, int, int], n: int, a: blas.Strides, b: blas.Strides, out: blas.Strides
) -> Product | None:
    own = _by_panels(left, n, a, b, out) if dtype == "float32" and llvm.installed() else None
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
    is_turned = right[1] != 1
    if is_turned and right[0] != 1:
        return None
    is_packed = panel_product.packs(m, left_row, left_column)
    panel = panel_product.panel_for(m, n, k, is_packed, llvm.code().tile)
    if panel is None:
        return None
    panels, stretches = -(-n // panel.width), panel_product.stretches_of(k)
    words = [m, n, k, left_row, left_column, right[1 if is_turned else 0], is_turned, out[1] // size]
    words += [left_batch, right_batch, out[0] // size, panels, stretches, is_packed]
    least = max(1, FEWEST // (m * k * panel.width))
    return Product(_panels(panel), np.array(words, np.int64), batch * panels, least)


@cache
def _panels(panel: panel_product.Panel) -> llvm.Function:
    return llvm.function(panel_product.text_for(panel))
