"""A classifier run on a device by tensors: 32 images a word, two gathers and a few bit operations a layer.

In: images, or words of bits that are on the device already. Out: classes. A gate is its algebraic normal form
c0 ^ (c1 & a) ^ (c2 & b) ^ (c3 & a & b), whose coefficients are words of zeros or ones, so all gates of a layer are one expression.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import shadergrad as sg

from ...dtypes import int32
from .bit_packing import pack_last
from .classifier import CircuitClassifier
from .errors import CircuitError, check_kind
from .level_schedule import layers_of

WORD = 32
POSITIONS = 1 << 31  # of a tensor, also of one that is never stored: the bits of the last layer


class DeviceClassifier:
    """A CircuitClassifier on a device, with the same `votes`, `scores` and `predict`.

    device: "webgpu" or "cpu". `words` packs images; `classify` gives the classes of packed images without leaving the device.

    >>> circuit = sg.logic.circuit.Circuit(2, [(1, 0, 1), (14, 0, 1)], [2, 3])
    >>> runner = sg.logic.circuit.DeviceClassifier(sg.logic.circuit.CircuitClassifier(circuit, 2), device="cpu")
    >>> runner.predict([[1, 1], [0, 1]]).tolist()
    [0, 1]
    """

    def __init__(self, classifier: CircuitClassifier, device: str = "webgpu") -> None:
        check_kind(classifier, CircuitClassifier, "DeviceClassifier")
        self.classifier, self.device = classifier, device
        self._layers = [
            (sg.tensor(wires, device=device), sg.tensor(_normal_forms(kinds), device=device), len(kinds))
            for kinds, *wires in layers_of(classifier.circuit)
        ]
        self._places = sg.tensor(np.arange(WORD, dtype=np.int32), device=device)
        # apart from the counts, so that the outputs are stored as words: their bits are 32 times as large
        self._gates: Any = sg.compile(self._outputs)
        self._count: Any = sg.compile(self._votes)
        self._classify: Any = sg.compile(lambda outputs: self._votes(outputs).argmax(0))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, as in another process, has tensors and steps of its own."""
        return DeviceClassifier, (self.classifier, self.device)

    def words(self, images: Any) -> sg.Tensor:
        """Images (n, ...) as words int32 (inputs, n / 32, rounded up) on the device: image 32 k + j is bit j of word k."""
        bits = self.classifier.encode(images)
        packed = pack_last(np.ascontiguousarray(bits.T)).astype("<u8").view("<i4")
        return sg.tensor(packed[:, : -(-len(bits) // WORD)].copy(), device=self.device)

    def classify(self, words: sg.Tensor) -> sg.Tensor:
        """The classes of words (inputs, k): (32 k,) on the device. Raises CircuitError for another shape or dtype."""
        if words.ndim != 2 or words.shape[0] != self.classifier.circuit.inputs or words.dtype is not int32:
            raise CircuitError(
                f"[classify] words are {words.dtype.name} {tuple(words.shape)}; int32 ({self.classifier.circuit.inputs}, k) is needed."
            )
        return self._in_parts(self._classify, words)

    def votes(self, images: Any) -> np.ndarray:
        """The counts (n, classes) of ones, int64."""
        words = self.words(images)
        if not words.numel():
            return np.zeros((0, self.classifier.classes), np.int64)
        return self._in_parts(self._count, words).numpy().T[: len(images)].astype(np.int64)

    def scores(self, images: Any) -> np.ndarray:
        """The votes divided by tau, float32 (n, classes)."""
        return (self.votes(images) / self.classifier.tau).astype(np.float32)

    def predict(self, images: Any) -> np.ndarray:
        """The classes (n,) with the most votes, the first of equals, int64."""
        words = self.words(images)
        if not words.numel():
            return np.zeros(0, np.int64)
        return self.classify(words).numpy()[: len(images)].astype(np.int64)

    def _in_parts(self, run: Any, words: sg.Tensor) -> sg.Tensor:
        """run(outputs of the gates), in parts: the outputs of one have at most POSITIONS bits."""
        gates = self.classifier.classes * self.classifier.group
        most = max(1, (POSITIONS - 1) // (gates * WORD))
        starts = range(0, max(1, words.shape[1]), most)
        parts = [run(self._gates(words.narrow(1, k, min(most, words.shape[1] - k)))) for k in starts]
        return parts[0] if len(parts) == 1 else sg.cat(parts, -1)

    def _outputs(self, words: sg.Tensor) -> sg.Tensor:
        """The outputs (gates, k) of the last layer for words (inputs, k)."""
        x = words
        for wires, forms, _ in self._layers:
            a, b = x.index_select(0, wires[0]), x.index_select(0, wires[1])
            c0, c1, c2, c3 = (forms[k].unsqueeze(1) for k in range(4))
            x = c0 ^ (c1 & a) ^ (c2 & b) ^ (c3 & a & b)
        return x

    def _votes(self, outputs: sg.Tensor) -> sg.Tensor:
        """The counts (classes, 32 k) of ones among outputs (gates, k)."""
        classes, group = self.classifier.classes, self.classifier.group
        bits = (outputs.unsqueeze(-1) >> self._places) & 1
        return bits.reshape(classes, group, outputs.shape[1] * WORD).sum(1)


def _normal_forms(kinds: np.ndarray) -> np.ndarray:
    """The coefficients c0, c1 (of a), c2 (of b) and c3 (of both) of gates as words of zeros or ones: int32 (4, n)."""
    f00, f01, f10, f11 = (kinds >> k & 1 for k in (3, 2, 1, 0))
    return -np.stack([f00, f00 ^ f10, f00 ^ f01, f00 ^ f01 ^ f10 ^ f11]).astype(np.int32)
