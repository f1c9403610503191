"""Circuits gate by gate on packed bits: short, independent of every rewriting, the reference for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .errors import CircuitError
from .kinds import apply
from .packing import as_bits, pack_last, unpack_last

if TYPE_CHECKING:
    from .circuit import Circuit

BLOCK = 1 << 21  # words of intermediate values at a time


def evaluate_words(circuit: Circuit, words: np.ndarray) -> np.ndarray:
    """Words (inputs, n) of uint64 to words (outputs, n): bit by bit, each output of the inputs at the same place."""
    result = np.empty((len(circuit.outputs), words.shape[1]), np.uint64)
    width = max(1, BLOCK // circuit.wires)
    for start in range(0, words.shape[1], width):
        part = words[:, start : start + width]
        result[:, start : start + width] = _evaluate_block(circuit, part)
    return result


def _evaluate_block(circuit: Circuit, words: np.ndarray) -> np.ndarray:
    values = np.empty((circuit.wires, words.shape[1]), np.uint64)
    values[: circuit.inputs] = words
    for wire, (kind, a, b) in enumerate(circuit.gates(), circuit.inputs):
        values[wire] = apply(kind, values[a], values[b])
    return values[circuit.outputs]


def evaluate_bits(circuit: Circuit, bits: np.ndarray) -> np.ndarray:
    """Bits (..., inputs) to bool (..., outputs)."""
    array = as_bits(bits, "evaluate")
    if array.ndim == 0 or array.shape[-1] != circuit.inputs:
        raise CircuitError(
            f"[evaluate] bits have shape {array.shape}; the last axis holds the {circuit.inputs} inputs."
        )
    rows = array.reshape(-1, circuit.inputs)
    words = evaluate_words(circuit, pack_last(rows.T))
    return unpack_last(words, len(rows)).T.reshape(*array.shape[:-1], len(circuit.outputs))
