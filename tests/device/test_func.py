"""shadergrad.func as torch.func."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import as_array
from shadergrad import nn

X, Y = np.array([0.5, -1.0, 2.0]), np.array([1.5, 0.3, -0.7])


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [a for k in sorted(value) for a in flat(value[k])]
    if isinstance(value, list | tuple):
        return [a for v in value for a in flat(v)]
    return [as_array(value)]


def f(x: Any, y: Any) -> Any:
    return (x.sin() * y**2).sum()


CALLS: dict[str, Any] = {
    "grad": lambda t, x, y: t.func.grad(f)(x, y),
    "grad of the second": lambda t, x, y: t.func.grad(f, argnums=1)(x, y),
    "grad of both": lambda t, x, y: t.func.grad(f, argnums=(0, 1))(x, y),
    "grad of grad": lambda t, x, y: t.func.grad(lambda x: t.func.grad(f)(x, y).sum())(x),
    "grad with more": lambda t, x, y: t.func.grad(lambda x: (f(x, y), x * 2), has_aux=True)(x),
    "grad of a dict": lambda t, x, y: t.func.grad(lambda d: f(d["a"], d["b"]))({"a": x, "b": y}),
    "grad_and_value": lambda t, x, y: t.func.grad_and_value(f)(x, y),
    "vjp": lambda t, x, y: t.func.vjp(lambda x, y: x * y, x, y)[1](x + 1),
    "vjp of several": lambda t, x, y: t.func.vjp(lambda x: (x * 2, x * x), x)[1]((x, y)),
    "vjp's value": lambda t, x, y: t.func.vjp(lambda x, y: x * y, x, y)[0],
    "jvp": lambda t, x, y: t.func.jvp(lambda x, y: x * y.exp(), (x, y), (y, x)),
    "jvp of a jvp": lambda t, x, y: t.func.jvp(lambda x: t.func.jvp(lambda x: x**3, (x,), (y,))[1], (x,), (y,)),
    "jacrev": lambda t, x, y: t.func.jacrev(lambda x: x * x.sum())(x),
    "hessian": lambda t, x, y: t.func.hessian(lambda x: (x**3).sum() * x.prod())(x),
    "vmap": lambda t, x, y: t.func.vmap(lambda a, b: a * b + a.sin())(x, y),
    "vmap of columns": lambda t, x, y: t.func.vmap(lambda a, b: (a * b).sum(), in_dims=(1, None))(t.stack([x, y]), x[:2]),
    "vmap to columns": lambda t, x, y: t.func.vmap(lambda a: a * y, out_dims=1)(x),
    "vmap of several": lambda t, x, y: t.func.vmap(lambda d: (d["a"], d["b"] * 2))({"a": x, "b": y}),
    "gradients of each sample": lambda t, x, y: t.func.vmap(t.func.grad(lambda w, b: (w * b).square()), in_dims=(None, 0))(x[0], y),
}  # fmt: skip


# PyTorch's own forward mode says so
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", CALLS)
def test_results_are_pytorchs(name: str) -> None:
    ours = flat(CALLS[name](sg, sg.tensor(X), sg.tensor(Y)))
    theirs = flat(CALLS[name](torch, torch.tensor(X), torch.tensor(Y)))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_gradients_go_through_to_what_records() -> None:
    x = sg.tensor(X, requires_grad=True)
    sg.func.grad(f)(x, sg.tensor(Y)).sum().backward()
    y = torch.tensor(X, requires_grad=True)
    torch.func.grad(f)(y, torch.tensor(Y)).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-9)


def test_a_module_is_called_with_other_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = {k: v.tolist() for k, v in model.state_dict().items()}
    x = sg.ones(4, 3)
    weights = {k: (v.detach() * 2).requires_grad_() for k, v in model.named_parameters()}
    out = sg.func.functional_call(model.eval(), weights, (x,))
    expected = x @ weights["0.weight"].mT + weights["0.bias"]
    expected = expected / (1 + 1e-5) ** 0.5 * weights["1.weight"] + weights["1.bias"]
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-5)
    out.sum().backward()
    assert weights["0.weight"].grad is not None
    assert {k: v.tolist() for k, v in model.state_dict().items()} == before
    with pytest.raises(sg.ShadergradError, match="Unexpected"):
        sg.func.functional_call(model, {"none": x}, (x,), strict=True)


def test_an_ensemble_by_stacked_parameters() -> None:
    models = [nn.Linear(3, 2) for _ in range(4)]
    params, buffers = sg.func.stack_module_state(models)
    x = sg.ones(5, 3)
    out = sg.func.vmap(lambda p, b: sg.func.functional_call(models[0], (p, b), (x,)))(params, buffers)
    for k, model in enumerate(models):
        np.testing.assert_allclose(out[k].detach().numpy(), model(x).detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.func.grad(lambda x: x * 2)(t.ones(3)),
        lambda t: t.func.vmap(lambda a, b: a * b)(t.ones(3), t.ones(2)),
        lambda t: t.func.vmap(lambda a: a, in_dims=(0, 0))(t.ones(3)),
        lambda t: t.func.vmap(lambda a: a, in_dims=None)(t.ones(3)),
    ],
)
def test_what_pytorch_refuses_is_refused(call: Any) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        call(torch)
    with pytest.raises(sg.ShadergradError):
        call(sg)


def test_vmap_draws_as_it_is_told(device: str) -> None:
    x = sg.zeros(3, 4, device=device)

    def noise(row: sg.Tensor) -> sg.Tensor:
        return row + sg.rand(4, device=device)

    for call in (sg.func.vmap, lambda f, randomness: sg.compile(sg.func.vmap(f, randomness=randomness))):
        same = call(noise, randomness="same")
        for _ in range(2):  # each call draws anew
            sg.manual_seed(2)
            first, second = same(x).tolist(), same(x).tolist()
            assert first[0] == first[1] == first[2] != second[0] == second[1]
        assert sg.get_rng_state().tolist() == [0, 2, 2]
        different = call(noise, randomness="different")(x).tolist()
        assert different[0] != different[1] != different[2]
    with pytest.raises(sg.AutogradError, match="randomness='different'"):
        sg.func.vmap(noise)(x)
    with pytest.raises(sg.errors.ArgumentError, match="'error', 'different' or 'same'"):
        sg.func.vmap(noise, randomness="none")


def test_vmap_draws_so_from_a_generator_too(device: str) -> None:
    x, generator = sg.zeros(3, 4, device=device), sg.Generator(device, seed=1)

    def noise(row: sg.Tensor) -> sg.Tensor:
        return row + sg.rand(4, generator=generator)

    alone = [sg.rand(4, generator=generator).tolist() for _ in range(2)]
    for call in (sg.func.vmap, lambda f, randomness: sg.compile(sg.func.vmap(f, randomness=randomness))):
        generator.manual_seed(1)
        same = call(noise, randomness="same")
        assert [same(x).tolist() for _ in range(2)] == [[draw] * 3 for draw in alone]
    generator.manual_seed(1)
    assert sg.func.vmap(noise, randomness="different")(x).tolist()[:2] == alone
    with pytest.raises(sg.AutogradError, match="randomness='different'"):
        sg.func.vmap(noise)(x)


def test_vmap_over_nested_axes_and_of_one_result_for_all() -> None:
    both = {"x": sg.arange(6).reshape(2, 3), "w": sg.ones(2)}
    found = sg.func.vmap(lambda d: d["x"] * d["w"], in_dims=({"x": 1, "w": None},))(both)
    assert found.tolist() == [[0, 3], [1, 4], [2, 5]]
    one, many = sg.func.vmap(lambda a: (both["w"], a), out_dims=(None, 0))(sg.ones(3))
    assert (one.tolist(), many.tolist()) == ([1, 1], [1, 1, 1])
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (sg.ones(2), {"in_dims": 3}, "the axis 3 for a tensor of shape"),
        (both, {"in_dims": ([0],)}, "not built as its argument"),
        (sg.ones(2), {"out_dims": (0, 1)}, "for several results"),
    ]
    for given, options, told in refused:
        with pytest.raises(sg.errors.ArgumentError, match=told):
            sg.func.vmap(lambda a: a, **options)(given)
