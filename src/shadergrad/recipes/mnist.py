"""MNIST: 28x28 handwritten digits, an MLP 784-128-10, AdamW. Test accuracy at least 95 % after the first epochs.

The files come from the folder --data, from the mirror --mirror, or from the official ones; see `shadergrad.data.MNIST`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data import MNIST
from shadergrad.train import BACKWARD, Option, Prediction, Recipe, Settings, Trainable, TrainingStep
from shadergrad.train.prediction import classify_images, known_digits, probabilities


def network(_: Any = None) -> nn.Module:
    """Logits [batch, 10] of images [batch, 784]."""
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed. Raises DataError if there are no files."""
    train, test = (
        MNIST(settings["data"], train=part, download=True, mirror=settings["mirror"]) for part in (True, False)
    )
    images, pixels = (part.images.reshape(len(part), -1).astype(np.float32) / 255 for part in (train, test))
    test_images, test_labels = sg.tensor(pixels, device=device), sg.tensor(test.labels, device=device)

    model = network().to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        """The loss of images [batch, 784] and labels [batch]; a scalar."""
        return F.cross_entropy(model(images), labels)

    step = TrainingStep.of(settings, model, optimizer, loss)

    def evaluate() -> dict[str, float]:
        """Loss and accuracy on the test images."""
        with sg.no_grad():
            logits = model(test_images)
            loss = F.cross_entropy(logits, test_labels).item()
        return {"test_loss": loss, "test_accuracy": float((logits.numpy().argmax(axis=1) == test.labels).mean())}

    return Trainable(model, optimizer, (images, train.labels), step, evaluate)


RECIPE = Recipe(
    "MNIST: 70,000 images of 28x28 pixels, an MLP 784-128-10, AdamW.",
    build,
    defaults={"epochs": 5, "batch_size": 128, "lr": 1e-3},
    options=(
        *BACKWARD,
        Option("data", Path, "The folder with the data set's folder.", shown="SHADERGRAD_DATA_DIR", may_change=True),
        Option(
            "mirror", str, "The address to fetch missing files from.", shown="SHADERGRAD_DATA_MIRROR", may_change=True
        ),
    ),
    predict=Prediction(network, classify_images(28, probabilities, known_digits)),
)
