"""Counts the rows of an alignment that resemble each row, on a device. In: rows of tokens. Out: counts.

The number of equal columns of two rows is a product of one-hot rows: 2 n^2 (22 length) floating point operations in float32, exact because
counts are whole numbers. It is compared with a table of thresholds computed on the host, so that rounding is the same as there.
"""

from __future__ import annotations

import numpy as np

import shadergrad as sg

from .vocabulary import PAD

BLOCK = 1024  # rows that are compared with all at once: n x 1024 counts must fit beside the one-hot rows


def hot_rows(rows: np.ndarray, states: int, device: str) -> sg.Tensor:
    """Tokens (n, length) as float32 (n, length * states) on a device; tokens from `states` on are zeros. Only the tokens are uploaded.

    >>> from shadergrad.models.coevolution.similarity import hot_rows
    >>> hot_rows(np.array([[1, 22]], np.uint8), 2, "cpu")
    tensor([[0., 1., 0., 0.]])
    """
    tokens = sg.tensor(np.ascontiguousarray(rows, np.int32), device=device)
    names = sg.arange(states, dtype=sg.int32, device=device)
    return (tokens.unsqueeze(2) == names).to(sg.float32).reshape(rows.shape[0], -1)


def similar_counts(rows: np.ndarray, identity: float, device: str) -> np.ndarray:
    """The number of rows (n, length) that equal each row in at least `identity` of the columns where either has a residue, int64 (n,).

    >>> from shadergrad.models.coevolution.similarity import similar_counts
    >>> similar_counts(np.array([[0, 1], [0, 1], [2, 3]], np.uint8), 0.8, "cpu").tolist()
    [2, 2, 1]
    """
    count, length = rows.shape
    hot = hot_rows(rows, PAD, device)
    present = sg.tensor((rows != PAD).astype(np.float32), device=device)
    sizes = present.sum(1)
    # the least number of equal columns, by the number of columns where either has a residue: of float64, as on the host
    least = sg.tensor(np.ceil(identity * np.arange(length + 1)).astype(np.float32), device=device)

    @sg.compile
    def counts(
        part: sg.Tensor, own: sg.Tensor, own_sizes: sg.Tensor, hot: sg.Tensor, present: sg.Tensor, sizes: sg.Tensor
    ) -> sg.Tensor:
        either = own_sizes.unsqueeze(1) + sizes - own @ present.t()
        needed = least[either.round().to(sg.int32)]
        return (part @ hot.t() >= needed).to(sg.float32).sum(1)

    found = np.empty(count, np.int64)
    for begin in range(0, count, BLOCK):
        begin = max(0, min(begin, count - BLOCK))  # the last block overlaps the one before: all have one shape
        part = slice(begin, min(begin + BLOCK, count))
        found[part] = counts(hot[part], present[part], sizes[part], hot, present, sizes).numpy()
    return found
