"""What the pictures of runs show: both losses, the best epoch, whole numbers of epochs; read from the figure."""

from __future__ import annotations

import json
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from shadergrad.recipes.logic.plots import convergence_plot
from shadergrad.train.plots import training_curve


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every figure that is written to a file."""
    figures: list[Any] = []
    write = FigureCanvasAgg.print_png

    @wraps(write)  # matplotlib reads its signature
    def spy(self: FigureCanvasAgg, *args: Any, **kwargs: Any) -> None:
        figures.append(self.figure)
        write(self, *args, **kwargs)

    monkeypatch.setattr(FigureCanvasAgg, "print_png", spy)
    return figures


def curve(folder: Path, rows: list[dict[str, Any]], **options: str) -> None:
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert training_curve(path, folder / "curve.png", **options) is None
    assert (folder / "curve.png").exists()


ROWS = [{"epoch": k, "loss": 2.0 / k, "test_loss": 1 + (k - 3) ** 2 / 9, "test_accuracy": k / 10} for k in range(1, 6)]


def test_both_losses_are_in_one_panel_and_the_best_epoch_is_marked(tmp_path: Path, drawn: list[Any]) -> None:
    curve(tmp_path, ROWS, title="mine", loss_name="loss, of smoothed labels")
    losses, accuracy = drawn[0].axes
    labels = [text.get_text() for text in losses.get_legend().get_texts()]
    assert labels == ["training loss, of smoothed labels", "test loss", "best: 1 at epoch 3"]
    marked = losses.lines[2]
    assert (list(marked.get_xdata()), list(marked.get_ydata())) == ([3], [1.0])
    assert "50.0 % at the end" in accuracy.get_legend().get_texts()[0].get_text()
    assert list(accuracy.lines[0].get_ydata()) == pytest.approx([10, 20, 30, 40, 50])
    assert drawn[0].get_suptitle() == "mine"


@pytest.mark.parametrize(("last", "scale"), [(0.5, "linear"), (1e-6, "log"), (-1.0, "linear")])
def test_the_axis_is_logarithmic_where_the_loss_falls_far(
    last: float, scale: str, tmp_path: Path, drawn: list[Any]
) -> None:
    curve(tmp_path, [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": last}])
    assert drawn[0].axes[0].get_yscale() == scale


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_epochs_are_whole_numbers(count: int, tmp_path: Path, drawn: list[Any]) -> None:
    curve(tmp_path, ROWS[:count])
    drawn[0].canvas.draw()
    axes = drawn[0].axes[-1]
    low, high = axes.get_xlim()
    assert all(float(tick).is_integer() for tick in axes.get_xticks() if low <= tick <= high)


def test_a_study_in_which_nothing_converged_says_so(tmp_path: Path, drawn: list[Any]) -> None:
    assert convergence_plot([], 5, 1000, tmp_path / "study.png") is None
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["none of 5 seeds converged in 1,000 steps"]
