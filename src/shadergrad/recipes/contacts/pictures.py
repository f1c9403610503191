"""A contact map as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shadergrad.models.coevolution import Family
from shadergrad.train.plots import figure_module, or_the_reason


@or_the_reason
def contact_picture(scores: np.ndarray, family: Family, path: Path) -> str | None:
    """Scores (length_a, length_b), the best L marked, and beside them the contacts if they are known.

    Returns None, or one line that says why nothing was drawn.
    """
    figures = figure_module("the contact map")
    figure = figures.Figure(figsize=(5.8, 4.6), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    known = scores[np.isfinite(scores)]
    low, high = np.quantile(known, [0.5, 0.998])
    extent = (0.5, scores.shape[1] + 0.5, scores.shape[0] + 0.5, 0.5)  # columns count from 1, as in the TSV
    image = axes.imshow(scores, cmap="Blues", vmin=low, vmax=high, extent=extent)
    axes.set_facecolor("lightgrey")  # columns without a score
    figure.colorbar(image, ax=axes, shrink=0.8, label="score: log-likelihood ratio", extend="both")
    order = np.argsort(-np.where(np.isfinite(scores), scores, -np.inf).reshape(-1), kind="stable")
    i, j = np.unravel_index(order[: min(scores.shape)], scores.shape)
    axes.scatter(j + 1, i + 1, s=7, color="black", label="the best L")
    if family.contacts is not None:
        i, j = np.nonzero(family.contacts)
        axes.scatter(j + 1, i + 1, s=34, facecolors="none", edgecolors="tab:red", linewidths=0.9, label="contacts")
    axes.legend(fontsize=7, loc="upper right")
    axes.set_title(f"{family.name}, {family.depth} pairs", fontsize=10)
    axes.set_xlabel("residue of b")
    axes.set_ylabel("residue of a")
    figure.savefig(path)
    return None
