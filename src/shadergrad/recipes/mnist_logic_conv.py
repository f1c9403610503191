"""MNIST by convolutions of gates: three of them with trees of depth 3 and pooling by OR, two layers of gates, a count for each class.

--channels is the number of the first convolution's trees; the second has three times, the third nine times as many. Hardened to a classifier
whose file `shadergrad logic` reads. The files come from the folder --data, from the mirror --mirror, or from the official ones.
Source: "Convolutional Differentiable Logic Gate Networks" (Petersen and others, 2024), whose sizes these are, but for smaller dense layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shadergrad import nn
from shadergrad.logic import GroupSum, LogicConv2d, LogicNetwork, OrPool2d, Thermometer
from shadergrad.train import Option, Prediction, Recipe, Settings, Trainable
from shadergrad.train.prediction import classify_images, known_digits

from .logic import mnist

PIXELS = mnist.SIDE**2
DENSE = (640, 320)  # gates of the layers behind the convolutions, for each of the first convolution's channels
VOTES = 80  # of a class, for a tau of 1


def network(values: Any) -> nn.Sequential:
    """Scores [batch, 10] of pixels [batch, 1, 28, 28] from 0 to 255, wired by the seed."""
    mnist.check(values, "channels")
    k, bits, seed = values["channels"], values["thresholds"], values["seed"]
    options = mnist.gate_options(values)
    sizes = (81 * k, *(n * k for n in DENSE))
    return nn.Sequential(
        Thermometer(PIXELS, bits, 0.0, 255.0, mode="hard", learned=False, image=(1, mnist.SIDE, mnist.SIDE)),
        LogicConv2d(bits, k, 5, depth=3, seed=seed, **options),
        OrPool2d(2),
        LogicConv2d(k, 3 * k, 3, depth=3, padding=1, seed=seed + 1, **options),
        OrPool2d(2),
        LogicConv2d(3 * k, 9 * k, 3, depth=3, padding=1, seed=seed + 2, **options),
        OrPool2d(2),
        nn.Flatten(),
        LogicNetwork(sizes, values["wiring"], "residual", seed=seed, **options),
        GroupSum(mnist.CLASSES, values["tau"] or sizes[-1] / mnist.CLASSES / VOTES),
    )


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its wires random from the seed. Raises DataError if there are no files."""
    return mnist.trainable(settings, device, network(settings), mnist.read(settings))


def votes(model: nn.Module, images: np.ndarray, _: Any) -> np.ndarray:
    """The shares of votes [n, 10] for images [n, 784]."""
    return mnist.shares(model, mnist.bytes_of(images))


RECIPE = Recipe(
    "MNIST by convolutions of logic gates, pooling by OR, two layers of gates, counting. Adam.",
    build,
    defaults={"epochs": 150, "batch_size": 100, "lr": 3e-2},
    options=(
        Option("channels", int, "Trees of the first convolution.", 64),
        *mnist.gates(thresholds=1, strength=4.0),
        *mnist.DATA,
    ),
    predict=Prediction(network, classify_images(mnist.SIDE, votes, known_digits, sure=1.0)),
    then=mnist.next_commands,
)
