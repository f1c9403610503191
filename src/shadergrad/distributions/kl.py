"""Kullback and Leibler's divergence between distributions, by pairs of their classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import ShadergradError
from ..linalg import solve_triangular
from ..special import digamma
from ..tensor import Tensor, where
from .continuous import Exponential, Laplace, Normal, Uniform
from .derived import Independent, LogNormal, sum_last
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .distribution import Distribution
from .gamma_family import Beta, Dirichlet, Gamma
from .multivariate import MultivariateNormal, half_log_det, squared_distance


class NoDivergenceError(ShadergradError, NotImplementedError):
    """There is no formula for the divergence of two distributions. Raised by kl_divergence."""


_rules: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[[Any, Any], Tensor]], Callable[[Any, Any], Tensor]]:
    """A decorator for the rule of two classes: a function of distributions p and q.

    >>> class Fair(sg.distributions.Bernoulli):
    ...     pass
    >>> @sg.distributions.register_kl(Fair, Fair)
    ... def _(p, q):
    ...     return sg.zeros(())
    >>> sg.distributions.kl_divergence(Fair(0.5), Fair(0.5))
    tensor(0.)
    """

    def add(rule: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
        _rules[type_p, type_q] = rule
        return rule

    return add


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expectation of log p - log q under p: (*batch_shape). Raises NoDivergenceError if there is no formula.

    >>> D = sg.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5)
    """
    matches = [(a, b) for a, b in _rules if isinstance(p, a) and isinstance(q, b)]
    if not matches:
        raise NoDivergenceError(
            f"[kl_divergence] there is no formula for {type(p).__name__} and {type(q).__name__}. Hint: the mean of "
            "p.log_prob(x) - q.log_prob(x) over draws x of p, or register_kl."
        )
    nearest = min(matches, key=lambda pair: type(p).__mro__.index(pair[0]) + type(q).__mro__.index(pair[1]))
    return _rules[nearest](p, q)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log()) * 0.5


@register_kl(LogNormal, LogNormal)
def _log_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.normal, q.normal)


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


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where(q.probs == 0, math.inf, terms)
    return where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b, c, d = p.concentration, p.rate, q.concentration, q.rate
    return c * (b / d).log() + c.lgamma() - a.lgamma() + (a - c) * digamma(a) + (d - b) * (a / b)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet(), q._dirichlet())


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    whole = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return whole + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    spread = solve_triangular(q.scale_tril, p.scale_tril, upper=False).square().sum((-2, -1))
    far = squared_distance(q.scale_tril, q.loc - p.loc)
    return half_log_det(q.scale_tril) - half_log_det(p.scale_tril) + (spread + far - p.event_shape[0]) * 0.5


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NoDivergenceError("[kl_divergence] the two are independent along other numbers of axes.")
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
