"""Every distribution: how it is made of a library's tensors, its parameters, and values of its support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from beside import floats

POSITIVE, REAL = floats(3, 4, low=0.3, high=3.0), floats(3, 4)
OTHER, SHIFT = floats(3, 4, seed=1, low=0.3, high=3.0), floats(3, 4, seed=2)
PROBS = floats(3, 4, low=0.1, high=0.9)
SIMPLEX = PROBS / PROBS.sum(-1, keepdims=True)
CLASSES = np.array([0, 3, 1])
COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]])
FACTOR = np.array([[1.4, 0.0, 0.0], [0.4, 1.2, 0.0], [0.1, 0.2, 0.9]])
CORRELATION = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.6, 0.64]])
VECTORS, POINTS = floats(5, 3), floats(5, 3, seed=4)
FAR = REAL + 0.3 * np.sign(REAL)  # logits near 0 lose half of single precision's digits, in PyTorch too
LOW_RANK = floats(3, 2, seed=6)
BITS = np.array([[1.0, 0.0, 1.0, 0.0]] * 3)
COUNTS = np.array([[0.0, 1.0, 2.0, 5.0]] * 3)
FREEDOM = np.array(4.5)
STICKS = np.concatenate([SIMPLEX[:, :3], 1 - SIMPLEX[:, :3].sum(-1, keepdims=True)], -1)


class Case(NamedTuple):
    """make: from distributions' namespace and the tensors of the parameters. value: of the support."""

    make: Callable[..., Any]
    parameters: tuple[np.ndarray, ...]
    value: np.ndarray


def with_identity(c: Any) -> Any:
    """A symmetric positive definite matrix."""
    return (c + c.mT) / 2


def shifted(d: Any, a: Any) -> Any:
    """The logistic distribution, as transformed uniform draws."""
    return d.TransformedDistribution(d.Uniform(a * 0, a * 0 + 1), [d.SigmoidTransform().inv, d.AffineTransform(a, 1.0)])


