"""The coevolution transformer: `--phase mlm` reads pairs of sequences, `--phase contacts` learns which residues touch.

Families come from --pairs (a file, or a folder with a file each) and --contacts (a TSV), or are synthetic. Whole families
are held out for the measures. Phase 2 goes on from phase 1 by --pretrained FOLDER, its --out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np

import shadergrad as sg
from shadergrad import nn
from shadergrad.checkpoint import load_checkpoint
from shadergrad.models import coevolution as co
from shadergrad.train import (
    Position,
    Recipe,
    Settings,
    Stream,
    Trainable,
    TrainingError,
    TrainingStep,
    WarmUpCosine,
)
from shadergrad.train.prediction import Prediction
from shadergrad.train.settings import command_options

from .contacts.options import OPTIONS, SHAPE
from .contacts.pictures import contact_picture

TEST_BATCHES = 4
MAPPED_DEPTH = 32  # pairs of a held-out family that its contacts are predicted from


def build(settings: Settings, device: str) -> Trainable:
    """The model of --phase on `device`, its weights random from the current seed, or those of --pretrained.

    Raises DataError for files that cannot be read, TrainingError for options that do not fit each other.
    """
    families = families_of(settings)
    phase = settings["phase"]
    train, held_out = co.split_families(families, settings["held_out"], settings.seed)
    if phase == "contacts":
        train, held_out = ([f for f in part if f.contacts is not None] for part in (train, held_out))
        if not train or not held_out:
            raise TrainingError(
                "the contacts of too few families are known to train, and to measure. Hint: --contacts FILE."
            )
    transformer = transformer_of(settings)
    if settings["pretrained"] is not None:
        load_transformer(transformer, settings["pretrained"])
    model = co.model_for(phase, transformer).to(device)
    loss = co.MaskedTokens() if phase == "mlm" else co.Contacts(co.contact_balance(train))
    optimizer = sg.optim.AdamW(co.decay_groups(model, settings["weight_decay"]), lr=settings.lr)
    objective = co.Objective(model, loss)

    def clip() -> None:
        if settings["clip"]:
            nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])

    step = TrainingStep.of(
        settings,
        model,
        optimizer,
        objective.total,
        weight=objective.weight,
        finish=clip,
        accumulate=settings["accumulate"],
    )
    batches = co.Batches(train, phase, settings.batch_size, settings.seed, settings["buckets"])
    steps = settings["epoch_steps"]

    def stream(epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        return (batches.at(epoch * steps + k) for k in range(steps))

    test = co.Batches(held_out, phase, settings.batch_size, settings.seed + 1, settings["buckets"])
    predictor = co.FamilyPredictor(model, device) if isinstance(model, co.ContactPredictor) else None

    def evaluate() -> dict[str, float]:
        model.eval()
        try:
            losses = held_out_losses(model, loss, test, device)
            return losses | contact_measures(predictor, held_out)[1] if predictor else losses
        finally:
            model.train()

    def show(_: Position) -> Iterator[str]:
        yield f"{len(train)} families trained on, {len(held_out)} held out; shapes {shapes(batches)}"
        depths = [co.effective_depth(family) for family in train[:100]]
        neff, ratio = np.mean(depths, axis=0)
        yield f"Neff {neff:.1f}, Neff/L {ratio:.2f}, means at 80 % identity"
        if predictor:
            maps, measures = contact_measures(predictor, held_out)
            yield ", ".join(f"{name} {value:.3f}" for name, value in measures.items())
            complaint = contact_picture(maps[0], held_out[0], settings.out / "contacts.png")
            yield from [complaint] if complaint else []

    return Trainable(
        model,
        optimizer,
        Stream(stream, steps),
        step,
        evaluate,
        show,
        {"balance": round(loss.positive, 6)} if isinstance(loss, co.Contacts) else {},
        schedule=WarmUpCosine.of(settings, (settings.epochs or 1) * steps),
        unit="sequences",
    )


def transformer_of(values: Any) -> co.CoevolutionTransformer:
    """An untrained transformer, in the shape of the settings or of a checkpoint."""
    return co.CoevolutionTransformer(**{name: values[name] for name in SHAPE})


def what_next(settings: Settings) -> list[str]:
    """The next command: the training of contacts after phase 1, calibration and prediction after phase 2."""
    out = shlex.quote(str(settings.out))
    if settings["phase"] == "mlm":
        kept = ("pairs", "pairs_b", "length_a", "contacts", "families", "depth", *SHAPE)
        same = {o.name: settings[o.name] for o in OPTIONS if o.name in kept and settings[o.name] != o.default}
        own = f" {command_options(same)}" if same else ""
        return [f"shadergrad train coevolution --phase contacts --pretrained {out} --out {out}-contacts{own}"]
    return [f"shadergrad calibrate {out}", f"shadergrad predict coevolution {out} FAMILY.a3m"]


def families_of(settings: Settings) -> list[co.Family]:
    """The families of --pairs, or synthetic ones."""
    if settings["pairs"] is None:
        if settings["contacts"] is not None or settings["pairs_b"] is not None:
            raise TrainingError("--contacts and --pairs-b say something of --pairs, which is not given.")
        return co.sample_families(settings["families"], settings["depth"], settings.seed)
    families = co.read_families(settings["pairs"], settings["contacts"], settings["pairs_b"], settings["length_a"])
    if len(families) < 2:
        raise TrainingError(
            f"--pairs {settings['pairs']} is one family; families are held out whole. Hint: a folder of files."
        )
    return families


def load_transformer(transformer: co.CoevolutionTransformer, folder: Any) -> None:
    """The weights of a run of either phase. Raises CheckpointError if there is none, TrainingError for another shape."""
    arrays, _ = load_checkpoint(folder)
    prefix = "model/transformer."
    found = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    own = {name: tuple(p.shape) for name, p in transformer.state_dict().items()}
    wrong = [name for name, shape in own.items() if name not in found or found[name].shape != shape]
    if wrong:
        raise TrainingError(
            f"--pretrained {folder} has another transformer: {wrong[0]} is not there in {own[wrong[0]]}."
        )
    transformer.load_state_dict({name: sg.tensor(found[name]) for name in own})


def held_out_losses(model: Any, loss: Any, test: co.Batches, device: str) -> dict[str, float]:
    """The loss of some batches of held-out families; in phase 1 also the share of masked residues that the model predicts."""
    total = weight = right = 0.0
    with sg.no_grad():
        for k in range(TEST_BATCHES):
            tokens, labels = test.at(k)
            given = sg.tensor(labels, device=device)
            outputs = model(*co.inputs_of(model, sg.tensor(tokens, device=device), given))
            total, weight = total + loss.total(outputs, given).item(), weight + loss.weight(given).item()
            if isinstance(loss, co.MaskedTokens):
                right += float((outputs.numpy().argmax(-1) == labels).sum())
    measures = {"test_loss": total / weight}
    return measures | ({"test_accuracy": right / weight} if isinstance(loss, co.MaskedTokens) else {})


def contact_measures(
    predictor: co.FamilyPredictor, families: list[co.Family]
) -> tuple[list[np.ndarray], dict[str, float]]:
    """Maps of held-out families from a few pairs each, and their measures, averaged."""
    shallow = [f.first(MAPPED_DEPTH) if f.aligned else f.first(1) for f in families]
    shape = max(f.shape[0] for f in shallow), max(f.shape[1] for f in shallow)
    maps = [predictor(family, shape, background=False) for family in shallow]
    rows = [co.measure(m, f.contacts) for m, f in zip(maps, shallow, strict=True) if f.contacts is not None]
    return maps, {name: float(np.nanmean([row[name] for row in rows])) for name in rows[0]}


def shapes(batches: co.Batches) -> str:
    """The lengths of chains that batches are padded to."""
    return ", ".join(f"{a} + {b}" for a, b in (bucket.shape for bucket in batches.buckets))


RECIPE = Recipe(
    "Which residues of two proteins touch: a transformer over pairs of sequences. Phase 1 masks residues, phase 2 learns contacts.",
    build,
    defaults={"epochs": 10, "batch_size": 32, "lr": 1e-3},
    options=OPTIONS,
    predict=Prediction(lambda shared: co.model_for(shared["phase"], transformer_of(shared))),
    then=what_next,
)
