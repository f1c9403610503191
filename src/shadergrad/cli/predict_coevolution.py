"""`shadergrad predict MODEL ...`: predictions of a trained model. In: a checkpoint and a user's files. Out: files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from ..checkpoint import load_checkpoint
from ..data import DataError
from ..models import coevolution as co
from ..models.coevolution.alignments import A3M, ALIGNERS, check_query, read_sequences, suffix_of
from ..models.coevolution.family_logits import family_weights, is_small
from ..recipes.contacts.loading import load_predictor
from ..recipes.contacts.pictures import contact_picture, within_picture
from ..train.training_run import choose_device, make_folder
from .calibrate_coevolution import calibration_of

BELIEVED = 0.8  # the precision of the best L pairs below which a prediction is warned of
DEEPER = 1.5  # times the deepest families that were measured, from where on their precision says little
HOST_COLUMNS = 100  # of both chains, up to which the host inverts their covariance sooner than a device compiles

predict_app = typer.Typer(no_args_is_help=True, add_completion=False)


@predict_app.callback()
def models() -> None:
    """Predict with a trained model."""


@predict_app.command()
def coevolution(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="The --out folder of a run with --phase contacts; or mean-field or pseudo-likelihood, which need no training.",
            metavar="RUN|METHOD",
        ),
    ],
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
        int | None, typer.Option(help="Lines of contacts.tsv.", show_default="twice the shorter chain", min=1)
    ] = None,
    within: Annotated[
        bool, typer.Option("--within/--no-within", help="Also the contacts within each protein, by mean-field DCA.")
    ] = True,
    batch_size: Annotated[int, typer.Option(help="Pairs per batch.")] = 64,
    device: Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto.")] = "auto",
) -> None:
    """Predict contacts between two proteins from pairs of their sequences: a table, best first, and a picture."""
    console = Console(highlight=False)
    check_files(pairs, pairs_b, contacts, structure, out)
    (family,) = co.read_families(pairs, contacts, pairs_b, length_a)[:1]
    numbers, chains = co.residue_numbers(family, first_a, first_b), (chain_a, chain_b)
    resolved = np.ones(family.shape, bool)
    if structure:  # before the model runs, because numbers that do not fit stop here
        family, resolved = co.structure_contacts(structure, family, numbers, chains)
    if not family.aligned and family.depth > 1:
        raise DataError(not_aligned(family, pairs))
    classical = CLASSICAL.get(str(checkpoint)) if not checkpoint.exists() else None
    if classical is None and not checkpoint.exists():
        raise DataError(
            f"there is no run {checkpoint}. Hint: {' and '.join(CLASSICAL)} need none; shadergrad train coevolution."
        )
    make_folder(out)  # before the model runs, as it may not be possible
    name = device_for(family, classical, device, console)
    weights = family_weights(family, name)
    neff = float(weights.sum())
    ratio = neff / sum(family.shape)
    console.out(f"{family.name}: {family.depth} pairs, Neff {neff:.1f}, Neff/L {ratio:.2f}", highlight=False)
    if classical:
        found = by_couplings(family, neff, classical, name)
    else:
        found = by_model(family, weights, checkpoint, name, batch_size)
    for line in found.told:
        console.out(line, highlight=False)
    wide, complaint_of_gaps = gap_columns(family, weights, most_gaps)
    logits, probabilities = (
        np.where(np.logical_or.outer(*wide), np.nan, each) for each in (found.scores, found.probabilities)
    )
    if complaint_of_gaps:
        console.out(complaint_of_gaps, highlight=False)
    lines = top or 2 * min(family.shape)
    co.write_contacts(out / "contacts.tsv", family, logits, probabilities, lines, numbers)
    drawn = co.numbered_pairs(logits, found.redness(logits), numbers, min(family.shape))
    co.write_pymol(out / "contacts.pml", drawn, chains)
    co.write_chimerax(out / "contacts.cxc", drawn, chains)
    complaint = contact_picture(logits, family, out / "contacts.png", numbers, found.label)
    for line in measured(logits, family, resolved):
        console.out(line, highlight=False)
    files = "contacts.tsv, contacts.pml (PyMOL), contacts.cxc (ChimeraX)"
    if within and family.depth > 1:
        maps = found.maps or mean_field(family, name)
        both = zip((maps.within_a, maps.within_b), wide, strict=True)
        inner = [np.where(np.logical_or.outer(own, own), np.nan, each) for each, own in both]
        co.write_within(out / "within.tsv", family, inner, top, numbers)
        known = co.structure_within(structure, family, numbers, chains) if structure else None
        within_picture(inner, family, out / "within.png", numbers, [k[0] for k in known] if known else None)
        for side, own in enumerate(known or []):
            share = co.within_precision(inner[side], *own)
            console.out(f"within {'ab'[side]}: P@L {share:.3f}", highlight=False)
        files += ", within.tsv, within.png (within each protein)"
    console.out(complaint or f"in {out}: contacts.png, {files}", highlight=False)


def check_files(pairs: Path, pairs_b: Path | None, contacts: Path | None, structure: Path | None, out: Path) -> None:
    """Raises DataError for files that exclude each other, would be overwritten, or leave the numbers of residues open."""
    if structure and contacts:
        raise DataError("--structure and --contacts both say which residues touch; give one.")
    if contacts and contacts.resolve() == (out / "contacts.tsv").resolve():
        raise DataError(f"--contacts {contacts} would be overwritten by the prediction. Hint: another --out.")
    for path in (pairs, pairs_b):
        if path and suffix_of(path) in A3M:
            check_query(read_sequences(path))


def measured(logits: np.ndarray, family: co.Family, resolved: np.ndarray) -> list[str]:
    """Lines: the precision, if contacts are known, and how many pairs of columns it counts, if not all are resolved."""
    if family.contacts is None:
        return []
    lines = []
    if not resolved.all():
        lines.append(
            f"the structure resolves {resolved.sum():,} of {resolved.size:,} pairs of columns: the others do not count"
        )
    measures = co.measure(np.where(resolved, logits, np.nan), family.contacts)
    return [*lines, ", ".join(f"{key} {value:.3f}" for key, value in measures.items())]


@dataclass(frozen=True)
class Scored:
    """Scores and probabilities of contacts (length_a, length_b), the second NaN if the method has none; lines to print; the maps within
    the chains, if the method gives them; the label of the colour bar."""

    scores: np.ndarray
    probabilities: np.ndarray
    told: list[str]
    maps: co.dca.Maps | None = None
    label: str = "score: log-likelihood ratio"

    def redness(self, kept: np.ndarray) -> np.ndarray:
        """What a viewer's script colours by: the probability, else the score as a share of the best of those kept."""
        if self.maps is None:
            return self.probabilities
        return np.clip(self.scores / max(float(np.nanmax(kept)), 1e-12), 0.0, 1.0)


