"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ArgumentError, ShapeError
from ..linalg import cholesky, inv, solve_triangular
from ..tensor import Tensor, common_shape, randn
from .distribution import Distribution, check_event


class MultivariateNormal(Distribution):
    """Vectors (*, k) of mean loc and a covariance (*, k, k), its inverse (precision_matrix) or its Cholesky factor scale_tril.

    The factor, and the systems that log_prob solves, are computed on the host (shadergrad/linalg). Raises ArgumentError for
    other than one of the three, LinAlgError for what is not positive definite.

    >>> d = sg.distributions.MultivariateNormal(sg.zeros(2), sg.eye(2))
    >>> d.log_prob(sg.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ArgumentError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if loc.ndim < 1 or given[0].ndim < 2:
            raise ShapeError(
                "MultivariateNormal: loc must be at least one-dimensional, the matrix at least two-dimensional."
            )
        if covariance_matrix is not None:
            factor = cholesky(covariance_matrix)
        elif precision_matrix is not None:
            factor = cholesky(inv(precision_matrix))
        else:
            factor = given[0]
        k = loc.shape[-1]
        batch = common_shape(tuple(loc.shape[:-1]), tuple(factor.shape[:-2]))
        super().__init__(batch, (k,), validate_args)
        self.loc, self.scale_tril = loc.expand(*batch, k), factor.expand(*batch, k, k)

    def _parameters(self) -> dict[str, int]:
        return {"loc": 1, "scale_tril": 2}

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return inv(self.covariance_matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale_tril.square().sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(*self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        check_event("MultivariateNormal", value, tuple(self.event_shape))
        far = squared_distance(self.scale_tril, value - self.loc)
        return -(far + self.event_shape[0] * math.log(2 * math.pi)) * 0.5 - half_log_det(self.scale_tril)

    def entropy(self) -> Tensor:
        return half_log_det(self.scale_tril) + 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi))


def half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of a covariance, from its factor."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


def squared_distance(factor: Tensor, x: Tensor) -> Tensor:
    """Mahalanobis' distance squared, of vectors (*, k)."""
    return solve_triangular(factor, x.unsqueeze(-1), upper=False).square().sum((-2, -1))
