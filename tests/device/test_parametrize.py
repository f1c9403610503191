"""Parametrized tensors: what is registered, kept and cached, and orthogonal matrices. As PyTorch's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad import nn
from shadergrad.nn.utils import parametrizations, parametrize

LIBRARIES = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "torch"])


def counted(lib: Any, factor: float = 2.0, inverse: bool = True) -> Any:
    class Scaled(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x * factor

        if inverse:

            def right_inverse(self, x: Any) -> Any:
                return x / factor

    return Scaled()


@LIBRARIES
def test_a_parametrization_takes_the_modules_mode(lib: Any) -> None:
    module = lib.nn.Linear(2, 1).eval()
    lib.nn.utils.parametrize.register_parametrization(module, "weight", counted(lib))
    assert not module.parametrizations.weight[0].training
    module.train()
    assert all(m.training for m in module.modules())
    module.eval()
    lib.nn.utils.parametrize.register_parametrization(module, "weight", counted(lib))
    assert not module.parametrizations.weight[1].training


def test_spectral_norm_registered_in_eval_mode_does_not_iterate() -> None:
    layer = parametrizations.spectral_norm(nn.Linear(3, 2).eval())
    before = layer.parametrizations.weight[0]._u.tolist()
    for _ in range(3):
        layer(sg.ones(1, 3))
    assert layer.parametrizations.weight[0]._u.tolist() == before


@LIBRARIES
def test_cached_computes_once(lib: Any) -> None:
    scaled = counted(lib, inverse=False)
    module = lib.nn.Linear(2, 1)
    lib.nn.utils.parametrize.register_parametrization(module, "weight", scaled)
    scaled.calls = 0
    with lib.nn.utils.parametrize.cached():
        first = module.weight
        with lib.nn.utils.parametrize.cached():
            assert module.weight is first
        assert module.weight is first
        module(lib.ones(1, 2)).sum().backward()
    assert scaled.calls == 1
    assert module.parametrizations.weight.original.grad.tolist() == [[2.0, 2.0]]
    assert module.weight is not first
    assert scaled.calls == 2


def test_cached_within_and_around_compiled_steps_keeps_gradients(device: str) -> None:
    """A step computes its own: a value of before would be a constant of it."""
    module = nn.Linear(2, 1, bias=False, device=device)
    with sg.no_grad():
        module.weight.fill_(1.0)
    parametrize.register_parametrization(module, "weight", of(sg, lambda w: w * 2))
    optimizer = sg.optim.SGD(module.parameters(), lr=0.1)

    def train(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        with parametrize.cached():
            loss = module(x).sum() + 0 * module.weight.sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = sg.compile(train)
    x = sg.ones(1, 2, device=device)
    found = []
    for _ in range(3):
        with parametrize.cached():
            module(x)
            found.append(step(x).item())
    assert_close(found, [4.0, 3.2, 2.4], 1e-6, 1e-6)
    assert step.captures == 1


@LIBRARIES
def test_parameters_stay_the_same_objects(lib: Any) -> None:
    """An optimizer that was made before goes on."""
    module = lib.nn.Linear(2, 1, bias=False)
    with lib.no_grad():
        module.weight.fill_(3.0)
    optimizer = lib.optim.SGD(module.parameters(), lr=0.5)
    lib.nn.utils.parametrize.register_parametrization(module, "weight", counted(lib))
    assert module.parametrizations.weight.original is optimizer.param_groups[0]["params"][0]
    module(lib.ones(1, 2)).sum().backward()
    optimizer.step()
    assert module.weight.tolist() == [[1.0, 1.0]]
    lib.nn.utils.parametrize.remove_parametrizations(module, "weight")
    assert module.weight is optimizer.param_groups[0]["params"][0]
    assert module.weight.tolist() == [[1.0, 1.0]]


@LIBRARIES
def test_assigning_goes_through_the_inverses(lib: Any) -> None:
    module = lib.nn.Linear(2, 1)
    for factor in (2.0, 5.0):
        lib.nn.utils.parametrize.register_parametrization(module, "weight", counted(lib, factor))
    module.weight = lib.full((1, 2), 30.0)
    assert module.parametrizations.weight.original.tolist() == [[3.0, 3.0]]
    assert type(module).__name__ == "ParametrizedLinear"
    assert lib.nn.utils.parametrize.type_before_parametrizations(module) is lib.nn.Linear
    assert copy.deepcopy(module).weight.tolist() == [[30.0, 30.0]]
    lib.nn.utils.parametrize.register_parametrization(module, "weight", counted(lib, inverse=False))
    with pytest.raises(RuntimeError, match="does not implement right_inverse"):
        module.weight = lib.ones(1, 2)


def of(lib: Any, result: Callable[[Any], Any], inverse: Any = None) -> Any:
    class Of(lib.nn.Module):
        def forward(self, *x: Any) -> Any:
            return result(x[0])

        if inverse is not None:

            def right_inverse(self, x: Any) -> Any:
                return inverse(x)

    return Of()


@pytest.mark.parametrize("further", [False, True], ids=["first", "further"])
@pytest.mark.parametrize(
    ("result", "inverse"),
    [
        (lambda x: x[:1], None),
        (lambda x: x.double(), None),
        (lambda x: 3, None),
        (lambda x: x, lambda x: 3),
        (lambda x: x, lambda x: x.double()),
        (lambda x: x, lambda x: [3, 4]),
    ],
)
@LIBRARIES
def test_what_changes_shape_or_dtype_is_refused(lib: Any, result: Any, inverse: Any, further: bool) -> None:
    module = lib.nn.Linear(2, 2)
    if further:
        lib.nn.utils.parametrize.register_parametrization(module, "weight", counted(lib))
    before = module.weight.tolist()
    with pytest.raises(ValueError):
        lib.nn.utils.parametrize.register_parametrization(module, "weight", of(lib, result, inverse))
    assert module.weight.tolist() == before


def orthonormal(x: Any) -> float:
    x = np.asarray(x.detach().tolist())
    x = x if x.shape[-2] >= x.shape[-1] else np.swapaxes(x, -1, -2)
    return float(abs(np.swapaxes(x, -1, -2) @ x - np.eye(x.shape[-1])).max())


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (2, 4, 3)])
def test_orthogonal_matrices_train_as_pytorchs(shape: tuple[int, ...], kind: str | None, trivial: bool) -> None:
    rng = np.random.default_rng(1)
    start, target = rng.standard_normal(shape), rng.standard_normal(shape)

    def trained(lib: Any, state: Any = None) -> Any:
        class Holder(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.w = lib.nn.Parameter(lib.tensor(start, dtype=lib.float64))

        module = lib.nn.utils.parametrizations.orthogonal(Holder(), "w", kind, use_trivialization=trivial)
        if state is not None:  # the columns that complete a matrix are drawn
            module.load_state_dict(state)
        first = copy.deepcopy(module.state_dict())
        optimizer = lib.optim.SGD(module.parameters(), lr=0.1)
        values = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = ((module.w - lib.tensor(target, dtype=lib.float64)) ** 2).sum()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
            assert orthonormal(module.w) < 1e-9
        return values, first, module.w.detach()

    theirs, state, weight = trained(torch)
    ours, own_state, own = trained(sg, {k: v.numpy() for k, v in state.items()})
    assert list(state) == list(own_state)
    assert_close(ours, theirs, 1e-8, 1e-8)
    assert_close(own, weight.numpy(), 1e-8, 1e-8)
    if shape == (4, 4) or (not trivial and kind == "householder"):  # nothing was drawn
        assert_close(trained(sg)[0], theirs, 1e-8, 1e-8)


@LIBRARIES
def test_what_cannot_be_orthogonal_is_refused(lib: Any) -> None:
    orthogonal = lib.nn.utils.parametrizations.orthogonal
    for arguments, match in (
        ((lib.nn.Linear(2, 2), "nothing"), "no parameter or buffer"),
        ((lib.nn.Linear(2, 2), "bias"), "Expected a matrix"),
        ((lib.nn.Linear(2, 2), "weight", "other"), "orthogonal_map has to be one of"),
    ):
        with pytest.raises(ValueError, match=match):
            orthogonal(*arguments)
    module = orthogonal(lib.nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError):
        module.weight = lib.eye(2)


@LIBRARIES
def test_a_module_without_initial_values(lib: Any) -> None:
    lib.manual_seed(0)
    first = lib.rand(2).tolist()
    lib.manual_seed(0)
    made = lib.nn.utils.skip_init(lib.nn.Linear, 5, out_features=2)
    assert lib.rand(2).tolist() == first
    assert tuple(made.weight.shape) == (2, 5)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        lib.nn.utils.skip_init(int)
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        lib.nn.utils.skip_init(lib.nn.ReLU)


@LIBRARIES
def test_sparse_initial_values(lib: Any) -> None:
    w = lib.nn.Parameter(lib.empty(10, 5))
    assert lib.nn.init.sparse_(w, 0.25, std=2.0) is w
    zeros = (w == 0).tolist()
    assert [sum(column) for column in zip(*zeros, strict=True)] == [3] * 5
    assert len({tuple(column) for column in zip(*zeros, strict=True)}) > 1
    with pytest.raises(ValueError, match="2 dimensions"):
        lib.nn.init.sparse_(lib.ones(3), 0.1)
