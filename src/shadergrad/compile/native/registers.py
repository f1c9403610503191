"""The use of a processor's registers: the lanes of a vector, and the tile of sums that a matrix multiplication accumulates in registers."""

from __future__ import annotations

from dataclasses import dataclass

LANES = 16  # elements of a vector: one register of 64 bytes, two of 32, or four of 16


@dataclass(frozen=True)
class Tile:
    """The sums that a matrix multiplication accumulates in registers: `tall` rows by `wide` vectors.

    lanes: the elements of a vector. library: whether BLAS computes large products; else kernels compute all of them.
    """

    tall: int
    wide: int
    lanes: int = LANES
    library: bool = True


LARGE = Tile(8, 2)  # for 32 registers of 64 bytes
SMALL = Tile(6, 1)  # for 16 registers of 32 bytes, or 32 of 16
WASM = Tile(4, 1, lanes=8, library=False)  # for 16 registers of 16 bytes, as WebAssembly has on x86-64
