"""Gate by gate on packed bits: short, independent of every rewriting, the reference for the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .gate_kinds import apply

BLOCK = 1 << 21  # words of intermediate values at a time


def evaluate_words(gates: Sequence[tuple[int, int, int]], outputs: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Words (inputs, n) of uint64 to words (outputs, n): bit by bit, each output of the inputs at the same place.

    gates: (kind, a, b) in topological order, of wires: the inputs, then the gates. outputs: which wires come out.
    """
    result = np.empty((len(outputs), words.shape[1]), np.uint64)
    width = max(1, BLOCK // (len(words) + len(gates)))
    for start in range(0, words.shape[1], width):
        part = words[:, start : start + width]
        result[:, start : start + width] = _evaluate_block(gates, part)[outputs]
    return result


def _evaluate_block(gates: Sequence[tuple[int, int, int]], words: np.ndarray) -> np.ndarray:
    """The words of all wires."""
    inputs = len(words)
    values = np.empty((inputs + len(gates), words.shape[1]), np.uint64)
    values[:inputs] = words
    for wire, (kind, a, b) in enumerate(gates, inputs):
        values[wire] = apply(kind, values[a], values[b])
    return values
