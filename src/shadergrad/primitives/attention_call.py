"""Attention in NumPy, the base class of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import bool_
from ..errors import DTypeError, ShapeError
from ..graph.node import Node
from ..graph.primitive import Shape
from .attention_tiles import (
    LANES,
    Layout,
    Problem,
    keep_threshold,
    place_of_result,
)
from .call import Call
from .random import threefry2x32
from .strides import row_major


@dataclass(frozen=True, eq=False)
class AttentionCall(Call):
    """The base of attention calls. dropped: the fraction of weights that dropout sets to zero; the others are divided by 1 - dropped.

    masked: whether there is a mask (n or 1, heads or 1, l or 1, s or 1) after q, k and v: bools, true where attention is
    allowed, or numbers that are added. If dropped > 0, the last input is the key (2,) of the random words: word j % 2
    of threefry(i ceil(s / 2) + j / 2, row of n heads) decides about column j of row i. by_row: whether the memory layout of the result is
    (n, l, heads, d), in which heads are joined, instead of (n, heads, l, d).
    """

    scale: float
    causal: bool
    masked: bool
    dropped: float
    by_row: bool

    @property
    def names(self) -> tuple[str, ...]:
        return ("q", "k", "v", *(("mask",) if self.masked else ()), *(("key",) if self.dropped else ()))

    def problem(self, inputs: Sequence[Node]) -> Problem:
        """The problem for q, k, v, the mask and the key."""
        q, k = inputs[:2]
        mask = inputs[3] if self.masked else None
        strides = None if mask is None else row_major(mask.shape)
        return Problem(
            q.shape[0],
            q.shape[1],
            q.shape[2],
            k.shape[2],
            q.shape[3],
            self.scale,
            self.causal,
            strides,
            mask is not None and mask.dtype is bool_,
            self.dropped,
            self.by_row,
        )

    def check(self, inputs: Sequence[Node]) -> None:
        q, k, v = inputs[:3]
        if q.ndim != 4 or k.shape != v.shape or (*q.shape[:2], q.shape[3]) != (*k.shape[:2], k.shape[3]):
            raise ShapeError(
                f"[attention] q is {q.shape}, k {k.shape}, v {v.shape}; they must be (n, heads, l or s, d)."
            )
        if q.shape[3] % LANES:
            raise ShapeError(f"[attention] the size of a head is {q.shape[3]}, no multiple of {LANES}.")
        if not q.dtype is k.dtype is v.dtype or q.dtype.category != 2:
            raise DTypeError(f"[attention] q is {q.dtype.name}, k {k.dtype.name}, v {v.dtype.name}.")
        whole = (*q.shape[:3], k.shape[2])
        if self.masked and any(m not in (1, n) for m, n in zip(inputs[3].shape, whole, strict=True)):
            raise ShapeError(f"[attention] the mask is {inputs[3].shape}; it must broadcast to {whole}.")

    # -- the same in NumPy

    def gradients(
        self, g: np.ndarray, flat: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, others: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The gradients of q, k and v."""
        sums = row_sums(g, flat, place_of_result(q.shape, self.by_row))
        to_scores, weights = self.slopes(g, sums, q, k, v, others)
        return to_scores @ k, np.swapaxes(to_scores, -2, -1) @ q, np.swapaxes(weights, -2, -1) @ g

    def slopes(
        self, g: np.ndarray, sums: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, others: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of the products q k^T, and the weights after dropout, (n, heads, l, s)."""
        logs, delta = sums[..., None]
        s = self.scores(q, k, others)
        with np.errstate(invalid="ignore"):
            weights = np.where(np.isneginf(s), 0, np.exp(s - np.where(np.isneginf(logs), 0, logs)))
        kept = self.keep_factor(s.shape, others)
        to_scores = weights * (g @ np.swapaxes(v, -2, -1) * kept - delta) * q.dtype.type(self.scale)
        return to_scores, weights * kept

    def scores(self, q: np.ndarray, k: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
        """q k^T scale with the masks, (n, heads, l, s)."""
        result = q @ np.swapaxes(k, -2, -1) * q.dtype.type(self.scale)
        if self.masked:
            mask = others[0]
            result = np.where(mask, result, -np.inf) if mask.dtype == bool else result + mask
        if self.causal:
            result = np.where(np.tri(*result.shape[-2:], dtype=bool), result, -np.inf)
        return result.astype(q.dtype)

    def keep_factor(self, shape: Shape, others: Sequence[np.ndarray]) -> Any:
        """The factor of each weight: 0, or 1 / (1 - dropped)."""
        if not self.dropped:
            return 1
        n, heads, rows, columns = shape
        half = -(-columns // 2)
        pair = np.arange(rows * half, dtype=np.uint32)[None]
        words = np.stack(threefry2x32(others[-1], pair, np.arange(n * heads, dtype=np.uint32)[:, None]), -1)
        words = words.reshape(n, heads, rows, 2 * half)[..., :columns]
        return np.where(words >= keep_threshold(self.dropped), 1.0 / (1.0 - self.dropped), 0.0)


def row_sums(g: np.ndarray, flat: np.ndarray, place: Layout) -> np.ndarray:
    """Two sums for each row of attention (2, n, heads, l): the log-sum-exp, and the sum of gradient times result, which
    is at `place`.
    """
    logs = flat[g.size : g.size + g.size // g.shape[-1]].reshape(g.shape[:-1])
    return np.stack([logs, (g * writable(flat, place, g.shape)).sum(-1)])


def writable(result: np.ndarray, place: Layout, shape: Shape) -> np.ndarray:
    """The elements of an array with a layout, as a writable view."""
    flat = result.reshape(-1)[place[0] :]
    return np.lib.stride_tricks.as_strided(flat, shape, [flat.itemsize * s for s in (*place[1:], 1)])


# -- memory layouts
