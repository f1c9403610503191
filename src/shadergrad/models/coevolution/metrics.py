"""Measures of a contact map. In: scores and contacts (length_a, length_b). Out: numbers, per family and averaged.

L is the length of the shorter chain. Ties are broken by position, so that equal scores always give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .families import FamilyError

COUNTS = (10, 25, 50)


def _ranked(scores: np.ndarray, contacts: np.ndarray) -> np.ndarray:
    """Whether each column pair is a contact, the best score first; those without a score (NaN) left out."""
    if scores.shape != contacts.shape:
        raise FamilyError(f"[metrics] scores are {scores.shape}, contacts {contacts.shape}.")
    flat = scores.reshape(-1)
    known = np.isfinite(flat)
    return contacts.reshape(-1)[known][np.argsort(-flat[known], kind="stable")]


def precision_at(scores: np.ndarray, contacts: np.ndarray, count: int) -> float:
    """The share of contacts among the `count` best column pairs.

    >>> scores, contacts = np.array([[3.0, 2.0], [1.0, 0.0]]), np.array([[True, False], [True, False]])
    >>> sg.models.coevolution.precision_at(scores, contacts, 2)
    0.5
    """
    if count < 1:
        raise FamilyError(f"[precision_at] of the best {count} column pairs; it takes at least one.")
    return float(_ranked(scores, contacts)[:count].mean())


def average_precision(scores: np.ndarray, contacts: np.ndarray) -> float:
    """The mean, over contacts, of the precision down to their rank; NaN without contacts.

    >>> scores, contacts = np.array([[3.0, 2.0], [1.0, 0.0]]), np.array([[True, False], [True, False]])
    >>> round(sg.models.coevolution.average_precision(scores, contacts), 4)
    0.8333
    """
    found = _ranked(scores, contacts)
    ranks = np.flatnonzero(found) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).mean()) if len(ranks) else float("nan")


def measure(scores: np.ndarray, contacts: np.ndarray) -> dict[str, float]:
    """Every measure of one family: precision at L, L/2, L/5, 10, 25 and 50, and average precision.

    >>> sorted(sg.models.coevolution.measure(np.eye(20), np.eye(20, dtype=bool)))
    ['AP', 'P@10', 'P@25', 'P@50', 'P@L', 'P@L/2', 'P@L/5']
    """
    length = min(scores.shape)
    counts = {"P@L": length, "P@L/2": length // 2, "P@L/5": length // 5} | {f"P@{n}": n for n in COUNTS}
    found = {name: precision_at(scores, contacts, max(count, 1)) for name, count in counts.items()}
    return found | {"AP": average_precision(scores, contacts)}


def bootstrap_interval(
    values: Sequence[float], level: float = 0.95, samples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """The confidence interval of the mean over families, by resampling families (Efron, 1979).

    >>> sg.models.coevolution.bootstrap_interval([0.5, 0.5, 0.5])
    (0.5, 0.5)
    """
    array = np.asarray(values, np.float64)
    if not len(array) or not 0 < level < 1:
        raise FamilyError(f"[bootstrap_interval] of {len(array)} values, at level {level}.")
    drawn = array[np.random.default_rng(seed).integers(0, len(array), (samples, len(array)))].mean(1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
