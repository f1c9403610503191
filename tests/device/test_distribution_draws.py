"""Draws of distributions: against the cdf (Kolmogorov and Smirnov), moments and probabilities, and their gradients. Seeds are fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import shadergrad as sg
from distribution_cases import CASES, made

COUNT = 20000
BOUND = 2.3 / np.sqrt(COUNT)  # of the largest deviation of a cdf: exceeded with a probability of 5e-5


def drawn(name: str, count: int = COUNT, device: str = "cpu") -> np.ndarray:
    sg.manual_seed(0)
    return made(name, sg, device, single=True).sample((count,)).numpy().astype(np.float64)


def assert_uniform(u: np.ndarray, what: str) -> None:
    """Each column of values of a cdf."""
    ordered = np.sort(u.reshape(len(u), -1), 0)
    steps = np.arange(1, len(u) + 1)[:, None] / len(u)
    worst = max(np.abs(ordered - steps).max(), np.abs(ordered - steps + 1 / len(u)).max())
    assert worst < BOUND, f"{what}: the cdf deviates by {worst:.4f}, {BOUND:.4f} is rare"


WITH_CDF = [
    "Normal", "Uniform", "Exponential", "Laplace", "Cauchy", "LogNormal", "HalfNormal", "HalfCauchy", "Gumbel", "Pareto", "Weibull",
    "InverseGamma", "Kumaraswamy", "Gamma", "Chi2", "GeneralizedPareto", "GeneralizedPareto of shape 0", "ContinuousBernoulli",
    "ContinuousBernoulli near a half", "logistic", "falling", "MixtureSameFamily", "RelaxedBernoulli",
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_CDF)
def test_draws_follow_the_cdf(name: str) -> None:
    sg.manual_seed(0)
    d = made(name, sg)
    x = d.sample((COUNT,))
    if name == "RelaxedBernoulli":  # the logistic distribution of its logits
        u = (sg.distributions.SigmoidTransform().inv(x) * d.temperature - d.logits).sigmoid()
    else:
        u = d.cdf(x)
    assert_uniform(u.numpy(), name)


BY_SCIPY: dict[str, Any] = {
    "Beta": lambda d: stats.beta(d.concentration1.numpy(), d.concentration0.numpy()).cdf,
    "StudentT": lambda d: stats.t(d.df.numpy(), d.loc.numpy(), d.scale.numpy()).cdf,
    "FisherSnedecor": lambda d: stats.f(d.df1.numpy(), d.df2.numpy()).cdf,
}


@pytest.mark.parametrize("name", BY_SCIPY)
def test_draws_follow_scipys_cdf(name: str) -> None:
    assert_uniform(BY_SCIPY[name](made(name, sg))(drawn(name)), name)


@pytest.mark.parametrize("concentration", [1e-3, 0.5, 4.0, 1e4])
def test_angles_follow_scipys_cdf(concentration: float, device: str) -> None:
    sg.manual_seed(0)
    k = sg.tensor([concentration], device=device)
    x = sg.distributions.VonMises(sg.zeros(1, device=device), k).sample((COUNT,)).numpy().astype(np.float64)
    assert np.abs(x).max() <= np.pi + 1e-6
    assert_uniform(stats.vonmises(concentration).cdf(x), "VonMises")


@pytest.mark.parametrize("alpha", [0.05, 0.9, 1.0, 7.5, 1000.0])
def test_gamma_draws_follow_scipys_cdf(alpha: float, device: str) -> None:
    sg.manual_seed(0)
    x = sg.distributions.Gamma(sg.tensor([alpha], device=device), 2.0).sample((COUNT,)).numpy().astype(np.float64)
    assert_uniform(stats.gamma(alpha, scale=0.5).cdf(x), "Gamma")


def assert_counts(found: np.ndarray, known: Any, what: str) -> None:
    """Whole numbers, as often as their probabilities say: Pearson's test over outcomes that are expected five times."""
    assert np.array_equal(found, np.round(found)), what
    low, high = int(known.ppf(1e-4)), int(known.ppf(1 - 1e-4))
    edges = np.unique(np.linspace(low, high, 40).astype(int))
    below = np.concatenate([[0.0], known.cdf(edges), [1.0]])
    expected = np.diff(below) * len(found)
    got = np.diff(np.concatenate([[0], [(found <= e).sum() for e in edges], [len(found)]]))
    kept = expected > 5
    statistic = (((got - expected) ** 2) / np.where(kept, expected, 1.0))[kept].sum()
    assert statistic < stats.chi2(max(kept.sum() - 1, 1)).ppf(1 - 1e-5), (
        f"{what}: {statistic:.1f} of {kept.sum()} outcomes"
    )
    assert abs(got[~kept].sum() - expected[~kept].sum()) < 5 + 5 * np.sqrt(expected[~kept].sum() + 1)


