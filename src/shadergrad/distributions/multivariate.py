"""The normal distribution of vectors, by a full covariance or one of low rank."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..errors import ArgumentError, ShapeError
from ..tensor import Size, Tensor, common_shape, eye, randn
from . import constraints
from .distribution import Distribution
from .small_matrices import (
    cholesky_factor,
    factor_to_precision,
    half_log_det,
    precision_to_factor,
    solve_lower,
    squared_distance,
)
from .utils import joined_shape, lazy_property

LOG_2PI = math.log(2 * math.pi)
MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


def one_matrix(what: str, given: dict[str, Any]) -> str:
    """The name of the one matrix that is given. Raises ArgumentError for another number of them, ShapeError for vectors."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ArgumentError(
            f"{what}: Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    if given[names[0]].ndim < 2:
        raise ShapeError(f"{names[0]} matrix must be at least two-dimensional, with optional leading batch dimensions")
    return names[0]


def factor_of(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of the covariance, from the matrix of that name."""
    if name == "scale_tril":
        return matrix
    return cholesky_factor(matrix) if name == "covariance_matrix" else precision_to_factor(matrix)


class MultivariateNormal(Distribution):
    """Vectors (*, k) of mean loc and a covariance (*, k, k), its inverse (precision_matrix) or its Cholesky factor scale_tril.

    Raises ArgumentError for other than one of the three, and for matrices that are not positive definite.

    >>> d = sg.distributions.MultivariateNormal(sg.zeros(2), sg.eye(2))
    >>> d.log_prob(sg.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _unbatched = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ShapeError("loc must be at least one-dimensional.")
        given: dict[str, Any] = dict(zip(MATRICES, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        name = one_matrix("MultivariateNormal", given)
        matrix: Any = given[name]
        batch = common_shape(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand(*batch, *matrix.shape[-2:]))
        self.loc = loc.expand(*batch, loc.shape[-1])
        super().__init__(batch, loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def _square(self) -> Size:
        return joined_shape(self._batch_shape, self._event_shape, self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance: (*batch_shape, k, k)."""
        return self._unbroadcasted_scale_tril.expand(*self._square())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance: (*batch_shape, k, k)."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(*self._square())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance: (*batch_shape, k, k)."""
        return factor_to_precision(self._unbroadcasted_scale_tril).expand(*self._square())

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        found = self._unbroadcasted_scale_tril.square().sum(-1)
        return found.expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(*self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        far = squared_distance(factor, value - self.loc)
        return (far + self.event_shape[0] * LOG_2PI) * -0.5 - half_log_det(factor)

    def entropy(self) -> Tensor:
        found = half_log_det(self._unbroadcasted_scale_tril) + 0.5 * self.event_shape[0] * (1 + LOG_2PI)
        return found.expand(*self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Vectors (*, k) of mean loc and the covariance cov_factor @ cov_factor.mT + diag(cov_diag).

    cov_factor (*, k, m), cov_diag (*, k) > 0. Systems of m equations are solved (Woodbury's identity). Raises ShapeError where
    shapes do not fit.

    >>> d = sg.distributions.LowRankMultivariateNormal(sg.zeros(2), sg.tensor([[1.0], [0.0]]), sg.ones(2))
    >>> d.variance
    tensor([2., 1.])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    _batched: ClassVar[dict[str, int]] = {"loc": 1, "cov_factor": 2, "cov_diag": 1}
    _unbatched = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.ndim < 1:
            raise ShapeError("loc must be at least one-dimensional.")
        if cov_factor.ndim < 2:
            raise ShapeError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        k = loc.shape[-1]
        if cov_factor.shape[-2] != k:
            raise ShapeError(f"cov_factor must be a batch of matrices with shape {k} x m")
        if tuple(cov_diag.shape[-1:]) != (k,):
            raise ShapeError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        batch = common_shape(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        self.loc, self.cov_diag = loc.expand(*batch, k), cov_diag.expand(*batch, k)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = cholesky_factor(_with_identity(_over_diagonal(cov_factor, cov_diag) @ cov_factor))
        super().__init__(batch, (k,), validate_args)

    def _square(self) -> Size:
        return joined_shape(self._batch_shape, self._event_shape, self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        found = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return found.expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance: (*batch_shape, k, k). The matrix that is factored has no eigenvalue below 1."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return (root * cholesky_factor(_with_identity(scaled @ scaled.mT))).expand(*self._square())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance: (*batch_shape, k, k)."""
        factor = self._unbroadcasted_cov_factor
        return (factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()).expand(*self._square())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance: (*batch_shape, k, k)."""
        a = solve_lower(
            self._capacitance_tril, _over_diagonal(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag)
        )
        return (self._unbroadcasted_cov_diag.reciprocal().diag_embed() - a.mT @ a).expand(*self._square())

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, options = self._extended_shape(sample_shape), {"dtype": self.loc.dtype, "device": self.loc.device}
        factor = self._unbroadcasted_cov_factor
        along = randn(*shape[:-1], factor.shape[-1], **options)
        own = randn(*shape, **options)
        return self.loc + (factor @ along.unsqueeze(-1)).squeeze(-1) + self._unbroadcasted_cov_diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        far = low_rank_distance(self, value - self.loc)
        return (far + low_rank_log_det(self) + self.event_shape[0] * LOG_2PI) * -0.5

    def entropy(self) -> Tensor:
        found = (low_rank_log_det(self) + self.event_shape[0] * (1.0 + LOG_2PI)) * 0.5
        return found.expand(*self._batch_shape)


def _with_identity(x: Tensor) -> Tensor:
    return x + eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _over_diagonal(factor: Tensor, diagonal: Tensor) -> Tensor:
    """factor.mT @ diag(diagonal)^-1."""
    return factor.mT / diagonal.unsqueeze(-2)


def low_rank_log_det(d: LowRankMultivariateNormal) -> Tensor:
    """The logarithm of the covariance's determinant (the matrix determinant lemma)."""
    return half_log_det(d._capacitance_tril) * 2 + d._unbroadcasted_cov_diag.log().sum(-1)


def low_rank_distance(d: LowRankMultivariateNormal, x: Tensor) -> Tensor:
    """Mahalanobis' distance squared of vectors (*, k), by Woodbury's identity."""
    over = _over_diagonal(d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag)
    along = (over @ x.unsqueeze(-1)).squeeze(-1)
    return (x.square() / d._unbroadcasted_cov_diag).sum(-1) - squared_distance(d._capacitance_tril, along)
