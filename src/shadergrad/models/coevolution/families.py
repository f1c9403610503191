"""A family: the paired sequences of two proteins in many species, and their contacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import ShadergradError
from .vocabulary import PAD


class FamilyError(ShadergradError, ValueError):
    """Families, contacts or scores that do not match."""


@dataclass(frozen=True)
class Family:
    """Pairs of sequences, row by row. a (n, length_a), b (n, length_b): tokens, uint8, PAD for gaps and after short chains.

    aligned: whether a column is the same position in every row; rows of an unaligned family cannot be combined.
    contacts: (length_a, length_b) bools, or None if they are not known.
    names: of the rows.
    Raises FamilyError if shapes do not fit.

    >>> rows = np.zeros((2, 3), np.uint8)
    >>> family = sg.models.coevolution.Family("example", rows, rows)
    >>> family.depth, family.shape
    (2, (3, 3))
    """

    name: str
    a: np.ndarray
    b: np.ndarray
    contacts: np.ndarray | None = None
    names: tuple[str, ...] = ()
    aligned: bool = True

    def __post_init__(self) -> None:
        if self.a.ndim != 2 or self.b.ndim != 2 or len(self.a) != len(self.b) or not len(self.a):
            raise FamilyError(f"[Family] {self.name}: a is {self.a.shape}, b {self.b.shape}; equal rows, at least one.")
        if self.contacts is not None and self.contacts.shape != self.shape:
            raise FamilyError(f"[Family] {self.name}: contacts are {self.contacts.shape}, the chains {self.shape}.")

    @property
    def depth(self) -> int:
        """The number of pairs."""
        return len(self.a)

    @property
    def shape(self) -> tuple[int, int]:
        """The lengths of both chains, in columns."""
        return self.a.shape[1], self.b.shape[1]

    def first(self, depth: int) -> Family:
        """The family of its first pairs."""
        return replace(self, a=self.a[:depth], b=self.b[:depth], names=self.names[:depth])

    def joined(self) -> np.ndarray:
        """Both chains side by side, (n, length_a + length_b)."""
        return np.concatenate([self.a, self.b], axis=1)


def split_families(families: Sequence[Family], held_out: float, seed: int = 0) -> tuple[list[Family], list[Family]]:
    """(training, held out): whole families, so that no relative of a test sequence is in the training set.

    held_out: the share of the families, rounded, at least one and not all. Raises FamilyError for fewer than two.

    >>> rows = np.zeros((2, 3), np.uint8)
    >>> families = [sg.models.coevolution.Family(str(k), rows, rows) for k in range(10)]
    >>> [len(part) for part in sg.models.coevolution.split_families(families, 0.2)]
    [8, 2]
    """
    if len(families) < 2 or not 0 < held_out < 1:
        raise FamilyError(
            f"[split_families] {len(families)} families, a share of {held_out} held out: nothing to split. "
            "Hint: at least two families (--families), and a share (--held-out) between 0 and 1."
        )
    count = min(max(round(held_out * len(families)), 1), len(families) - 1)
    order = np.random.default_rng(seed).permutation(len(families))
    return [families[k] for k in sorted(order[count:])], [families[k] for k in sorted(order[:count])]


def sequence_weights(rows: np.ndarray, identity: float = 0.8, device: str | None = None) -> np.ndarray:
    """1 / the number of rows (n, length) similar to a row, itself included: float64 (n,).

    identity: the share of equal columns, among those where either row has a residue, from which two rows count as similar. The
    usual 80 % (Morcos et al., 2011). Their sum is the effective number of sequences. device: where rows are compared, with the same
    result; by default the host, with the five bits of a token in five planes. The time grows with n squared.

    >>> sg.models.coevolution.sequence_weights(np.array([[0, 1], [0, 1], [2, 3]], np.uint8))
    array([0.5, 0.5, 1. ])
    """
    if device is not None:
        from .similarity import similar_counts  # late: it needs tensors, reading files does not

        return 1.0 / np.maximum(similar_counts(rows, identity, device), 1)
    count, length = rows.shape
    gaps = rows == PAD
    planes, absent = [_packed(rows >> bit & 1) for bit in range(5)], _packed(gaps)
    similar = np.ones(count, np.int64)
    for k in range(count - 1):  # row by row: (n, n, length) would not fit for many
        differ = planes[0][:, k + 1 :] ^ planes[0][:, k, None]
        for plane in planes[1:]:
            differ |= plane[:, k + 1 :] ^ plane[:, k, None]
        either = length - _ones(absent[:, k + 1 :] & absent[:, k, None])
        near = either - _ones(differ) >= identity * either
        similar[k] += near.sum()
        similar[k + 1 :] += near
    return 1.0 / similar


def _packed(bits: np.ndarray) -> np.ndarray:
    """Bits (n, length) as words (length / 64, rounded up, n)."""
    octets = np.packbits(bits, axis=1)
    whole = np.zeros((len(bits), -(-octets.shape[1] // 8) * 8), np.uint8)
    whole[:, : octets.shape[1]] = octets
    return np.ascontiguousarray(whole.view(np.uint64).T)


def _ones(words: np.ndarray) -> np.ndarray:
    """The number of ones in each column of words (k, n), int64 (n,)."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words).sum(0, dtype=np.int64)
    return np.unpackbits(words.view(np.uint8).reshape(len(words), -1, 8), axis=2).sum((0, 2), dtype=np.int64)


def effective_depth(family: Family, identity: float = 0.8, device: str | None = None) -> tuple[float, float]:
    """(Neff, Neff / L): the sum of the weights, and that sum per column of both chains. device: see sequence_weights.

    >>> rows = np.zeros((4, 3), np.uint8)
    >>> sg.models.coevolution.effective_depth(sg.models.coevolution.Family("equal rows", rows, rows))
    (1.0, 0.16666666666666666)
    """
    count = float(sequence_weights(family.joined(), identity, device).sum())
    return count, count / sum(family.shape)
