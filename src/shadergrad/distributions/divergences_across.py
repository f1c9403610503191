"""Divergences of distributions of two classes: expectations of one log density under the other distribution.

Where p has values outside the support of q, the divergence is infinite.
"""

from __future__ import annotations

import math
from typing import Any

from ..special import digamma
from ..tensor import Tensor, full_like, where
from .continuous import Exponential, Laplace, Normal, Uniform
from .counts import Binomial, Poisson
from .derived import Gumbel, Pareto
from .discrete import Bernoulli
from .gamma_family import Beta, Gamma
from .kl_registry import register_kl
from .relaxed import ContinuousBernoulli
from .utils import HALF_LOG_2PI, broadcast_all, euler_constant

INFINITE: list[tuple[type, tuple[type, ...]]] = [
    (Beta, (Pareto,)),
    (ContinuousBernoulli, (Pareto,)),
    (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, (Bernoulli, Binomial)),
]  # p always has values outside the support of q


def _infinite(p: Any, q: Any) -> Tensor:
    return full_like(broadcast_all(p.mean, q.mean)[0], math.inf)


for _p, _others in INFINITE:
    for _q in _others:
        register_kl(_p, _q)(_infinite)


def _x_log_x(x: Tensor) -> Tensor:
    return x.xlogy(x)


def _log_normal_density(q: Any, second_moment: Tensor, mean: Tensor) -> Tensor:
    """The expectation of -log of a normal density, from E[x^2] and E[x]."""
    return q.scale.log() + HALF_LOG_2PI + (second_moment - q.loc * mean * 2 + q.loc.square()) / (q.scale.square() * 2)


@register_kl(Bernoulli, Poisson)
def _(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _and_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    found = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()
    if isinstance(p, Uniform):
        return where((p.high >= 1) | (p.low <= 0), math.inf, found)
    return found


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _and_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _(p: Any, q: Any) -> Tensor:
    log_mean = digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0)
    return -p.entropy() + _gamma_whole(q) - (q.concentration - 1) * log_mean + q.rate * p.mean


def _gamma_whole(q: Any) -> Tensor:
    """The logarithm of what a gamma density is divided by."""
    return q.concentration.lgamma() - q.concentration * q.rate.log()


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
def _and_normal(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _log_normal_density(q, p.variance + p.mean.square(), p.mean)


@register_kl(Beta, Uniform)
def _(p: Any, q: Any) -> Tensor:
    return where((q.low > 0) | (q.high < 1), math.inf, -p.entropy() + (q.high - q.low).log())


@register_kl(ContinuousBernoulli, Uniform)
def _(p: Any, q: Any) -> Tensor:
    return where((q.low >= 0) | (q.high <= 1), math.inf, -p.entropy() + (q.high - q.low).log())


@register_kl(Exponential, Gamma)
def _(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    a = q.concentration
    return -a * ratio.log() + ratio + a.lgamma() + a * euler_constant - (1 + euler_constant)


@register_kl(Exponential, Gumbel)
def _(p: Any, q: Any) -> Tensor:
    product, far = p.rate * q.scale, q.loc / q.scale
    return product.log() - 1 - far + far.exp() * product / (product + 1) + product.reciprocal()


@register_kl(Exponential, Normal)
def _(p: Any, q: Any) -> Tensor:
    mean = p.rate.reciprocal()
    return p.rate.log() - 1 + _log_normal_density(q, mean.square() * 2, mean)


@register_kl(Gamma, Gumbel)
def _(p: Any, q: Any) -> Tensor:
    product, far, a = p.rate * q.scale, q.loc / q.scale, p.concentration
    own = (a - 1) * digamma(a) - a.lgamma() - a
    return own + product.log() + a / product + far.exp() * (product.reciprocal() + 1) ** (-a) - far


@register_kl(Gamma, Normal)
def _(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, p.rate
    own = b.log() - a - a.lgamma() + (a - 1) * digamma(a)
    return own + _log_normal_density(q, (a.square() + a) / b.square(), a / b)


@register_kl(Gumbel, Normal)
def _(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _log_normal_density(q, p.variance + p.mean.square(), p.mean)


@register_kl(Laplace, Normal)
def _(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _log_normal_density(q, p.variance + p.loc.square(), p.loc)


@register_kl(Normal, Gumbel)
def _(p: Any, q: Any) -> Tensor:
    far, ratio = (p.loc - q.loc) / q.scale, (p.scale / q.scale).square()
    return -ratio.log() * 0.5 + far + (ratio * 0.5 - far).exp() - (0.5 + HALF_LOG_2PI)


@register_kl(Normal, Laplace)
def _(p: Any, q: Any) -> Tensor:
    far = p.loc - q.loc
    relative = far / p.scale
    mean = p.scale * math.sqrt(2 / math.pi) * (relative.square() * -0.5).exp() + far * (relative * math.sqrt(0.5)).erf()
    return -(p.scale / q.scale).log() + mean / q.scale - (0.5 * (1 + math.log(0.5 * math.pi)))


@register_kl(Pareto, Exponential)
def _(p: Any, q: Any) -> Tensor:
    product = p.scale * q.rate
    found = (p.alpha / product).log() - p.alpha.reciprocal() + p.alpha * product / (p.alpha - 1) - 1
    return where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Gamma)
def _(p: Any, q: Any) -> Tensor:
    log_mean = p.scale.log() + p.alpha.reciprocal()
    mean = p.alpha * p.scale / (p.alpha - 1)
    found = p.alpha.log() - log_mean + _gamma_whole(q) + (1 - q.concentration) * log_mean + q.rate * mean - 1
    return where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Normal)
def _(p: Any, q: Any) -> Tensor:
    mean = p.alpha * p.scale / (p.alpha - 1)
    second = p.alpha * p.scale.square() / (p.alpha - 2)
    own = (p.alpha / p.scale).log() - p.alpha.reciprocal() - 1
    return where(p.alpha <= 2, math.inf, own + _log_normal_density(q, second, mean))


def _mean_log(p: Any) -> Tensor:
    """The expectation of log x of a uniform distribution of positive numbers."""
    size = p.high - p.low
    return (_x_log_x(p.high) - _x_log_x(p.low) - size) / size


@register_kl(Uniform, Beta)
def _(p: Any, q: Any) -> Tensor:
    size = p.high - p.low
    other = (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + size) / size  # of -log(1 - x)
    a, b = q.concentration1, q.concentration0
    whole = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return where((p.high > 1) | (p.low < 0), math.inf, (b - 1) * other + whole - size.log() - (a - 1) * _mean_log(p))


@register_kl(Uniform, Exponential)
def _(p: Any, q: Any) -> Tensor:
    return where(p.low < 0, math.inf, q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log())


@register_kl(Uniform, Gamma)
def _(p: Any, q: Any) -> Tensor:
    found = -(p.high - p.low).log() + _gamma_whole(q) + (1 - q.concentration) * _mean_log(p) + q.rate * p.mean
    return where(p.low < 0, math.inf, found)


@register_kl(Uniform, Gumbel)
def _(p: Any, q: Any) -> Tensor:
    part = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return part.log() + (high + low) * 0.5 - part * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Normal)
def _(p: Any, q: Any) -> Tensor:
    return -(p.high - p.low).log() + _log_normal_density(q, p.variance + p.mean.square(), p.mean)


@register_kl(Uniform, Pareto)
def _(p: Any, q: Any) -> Tensor:
    own = q.alpha.log() + q.alpha * q.scale.log() + (p.high - p.low).log()
    return where(p.low < q.scale, math.inf, _mean_log(p) * (q.alpha + 1) - own)
