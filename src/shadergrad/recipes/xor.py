"""Exclusive or, the smallest problem that needs a hidden layer: an MLP 2-8-1, AdamW.

Its four points are repeated, so that an epoch is a hundred steps and not one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.train import Position, Recipe, Settings, Trainable
from shadergrad.train.plots import figure_module, or_the_reason
from shadergrad.train.prediction import Prediction

POINTS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
TARGETS = np.array([[0], [1], [1], [0]], np.float32)
REPEATS = 100
PICTURE, GRID = "surface.png", 81


def network(_: object = None) -> nn.Sequential:
    """From points [batch, 2] to answers [batch, 1]."""
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed."""
    model = network().to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr, weight_decay=0.0)

    def step(points: Tensor, targets: Tensor) -> Tensor:
        """One update on points [batch, 2] and targets [batch, 1]; the loss is a scalar."""
        optimizer.zero_grad()
        loss = F.mse_loss(model(points), targets)
        loss.backward()
        optimizer.step()
        return loss

    def answers() -> np.ndarray:
        with sg.no_grad():
            return model(sg.tensor(POINTS, device=device)).numpy()

    def evaluate() -> dict[str, float]:
        """Loss and accuracy on the four points."""
        found = answers()
        right = (found > 0.5) == (TARGETS > 0.5)
        return {"test_loss": float(((found - TARGETS) ** 2).mean()), "test_accuracy": float(right.mean())}

    def show(_: Position) -> list[str]:
        """The four answers, and a picture of the network's output between them."""
        side = np.linspace(-0.5, 1.5, GRID, dtype=np.float32)
        grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
        with sg.no_grad():
            surface = model(sg.tensor(grid, device=device)).numpy().reshape(GRID, GRID)
        complaint = draw_surface(surface, settings.out / PICTURE)
        return [
            *([complaint] if complaint else []),
            *(f"{int(a)} xor {int(b)} = {found:.3f}" for (a, b), (found,) in zip(POINTS, answers(), strict=True)),
        ]

    data = (np.tile(POINTS, (REPEATS, 1)), np.tile(TARGETS, (REPEATS, 1)))
    return Trainable(model, optimizer, data, step, evaluate, show)


@or_the_reason
def draw_surface(surface: np.ndarray, path: Path) -> str | None:
    """The answers [GRID, GRID] from -0.5 to 1.5, and the four points. Returns None, or one line that says why nothing was drawn."""
    figure = figure_module("the decision surface").Figure(figsize=(5, 4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    shown = axes.imshow(surface, origin="lower", extent=(-0.5, 1.5, -0.5, 1.5), cmap="RdBu", vmin=-0.5, vmax=1.5)
    if surface.min() < 0.5 < surface.max():
        side = np.linspace(-0.5, 1.5, GRID)
        axes.contour(side, side, surface, levels=[0.5], colors="black", linewidths=1)
    for (a, b), (wanted,) in zip(POINTS, TARGETS, strict=True):
        axes.plot(a, b, "o", color="white", markeredgecolor="black", markersize=12)
        axes.text(a, b, f"{wanted:g}", ha="center", va="center", fontsize=9)
    axes.set_xlabel("a")
    axes.set_ylabel("b")
    axes.set_title("a xor b: what the network says, its border at 0.5", fontsize=11)
    figure.colorbar(shown)
    figure.savefig(path)
    return None


RECIPE = Recipe(
    "Exclusive or: four points, an MLP 2-8-1, AdamW.",
    build,
    defaults={"epochs": 20, "batch_size": 4, "lr": 1e-2},
    predict=Prediction(network),
)
