"""The classical methods of contact prediction, as baselines. In: a family's alignment. Out: scores (length_a, length_b).

Gaps and unknown residues are a 21st state. Sequences are weighted at 80 % identity. Average-product correction (APC; Dunn et
al., 2008) is used where it is usual.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import shadergrad as sg

from .families import Family, FamilyError, sequence_weights

__all__ = ["apc", "mean_field", "mutual_information", "pseudo_likelihood"]

STATES = 21


def apc(scores: np.ndarray) -> np.ndarray:
    """Scores (a, b) less the product of their row and column means over the mean of all (Dunn et al., 2008).

    >>> sg.models.coevolution.dca.apc(np.array([[1.0, 2.0], [2.0, 4.0]]))  # nothing but a product
    array([[0., 0.],
           [0., 0.]])
    """
    rows, columns = scores.mean(1, keepdims=True), scores.mean(0, keepdims=True)
    mean = scores.mean()
    return scores - (rows * columns / mean if mean else 0.0)


def _one_hot(rows: np.ndarray) -> np.ndarray:
    """Tokens (n, length) as float64 (n, length * 21), what is no amino acid in state 20."""
    return np.eye(STATES)[np.minimum(rows, STATES - 1)].reshape(len(rows), -1)


def _frequencies(family: Family, pseudocount: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (n,), and frequencies of one (length * 21,) and two (length * 21, length * 21) states."""
    if not family.aligned:
        raise FamilyError(f"[dca] {family.name} is not aligned: its columns mean nothing. Hint: align it first.")
    rows = family.joined()
    weights = sequence_weights(rows)
    hot = _one_hot(rows)
    share = weights / weights.sum()
    single, double = share @ hot, hot.T @ (hot * share[:, None])
    length = rows.shape[1]
    single = (1 - pseudocount) * single + pseudocount / STATES
    double = (1 - pseudocount) * double + pseudocount / STATES**2
    if pseudocount:  # a column with itself: never two states at once
        for k in range(length):
            block = slice(k * STATES, (k + 1) * STATES)
            double[block, block] = np.diag(single[block])
    return weights, single, double


def mutual_information(family: Family, correct: bool = True) -> np.ndarray:
    """The mutual information of columns of a with columns of b, in nats; with `correct`, its APC. Dunn et al., 2008.

    >>> rows = np.array([[0], [1]], np.uint8)
    >>> sg.models.coevolution.dca.mutual_information(sg.models.coevolution.Family("", rows, rows), correct=False)
    array([[0.69314718]])
    """
    _, single, double = _frequencies(family, 0.0)
    length_a, length_b = family.shape
    joint = double.reshape(length_a + length_b, STATES, -1, STATES)[:length_a, :, length_a:, :]
    single = single.reshape(-1, STATES)
    product = single[:length_a, :, None, None] * single[None, None, length_a:, :]
    ratio = np.divide(joint, product, out=np.ones_like(joint), where=joint > 0)
    scores = (joint * np.log(ratio)).sum((1, 3))
    return apc(scores) if correct else scores


def mean_field(family: Family, pseudocount: float = 0.5) -> np.ndarray:
    """Mean-field direct couplings: minus the inverse of the covariance, Frobenius norms, APC. Morcos et al., 2011.

    >>> rows = np.random.default_rng(0).integers(0, 20, (50, 4)).astype(np.uint8)
    >>> scores = sg.models.coevolution.dca.mean_field(sg.models.coevolution.Family("", rows[:, :2], rows))
    >>> scores.shape, bool(scores[0].argmax() == 0)
    ((2, 4), True)
    """
    _, single, double = _frequencies(family, pseudocount)
    covariance = double - np.outer(single, single)
    kept = np.arange(len(single)) % STATES < STATES - 1  # the last state follows from the others
    length = len(single) // STATES
    couplings = np.zeros((length, STATES, length, STATES))
    inverse = -np.linalg.inv(covariance[np.ix_(kept, kept)])
    couplings[:, : STATES - 1, :, : STATES - 1] = inverse.reshape(length, STATES - 1, length, STATES - 1)
    return _between(couplings, family)