def mean_field(family: co.Family, device: str) -> co.dca.Maps:
    """On the device if the family has many columns."""
    return co.dca.mean_field_maps(family, device=device if sum(family.shape) > HOST_COLUMNS else None)


def pseudo_likelihood(family: co.Family, device: str) -> co.dca.Maps:
    return co.dca.pseudo_likelihood_maps(family, device)


Method = Callable[[co.Family, str], co.dca.Maps]
CLASSICAL: dict[str, Method] = {"mean-field": mean_field, "pseudo-likelihood": pseudo_likelihood}


def device_for(family: co.Family, method: Method | None, wish: str, console: Console) -> str:
    """The device of --device. auto does not look for a GPU, which takes a second, where nothing would compute on it."""
    if wish == "auto" and method is mean_field and sum(family.shape) <= HOST_COLUMNS and is_small(family):
        console.out("device auto: cpu, as the family is small", highlight=False)
        return "cpu"
    return choose_device(wish, console)


def by_couplings(family: co.Family, neff: float, method: Method, device: str) -> Scored:
    """By a method that sees this family alone. Below a Neff of the columns of both chains its couplings are mostly noise (Ovchinnikov and
    others, 2014)."""
    if family.depth < 2:
        raise DataError(
            f"{family.name} is one pair; couplings are seen in many. Hint: a run of shadergrad train coevolution predicts from one."
        )
    maps = method(family, device)
    told = ["scores are couplings, not probabilities: of these the ranks count"]
    if neff < sum(family.shape):
        told.append(
            f"warning: Neff {neff:.1f} is below the {sum(family.shape)} columns: couplings of so few sequences are mostly noise. Hint: more species."
        )
    return Scored(maps.between, np.full(family.shape, np.nan), told, maps, "score: coupling, APC")


