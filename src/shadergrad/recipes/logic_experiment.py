"""The five experiments with automata of gates: train, harden, evaluate, report. In: settings. Out: a folder of files.

Beside the loop's checkpoint and metrics.jsonl: report.md, evaluation.json, the circuit in every form, and, where
matplotlib and pillow are installed, loss.png, gates.png, robustness.png and rollout.gif.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ..logic import evaluation
from ..logic.circuit import CellCircuit, Equivalence, GateCounts, count_gates, equivalent, histogram
from ..logic.evaluation import Finding
from ..logic.experiments import EXPERIMENTS
from ..plots import animation, gate_plot, loss_plot, robustness_plot
from .logic_circuits import write_cell
from .logic_loop import Run, StepSettings, train
from .task import TrainingError

SIZES = evaluation.ARTICLE
CHECKED_PATCHES = 1 << 20  # of the simplified against the hardened circuit, where not all can be


@dataclass(frozen=True)
class Results:
    """What became of a training."""

    hardened: CellCircuit
    simplified: CellCircuit
    counts: GateCounts
    learned: tuple[int, int]  # gates that have logits (a kernel's serve all channels), and how many of them are active
    equivalence: Equivalence
    findings: list[Finding]
    zero_from: int | None


def run(settings: StepSettings, console: Console) -> bool:
    """Train, and evaluate what came out; returns whether the training came to its end (Ctrl-C: False)."""
    training, finished = train(settings, console)
    as_published = settings.batch_size == EXPERIMENTS[settings.name].batch  # losses are sums over the batch
    beside = _published(settings.name) if as_published else None
    complaints = [loss_plot(training.losses, settings.out / "loss.png", beside)]
    if finished:
        console.out("hardening and evaluating ...", highlight=False)
        results = evaluate(training)
        complaints += write(training, results)
        for line in summary(training, results):
            console.out(line, highlight=False)
    missing = list(filter(None, complaints))
    if missing:  # one for all: the extra is the same
        console.out(f"without pictures: {missing[0]}", highlight=False)
    console.out(
        f"in {settings.out}: {', '.join(sorted(path.name for path in settings.out.iterdir()))}", highlight=False
    )
    if not finished:
        command = f"shadergrad train {settings.name} --resume {settings.options()}"
        console.out(f"stopped by Ctrl-C after step {training.done}. To go on: {command}", highlight=False)
    return finished


def evaluate(training: Run) -> Results:
    """Harden, minimize, check that both are equal, and measure. Raises TrainingError if they are not."""
    hardened = training.training.model.harden()
    simplified = hardened.minimized()
    same = equivalent(hardened.circuit, simplified.circuit, patches=CHECKED_PATCHES)
    if not same:
        raise TrainingError(
            f"the simplified circuit is not the hardened one: they differ for {same.counterexample}. "
            "This is a bug of shadergrad; the checkpoint is safe."
        )
    return Results(
        hardened,
        simplified,
        count_gates(hardened.circuit),
        (training.training.model.n_gates, training.training.model.active_gates()),
        same,
        evaluation.evaluate(training.settings.name, simplified, SIZES),
        evaluation.zero_from(training.losses[:, 1]),
    )


def write(training: Run, results: Results) -> list[str | None]:
    """All files of a finished run; returns why pictures are missing, if they are."""
    name, out = training.settings.name, training.settings.out
    write_cell(out, results.hardened, results.simplified, name.replace("-", "_"), *EXPERIMENTS[name].grid)
    complaints = [
        gate_plot(histogram(results.hardened.circuit), histogram(results.simplified.circuit), out / "gates.png"),
        animation(evaluation.rollout(name, results.simplified), out / "rollout.gif"),
        *(
            robustness_plot(f.series, out / "robustness.png", f.cells, f.published)
            for f in results.findings
            if f.series
        ),
    ]
    document = {
        "experiment": name,
        "zero_from": results.zero_from,
        "losses": dict(zip(("soft", "hard"), training.losses[-1].tolist(), strict=True)),
        "gates": {"learned": results.learned[0], "learned_active": results.learned[1], **asdict(results.counts)},
        "findings": [{k: v for k, v in asdict(f).items() if k != "series"} for f in results.findings],
    }
    (out / "evaluation.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    (out / "report.md").write_text("\n".join(report(training, results)) + "\n", encoding="utf-8")
    return complaints


# -- words


def summary(training: Run, results: Results) -> Iterator[str]:
    """The outcome in a few lines."""
    soft, hard = training.losses[-1].tolist()
    yield f"soft loss {soft:.4g}, hard loss {hard:g} in step {training.done - 1}; {_zero(results.zero_from)}"
    counts = results.counts
    yield (
        f"gates: {results.learned[0]} learned, {results.learned[1]} of them active; in a cell {counts.all}, "
        f"{counts.reachable} reachable, {counts.minimized} simplified"
    )
    yield from map(str, results.findings)


def report(training: Run, results: Results) -> Iterator[str]:
    """The lines of report.md."""
    name, out = training.settings.name, training.settings.out
    yield from (f"# {name}", "", f"Trained {time.strftime('%Y-%m-%d')} on {training.hardware}.", "")
    yield from _table(("setting", "value"), _settings(training))
    yield from ("", "## Training", "")
    yield from _table(("", "this run", "published"), _training_rows(training, results))
    yield from _picture(out, "loss.png", "soft and hard loss")
    yield from ("", "## Circuit", "")
    yield from _table(("gates", "this run", "published"), _gate_rows(name, results))
    yield from ("", f"Simplified against hardened: {_equal(results.equivalence)}.")
    yield from _picture(out, "gates.png", "gates by kind")
    yield from ("", "## Evaluation", "", "By the simplified circuit, on boards packed 64 cells a word.", "")
    rows = [(f.what, f"{f.wrong:g}", f"{f.cells}", _number(f.published)) for f in results.findings]
    yield from _table(("test", "wrong", "of", "published"), rows)
    yield from _picture(out, "robustness.png", "wrong cells of a board that is damaged after each step")
    yield from _picture(out, "rollout.gif", "a rollout of the circuit")
    yield from ("", "## Files", "")
    yield "`hardened.json` has all gates, `circuit.json`, `.c`, `.v`, `.wgsl` and `.dot` those of the simplified cell."
    yield "`checkpoint.safetensors` holds the logits, the optimizer's state and the losses of all steps."
    yield from ("", f"Published: {evaluation.published()['source']}.")


def _settings(training: Run) -> list[tuple[str, Any]]:
    e, settings = training.training.settings, training.settings
    grid = f"{e.grid[0]}x{e.grid[1]}, {e.border} border"
    firing = "all cells" if e.fire_rate is None else f"each cell with probability {e.fire_rate}"
    return [
        ("seed", settings.seed),
        ("optimizer steps", training.done),
        ("batch", e.batch),
        ("learning rate", e.lr),
        ("steps of the automaton", f"{e.ca_steps}, {firing}"),
        ("grid", grid),
        ("channels", e.channels),
        ("perception", f"{e.kernels} kernels {'-'.join(map(str, e.perception))}"),
        ("update network", f"{e.n_features} inputs, {len(e.update)} layers, {sum(e.update)} gates"),
    ]


def _training_rows(training: Run, results: Results) -> list[tuple[str, str, str]]:
    known = _published(training.settings.name) or {}
    soft, hard = training.losses[-1].tolist()
    ends = {key: _number(known[key][-1][1]) if known else "–" for key in ("soft", "hard")}
    return [
        ("soft loss, last step", f"{soft:.4g}", ends["soft"]),
        ("hard loss, last step", f"{hard:g}", ends["hard"]),
        ("hard loss stays 0 from step", _number(results.zero_from), _number(known.get("zero_from"))),
        ("seconds", f"{training.seconds:.1f}", "–"),
        ("milliseconds a step, with compilation", f"{1000 * training.seconds / training.done:.3g}", "–"),
    ]


def _gate_rows(name: str, results: Results) -> list[tuple[str, str, str]]:
    active = (_published(name) or {}).get("active_gates")
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
    return f"the same outputs for {which} assignments of the inputs"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _published(name: str) -> dict[str, Any] | None:
    return evaluation.published()["experiments"].get(name)
