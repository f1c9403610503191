"""The Game of Life as a circuit of gates: gate evaluations a second by NumPy, by compiled C, and on a device.

    OMP_NUM_THREADS=1 python benchmarks/circuits.py
    OMP_NUM_THREADS=1 python benchmarks/circuits.py --circuit cell.json --size 1024
    python benchmarks/circuits.py --device webgpu --no-host --size 16384 --size 32768
    python benchmarks/circuits.py --device webgpu --no-host --lanes 4 --rows 16 --fire-rate 0.6

The automaton is minimized first, and its gates are counted then: gates x cells x steps / seconds. A round is half a
second of steps; the median over the rounds and the slowest and fastest are printed. NumPy and C have one core, and their
seconds are of this process on it, so that other work on the machine counts little. The neighbours' shifts are included.

A device is timed by the clock on the wall, from the first submission of a round until all work is done. Its bytes are the
bits of the channels that the circuit reads, once a step, those that it writes, and with a fire rate the drawn masks,
written and read: what must move if each step leaves the registers. They are compared with what a copy (uint32 x ^ 1, read
and written) of 128 MiB moves a second in the same run, or with --bandwidth. Small boards stay in caches: more than 100 %.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.logic.circuit import Board, CellCircuit, DeviceBoard, NativeBoard, load
from shadergrad.logic.circuit.gate_order import live_inputs
from shadergrad.logic.circuit.neighbourhood import neighbour
from shadergrad.runtime.device import get_device

LIFE = Path(__file__).parent.parent / "tests" / "data" / "life_cell.json"
SIZES = [64, 256, 1024, 4096, 16384]
COPIED = 1 << 25  # words
ROUND = 0.5  # seconds


def steps_a_second(board: Board, seconds: float = ROUND) -> float:
    start, steps = time.process_time(), 0
    while True:
        board.step()
        steps += 1
        if (spent := time.process_time() - start) > seconds:
            return steps / spent


def repetitions_a_second(run: Callable[[int], None], rounds: int, seconds: float) -> list[float]:
    """Of each round; run(n) submits n repetitions."""

    def spent(count: int) -> float:
        sg.sync()
        start = time.perf_counter()
        run(count)
        sg.sync()
        return time.perf_counter() - start

    count = 32
    spent(count)  # compiles
    while spent(count) < seconds / 4:
        count *= 2
    count = max(32, round(count * seconds / spent(count) / 32) * 32)
    spent(count)
    return [count / spent(count) for _ in range(rounds)]


def rates_text(rates: list[float], gates: int, cells: int) -> str:
    middle, low, high = (f(rates) * cells for f in (statistics.median, min, max))
    return f"{gates * middle:9.2e} ({gates * low:.2e} to {gates * high:.2e}) gates/s  {middle:9.2e} cells/s"


def bits_a_cell(cell: CellCircuit) -> int:
    """That a step reads and writes, for the masks too."""
    read = {neighbour(i, cell.channels)[2] for i in live_inputs(cell.circuit)}
    masked = cell.fire_rate < 1
    return (cell.channels if masked else len(read)) + cell.channels + 2 * masked


def copy_bandwidth(device: str) -> float:
    """Bytes a second, read and written."""
    flip = sg.compile(lambda x: x ^ 1)
    words = sg.tensor(np.zeros(COPIED, np.uint32), device=device)

    def run(count: int) -> None:
        nonlocal words
        for _ in range(count):
            words = flip(words)

    return statistics.median(repetitions_a_second(run, 5, ROUND / 2)) * 8 * COPIED


def measure_device(board: DeviceBoard, gates: int, rounds: int, bandwidth: float) -> tuple[str, float]:
    """What to print, and gates a second."""
    height, width = board.shape
    rates = repetitions_a_second(board.run, rounds, ROUND)
    moved = statistics.median(rates) * height * width * bits_a_cell(board.cell) / 8
    share = f"{100 * moved / bandwidth:.0f} % of {bandwidth:.2e}" if bandwidth else "no bandwidth measured"
    text = f"{rates_text(rates, gates, height * width)}  {moved:.2e} bytes/s ({share})"
    return text, statistics.median(rates) * gates * height * width


def random_words(board: Board | DeviceBoard) -> np.ndarray:
    """A board with each bit 1 or 0; bits past the width 0."""
    words = np.random.default_rng(0).integers(0, 1 << 64, board.words.shape, np.uint64)
    words[..., -1] &= np.uint64((1 << ((board.shape[1] - 1) % 64 + 1)) - 1)
    return words


def main(
    circuit: Annotated[Path, typer.Option(help="a cell's circuit as JSON")] = LIFE,
    size: Annotated[list[int] | None, typer.Option(help="side of the board, in cells")] = None,
    rounds: int = 5,
    host: Annotated[bool, typer.Option(help="measure NumPy and C")] = True,
    device: Annotated[str, typer.Option(help="a device to measure: webgpu")] = "",
    bandwidth: Annotated[float, typer.Option(help="the device's, in GB/s; 0 measures a copy")] = 0,
    fire_rate: Annotated[float, typer.Option(help="on the device: below 1 draws masks there")] = 1,
    lanes: Annotated[int | None, typer.Option(help="words of a row that a thread has: 1 or 4")] = None,
    rows: Annotated[int | None, typer.Option(help="rows that a thread has")] = None,
    results: Folder = None,
) -> None:
    cell = load(circuit)
    if not isinstance(cell, CellCircuit):
        raise typer.BadParameter(f"{circuit} holds a circuit and no cell")
    cell = cell.minimized()
    gates = len(cell.circuit)
    typer.echo(f"{gates} gates, {cell.channels} channels, border {cell.border}")
    if device:
        typer.echo(f"{get_device(device).describe()}, fire rate {fire_rate}")
        bandwidth = 1e9 * bandwidth or (copy_bandwidth(device) if device != "cpu" else 0)
    for side in size or SIZES:
        kinds = {"NumPy": cell.runner, "C": lambda h, w: NativeBoard(cell, h, w)} if host else {}
        for name, kind in kinds.items():
            board = kind(side, side)
            board.words = random_words(board)
            rates = [steps_a_second(board) for _ in range(rounds + 1)][1:]  # the first is a warm-up
            typer.echo(f"{side:6} x {side:<6} {name:6} {rates_text(rates, gates, side * side)}")
            rate = statistics.median(rates) * gates * side * side
            keep(
                results, "circuits", "cpu", [Measured(f"{gates} gates, {side}x{side}, {name}", "rate", rate, "gates/s")]
            )
        if device:
            on_device = DeviceBoard(replace(cell, fire_rate=fire_rate), side, side, device, lanes=lanes, rows=rows)
            on_device.words = random_words(on_device)
            name = f"{device} {on_device.blocking.lanes} x {on_device.blocking.rows}"
            text, rate = measure_device(on_device, gates, rounds, bandwidth)
            typer.echo(f"{side:6} x {side:<6} {name:6} {text}")
            drawn = f", fire rate {fire_rate:g}" if fire_rate < 1 else ""
            keep(
                results, "circuits", device, [Measured(f"{gates} gates, {side}x{side}{drawn}", "rate", rate, "gates/s")]
            )


if __name__ == "__main__":
    typer.run(main)
