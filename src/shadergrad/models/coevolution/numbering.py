"""The residue numbers of each protein. In: a family, and the numbers of both first residues. Out: a number for each column.

Only columns in which the first pair, the query, has a residue get a number. Structure files, and people, number residues, not columns.
"""

from __future__ import annotations

import re

import numpy as np

from .families import Family, FamilyError
from .vocabulary import PAD

NONE = np.iinfo(np.int64).min  # of a column without a residue of the query

Numbers = tuple[np.ndarray, np.ndarray]


def residue_numbers(family: Family, first_a: int | None = None, first_b: int | None = None) -> Numbers:
    """The residue number of each column of a and of b, int64; `numbering.NONE` where the query has a gap.

    first_a, first_b: the numbers of the query's first residues. By default those in its name, as in NAME/24-310, the two of a pair
    joined by +; else 1.

    >>> rows = np.array([[0, 22, 1], [0, 3, 1]], np.uint8)  # the query has a gap in its second column
    >>> family = sg.models.coevolution.Family("x", rows, rows, names=("P1/24-25+P2", "y"))
    >>> [numbers[[0, 2]].tolist() for numbers in sg.models.coevolution.residue_numbers(family)]
    [[24, 25], [1, 2]]
    """
    stated = _stated(family)
    firsts = (first_a, first_b)
    return tuple(  # type: ignore[return-value]
        _numbers(chain[0], stated[k] if firsts[k] is None else firsts[k])
        for k, chain in enumerate((family.a, family.b))
    )


def _stated(family: Family) -> tuple[int, int]:
    parts = (family.names[0] if family.names else "").split("+")
    found = [re.search(r"/(\d+)-\d+$", part) for part in parts]
    one, other = ([int(m[1]) if m else 1 for m in found] + [1, 1])[:2] if len(parts) == 2 else (1, 1)
    return one, other


def _numbers(row: np.ndarray, first: int | None) -> np.ndarray:
    present = row != PAD
    return np.where(present, np.cumsum(present) - 1 + (first or 0), NONE)


def gap_shares(family: Family, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted share of gaps in each column of a and of b. weights (n,): see sequence_weights.

    >>> rows = np.array([[0, 22], [0, 1]], np.uint8)
    >>> shares, _ = sg.models.coevolution.gap_shares(sg.models.coevolution.Family("x", rows, rows), np.ones(2))
    >>> shares.tolist()
    [0.0, 0.5]
    """
    if weights.shape != (family.depth,):
        raise FamilyError(f"[gap_shares] weights are {weights.shape}, for {family.depth} pairs.")
    share = weights / weights.sum()
    return share @ (family.a == PAD), share @ (family.b == PAD)