@pytest.mark.parametrize("rate", [0.0, 0.3, 9.9, 10.0, 30.0, 5000.0])
def test_poisson_draws_have_their_probabilities(rate: float) -> None:
    sg.manual_seed(1)
    found = sg.distributions.Poisson(sg.tensor([rate])).sample((COUNT,)).numpy()[:, 0]
    if rate == 0:
        assert not found.any()
    else:
        assert_counts(found, stats.poisson(rate), f"Poisson({rate})")


@pytest.mark.parametrize(
    ("count", "p"),
    [(1, 0.3), (6, 0.0), (6, 1.0), (20, 0.45), (20, 0.5), (40, 0.9), (1000, 0.004), (1000, 0.3), (100000, 0.7)],
)
def test_binomial_draws_have_their_probabilities(count: int, p: float) -> None:
    sg.manual_seed(2)
    found = sg.distributions.Binomial(count, sg.tensor([p])).sample((COUNT,)).numpy()[:, 0]
    if p in (0.0, 1.0):
        assert (found == count * p).all()
    else:
        assert_counts(found, stats.binom(count, p), f"Binomial({count}, {p})")


@pytest.mark.slow
def test_counts_have_their_probabilities_on_webgpu(webgpu: str) -> None:
    """By inversion and by rejection, side by side."""
    sg.manual_seed(3)
    rates, chances = np.array([0.3, 30.0, 5000.0], np.float32), np.array([0.02, 0.3, 0.9], np.float32)
    found = sg.distributions.Poisson(sg.tensor(rates, device=webgpu)).sample((COUNT,)).numpy()
    for k, rate in enumerate(rates):
        assert_counts(found[:, k], stats.poisson(rate), f"Poisson({rate})")
    found = sg.distributions.Binomial(100, sg.tensor(chances, device=webgpu)).sample((COUNT,)).numpy()
    for k, p in enumerate(chances):
        assert_counts(found[:, k], stats.binom(100, p), f"Binomial(100, {p})")


