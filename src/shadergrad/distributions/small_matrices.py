"""Cholesky factors and triangular systems for distributions of vectors and matrices.

On the cpu device LAPACK computes them (shadergrad/linalg). Elsewhere they are composed of matrix products over halves of the
matrix, so that they stay on the device and compiled steps hold them; factors of more than LARGEST rows run on the host, with
linalg's warning, for the composition has as many products as the matrix has rows.
"""

from __future__ import annotations

from ..linalg import cholesky, cholesky_ex, solve_triangular
from ..tensor import Tensor, cat, eye, zeros_like

LARGEST = 32


def _on_device(x: Tensor) -> bool:
    return str(x.device) != "cpu" and x.shape[-1] <= LARGEST


def cholesky_factor(x: Tensor) -> Tensor:
    """The lower triangular L of L @ L.mT = x, (*, n, n).

    Raises LinAlgError where LAPACK finds x not positive definite; the composed factor has NaN there.
    """
    return _factor_and_inverse(x)[0] if _on_device(x) else cholesky(x)


def is_positive_definite(x: Tensor) -> Tensor:
    """Whether symmetric matrices (*, n, n) have positive eigenvalues alone: bools (*)."""
    if _on_device(x):
        return (_factor_and_inverse(x.detach())[0].diagonal(0, -2, -1) > 0).all(-1)
    return cholesky_ex(x).info == 0


def _factor_and_inverse(x: Tensor) -> tuple[Tensor, Tensor]:
    """The factor of a matrix from those of its quarters, and the factor's inverse."""
    n = x.shape[-1]
    if n == 1:
        factor = x.sqrt()
        return factor, factor.reciprocal()
    h = n // 2
    a, a_inverse = _factor_and_inverse(x[..., :h, :h])
    b = x[..., h:, :h] @ a_inverse.mT
    c, c_inverse = _factor_and_inverse(x[..., h:, h:] - b @ b.mT)
    below = -(c_inverse @ b @ a_inverse)
    return _block(a, b, c), _block(a_inverse, below, c_inverse)


def _block(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """[[a, 0], [b, c]]."""
    return cat([cat([a, zeros_like(b.mT)], -1), cat([b, c], -1)], -2)


def lower_inverse(factor: Tensor) -> Tensor:
    """The inverse of lower triangular matrices (*, n, n), of any size on any device: blocks on the diagonal grow by doubling."""
    n = factor.shape[-1]
    size = 1 << (n - 1).bit_length()
    batch = tuple(factor.shape[:-2])
    padded = factor
    if size > n:  # ones on the added diagonal
        ones = (
            (factor[..., :1, :1] * 0 + 1).expand(*batch, 1, size - n).diag_embed().reshape(*batch, size - n, size - n)
        )
        padded = _block(factor, (factor[..., :1, :] * 0).expand(*batch, size - n, n), ones)
    blocks = padded.diagonal(0, -2, -1).reciprocal().reshape(*batch, size, 1, 1)
    s = 1
    while s < size:
        count = size // (2 * s)
        quarters = padded.reshape(*batch, count, 2 * s, count, 2 * s).diagonal(0, -4, -2).movedim(-1, -3)
        first, second = blocks[..., 0::2, :, :], blocks[..., 1::2, :, :]
        blocks = _block(first, -(second @ quarters[..., s:, :s] @ first), second)
        s *= 2
    return blocks.reshape(*batch, size, size)[..., :n, :n]


def solve_lower(factor: Tensor, x: Tensor) -> Tensor:
    """factor^-1 @ x for lower triangular factors (*, n, n) and x (*, n, m), whose leading axes are broadcast."""
    if str(factor.device) != "cpu":
        return lower_inverse(factor) @ x
    return solve_triangular(factor, x, upper=False)


def squared_distance(factor: Tensor, x: Tensor) -> Tensor:
    """Mahalanobis' distance squared, |factor^-1 x|^2, of vectors (*, n) from a factor (*, n, n) of the covariance."""
    if factor.ndim == 2:
        flat = solve_lower(factor, x.reshape(-1, x.shape[-1]).mT)
        return flat.square().sum(0).reshape(*x.shape[:-1])
    return solve_lower(factor, x.unsqueeze(-1)).square().sum((-2, -1))


def half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of a covariance, from its factor."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


def precision_to_factor(precision: Tensor) -> Tensor:
    """The factor of the inverse of positive definite matrices: the inverse of the factor from the other corner, transposed."""
    corner = cholesky_factor(precision.flip((-2, -1))).flip((-2, -1)).mT
    return lower_inverse(corner) if str(corner.device) != "cpu" else solve_lower(corner, _identity(corner))


def factor_to_precision(factor: Tensor) -> Tensor:
    """The inverse of factor @ factor.mT."""
    inverse = solve_lower(factor, _identity(factor))
    return inverse.mT @ inverse


def _identity(like: Tensor) -> Tensor:
    return eye(like.shape[-1], dtype=like.dtype, device=like.device).expand(*like.shape)
