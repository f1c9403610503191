"""kl_divergence of every pair that PyTorch has a closed form for, with gradients; the registry's choice of a rule."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions.kl import _KL_REGISTRY

import shadergrad as sg
from beside import Call, assert_as_the_cpu, assert_as_torch
from distribution_cases import CASES, COVARIANCE, LOW_RANK, OTHER, POSITIVE, PROBS, REAL, VECTORS, with_identity

ALONE = [(p.__name__, q.__name__) for p, q in _KL_REGISTRY]
# Parameters for which a divergence is finite where it can be: supports within one another
FINITE: dict[tuple[str, str], tuple[Any, tuple[np.ndarray, ...], Any, tuple[np.ndarray, ...]]] = {
    ("Uniform", "Uniform"): (lambda d, a, b: d.Uniform(a, a + b), (REAL, POSITIVE), lambda d, a, b: d.Uniform(a - 4, a + b + 8), (REAL, POSITIVE)),
    ("Uniform", "Beta"): (lambda d, a, b: d.Uniform(a / 4, a / 4 + b / 5), (PROBS, POSITIVE), CASES["Beta"].make, (POSITIVE, OTHER)),
    ("Uniform", "ContinuousBernoulli"): (lambda d, a, b: d.Uniform(a / 4, a / 4 + b / 5), (PROBS, POSITIVE), CASES["ContinuousBernoulli"].make, (PROBS,)),
    ("Uniform", "Exponential"): (lambda d, a, b: d.Uniform(a, a + b), (PROBS, POSITIVE), CASES["Exponential"].make, (POSITIVE,)),
    ("Uniform", "Gamma"): (lambda d, a, b: d.Uniform(a, a + b), (PROBS, POSITIVE), CASES["Gamma"].make, (POSITIVE, OTHER)),
    ("Uniform", "Pareto"): (lambda d, a, b: d.Uniform(a + 3, a + b + 3), (PROBS, POSITIVE), CASES["Pareto"].make, (POSITIVE, OTHER)),
    ("Beta", "Uniform"): (CASES["Beta"].make, (POSITIVE, OTHER), lambda d, a, b: d.Uniform(-a, 1 + b), (POSITIVE, OTHER)),
    ("ContinuousBernoulli", "Uniform"): (CASES["ContinuousBernoulli"].make, (PROBS,), lambda d, a, b: d.Uniform(-a, 1 + b), (POSITIVE, OTHER)),
    ("Pareto", "Pareto"): (lambda d, a, b: d.Pareto(a + 3, b), (POSITIVE, OTHER), CASES["Pareto"].make, (POSITIVE, OTHER)),
    ("Pareto", "Normal"): (lambda d, a, b: d.Pareto(a, b + 2.5), (POSITIVE, OTHER), CASES["Normal"].make, (REAL, POSITIVE)),
    ("Poisson", "Binomial"): (CASES["Poisson"].make, (POSITIVE,), CASES["Binomial"].make, (PROBS,)),
    ("MultivariateNormal", "LowRankMultivariateNormal"): (
        lambda d, m, c: d.MultivariateNormal(m, with_identity(c)), (VECTORS, COVARIANCE),
        lambda d, m, w, s: d.LowRankMultivariateNormal(m, w, s), (VECTORS[::-1].copy(), LOW_RANK, POSITIVE[0, :3]),
    ),
    ("TransformedDistribution", "TransformedDistribution"): (CASES["LogNormal"].make, (REAL, POSITIVE), CASES["LogNormal"].make, (REAL[::-1].copy(), OTHER)),
    ("Independent", "Independent"): (CASES["Independent"].make, (REAL, POSITIVE), CASES["Independent"].make, (REAL[::-1].copy(), OTHER)),
}  # fmt: skip


def pair(names: tuple[str, str]) -> Call:
    if names in FINITE:
        make_p, parameters_p, make_q, parameters_q = FINITE[names]
    else:
        make_p, parameters_p, _ = CASES[names[0]]
        make_q, given, _ = CASES[names[1]]
        parameters_q = tuple(p[::-1].copy() if p is not COVARIANCE else p + 0.3 * np.eye(3) for p in given)

    def call(t: Any, *given: Any) -> Any:
        n, d = len(parameters_p), t.distributions
        return d.kl_divergence(make_p(d, *given[:n]), make_q(d, *given[n:]))

    return Call(f"kl of {names[0]} and {names[1]}", call, (*parameters_p, *parameters_q), second=False)


CLOSED = [names for names in ALONE if names != ("ExponentialFamily", "ExponentialFamily")]
IDS = ["-".join(names) for names in CLOSED]


@pytest.mark.parametrize("names", CLOSED, ids=IDS)
def test_a_divergence_is_pytorchs(names: tuple[str, str]) -> None:
    call = pair(names)
    values = call.function(torch, *map(torch.tensor, call.arrays))
    infinite = bool(values.isinf().all())
    assert not infinite or names not in FINITE or names == ("Poisson", "Binomial")
    assert_as_torch(Call(call.name, call.function, call.arrays, second=False, gradient=not infinite))


def test_every_pair_of_pytorchs_is_registered() -> None:
    ours = {(p.__name__, q.__name__) for p, q in sg.distributions.kl.KL_REGISTRY}
    assert not set(ALONE) - ours


WEBGPU = [("Normal", "Normal"), ("Gamma", "Gamma"), ("Beta", "Normal"), ("Categorical", "Categorical"), ("MultivariateNormal", "MultivariateNormal"), ("LowRankMultivariateNormal", "MultivariateNormal")]  # fmt: skip


@pytest.mark.parametrize("names", WEBGPU, ids=["-".join(n) for n in WEBGPU])
def test_divergences_on_webgpu_are_those_of_the_cpu(names: tuple[str, str], webgpu: str) -> None:
    assert_as_the_cpu(pair(names), webgpu, 64)


@pytest.mark.parametrize(
    "name", ["Normal", "Exponential", "Gamma", "Beta", "Dirichlet", "Bernoulli", "Poisson", "Wishart"]
)
def test_bregman_divergences_of_families_are_the_closed_forms(name: str) -> None:
    """And have the gradients of both distributions' parameters, which PyTorch's lose for the first."""
    make, parameters, _ = CASES[name]
    d = sg.distributions
    general = d.kl.KL_REGISTRY[d.ExponentialFamily, d.ExponentialFamily]
    other = [np.asarray(p * 1.25 if name not in ("Bernoulli",) else p * 0.75) for p in parameters]
    p, q = make(d, *map(sg.tensor, parameters)), make(d, *map(sg.tensor, other))
    found = general(p, q).numpy()
    if name == "Wishart":
        theirs: Any = torch.distributions.kl_divergence(
            make(torch.distributions, *map(torch.tensor, parameters)),
            make(torch.distributions, *map(torch.tensor, other)),
        )
        expected = theirs.detach().numpy()
    else:
        expected = d.kl_divergence(p, q).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    leaf = sg.tensor(parameters[0], requires_grad=True)

    def first() -> Any:
        return make(d, leaf, *map(sg.tensor, parameters[1:]))

    (slope,) = sg.autograd.grad(general(first(), q).sum(), [leaf])
    if name != "Wishart":
        (right,) = sg.autograd.grad(d.kl_divergence(first(), q).sum(), [leaf])
        np.testing.assert_allclose(slope.numpy(), right.numpy(), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["Normal", "Exponential", "Gamma", "Bernoulli", "Wishart", "ContinuousBernoulli"])
def test_entropies_of_families_follow_from_the_normaliser(name: str) -> None:
    made = CASES[name].make(sg.distributions, *map(sg.tensor, CASES[name].parameters))
    found = sg.distributions.ExponentialFamily.entropy(made)
    expected: Any = torch.distributions.ExponentialFamily.entropy(
        CASES[name].make(torch.distributions, *map(torch.tensor, CASES[name].parameters))
    )
    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-8, atol=1e-10)


def test_edges_of_discrete_divergences_are_pytorchs() -> None:
    a, b = np.array([0.0, 1.0, 0.0, 1.0, 0.5, 0.5]), np.array([0.0, 1.0, 0.5, 0.5, 0.0, 1.0])
    results = []
    for t in (sg, torch):
        d = t.distributions
        p, q = t.tensor(a), t.tensor(b)
        rows = [d.kl_divergence(d.Bernoulli(p), d.Bernoulli(q))]
        rows.append(d.kl_divergence(d.Categorical(t.stack([p, 1 - p], -1)), d.Categorical(t.stack([q, 1 - q], -1))))
        results.append([r.numpy() for r in rows])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


def test_a_divergence_without_a_formula_says_so() -> None:
    d = sg.distributions
    with pytest.raises(NotImplementedError, match="register_kl"):
        d.kl_divergence(d.Cauchy(0.0, 1.0), d.Gamma(1.0, 1.0))
    with pytest.raises(NotImplementedError, match="numbers of axes"):
        d.kl_divergence(
            d.Independent(d.Normal(sg.zeros(2, 2), 1.0), 1), d.Independent(d.Normal(sg.zeros(2, 2), 1.0), 2)
        )
    with pytest.raises(NotImplementedError, match="different exponential families"):
        d.kl_divergence(d.Dirichlet(sg.ones(2)), d.Poisson(sg.ones(2)))
    with pytest.raises(TypeError, match="a class of distributions"):
        d.register_kl(1, d.Normal)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="event shapes"):
        d.kl_divergence(d.MultivariateNormal(sg.zeros(2), sg.eye(2)), d.MultivariateNormal(sg.zeros(3), sg.eye(3)))


def test_the_nearest_rule_is_taken_and_a_tie_is_told() -> None:
    d = sg.distributions

    class P(d.Normal):
        pass

    class Q(d.Normal):
        pass

    assert d.kl_divergence(P(0.0, 1.0), Q(1.0, 1.0)).item() == 0.5
    registry = d.kl.KL_REGISTRY
    before = dict(registry)
    try:
        d.register_kl(P, d.Normal)(lambda p, q: sg.tensor(1.0))
        d.register_kl(d.Normal, Q)(lambda p, q: sg.tensor(2.0))
        assert d.kl_divergence(P(0.0, 1.0), d.Normal(1.0, 1.0)).item() == 1
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(P, Q\)"):
            assert d.kl_divergence(P(0.0, 1.0), Q(1.0, 1.0)).item() == 1
        d.register_kl(P, Q)(lambda p, q: sg.tensor(3.0))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert d.kl_divergence(P(0.0, 1.0), Q(1.0, 1.0)).item() == 3
    finally:
        registry.clear()
        registry.update(before)
    assert math.isfinite(d.kl_divergence(P(0.0, 1.0), Q(1.0, 1.0)).item())
