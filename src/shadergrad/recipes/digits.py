"""The digit classifier: 8x8 handwritten digits, an MLP 64-128-64-10, AdamW. Test accuracy at least 97 %.

The targets are smoothed (a tenth of their weight spread evenly over the classes), which is worth more than a percent on
this small data set: https://arxiv.org/abs/1512.00567, section 7.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data import load_digits
from shadergrad.train import BACKWARD, Prediction, Recipe, Settings, Trainable, TrainingStep
from shadergrad.train.prediction import classify_images, known_digits, probabilities

SMOOTHED = "loss, of smoothed labels"  # which is never 0, and so above that of the test
SMOOTHING = 0.1


def network(_: Any = None) -> nn.Module:
    """Logits [batch, 10] of images [batch, 64]."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


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
        digits_page(folder, settings, model, step, {"name": "0.weight", "side": 8, "across": 16}, compared=300)

    return Trainable(model, optimizer, (train_images, train_labels), step, evaluate, page=page, loss_name=SMOOTHED)


def digits_page(
    folder: Path,
    settings: Settings,
    model: nn.Module,
    step: Any,
    weights: dict[str, Any],
    compared: int = 0,
    title: str = "Handwritten digits, learned in your browser",
) -> None:
    """A page that trains a classifier of the digits, and lets the visitor draw some.

    weights: which ones the page draws: their name, the side of a square, and how many squares stand side by side.
    compared: so many steps are run by a page in its folder `compare`, on the CPU too; 0: there is no such page.
    """
    train_images, train_labels, test_images, test_labels = load_digits()

    @sg.compile
    def train(images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": step(images, labels)}

    @sg.compile
    def predict(images: Tensor) -> Tensor:
        with sg.no_grad():
            return model(images)

    n = settings.batch_size
    example = sg.tensor(train_images[:n]), sg.tensor(train_labels[:n])
    data = {"images": train_images, "labels": train_labels}
    if compared:
        sg.web.export(
            train,
            folder / "compare",
            *example,
            title="What is your GPU worth?",
            text="The same training step, from the same weights on the same batches: first on this GPU, then on this CPU as plain "
            "JavaScript. Their losses agree; the time they take does not.",
            data=data,
            page="compare",
            settings={"steps": compared},
        )
    sg.web.export(
        train,
        folder,
        *example,
        title=title,
        text="The network begins with random weights and learns from 1,437 small pictures while you watch: draw a digit at any "
        "moment and see what it has understood so far.",
        programs={"predict": (predict, sg.tensor(test_images)), "classify": (predict, sg.tensor(test_images[:1]))},
        data=data | {"test_images": test_images, "test_labels": test_labels},
        page="digits",
        settings={
            "batch": n,
            "weights": weights,
            "steps": 2000,
            "links": {"compare/": "What is your GPU worth? The same step on this CPU"} if compared else {},
        },
    )


RECIPE = Recipe(
    "Handwritten digits: 1,797 images of 8x8 pixels, an MLP 64-128-64-10, AdamW.",
    build,
    defaults={"epochs": 40, "batch_size": 64, "lr": 3e-3},
    options=BACKWARD,
    predict=Prediction(network, classify_images(8, probabilities, known_digits)),
)
