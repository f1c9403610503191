"""MNIST by logic gates: thresholds, six layers of 8,000 gates, a count for each class, Adam with a falling learning rate.

The network sees the inner 20x20 pixels, which hold the digit. Hardened to a classifier whose file `shadergrad logic` reads.
The files come from the folder --data, from the mirror --mirror, or from the official ones; see `shadergrad.data.MNIST`.
Source: "Deep Differentiable Logic Gate Networks" (Petersen and others, 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shadergrad import nn
from shadergrad.logic import GroupSum, LogicNetwork, Thermometer
from shadergrad.train import Option, Prediction, Recipe, Settings, Trainable
from shadergrad.train.prediction import classify_images, known_digits

from .logic import mnist

RIM = 4
PIXELS = (mnist.SIDE - 2 * RIM) ** 2
VOTES = 80  # of a class, for a tau of 1: the usual tau is 10 for 800 votes


def network(values: Any) -> nn.Sequential:
    """Scores [batch, 10] of pixels [batch, 1, 20, 20] from 0 to 255, wired by the seed."""
    mnist.check(values, "width", "layers")
    width, bits = mnist.CLASSES * -(-values["width"] // mnist.CLASSES), values["thresholds"]
    sizes = (PIXELS * bits, *[width] * values["layers"])
    tau = values["tau"] or width / mnist.CLASSES / VOTES
    side = mnist.SIDE - 2 * RIM
    return nn.Sequential(
        Thermometer(PIXELS, bits, 0.0, 255.0, mode="hard", learned=False, image=(1, side, side)),
        nn.Flatten(),
        LogicNetwork(sizes, values["wiring"], "residual", seed=values["seed"], **mnist.gate_options(values)),
        GroupSum(mnist.CLASSES, tau),
    )


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its wires random from the seed. Raises DataError if there are no files."""
    return mnist.trainable(settings, device, network(settings), mnist.read(settings, RIM))


def votes(model: nn.Module, images: np.ndarray, _: Any) -> np.ndarray:
    """The shares of votes [n, 10] for images [n, 784]."""
    return mnist.shares(model, mnist.bytes_of(images, RIM))


RECIPE = Recipe(
    "MNIST by logic gates alone: thresholds, six layers of 8,000 gates, counting. Adam.",
    build,
    defaults={"epochs": 150, "batch_size": 100, "lr": 5e-2},
    options=(
        Option("width", int, "Gates of a layer, rounded up to a multiple of ten.", 8000),
        Option("layers", int, "Layers of gates.", 6),
        *mnist.gates(thresholds=3, strength=3.0),
        *mnist.DATA,
    ),
    predict=Prediction(network, classify_images(mnist.SIDE, votes, known_digits, sure=1.0)),
    then=mnist.next_commands,
)
