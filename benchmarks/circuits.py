"""The Game of Life as a circuit of gates: gate evaluations a second on one core, by NumPy and by compiled C.

    OMP_NUM_THREADS=1 python benchmarks/circuits.py
    OMP_NUM_THREADS=1 python benchmarks/circuits.py --circuit cell.json --size 1024

The automaton is simplified first, and its gates are counted then: gates x cells x steps / seconds. A round is half a
second of steps; the median over the rounds and the slowest and fastest are printed. Seconds are of this process on its
core, so that other work on the machine counts little. The neighbours' shifts are included.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from shadergrad.logic.circuit import Board, CellCircuit, NativeBoard, load

LIFE = Path(__file__).parent.parent / "tests" / "data" / "life_cell.json"
SIZES = [64, 256, 1024, 4096, 16384]


def steps_a_second(board: Board, seconds: float = 0.5) -> float:
    start, steps = time.process_time(), 0
    while True:
        board.step()
        steps += 1
        if (spent := time.process_time() - start) > seconds:
            return steps / spent


def measure(board: Board, gates: int, rounds: int) -> str:
    height, width = board.shape
    rates = [steps_a_second(board) for _ in range(rounds + 1)][1:]  # the first is a warm-up
    middle, low, high = (f(rates) * height * width for f in (statistics.median, min, max))
    return f"{gates * middle:9.2e} ({gates * low:.2e} to {gates * high:.2e}) gates/s  {middle:9.2e} cells/s"


def main(
    circuit: Annotated[Path, typer.Option(help="a cell's circuit as JSON")] = LIFE,
    size: Annotated[list[int] | None, typer.Option(help="side of the board, in cells")] = None,
    rounds: int = 5,
) -> None:
    cell = load(circuit)
    if not isinstance(cell, CellCircuit):
        raise typer.BadParameter(f"{circuit} holds a circuit and no cell")
    cell = cell.simplified()
    gates = len(cell.circuit)
    typer.echo(f"{gates} gates, {cell.channels} channels, border {cell.border}")
    for side in size or SIZES:
        start = np.random.default_rng(0).random((side, side, cell.channels)) < 0.4
        for name, kind in (("NumPy", cell.runner), ("C", lambda h, w: NativeBoard(cell, h, w))):
            board = kind(side, side)
            board.load(start)
            typer.echo(f"{side:6} x {side:<6} {name:6} {measure(board, gates, rounds)}")


if __name__ == "__main__":
    typer.run(main)
