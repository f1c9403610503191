"""Divergences of two distributions of one class. Formulas: Gil, Alajaji and Linder, 2013, and the exponential families'."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ShapeError
from ..special import digamma
from ..tensor import Tensor, common_shape, where
from .continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from .counts import Binomial, Geometric, Poisson
from .derived import Gumbel, HalfNormal, Pareto
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .distribution import ExponentialFamily, all_hold
from .gamma_family import Beta, Dirichlet, Gamma
from .kl_registry import NoDivergenceError, kl_divergence, register_kl
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, low_rank_distance, low_rank_log_det
from .relaxed import ContinuousBernoulli
from .small_matrices import half_log_det, solve_lower, squared_distance
from .transformed import Independent, TransformedDistribution
from .utils import euler_constant, sum_rightmost


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log()) * 0.5


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, far = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + far / q.scale + ratio * (-far / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    """Chyzak and Nielsen, 2019."""
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (p.scale * 4 * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, far = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - far + ratio * euler_constant + (far + (ratio + 1).lgamma()).exp() - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, found)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    a, b = p.probs, q.probs
    ones = where(a == 0, 0.0, where((b == 0) & (a > 0), math.inf, a * _log_ratio(a, b)))
    zeros = where(a == 1, 0.0, where((b == 1) & (a < 1), math.inf, (1 - a) * _log_ratio(1 - a, 1 - b)))
    return ones + zeros


def _log_ratio(a: Tensor, b: Tensor) -> Tensor:
    """log(a / b), 0 where either is 0."""
    none = (a == 0) | (b == 0)
    return where(none, 0.0, (where(none, 1.0, a) / where(none, 1.0, b)).log())


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    """Of as many trials; infinite where p has more."""
    if not all_hold(p.total_count >= q.total_count):
        raise NoDivergenceError("KL between Binomials where q.total_count > p.total_count is not implemented")
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return where(p.total_count > q.total_count, math.inf, found)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where(q.probs == 0, math.inf, terms)
    return where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    own = p._cont_bern_log_norm() + (-p.probs).log1p()
    return p.mean * (p.logits - q.logits) + own - q._cont_bern_log_norm() - (-q.probs).log1p()


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b, c, d = p.concentration, p.rate, q.concentration, q.rate
    return c * (b / d).log() + c.lgamma() - a.lgamma() + (a - c) * digamma(a) + (d - b) * (a / b)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    whole = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return whole + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


def _require_one_event(p: Any, q: Any) -> int:
    if p.event_shape != q.event_shape:
        raise ShapeError(
            f"KL-divergence between Multivariate Normals with different event shapes, {p.event_shape} and {q.event_shape}, "
            "cannot be computed"
        )
    return p.event_shape[0]


def _size(x: Tensor) -> Tensor:
    """The sum of squares of matrices, the trace of x @ x.mT."""
    return x.square().sum((-2, -1))


def _solved(factor: Tensor, x: Tensor) -> Tensor:
    """factor^-1 @ x, both with the leading axes of both."""
    shape = common_shape(tuple(factor.shape[:-2]), tuple(x.shape[:-2]))
    return solve_lower(factor.expand(*shape, *factor.shape[-2:]), x.expand(*shape, *x.shape[-2:]))


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    k = _require_one_event(p, q)
    a, b = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    rest = _size(_solved(b, a)) + squared_distance(b, q.loc - p.loc) - k
    return half_log_det(b) - half_log_det(a) + rest * 0.5


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    k = _require_one_event(p, q)
    w, d = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    e = q._unbroadcasted_cov_diag
    a = _low_rank_solved(q)  # q's precision is diag(1 / e) - a.mT @ a
    spread = (d / e).sum(-1) + _size(w * e.rsqrt().unsqueeze(-1)) - _size(a * d.sqrt().unsqueeze(-2)) - _size(a @ w)
    return (low_rank_log_det(q) - low_rank_log_det(p) + spread + low_rank_distance(q, q.loc - p.loc) - k) * 0.5


def _low_rank_solved(q: Any) -> Tensor:
    over = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    return _solved(q._capacitance_tril, over)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_and_low_rank(p: Any, q: Any) -> Tensor:
    k = _require_one_event(p, q)
    factor = p._unbroadcasted_scale_tril
    spread = _size(factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)) - _size(_low_rank_solved(q) @ factor)
    return (low_rank_log_det(q) - half_log_det(factor) * 2 + spread + low_rank_distance(q, q.loc - p.loc) - k) * 0.5


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_and_full(p: Any, q: Any) -> Tensor:
    k = _require_one_event(p, q)
    factor = q._unbroadcasted_scale_tril
    own = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    spread = _size(_solved(factor, p._unbroadcasted_cov_factor)) + _size(_solved(factor, own))
    return (half_log_det(factor) * 2 - low_rank_log_det(p) + spread + squared_distance(factor, q.loc - p.loc) - k) * 0.5


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normaliser (Nielsen and Nock, 2010)."""
    if type(p) is not type(q):
        raise NoDivergenceError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    normalizer, slopes = p._differentiated()
    found = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, slope in zip(p._natural_params, q._natural_params, slopes, strict=True):
        term = (other - mine) * slope
        found = found - sum_rightmost(term, term.ndim - len(q.batch_shape))
    return found


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NoDivergenceError("KL between distributions that are transformed in different ways is not implemented")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NoDivergenceError(
            f"The two are independent along different numbers of axes: {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}."
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
