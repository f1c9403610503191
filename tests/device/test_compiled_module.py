"""sg.compile of a module: a module as the one it was made of, with a plan for each of its passes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_compiles_nothing
from shadergrad import nn


class Several(nn.Module):
    """Results in a dict, one without a history; a tensor that is no buffer, a keyword, a layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = sg.tensor([1.0, -2.0, 0.5, 3.0])
        self.unused = nn.Parameter(sg.ones(2))

    def to(self, *args: Any, **kwargs: Any) -> Any:
        self.scale = self.scale.to(*args)
        return super().to(*args, **kwargs)

    def forward(self, x: Any, *, twice: bool = False) -> Any:
        y = self.layer(x * self.scale)
        if twice:
            y = self.layer(y.tanh())
        return {"y": y * y, "best": y.argmax(1), "same": x}


MODULES: dict[str, Callable[[], tuple[nn.Module, Callable[..., Any]]]] = {
    "perceptron": lambda: (
        nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)),
        lambda m, x: m(x).square().sum(),
    ),
    "convolutions": lambda: (
        nn.Sequential(
            nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 3),
        ),
        lambda m, x: m(x).square().sum(),
    ),
    "dropout": lambda: (
        nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.LayerNorm(8), nn.Linear(8, 3)),
        lambda m, x: m(x).square().sum(),
    ),
    "recurrence": lambda: (nn.LSTM(4, 5, batch_first=True), lambda m, x: sum(t.square().sum() for t in m(x[None])[1])),
    "attention": lambda: (
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0.25, batch_first=True), lambda m, x: m(x[None]).square().sum(),
    ),
    "several results": lambda: (Several(), lambda m, x: m(x)["y"].sum() + m(x, twice=True)["same"].sum()),
}  # fmt: skip


def trained(case: str, device: str, compiled: bool) -> list[Any]:
    sg.manual_seed(0)
    module, loss_of = MODULES[case]()
    model = sg.compile(module.to(device)) if compiled else module.to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    rng = np.random.default_rng(0)
    seen: list[Any] = []
    for rows in (6, 6, 5, 6):
        x = sg.tensor(rng.standard_normal((rows, 4)).astype(np.float32), device=device).requires_grad_()
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        optimizer.step()
        assert x.grad is not None
        seen += [loss.item(), x.grad.numpy()]
    model.eval()
    with sg.no_grad():
        seen.append(loss_of(model, x.detach()).item())
    seen += [t.detach().numpy() for t in (*model.parameters(), *model.buffers())]
    seen.append([p.grad is None for p in model.parameters()])
    return seen


@pytest.mark.parametrize("case", MODULES)
def test_a_compiled_module_is_trained_as_the_module_itself(case: str, device: str) -> None:
    for found, wanted in zip(trained(case, device, True), trained(case, device, False), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)


def test_it_is_a_module_with_the_parameters_of_the_other() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model = sg.compile(module)
    assert isinstance(model, nn.Module)
    assert [id(p) for p in model.parameters()] == [id(p) for p in module.parameters()]
    assert list(model.state_dict()) == [f"_orig_mod.{name}" for name in module.state_dict()]
    model.load_state_dict({k: sg.ones_like(v) for k, v in model.state_dict().items()})
    assert module.state_dict()["0.weight"].tolist() == [[1, 1]] * 3
    assert model.eval().training is module[1].training is False
    assert model.train().training is module[1].training is True
    twin = copy.deepcopy(model)
    twin(sg.ones(2, 2)).sum().backward()
    assert module[0].weight.grad is None


def test_calls_of_known_shapes_compile_nothing(device: str) -> None:
    model = sg.compile(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device))

    def call(rows: int) -> None:
        x = sg.ones(rows, 3, device=device)
        model(x).sum().backward()
        with sg.no_grad():
            model(x).tolist()
        for p in model.parameters():
            assert p.grad is not None
            p.grad.tolist()

    for rows in (2, 3, 2, 3):
        call(rows)
    assert_compiles_nothing(lambda: [call(rows) for rows in (2, 3, 2, 3)])
    assert (model._passes.captures, model._forward_alone.captures) == (2, 2)


def test_the_backward_pass_is_of_the_values_of_its_forward_pass(device: str) -> None:
    layer = nn.Linear(2, 1, bias=False).to(device)
    model = sg.compile(layer)
    with sg.no_grad():
        layer.weight.fill_(2.0)
    first, second = sg.ones(1, 2, device=device).requires_grad_(), sg.full((1, 2), 3.0, device=device).requires_grad_()
    one, other = model(first), model(second)
    with sg.no_grad():
        layer.weight.fill_(7.0)
    other.sum().backward()
    one.sum().backward(retain_graph=True)
    one.sum().backward()
    assert first.grad is not None
    assert second.grad is not None
    assert layer.weight.grad is not None
    assert (first.grad.tolist(), second.grad.tolist()) == ([[4, 4]], [[2, 2]])
    assert layer.weight.grad.tolist() == [[5, 5]]


def test_a_tensor_of_the_outside_is_read_in_every_call(device: str) -> None:
    module = Several().to(device)
    model = sg.compile(module)
    x = sg.ones(1, 4, device=device).requires_grad_()
    gradients = []
    for factor in (1.0, 2.0, 3.0):
        module.scale.fill_(factor)
        for m in (model, module):
            x.grad = None
            m(x)["y"].sum().backward()
            gradients.append(x.grad.numpy())  # pyright: ignore[reportOptionalMemberAccess]
    for found, wanted in zip(gradients[::2], gradients[1::2], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_gradient_of_its_gradient_is_refused(device: str) -> None:
    model = sg.compile(nn.Linear(2, 1).to(device))
    x = sg.ones(3, 2, device=device).requires_grad_()
    (slope,) = sg.autograd.grad((model(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(sg.AutogradError, match="differentiate twice"):
        slope.sum().backward()


def test_a_compiled_module_within_a_compiled_step(device: str) -> None:
    model = sg.compile(nn.Linear(2, 1).to(device))
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

    @sg.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(sg.ones(2, 2, device=device)).item() for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert len(step.plan.dispatches) > 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "fastest"}, "Unrecognized mode=fastest"),
        ({"backend": "tvm"}, "Invalid backend: 'tvm'"),
        ({"options": {"triton.cudagraphs": True}}, "Unexpected optimization option triton.cudagraphs"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(sg.ShadergradError, match=error):
        sg.compile(lambda x: x, **options)


def test_pytorchs_options_are_taken() -> None:
    @sg.compile(mode="max-autotune", fullgraph=True, dynamic=False)
    def double(x: Any) -> Any:
        return x * 2

    assert double(sg.ones(2)).tolist() == [2, 2]
    assert double.captures == 1
    plain = nn.Linear(1, 1)
    assert sg.compile(plain, disable=True) is plain
    assert sg.compile(plain, backend="eager") is plain
