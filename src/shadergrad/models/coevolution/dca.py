"""The classical methods of contact prediction, as baselines. In: a family's alignment. Out: scores (length_a, length_b).

Gaps and unknown residues are a 21st state. Sequences are weighted at 80 % identity. Average-product correction (APC; Dunn et
al., 2008) is used where it is usual. The direct couplings also score columns of one chain: `mean_field_maps` and `pseudo_likelihood_maps`.

On a device, for n sequences and L columns of both chains, the weights take 2 n^2 22 L floating point operations, mean_field
2 n (20 L)^2 for the covariance and 8/3 (20 L)^3 for its inverse, a step of pseudo_likelihood 4 n (21 L)^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import shadergrad as sg

from .families import Family, FamilyError, sequence_weights
from .positive_inverse import positive_inverse
from .similarity import hot_rows

__all__ = [
    "Maps",
    "apc",
    "mean_field",
    "mean_field_maps",
    "mutual_information",
    "pseudo_likelihood",
    "pseudo_likelihood_maps",
]

STATES = 21
KEPT = STATES - 1  # the last state follows from the others


@dataclass(frozen=True)
class Maps:
    """Scores of all pairs of columns: between the chains (length_a, length_b), and within each, symmetric, NaN on the diagonal.

    >>> rows = np.random.default_rng(0).integers(0, 20, (9, 3)).astype(np.uint8)
    >>> found = sg.models.coevolution.dca.mean_field_maps(sg.models.coevolution.Family("", rows[:, :2], rows))
    >>> found.between.shape, found.within_a.shape, found.within_b.shape
    ((2, 3), (2, 2), (3, 3))
    """

    between: np.ndarray
    within_a: np.ndarray
    within_b: np.ndarray

    @classmethod
    def of(cls, norms: np.ndarray, length_a: int) -> Maps:
        """The maps from norms (L, L) of couplings, with a separate average-product correction of each."""
        norms = norms.astype(np.float64)
        inner = [apc_within(norms[part, part]) for part in (slice(None, length_a), slice(length_a, None))]
        return cls(apc(norms[:length_a, length_a:]), *inner)


def apc(scores: np.ndarray) -> np.ndarray:
    """Scores (a, b) less the product of their row and column means over the mean of all (Dunn et al., 2008).

    >>> sg.models.coevolution.dca.apc(np.array([[1.0, 2.0], [2.0, 4.0]]))  # nothing but a product
    array([[0., 0.],
           [0., 0.]])
    """
    rows, columns = scores.mean(1, keepdims=True), scores.mean(0, keepdims=True)
    mean = scores.mean()
    return scores - (rows * columns / mean if mean else 0.0)


def apc_within(scores: np.ndarray) -> np.ndarray:
    """The same for a symmetric map (n, n), whose diagonal does not count and becomes NaN."""
    length = len(scores)
    found = np.where(np.eye(length, dtype=bool), 0.0, scores)
    rows = found.sum(1) / max(length - 1, 1)
    mean = rows.mean()
    found = found - (np.outer(rows, rows) / mean if mean else 0.0)
    np.fill_diagonal(found, np.nan)
    return found


def _one_hot(rows: np.ndarray) -> np.ndarray:
    """Tokens (n, length) as float64 (n, length * 21); all but amino acids are state 20."""
    return np.eye(STATES)[np.minimum(rows, STATES - 1)].reshape(len(rows), -1)


def _checked_rows(family: Family) -> np.ndarray:
    """The rows of both chains, (n, L). Raises FamilyError if they are not aligned."""
    if not family.aligned:
        raise FamilyError(f"[dca] {family.name} is not aligned: its columns mean nothing. Hint: align it first.")
    return family.joined()


def _frequencies(family: Family, pseudocount: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (n,), and frequencies of one (length * 21,) and two (length * 21, length * 21) states."""
    rows = _checked_rows(family)
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


def mean_field(family: Family, pseudocount: float = 0.5, device: str | None = None) -> np.ndarray:
    """Mean-field direct couplings: minus the inverse of the covariance, Frobenius norms, APC. Morcos et al., 2011.

    device: where it is computed, in float32; by default on the host, in float64. Raises FamilyError if the family is not aligned, or if its
    covariance has no inverse, as without a pseudocount.

    >>> rows = np.random.default_rng(0).integers(0, 20, (50, 4)).astype(np.uint8)
    >>> scores = sg.models.coevolution.dca.mean_field(sg.models.coevolution.Family("", rows[:, :2], rows))
    >>> scores.shape, bool(scores[0].argmax() == 0)
    ((2, 4), True)
    """
    return mean_field_maps(family, pseudocount, device).between


def mean_field_maps(family: Family, pseudocount: float = 0.5, device: str | None = None) -> Maps:
    """The scores of mean_field between the chains and within each.

    >>> rows = np.random.default_rng(0).integers(0, 20, (50, 4)).astype(np.uint8)
    >>> rows[:, 3] = rows[:, 0]  # the ends of the second chain change together
    >>> found = sg.models.coevolution.dca.mean_field_maps(sg.models.coevolution.Family("", rows[:, :1] * 0, rows))
    >>> int(np.nanargmax(found.within_b[0]))
    3
    """
    try:
        norms = _mean_field_host(family, pseudocount) if device is None else _mean_field_on(family, pseudocount, device)
    except np.linalg.LinAlgError:
        raise FamilyError(
            f"[mean_field] the covariance of {family.name} has no inverse with a pseudocount of {pseudocount}. Hint: the usual one is 0.5."
        ) from None
    return Maps.of(norms, family.shape[0])


