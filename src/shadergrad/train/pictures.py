"""Pictures of a run. In: metrics.jsonl. Out: a PNG. Also what recipes need to draw their own.

matplotlib and pillow are imported on use, without a display; they come with the extra `plots`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec

from ..extras import MissingPackageError, require
from .metrics import read_rows

P = ParamSpec("P")


def or_the_reason(draw: Callable[P, str | None]) -> Callable[P, str | None]:
    """Give the line that says which package is missing, in place of the error: a run does not fail for want of a picture."""

    @functools.wraps(draw)
    def tried(*args: P.args, **kwargs: P.kwargs) -> str | None:
        try:
            return draw(*args, **kwargs)
        except MissingPackageError as error:
            return str(error)

    return tried


@or_the_reason
def training_curve(metrics_path: str | Path, png_path: str | Path) -> str | None:
    """Draw training loss and test accuracy over epochs, or over steps where the rows have no epochs.

    metrics_path: a JSON object a line, with "epoch" or "step", "loss" and, where there is one, "test_accuracy" (0 to 1).
    Returns None, or one line that says why nothing was drawn: a run does not fail for want of a picture.
    """
    figures = figure_module("the training curve")
    rows = read_rows(Path(metrics_path))
    losses = [row for row in rows if "loss" in row]
    if not losses:
        return f"no training curve: {metrics_path} has no losses yet"
    counter = "epoch" if "epoch" in losses[0] else "step"

    figure = figures.Figure(figsize=(7, 4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    _line(axes, losses, counter, "loss", "training loss", "tab:blue")
    axes.set_xlabel(counter)
    if min(row["loss"] for row in losses) >= 0:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines["top"].set_visible(False)
    if any("test_accuracy" in row for row in rows):
        right = axes.twinx()
        percent = [{**row, "test_accuracy": 100 * row["test_accuracy"]} for row in rows if "test_accuracy" in row]
        _line(right, percent, counter, "test_accuracy", "test accuracy, %", "tab:orange")
        last = percent[-1]
        right.annotate(
            f"{last['test_accuracy']:.1f} %",
            (last[counter], last["test_accuracy"]),
            xytext=(0, -14),
            textcoords="offset points",
            ha="right",
            color="tab:orange",
        )
        right.spines["top"].set_visible(False)
    else:
        axes.spines["right"].set_visible(False)
    figure.savefig(png_path)
    return None


def _line(axes: Any, rows: list[dict[str, Any]], counter: str, key: str, label: str, color: str) -> None:
    marker = "o" if len(rows) == 1 else None
    axes.plot([row[counter] for row in rows], [row[key] for row in rows], color=color, marker=marker)
    axes.set_ylabel(label, color=color)
    axes.tick_params(axis="y", labelcolor=color)


def figure_module(purpose: str) -> ModuleType:
    """matplotlib.figure. Raises MissingPackageError, which says that it is needed for `purpose`."""
    require("matplotlib", "plots", purpose)
    return require("matplotlib.figure", "plots", purpose)


def plain_axes(axes: Any) -> None:
    """A pale grid, and no frame above and to the right."""
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
