"""`shadergrad predict MODEL ...`: predictions of a trained model. In: a checkpoint and a user's files. Out: files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import shadergrad as sg

from ..checkpoint import TENSORS_FILE, load_checkpoint
from ..errors import CheckpointError
from ..models import coevolution as co
from ..recipes.contacts.options import SHAPE
from ..recipes.contacts.pictures import contact_picture
from ..train.training_run import choose_device, make_folder

predict_app = typer.Typer(no_args_is_help=True, add_completion=False)


@predict_app.callback()
def models() -> None:
    """Predict with a trained model."""


@predict_app.command()
def coevolution(
    checkpoint: Annotated[Path, typer.Argument(help="The --out folder of a run with --phase contacts.")],
    pairs: Annotated[Path, typer.Argument(help="A family: FASTA, A3M or Stockholm, also .gz.")],
    pairs_b: Annotated[Path | None, typer.Option(help="The second chains, if PAIRS holds only the first ones.")] = None,
    length_a: Annotated[int | None, typer.Option(help="Columns of the first chain, if PAIRS does not say so.")] = None,
    contacts: Annotated[
        Path | None, typer.Option(help="A TSV of known contacts, to draw and to measure the prediction.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for contacts.tsv and contacts.png.")] = Path("contacts"),
    top: Annotated[
        int | None, typer.Option(help="Lines of contacts.tsv.", show_default="twice the shorter chain")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Pairs per batch.")] = 64,
    device: Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto.")] = "auto",
) -> None:
    """Predict contacts between two proteins from pairs of their sequences: a table, best first, and a picture."""
    console = Console(highlight=False)
    (family,) = co.read_families(pairs, contacts, pairs_b, length_a)[:1]
    name = choose_device(device, console)
    model, balance = load_predictor(checkpoint, name)
    logits = co.FamilyPredictor(model, name, batch_size)(family)
    # training weighted contacts up to balance; the odds of one are what they were before
    probabilities = 1.0 / (1.0 + balance * np.exp(-np.clip(logits, -500, 500)))
    make_folder(out)
    co.write_contacts(out / "contacts.tsv", family, logits, probabilities, top or 2 * min(family.shape))
    complaint = contact_picture(logits, family, out / "contacts.png")
    neff, ratio = co.effective_depth(family)
    console.out(f"{family.name}: {family.depth} pairs, Neff {neff:.1f}, Neff/L {ratio:.2f}", highlight=False)
    if family.contacts is not None:
        measures = co.measure(logits, family.contacts)
        console.out(", ".join(f"{key} {value:.3f}" for key, value in measures.items()), highlight=False)
    console.out(complaint or f"in {out}: contacts.png, contacts.tsv", highlight=False)


def load_predictor(folder: Path, device: str) -> tuple[co.ContactPredictor, float]:
    """The model of a run of phase 2, and the weight of a contact in its loss. Raises CheckpointError for any other run."""
    arrays, meta = load_checkpoint(folder)
    values: dict[str, Any] = meta.get("hyperparameters", {})
    if meta.get("recipe") != "coevolution" or values.get("phase") != "contacts":
        raise CheckpointError(
            f"{folder / TENSORS_FILE} is no run that learned contacts. "
            "Hint: shadergrad train coevolution --phase contacts, whose --out this command takes."
        )
    model = co.ContactPredictor(co.CoevolutionTransformer(**{name: values[name] for name in SHAPE}))
    model.load_state_dict({name: sg.tensor(arrays[f"model/{name}"]) for name in model.state_dict()})
    return model.to(device).eval(), float(values["balance"])
