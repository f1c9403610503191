"""A study of how often and when an experiment converges: one training per seed, one after the other.

In: an experiment and a range of seeds. Out: study.json, study.png, a table; and for each seed a folder with its checkpoint
and metrics.jsonl. A study that was stopped goes on: seeds that are done stay, the one under way is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shadergrad.logic import LogicCA, Remedies
from shadergrad.logic.circuit import count_gates
from shadergrad.logic.convergence_study import Outcome, read, summary, write
from shadergrad.logic.evaluation import published, zero_from
from shadergrad.logic.experiments import EXPERIMENTS
from shadergrad.train import Settings, Trainable, TrainingError
from shadergrad.train.settings import command_options
from shadergrad.train.training_run import Run, begin, make_folder

from ...checkpoint import TENSORS_FILE
from ...cpython import collect_cycles
from .automaton import REMEDIES, trainable
from .plots import convergence_plot

FILE, PICTURE = "study.json", "study.png"


@dataclass(frozen=True)
class StudySettings:
    """The user's options, checked. Raises TrainingError that names the option."""

    name: str
    seeds: int
    first_seed: int
    steps: int
    batch_size: int
    out: Path
    device: str = "auto"
    remedies: Remedies = field(default_factory=Remedies)

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise TrainingError(f"--seeds is {self.seeds}; it must be at least 1.")
        if self.first_seed < 0:
            raise TrainingError(f"--first-seed is {self.first_seed}; it must not be negative.")
        self.of_seed(self.first_seed + self.seeds - 1)  # checks the rest

    def of_seed(self, seed: int, resume: bool = False) -> Settings:
        """The settings of one training."""
        return Settings(
            steps=self.steps,
            batch_size=self.batch_size,
            seed=seed,
            out=self.out / f"seed-{seed}",
            device=self.device,
            resume=resume,
            **self.remedies.chosen,
        )

    def shared(self) -> dict[str, Any]:
        """The settings that all seeds of a study share."""
        return {"experiment": self.name, "steps": self.steps, "batch_size": self.batch_size} | self.remedies.chosen

    def options(self) -> str:
        """The command-line options for these settings."""
        names = ("seeds", "first_seed", "steps", "batch_size", "device", "out")
        return command_options({name: getattr(self, name) for name in names} | self.remedies.chosen)


def study_experiment(
    command: str,
    console: Console,
    *,
    experiment: str,
    seeds: int,
    first_seed: int,
    device: str,
    steps: int | None,
    batch_size: int | None,
    out: Path | None,
    **remedies: Any,
) -> bool:
    """Study an experiment by name, with its own steps and batch unless others are given, and remedies by name; see `study`."""
    if experiment not in EXPERIMENTS:
        raise TrainingError(f"there is no experiment {experiment!r}; choose of {', '.join(EXPERIMENTS)}.")
    e = EXPERIMENTS[experiment]
    settings = StudySettings(
        experiment,
        seeds,
        first_seed,
        e.steps if steps is None else steps,
        e.batch if batch_size is None else batch_size,
        Path(f"runs/study-{experiment}") if out is None else out,
        device,
        Remedies(**remedies),
    )
    return study(settings, console, f"{command} {experiment}")


def study(settings: StudySettings, console: Console, command: str) -> bool:
    """Train the remaining seeds and show the outcomes. Returns whether all are done (Ctrl-C: False)."""
    off = {option.name: None for option in REMEDIES}
    outcomes = read(settings.out / FILE, off | settings.shared())
    make_folder(settings.out)
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    missing = [seed for seed in seeds if seed not in {o.seed for o in outcomes}]
    for seed in missing:
        console.out(f"\nseed {seed}, {seeds.index(seed) + 1} of {len(seeds)}", highlight=False)
        outcome = _train_seed(settings, seed, console)
        if outcome is None:
            words = f"{command} {settings.options()}"
            console.out(f"stopped in seed {seed}. To go on: {words}", highlight=False)
            return False
        outcomes = sorted([*outcomes, outcome], key=lambda o: o.seed)
        write(settings.out / FILE, settings.shared(), outcomes)
        collect_cycles()  # a training holds itself in circles; its memory on the device goes before the next one takes its own
    _show(settings, [o for o in outcomes if o.seed in seeds], console)
    return True


def _train_seed(settings: StudySettings, seed: int, console: Console) -> Outcome | None:
    """The outcome of one seed; None if the user stopped it."""
    known = (settings.of_seed(seed).out / TENSORS_FILE).exists()

    def build(own: Settings, device: str) -> Trainable:
        return trainable(settings.name, own, device)

    run = begin(settings.name, build, settings.of_seed(seed, resume=known), console)
    return _outcome(run) if run.train(console) else None


def _outcome(run: Run) -> Outcome:
    model = run.trainable.model
    assert isinstance(model, LogicCA)
    position = run.position
    soft, hard = position.losses[-1].tolist()
    return Outcome(
        run.settings.seed,
        run.done,
        zero_from(position.losses[:, 1]),
        soft,
        hard,
        model.active_gates(),
        count_gates(model.harden().circuit).minimized,
        round(position.seconds, 3),
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
    complaint = convergence_plot(when, len(outcomes), settings.steps, settings.out / PICTURE, settings.name)
    if complaint:
        console.out(complaint, highlight=False)
    console.out(f"in {settings.out}: {FILE}" + ("" if complaint else f", {PICTURE}"), highlight=False)
