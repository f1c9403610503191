"""MNIST: 28x28 handwritten digits, an MLP 784-128-10, AdamW. Test accuracy at least 95 % after the first epochs.

The files come from the folder --data, or from the mirror --mirror; see `shadergrad.data.MNIST`.
"""

from __future__ import annotations

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn

from ..data.images import MNIST
from .task import Settings, Task


def build(settings: Settings, device: str) -> Task:
    """The task on `device`, its weights random from the current seed. Raises DataError where there are no files."""
    train, test = (
        MNIST(settings.own.get("data"), train=part, download=True, mirror=settings.own.get("mirror"))
        for part in (True, False)
    )
    images, pixels = (part.images.reshape(len(part), -1).astype(np.float32) / 255 for part in (train, test))
    test_images, test_labels = sg.tensor(pixels, device=device), sg.tensor(test.labels, device=device)

    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        """One update on images [batch, 784] and labels [batch]; the loss is a scalar."""
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    def evaluate() -> dict[str, float]:
        """Loss and accuracy on the test images."""
        with sg.no_grad():
            logits = model(test_images)
            loss = F.cross_entropy(logits, test_labels).item()
        return {"test_loss": loss, "test_accuracy": float((logits.numpy().argmax(axis=1) == test.labels).mean())}

    return Task(model, optimizer, (images, train.labels), step, evaluate)