CASES: dict[str, Case] = {
    "Normal": Case(lambda d, a, b: d.Normal(a, b), (REAL, POSITIVE), SHIFT),
    "Uniform": Case(lambda d, a, b: d.Uniform(a, a + b), (REAL, POSITIVE), REAL + 0.5 * POSITIVE),
    "Exponential": Case(lambda d, a: d.Exponential(a), (POSITIVE,), OTHER),
    "Laplace": Case(lambda d, a, b: d.Laplace(a, b), (REAL, POSITIVE), SHIFT),
    "Cauchy": Case(lambda d, a, b: d.Cauchy(a, b), (REAL, POSITIVE), SHIFT),
    "LogNormal": Case(lambda d, a, b: d.LogNormal(a, b), (REAL, POSITIVE), OTHER),
    "HalfNormal": Case(lambda d, a: d.HalfNormal(a), (POSITIVE,), OTHER),
    "HalfCauchy": Case(lambda d, a: d.HalfCauchy(a), (POSITIVE,), OTHER),
    "Gumbel": Case(lambda d, a, b: d.Gumbel(a, b), (REAL, POSITIVE), SHIFT),
    "Pareto": Case(lambda d, a, b: d.Pareto(a, b + 1), (POSITIVE, OTHER), POSITIVE + OTHER),
    "Weibull": Case(lambda d, a, b: d.Weibull(a, b + 1), (POSITIVE, OTHER), OTHER),
    "InverseGamma": Case(lambda d, a, b: d.InverseGamma(a, b), (POSITIVE + 2.5, OTHER), OTHER),
    "Kumaraswamy": Case(lambda d, a, b: d.Kumaraswamy(a, b), (POSITIVE, OTHER), PROBS),
    "LogisticNormal": Case(lambda d, a, b: d.LogisticNormal(a, b), (REAL[:, :3], POSITIVE[:, :3]), STICKS),
    "Gamma": Case(lambda d, a, b: d.Gamma(a, b), (POSITIVE, OTHER), OTHER),
    "Chi2": Case(lambda d, a: d.Chi2(a), (POSITIVE,), OTHER),
    "Beta": Case(lambda d, a, b: d.Beta(a, b), (POSITIVE, OTHER), PROBS),
    "Dirichlet": Case(lambda d, a: d.Dirichlet(a), (POSITIVE,), SIMPLEX),
    "StudentT": Case(lambda d, a, b, c: d.StudentT(a + 2.5, b, c), (POSITIVE, REAL, OTHER), SHIFT),
    "StudentT of few degrees": Case(lambda d, a, b, c: d.StudentT(a, b, c), (POSITIVE, REAL, OTHER), SHIFT),
    "FisherSnedecor": Case(lambda d, a, b: d.FisherSnedecor(a, b + 4.5), (POSITIVE + 1, OTHER), POSITIVE),
    "GeneralizedPareto": Case(
        lambda d, a, b, c: d.GeneralizedPareto(a, b, c), (REAL, POSITIVE, floats(3, 4, seed=5, low=-0.4, high=0.4)), REAL + 0.2 * POSITIVE
    ),
    "GeneralizedPareto of shape 0": Case(lambda d, a, b: d.GeneralizedPareto(a, b, a * 0), (REAL, POSITIVE), REAL + 0.2),
    "ContinuousBernoulli": Case(lambda d, a: d.ContinuousBernoulli(a), (PROBS,), OTHER / 3),
    "ContinuousBernoulli near a half": Case(lambda d, a: d.ContinuousBernoulli(a), (0.5 + 0.0005 * REAL,), OTHER / 3),
    "ContinuousBernoulli of logits": Case(lambda d, a: d.ContinuousBernoulli(logits=a), (FAR,), OTHER / 3),
    "VonMises": Case(lambda d, a, b: d.VonMises(a, b), (REAL, POSITIVE), SHIFT),
    "Bernoulli": Case(lambda d, a: d.Bernoulli(a), (PROBS,), BITS),
    "Bernoulli of logits": Case(lambda d, a: d.Bernoulli(logits=a), (REAL,), BITS),
    "Categorical": Case(lambda d, a: d.Categorical(a), (PROBS,), CLASSES),
    "Categorical of logits": Case(lambda d, a: d.Categorical(logits=a), (REAL,), CLASSES),
    "OneHotCategorical": Case(lambda d, a: d.OneHotCategorical(a), (PROBS,), np.eye(4)[CLASSES]),
    "OneHotCategoricalStraightThrough": Case(
        lambda d, a: d.OneHotCategoricalStraightThrough(logits=a), (REAL,), np.eye(4)[CLASSES]
    ),
    "Geometric": Case(lambda d, a: d.Geometric(a), (PROBS,), COUNTS),
    "Geometric of logits": Case(lambda d, a: d.Geometric(logits=a), (REAL,), COUNTS),
    "Poisson": Case(lambda d, a: d.Poisson(a), (POSITIVE,), COUNTS),
    "Binomial": Case(lambda d, a: d.Binomial(6, a), (PROBS,), COUNTS),
    "Binomial of logits": Case(lambda d, a: d.Binomial(6, logits=a), (REAL,), COUNTS),
    "NegativeBinomial": Case(lambda d, a, b: d.NegativeBinomial(a, b), (POSITIVE, PROBS), COUNTS),
    "NegativeBinomial of logits": Case(lambda d, a, b: d.NegativeBinomial(a, logits=b), (POSITIVE, REAL), COUNTS),
    "Multinomial": Case(lambda d, a: d.Multinomial(8, a), (PROBS,), COUNTS),
    "Multinomial of logits": Case(lambda d, a: d.Multinomial(8, logits=a), (REAL,), COUNTS),
    "RelaxedBernoulli": Case(lambda d, t, a: d.RelaxedBernoulli(t, a), (np.array(0.7), PROBS), OTHER / 3.1),
    "RelaxedBernoulli of logits": Case(lambda d, t, a: d.RelaxedBernoulli(t, logits=a), (np.array(0.7), REAL), OTHER / 3.1),
    "RelaxedOneHotCategorical": Case(lambda d, t, a: d.RelaxedOneHotCategorical(t, a), (np.array(0.7), PROBS), SIMPLEX),
    "RelaxedOneHotCategorical of logits": Case(
        lambda d, t, a: d.RelaxedOneHotCategorical(t, logits=a), (np.array(0.7), REAL), SIMPLEX
    ),
    "MultivariateNormal": Case(lambda d, m, c: d.MultivariateNormal(m, with_identity(c)), (VECTORS, COVARIANCE), POINTS),
    "MultivariateNormal of a precision": Case(
        lambda d, m, c: d.MultivariateNormal(m, precision_matrix=with_identity(c)), (VECTORS, COVARIANCE), POINTS
    ),
    "MultivariateNormal of a factor": Case(
        lambda d, m, c: d.MultivariateNormal(m, scale_tril=c.tril()), (VECTORS, COVARIANCE), POINTS
    ),
    "MultivariateNormal of a batch of factors": Case(
        lambda d, m, c, s: d.MultivariateNormal(m, scale_tril=c.tril() * s[:, None, None]), (VECTORS, COVARIANCE, OTHER.ravel()[:5]), POINTS
    ),
    "LowRankMultivariateNormal": Case(
        lambda d, m, w, s: d.LowRankMultivariateNormal(m, w, s), (VECTORS, LOW_RANK, POSITIVE[0, :3]), POINTS
    ),
    "Wishart": Case(lambda d, n, c: d.Wishart(n, with_identity(c)), (FREEDOM, COVARIANCE), COVARIANCE @ COVARIANCE),
    "Wishart of a precision": Case(
        lambda d, n, c: d.Wishart(n, precision_matrix=with_identity(c)), (FREEDOM, COVARIANCE), COVARIANCE @ COVARIANCE
    ),
    "Wishart of a batch": Case(
        lambda d, n, c: d.Wishart(n, scale_tril=c.tril()), (FREEDOM + np.arange(2.0), COVARIANCE), COVARIANCE @ COVARIANCE
    ),
    "LKJCholesky": Case(lambda d, a: d.LKJCholesky(3, a), (POSITIVE[0],), CORRELATION),
    "Independent": Case(lambda d, a, b: d.Independent(d.Normal(a, b), 1), (REAL, POSITIVE), SHIFT),
    "TransformedDistribution": Case(
        lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), [d.TanhTransform(), d.AffineTransform(1.0, 2.0)]),
        (REAL, POSITIVE),
        1 + 2 * floats(3, 4, low=-0.9, high=0.9),
    ),
    "logistic": Case(shifted, (REAL,), SHIFT),
    "falling": Case(
        lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), [d.ExpTransform(), d.AffineTransform(0.0, -1.0)]), (REAL, POSITIVE), -OTHER
    ),
    "MixtureSameFamily": Case(
        lambda d, p, a, b: d.MixtureSameFamily(d.Categorical(p), d.Normal(a, b)), (PROBS, REAL, POSITIVE), CLASSES - 0.5
    ),
    "MixtureSameFamily of vectors": Case(
        lambda d, p, a, b: d.MixtureSameFamily(d.Categorical(p), d.Independent(d.Normal(a, b), 1)), (PROBS[0, :3], REAL[:3], POSITIVE[:3]), SHIFT
    ),
}  # fmt: skip


def made(name: str, lib: Any, device: str = "cpu", single: bool = False) -> Any:
    """A case's distribution in a library."""
    case = CASES[name]
    arrays = [p.astype(np.float32) if single else p for p in case.parameters]
    return case.make(lib.distributions, *(lib.tensor(a, device=device) for a in arrays))
