"""Transforms, constraints and their registries as PyTorch's: values, inverses, derivatives, caches, shapes, checks at edges."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from beside import Call, assert_as_the_cpu, assert_as_torch, floats
from distribution_cases import CORRELATION, COVARIANCE, OTHER, POSITIVE, PROBS, REAL

TORCH: Any = torch.distributions
Make = Callable[[Any, Any], Any]
# how each is made from transforms and tensors, and an x
TRANSFORMS: dict[str, tuple[Make, np.ndarray]] = {
    "exp": (lambda d, t: d.ExpTransform(), REAL),
    "power": (lambda d, t: d.PowerTransform(t.tensor(2.5, dtype=t.float64)), POSITIVE),
    "powers": (lambda d, t: d.PowerTransform(t.tensor(OTHER)), POSITIVE),
    "sigmoid": (lambda d, t: d.SigmoidTransform(), REAL),
    "softplus": (lambda d, t: d.SoftplusTransform(), REAL),
    "tanh": (lambda d, t: d.TanhTransform(), REAL),
    "abs": (lambda d, t: d.AbsTransform(), REAL),
    "affine": (lambda d, t: d.AffineTransform(1.5, -2.0), REAL),
    "affine of tensors": (lambda d, t: d.AffineTransform(t.tensor(REAL), t.tensor(OTHER)), REAL),
    "affine of vectors": (lambda d, t: d.AffineTransform(t.tensor(REAL[0]), t.tensor(OTHER[0]), event_dim=1), REAL),
    "correlations": (lambda d, t: d.CorrCholeskyTransform(), floats(2, 6)),
    "softmax": (lambda d, t: d.SoftmaxTransform(), REAL),
    "stick": (lambda d, t: d.StickBreakingTransform(), REAL),
    "factor": (lambda d, t: d.LowerCholeskyTransform(), floats(2, 3, 3)),
    "positive definite": (lambda d, t: d.PositiveDefiniteTransform(), floats(2, 3, 3)),
    "reshape": (lambda d, t: d.ReshapeTransform((4,), (2, 2)), REAL),
    "cat": (lambda d, t: d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 3]), REAL),
    "cat along the batch": (lambda d, t: d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=0, lengths=[1, 2]), REAL),
    "stack": (lambda d, t: d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.identity_transform], dim=0), REAL),
    "composed": (lambda d, t: d.ComposeTransform([d.TanhTransform(), d.AffineTransform(0.5, 3.0), d.ExpTransform()]), REAL),
    "composed of vectors": (
        lambda d, t: d.ComposeTransform([d.AffineTransform(0.5, 3.0), d.StickBreakingTransform(), d.ExpTransform()]), REAL,
    ),
    "composed of nothing": (lambda d, t: d.identity_transform, REAL),
    "independent": (lambda d, t: d.IndependentTransform(d.ExpTransform(), 1), REAL),
    "cdf": (lambda d, t: d.CumulativeDistributionTransform(d.Laplace(t.tensor(REAL), 1.0)), REAL + 0.3),
    "inverse": (lambda d, t: d.SigmoidTransform().inv, PROBS),
    "inverse of composed": (lambda d, t: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]).inv, 1 + POSITIVE),
}  # fmt: skip
every = pytest.mark.parametrize("name", TRANSFORMS)


def calls(name: str) -> list[Call]:
    make, x = TRANSFORMS[name]

    def forward(t: Any, x: Any) -> Any:
        return make(t.distributions, t)(x)

    def back(t: Any, x: Any) -> Any:
        made = make(t.distributions, t)
        return made.inv(made(x) * 1.0)

    def slope(t: Any, x: Any) -> Any:
        made = make(t.distributions, t)
        return made.log_abs_det_jacobian(x, made(x))

    found = [Call(f"{name} forward", forward, (x,), second=False), Call(f"{name} back", back, (x,), second=False)]
    made = make(torch.distributions, torch)
    try:
        made.log_abs_det_jacobian(torch.tensor(x), made(torch.tensor(x)))
    except NotImplementedError:
        return found
    return [*found, Call(f"{name} slope", slope, (x,), second=False)]


@every
def test_values_inverses_and_derivatives_are_pytorchs(name: str) -> None:
    for call in calls(name):
        assert_as_torch(call, 1e-8)


@pytest.mark.parametrize(
    "name", [n for n in TRANSFORMS if n not in ("power", "powers", "affine of tensors", "affine of vectors", "cdf")]
)
def test_webgpu_gives_what_the_cpu_gives(name: str, webgpu: str) -> None:
    for call in calls(name)[::2]:
        assert_as_the_cpu(call, webgpu, 16)


@every
def test_attributes_and_shapes_are_pytorchs(name: str) -> None:
    make, x = TRANSFORMS[name]
    ours, theirs = make(sg.distributions, sg), make(torch.distributions, torch)
    assert ours.bijective == theirs.bijective
    for what in ("domain", "codomain"):
        mine, other = getattr(ours, what), getattr(theirs, what)
        assert type(mine).__name__ == type(other).__name__
        assert mine.event_dim == other.event_dim
    assert repr(ours).split("(")[0] == repr(theirs).split("(")[0]
    shape = tuple(theirs.forward_shape(torch.Size(x.shape)))
    assert tuple(ours.forward_shape(x.shape)) == shape == tuple(ours(sg.tensor(x)).shape)
    assert tuple(ours.inverse_shape(shape)) == tuple(theirs.inverse_shape(torch.Size(shape)))
    try:
        sign = theirs.sign
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            _ = ours.sign
    else:
        np.testing.assert_array_equal(
            np.asarray(ours.sign if isinstance(ours.sign, int) else ours.sign.numpy()), np.asarray(sign)
        )
    assert ours.inv.inv is ours
    assert (
        ours == make(sg.distributions, sg)
        if theirs == make(torch.distributions, torch)
        else ours != make(sg.distributions, sg)
    )
    if "cdf" not in name:
        assert repr(pickle.loads(pickle.dumps(ours))) == repr(ours)
    assert repr(copy.deepcopy(ours)) == repr(ours)


@pytest.mark.parametrize("name", [n for n in TRANSFORMS if n not in ("inverse of composed", "composed of nothing")])
def test_a_cached_inverse_is_the_very_tensor(name: str) -> None:
    make, x = TRANSFORMS[name]
    made = make(sg.distributions, sg).with_cache(1)
    given = sg.tensor(x)
    y = made(given)
    if name in ("cat", "cat along the batch", "stack", "composed", "composed of vectors"):
        assert made._cache_size == 1
        return
    assert made.inv(y) is given
    assert made(given) is y
    assert made.with_cache(1) is made
    assert made.with_cache(0)._cache_size == 0


def test_caches_make_saturated_values_exact() -> None:
    d = sg.distributions
    x = sg.tensor([30.0])
    plain, kept = d.TanhTransform(), d.TanhTransform(cache_size=1)
    assert plain.inv(plain(x)).item() == math.inf
    assert kept.inv(kept(x)).item() == 30
    for bad in (2, -1):
        with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
            d.ExpTransform(cache_size=bad)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "reshape to another size": lambda t: t.distributions.ReshapeTransform((3,), (2, 2)),
    "lengths that do not fit": lambda t: t.distributions.CatTransform([t.distributions.ExpTransform()], lengths=[1, 2]),
    "what is no transform": lambda t: t.distributions.StackTransform([1]),
    "a part that is missing": lambda t: t.distributions.StackTransform([t.distributions.ExpTransform()])(t.zeros(2)),
    "another length": lambda t: t.distributions.CatTransform([t.distributions.ExpTransform()])(t.zeros(2)),
    "a number for a vector": lambda t: t.distributions.IndependentTransform(t.distributions.ExpTransform(), 1)(t.tensor(1.0)),
    "numbers that fill no triangle": lambda t: t.distributions.CorrCholeskyTransform().forward_shape((4,)),
    "no square": lambda t: t.distributions.CorrCholeskyTransform().inverse_shape((2, 3)),
    "a diagonal outside": lambda t: t.distributions.utils.tril_matrix_to_vec(t.eye(2), 3),
    "a vector that fills no matrix": lambda t: t.distributions.utils.vec_to_tril_matrix(t.ones(4)),
    "a text as a parameter": lambda t: t.distributions.utils.broadcast_all("a", 1.0),
    "a constraint of a class": lambda t: t.distributions.constraints.dependent.check(t.ones(1)),
    "two dimensions": lambda t: t.distributions.StickBreakingTransform().event_dim,
}  # fmt: skip


@pytest.mark.parametrize("what", [w for w in REFUSED if w != "two dimensions"])
def test_what_pytorch_refuses_is_refused(what: str) -> None:
    with pytest.raises((ValueError, RuntimeError, AssertionError)):
        REFUSED[what](torch)
    with pytest.raises(sg.ShadergradError):
        REFUSED[what](sg)


@pytest.mark.parametrize("diag", [-1, 0, 1])
def test_triangles_and_vectors_are_pytorchs(diag: int) -> None:
    x = floats(2, 3, 3)
    mine = sg.distributions.utils.tril_matrix_to_vec(sg.tensor(x), diag)
    theirs = TORCH.utils.tril_matrix_to_vec(torch.tensor(x), diag)
    np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    back = TORCH.utils.vec_to_tril_matrix(theirs, diag)
    np.testing.assert_array_equal(sg.distributions.utils.vec_to_tril_matrix(mine, diag).numpy(), back.numpy())


# -- constraints

NUMBERS = np.array([-math.inf, -1.0, -0.5, -0.0, 0.0, 1e-7, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, math.inf, math.nan])
ROWS = np.array(
    [
        [0.5, 0.5],
        [0.5, 0.6],
        [-0.1, 1.1],
        [1.0, 0.0],
        [0.0, 0.0],
        [1.0, 1.0],
        [2.0, 1.0],
        [0.5, 0.5 + 1e-7],
        [math.nan, 1.0],
    ]
)
SQUARES = np.stack([np.eye(3), -np.eye(3), np.ones((3, 3)), np.tril(np.ones((3, 3))), COVARIANCE, COVARIANCE + np.triu(np.ones((3, 3))), CORRELATION, np.zeros((3, 3)), np.diag([1.0, -1.0, 2.0])])  # fmt: skip
CONSTRAINTS: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    **{n: (lambda c, t, n=n: getattr(c, n), NUMBERS) for n in ("boolean", "nonnegative_integer", "positive_integer", "real", "positive", "nonnegative", "unit_interval")},
    **{n: (lambda c, t, n=n: getattr(c, n), ROWS) for n in ("one_hot", "simplex", "real_vector")},
    **{n: (lambda c, t, n=n: getattr(c, n), SQUARES) for n in ("lower_triangular", "lower_cholesky", "corr_cholesky", "square")},
    **{n: (lambda c, t, n=n: getattr(c, n), SQUARES[[0, 1, 2, 4, 7, 8]]) for n in ("symmetric", "positive_semidefinite", "positive_definite")},
    **{f"{n} of asymmetric": (lambda c, t, n=n: getattr(c, n), SQUARES[[3, 5]]) for n in ("symmetric", "positive_semidefinite", "positive_definite")},
    "no square": (lambda c, t: c.square, floats(2, 3, 4)),
    "integer_interval": (lambda c, t: c.integer_interval(0, 2), NUMBERS),
    "interval": (lambda c, t: c.interval(-0.5, 2.0), NUMBERS),
    "interval of tensors": (lambda c, t: c.interval(t.tensor(NUMBERS - 1), t.tensor(NUMBERS + 1)), NUMBERS),
    "half_open_interval": (lambda c, t: c.half_open_interval(-0.5, 2.0), NUMBERS),
    "greater_than": (lambda c, t: c.greater_than(0.5), NUMBERS),
    "greater_than_eq": (lambda c, t: c.greater_than_eq(0.5), NUMBERS),
    "less_than": (lambda c, t: c.less_than(0.5), NUMBERS),
    "multinomial": (lambda c, t: c.multinomial(2), ROWS),
    "independent": (lambda c, t: c.independent(c.positive, 1), ROWS),
    "cat": (lambda c, t: c.cat([c.positive, c.boolean], dim=-1), ROWS),
    "cat of lengths": (lambda c, t: c.cat([c.positive, c.boolean], dim=0, lengths=[4, 5]), ROWS),
    "stack": (lambda c, t: c.stack([c.positive, c.boolean], dim=-1), ROWS),
    "mixture": (lambda c, t: c.MixtureSameFamilyConstraint(c.positive), ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_constraint_holds_where_pytorchs_holds(name: str) -> None:
    make, values = CONSTRAINTS[name]
    mine, theirs = make(sg.distributions.constraints, sg), make(TORCH.constraints, torch)
    found, expected = mine.check(sg.tensor(values)), theirs.check(torch.tensor(values))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert found.dtype is sg.bool
    assert mine.event_dim == theirs.event_dim
    assert mine.is_discrete == theirs.is_discrete
    if "tensors" not in name:
        assert repr(mine) == repr(theirs)


@pytest.mark.parametrize(
    "name", ["simplex", "lower_cholesky", "corr_cholesky", "positive_definite", "interval", "integer_interval"]
)
def test_a_constraint_holds_alike_on_webgpu(name: str, webgpu: str) -> None:
    make, values = CONSTRAINTS[name]
    constraint = make(sg.distributions.constraints, sg)
    single = values.astype(np.float32)
    found = constraint.check(sg.tensor(single, device=webgpu))
    assert found.device == webgpu
    np.testing.assert_array_equal(found.numpy(), constraint.check(sg.tensor(single)).numpy())


def test_dependent_constraints_are_known_on_instances_alone() -> None:
    for t in (sg, torch):
        d = t.distributions
        assert d.constraints.is_dependent(d.Uniform.support)
        assert not d.constraints.is_dependent(d.Uniform(0.0, 1.0).support)
        assert d.Uniform.support.event_dim == 0
        assert d.Binomial.support.is_discrete is True
        with pytest.raises(NotImplementedError):
            _ = d.constraints.dependent.event_dim
        assert d.constraints.dependent(event_dim=2).event_dim == 2
        assert d.constraints.is_dependent(d.MixtureSameFamily.support)


REGISTERED: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "real": (lambda c: c.real, REAL), "positive": (lambda c: c.positive, REAL), "nonnegative": (lambda c: c.nonnegative, REAL),
    "greater_than": (lambda c: c.greater_than(2.0), REAL), "greater_than_eq": (lambda c: c.greater_than_eq(-1.0), REAL),
    "less_than": (lambda c: c.less_than(2.0), REAL), "unit_interval": (lambda c: c.unit_interval, REAL),
    "interval": (lambda c: c.interval(-1.0, 3.0), REAL), "half_open_interval": (lambda c: c.half_open_interval(-1.0, 3.0), REAL),
    "simplex": (lambda c: c.simplex, REAL), "corr_cholesky": (lambda c: c.corr_cholesky, floats(2, 3)),
    "lower_cholesky": (lambda c: c.lower_cholesky, floats(2, 3, 3)), "positive_definite": (lambda c: c.positive_definite, floats(2, 3, 3)),
    "positive_semidefinite": (lambda c: c.positive_semidefinite, floats(2, 3, 3)), "independent": (lambda c: c.independent(c.positive, 1), REAL),
    "real_vector": (lambda c: c.real_vector, REAL), "cat": (lambda c: c.cat([c.positive, c.real], dim=-1, lengths=[1, 3]), REAL),
    "stack": (lambda c: c.stack([c.positive, c.real, c.unit_interval], dim=0), REAL),
}  # fmt: skip


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", REGISTERED)
def test_transforms_to_constraints_are_pytorchs(name: str, registry: str) -> None:
    make, x = REGISTERED[name]
    try:
        getattr(torch.distributions, registry)(make(TORCH.constraints))
    except NotImplementedError:
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            getattr(sg.distributions, registry)(make(sg.distributions.constraints))
        return

    def call(t: Any, x: Any) -> Any:
        made = getattr(t.distributions, registry)(make(t.distributions.constraints))
        y = made(x)
        return (y, made.log_abs_det_jacobian(x, y)) if made.bijective and registry == "biject_to" else y

    assert_as_torch(Call(f"{registry} {name}", call, (x,), second=False), 1e-8)
    constraint = make(sg.distributions.constraints)
    y = getattr(sg.distributions, registry)(constraint)(sg.tensor(x))
    assert constraint.check(y).all().item()


def test_a_registry_takes_constraints_of_the_users_own() -> None:
    d = sg.distributions

    class Even(d.constraints.Constraint):
        pass

    registry = d.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def _(constraint: Any) -> Any:
        return d.AffineTransform(0.0, 2.0)

    assert registry(Even())(sg.tensor([3.0])).item() == 6
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        d.biject_to(Even())
    with pytest.raises(TypeError, match="Constraint subclass"):
        registry.register(int, lambda c: None)
