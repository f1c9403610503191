"""A contact map as a picture, maps within the chains, and what a calibration measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shadergrad.models.coevolution import Calibration, Family, ranked_within
from shadergrad.models.coevolution.contact_files import best_pairs
from shadergrad.models.coevolution.numbering import NONE, Numbers
from shadergrad.train.plots import figure_module, or_the_reason, plain_axes, save_png


@or_the_reason
def contact_picture(
    scores: np.ndarray,
    family: Family,
    path: Path,
    numbers: Numbers | None = None,
    label: str = "score: log-likelihood ratio",
) -> str | None:
    """Scores (length_a, length_b), the best L marked, and beside them the contacts if they are known. Axes count columns, or residues by
    `numbers`. label: of the colour bar.

    Returns None, or one line that says why nothing was drawn.
    """
    figures = figure_module("the contact map")
    figure = figures.Figure(figsize=(5.8, 4.6), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    image = _map(axes, scores)
    figure.colorbar(image, ax=axes, shrink=0.8, label=label, extend="both")
    _mark(axes, best_pairs(scores, min(scores.shape)), family.contacts)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2, frameon=False)  # hides no contact
    axes.set_title(f"{family.name}, {family.depth} pairs", fontsize=10)
    what = "column" if numbers is None else "residue"
    axes.set_xlabel(f"{what} of b")
    axes.set_ylabel(f"{what} of a")
    if numbers is not None:
        _number(axes.yaxis, numbers[0])
        _number(axes.xaxis, numbers[1])
    save_png(figure, path)
    return None


@or_the_reason
def within_picture(
    scores: Sequence[np.ndarray],
    family: Family,
    path: Path,
    numbers: Numbers,
    contacts: Sequence[np.ndarray] | None = None,
) -> str | None:
    """The maps within both chains side by side, the best L pairs of each marked below the diagonal, contacts if they are known."""
    figures = figure_module("the maps within the chains")
    figure = figures.Figure(figsize=(9.2, 4.4), dpi=110, layout="constrained")
    for side, own in enumerate(scores):
        axes = figure.add_subplot(1, 2, 1 + side)
        image = _map(axes, own)
        figure.colorbar(image, ax=axes, shrink=0.8, label="coupling, APC", extend="both")
        pairs = [(j, i) for i, j in best_pairs(ranked_within(own), len(own))]
        _mark(axes, pairs, None if contacts is None else np.tril(contacts[side], -6))
        axes.legend(
            fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2, frameon=False
        )  # hides no contact
        axes.set_title(f"{family.name}: within {'ab'[side]}", fontsize=10)
        for axis in (axes.xaxis, axes.yaxis):
            _number(axis, numbers[side])
        axes.set_xlabel("residue")
        axes.set_ylabel("residue")
    save_png(figure, path)
    return None


@or_the_reason
def calibration_picture(found: Calibration, bins: Sequence[list[tuple[float, float, int]]], path: Path) -> str | None:
    """The share of contacts over the predicted probability at each depth, and the precision of the best L pairs over Neff."""
    figures = figure_module("the calibration")
    figure = figures.Figure(figsize=(9, 4), dpi=110, layout="constrained")
    axes = figure.add_subplot(1, 2, 1)
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    for neff, own in zip(found.neff, bins, strict=True):
        shown = [(p, share, n) for p, share, n in own if n >= 5]  # the share of fewer pairs says little
        bars = [np.sqrt(max(share * (1 - share), 1 / n) / n) for _, share, n in shown]
        places = [p for p, _, _ in shown], [share for _, share, _ in shown]
        axes.errorbar(*places, bars, fmt="o-", markersize=4, linewidth=1, label=f"Neff {neff:.0f}")
    axes.set_xlabel("predicted probability of a contact")
    axes.set_ylabel("share of contacts, families outside the fit")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8)
    plain_axes(axes)
    axes = figure.add_subplot(1, 2, 2)
    axes.fill_between(found.neff, found.low, found.high, alpha=0.2, linewidth=0)
    axes.plot(found.neff, found.precision, "o-", markersize=4)
    axes.set_xscale("log")
    axes.set_xticks(found.neff, [f"{n:.0f}" for n in found.neff])
    axes.minorticks_off()
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("Neff")
    axes.set_ylabel("precision of the best L pairs")
    axes.set_title(f"{found.families} families, {found.source}"[:60], fontsize=9)
    plain_axes(axes)
    save_png(figure, path)
    return None


def _map(axes: Any, scores: np.ndarray) -> Any:
    """The scores in blue, from the median on; grey without one."""
    low, high = np.quantile(scores[np.isfinite(scores)], [0.5, 0.998])
    extent = (0.5, scores.shape[1] + 0.5, scores.shape[0] + 0.5, 0.5)  # columns count from 1, as in the TSV
    axes.set_facecolor("lightgrey")
    return axes.imshow(scores, cmap="Blues", vmin=low, vmax=high, extent=extent)


def _mark(axes: Any, pairs: list[tuple[int, int]], contacts: np.ndarray | None) -> None:
    axes.scatter([j + 1 for _, j in pairs], [i + 1 for i, _ in pairs], s=7, color="black", label="the best L")
    if contacts is not None:
        i, j = np.nonzero(contacts)
        axes.scatter(j + 1, i + 1, s=34, facecolors="none", edgecolors="tab:red", linewidths=0.9, label="contacts")


def _number(axis: Any, numbers: np.ndarray) -> None:
    """Ticks at residues with round numbers."""
    known = np.flatnonzero(numbers != NONE)
    step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200) if len(known) <= 8 * s), 500)
    shown = [k for k in known if numbers[k] % step == 0]
    axis.set_ticks([k + 1 for k in shown], [str(numbers[k]) for k in shown])
