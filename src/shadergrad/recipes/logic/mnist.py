"""Shared parts of the recipes that classify MNIST by gates: the data as bytes, training, evaluation by bits, and the classifier's files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data import MNIST
from shadergrad.logic import harden
from shadergrad.logic.circuit import DeviceClassifier, save
from shadergrad.train import Option, Position, Settings, Trainable, TrainingError, WarmUpCosine

SIDE, CLASSES = 28, 10
FLOOR = 0.02  # of the learning rate, at the end of its fall
AT_ONCE = 1000  # test images
CLASSIFIER = "classifier.json"

DATA = (
    Option("data", Path, "The folder with the data set's folder.", shown="SHADERGRAD_DATA_DIR", may_change=True),
    Option("mirror", str, "The address to fetch missing files from.", shown="SHADERGRAD_DATA_MIRROR", may_change=True),
)


def gates(thresholds: int, strength: float) -> tuple[Option, ...]:
    """The options of bits and gates, two of which have other defaults in each recipe."""
    return (
        Option("thresholds", int, "Bits of a pixel, by thresholds that are evenly spaced.", thresholds),
        Option("tau", float, "What the votes for a class are divided by."),
        Option("parametrisation", str, "The numbers that stand for a gate: softmax, light or walsh.", "softmax"),
        Option("strength", float, "How strongly gates pass an input on at first.", strength),
        Option("wiring", str, "The wires of the layers: random, balanced, or learned.", "random"),
        Option("mode", str, "How gates compute in training: soft, straight-through, gumbel or gumbel-hard.", "soft"),
        Option("shift", int, "Pixels by which each training image is moved at random, at most, along both axes.", 1),
    )


def read(settings: Settings, rim: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels, test images and labels. Images are bytes [n, 1, side, side], without `rim` pixels at each edge;
    those for training have --shift pixels more there, blank ones outside of the data's, into which `moved` moves.

    Raises DataError if there are no files.
    """
    train, test = (
        MNIST(settings["data"], train=part, download=True, mirror=settings["mirror"]) for part in (True, False)
    )
    images = _framed(train.images, settings["shift"] - rim), _framed(test.images, -rim)
    return images[0], train.labels, images[1], test.labels


def _framed(images: np.ndarray, more: int) -> np.ndarray:
    """Images [n, 28 * 28] as [n, 1, side, side], with `more` blank pixels at each edge, or with fewer pixels."""
    images = images.reshape(-1, 1, SIDE, SIDE)
    if more > 0:
        return np.pad(images, ((0, 0), (0, 0), (more, more), (more, more)))
    inside = slice(-more, SIDE + more)
    return np.ascontiguousarray(images[..., inside, inside])


def moved(images: Tensor, shift: int) -> Tensor:
    """Of each image [batch, 1, side + 2 shift, side + 2 shift] a part of side x side, somewhere."""
    if not shift:
        return images
    batch, wide = len(images), images.shape[-1]
    side = wide - 2 * shift
    corner = sg.randint(2 * shift + 1, (2, batch, 1, 1), device=images.device)
    along = sg.arange(side, device=images.device)
    places = (corner[0] + along[:, None]) * wide + corner[1] + along
    return images.reshape(batch, -1).gather(1, places.reshape(batch, -1)).reshape(batch, 1, side, side)


def check(values: Any, *names: str) -> None:
    """Raises TrainingError for a size below 1, or a shift that leaves nothing."""
    for name in (*names, "thresholds"):
        if values[name] < 1:
            raise TrainingError(f"--{name} is {values[name]}; it must be at least 1.")
    if not 0 <= values["shift"] < SIDE:
        raise TrainingError(f"--shift is {values['shift']}; it must be from 0 to {SIDE - 1}.")


def gate_options(values: Any) -> dict[str, Any]:
    """The options of a layer by those of the command."""
    return {name: values[name] for name in ("parametrisation", "strength", "mode")}


def shares(model: nn.Module, images: np.ndarray) -> np.ndarray:
    """The shares of votes [n, 10] of a model in eval() for bytes [n, ...]."""
    with sg.no_grad():
        found = model(sg.tensor(images, device=next(model.parameters()).device).float()).numpy()
    return found / np.maximum(1e-6, found.sum(1, keepdims=True))


def bytes_of(images: np.ndarray, rim: int = 0) -> np.ndarray:
    """Images [n, 784] from 0 to 1 as those that `read` gives."""
    inside = slice(rim, SIDE - rim)
    return np.rint(255 * images.reshape(-1, 1, SIDE, SIDE)[..., inside, inside]).astype(np.uint8)


def trainable(settings: Settings, device: str, model: nn.Sequential, data: tuple[np.ndarray, ...]) -> Trainable:
    """The training of a Thermometer, gates and a GroupSum on `device`; data: those of `read`."""
    images, labels, test_images, test_labels = data
    model.to(device)
    optimizer = sg.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=settings.lr)
    tests = sg.tensor(test_images, device=device)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        """One update on bytes [batch, 1, side, side], framed by the shift, and labels [batch]; the loss is a scalar."""
        optimizer.zero_grad()
        loss = F.cross_entropy(model(moved(images, settings["shift"]).float()), labels)
        loss.backward()
        optimizer.step()
        return loss

    def scores() -> np.ndarray:
        with sg.no_grad():
            parts = [model(tests[k : k + AT_ONCE].float()) for k in range(0, len(test_images), AT_ONCE)]
            return sg.cat(parts).numpy()

    def evaluate() -> dict[str, float]:
        """Loss and accuracy on the test images: of the bits, which is what the circuit says, and the accuracy of the mixtures."""
        soft = float((scores().argmax(1) == test_labels).mean())
        model.eval()
        found = scores()
        model.train()
        loss = F.cross_entropy(sg.tensor(found), sg.tensor(test_labels)).item()
        return {
            "test_loss": loss,
            "test_accuracy": float((found.argmax(1) == test_labels).mean()),
            "soft_accuracy": soft,
        }

    def show(_: Position) -> Iterable[str]:
        """The classifier's file, checked on the test images, and a summary."""
        classifier = harden(model)
        save(classifier, settings.out / CLASSIFIER)
        runner = DeviceClassifier(classifier, "cpu")
        found = np.concatenate(
            [runner.predict(test_images[k : k + AT_ONCE]) for k in range(0, len(test_images), AT_ONCE)]
        )
        hard, soft = float((found == test_labels).mean()), evaluate()["soft_accuracy"]
        yield (
            f"hard accuracy {100 * hard:.2f} % by the circuit, soft accuracy {100 * soft:.2f} %, "
            f"{len(classifier.circuit):,} gates; {CLASSIFIER} holds thresholds, gates and counts"
        )

    epoch = -(-len(images) // settings.batch_size)
    schedule = WarmUpCosine(0, (settings.epochs or 1) * epoch, FLOOR)
    return Trainable(model, optimizer, (images, labels), step, evaluate, show, schedule=schedule)


def next_commands(settings: Settings) -> list[str]:
    """What to do with the classifier's file."""
    return [f"shadergrad logic export {shlex.quote(str(settings.out / CLASSIFIER))} verilog"]
