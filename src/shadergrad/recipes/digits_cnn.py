"""The digit classifier with convolutions: 32 and 64 channels, a pooling, 128 features. Test accuracy at least 98.5 %."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data import load_digits
from shadergrad.train import BACKWARD, Prediction, Recipe, Settings, Trainable, TrainingStep
from shadergrad.train.prediction import classify_images, known_digits, probabilities

from .digits import digits_page

SMOOTHED = "loss, of smoothed labels"  # which is never 0, and so above that of the test
SMOOTHING = 0.1  # as in the recipe of the perceptron


def network(_: Any = None) -> nn.Module:
    """Logits [batch, 10] of images [batch, 64]."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed."""
    train_images, train_labels, test_images, test_labels = load_digits()
    model = network().to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        """The loss of images [batch, 64] and labels [batch]; a scalar."""
        return F.cross_entropy(model(images), labels, label_smoothing=SMOOTHING)

    step = TrainingStep.of(settings, model, optimizer, loss)

    images, labels = sg.tensor(test_images, device=device), sg.tensor(test_labels, device=device)

    def evaluate() -> dict[str, float]:
        """Loss (not smoothed) and accuracy on the test images."""
        with sg.no_grad():
            logits = model(images)
            loss = F.cross_entropy(logits, labels).item()
        accuracy = float((logits.numpy().argmax(axis=1) == test_labels).mean())
        return {"test_loss": loss, "test_accuracy": accuracy}

    def page(folder: Path) -> None:
        title = "A convolutional network learns digits in your browser"
        digits_page(folder, settings, model, step, {"name": "1.weight", "side": 3, "across": 8}, 60, title)

    return Trainable(model, optimizer, (train_images, train_labels), step, evaluate, page=page, loss_name=SMOOTHED)


RECIPE = Recipe(
    "The digits with two convolutions, a pooling and 128 features, AdamW.",
    build,
    defaults={"epochs": 30, "batch_size": 64, "lr": 1e-3},
    options=BACKWARD,
    predict=Prediction(network, classify_images(8, probabilities, known_digits)),
)
