"""`shadergrad predict MODEL ...`: predictions of a trained model. In: a checkpoint and a user's files. Out: files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import shadergrad as sg

from ..checkpoint import TENSORS_FILE, load_checkpoint
from ..data import DataError
from ..errors import CheckpointError
from ..models import coevolution as co
from ..recipes.contacts.options import SHAPE
from ..recipes.contacts.pictures import contact_picture
from ..train.training_run import choose_device, make_folder

BELIEVED = 100  # Neff from which nine of ten of the best L pairs touched, in synthetic families

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
    structure: Annotated[
        Path | None,
        typer.Option(help="A PDB or mmCIF of the complex, to draw its contacts and to measure the prediction."),
    ] = None,
    chain_a: Annotated[
        str, typer.Option(help="The first protein's chain, in the structure and the viewers' scripts.")
    ] = "A",
    chain_b: Annotated[str, typer.Option(help="The second protein's chain.")] = "B",
    first_a: Annotated[
        int | None,
        typer.Option(help="The number of the first residue of the first pair.", show_default="of NAME/24-310, else 1"),
    ] = None,
    first_b: Annotated[int | None, typer.Option(help="The same of the second protein.")] = None,
    most_gaps: Annotated[
        float, typer.Option(help="Columns with a larger share of gaps get no prediction.", min=0.0, max=1.0)
    ] = 0.5,
    top: Annotated[
        int | None, typer.Option(help="Lines of contacts.tsv.", show_default="twice the shorter chain")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Pairs per batch.")] = 64,
    device: Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto.")] = "auto",
) -> None:
    """Predict contacts between two proteins from pairs of their sequences: a table, best first, and a picture."""
    console = Console(highlight=False)
    if structure and contacts:
        raise DataError("--structure and --contacts both say which residues touch; give one.")
    (family,) = co.read_families(pairs, contacts, pairs_b, length_a)[:1]
    numbers, chains = co.residue_numbers(family, first_a, first_b), (chain_a, chain_b)
    resolved = np.ones(family.shape, bool)
    if structure:  # before the model runs, because numbers that do not fit stop here
        family, resolved = co.structure_contacts(structure, family, numbers, chains)
    neff, ratio = co.effective_depth(family)
    console.out(f"{family.name}: {family.depth} pairs, Neff {neff:.1f}, Neff/L {ratio:.2f}", highlight=False)
    if warning := depth_warning(neff):
        console.out(warning, highlight=False)
    name = choose_device(device, console)
    model, balance = load_predictor(checkpoint, name)
    logits = co.FamilyPredictor(model, name, batch_size)(family)
    logits, complaint_of_gaps = without_gaps(logits, family, most_gaps)
    if complaint_of_gaps:
        console.out(complaint_of_gaps, highlight=False)
    # training weighted contacts up to balance; the odds of one are what they were before
    probabilities = 1.0 / (1.0 + balance * np.exp(-np.clip(logits, -500, 500)))
    make_folder(out)
    lines = top or 2 * min(family.shape)
    co.write_contacts(out / "contacts.tsv", family, logits, probabilities, lines, numbers)
    drawn = co.numbered_pairs(logits, probabilities, numbers, min(family.shape))
    co.write_pymol(out / "contacts.pml", drawn, chains)
    co.write_chimerax(out / "contacts.cxc", drawn, chains)
    complaint = contact_picture(logits, family, out / "contacts.png")
    if family.contacts is not None:
        measures = co.measure(np.where(resolved, logits, np.nan), family.contacts)
        console.out(", ".join(f"{key} {value:.3f}" for key, value in measures.items()), highlight=False)
    files = "contacts.tsv, contacts.pml (PyMOL), contacts.cxc (ChimeraX)"
    console.out(complaint or f"in {out}: contacts.png, {files}", highlight=False)


def depth_warning(neff: float) -> str:
    """A line for a family that is too shallow to believe, else nothing. The shares are the model's on held-out synthetic families of 8,
    32 and 100 pairs, the curve of docs/coevolution.md; precision rises with the depth."""
    if neff >= BELIEVED:
        return ""
    share = np.interp(neff, [8, 32, 100], [0.23, 0.54, 0.90])
    return (
        f"warning: Neff {neff:.1f} is low: of the best L pairs about {100 * share:.0f} % touched in synthetic families of that depth. "
        f"Hint: more species; Neff {BELIEVED} and above is better."
    )


def without_gaps(logits: np.ndarray, family: co.Family, most: float) -> tuple[np.ndarray, str]:
    """The logits, NaN in columns with a larger share of gaps than `most`, and a line that says how many. Unaligned pairs have no gaps."""
    if not family.aligned:
        return logits, ""
    wide = [share > most for share in co.gap_shares(family, co.sequence_weights(family.joined()))]
    masked = np.logical_or.outer(*wide)
    if masked.all():
        raise DataError(f"every column of a protein has more than {most:g} gaps. Hint: --most-gaps.")
    counts = " and ".join(str(int(own.sum())) for own in wide)
    told = f"{counts} columns with more than {100 * most:g} % gaps are left out (--most-gaps)" if masked.any() else ""
    return np.where(masked, np.nan, logits), told


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
