"""Twenty programs as people write them for PyTorch, uncompiled: the milliseconds of a training step under `shadergrad run` and under PyTorch.

    python benchmarks/uncompiled_programs.py --results benchmarks/results              # two cores
    python benchmarks/uncompiled_programs.py --threads 1 --only vae,gcn
    python benchmarks/uncompiled_programs.py --device webgpu                           # beside PyTorch on CUDA
    python benchmarks/uncompiled_programs.py --threads 1 --processor                   # while others use the machine, too

Both libraries run the same file of examples/ in a process of its own, and take turns. Prints the ratio of each program and their quartiles.
On a shared machine PyTorch's threads wait for each other, spinning, so there only the processor time of one thread says something.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from statistics import median, quantiles
from typing import Annotated

import typer

from record import ROOT, Folder, Measured, keep

PROGRAMS = [
    "binary_network",
    "char_gpt",
    "cnn",
    "dcgan",
    "diffusion",
    "gat",
    "gcn",
    "image_field",
    "lstm_lm",
    "maml",
    "resnet",
    "seq2seq",
    "siamese",
    "simclr",
    "siren",
    "time_series",
    "transformer_lm",
    "vae",
    "vit",
    "wgan_gp",
]
WARM = (1, 1, 3, 4)  # steps before the measurement
SECONDS = 0.4  # of a turn of PyTorch's, about
PEER = "PyTorch eager"


class Child:
    """A process that trains a program."""

    def __init__(self, name: str, ours: bool, device: str, threads: int, processor: bool) -> None:
        self._column = 1 if processor else 0
        theirs = "cuda" if device != "cpu" else "cpu"
        hook = ["-m", "shadergrad", "run", "--device", device] if ours else []
        command = [sys.executable, *hook, str(ROOT / "benchmarks" / "one_program.py"), name, theirs, str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, steps: int) -> float:
        """Of so many steps. Raises RuntimeError where the program has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            print(steps, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            with suppress(ValueError, IndexError):  # lines of the program's own
                return float(line.split()[self._column])
        raise RuntimeError("ended")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()  # closes the pipes


def compare(name: str, device: str, threads: int, rounds: int, processor: bool) -> tuple[float, float]:
    """Milliseconds of a step of ours and of PyTorch's, or of processors for it: medians of turns."""
    children = [Child(name, ours, device, threads, processor) for ours in (True, False)]
    try:
        latest = [0.0, SECONDS]
        for steps in WARM:
            latest = [child.seconds(steps) / steps for child in children]
        steps = max(1, round(SECONDS / latest[1]))
        turns = [[1e3 * child.seconds(steps) / steps for child in children] for _ in range(rounds)]
    finally:
        for child in children:
            child.end()
    ours, theirs = (median(column) for column in zip(*turns, strict=True))
    return ours, theirs


def main(
    device: str = "cpu",
    threads: Annotated[int, typer.Option(help="of each library, on cpu")] = 2,
    rounds: int = 5,
    processor: Annotated[bool, typer.Option("--processor", help="time of processors, not of clocks")] = False,
    only: Annotated[str, typer.Option(help=f"some of {', '.join(PROGRAMS)}")] = ",".join(PROGRAMS),
    results: Folder = None,
) -> None:
    """Measure the programs, one after another."""
    found: list[Measured] = []
    ratios: list[float] = []
    for name in only.split(","):
        try:
            ours, theirs = compare(name, device, threads, rounds, processor)
        except RuntimeError as error:
            typer.echo(f"{name:16} {error}")
            continue
        ratios.append(ours / theirs)
        typer.echo(f"{name:16} {ours:9.3f} ms  {PEER} {theirs:9.3f} ms  {ours / theirs:6.2f} times its time")
        how = f"median of {rounds} turns, {threads} threads"
        quantity = "processor time" if processor else "time"
        found.append(Measured(f"{name}, {threads} threads", quantity, ours, "ms", {PEER: theirs}, how))
    if len(ratios) > 1:
        low, middle, high = quantiles(ratios, n=4)
        typer.echo(f"{len(ratios)} programs: {middle:.2f} times PyTorch's time (quartiles {low:.2f} and {high:.2f})")
    keep(results, "uncompiled_programs", device, found)


if __name__ == "__main__":
    typer.run(main)
