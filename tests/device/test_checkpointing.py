"""sg.checkpoint: the values and gradients of a plain call, with less kept between the two passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import grad_of
from shadergrad import nn
from shadergrad.utils.checkpoint import checkpoint_sequential


class Block(nn.Module):
    """Reads parameters, draws random numbers, and adds to what it is given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Any) -> Any:
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))


def plain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def training(device: str, call: Callable[..., Any], layers: int = 3, width: int = 16) -> tuple[Any, Any]:
    """A model, and a function that makes a training step of it."""
    sg.manual_seed(0)
    model = nn.Sequential(*(Block(width) for _ in range(layers))).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        h = x
        for block in model:
            h = call(block, h)
        loss = h.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def trained(device: str, compiled: bool, call: Callable[..., Any]) -> Any:
    """Losses, gradients and the next random numbers of three training steps."""
    model, step = training(device, call)
    f: Any = sg.compile(step) if compiled else step
    x = sg.randn(8, 16, device=device)
    losses = [f(x).item() for _ in range(3)]
    return losses, [grad_of(p).numpy() for p in model.parameters()], sg.rand(3, device=device).numpy()


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
def test_training_is_the_same(device: str, compiled: bool) -> None:
    expected = trained(device, compiled, plain)
    found = trained(device, compiled, sg.checkpoint)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert len(found[1]) == len(expected[1]) == 18
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[2], expected[2])


def test_a_compiled_step_needs_less_memory_and_computes_more() -> None:
    def plan(call: Callable[..., Any]) -> Any:
        _, step = training("cpu", call, layers=6, width=64)
        return sg.compile(step).portable(sg.ones(4096, 64)).plan

    kept, again = plan(plain), plan(sg.checkpoint)
    assert again.temporary_bytes < 0.5 * kept.temporary_bytes
    assert len(kept.dispatches) < len(again.dispatches) < 1.5 * len(kept.dispatches)


def several(x: Any, *, scale: Any, pairs: dict[str, Any]) -> Any:
    y = (x * scale).tanh()
    return {"y": y, "best": y.argmax(1), "more": (y * pairs["a"], pairs["a"].exp()), "name": "several"}


def test_nested_arguments_and_results(device: str) -> None:
    def gradients(call: Callable[..., Any]) -> Any:
        x, scale, a = (
            sg.tensor(np.random.default_rng(k).standard_normal((2, 3)), dtype=sg.float32, device=device)
            for k in range(3)
        )
        x.requires_grad_()
        a.requires_grad_()
        result = call(several, x, scale=scale, pairs={"a": a})
        assert result["name"] == "several"
        assert not result["best"].requires_grad
        (result["y"].sum() + (result["more"][0] * result["more"][1]).sum()).backward()
        return [grad_of(x).numpy(), grad_of(a).numpy(), result["best"].numpy(), scale.grad]

    for found, expected in zip(gradients(sg.checkpoint), gradients(plain), strict=True):
        if expected is None:
            assert found is None
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_is_read_from_outside_gets_its_gradient_once(device: str) -> None:
    def gradient(call: Callable[..., Any]) -> Any:
        w = sg.tensor([1.0, 2.0], device=device, requires_grad=True)
        h = w * w  # leads to w, which the function reads as well
        x = sg.ones(2, device=device)
        call(lambda x: x * h.sin() * w, x).sum().backward()
        assert x.grad is None
        return grad_of(w).numpy()

    np.testing.assert_allclose(gradient(sg.checkpoint), gradient(plain), rtol=1e-5)