def by_model(family: co.Family, weights: np.ndarray, checkpoint: Path, device: str, batch_size: int) -> Scored:
    """By a trained run, with its calibration if there is one."""
    model, balance = load_predictor(checkpoint, device)
    neff = float(weights.sum())
    calibration, missing = calibration_of(checkpoint)
    told = [depth_warning(neff, calibration) if calibration else missing, length_warning(family, checkpoint)]
    logits = co.FamilyPredictor(model, device, batch_size)(family, weights=weights)
    if calibration:
        probabilities = calibration.probabilities(logits, neff)
    else:  # training weighted contacts up to balance; the odds of one are what they were before
        probabilities = 1.0 / (1.0 + balance * np.exp(-np.clip(logits, -500, 500)))
    return Scored(logits, probabilities, [line for line in told if line])


def length_warning(family: co.Family, checkpoint: Path) -> str:
    """A line for chains longer than those that a run on synthetic families has seen: of positions beyond it has learned nothing."""
    values = load_checkpoint(checkpoint)[1].get("hyperparameters", {})
    longest = co.Physics().lengths[1]
    if values.get("pairs") is not None or max(family.shape) <= longest:
        return ""
    return (
        f"warning: the chains have {family.shape[0]} and {family.shape[1]} columns, and the run has learned synthetic chains of at most {longest}. "
        "Hint: a run with --pairs, of families as long; or mean-field in place of the run."
    )


def not_aligned(family: co.Family, path: Path) -> str:
    """Which row does not fit, for a file whose rows have several lengths."""
    lengths = [(int((a != co.PAD).sum()), int((b != co.PAD).sum())) for a, b in zip(family.a, family.b, strict=True)]
    odd = next((k for k, each in enumerate(lengths) if each != lengths[0]), 0)
    names = family.names or tuple(f"pair {k + 1}" for k in range(family.depth))
    line = (
        next((f", line {r.line}" for r in read_sequences(path).records if r.name == names[odd]), "")
        if path.is_file()
        else ""
    )
    return (
        f"{path}{line}: {names[odd]} has {lengths[odd][0]} and {lengths[odd][1]} residues, {names[0]} {lengths[0][0]} and {lengths[0][1]}: "
        f"the rows are not aligned, so their columns cannot be compared.\n{ALIGNERS}"
    )


def depth_warning(neff: float, calibration: co.Calibration) -> str:
    """A line for a family that is too shallow to believe, with the measured precision at its Neff; else nothing."""
    share = calibration.precision_of(neff)
    if share >= BELIEVED:
        return ""
    if neff > DEEPER * calibration.neff[-1]:  # then it may well be deep enough: nobody has looked
        return (
            f"warning: no families of Neff {neff:.0f} were measured: at most {calibration.neff[-1]:.0f}, where about {100 * share:.0f} % of "
            f"the best L pairs touched ({calibration.source}). Hint: shadergrad calibrate with deeper ones (--depths)."
        )
    enough = calibration.enough(BELIEVED)
    hint = f"from Neff {enough:.0f} on they are {100 * BELIEVED:.0f} %" if enough else "deeper families are better"
    return (
        f"warning: Neff {neff:.1f} is low: of the best L pairs about {100 * share:.0f} % touched in families of that depth "
        f"({calibration.source}); {hint}. Hint: more species."
    )


def gap_columns(family: co.Family, weights: np.ndarray, most: float) -> tuple[list[np.ndarray], str]:
    """Which columns of a and of b have a larger share of gaps than `most`, bools, and a line that says how many. weights: the rows'. One
    pair that is not aligned has no gaps.
    """
    if not family.aligned:
        return [np.zeros(length, bool) for length in family.shape], ""
    wide = [share > most for share in co.gap_shares(family, weights)]
    for name, own in zip("ab", wide, strict=True):
        if own.all():
            raise DataError(
                f"{family.name}: every column of {name} has more than {100 * most:g} % gaps. Hint: --most-gaps {(1 + most) / 2:g}."
            )
    counts = " and ".join(str(int(own.sum())) for own in wide)
    told = f"{counts} columns with more than {100 * most:g} % gaps are left out (--most-gaps)"
    return wide, told if any(own.any() for own in wide) else ""
