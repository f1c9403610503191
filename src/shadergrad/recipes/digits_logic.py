"""The digit classifier of logic gates: thresholds, three layers of 2,000 gates, a count for each class, Adam.

Each pixel is compared with three thresholds; of the bits that the last layer gives, a tenth votes for each class. Trained
as mixtures of gates, hardened to a circuit, which has a test accuracy of at least 93 %.
Source: "Deep Differentiable Logic Gate Networks" (Petersen and others, 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data import load_digits
from shadergrad.logic import GroupSum, LogicNetwork, Thermometer
from shadergrad.logic.circuit import Circuit, CircuitClassifier, count_gates, equivalent, histogram, minimize, save
from shadergrad.train import Position, Prediction, Recipe, Settings, Trainable
from shadergrad.train.prediction import classify_images, known_digits

from .logic.circuit_files import write_circuit
from .logic.plots import gate_plot

CLASSES, PIXELS = 10, 64
THRESHOLDS = 3  # of a pixel
LAYERS = (2000, 2000, 2000)
TAU = 10.0  # votes of 200 gates are as many as logits of 20


def network(shared: Any) -> nn.Sequential:
    """Mixtures of gates and their counts, wired by the seed: logits [batch, 10] of bits [batch, 192]."""
    sizes = (PIXELS * THRESHOLDS, *LAYERS)
    return nn.Sequential(
        LogicNetwork(sizes, wiring="random", init="gaussian", seed=shared["seed"]), GroupSum(CLASSES, TAU)
    )


def votes(model: nn.Module, images: np.ndarray, _: Any) -> np.ndarray:
    """The hardened circuit's shares of votes [n, 10] for images [n, 64]."""
    bits = Thermometer(PIXELS, THRESHOLDS, mode="hard", learned=False)(sg.tensor(images)).numpy()
    gates = model[0].harden().evaluate(bits > 0.5)  # type: ignore[index]
    counts = gates.reshape(len(bits), CLASSES, -1).sum(-1)
    return counts / np.maximum(1, counts.sum(1, keepdims=True))


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its wires and weights random from the seed."""
    train_images, train_labels, test_images, test_labels = load_digits()
    encode = Thermometer(PIXELS, THRESHOLDS, mode="hard", learned=False)
    train_bits, test_bits = (encode(sg.tensor(images)).numpy() for images in (train_images, test_images))

    sizes = (PIXELS * THRESHOLDS, *LAYERS)
    network = LogicNetwork(sizes, wiring="random", init="gaussian", seed=settings.seed, device=device)
    model = nn.Sequential(network, GroupSum(CLASSES, TAU))
    optimizer = sg.optim.Adam(model.parameters(), lr=settings.lr)

    def step(bits: Tensor, labels: Tensor) -> Tensor:
        """One update on bits [batch, 192] and labels [batch]; the loss is a scalar."""
        optimizer.zero_grad()
        loss = F.cross_entropy(model(bits), labels)
        loss.backward()
        optimizer.step()
        return loss

    inputs, labels = sg.tensor(test_bits, device=device), sg.tensor(test_labels, device=device)

    def hard_accuracy(circuit: Circuit) -> float:
        return float((classify(circuit, test_bits) == test_labels).mean())

    def evaluate() -> dict[str, float]:
        """Loss and accuracy on the test images: of the circuit, and of the mixtures of gates."""
        with sg.no_grad():
            logits = model(inputs)
            loss = F.cross_entropy(logits, labels).item()
        soft = float((logits.numpy().argmax(axis=1) == test_labels).mean())
        return {"test_loss": loss, "test_accuracy": hard_accuracy(network.harden()), "soft_accuracy": soft}

    def show(_: Position) -> list[str]:
        """The files of the circuit, and a summary."""
        hardened = network.harden()
        small = minimize(hardened)
        same = equivalent(hardened, small, patches=1 << 17)
        write_circuit(settings.out, hardened, small, "digits")
        limits = Thermometer(PIXELS, THRESHOLDS).thresholds.detach().numpy()
        save(CircuitClassifier(small, CLASSES, limits, TAU), settings.out / "classifier.json")
        complaint = gate_plot(histogram(hardened), histogram(small), settings.out / "gates.png")
        counts = count_gates(hardened)
        lines = [
            f"soft accuracy {100 * evaluate()['soft_accuracy']:.2f} %, hard accuracy {100 * hard_accuracy(small):.2f} % "
            f"by the simplified circuit (beside the hardened one: {same})",
            f"gates: {counts.all} in all, {counts.active} active, {counts.reachable} reachable, "
            f"{counts.minimized} simplified; circuit.json, .c, .v, .wgsl, .dot, hardened.json, and classifier.json with "
            "thresholds and counts",
        ]
        (settings.out / "report.md").write_text(_report(settings, lines, pictured=not complaint), encoding="utf-8")
        return lines + ([complaint] if complaint else [])

    return Trainable(model, optimizer, (train_bits, train_labels), step, evaluate, show)


def classify(circuit: Circuit, bits: np.ndarray) -> np.ndarray:
    """The classes (n,) with the most votes for bits (n, 192) of 0 and 1; the first on ties."""
    votes = circuit.evaluate(bits > 0.5).reshape(len(bits), CLASSES, -1).sum(-1)
    return votes.argmax(-1)


def _report(settings: Settings, lines: list[str], pictured: bool) -> str:
    layers = ", ".join(map(str, LAYERS))
    head = (
        f"{PIXELS} pixels with {THRESHOLDS} thresholds each, layers of {layers} gates, {CLASSES} counts; "
        f"{settings.epochs} epochs, batch {settings.batch_size}, Adam with learning rate {settings.lr}, "
        f"seed {settings.seed}."
    )
    text = ["# digits-logic", "", head, "", *(f"- {line}" for line in lines)]
    if pictured:
        text += ["", "![gates by kind](gates.png)"]
    return "\n".join(text) + "\n"


RECIPE = Recipe(
    "The digits by logic gates alone: thresholds, three layers of 2,000 gates, counting. Adam.",
    build,
    defaults={"epochs": 40, "batch_size": 96, "lr": 2e-2},
    predict=Prediction(network, classify_images(8, votes, known_digits, sure=1.0)),
)
