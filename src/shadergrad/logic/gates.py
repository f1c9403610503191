"""The sixteen gates of two inputs, relaxed. A 4-bit number identifies a gate, and four coefficients define a mixture of gates.

In: logits (..., 16). Out: coefficients (..., 4), with which a gate's value is c0 + c1 a + c2 b + c3 ab.

A gate's number is its truth table f(0,0) f(0,1) f(1,0) f(1,1) read as four bits, f(0,0) the highest. The one function that
agrees with the table at the corners and is linear in a and in b is, on all of [0, 1]^2,

    f00 (1-a)(1-b) + f01 (1-a) b + f10 a (1-b) + f11 ab,

and sorting by powers gives c0 = f00, c1 = f10 - f00, c2 = f01 - f00, c3 = f00 - f01 - f10 + f11. Coefficients are linear in the
gate, so a mixture with probabilities p (16) has the coefficients p @ COEFFICIENTS: three multiply-adds replace the evaluation
of sixteen gates. Source: "Deep Differentiable Logic Gate Networks" (Petersen and others, 2022) has the sixteen-way form.
"""

from __future__ import annotations

import numpy as np

import shadergrad as sg

from ..errors import ShapeError
from .circuit.gate_kinds import NAMES as NAMES

GATES = len(NAMES)
PASS_THROUGH = NAMES.index("A")

TABLES = (np.arange(GATES)[:, None] >> np.arange(3, -1, -1) & 1).astype(np.float32)
"""(16, 4): f(0,0), f(0,1), f(1,0), f(1,1) of each gate."""

_EXPANSION = np.array([[1, -1, -1, 1], [0, 0, 1, -1], [0, 1, 0, -1], [0, 0, 0, 1]], np.float32)

COEFFICIENTS = TABLES @ _EXPANSION
"""(16, 4): c0, c1, c2, c3 of each gate."""


def coefficients(logits: sg.Tensor) -> sg.Tensor:
    """The coefficients (..., 4) of the mixture softmax(logits), logits (..., 16). Raises ShapeError for another last axis.

    >>> sg.logic.gates.coefficients(sg.zeros(16))  # all gates alike: half of them are 1, whatever a and b
    tensor([0.5, 0. , 0. , 0. ])
    """
    _check_logits("coefficients", logits)
    return logits.softmax(-1) @ _table_like(logits)


def hard_coefficients(logits: sg.Tensor) -> sg.Tensor:
    """The coefficients (..., 4) of the most likely gate, the first on ties; logits (..., 16). No gradient.

    Raises ShapeError for another last axis.

    >>> sg.logic.gates.hard_coefficients(sg.arange(16.0))  # gate 15 is TRUE
    tensor([1., 0., 0., 0.])
    """
    _check_logits("hard_coefficients", logits)
    return _table_like(logits)[logits.detach().argmax(-1)]


def straight_through(logits: sg.Tensor) -> sg.Tensor:
    """The coefficients (..., 4) of the most likely gate, with the gradient of the mixture (Bengio and others, 2013).

    logits (..., 16); ShapeError for another last axis.

    >>> logits = sg.zeros(16, requires_grad=True)
    >>> coefficients = sg.logic.gates.straight_through(logits)
    >>> coefficients[0].backward()
    >>> coefficients.tolist(), logits.grad[0].item()  # gate 0 is FALSE; 1/16 of a softmax, times (0 - 1/2)
    ([0.0, 0.0, 0.0, 0.0], -0.03125)
    """
    soft = coefficients(logits)
    return hard_coefficients(logits) + (soft - soft.detach())


def evaluate(coefficients: sg.Tensor, a: sg.Tensor, b: sg.Tensor) -> sg.Tensor:
    """c0 + c1 a + c2 b + c3 ab; coefficients (*gates, 4), a and b broadcast with (*gates).

    Raises ShapeError if the last axis is not 4.

    >>> xor = sg.tensor([0.0, 1.0, 1.0, -2.0])
    >>> sg.logic.gates.evaluate(xor, sg.tensor([0.0, 1.0, 0.5]), sg.tensor([1.0, 1.0, 0.0]))
    tensor([1. , 0. , 0.5])
    """
    if not coefficients.ndim or coefficients.shape[-1] != 4:
        raise ShapeError(f"[gates] coefficients are {tuple(coefficients.shape)}; the last axis must have 4.")
    c0, c1, c2, c3 = (coefficients[..., k] for k in range(4))
    return c0 + c1 * a + (c2 + c3 * a) * b


def _check_logits(what: str, logits: sg.Tensor) -> None:
    if not logits.ndim or logits.shape[-1] != GATES:
        raise ShapeError(f"[{what}] logits are {tuple(logits.shape)}; the last axis must have {GATES}, one a gate.")


def _table_like(logits: sg.Tensor) -> sg.Tensor:
    return sg.tensor(COEFFICIENTS, dtype=logits.dtype, device=logits.device)