def test_hooks_of_what_is_read_from_outside_are_called_once(device: str) -> None:
    gradients = []
    for call in (plain, sg.checkpoint):
        scale, w = (sg.tensor([v], device=device, requires_grad=True) for v in (2.0, 3.0))
        made, x = w * 2, sg.ones(2, device=device).requires_grad_()
        made.retain_grad()
        for t, factor in ((scale, 10), (made, 3), (x, 7)):
            t.register_hook(lambda g, factor=factor: g * factor)
        call(lambda x, scale=scale, made=made: (x * scale * made).tanh() * scale, x).sum().backward()
        gradients.append([grad_of(t).numpy() for t in (scale, w, made, x)])
    for found, wanted in zip(gradients[1], gradients[0], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_checkpoints_within_checkpoints(device: str) -> None:
    def outer(call: Callable[..., Any], x: Any) -> Any:
        return call(lambda z: z.sin() * z, x.exp()) * x

    def gradient(call: Callable[..., Any]) -> Any:
        x = sg.tensor([0.3, -0.5], device=device, requires_grad=True)
        call(lambda x: outer(call, x), x).sum().backward()
        return grad_of(x).numpy()

    np.testing.assert_allclose(gradient(sg.checkpoint), gradient(plain), rtol=1e-5)


def test_derivatives_of_higher_order() -> None:
    w = sg.tensor([0.5, -0.3], dtype=sg.float64, requires_grad=True)
    x = sg.tensor([0.7, 0.2], dtype=sg.float64, requires_grad=True)
    assert sg.autograd.gradcheck(lambda x: sg.checkpoint(lambda z: (z * w).tanh() * w, x), [x])
    assert sg.autograd.gradgradcheck(lambda x, w: sg.checkpoint(lambda z: (z * w).tanh() * w, x), [x, w])


def test_only_results_that_the_loss_needs(device: str) -> None:
    x = sg.tensor([0.3, -0.5], device=device, requires_grad=True)
    y, _ = sg.checkpoint(lambda x: (x.sin(), x.exp()), x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(grad_of(x).numpy(), 2 * np.cos([0.3, -0.5]), rtol=1e-5)


def test_the_callers_tensor_may_change_before_the_backward_pass(device: str) -> None:
    w = sg.tensor([1.0, 2.0], device=device, requires_grad=True)
    x = w * 1
    y = sg.checkpoint(lambda x: x * x, x)
    with sg.no_grad():
        x.zero_()
    y.sum().backward()
    assert grad_of(w).tolist() == [2.0, 4.0]


def test_without_gradients_it_is_a_plain_call(device: str) -> None:
    x = sg.ones(2, device=device, requires_grad=True)
    with sg.no_grad():
        assert not sg.checkpoint(lambda x: x * 2, x).requires_grad
    assert not sg.checkpoint(lambda x: x.detach() * 2, x).requires_grad


def test_what_changed_in_between_is_refused() -> None:
    layer = nn.Linear(2, 2)
    y = sg.checkpoint(layer, sg.ones(1, 2)).sum()
    with sg.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(sg.AutogradError, match="changed in place"):
        y.backward()


def test_a_function_that_does_something_else_the_second_time_is_refused() -> None:
    calls: list[int] = []

    def fickle(x: Any) -> Any:
        calls.append(1)
        return x * 2 if len(calls) == 1 else (x * 2, x)

    with pytest.raises(sg.AutogradError, match="must do the same each time"):
        sg.checkpoint(fickle, sg.ones(2, requires_grad=True)).sum().backward()


def test_segments_of_a_sequence(device: str) -> None:
    sg.manual_seed(0)
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(5))).to(device)
    x = sg.ones(2, 4, device=device)
    layers(x).sum().backward()
    expected = [grad_of(p).numpy() for p in layers.parameters()]
    layers.zero_grad()
    checkpoint_sequential(layers, 2, x, use_reentrant=False).sum().backward()
    for p, e in zip(layers.parameters(), expected, strict=True):
        np.testing.assert_allclose(grad_of(p).numpy(), e, rtol=1e-4, atol=1e-6)
    with pytest.raises(sg.ShadergradError, match="segments"):
        checkpoint_sequential(layers, 0, x)


def test_what_a_generator_draws_is_the_same_the_second_time(device: str) -> None:
    x, generator = sg.ones(4, device=device, requires_grad=True), sg.Generator(device, seed=3)
    y = sg.checkpoint(lambda x: x.exp() * sg.rand(4, generator=generator), x)
    y.sum().backward()
    np.testing.assert_array_equal(grad_of(x).numpy(), y.detach().numpy())
    assert generator.get_state().tolist() == [0, 3, 1]
