"""Distributions of matrices: Wishart's of covariances, and Lewandowski, Kurowicka and Joe's of correlations (2009)."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar

from ..drive.tracing import current
from ..errors import ArgumentError
from ..special import digamma, multigammaln
from ..tensor import Size, Tensor, common_shape, randn, tensor, where
from . import constraints
from .distribution import Distribution, ExponentialFamily, all_hold
from .gamma_family import Beta, Chi2
from .multivariate import MATRICES, factor_of, one_matrix
from .small_matrices import cholesky_factor, factor_to_precision, half_log_det, solve_lower
from .utils import broadcast_floats, epsilon, is_number, joined_shape, lazy_property, positions, tiny


class Wishart(ExponentialFamily):
    """Positive definite matrices (*, k, k): the sum of df outer products of normal vectors; df > k - 1 may be real.

    By their covariance_matrix (*, k, k), its inverse (precision_matrix) or its Cholesky factor scale_tril. Raises ArgumentError
    for other than one of the three, and for a df that is too small; warns of a df below k, whose draws are nearly singular.

    >>> sg.distributions.Wishart(sg.tensor(2.0), sg.eye(2)).mean
    tensor([[2., 0.],
            [0., 2.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0.0
    _batched: ClassVar[dict[str, int]] = {
        "df": 0,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given: dict[str, Any] = dict(zip(MATRICES, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        name = one_matrix("Wishart", given)
        matrix: Any = given[name]
        df = tensor(float(df), dtype=matrix.dtype, device=matrix.device) if is_number(df) else df
        batch = common_shape(tuple(matrix.shape[:-2]), tuple(df.shape))
        self.df = df.expand(*batch)
        k = matrix.shape[-1]
        if current.trace is None and not all_hold(self.df > k - 1):
            raise ArgumentError(f"Value of df={df} expected to be greater than ndim - 1 = {k - 1}.")
        if current.trace is None and not all_hold(self.df >= k):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        setattr(self, name, matrix.expand(*batch, k, k))
        super().__init__(batch, (k, k), validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _whole(self) -> Size:
        return joined_shape(self._batch_shape, self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance: (*batch_shape, k, k)."""
        return self._unbroadcasted_scale_tril.expand(*self._whole())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the normal vectors: (*batch_shape, k, k)."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(*self._whole())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance: (*batch_shape, k, k)."""
        return factor_to_precision(self._unbroadcasted_scale_tril).expand(*self._whole())

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.event_shape[-1] - 1
        return where(factor <= 0, math.nan, factor)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        d = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v.square() + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Draws by Bartlett's decomposition, whose diagonal is kept above 0: no draw is repeated (max_try_correction)."""
        k, factor = self._event_shape[-1], self._unbroadcasted_scale_tril
        freedom = self.df.unsqueeze(-1) - positions(k, factor)
        roots = Chi2(freedom, validate_args=False).rsample(sample_shape).sqrt().clamp(min=epsilon(factor))
        below = randn(*self._extended_shape(sample_shape), dtype=factor.dtype, device=factor.device).tril(-1)
        drawn = factor @ (below + roots.diag_embed())
        return drawn @ drawn.mT

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, k, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        other = cholesky_factor(value)
        shape = common_shape(tuple(factor.shape[:-2]), tuple(other.shape[:-2]))
        trace = solve_lower(factor.expand(*shape, k, k), other.expand(*shape, k, k)).square().sum((-2, -1))
        whole = nu * (half_log_det(factor) + k * math.log(2) / 2) + multigammaln(nu / 2, k)
        return (nu - k - 1) * half_log_det(other) - trace / 2 - whole

    def entropy(self) -> Tensor:
        nu, k = self.df, self._event_shape[-1]
        slope = digamma((nu / 2).unsqueeze(-1) - positions(k, nu) / 2).sum(-1)
        whole = (half_log_det(self._unbroadcasted_scale_tril) + k * math.log(2) / 2) * (k + 1)
        return whole + multigammaln(nu / 2, k) - (nu - k - 1) / 2 * slope + nu * k / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.precision_matrix * -0.5, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        k = self._event_shape[-1]
        log_det = half_log_det(cholesky_factor(x * -2)) * 2
        more = y + (k + 1) / 2
        return more * (k * math.log(2) - log_det) + multigammaln(more, k)


class LKJCholesky(Distribution):
    """Cholesky factors (*, dim, dim) of correlation matrices with density proportional to their determinant ** (concentration - 1).

    A concentration of 1 is uniform over correlation matrices. Raises ArgumentError for a dim below 2.

    >>> sg.distributions.LKJCholesky(3, 0.5).sample().shape
    shadergrad.Size([3, 3])
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _batched: ClassVar[dict[str, int]] = {"concentration": 0}
    _unbatched = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ArgumentError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_floats(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    @property
    def _beta(self) -> Beta:
        """Of the squared length of each row before the diagonal; that of the first row is not used."""
        half = (positions(self.dim, self.concentration) - 1).clamp(min=0) * 0.5
        rest = (self.concentration + 0.5 * (self.dim - 2)).unsqueeze(-1) - half
        return Beta(half + 0.5, rest, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws (*sample_shape, *batch_shape, dim, dim) by the onion method: each row is a direction times a length."""
        length = self._beta.sample(sample_shape).unsqueeze(-1)
        drawn = randn(*self._extended_shape(sample_shape), dtype=length.dtype, device=length.device).tril(-1)
        size = drawn.square().sum(-1, keepdim=True)
        rows = length.sqrt() * where(size > 0, drawn * where(size > 0, size, 1.0).rsqrt(), 0.0)
        diagonal = (1 - rows.square().sum(-1)).clamp(min=tiny(rows)).sqrt()
        return (rows + diagonal.diag_embed()).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        concentration, n = self.concentration, self.dim - 1
        order = (concentration - 1).unsqueeze(-1) * 2 + (n - 1 - positions(n, concentration))
        density = (order * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        alpha = concentration + 0.5 * n
        return density - (0.5 * n * math.log(math.pi) + multigammaln(alpha - 0.5, n) - alpha.lgamma() * n)
