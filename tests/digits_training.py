"""Training of logic layers on the digits. In: a function that makes them. Out: the accuracy of the hardened layers on test images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import shadergrad as sg
from shadergrad import nn, optim
from shadergrad.data import load_digits
from shadergrad.logic import GroupSum, Thermometer

BITS = 192  # of an image, three a pixel


def hard_accuracy(make: Callable[[], nn.Module], tau: float, rate: float, steps: int = 200, batch: int = 64) -> float:
    """make: layers from BITS inputs to a multiple of ten outputs, under a seed of their own. tau: of GroupSum. rate: Adam's."""
    images, labels, test_images, test_labels = load_digits()
    encode = Thermometer(64, 3, mode="hard", learned=False)
    bits, test_bits = (encode(sg.tensor(x)).numpy() for x in (images, test_images))
    sg.manual_seed(0)
    model = nn.Sequential(make(), GroupSum(10, tau))
    optimizer = optim.Adam(model.parameters(), lr=rate)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    for _ in range(steps):
        rows = rng.integers(0, len(bits), batch)
        step(sg.tensor(bits[rows]), sg.tensor(labels[rows]))
    return float((model.eval()(sg.tensor(test_bits)).numpy().argmax(-1) == test_labels).mean())
