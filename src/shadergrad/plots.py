"""Pictures of a training run. In: metrics.jsonl. Out: a PNG.

matplotlib is imported on use, without a display; it comes with the extra `plots`.
"""

from __future__ import annotations

import json
from pathlib import Path

from .optional import MissingPackageError, require


def training_curve(metrics_path: str | Path, png_path: str | Path) -> str | None:
    """Draw training loss and test accuracy over epochs.

    metrics_path: a JSON object a line, with "epoch", "loss" and, where there is one, "test_accuracy" (0 to 1).
    Returns None, or one line that says why nothing was drawn: a run does not fail for want of a picture.
    """
    try:
        require("matplotlib", "plots", "the training curve")
        figures = require("matplotlib.figure", "plots", "the training curve")
    except MissingPackageError as error:
        return str(error)
    rows = [json.loads(line) for line in Path(metrics_path).read_text(encoding="utf-8").splitlines()]
    if not rows:
        return f"no training curve: {metrics_path} has no epochs yet"

    figure = figures.Figure(figsize=(7, 4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    _line(axes, rows, "loss", "training loss", "tab:blue")
    axes.set_xlabel("epoch")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines["top"].set_visible(False)
    if any("test_accuracy" in row for row in rows):
        right = axes.twinx()
        percent = [{**row, "test_accuracy": 100 * row["test_accuracy"]} for row in rows if "test_accuracy" in row]
        _line(right, percent, "test_accuracy", "test accuracy, %", "tab:orange")
        last = percent[-1]
        right.annotate(
            f"{last['test_accuracy']:.1f} %",
            (last["epoch"], last["test_accuracy"]),
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


def _line(axes, rows: list[dict], key: str, label: str, color: str) -> None:
    marker = "o" if len(rows) == 1 else None
    axes.plot([row["epoch"] for row in rows], [row[key] for row in rows], color=color, marker=marker)
    axes.set_ylabel(label, color=color)
    axes.tick_params(axis="y", labelcolor=color)
