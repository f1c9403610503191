"""Bits to words and back: bit j of word k of a row is column 64 k + j, and bits past the width are 0.

A board (H, W, C) is packed as planes (C, H, words). On a little-endian machine the same memory is rows of 32-bit words
with column 32 k + j at bit j of word k, the layout that the WGSL kernel reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import CircuitError

WORD = 64


def words_for(bits: int) -> int:
    """The number of words for this number of bits."""
    return -(-bits // WORD)


def as_bits(values: Any, what: str) -> np.ndarray:
    """An array of bool from bool, or from integers that are 0 or 1."""
    array = np.asarray(values)
    if array.dtype == bool:
        return array
    if array.dtype.kind not in "iu":
        raise CircuitError(f"[{what}] bits have dtype {array.dtype}; bool, or integers 0 and 1, are needed.")
    if array.size and (array.min() < 0 or array.max() > 1):
        raise CircuitError(f"[{what}] bits hold values from {array.min()} to {array.max()}; only 0 and 1 are bits.")
    return array.astype(bool)


def pack_last(bits: np.ndarray) -> np.ndarray:
    """Bool (..., n) to uint64 (..., words_for(n))."""
    packed = np.packbits(bits, axis=-1, bitorder="little")
    whole = np.zeros((*bits.shape[:-1], words_for(bits.shape[-1]) * 8), np.uint8)
    whole[..., : packed.shape[-1]] = packed
    return whole.view("<u8").astype(np.uint64, copy=False)


def unpack_last(words: np.ndarray, count: int) -> np.ndarray:
    """uint64 (..., words) to its first `count` bits as bool (..., count)."""
    octets = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=count, bitorder="little").view(bool)


def pack_board(state: np.ndarray) -> np.ndarray:
    """Bool (H, W, C) to uint64 (C, H, words)."""
    return pack_last(np.moveaxis(state, -1, 0))


def unpack_board(words: np.ndarray, width: int) -> np.ndarray:
    """uint64 (C, H, words) to bool (H, W, C)."""
    return np.ascontiguousarray(np.moveaxis(unpack_last(words, width), 0, -1))