def _mean_field_host(family: Family, pseudocount: float) -> np.ndarray:
    _, single, double = _frequencies(family, pseudocount)
    covariance = double - np.outer(single, single)
    kept = np.arange(len(single)) % STATES < KEPT
    inverse = -np.linalg.inv(covariance[np.ix_(kept, kept)])
    return _norms(inverse, KEPT)


def _mean_field_on(family: Family, pseudocount: float, device: str) -> np.ndarray:
    rows = _checked_rows(family)
    weights = sequence_weights(rows, device=device)
    hot = hot_rows(rows, KEPT, device)
    share = sg.tensor((weights / weights.sum()).astype(np.float32), device=device)
    length = rows.shape[1]
    same = sg.tensor(np.eye(length, dtype=bool).reshape(length, 1, length, 1), device=device)
    state = sg.tensor(np.eye(KEPT, dtype=np.float32).reshape(1, KEPT, 1, KEPT), device=device)

    @sg.compile
    def covariance(hot: sg.Tensor, share: sg.Tensor) -> sg.Tensor:
        single = (1 - pseudocount) * (share @ hot) + pseudocount / STATES
        double = (1 - pseudocount) * (hot.t() @ (hot * share.unsqueeze(1))) + pseudocount / STATES**2
        # a column with itself: never two states at once
        double = sg.where(same, state * single.reshape(length, KEPT, 1, 1), double.reshape(length, KEPT, length, KEPT))
        return double.reshape(length * KEPT, length * KEPT) - single.unsqueeze(1) * single

    return _norms_on(positive_inverse(covariance(hot, share)), KEPT)


def _norms(couplings: np.ndarray, states: int) -> np.ndarray:
    """Frobenius norms (L, L) of couplings (L * states, L * states) in the zero-sum gauge, without the last of 21 states.

    With 20 states the couplings of the last are 0.
    """
    couplings = couplings.reshape(-1, states, len(couplings) // states, states)
    norms = np.empty((len(couplings), len(couplings)))
    for k, block in enumerate(couplings):  # column by column: all together would need the memory twice
        own, other = block.sum(0, keepdims=True) / STATES, block.sum(2, keepdims=True) / STATES
        block = block - own - other + other.sum(0, keepdims=True) / STATES
        norms[k] = np.sqrt(np.square(block[:KEPT, :, :KEPT]).sum((0, 2)))
    return norms


def _norms_on(couplings: sg.Tensor, states: int) -> np.ndarray:
    """`_norms` on the device of the couplings, float32: (L, L) numbers come back instead of all couplings."""
    length = couplings.shape[0] // states

    @sg.compile
    def norms(couplings: sg.Tensor) -> sg.Tensor:
        blocks = couplings.reshape(length, states, length, states)
        own, other = blocks.sum(1, keepdim=True) / STATES, blocks.sum(3, keepdim=True) / STATES
        blocks = blocks - own - other + other.sum(1, keepdim=True) / STATES
        return blocks[:, :KEPT, :, :KEPT].square().sum((1, 3)).sqrt()

    return norms(couplings).numpy()


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
    return pseudo_likelihood_maps(family, device, regularization, steps, lr).between


def pseudo_likelihood_maps(
    family: Family, device: str = "cpu", regularization: float = 0.01, steps: int = 100, lr: float = 0.1
) -> Maps:
    """The scores of pseudo_likelihood between the chains and within each.

    >>> rows = np.random.default_rng(0).integers(0, 20, (50, 4)).astype(np.uint8)
    >>> found = sg.models.coevolution.dca.pseudo_likelihood_maps(sg.models.coevolution.Family("", rows[:, :1], rows), steps=2)
    >>> found.within_b.shape
    (4, 4)
    """
    rows = _checked_rows(family)
    weights = sequence_weights(rows, device=device)
    fit = _Fit(rows.shape[1], device, lr)
    hot = hot_rows(np.minimum(rows, STATES - 1), STATES, device)
    share = sg.tensor((weights / weights.sum()).astype(np.float32), device=device)
    penalty = sg.tensor(np.float32(regularization), device=device)
    for k in range(steps):
        fit.optimizer.param_groups[0]["lr"] = lr * (1 + np.cos(np.pi * k / steps)) / 2
        fit.step(hot, share, penalty)
    couplings = fit.couplings.detach()
    return Maps.of(_norms_on((couplings + couplings.t()) / 2, STATES), family.shape[0])


class _Fit:
    """Fields and couplings of a Potts model, and the step that improves them."""

    def __init__(self, length: int, device: str, lr: float) -> None:
        size = length * STATES
        self.couplings = sg.zeros(size, size, device=device, requires_grad=True)
        self.fields = sg.zeros(size, device=device, requires_grad=True)
        self.optimizer = sg.optim.Adam([self.couplings, self.fields], lr=lr)
        # 0 where a column is coupled with itself
        others = sg.tensor((1 - np.eye(length, dtype=np.float32)).reshape(length, 1, length, 1), device=device)

        @sg.compile
        def step(hot: sg.Tensor, share: sg.Tensor, penalty: sg.Tensor) -> sg.Tensor:
            self.optimizer.zero_grad()
            j = (self.couplings + self.couplings.t()) * 0.5
            j = (j.reshape(length, STATES, length, STATES) * others).reshape(size, size)
            logits = (hot @ j + self.fields).reshape(-1, length, STATES)
            likelihood = (logits.log_softmax(2) * hot.reshape(-1, length, STATES)).sum((1, 2))
            squares = j.square().sum() * 0.25 + self.fields.square().sum()  # j has each pair twice
            loss = -(likelihood * share).sum() + penalty * squares
            loss.backward()
            self.optimizer.step()
            return loss.detach()

        self.step: Any = step
