"""An autoencoder on the 8x8 digits: 64 pixels through 8 numbers and back, MSE, AdamW. Draws digits and their reconstructions.

Hinton and Salakhutdinov: "Reducing the dimensionality of data with neural networks", Science 313, 2006.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data import load_digits
from shadergrad.data.drawn_characters import read_drawing
from shadergrad.train import BACKWARD, Position, Prediction, Recipe, Settings, Trainable, TrainingStep
from shadergrad.train.plots import figure_module, or_the_reason

PICTURE = "reconstructions.png"
SHOWN = 10  # a digit of each class


def network(_: Any = None) -> nn.Module:
    """Images [batch, 64] of images [batch, 64]."""
    encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())
    return nn.Sequential(encoder, decoder)


def answer(model: nn.Module, _: Any, paths: list[Path], out: Path) -> Iterable[str]:
    """The reconstruction error of each image, and a picture of both."""
    images = np.stack([read_drawing(path, 8).ravel() for path in paths])
    with sg.no_grad():
        back = model(sg.tensor(images, device=next(model.parameters()).device)).numpy()
    for path, error in zip(paths, ((back - images) ** 2).mean(axis=1), strict=True):
        yield f"{path}: error {error:.5f} (mean square of a pixel)"
    yield draw_pairs(images, back, out / PICTURE) or f"in {out}: {PICTURE}"


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed."""
    train_images, _, test_images, test_labels = load_digits()

    model = network().to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)

    def loss(images: Tensor) -> Tensor:
        """The loss of images [batch, 64]; a scalar."""
        return F.mse_loss(model(images), images)

    step = TrainingStep.of(settings, model, optimizer, loss)

    def reconstruct(images: np.ndarray) -> np.ndarray:
        with sg.no_grad():
            return model(sg.tensor(images, device=device)).numpy()

    def evaluate() -> dict[str, float]:
        """The mean squared error on the test images."""
        return {"test_loss": float(((reconstruct(test_images) - test_images) ** 2).mean())}

    def show(_: Position) -> list[str]:
        first = [int(np.flatnonzero(test_labels == k)[0]) for k in range(SHOWN)]
        images = test_images[first]
        complaint = draw_pairs(images, reconstruct(images), settings.out / PICTURE)
        return [
            f"test error {evaluate()['test_loss']:.5f} (mean square of a pixel)",
            *([complaint] if complaint else []),
        ]

    return Trainable(model, optimizer, (train_images,), step, evaluate, show)


@or_the_reason
def draw_pairs(images: np.ndarray, reconstructions: np.ndarray, path: Path) -> str | None:
    """Digits [n, 64] above their reconstructions. Returns None, or one line that says why nothing was drawn."""
    figures = figure_module("the picture of reconstructions")
    n = len(images)
    figure = figures.Figure(figsize=(0.8 * n + 0.8, 2), dpi=150, layout="constrained")
    panels = figure.subplots(2, n, squeeze=False)
    for told, pixels, row in (("given", images, panels[0]), ("back", reconstructions, panels[1])):
        row[0].set_ylabel(told)
        for digit, axes in zip(pixels.reshape(-1, 8, 8), row, strict=True):
            axes.imshow(digit, cmap="gray_r", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[], frame_on=False)
    figure.savefig(path)
    return None


RECIPE = Recipe(
    "Digits through 8 numbers and back: an MLP 64-32-8-32-64, with a picture of what comes back.",
    build,
    defaults={"epochs": 60, "batch_size": 32, "lr": 3e-3},
    options=BACKWARD,
    predict=Prediction(network, answer),
)
