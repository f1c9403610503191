"""Tiles and parts of contractions beside each other, for shapes that decide: what compile/tiles.py is fitted to.

    python benchmarks/tiles.py                     # all shapes
    python benchmarks/tiles.py "3x3/1 forward"     # those whose name contains it

A candidate reads bm x bn x bk / tm x tn : parts. All are compiled first and then measured in turns, for a GPU that waits for
a compiler lowers its clock. Each candidate's result is checked against that of the tile that the compiler chooses.
"""

from __future__ import annotations

import importlib
import math
import re
import statistics
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

import products
import shadergrad as sg
from device_time import commands_of, seconds
from record import Folder, Measured, keep
from shadergrad.compile.choices import SHORTEST_STEP, Tile
from shadergrad.drive import execute

ROUNDS = 3
CASES = {
    "conv 128x64x32x32 to 64, 3x3/1 forward": "64x128x18/8x8:1 64x256x18/8x16:1 64x256x9/8x16:1 64x64x18/8x8:1",
    "conv 128x64x32x32 to 64, 3x3/1 weight gradient": "64x64x16/8x4:128 64x128x16/8x8:64 64x128x16/8x8:128 64x64x8/8x8:128 "
    "64x192x16/8x8:64",
    "conv 128x128x16x16 to 128, 3x3/1 forward": "128x128x18/8x8:1 128x256x18/8x16:1 128x256x9/8x16:1 64x256x18/8x16:1",
    "conv 128x128x16x16 to 128, 3x3/1 weight gradient": "64x64x16/8x4:32 128x64x16/8x8:32 64x128x16/8x8:32 128x128x16/8x8:16 "
    "128x128x16/8x8:32 128x128x8/8x16:32 128x128x8/16x8:32",
    "conv 128x256x8x8 to 256, 3x3/1 weight gradient": "64x64x16/8x4:8 128x64x16/8x8:8 128x128x16/8x8:8 128x128x8/16x8:8",
    "conv 128x512x4x4 to 512, 3x3/1 weight gradient": "64x64x16/8x4:2 128x64x16/8x8:2 128x128x16/8x8:2 128x128x16/8x8:4",
    "conv 128x32x28x28 to 64, 3x3/1 input gradient": "32x128x18/8x8:1 32x256x18/8x8:1 32x256x18/8x16:1 32x64x36/4x4:1",
    "conv 128x32x28x28 to 64, 3x3/1 weight gradient": "64x64x16/8x4:64 64x64x16/8x4:128 64x128x16/8x8:112 64x96x16/8x8:112",
    "dot 1024x1024x1024": "128x64x16/8x8:1 128x128x16/8x8:2 128x128x16/8x8:4 64x64x16/8x4:1 64x128x16/8x8:1 64x128x16/8x8:2",
    "dot 2048x2048x2048": "128x128x16/8x8:1 128x256x16/8x16:1 128x256x16/8x16:2 128x256x8/8x16:2",
    "dot 4096x4096x4096": "128x128x16/8x8:1 128x256x16/8x16:1 128x256x8/8x16:1 256x128x8/16x8:1 128x128x8/16x8:1 128x128x32/8x8:1",
    "dot 2048x768x3072": "128x128x16/8x8:1 128x128x16/8x8:2 128x128x16/8x8:4 128x256x16/8x16:4 64x128x16/8x8:2",
    "dot 768x3072x2048": "128x128x16/8x8:1 128x128x16/8x8:2 128x128x16/8x8:4 128x256x16/8x16:4 64x128x16/8x8:2",
    "dot 256x512x784": "64x64x16/8x4:7 32x64x16/4x4:4 32x64x16/4x4:7 64x64x28/8x4:4 32x32x16/4x4:2 32x32x16/4x4:4",
    "dot 128x128x9216": "32x64x32/4x4:36 32x32x16/4x4:36 64x64x16/8x4:36 64x64x16/8x4:72 32x32x32/4x4:18",
}


def tile_of(text: str) -> tuple[Tile, int]:
    bm, bn, bk, tm, tn, parts, *more = map(int, re.findall(r"\d+", text))
    return Tile(bm, bn, bk, tm, tn, *more), parts


def cut(parts: int, bk: int) -> Callable[..., int]:
    """A chunk_of that cuts every contraction into so many parts, each of whole steps of bk."""

    def chunk_of(batch: int, m: int, n: int, k: int, window: int, *_: Any) -> int:
        unit = math.lcm(bk, window if window > 1 else SHORTEST_STEP)
        return -(-k // (parts * unit)) * unit

    return chunk_of


def compiled(given: list[Any], call: Callable[..., Any], device: str) -> tuple[Any, np.ndarray]:
    """The step and its result."""
    step = sg.compile(call)
    result = step(*given).numpy()
    step(*given)
    return step, result


def main(only: Annotated[str, typer.Argument()] = "", device: str = "webgpu", results: Folder = None) -> None:
    """All candidates of each case, the fastest first: microseconds."""
    tiles: Any = importlib.import_module("shadergrad.compile.tiles")
    lower: Any = importlib.import_module("shadergrad.compile.lower")
    choose, chunk_of = tiles.choose_tile, lower.chunk_of
    for name, _, arrays, call, _ in (*products.convolutions(), *products.products()):
        texts = next((case for key, case in CASES.items() if name.startswith(key)), None)
        if texts is None or only not in name:
            continue
        given = [sg.tensor(a, device=device) for a in arrays]
        execute.programs.clear()
        step, expected = compiled(given, call, device)
        steps = {"as chosen": step}
        for text in texts.split():
            tile, parts = tile_of(text)
            tiles.choose_tile, lower.chunk_of = lambda *_, tile=tile: tile, cut(parts, tile.bk)
            execute.programs.clear()
            steps[text], result = compiled(given, call, device)
            if np.abs(result - expected).max() > 1e-3 * np.abs(expected).max():
                steps[f"{text} WRONG"] = steps.pop(text)
        tiles.choose_tile, lower.chunk_of = choose, chunk_of
        commands = {text: commands_of(step, device)[1] for text, step in steps.items()}
        seconds(device, commands["as chosen"], 0.2)
        times = {text: [] for text in commands}
        for _ in range(ROUNDS):
            for text, found in commands.items():
                times[text].append(seconds(device, found, 0.006))
        medians = sorted((statistics.median(t) * 1e6, text) for text, t in times.items())
        print(f"{name}: " + ", ".join(f"{t:.1f} {text}" for t, text in medians), flush=True)
        others = {text: t for t, text in medians if text != "as chosen"}
        chosen = statistics.median(times["as chosen"]) * 1e6
        keep(results, "tiles", device, [Measured(name, "device time", chosen, "us", others)])


if __name__ == "__main__":
    typer.run(main)
