"""shadergrad.distributions as torch.distributions: densities, moments, shapes, batches, checks, and their gradients."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import i0e, i1e

import shadergrad as sg
from beside import Call, assert_as_the_cpu, assert_as_torch
from distribution_cases import CASES, OTHER, POSITIVE, REAL, SHIFT, made
from helpers import assert_equals_torch
from shadergrad.errors import HostWarning

every = pytest.mark.parametrize("name", CASES)
WHAT = (
    "log_prob", "mean", "mode", "variance", "stddev", "entropy", "perplexity", "cdf", "icdf", "enumerate_support",
)  # fmt: skip
# PyTorch computes these in single precision whatever the dtype; SciPy has them to the last digit
BY_SCIPY = {(n, w) for n in ("GeneralizedPareto", "GeneralizedPareto of shape 0") for w in ("log_prob", "cdf")}
BY_SCIPY |= {("VonMises", w) for w in ("log_prob", "variance", "stddev")}
BY_SCIPY |= {(n, w) for n in ("Multinomial", "Multinomial of logits") for w in ("entropy", "perplexity")}
BY_SCIPY |= {("StudentT", "perplexity"), ("StudentT of few degrees", "perplexity")}
BY_SCIPY |= {
    ("ContinuousBernoulli near a half", w) for w in ("variance", "stddev")
}  # whose gradient cancels in PyTorch's formula
NO_GRADIENT = {
    ("Gamma", "cdf"),
    ("Chi2", "cdf"),
    ("InverseGamma", "cdf"),
}  # PyTorch's igamma has none of its first argument


def property_of(name: str, what: str, t: Any, *given: Any) -> Any:
    """One of WHAT, of a case made in a library."""
    d = CASES[name].make(t.distributions, *given)
    if what in ("log_prob", "cdf"):
        value = CASES[name].value
        at = t.tensor(value, dtype=given[0].dtype if value.dtype.kind == "f" else t.int32, device=given[0].device)
        return getattr(d, what)(at)
    if what == "icdf":
        return d.icdf(t.tensor(np.linspace(0.1, 0.9, 12).reshape(3, 4), dtype=given[0].dtype, device=given[0].device))
    found = getattr(d, what)
    return found() if callable(found) else found


def calls(name: str) -> list[tuple[str, Call]]:
    found = []
    for what in WHAT:

        def call(t: Any, *given: Any, what: str = what) -> Any:
            return property_of(name, what, t, *given)

        try:
            call(torch, *map(torch.tensor, CASES[name].parameters))
        except (NotImplementedError, RuntimeError):
            if (name, what) not in BY_SCIPY:
                continue
        smooth = what not in ("mode", "enumerate_support") and (name, what) not in NO_GRADIENT
        found.append((what, Call(f"{name} {what}", call, CASES[name].parameters, second=False, gradient=smooth)))
    assert found, name
    return found


@every
def test_densities_and_moments_are_pytorchs(name: str) -> None:
    for what, call in calls(name):
        if (name, what) not in BY_SCIPY:
            assert_as_torch(call)


@pytest.mark.parametrize("name", sorted({n for n, _ in BY_SCIPY}))
def test_densities_are_scipys_where_pytorch_has_single_precision(name: str) -> None:
    parameters, value = CASES[name].parameters, CASES[name].value
    if name.startswith("Generalized"):
        a, b, c = (*parameters, 0 * REAL)[:3]
        known: Any = stats.genpareto(c, loc=a, scale=b)
        expected = {"log_prob": known.logpdf(value), "cdf": known.cdf(value)}
    elif name == "VonMises":
        a, b = parameters
        angles: Any = stats.vonmises(b, loc=a)
        spread = 1 - i1e(b) / i0e(b)
        expected = {"log_prob": angles.logpdf(value), "variance": spread, "stddev": np.sqrt(spread)}
    elif name.startswith("ContinuousBernoulli"):
        t = np.log(parameters[0]) - np.log1p(-parameters[0])  # near 0, where three terms of the series are exact
        spread = 1 / 12 - t**2 / 240 + t**4 / 6048
        expected = {"variance": spread, "stddev": np.sqrt(spread)}
    elif name.startswith("Multinomial"):
        p = made(name, torch).probs.numpy()
        entropy = np.array([stats.multinomial(8, row / row.sum()).entropy() for row in p])
        expected = {"entropy": entropy, "perplexity": np.exp(entropy)}
    else:
        d = made(name, torch)
        expected = {"perplexity": np.exp(stats.t(d.df.numpy(), scale=d.scale.numpy()).entropy())}
    for what, right in expected.items():
        found = property_of(name, what, sg, *map(sg.tensor, parameters))
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-8, err_msg=f"{name} {what}")


@every
def test_webgpu_gives_what_the_cpu_gives(name: str, webgpu: str, recwarn: pytest.WarningsRecorder) -> None:
    known = [c for _, c in calls(name)]
    for gradient in (True, False):
        some = [c for c in known if c.gradient == gradient]
        whole = Call(
            name, lambda t, *given, some=some: [c.function(t, *given) for c in some], known[0].arrays, gradient=gradient
        )
        if some:
            assert_as_the_cpu(whole, webgpu, 64)
    assert not [w for w in recwarn if issubclass(w.category, HostWarning)], "all stays on the device"


@every
def test_shapes_and_attributes_are_pytorchs(name: str) -> None:
    ours, theirs = made(name, sg), made(name, torch)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    for what in ("has_rsample", "has_enumerate_support"):
        assert getattr(ours, what) == getattr(theirs, what), what
    assert list(ours.arg_constraints) == list(theirs.arg_constraints)
    for key, constraint in theirs.arg_constraints.items():
        assert type(ours.arg_constraints[key]).__name__ == type(constraint).__name__, key
    assert type(ours.support).__name__ == type(theirs.support).__name__
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete
    shown = repr(ours).replace("shadergrad.Size", "torch.Size").replace(", dtype=shadergrad.float64", "")
    assert shown.split("(")[0] == repr(theirs).split("(")[0]


@every
def test_an_expanded_distribution_is_pytorchs(name: str) -> None:
    ours, theirs = made(name, sg), made(name, torch)
    shape = (2, *theirs.batch_shape)
    mine, other = ours.expand(sg.Size(shape)), theirs.expand(torch.Size(shape))
    assert type(mine) is type(ours) or isinstance(mine, type(ours))
    assert tuple(mine.batch_shape) == shape == tuple(other.batch_shape)
    assert tuple(mine.event_shape) == tuple(other.event_shape)
    value = CASES[name].value
    if ("GeneralizedPareto" in name) or name == "VonMises":
        at = sg.tensor(value)
        assert_equals_torch(mine.log_prob(at), torch.tensor(ours.log_prob(at).expand(*shape).numpy()), 1e-12)
    else:
        if name == "MixtureSameFamily of vectors":  # a batch of ()
            value = value[0]
        assert_equals_torch(mine.log_prob(sg.tensor(value)), other.log_prob(torch.tensor(value)), 1e-9)
    drawn = mine.sample((3,))
    assert tuple(drawn.shape) == (3, *shape, *other.event_shape)
    assert not drawn.requires_grad
    again = mine.expand(mine.batch_shape)
    assert again.batch_shape == mine.batch_shape


@every
def test_numbers_broadcast_with_tensors_and_dtypes_stay(name: str) -> None:
    d = made(name, sg, single=True)
    drawn = d.sample((2,))
    assert drawn.dtype is (sg.int32 if name.startswith("Categorical") else sg.float32)
    assert str(drawn.device) == "cpu"


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "Normal": lambda d: d.Normal(0, 1), "Uniform": lambda d: d.Uniform(0, 2), "Gamma": lambda d: d.Gamma(2, 1.0),
    "Beta": lambda d: d.Beta(1, 2.0), "Bernoulli": lambda d: d.Bernoulli(0.5), "Geometric": lambda d: d.Geometric(0.5),
    "Poisson": lambda d: d.Poisson(3), "StudentT": lambda d: d.StudentT(3), "Gumbel": lambda d: d.Gumbel(0, 1),
    "Pareto": lambda d: d.Pareto(1, 3.0), "Weibull": lambda d: d.Weibull(1, 2.0), "HalfNormal": lambda d: d.HalfNormal(1),
    "HalfCauchy": lambda d: d.HalfCauchy(1.0), "InverseGamma": lambda d: d.InverseGamma(3, 1), "Cauchy": lambda d: d.Cauchy(0, 1),
    "FisherSnedecor": lambda d: d.FisherSnedecor(3, 5), "Chi2": lambda d: d.Chi2(3), "LKJCholesky": lambda d: d.LKJCholesky(3),
    "ContinuousBernoulli": lambda d: d.ContinuousBernoulli(0.3), "LogisticNormal": lambda d: d.LogisticNormal(0.0, 1.0),
    "Kumaraswamy": lambda d: d.Kumaraswamy(1.0, 2.0), "Exponential": lambda d: d.Exponential(2), "Laplace": lambda d: d.Laplace(0, 1),
    "LogNormal": lambda d: d.LogNormal(0, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_parameters_may_be_numbers(name: str) -> None:
    ours, theirs = NUMBERS[name](sg.distributions), NUMBERS[name](torch.distributions)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert tuple(ours.sample((2,)).shape) == tuple(theirs.sample((2,)).shape)
    assert ours.sample().dtype is sg.float32
    assert repr(ours).split("(")[0] == repr(theirs).split("(")[0]


def test_a_distribution_prints_its_parameters() -> None:
    assert repr(sg.distributions.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    shown = repr(sg.distributions.Normal(sg.zeros(2), sg.ones(2)))
    assert shown == "Normal(loc: shadergrad.Size([2]), scale: shadergrad.Size([2]))"
    whole = sg.distributions.Independent(sg.distributions.Normal(sg.zeros(2), sg.ones(2)), 1)
    assert repr(whole) == f"Independent({shown}, 1)"


def test_a_subclass_expands_where_it_says_how() -> None:
    class Plain(sg.distributions.Normal):
        pass

    class Own(sg.distributions.Normal):
        def __init__(self, loc: Any) -> None:
            super().__init__(loc, 1.0)

    assert type(Plain(sg.zeros(3), 1.0).expand((2, 3))) is Plain
    with pytest.raises(NotImplementedError, match=r"must also define a custom \.expand"):
        Own(sg.zeros(3)).expand((2, 3))


def test_a_distribution_of_the_users_own_needs_no_table() -> None:
    class Point(sg.distributions.Distribution):
        arg_constraints = {"at": sg.distributions.constraints.real}  # noqa: RUF012
        support = sg.distributions.constraints.real

        def __init__(self, at: Any) -> None:
            self.at = at
            super().__init__(at.shape)

        def sample(self, sample_shape: Any = ()) -> Any:
            return self.at.expand(*self._extended_shape(sample_shape))

    d = Point(sg.ones(2))
    assert d.sample((3,)).shape == (3, 2)
    with pytest.raises(NotImplementedError):
        d.expand((2, 2))
    with pytest.raises(NotImplementedError):
        d.entropy()
    with pytest.raises(sg.ShadergradError, match="to satisfy the constraint Real"):
        Point(sg.tensor([math.nan]))


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a negative scale": lambda t, d: d.Normal(t.zeros(2), t.tensor([1.0, -1.0])),
    "a scale of 0": lambda t, d: d.Laplace(0.0, 0.0),
    "a loc that is NaN": lambda t, d: d.Normal(t.tensor([math.nan]), 1.0),
    "an empty interval": lambda t, d: d.Uniform(t.ones(1), t.zeros(1)),
    "a concentration of 0": lambda t, d: d.Gamma(t.zeros(1), t.ones(1)),
    "a probability above 1": lambda t, d: d.Bernoulli(t.tensor([1.5])),
    "no parameter": lambda t, d: d.Bernoulli(),
    "both parameters": lambda t, d: d.Bernoulli(probs=t.ones(1), logits=t.ones(1)),
    "a negative probability": lambda t, d: d.Categorical(t.tensor([-1.0, 2.0])),
    "probabilities of no classes": lambda t, d: d.Categorical(t.tensor(1.0)),
    "a Dirichlet concentration of 0": lambda t, d: d.Dirichlet(t.zeros(2)),
    "a Dirichlet concentration without an axis": lambda t, d: d.Dirichlet(t.tensor(1.0)),
    "no matrix": lambda t, d: d.MultivariateNormal(t.zeros(2)),
    "two matrices": lambda t, d: d.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2)),
    "a negative definite covariance": lambda t, d: d.MultivariateNormal(t.zeros(2), -t.eye(2)),
    "an asymmetric covariance": lambda t, d: d.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 0.5], [0.0, 1.0]])),
    "a full factor": lambda t, d: d.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2, 2)),
    "a loc without an axis": lambda t, d: d.MultivariateNormal(t.tensor(0.0), t.eye(2)),
    "a factor of low rank that does not fit": lambda t, d: d.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2)),
    "too few degrees of freedom": lambda t, d: d.Wishart(t.tensor(0.5), t.eye(2)),
    "a correlation of one variable": lambda t, d: d.LKJCholesky(1, 1.0),
    "more axes than the batch has": lambda t, d: d.Independent(d.Normal(t.zeros(2), t.ones(2)), 2),
    "no transform": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), [1]),
    "a transform of vectors for a number": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform()),
    "components that are not as many": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), d.Normal(t.zeros(3), 1.0)),
    "a mixture of no categories": lambda t, d: d.MixtureSameFamily(d.Normal(t.zeros(2), 1.0), d.Normal(t.zeros(2), 1.0)),
    "a geometric probability of 0": lambda t, d: d.Geometric(t.tensor([0.0])),
    "a negative rate": lambda t, d: d.Poisson(t.tensor([-1.0])),
    "a count that is not whole": lambda t, d: d.Binomial(t.tensor(1.5), t.tensor(0.5)),
    "half a bit": lambda t, d: d.Bernoulli(t.tensor([0.5])).log_prob(t.tensor([0.3])),
    "a class that is not there": lambda t, d: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    "a negative time": lambda t, d: d.Exponential(t.ones(1)).log_prob(-t.ones(1)),
    "a value of another shape": lambda t, d: d.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
    "a vector of another size": lambda t, d: d.Dirichlet(t.ones(3)).log_prob(t.ones(2) / 2),
    "a value that is no tensor": lambda t, d: d.Normal(t.zeros(3), 1.0).log_prob(1.0),
    "a vector off the simplex": lambda t, d: d.Dirichlet(t.ones(3)).log_prob(t.ones(3)),
    "two ones": lambda t, d: d.OneHotCategorical(t.ones(3)).log_prob(t.ones(3)),
    "more than all trials": lambda t, d: d.Binomial(3, t.tensor(0.5)).log_prob(t.tensor(4.0)),
    "a value below the scale": lambda t, d: d.Pareto(t.ones(1), t.ones(1)).log_prob(t.zeros(1)),
    "a default that is no bool": lambda t, d: d.Distribution.set_default_validate_args("yes"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_pytorch_refuses_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # its test tables turn it off
    with pytest.raises((ValueError, RuntimeError, AssertionError)):
        REFUSED[what](torch, torch.distributions)
    with pytest.raises(ValueError) as raised:
        REFUSED[what](sg, sg.distributions)
    assert isinstance(raised.value, sg.ShadergradError)
    assert len(str(raised.value)) > 20


def test_nothing_is_checked_where_checks_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    d = sg.distributions
    assert d.Normal(0.0, -1.0, validate_args=False).log_prob(sg.tensor(math.nan)).isnan().item()
    assert d.Uniform(0.0, 1.0, validate_args=False).log_prob(sg.tensor(2.0)).item() == -math.inf
    d.Distribution.set_default_validate_args(False)
    try:
        d.Normal(0.0, -1.0)
        with pytest.raises(ValueError):
            d.Normal(0.0, -1.0, validate_args=True)
    finally:
        d.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        d.Normal(0.0, -1.0)


def test_the_error_of_a_parameter_says_which_and_why() -> None:
    with pytest.raises(ValueError) as raised:
        sg.distributions.Normal(sg.zeros(2), sg.tensor([1.0, -1.0]))
    assert "Expected parameter scale (Tensor of shape (2,)) of distribution Normal(" in str(raised.value)
    assert "to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid values" in str(raised.value)


def test_a_compiled_step_draws_anew_and_trains(device: str) -> None:
    loc = sg.zeros(4, device=device, requires_grad=True)
    optimizer = sg.optim.SGD([loc], lr=0.1)

    @sg.compile
    def step() -> sg.Tensor:
        optimizer.zero_grad()
        x = sg.distributions.Normal(loc, 0.1).rsample((16,))
        loss = (x - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(100)]
    assert len(set(losses)) == 100
    assert losses[-1] < 0.1 * losses[0]


COMPILED = [n for n in CASES if n not in ("Binomial", "Binomial of logits")]  # whose entropy reads how many trials


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_step_holds_it(name: str, device: str) -> None:
    """Made within the step; draws and densities of fixed values are those outside."""
    case = CASES[name]
    given = [sg.tensor(p.astype(np.float32), device=device) for p in case.parameters]
    value = case.value.astype(np.float32) if case.value.dtype.kind == "f" else case.value
    at = sg.tensor(value, device=device)

    @sg.compile
    def step(*parameters: Any) -> Any:
        d = case.make(sg.distributions, *parameters)
        return d.log_prob(at), d.sample((2,))

    found, drawn = step(*given)
    expected = case.make(sg.distributions, *given).log_prob(at)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5, atol=2e-5)
    again = step(*given)[1]
    assert tuple(drawn.shape) == tuple(again.shape)
    assert not np.isnan(drawn.numpy().astype(np.float64)).any()
    if drawn.dtype is not sg.int32 and name.split()[0] not in (
        "Bernoulli",
        "OneHotCategorical",
        "OneHotCategoricalStraightThrough",
    ):
        assert not np.array_equal(drawn.numpy(), again.numpy()), "a step draws anew"


def test_every_name_of_pytorchs_is_here() -> None:
    for space in ("", "constraints", "transforms", "constraint_registry", "kl", "utils"):
        ours, theirs = sg.distributions, torch.distributions
        for part in space.split("."):
            ours, theirs = (getattr(ours, part), getattr(theirs, part)) if part else (ours, theirs)
        assert not [n for n in theirs.__all__ if not hasattr(ours, n)], space


def test_moments_of_heavy_tails_are_infinite_or_absent() -> None:
    d = sg.distributions
    assert d.Pareto(1.0, 0.5).mean.item() == math.inf
    assert math.isnan(d.StudentT(0.5).mean.item())
    assert d.StudentT(1.5).variance.item() == math.inf
    assert math.isnan(d.FisherSnedecor(1.0, 1.0).mean.item())
    assert d.InverseGamma(0.5, 1.0).mean.item() == math.inf
    assert np.isnan(d.Cauchy(sg.zeros(2), 1.0).mean.numpy()).all()
    assert OTHER.shape == POSITIVE.shape == SHIFT.shape


@pytest.mark.parametrize("what", ["a draw", "gammainc by its shape", "gammaincc by both"])
def test_second_derivatives_by_a_gamma_variables_shape_are_refused(what: str, device: str) -> None:
    """In words: left out, they would be wrong numbers."""
    a = sg.tensor([2.0, 0.7], device=device, requires_grad=True)
    x = sg.tensor([1.5, 0.4], device=device, requires_grad=True)
    values: dict[str, Any] = {
        "a draw": lambda: sg.distributions.Gamma(a, x.detach()).rsample().square(),
        "gammainc by its shape": lambda: sg.special.gammainc(a, x),
        "gammaincc by both": lambda: sg.special.gammaincc(a, x),
    }
    (first,) = sg.autograd.grad(values[what]().sum(), a, create_graph=True)
    assert first.isfinite().all()
    by = x if what == "gammaincc by both" else a
    with pytest.raises(sg.AutogradError, match="no second derivative that involves their shape"):
        sg.autograd.grad(first.sum(), by)


def _continuous_bernoulli(p: float) -> tuple[float, float, float]:
    """The mean, the variance and the logarithm of the constant of the density, in sixty digits."""
    with decimal.localcontext(decimal.Context(prec=60)):
        t = (decimal.Decimal(p) / (1 - decimal.Decimal(p))).ln()
        half = (t / 2).exp()
        coth = (half + 1 / half) / (half - 1 / half)
        mean, variance = coth / 2 - 1 / t + decimal.Decimal("0.5"), 1 / t**2 - 1 / (half - 1 / half) ** 2
        return float(mean), float(variance), float((t * coth).ln())


def test_a_continuous_bernoulli_variable_is_exact_near_a_half(device: str) -> None:
    p = np.array(
        [0.02, 0.2, 0.3, 0.45, 0.49, 0.4985, 0.4992, 0.4999, 0.50001, 0.5005, 0.5015, 0.503, 0.6, 0.8, 0.95], np.float32
    )
    given = sg.tensor(p, device=device, requires_grad=True)
    d = sg.distributions.ContinuousBernoulli(given)
    step = 1e-9
    steps = [
        [(a - b) / (2 * step) for a, b in zip(*map(_continuous_bernoulli, (x + step, x - step)), strict=True)]
        for x in p.astype(np.float64)
    ]
    values = np.array([_continuous_bernoulli(float(x)) for x in p])
    for k, found in enumerate((d.mean, d.variance, d.log_prob(sg.tensor(0.0, device=device)) - (-given).log1p())):
        (slope,) = sg.autograd.grad(found.sum(), given, retain_graph=True)
        np.testing.assert_allclose(found.detach().cpu().numpy(), values[:, k], 2e-6)
        np.testing.assert_allclose(slope.cpu().numpy(), np.array(steps)[:, k], 2e-5, 2e-6)
