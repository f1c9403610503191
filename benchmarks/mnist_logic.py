"""MNIST by logic gates, as a user trains it: accuracy of the circuit, of the mixtures, and the seconds of the whole command.

    python benchmarks/mnist_logic.py mnist-logic --device webgpu --data FOLDER --seconds 80 --results benchmarks/results
    python benchmarks/mnist_logic.py mnist-logic-conv --device webgpu --data FOLDER --seconds 400 -- --channels 64
    python benchmarks/mnist_logic.py mnist-logic --device cpu --data FOLDER --epochs 8 --seeds 3 -- --width 2000 --layers 4

Each seed is one `shadergrad train RECIPE` in a process of its own: its seconds include the start of Python, compilation, the evaluation of every
epoch, and the circuit's file. FOLDER/mnist holds the four files. With `--seconds` a run of two epochs goes first, is not reported, and says how many
epochs fit. What follows `--` are options of the recipe. The hard accuracy is that of the hardened circuit on the 10,000 test images.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from record import Folder, Measured, keep

PROBE = 2  # epochs that say how long one takes
HARD, SOFT, SECONDS = "hard accuracy", "soft accuracy", "time"


@dataclass(frozen=True)
class Outcome:
    """One training. hard and soft: accuracies of the last epoch. seconds: of the command. each: of an epoch behind the first."""

    hard: float
    soft: float
    seconds: float
    each: float


def train(recipe: str, device: str, data: Path, epochs: int, seed: int, options: Sequence[str]) -> Outcome:
    """Run the command to its end. Raises CalledProcessError with its message on the terminal."""
    with tempfile.TemporaryDirectory() as folder:
        command = f"train {recipe} --device {device} --epochs {epochs} --seed {seed}".split()
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "shadergrad", *command, "--data", str(data), "--out", folder, *options],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - begin
        lines = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "test_accuracy" in row]
    first, last = rows[0], rows[-1]
    each = (last["seconds"] - first["seconds"]) / max(1, len(rows) - 1)
    return Outcome(last["test_accuracy"], last["soft_accuracy"], seconds, each)


def epochs_within(seconds: float, probe: Outcome) -> int:
    """The epochs whose command takes at most `seconds`, by the probe's; at least one."""
    begin = probe.seconds - PROBE * probe.each
    return max(1, int((seconds - begin) / max(probe.each, 1e-6)))


def measured(case: str, outcomes: Sequence[Outcome], seeds: Sequence[int]) -> list[Measured]:
    """Means over seeds, with each seed's figure."""

    def words(figures: list[float], form: str) -> str:
        return ", ".join(f"seed {seed}: {value:{form}}" for seed, value in zip(seeds, figures, strict=True))

    found = []
    for quantity, unit, form in ((HARD, "share", ".4f"), (SOFT, "share", ".4f"), (SECONDS, "s", ".1f")):
        figures = [getattr(o, quantity.split()[0] if quantity != SECONDS else "seconds") for o in outcomes]
        found.append(Measured(case, quantity, round(sum(figures) / len(figures), 4), unit, {}, words(figures, form)))
    return found


def main(
    recipe: Annotated[str, typer.Argument(help="mnist-logic or mnist-logic-conv")],
    options: Annotated[list[str] | None, typer.Argument(help="options of the recipe, behind --")] = None,
    device: str = "webgpu",
    data: Annotated[Path, typer.Option(help="the folder that holds mnist/")] = Path("data"),
    epochs: Annotated[int, typer.Option(help="of each training")] = 100,
    seconds: Annotated[float | None, typer.Option(help="choose the epochs that fit, instead")] = None,
    seeds: Annotated[int, typer.Option(help="how many, from 0 on")] = 1,
    results: Folder = None,
) -> None:
    """Train, and keep accuracies and seconds."""
    words = options or []
    if seconds is not None:
        probe = train(recipe, device, data, PROBE, 0, words)
        epochs = epochs_within(seconds, probe)
        print(f"{probe.each:.2f} s an epoch, so {epochs} epochs in {seconds:.0f} s", flush=True)
    case = ", ".join([recipe, *(" ".join(words).removeprefix("--").split(" --") if words else []), f"{epochs} epochs"])
    outcomes = []
    for seed in range(seeds):
        outcomes.append(train(recipe, device, data, epochs, seed, words))
        one = outcomes[-1]
        gap = 100 * (one.soft - one.hard)
        print(
            f"{case}, seed {seed}: {100 * one.hard:.2f} % by the circuit, {100 * one.soft:.2f} % by the mixtures ({gap:+.2f} points), "
            f"{one.seconds:.1f} s",
            flush=True,
        )
        keep(results, "mnist_logic", device, measured(case, outcomes, range(seed + 1)))


if __name__ == "__main__":
    typer.run(main)
