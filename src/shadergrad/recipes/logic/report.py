"""The report of an automaton's training: report.md and a few lines for the console."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shadergrad.logic import evaluation
from shadergrad.logic.circuit import CellCircuit, Equivalence, GateCounts
from shadergrad.logic.evaluation import Finding
from shadergrad.logic.experiments import EXPERIMENTS, Training
from shadergrad.train import Position, Settings

from ...runtime.device import get_device


@dataclass(frozen=True)
class Automaton:
    """A trained automaton: the name of its experiment, and its device."""

    name: str
    training: Training
    settings: Settings
    position: Position
    device: str

    @property
    def losses(self) -> np.ndarray:
        """(steps, 2): the soft and the hard loss of every step, before its update."""
        return self.position.losses

    @property
    def done(self) -> int:
        """Optimizer steps."""
        return self.position.step

    @property
    def seconds(self) -> float:
        """Seconds of training."""
        return self.position.seconds

    @property
    def hardware(self) -> str:
        """The device of the training."""
        return get_device(self.device).describe()


@dataclass(frozen=True)
class Results:
    """The results of a training."""

    hardened: CellCircuit
    simplified: CellCircuit
    counts: GateCounts
    learned: tuple[int, int]  # gates that have logits (a kernel's serve all channels), and how many of them are active
    equivalence: Equivalence
    findings: list[Finding]
    zero_from: int | None


def summary(trained: Automaton, results: Results) -> Iterator[str]:
    """The outcome in a few lines."""
    soft, hard = trained.losses[-1].tolist()
    yield f"soft loss {soft:.4g}, hard loss {hard:g} in step {trained.done - 1}; {_zero(results.zero_from)}"
    counts = results.counts
    yield (
        f"gates: {results.learned[0]} learned, {results.learned[1]} of them active; in a cell {counts.all}, "
        f"{counts.reachable} reachable, {counts.minimized} simplified"
    )
    yield from map(str, results.findings)


def report(trained: Automaton, results: Results) -> Iterator[str]:
    """The lines of report.md."""
    name, out = trained.name, trained.settings.out
    yield from (f"# {name}", "", f"Trained {time.strftime('%Y-%m-%d')} on {trained.hardware}.", "")
    yield from _table(("setting", "value"), _settings(trained))
    yield from ("", "## Training", "")
    beside = _published_head(trained)
    yield from _table(("", "this run", beside), _training_rows(trained, results))
    if beside != "published" and published(name):
        yield from ("", f"Runs of different lengths or batches: what is {beside} is no measure of this run.")
    yield from _picture(out, "loss.png", "soft and hard loss")
    yield from ("", "## Circuit", "")
    yield from _table(("gates", "this run", beside), _gate_rows(name, results))
    yield from ("", f"Simplified against hardened: {_equal(results.equivalence)}.")
    yield from _picture(out, "gates.png", "gates by kind")
    yield from ("", "## Evaluation", "", "By the simplified circuit, on boards packed 64 cells a word.", "")
    rows = [(f.what, f"{f.wrong:g}", f"{f.cells}", _number(f.published)) for f in results.findings]
    yield from _table(("test", "wrong", "of", beside), rows)
    yield from _picture(out, "robustness.png", "wrong cells of a board that is damaged after each step")
    yield from _picture(out, "rollout.gif", "a rollout of the circuit")
    yield from ("", "## Files", "")
    yield "`hardened.json` has all gates, `circuit.json`, `.c`, `.v`, `.wgsl` and `.dot` those of the simplified cell."
    yield "`checkpoint.safetensors` holds the logits, the optimizer's state and the losses of all steps."
    yield from ("", f"Published: {evaluation.published()['source']}.")


def _settings(trained: Automaton) -> list[tuple[str, Any]]:
    e, settings = trained.training.settings, trained.settings
    grid = f"{e.grid[0]}x{e.grid[1]}, {e.border} border"
    firing = "all cells" if e.fire_rate is None else f"each cell with probability {e.fire_rate}"
    return [
        ("seed", settings.seed),
        ("optimizer steps", trained.done),
        ("batch", e.batch),
        ("learning rate", e.lr),
        ("steps of the automaton", f"{e.ca_steps}, {firing}"),
        ("grid", grid),
        ("channels", e.channels),
        ("perception", f"{e.kernels} kernels {'-'.join(map(str, e.perception))}"),
        ("update network", f"{e.n_features} inputs, {len(e.update)} layers, {sum(e.update)} gates"),
        *((name.replace("_", " "), value) for name, value in e.remedies.chosen.items()),
    ]


def _training_rows(trained: Automaton, results: Results) -> list[tuple[str, str, str]]:
    known = published(trained.name) or {}
    soft, hard = trained.losses[-1].tolist()
    ends = {key: _number(known[key][-1][1]) if known else "–" for key in ("soft", "hard")}
    return [
        ("soft loss, last step", f"{soft:.4g}", ends["soft"]),
        ("hard loss, last step", f"{hard:g}", ends["hard"]),
        ("hard loss stays 0 from step", _number(results.zero_from), _number(known.get("zero_from"))),
        ("seconds", f"{trained.seconds:.1f}", "–"),
        ("milliseconds a step, with compilation", f"{1000 * trained.seconds / trained.done:.3g}", "–"),
    ]


def _published_head(trained: Automaton) -> str:
    """The head of the column of published numbers. It names the length of the published run if that differs from this one's."""
    e = EXPERIMENTS[trained.name]
    if (trained.done, trained.settings.batch_size) == (e.steps, e.batch):
        return "published"
    return f"published, {e.steps:,} steps of batch {e.batch}"


def _gate_rows(name: str, results: Results) -> list[tuple[str, str, str]]:
    active = (published(name) or {}).get("active_gates")
    counts = results.counts
    return [
        ("learned (a kernel's serve all channels)", str(results.learned[0]), "–"),
        ("learned and active (neither A nor B)", str(results.learned[1]), _number(active)),
        ("in a cell", str(counts.all), "–"),
        ("in a cell and active", str(counts.active), "–"),
        ("reachable from the outputs", str(counts.reachable), "–"),
        ("reachable and active", str(counts.reachable_active), "–"),
        ("simplified", str(counts.minimized), "–"),
    ]


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(map(str, row))} |"


def _picture(out: Path, name: str, what: str) -> Iterator[str]:
    if (out / name).exists():
        yield from ("", f"![{what}]({name})")


def _zero(step: int | None) -> str:
    return "the hard loss does not stay 0" if step is None else f"the hard loss stays 0 from step {step}"


def _equal(found: Equivalence) -> str:
    which = f"all {found.checked:,}" if found.exhaustive else f"{found.checked:,} random"
    proof = "" if found.exhaustive else f"; {found}"
    return f"the same outputs for {which} assignments of the inputs{proof}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def published(name: str) -> dict[str, Any] | None:
    return evaluation.published()["experiments"].get(name)
