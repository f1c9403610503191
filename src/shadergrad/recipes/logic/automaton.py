"""The five experiments with automata of gates as recipes: train, harden, evaluate, report.

Beside the run's checkpoint and metrics.jsonl: report.md, evaluation.json, the circuit in every form, and, where
matplotlib and pillow are installed, loss.png, gates.png, robustness.png and rollout.gif.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import repeat
from pathlib import Path

import shadergrad as sg
from shadergrad import Tensor
from shadergrad.logic import Remedies, evaluation
from shadergrad.logic.circuit import count_gates, equivalent, histogram
from shadergrad.logic.experiments import EXPERIMENTS, SEED, Training
from shadergrad.train import Option, Position, Recipe, Settings, Stream, Trainable, TrainingError
from shadergrad.train.prediction import Prediction

from .circuit_files import SIMPLIFIED, write_cell
from .draws import draws
from .page import automaton_page
from .plots import animation, gate_plot, loss_plot, robustness_plot
from .report import Automaton, Results, published, report, summary

SIZES = evaluation.ARTICLE
REMEDIES = (
    Option("gradient_noise", float, "Noise of a gradient, in multiples of its root mean square.", 0.0, may_change=True),
    Option("strength", float, "The logit with which gates pass an input on at first.", shown="10", may_change=True),
    Option("curriculum", int, "Steps until the automaton takes all its steps.", 0, may_change=True),
    Option("warm_up", int, "Steps while the learning rate rises.", 0, may_change=True),
    Option("focal", float, "The gamma of a focal loss, instead of the squared error.", may_change=True),
)  # what a resumed run must share of them is in its identity, so that runs from before they existed go on
CHECKED_PATCHES = 1 << 20  # of the simplified against the hardened circuit, where not all can be


def automaton_recipe(name: str, help_text: str) -> Recipe:
    """The recipe of an experiment, with its settings as defaults."""
    e = EXPERIMENTS[name]
    return Recipe(
        f"{help_text} Then hardened to a circuit, and evaluated.",
        lambda settings, device: trainable(name, settings, device),
        defaults={"steps": e.steps, "batch_size": e.batch, "seed": SEED},
        predict=Prediction(lambda shared: Training(EXPERIMENTS[name], shared["seed"]).model),
        options=REMEDIES,
        then=lambda settings: [f"shadergrad logic show {shlex.quote(str(settings.out / SIMPLIFIED))}"],
    )


def trainable(name: str, settings: Settings, device: str) -> Trainable:
    """The automaton on `device`. The seed determines its wires, start states and masks."""
    remedies = Remedies(**{option.name: settings.get(option.name, option.default) for option in REMEDIES})
    experiment = replace(EXPERIMENTS[name], batch=settings.batch_size, remedies=remedies)
    training = Training(experiment, settings.seed, device)
    keys = training.data_key, training.mask_key

    def show(position: Position) -> Iterable[str]:
        return _show(Automaton(name, training, settings, position, device))

    def step(start: Tensor, target: Tensor, *masks: Tensor) -> Tensor:
        """One update on a batch (batch, height, width, channels); the soft and the hard loss before it."""
        return sg.stack(training.update(start, target, masks[0] if masks else None))

    data, update = Stream(lambda _: draws(experiment, *keys)), step
    if not experiment.fresh and experiment.fire_rate is None and not remedies.curriculum:
        # all batches are the same one, which so stays on the device
        batch = training.batch()
        data, update = Stream(lambda _: repeat(())), lambda: step(*batch)

    def page(folder: Path) -> None:
        automaton_page(name, training, folder)

    return Trainable(
        training.model,
        training.optimizer,
        data,
        update,
        show=show,
        identity={option.name: remedies.chosen.get(option.name) for option in REMEDIES},
        losses=("soft", "hard"),
        page=page,
        schedule=remedies.rate if remedies.warm_up else None,
    )


def _show(trained: Automaton) -> Iterator[str]:
    """The picture of the losses; for a finished run all other files, too."""
    settings = trained.settings
    as_published = settings.batch_size == EXPERIMENTS[trained.name].batch and (
        not trained.training.settings.remedies.chosen
    )  # losses are sums over the batch
    beside = published(trained.name) if as_published else None
    complaints = [loss_plot(trained.losses, settings.out / "loss.png", beside, trained.name)]
    if len(trained.losses) >= (settings.steps or 0):
        yield "hardening and evaluating ..."
        results = evaluate(trained)
        complaints += write(trained, results)
        yield from summary(trained, results)
    missing = list(filter(None, complaints))
    if missing:  # one for all: the extra is the same
        yield f"without pictures: {missing[0]}"


def evaluate(trained: Automaton) -> Results:
    """Harden, minimize, check that both circuits are equal, and evaluate. Raises TrainingError if they differ."""
    hardened = trained.training.model.harden()
    simplified = hardened.minimized()
    same = equivalent(hardened.circuit, simplified.circuit, patches=CHECKED_PATCHES)
    if same.counterexample is not None:
        raise TrainingError(
            f"the simplified circuit is not the hardened one: they differ for {same.counterexample}. "
            "This is a bug of shadergrad; the checkpoint is safe."
        )
    return Results(
        hardened,
        simplified,
        count_gates(hardened.circuit),
        (trained.training.model.n_gates, trained.training.model.active_gates()),
        same,
        evaluation.evaluate(trained.name, simplified, SIZES),
        evaluation.zero_from(trained.losses[:, 1]),
    )


def write(trained: Automaton, results: Results) -> list[str | None]:
    """Write all files of a finished run. Returns the reasons for missing pictures."""
    name, out = trained.name, trained.settings.out
    write_cell(out, results.hardened, results.simplified, name.replace("-", "_"), *EXPERIMENTS[name].grid)
    complaints = [
        gate_plot(
            histogram(results.hardened.circuit),
            histogram(results.simplified.circuit),
            out / "gates.png",
            f"{name}: gates",
        ),
        animation(evaluation.rollout(name, results.simplified), out / "rollout.gif"),
        *(
            robustness_plot(f.series, out / "robustness.png", f.cells, f.published, f"{name}, damaged after each step")
            for f in results.findings
            if f.series
        ),
    ]
    document = {
        "experiment": name,
        "zero_from": results.zero_from,
        "losses": dict(zip(("soft", "hard"), trained.losses[-1].tolist(), strict=True)),
        "gates": {"learned": results.learned[0], "learned_active": results.learned[1], **asdict(results.counts)},
        "findings": [{k: v for k, v in asdict(f).items() if k != "series"} for f in results.findings],
    }
    (out / "evaluation.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    (out / "report.md").write_text("\n".join(report(trained, results)) + "\n", encoding="utf-8")
    return complaints
