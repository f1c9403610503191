"""A hardened classifier as one object: thresholds, a circuit, and counts of votes for each class.

In: images (n, ...), numbers or bits. Out: classes (n,), or scores (n, classes). `sg.logic.harden` makes one of a trained Sequential.
This file is the reference, in NumPy; native_classifier.py and device_classifier.py run the same object faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .circuit import Circuit
from .errors import CircuitError
from .minimize import minimize


@dataclass(frozen=True, eq=False)
class CircuitClassifier:
    """`CircuitClassifier(circuit, classes, thresholds, tau)`: the class whose group of outputs has the most ones.

    circuit: outputs in `classes` equal groups, side by side. thresholds (numbers, bits), float32: input i * bits + k of the circuit is
    1 if number i of an image is above threshold k; None: images are bits, one an input. tau: divides the counts.
    Raises CircuitError for outputs that do not part into groups, thresholds that do not fit the inputs, and a tau that is not positive.

    >>> circuit = sg.logic.circuit.Circuit(2, [(1, 0, 1), (14, 0, 1)], [2, 3])  # AND votes for class 0, NAND for class 1
    >>> classifier = sg.logic.circuit.CircuitClassifier(circuit, 2, np.array([[0.5], [0.5]]))
    >>> classifier.predict([[0.9, 0.7], [0.9, 0.2]]).tolist()
    [0, 1]
    """

    circuit: Circuit
    classes: int
    thresholds: np.ndarray | None = None
    tau: float = 1.0

    def __post_init__(self) -> None:
        outputs, inputs = len(self.circuit.outputs), self.circuit.inputs
        if not isinstance(self.classes, int | np.integer) or isinstance(self.classes, bool):
            raise CircuitError(f"[CircuitClassifier] classes is {self.classes!r}; a number of classes is needed.")
        if self.classes < 1 or outputs % self.classes:
            raise CircuitError(
                f"[CircuitClassifier] {outputs} outputs do not part into {self.classes} equal groups, one a class."
            )
        if not self.tau > 0:
            raise CircuitError(f"[CircuitClassifier] tau is {self.tau}; it must be positive.")
        if self.thresholds is not None:
            limits = np.ascontiguousarray(self.thresholds, np.float32)
            if limits.ndim != 2 or limits.size != inputs:
                raise CircuitError(
                    f"[CircuitClassifier] thresholds are {limits.shape}, for {limits.size} bits; the circuit has {inputs} inputs."
                )
            limits.setflags(write=False)
            object.__setattr__(self, "thresholds", limits)

    @property
    def numbers(self) -> int:
        """How many numbers, or bits, an image has."""
        return self.circuit.inputs if self.thresholds is None else len(self.thresholds)

    @property
    def group(self) -> int:
        """How many outputs vote for a class."""
        return len(self.circuit.outputs) // self.classes

    def rows(self, images: Any, what: str = "predict") -> np.ndarray:
        """Images as an array (n, numbers): float32 or uint8, and with no thresholds uint8 of 0 and 1. Raises CircuitError."""
        array = np.asarray(images.numpy() if hasattr(images, "numpy") else images)
        size = int(np.prod(array.shape[1:])) if array.ndim > 1 else 0
        if array.ndim < 2 or size != self.numbers:
            raise CircuitError(
                f"[{what}] images have shape {array.shape}; (n, ...) with {self.numbers} numbers an image is needed."
                + (" Hint: one image is images[None]." if array.size == self.numbers else "")
            )
        array = array.reshape(len(array), size)
        if array.dtype.kind not in "biuf":
            raise CircuitError(f"[{what}] images have dtype {array.dtype}; numbers are needed.")
        if self.thresholds is not None:
            return np.ascontiguousarray(array, np.uint8 if array.dtype in (np.uint8, bool) else np.float32)
        if not ((array == 0) | (array == 1)).all():
            raise CircuitError(
                f"[{what}] images hold other values than 0 and 1, and this classifier has no thresholds.\n"
                "  Hint: put a Thermometer first in the Sequential that is hardened, or encode the images before."
            )
        return np.ascontiguousarray(array, np.uint8)

    def encode(self, images: Any) -> np.ndarray:
        """The circuit's inputs as bool (n, inputs)."""
        rows = self.rows(images, "encode")
        if self.thresholds is None:
            return rows.astype(bool)
        return (rows[:, :, None] > self.thresholds).reshape(len(rows), self.circuit.inputs)

    def votes(self, images: Any) -> np.ndarray:
        """The counts (n, classes) of ones, int64."""
        found = self.circuit.evaluate(self.encode(images))
        return found.reshape(len(found), self.classes, self.group).sum(-1)

    def scores(self, images: Any) -> np.ndarray:
        """The votes divided by tau: the outputs of the hardened network, float32 (n, classes)."""
        return (self.votes(images) / self.tau).astype(np.float32)

    def predict(self, images: Any) -> np.ndarray:
        """The classes (n,) with the most votes, the first of equals, int64."""
        return self.votes(images).argmax(-1)

    def minimized(self) -> CircuitClassifier:
        """The same classifier with fewer gates. The runners fold constants and wires themselves and need no minimized circuit."""
        return replace(self, circuit=minimize(self.circuit))

    def __repr__(self) -> str:
        bits = "bits" if self.thresholds is None else f"numbers of {self.thresholds.shape[1]} bits"
        return f"CircuitClassifier({self.numbers} {bits}, {len(self.circuit)} gates, {self.classes} classes)"
