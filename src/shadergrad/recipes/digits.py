"""The digit classifier: 8x8 handwritten digits, an MLP 64-128-64-10, AdamW. Test accuracy at least 97 %.

The targets are smoothed (a tenth of their weight spread evenly over the classes), which is worth more than a percent on
this small data set: https://arxiv.org/abs/1512.00567, section 7.
"""

from __future__ import annotations

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data import load_digits
from shadergrad.train import BACKWARD, Recipe, Settings, Trainable, TrainingStep

SMOOTHING = 0.1


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed."""
    train_images, train_labels, test_images, test_labels = load_digits()

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        """Of images [batch, 64] and labels [batch], a scalar."""
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

    return Trainable(model, optimizer, (train_images, train_labels), step, evaluate)


RECIPE = Recipe(
    "Handwritten digits: 1,797 images of 8x8 pixels, an MLP 64-128-64-10, AdamW.",
    build,
    defaults={"epochs": 40, "batch_size": 64, "lr": 3e-3},
    options=BACKWARD,
)
