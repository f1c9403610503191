"""Contacts within one protein. In: symmetric scores (n, n), as of dca.mean_field_maps. Out: the best pairs, their table, their precision.

Columns closer than six in the sequence do not count: they touch in every fold, as along a helix.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...data import DataError
from ...system.atomic_files import replacing
from .contact_files import best_pairs
from .families import Family
from .metrics import precision_at
from .numbering import NONE, Numbers
from .vocabulary import decode

APART = 6  # columns of the sequence


def ranked_within(scores: np.ndarray) -> np.ndarray:
    """The scores of pairs i < j that are at least six columns apart; NaN elsewhere.

    >>> found = sg.models.coevolution.ranked_within(np.zeros((8, 8)))
    >>> np.argwhere(np.isfinite(found)).tolist()
    [[0, 6], [0, 7], [1, 7]]
    """
    i, j = np.indices(scores.shape)
    return np.where(j - i >= APART, scores, np.nan)


def within_precision(scores: np.ndarray, contacts: np.ndarray, resolved: np.ndarray) -> float:
    """The share of contacts among the best L pairs, for L columns; NaN where no pair is resolved.

    >>> contacts = np.ones((8, 8), bool)
    >>> sg.models.coevolution.within_precision(np.zeros((8, 8)), contacts, contacts)
    1.0
    """
    ranked = np.where(resolved, ranked_within(scores), np.nan)
    return precision_at(ranked, contacts, len(scores)) if np.isfinite(ranked).any() else float("nan")


def write_within(
    path: str | Path, family: Family, scores: Sequence[np.ndarray], top: int | None, numbers: Numbers
) -> None:
    """The `top` best pairs of each protein (by default as many as its columns): chain, i, j, residues, score, residue numbers.

    >>> path = Path(tempfile.mkdtemp()) / "within.tsv"
    >>> family = sg.models.coevolution.Family("x", np.zeros((1, 8), np.uint8), np.zeros((1, 3), np.uint8))
    >>> numbers = sg.models.coevolution.residue_numbers(family, 10)
    >>> sg.models.coevolution.write_within(path, family, [np.eye(8)[::-1], np.eye(3)], 1, numbers)
    >>> path.read_text().splitlines()[1].split("\\t")
    ['a', '1', '8', 'A', 'A', '1.0000', '10', '17']
    """
    lines = ["chain\ti\tj\tresidue_i\tresidue_j\tscore\tnumber_i\tnumber_j"]
    for name, rows, own, known in zip("ab", (family.a, family.b), scores, numbers, strict=True):
        letters = decode(rows[0])
        for i, j in best_pairs(ranked_within(own), top or len(own)):
            named = "\t".join("-" if known[k] == NONE else str(known[k]) for k in (i, j))
            lines.append(f"{name}\t{i + 1}\t{j + 1}\t{letters[i]}\t{letters[j]}\t{own[i, j]:.4f}\t{named}")
    with replacing(path, DataError) as file:
        file.write(("\n".join(lines) + "\n").encode())
