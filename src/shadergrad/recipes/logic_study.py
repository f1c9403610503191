"""How often and when an experiment converges: one training after the other, each with its own seed.

In: an experiment and a range of seeds. Out: study.json, study.png, a table; and for each seed a folder with its checkpoint
and metrics.jsonl. A study that was stopped goes on: seeds that are done stay, the one under way is resumed.
"""

from __future__ import annotations

import gc
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..checkpoint import TENSORS_FILE
from ..logic.circuit import count_gates
from ..logic.evaluation import published, zero_from
from ..logic.study import Outcome, read, summary, write
from ..plots import convergence_plot
from .logic_loop import Run, StepSettings, train
from .loop import make_folder
from .task import TrainingError

FILE, PICTURE = "study.json", "study.png"


@dataclass(frozen=True)
class StudySettings:
    """What the user chose, checked: raises TrainingError that names the option."""

    name: str
    seeds: int
    first_seed: int
    steps: int
    batch_size: int
    out: Path
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise TrainingError(f"--seeds is {self.seeds}; it must be at least 1.")
        if self.first_seed < 0:
            raise TrainingError(f"--first-seed is {self.first_seed}; it must not be negative.")
        self.of_seed(self.first_seed + self.seeds - 1)  # checks the rest

    def of_seed(self, seed: int, resume: bool = False) -> StepSettings:
        """The settings of one training."""
        folder = self.out / f"seed-{seed}"
        return StepSettings(self.name, self.steps, self.batch_size, seed, folder, self.device, resume)

    def shared(self) -> dict[str, Any]:
        """What all seeds of a study share."""
        return {"experiment": self.name, "steps": self.steps, "batch_size": self.batch_size}

    def options(self) -> str:
        """The command-line options that ask for these settings."""
        return (
            f"--seeds {self.seeds} --first-seed {self.first_seed} --steps {self.steps} --batch-size {self.batch_size} "
            f"--device {self.device} --out {shlex.quote(str(self.out))}"
        )


def study(settings: StudySettings, console: Console) -> bool:
    """Train what is left of the seeds and show the outcomes; returns whether all are done (Ctrl-C: False)."""
    outcomes = read(settings.out / FILE, settings.shared())
    make_folder(settings.out)
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    missing = [seed for seed in seeds if seed not in {o.seed for o in outcomes}]
    for seed in missing:
        console.out(f"\nseed {seed}, {seeds.index(seed) + 1} of {len(seeds)}", highlight=False)
        outcome = _train_seed(settings, seed, console)
        if outcome is None:
            command = f"shadergrad logic study {settings.name} {settings.options()}"
            console.out(f"stopped by Ctrl-C in seed {seed}. To go on: {command}", highlight=False)
            return False
        outcomes = sorted([*outcomes, outcome], key=lambda o: o.seed)
        write(settings.out / FILE, settings.shared(), outcomes)
        gc.collect()  # a training holds itself in circles; its memory on the device goes before the next one takes its own
    _show(settings, [o for o in outcomes if o.seed in seeds], console)
    return True


def _train_seed(settings: StudySettings, seed: int, console: Console) -> Outcome | None:
    """The outcome of one seed; None if the user stopped it."""
    own = settings.of_seed(seed)
    run, finished = train(settings.of_seed(seed, resume=(own.out / TENSORS_FILE).exists()), console)
    return _outcome(run) if finished else None


def _outcome(run: Run) -> Outcome:
    model = run.training.model
    counts = count_gates(model.harden().circuit)
    soft, hard = run.losses[-1].tolist()
    return Outcome(
        run.settings.seed,
        run.done,
        zero_from(run.losses[:, 1]),
        soft,
        hard,
        model.active_gates(),
        counts.minimized,
        round(run.seconds, 3),
    )


def _show(settings: StudySettings, outcomes: list[Outcome], console: Console) -> None:
    table = Table("seed", "hard loss 0 from", "soft, at the end", "hard", "active gates", "simplified", "seconds")
    for o in outcomes:
        when = "never" if o.zero_from is None else str(o.zero_from)
        rest = (f"{o.soft:.4g}", f"{o.hard:g}", str(o.active_gates), str(o.minimized_gates), f"{o.seconds:.1f}")
        table.add_row(str(o.seed), when, *rest)
    console.print(table)
    found = summary(outcomes)
    line = f"{found.converged} of {found.seeds} seeds converged in {settings.steps} steps"
    if found.converged:
        line += f", the first at {found.earliest}, half of them by {found.median:g}, the last at {found.latest}"
    known = published()["experiments"].get(settings.name)
    console.out(line + (f"; published: {known['zero_from']}" if known else ""), highlight=False)
    when = [o.zero_from for o in outcomes if o.zero_from is not None]
    complaint = convergence_plot(when, len(outcomes), settings.steps, settings.out / PICTURE)
    if complaint:
        console.out(complaint, highlight=False)
    console.out(f"in {settings.out}: {FILE}" + ("" if complaint else f", {PICTURE}"), highlight=False)
