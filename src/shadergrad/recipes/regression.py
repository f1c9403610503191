"""A straight line through noisy points: y = 2x + 3, a Linear(1, 1), SGD. The weight and bias found are printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.train import Position, Recipe, Settings, Trainable
from shadergrad.train.plots import figure_module, or_the_reason, plain_axes
from shadergrad.train.prediction import Prediction

PICTURE = "line.png"
WEIGHT, BIAS = 2.0, 3.0
POINTS, NOISE = 256, 0.02


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (POINTS, 1)).astype(np.float32)
    y = (WEIGHT * x + BIAS + NOISE * rng.standard_normal((POINTS, 1))).astype(np.float32)

    model = nn.Linear(1, 1).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=settings.lr)

    def step(x: Tensor, y: Tensor) -> Tensor:
        """One update on x and y [batch, 1]; the loss is a scalar."""
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def evaluate() -> dict[str, float]:
        """The line so far."""
        values = model.state_dict()
        return {name: values[name].item() for name in ("weight", "bias")}

    def show(_: Position) -> list[str]:
        line = evaluate()
        complaint = draw_line(x, y, line["weight"], line["bias"], settings.out / PICTURE)
        return [
            *([complaint] if complaint else []),
            f"weight {line['weight']:.4f} (of {WEIGHT:g}), bias {line['bias']:.4f} (of {BIAS:g})",
        ]

    return Trainable(model, optimizer, (x, y), step, evaluate, show)


@or_the_reason
def draw_line(x: np.ndarray, y: np.ndarray, weight: float, bias: float, path: Path) -> str | None:
    """The points [n, 1] and the line that was found. Returns None, or one line that says why nothing was drawn."""
    figure = figure_module("the picture of the line").Figure(figsize=(6, 4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.plot(x, y, ".", color="0.6", markersize=4, label=f"{len(x)} points")
    ends = np.array([-1.0, 1.0])
    axes.plot(ends, weight * ends + bias, color="tab:orange", label=f"y = {weight:.3f} x + {bias:.3f}")
    axes.set_xlabel("x")
    axes.set_ylabel("y")
    axes.set_title("regression: data and line", fontsize=11)
    axes.legend(frameon=False)
    plain_axes(axes)
    figure.savefig(path)
    return None


RECIPE = Recipe(
    "A straight line: y = 2x + 3 from noisy points, SGD.",
    build,
    defaults={"epochs": 100, "batch_size": 32, "lr": 0.1},
    predict=Prediction(lambda _: nn.Linear(1, 1)),
)
