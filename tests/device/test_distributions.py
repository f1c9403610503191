"""shadergrad.distributions as torch.distributions: densities, moments, divergences and their gradients; draws by their moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from beside import Call, assert_as_the_cpu, assert_as_torch, floats
from shadergrad import host_operations

POSITIVE, REAL = floats(3, 4, low=0.3, high=3.0), floats(3, 4)
OTHER, SHIFT = floats(3, 4, seed=1, low=0.3, high=3.0), floats(3, 4, seed=2)
PROBS = floats(3, 4, low=0.1, high=0.9)
CLASSES = np.array([0, 3, 1])
COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]])
VECTORS = floats(5, 3)
BITS = np.array([[1.0, 0.0, 1.0, 0.0]] * 3)

Make = Callable[..., Any]
# how each is made of a library's tensors, the parameters, and a value
DISTRIBUTIONS: dict[str, tuple[Make, tuple[np.ndarray, ...], np.ndarray]] = {
    "Normal": (lambda d, a, b: d.Normal(a, b), (REAL, POSITIVE), SHIFT),
    "Uniform": (lambda d, a, b: d.Uniform(a, a + b), (REAL, POSITIVE), REAL + 0.5 * POSITIVE),
    "Exponential": (lambda d, a: d.Exponential(a), (POSITIVE,), OTHER),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), (REAL, POSITIVE), SHIFT),
    "LogNormal": (lambda d, a, b: d.LogNormal(a, b), (REAL, POSITIVE), OTHER),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), (POSITIVE, OTHER), OTHER),
    "Beta": (lambda d, a, b: d.Beta(a, b), (POSITIVE, OTHER), PROBS),
    "Dirichlet": (lambda d, a: d.Dirichlet(a), (POSITIVE,), PROBS / PROBS.sum(-1, keepdims=True)),
    "Bernoulli": (lambda d, a: d.Bernoulli(a), (PROBS,), BITS),
    "Bernoulli of logits": (lambda d, a: d.Bernoulli(logits=a), (REAL,), BITS),
    "Categorical": (lambda d, a: d.Categorical(a), (PROBS,), CLASSES),
    "Categorical of logits": (lambda d, a: d.Categorical(logits=a), (REAL,), CLASSES),
    "OneHotCategorical": (lambda d, a: d.OneHotCategorical(a), (PROBS,), np.eye(4)[CLASSES]),
    "MultivariateNormal": (lambda d, m, c: d.MultivariateNormal(m, (c + c.mT) / 2), (VECTORS, COVARIANCE), floats(5, 3, seed=4)),
    "MultivariateNormal of a factor": (
        lambda d, m, c: d.MultivariateNormal(m, scale_tril=c.tril()),
        (VECTORS, COVARIANCE),
        floats(5, 3, seed=4),
    ),
    "Independent": (lambda d, a, b: d.Independent(d.Normal(a, b), 1), (REAL, POSITIVE), SHIFT),
    "TransformedDistribution": (
        lambda d, a, b: d.TransformedDistribution(d.Normal(a, b), [d.TanhTransform(), d.AffineTransform(1.0, 2.0)]),
        (REAL, POSITIVE),
        1 + 2 * floats(3, 4, low=-0.9, high=0.9),
    ),
    "logistic": (
        lambda d, a: d.TransformedDistribution(d.Uniform(a * 0, a * 0 + 1), [d.SigmoidTransform().inv, d.ExpTransform()]),
        (REAL,),
        OTHER,
    ),
}  # fmt: skip
every = pytest.mark.parametrize("name", DISTRIBUTIONS)
WHAT = ("log_prob", "mean", "variance", "entropy", "cdf")


def calls(name: str) -> list[Call]:
    make, parameters, value = DISTRIBUTIONS[name]
    found = []
    for what in WHAT:

        def call(t: Any, *given: Any, what: str = what) -> Any:
            d = make(t.distributions, *given)
            if what in ("log_prob", "cdf"):
                at = t.tensor(value)
                at = at.to(given[0].dtype) if value.dtype.kind == "f" else at
                return getattr(d, what)(at.to(given[0].device))
            return d.entropy() if what == "entropy" else getattr(d, what)

        try:
            call(torch, *map(torch.tensor, parameters))
            call(sg, *map(sg.tensor, parameters))
        except NotImplementedError:
            continue
        tame = not (name.startswith("MultivariateNormal") and what == "variance") and (name, what) != ("Gamma", "cdf")
        found.append(Call(f"{name} {what}", call, parameters, second=False, gradient=tame))
    assert found, name
    return found


@every
def test_densities_and_moments_are_pytorchs(name: str) -> None:
    for call in calls(name):
        if call.name not in ("Categorical mean", "Categorical variance"):
            assert_as_torch(call)


@every
def test_webgpu_gives_what_the_cpu_gives(name: str, webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_operations, "_said", {"test"})
    assert_as_the_cpu(calls(name)[0], webgpu)


@every
def test_draws_have_the_moments_of_the_distribution(name: str) -> None:
    make, parameters, _ = DISTRIBUTIONS[name]
    sg.manual_seed(0)
    d = make(sg.distributions, *(sg.tensor(p) for p in parameters))
    count = 20000
    drawn = d.sample((count,)).numpy().astype(np.float64)
    assert drawn.shape == (count, *d.batch_shape, *d.event_shape)
    try:
        mean, variance = d.mean.numpy(), d.variance.numpy()
    except NotImplementedError:
        return
    error = np.abs(drawn.mean(0) - mean) / np.sqrt(np.maximum(variance, 1e-12))
    # LogNormal's tail makes its mean slow; 5 sigma of the mean of the others
    assert error.max() < (0.2 if name == "LogNormal" else 5 / np.sqrt(count))
    if name != "LogNormal":
        np.testing.assert_allclose(drawn.var(0), np.broadcast_to(variance, drawn.shape[1:]), rtol=0.25)


def test_classes_are_drawn_by_their_probabilities(device: str) -> None:
    sg.manual_seed(1)
    d = sg.distributions.Categorical(sg.tensor([0.1, 0.2, 0.7], device=device))
    drawn = d.sample((20000,)).numpy()
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 20000, [0.1, 0.2, 0.7], atol=0.015)


@pytest.mark.parametrize("name", ["Normal", "Uniform", "Exponential", "Laplace", "Gamma", "LogNormal"])
def test_draws_have_the_gradients_of_their_quantiles(name: str) -> None:
    """A draw keeps its place among all: F(x; p) stays, so dx/dp = -(dF/dp) / f, by differences of PyTorch's or SciPy's F."""
    from scipy import stats

    by_name: dict[str, Any] = {
        "Normal": lambda a, b: stats.norm(a, b),
        "Uniform": lambda a, b: stats.uniform(a, b),
        "Exponential": lambda a: stats.expon(scale=1 / a),
        "Laplace": lambda a, b: stats.laplace(a, b),
        "Gamma": lambda a, b: stats.gamma(a, scale=1 / b),
        "LogNormal": lambda a, b: stats.lognorm(b, scale=np.exp(a)),
    }
    make, parameters, _ = DISTRIBUTIONS[name]
    given = [p.ravel()[:5].copy() for p in parameters]
    sg.manual_seed(2)
    leaves = [sg.tensor(p, requires_grad=True) for p in given]
    x = make(sg.distributions, *leaves).rsample()
    found = sg.autograd.grad(x.sum(), leaves)
    at, known = x.detach().numpy(), by_name[name]
    for k, g in enumerate(found):
        up, down = ([p + s * 1e-5 * (j == k) for j, p in enumerate(given)] for s in (1, -1))
        slope = (known(*up).cdf(at) - known(*down).cdf(at)) / 2e-5
        expected = -slope / known(*given).pdf(at)
        np.testing.assert_allclose(g.numpy(), expected, rtol=2e-4, atol=1e-6)


KL = [
    "Normal",
    "Exponential",
    "Laplace",
    "LogNormal",
    "Gamma",
    "Beta",
    "Dirichlet",
    "Bernoulli",
    "Categorical",
    "OneHotCategorical",
    "MultivariateNormal",
    "Independent",
]


@pytest.mark.parametrize("name", KL)
def test_divergences_are_pytorchs(name: str) -> None:
    make, parameters, _ = DISTRIBUTIONS[name]
    other = [p[::-1].copy() if p is not COVARIANCE else p + 0.3 * np.eye(3) for p in parameters]

    def call(t: Any, *given: Any) -> Any:
        half = len(given) // 2
        d = t.distributions
        return d.kl_divergence(make(d, *given[:half]), make(d, *given[half:]))

    assert_as_torch(Call(f"kl {name}", call, (*parameters, *other), second=False))


def test_a_divergence_without_a_formula_says_so() -> None:
    d = sg.distributions
    with pytest.raises(NotImplementedError, match="register_kl"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Gamma(1.0, 1.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda t, d: d.Normal(t.zeros(2), t.tensor([1.0, -1.0])),
        lambda t, d: d.Uniform(t.ones(1), t.zeros(1)),
        lambda t, d: d.Gamma(t.zeros(1), t.ones(1)),
        lambda t, d: d.Bernoulli(t.tensor([1.5])),
        lambda t, d: d.Bernoulli(),
        lambda t, d: d.Bernoulli(probs=t.ones(1), logits=t.ones(1)),
        lambda t, d: d.Categorical(t.tensor([-1.0, 2.0])),
        lambda t, d: d.Categorical(t.tensor(1.0)),
        lambda t, d: d.Dirichlet(t.zeros(2)),
        lambda t, d: d.MultivariateNormal(t.zeros(2)),
        lambda t, d: d.MultivariateNormal(t.zeros(2), -t.eye(2)),
        lambda t, d: d.Independent(d.Normal(t.zeros(2), t.ones(2)), 2),
        lambda t, d: d.Bernoulli(t.tensor([0.5])).log_prob(t.tensor([0.3])),
        lambda t, d: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
        lambda t, d: d.Exponential(t.ones(1)).log_prob(-t.ones(1)),
    ],
)
def test_what_pytorch_refuses_is_refused(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # its test tables turn it off
    with pytest.raises((ValueError, RuntimeError)):
        make(torch, torch.distributions)
    with pytest.raises(sg.ShadergradError):
        make(sg, sg.distributions)


def test_a_compiled_step_draws_anew_and_trains(device: str) -> None:
    loc = sg.zeros(4, device=device, requires_grad=True)
    optimizer = sg.optim.SGD([loc], lr=0.1)

    @sg.compile
    def step() -> sg.Tensor:
        optimizer.zero_grad()
        x = sg.distributions.Normal(loc, 0.1, validate_args=False).rsample((16,))
        loss = (x - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(100)]
    assert len(set(losses)) == 100
    assert losses[-1] < 0.1 * losses[0]


def test_expand_and_repr() -> None:
    d = sg.distributions.Normal(sg.zeros(3), sg.ones(3)).expand((2, 3))
    assert d.sample().shape == (2, 3)
    assert repr(sg.distributions.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
