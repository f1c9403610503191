"""Tiles of products within a training step: what each kernel takes by the device's clock, beside what the table has.

    python benchmarks/tiles_in_step.py mlm "4096x512x128=64x64x16/8x4; 4096x128x512=64x64x64/8x4/1/4"
    python benchmarks/tiles_in_step.py mlm "4096x128x384+384x128x4096=128x64x16/8x4+64x64x32/8x4/1/2:5"

A product that runs over and over has its operands in the cache, and nothing to wait for at its end; within a step they come
from memory, and the order of what is best is another. An argument is a variant: choices for products, or for two that share a
dispatch, as bm x bn x bk / tm x tn / stages / slices : parts. Several products can vary at once, each has its own line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

import shadergrad as sg
import step as steps
from record import Folder, Measured, keep
from shadergrad.compile.choices import Beside, Cut, Shape, Table, Tile
from shadergrad.compile.tiles import register, tables
from shadergrad.drive import execute
from shadergrad.runtime.device import get_device
from workloads import WORKLOADS

STEPS = 10  # that are profiled


def choices(variant: str) -> Iterator[tuple[Shape | Beside, Cut]]:
    """Entries of a table: "4096x512x128=64x64x16/8x4; …"."""
    for text in filter(None, variant.split(";")):
        products, _, tiles = text.partition("=")
        shapes = [Shape(1, *map(int, product.split("x"))) for product in products.strip().split("+")]
        found = [choice_of(tile) for tile in tiles.split("+")]
        for shape, other, choice in zip(shapes, shapes[::-1], found, strict=True):
            yield (shape if len(shapes) == 1 else Beside(shape, other)), choice


def choice_of(text: str) -> Cut:
    tile, _, parts = text.partition(":")
    return Cut(Tile(*map(int, re.findall(r"\d+", tile))), int(parts or 1))


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "mlm",
    variants: Annotated[list[str] | None, typer.Argument()] = None,
    device: str = "webgpu",
    small: bool = False,
    rounds: int = 5,
    results: Folder = None,
) -> None:
    """The step as it is, then each variant: milliseconds a step, and microseconds of the kernels that multiply."""
    gpu: Any = get_device(device)
    target = gpu.target
    known: Table = tables.get(target.measured, {})
    times: dict[str, float] = {}
    for variant in ["", *(variants or [])]:
        gpu.target = replace(target, measured=register({**known, **dict(choices(variant))}))
        execute.programs.clear()
        runner = steps.ours(WORKLOADS[task](small), device)
        (ms,) = steps.medians([runner], 2 if small else 60, rounds)
        times[variant] = ms
        with sg.profile(limits=False) as profiled:
            for _ in range(STEPS):
                runner.call()
            runner.wait()
        print(f"{ms:.4f} ms, {len(runner.compiled.plan.dispatches)} dispatches: {variant or 'as it is'}", flush=True)
        for kernel in profiled.kernels():
            if kernel.archetype == "dot":
                print(f"  {kernel.mean * 1e6:8.1f} us  {kernel.name} {kernel.shape}")
    gpu.target = target
    own = times.pop("")
    keep(results, "tiles_in_step", device, [Measured(f"{task}, small" if small else task, "time", own, "ms", times)])


if __name__ == "__main__":
    typer.run(main)