def _between(couplings: np.ndarray, family: Family) -> np.ndarray:
    """Couplings (length, 21, length, 21) to scores of a with b: zero-sum gauge, Frobenius norms without gaps, APC."""
    length_a = family.shape[0]
    block = couplings[:length_a, :, length_a:, :]
    block = block - block.mean(1, keepdims=True) - block.mean(3, keepdims=True) + block.mean((1, 3), keepdims=True)
    return apc(np.sqrt(np.square(block[:, : STATES - 1, :, : STATES - 1]).sum((1, 3))))


def pseudo_likelihood(
    family: Family, device: str = "cpu", regularization: float = 0.01, steps: int = 100, lr: float = 0.1
) -> np.ndarray:
    """Couplings that make each residue likely given all others, by shadergrad's Adam; then as `mean_field`. Ekeberg et al., 2013.

    The symmetric form: one coupling for each pair of columns and states, of the mean over sequences, - sum_i log P(x_i | rest)
    + regularization (sum of squares of couplings / 2 + of fields).
    steps: Adam's steps; its rate falls from lr to 0 as a cosine. The step is compiled once per shape of an alignment.

    >>> physics = sg.models.coevolution.Physics(coupling=1.0, lengths=(6, 6))
    >>> family = sg.models.coevolution.sample_family("one", np.random.default_rng(0), physics, depth=200)
    >>> scores = sg.models.coevolution.dca.pseudo_likelihood(family)
    >>> round(sg.models.coevolution.precision_at(scores, family.contacts, 5), 1)
    1.0
    """
    if not family.aligned:
        raise FamilyError(f"[dca] {family.name} is not aligned: its columns mean nothing. Hint: align it first.")
    rows = family.joined()
    weights = sequence_weights(rows)
    length = rows.shape[1]
    fit = _Fit(length, device, lr)
    hot = sg.tensor(_one_hot(rows).astype(np.float32), device=device)
    share = sg.tensor((weights / weights.sum()).astype(np.float32), device=device)
    penalty = sg.tensor(np.float32(regularization), device=device)
    for k in range(steps):
        fit.optimizer.param_groups[0]["lr"] = lr * (1 + np.cos(np.pi * k / steps)) / 2
        fit.step(hot, share, penalty)
    couplings = fit.couplings.detach().numpy().astype(np.float64)
    couplings = (couplings + couplings.T) / 2
    return _between(couplings.reshape(length, STATES, length, STATES), family)


class _Fit:
    """Fields and couplings of a Potts model, and the step that improves them."""

    def __init__(self, length: int, device: str, lr: float) -> None:
        size = length * STATES
        self.couplings = sg.zeros(size, size, device=device, requires_grad=True)
        self.fields = sg.zeros(size, device=device, requires_grad=True)
        self.optimizer = sg.optim.Adam([self.couplings, self.fields], lr=lr)
        others = sg.tensor(_others(length), device=device)

        @sg.compile
        def step(hot: sg.Tensor, share: sg.Tensor, penalty: sg.Tensor) -> sg.Tensor:
            self.optimizer.zero_grad()
            j = (self.couplings + self.couplings.t()) * 0.5 * others
            logits = (hot @ j + self.fields).reshape(-1, length, STATES)
            likelihood = (logits.log_softmax(2) * hot.reshape(-1, length, STATES)).sum((1, 2))
            squares = j.square().sum() * 0.25 + self.fields.square().sum()  # each pair stands twice in j
            loss = -(likelihood * share).sum() + penalty * squares
            loss.backward()
            self.optimizer.step()
            return loss.detach()

        self.step: Any = step


@cache
def _others(length: int) -> np.ndarray:
    """0 where a column is coupled with itself, else 1: float32 (length * 21, length * 21)."""
    return np.kron(1.0 - np.eye(length), np.ones((STATES, STATES))).astype(np.float32)
