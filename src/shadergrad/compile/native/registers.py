"""What a processor's registers hold: how many elements a kernel computes at once, and which sums of products it keeps in them."""

from __future__ import annotations

from dataclasses import dataclass

LANES = 16  # elements of a vector: one register of 64 bytes, two of 32, or four of 16


@dataclass(frozen=True)
class Tile:
    """The sums of products that stay in registers: of tall rows and wide vectors.

    lanes: elements that are computed at once. library: whether large products are left to BLAS; else kernels compute all of them.
    """

    tall: int
    wide: int
    lanes: int = LANES
    library: bool = True


LARGE = Tile(8, 2)  # of 32 registers of 64 bytes
SMALL = Tile(6, 1)  # of 16 registers of 32 bytes, or 32 of 16
WASM = Tile(4, 1, lanes=8, library=False)  # of 16 registers of 16 bytes, as WebAssembly runs on x86-64
