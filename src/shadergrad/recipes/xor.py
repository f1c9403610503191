"""Exclusive or, the smallest problem that needs a hidden layer: an MLP 2-8-1, AdamW.

Its four points are repeated, so that an epoch is a hundred steps and not one.
"""

from __future__ import annotations

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.train import Position, Recipe, Settings, Trainable

POINTS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
TARGETS = np.array([[0], [1], [1], [0]], np.float32)
REPEATS = 100


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed."""
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
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
        """The four answers."""
        return [f"{int(a)} xor {int(b)} = {found:.3f}" for (a, b), (found,) in zip(POINTS, answers(), strict=True)]

    data = (np.tile(POINTS, (REPEATS, 1)), np.tile(TARGETS, (REPEATS, 1)))
    return Trainable(model, optimizer, data, step, evaluate, show)


RECIPE = Recipe(
    "Exclusive or: four points, an MLP 2-8-1, AdamW.",
    build,
    defaults={"epochs": 20, "batch_size": 4, "lr": 1e-2},
)
