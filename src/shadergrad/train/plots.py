"""Pictures of a run. In: metrics.jsonl. Out: a PNG. Also helpers for the pictures of recipes.

matplotlib and pillow are imported on use, without a display.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec

from ..config import without
from ..system.optional_packages import MissingPackageError, require
from .metrics import read_rows

P = ParamSpec("P")


def or_the_reason(draw: Callable[P, str | None]) -> Callable[P, str | None]:
    """Returns the line that names a missing package instead of raising, because a run does not fail for a missing picture."""

    @functools.wraps(draw)
    def tried(*args: P.args, **kwargs: P.kwargs) -> str | None:
        try:
            return draw(*args, **kwargs)
        except MissingPackageError as error:
            return str(error)

    return tried


LOSSES = (
    ("loss", "training", "tab:blue"),
    ("test_loss", "test", "tab:orange"),
    ("validation_loss", "validation", "tab:orange"),
)
ACCURACIES = (("test_accuracy", "test"), ("validation_accuracy", "validation"), ("soft_accuracy", "of the mixtures"))
FALLS = 30.0  # how many times smaller a loss gets before its axis is logarithmic


@or_the_reason
def training_curve(
    metrics_path: str | Path, png_path: str | Path, title: str = "", loss_name: str = "loss"
) -> str | None:
    """Draw training and test loss in a panel with a mark at the best epoch, and the accuracy below it, if there is one.

    metrics_path: a JSON object per line, with "epoch" or "step", "loss" and optionally "test_loss", "test_accuracy" (0 to 1)
    and the like.
    loss_name: the name of the training loss, if it is another function than the test loss.
    Returns None, or one line that says why nothing was drawn.
    """
    rows = read_rows(Path(metrics_path))
    figure = curve_figure(rows, title or Path(metrics_path).parent.name, loss_name)
    if figure is None:
        return f"no training curve: {metrics_path} has no losses yet"
    save_png(figure, png_path)
    return None


def curve_figure(rows: list[dict[str, Any]], title: str, loss_name: str = "loss") -> Any:
    """The figure of training_curve for rows of metrics; None if they hold no losses."""
    losses = [row for row in rows if "loss" in row]
    if not losses:
        return None
    figures = figure_module("the training curve")
    counter = "epoch" if "epoch" in losses[0] else "step"
    accuracies = [(key, what) for key, what in ACCURACIES if any(key in row for row in rows)]
    figure = figures.Figure(figsize=(7, 6 if accuracies else 4), dpi=150, layout="constrained")
    panels = figure.subplots(2 if accuracies else 1, sharex=True, squeeze=False)[:, 0]
    _draw_losses(panels[0], rows, counter, loss_name)
    if accuracies:
        _draw_accuracies(panels[1], rows, counter, accuracies)
    for axes in panels:
        plain_axes(axes)
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    panels[-1].set_xlabel(counter)
    figure.suptitle(title, fontsize=11)
    return figure


def _draw_losses(axes: Any, rows: list[dict[str, Any]], counter: str, loss_name: str) -> None:
    """Draws the losses, on a logarithmic axis if they fall far, and marks the epoch with the lowest test loss."""
    values: list[float] = []
    for key, what, color in LOSSES:
        found = [row for row in rows if key in row]
        if not found:
            continue
        label = f"{what} {loss_name if key == 'loss' else 'loss'}"
        dotted = key != "loss" and len(found) == 1
        x, y = [row[counter] for row in found], [row[key] for row in found]
        axes.plot(x, y, color=color, label=label, marker="o" if dotted or len(found) == 1 else None)
        values += y
        if key != "loss" and len(found) > 1:
            best = min(found, key=lambda row: row[key])
            told = f"best: {best[key]:.4g} at {counter} {best[counter]}"
            axes.plot(best[counter], best[key], "o", color=color, markersize=7, fillstyle="none", label=told)
    if min(values) > 0 and max(values) > FALLS * min(values):
        axes.set_yscale("log")
    elif min(values) >= 0:
        axes.set_ylim(bottom=0)
    axes.set_ylabel("loss")
    axes.legend(frameon=False, fontsize=9)


def _draw_accuracies(
    axes: Any, rows: list[dict[str, Any]], counter: str, accuracies: Sequence[tuple[str, str]]
) -> None:
    for (key, what), color in zip(accuracies, ("tab:orange", "tab:green", "0.5"), strict=False):
        found = [row for row in rows if key in row]
        percent = [100 * row[key] for row in found]
        label = f"{what}: {percent[-1]:.1f} % at the end, {max(percent):.1f} % at best"
        marker = "o" if len(found) == 1 else None
        axes.plot([row[counter] for row in found], percent, color=color, label=label, marker=marker)
    axes.set_ylabel("accuracy, %")
    axes.margins(y=0.1)
    axes.set_ylim(top=min(101.0, axes.get_ylim()[1]))
    axes.legend(frameon=False, fontsize=9, loc="lower right")


def figure_module(purpose: str) -> ModuleType:
    """matplotlib.figure. Raises a MissingPackageError that names `purpose`."""
    with without(
        "MPLBACKEND"
    ):  # of a notebook or another program; files need none, and a foreign one may not exist here
        require("matplotlib", "plots", purpose)
        return require("matplotlib.figure", "plots", purpose)


def save_png(figure: Any, path: str | Path) -> None:
    """Write a figure as a PNG. `figure.savefig` draws it twice: once for nothing but the layout, which the drawing makes, too."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # there, as the figure is

    FigureCanvasAgg(figure).print_png(path)


def plain_axes(axes: Any) -> None:
    """A pale grid, and no frame above and to the right."""
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
