"""The inverse of a large positive definite matrix on a device, by products. In: a tensor (n, n). Out: its inverse.

The inverse of [[A, B], [B', D]] follows from those of A and of the Schur complement S = D - B' A^-1 B, both positive definite and half as
large. Halving continues down to blocks that the host inverts in float64. The rest is four products a level, 4/3 n^3 multiplications
and additions each in all. No pivots are needed (Higham, "Accuracy and Stability of Numerical Algorithms", chapter 14).
"""

from __future__ import annotations

import numpy as np

import shadergrad as sg

LEAF = 512  # rows that the host inverts at once: milliseconds, and one round trip


def positive_inverse(matrix: sg.Tensor, leaf: int = LEAF) -> sg.Tensor:
    """The inverse of a symmetric positive definite matrix (n, n), float32, on its device. leaf: the largest block that the host inverts.

    Raises numpy.linalg.LinAlgError if a block is singular.

    >>> from shadergrad.models.coevolution.positive_inverse import positive_inverse
    >>> positive_inverse(sg.tensor([[2.0, 0.0], [0.0, 4.0]]), leaf=1)
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    size = matrix.shape[0]
    levels = max(0, int(np.ceil(np.log2(size / leaf))))
    whole = (
        -(-size // 2**levels) * 2**levels
    )  # blocks of a level have one shape, so each level's products are compiled once
    if whole > size:
        zeros = sg.zeros(size, whole - size, device=matrix.device)
        one = sg.tensor(np.eye(whole - size, dtype=np.float32), device=matrix.device)
        matrix = sg.cat([sg.cat([matrix, zeros], 1), sg.cat([zeros.t(), one], 1)], 0)
    return _inverse(matrix, levels)[:size, :size]


def _inverse(matrix: sg.Tensor, levels: int) -> sg.Tensor:
    if not levels:
        found = np.linalg.inv(matrix.numpy().astype(np.float64))
        return sg.tensor(((found + found.T) / 2).astype(np.float32), device=matrix.device)
    half = matrix.shape[0] // 2
    corner = matrix[:half, half:]
    first = _inverse(matrix[:half, :half], levels - 1)
    across = first @ corner
    second = _inverse(matrix[half:, half:] - corner.t() @ across, levels - 1)
    side = across @ second
    return sg.cat([sg.cat([first + side @ across.t(), -side], 1), sg.cat([-side.t(), second], 1)], 0)
