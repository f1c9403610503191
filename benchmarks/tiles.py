"""Tiles and parts of contractions beside each other, for shapes that decide: what compile/tiles.py is fitted to.

    python benchmarks/tiles.py                     # all shapes
    python benchmarks/tiles.py "3x3/1 forward"     # those whose name contains it

Each candidate's result is checked against that of the tile that the compiler would choose.
"""

from __future__ import annotations

import importlib
import itertools
from typing import Annotated, Any

import numpy as np
import typer

import products
import shadergrad as sg
from shadergrad.compile.tiles import Tile
from shadergrad.run import execute

LARGE = [(128, 128, 8, 8), (64, 128, 8, 8), (128, 64, 8, 8), (64, 64, 8, 4)]
LOW = [(64, 128, 8, 8), (64, 256, 8, 8), (64, 64, 8, 4), (64, 64, 8, 8), (32, 128, 8, 8), (64, 128, 4, 8)]
SMALL = [(64, 64, 8, 4), (64, 32, 4, 4), (32, 64, 4, 4), (32, 32, 4, 4)]
THIN = [(4, 256, 4, 4), (4, 512, 4, 8), (4, 128, 4, 4), (4, 512, 4, 4)]
Candidates = tuple[list[tuple[int, int, int, int]], list[int], list[int]]  # bm bn tm tn; bk; parts
CASES: dict[str, Candidates] = {
    "conv 128x64x32x32 to 64, 3x3/1 forward": (LOW, [9, 18], [1]),
    "conv 128x64x32x32 to 64, 3x3/1 input gradient": (LOW[:3], [9, 18], [1]),
    "conv 128x64x32x32 to 64, 3x3/1 weight gradient": (LOW[:4], [8, 16, 32], [32, 64]),
    "conv 128x128x16x16 to 128, 3x3/1 forward": (LARGE, [9, 18], [1, 2]),
    "conv 128x128x16x16 to 128, 3x3/1 weight gradient": (LARGE, [8, 16], [7, 8, 14, 16, 32]),
    "conv 128x256x8x8 to 256, 3x3/1 forward": (LARGE, [9, 18], [1, 2, 4]),
    "conv 128x256x8x8 to 256, 3x3/1 weight gradient": (LARGE, [8, 16], [2, 4, 8]),
    "conv 128x512x4x4 to 512, 3x3/1 forward": (LARGE, [9, 18], [2, 4, 8]),
    "conv 128x512x4x4 to 512, 3x3/1 weight gradient": (LARGE, [8, 16], [1, 2, 4]),
    "conv 128x3x32x32 to 64, 3x3/1 forward": (LOW[:4], [9, 27], [1]),
    "conv 128x3x32x32 to 64, 3x3/1 input gradient": (THIN, [9, 18], [1, 2]),
    "conv 128x1x28x28 to 32, 3x3/1 forward": ([(32, 128, 4, 8), (32, 128, 8, 8), (32, 256, 8, 8)], [9], [1]),
    "dot 1024x1024x1024": (LARGE, [8, 16, 32], [1, 2, 4]),
    "dot 4096x4096x4096": ([(128, 128, 8, 8), (128, 256, 8, 8), (128, 256, 8, 16)], [8, 16, 32], [1]),
    "dot 2048x768x3072": (LARGE, [16], [1, 2, 3, 4]),
    "dot 768x3072x2048": (LARGE, [16], [1, 2, 4]),
    "dot 256x512x784": (SMALL, [16, 28, 32], [1, 2, 4, 7]),
    "dot 4096x512x128": (LARGE, [8, 16, 32], [1]),
    "dot 128x128x9216": (SMALL, [16, 32], [9, 18, 36]),
}


def once(parts: int) -> Any:
    """A parts_of that cuts the first contraction that it is asked about, and not its parts."""
    whole: list[int] = []

    def parts_of(batch: int, m: int, n: int, k: int, *_: Any) -> int:
        whole.append(k)
        return parts if k == whole[0] and k % parts == 0 else 1

    return parts_of


def main(only: Annotated[str, typer.Argument()] = "", device: str = "webgpu", most: int = 6) -> None:
    """The fastest candidates of each case."""
    dot: Any = importlib.import_module("shadergrad.compile.wgsl.dot")
    lower: Any = importlib.import_module("shadergrad.compile.lower")
    choose, parts_of = dot.choose_tile, lower.parts_of
    for name, _, arrays, call, _ in (*products.convolutions(), *products.products()):
        case = next((case for key, case in CASES.items() if name.startswith(key)), None)
        if case is None or only not in name:
            continue
        given = [sg.tensor(a, device=device) for a in arrays]
        usual, expected, _ = products.ours(given, call, device)
        found = [(usual, "as chosen")]
        for (bm, bn, tm, tn), bk, parts in itertools.product(*case):
            tile = Tile(bm, bn, bk, tm, tn)
            dot.choose_tile = lambda *_, tile=tile: tile
            lower.parts_of = once(parts)
            execute.programs.clear()
            try:
                seconds, result, _ = products.ours(given, call, device)
            except Exception as error:  # a candidate may not compile
                print(f"{tile} {parts}: {type(error).__name__} {str(error)[:80]}")
                continue
            wrong = np.abs(result - expected).max() > 1e-3 * np.abs(expected).max()
            found.append((seconds, f"{bm}x{bn}x{bk} {tm}x{tn} parts {parts}" + " WRONG" * bool(wrong)))
        dot.choose_tile, lower.parts_of = choose, parts_of
        execute.programs.clear()
        print(
            f"{name}: "
            + ", ".join(f"{s * 1e6:.1f} {what}" for s, what in sorted(found)[:most])
            + f"; {found[0][0] * 1e6:.1f} as chosen",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