DISCRETE = {
    "Geometric": lambda d: stats.geom(d.probs.numpy(), loc=-1),
    "NegativeBinomial": lambda d: stats.nbinom(d.total_count.numpy(), 1 - d.probs.numpy()),
    "Bernoulli": lambda d: stats.bernoulli(d.probs.numpy()),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_have_their_probabilities(name: str) -> None:
    found, d = drawn(name), made(name, sg)
    for place in np.ndindex(3, 4):
        args = DISCRETE[name](d)
        known = type(args)(args.dist, *(np.asarray(a)[place] for a in args.args), **args.kwds)
        assert_counts(found[(slice(None), *place)], known, name)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_moments_of_the_distribution(name: str) -> None:
    """Means within 5.5 of their own standard deviations; variances roughly, where the fourth moment is tame."""
    d = made(name, sg)
    x = drawn(name)
    assert x.shape == (COUNT, *d.batch_shape, *d.event_shape)
    if name == "VonMises":
        return
    try:
        mean, variance = d.mean.numpy(), d.variance.numpy()
    except NotImplementedError:
        return
    finite = np.isfinite(mean) & np.isfinite(variance)
    with np.errstate(invalid="ignore"):
        error = np.abs(x.mean(0) - mean) / np.sqrt(np.maximum(variance, 1e-12))
    assert error[finite].max(initial=0) < 5.5 / np.sqrt(COUNT)
    heavy = (
        "LogNormal",
        "Pareto",
        "InverseGamma",
        "FisherSnedecor",
        "StudentT",
        "GeneralizedPareto",
        "falling",
        "Weibull",
        "Wishart",
    )
    if name.split()[0] not in heavy:
        spread = np.broadcast_to(variance, x.shape[1:])
        np.testing.assert_allclose(x.var(0)[finite], spread[finite], rtol=0.2, atol=1e-3)


@pytest.mark.parametrize(
    "name",
    [
        "Dirichlet",
        "RelaxedOneHotCategorical",
        "LogisticNormal",
        "LKJCholesky",
        "Wishart",
        "OneHotCategorical",
        "Multinomial",
    ],
)
def test_draws_are_of_the_support(name: str, device: str) -> None:
    sg.manual_seed(3)
    d = made(name, sg, device, single=True)
    x = d.sample((50,))
    assert x.device == device
    assert d.support.check(x).all().item()
    if name == "Multinomial":
        assert (x.sum(-1) == 8).all().item()


def test_correlations_are_uniform_for_a_concentration_of_1() -> None:
    """Of two variables the correlation is uniform on (-1, 1); of three each is Beta(3/2, 3/2)."""
    sg.manual_seed(4)
    two = sg.distributions.LKJCholesky(2, sg.ones(1)).sample((COUNT,)).numpy()[:, 0, 1, 0]
    assert_uniform((two + 1) / 2, "two variables")
    factor = sg.distributions.LKJCholesky(3, sg.ones(1)).sample((COUNT,)).numpy()[:, 0].astype(np.float64)
    whole = factor @ factor.transpose(0, 2, 1)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert_uniform(stats.beta(1.5, 1.5).cdf((whole[:, i, j] + 1) / 2), "three variables")


def test_many_draws_from_few_classes_are_multinomial(device: str) -> None:
    sg.manual_seed(5)
    p = np.array([0.1, 0.0, 0.6, 0.3])
    found = sg.distributions.Multinomial(100, sg.tensor(p.astype(np.float32), device=device)).sample((2000,)).numpy()
    assert (found.sum(-1) == 100).all()
    assert not found[:, 1].any()
    for k in (0, 2, 3):
        assert_counts(found[:, k], stats.binom(100, p[k]), f"class {k}")


def test_classes_are_drawn_by_their_probabilities(device: str) -> None:
    sg.manual_seed(1)
    d = sg.distributions.Categorical(sg.tensor([0.1, 0.2, 0.7, 0.0], device=device))
    found = d.sample((COUNT,)).numpy()
    np.testing.assert_allclose(np.bincount(found, minlength=4) / COUNT, [0.1, 0.2, 0.7, 0.0], atol=0.015)


WITH_GRADIENT = [
    n for n in WITH_CDF if n not in ("Gamma", "Chi2", "InverseGamma", "MixtureSameFamily", "RelaxedBernoulli")
]


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_draws_have_the_gradients_of_their_quantiles(name: str) -> None:
    """A draw keeps its place among all: F(x; p) stays, so dx/dp = -(dF/dp) / f. F and f are PyTorch's in other tests."""
    case = CASES[name]
    sg.manual_seed(2)
    leaves = [sg.tensor(p, requires_grad=True) for p in case.parameters]
    d = case.make(sg.distributions, *leaves)
    x = d.rsample()
    found = sg.autograd.grad(x.sum(), leaves)
    at = x.detach()
    fixed = case.make(sg.distributions, *leaves)
    slopes = sg.autograd.grad((fixed.cdf(at) / fixed.log_prob(at).exp().detach()).sum(), leaves)
    for mine, slope in zip(found, slopes, strict=True):
        np.testing.assert_allclose(mine.numpy(), -slope.numpy(), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.02, 0.3, 1.0, 2.7, 40.0, 900.0, 1e5])
def test_gamma_draws_have_the_gradients_of_their_quantiles(alpha: float, device: str) -> None:
    """By differences of SciPy's incomplete gamma function."""
    sg.manual_seed(3)
    a = sg.full((400,), alpha, device=device, requires_grad=True)
    x = sg.distributions.Gamma(a, 1.0).rsample()
    (found,) = sg.autograd.grad(x.sum(), [a])
    at = x.detach().numpy().astype(np.float64)
    h = 1e-3 * min(alpha, alpha**0.5)
    known: Any = stats.gamma(alpha)
    upper = known.cdf(at) > 0.5
    low = stats.gamma(alpha + h).cdf(at) - stats.gamma(alpha - h).cdf(at)
    high = stats.gamma(alpha - h).sf(at) - stats.gamma(alpha + h).sf(at)
    with np.errstate(all="ignore"):
        expected = -np.where(upper, high, low) / (2 * h) / known.pdf(at)
    tame = np.isfinite(expected) & (at > 1e-30)
    assert tame.mean() > 0.2
    np.testing.assert_allclose(found.numpy()[tame], expected[tame], rtol=3e-3, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in CASES if made(n, sg).has_rsample])
def test_draws_with_gradients_reach_every_parameter(name: str) -> None:
    case = CASES[name]
    leaves = [sg.tensor(p, requires_grad=True) for p in case.parameters]
    x = case.make(sg.distributions, *leaves).rsample((3,))
    assert x.requires_grad
    for g in sg.autograd.grad((x * x).sum(), leaves, allow_unused=True):
        if g is None:
            assert name.startswith("Generalized")
        else:
            assert np.isfinite(g.numpy()).all()
    assert not case.make(sg.distributions, *leaves).sample().requires_grad


def test_seeds_repeat_draws_on_both_devices(device: str) -> None:
    d = made("Gamma", sg, device, single=True)
    sg.manual_seed(9)
    first = d.sample((5,)).numpy()
    sg.manual_seed(9)
    np.testing.assert_array_equal(first, d.sample((5,)).numpy())
