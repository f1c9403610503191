"""`shadergrad calibrate RUN`: probabilities for the scores of a run. In: a run of phase 2, families with contacts. Out: calibration.json, a picture."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..checkpoint import TENSORS_FILE, load_checkpoint
from ..data import DataError
from ..models import coevolution as co
from ..models.coevolution.calibration import DEPTHS
from ..recipes.contacts.loading import load_predictor
from ..recipes.contacts.pictures import calibration_picture
from ..train.training_run import choose_device

CALIBRATION = "calibration.json"
SEED = 2**31  # far from the seeds of trainings: synthetic families that no run has seen


def calibrate(
    checkpoint: Annotated[Path, typer.Argument(help="The --out folder of a run with --phase contacts.")],
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="A folder of families that the run has not seen.",
            show_default="those it held out, or new synthetic ones",
        ),
    ] = None,
    contacts: Annotated[Path | None, typer.Option(help="A TSV of their contacts.")] = None,
    families: Annotated[int, typer.Option(help="How many synthetic families.", min=4)] = 24,
    depths: Annotated[str, typer.Option(help="Pairs of a family at which it is measured.")] = ",".join(
        map(str, DEPTHS)
    ),
    batch_size: Annotated[int, typer.Option(help="Pairs per batch.")] = 64,
    device: Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto.")] = "auto",
) -> None:
    """Measure which share of pairs touch at each score, on families that a run has not seen: predict then gives calibrated probabilities."""
    console = Console(highlight=False)
    try:
        counts = [int(word) for word in depths.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 2:
        raise DataError(f"--depths {depths}: numbers of pairs from 2, as --depths 8,32,100.")
    if (pairs is None) != (contacts is None):
        raise DataError("--pairs and --contacts belong together: the families, and which of their residues touch.")
    name = choose_device(device, console)
    model, _ = load_predictor(checkpoint, name)
    unseen, source = unseen_families(checkpoint, pairs, contacts, families, max(counts))
    console.out(f"{len(unseen)} families: {source}", highlight=False)
    predictor = co.FamilyPredictor(model, name, batch_size)
    # every family is padded to one shape, for which the model is compiled once
    shape = max(f.shape[0] for f in unseen), max(f.shape[1] for f in unseen)
    found, bins = co.calibrate(
        lambda family: predictor(family, shape),
        unseen,
        counts,
        source,
        told=lambda line: console.out(line, highlight=False),
    )
    found = replace(found, checkpoint=digest_of(checkpoint))
    found.save(checkpoint / CALIBRATION)
    complaint = calibration_picture(found, bins, checkpoint / "calibration.png")
    console.out(f"probabilities are off by {found.error:.4f} on average, in families outside the fit", highlight=False)
    console.out(complaint or f"in {checkpoint}: {CALIBRATION}, calibration.png", highlight=False)


def unseen_families(
    folder: Path, pairs: Path | None, contacts: Path | None, count: int, depth: int
) -> tuple[list[co.Family], str]:
    """Families with contacts that a run was not trained on, and their description."""
    if pairs is not None:
        given = co.read_families(pairs, contacts)
        return [f for f in given if f.contacts is not None], f"of {pairs}"
    values: dict[str, Any] = load_checkpoint(folder)[1].get("hyperparameters", {})
    if values.get("pairs") is None:
        return co.sample_families(count, depth, SEED + int(values.get("seed", 0))), "synthetic, not in the training"
    own = co.read_families(values["pairs"], values["contacts"], values["pairs_b"], values["length_a"])
    _, held_out = co.split_families(own, values["held_out"], int(values.get("seed", 0)))
    return [f for f in held_out if f.contacts is not None], f"held out of {values['pairs']}"


def digest_of(folder: Path) -> str:
    """Of a run's weights: a run that went on is another model."""
    return hashlib.sha256((folder / TENSORS_FILE).read_bytes()).hexdigest()[:16]


def calibration_of(folder: Path) -> tuple[co.Calibration | None, str]:
    """A run's calibration, or why there is none."""
    hint = f"Hint: shadergrad calibrate {folder}"
    if not (folder / CALIBRATION).exists():
        return None, f"probabilities are not calibrated, and the precision at this depth is not measured. {hint}"
    found = co.Calibration.read(folder / CALIBRATION)
    if found.checkpoint != digest_of(folder):
        return None, f"{folder / CALIBRATION} is of an earlier state of the run and is not used. {hint}"
    return found, ""
