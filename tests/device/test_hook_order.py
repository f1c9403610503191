"""Hooks are called in PyTorch's order and see the state that it shows them: which gradients are accumulated, in the middle of a pass.

A case is a function of a library and of what compiles a step. It gives the calls of its hooks, in order, and values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, grad_of

Compile = Callable[[Any], Any]
both = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "pytorch"])


class Log:
    """The calls of hooks, each with the names of the watched leaves that have a gradient by then."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.leaves: dict[str, Any] = {}

    def note(self, what: str) -> None:
        there = [name for name, leaf in self.leaves.items() if leaf.grad is not None]
        self.calls.append(f"{what}, with {' '.join(there)}")

    def watch(self, **leaves: Any) -> None:
        self.leaves.update(leaves)
        for name, leaf in leaves.items():
            leaf.register_hook(lambda g, name=name: self.note(f"gradient of {name}"))
            leaf.register_post_accumulate_grad_hook(lambda p, name=name: self.note(name))

    def watch_values(self, **values: Any) -> None:
        for name, value in values.items():
            value.register_hook(lambda g, name=name: self.note(name))


def leaf(lib: Any, *values: float) -> Any:
    return lib.tensor(np.array(values, np.float32)).requires_grad_()


def filled(lib: Any, module: Any) -> Any:
    """The module, with values that both libraries have."""
    for k, p in enumerate(module.parameters()):
        p.data.copy_(lib.tensor(np.random.default_rng(k).standard_normal(tuple(p.shape)).astype(np.float32)))
    return module


def inputs(lib: Any, *shape: int) -> Any:
    return lib.tensor(np.random.default_rng(9).standard_normal(shape).astype(np.float32))


def layers(lib: Any) -> dict[str, Any]:
    nn = lib.nn
    return {
        "linear": nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 2)),
        "normalised": nn.Sequential(
            nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4), nn.BatchNorm1d(4)
        ),
        "convolutions": nn.Sequential(
            nn.Unflatten(1, (1, 4)),
            nn.Conv1d(1, 2, 2),
            nn.GroupNorm(2, 2),
            nn.ConvTranspose1d(2, 2, 1),
            nn.BatchNorm1d(2),
        ),
        "transformer": nn.Sequential(nn.Unflatten(1, (1, 4)), nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0)),
    }


def of_layers(name: str) -> Callable[..., Any]:
    def case(lib: Any, compile: Compile) -> Any:
        log, model = Log(), filled(lib, layers(lib)[name])
        log.watch(**{key.replace(".", "_"): p for key, p in model.named_parameters()})

        @compile
        def step(x: Any) -> None:
            model(x).sin().sum().backward()

        step(inputs(lib, 3, 4))
        return log.calls, [p.grad for p in model.parameters()]

    return case


def branches(lib: Any, compile: Compile) -> Any:
    """Which of several operations comes first shows in the order in which their results were made."""
    log, a, b, c = Log(), leaf(lib, 1, 2), leaf(lib, 1, 3), leaf(lib, 2, 2)
    log.watch(a=a, b=b, c=c)

    @compile
    def step() -> None:
        u = a.sin()
        v = b.cos()
        w = c * u
        z = w + v
        y = v * z + u
        q = y.exp() * (a + b)
        log.watch_values(u=u, v=v, w=w, z=z, y=y, q=q)
        lib.autograd.backward([u.prod(), q.sum() + w.sum()])

    step()
    return log.calls, [a.grad, b.grad, c.grad]


def a_layer_used_twice(lib: Any, compile: Compile) -> Any:
    """A gradient is complete when the first use has added its part."""
    log, layer, last = Log(), filled(lib, lib.nn.Linear(2, 2)), filled(lib, lib.nn.Linear(2, 2))
    log.watch(weight=layer.weight, bias=layer.bias, last=last.weight)

    @compile
    def step(x: Any) -> None:
        last(layer(layer(x))).sum().backward()

    step(inputs(lib, 3, 2))
    return log.calls, [layer.weight.grad, layer.bias.grad]


def several_values_of_a_leaf(lib: Any, compile: Compile) -> Any:
    """Of a leaf that was written to between its uses there is one gradient."""
    log, w, seen = Log(), leaf(lib, 1, 2), []
    log.watch(w=w)
    w.register_hook(lambda g: seen.append(g * 1))

    @compile
    def step() -> Any:
        w.grad = None
        seen.clear()
        before = (w * 3).sum()
        with lib.no_grad():
            w.add_(1)
        (before + (w * w).sum()).backward()
        return seen[0] * 1

    return log.calls, [step(), w.grad, w]


def registered_after_the_use(lib: Any, compile: Compile) -> Any:
    log, w = Log(), leaf(lib, 1, 2)

    @compile
    def step() -> None:
        y = (w * 3).sum()
        with lib.no_grad():
            w.add_(1)
        handle = w.register_hook(lambda g: g * 2)
        y.backward()
        handle.remove()

    step()
    log.watch(w=w)
    return log.calls, [w.grad, w]


def steps_within_the_pass(lib: Any, compile: Compile) -> Any:
    """An optimizer for each parameter, which steps as soon as the gradient is there, and lets it go."""
    nn = lib.nn
    model = filled(
        lib, nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 4, bias=False), nn.Linear(4, 2))
    )
    optimizers = {p: lib.optim.Adam([p], lr=0.05) for p in model.parameters()}
    left: list[str] = []

    def update(p: Any) -> None:
        left.append(str(sum(q.grad is not None for q in model.parameters())))
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)

    @compile
    def step(x: Any) -> Any:
        loss = model(x).sin().sum()
        loss.backward()
        return loss

    losses = [step(inputs(lib, 5, 3)) for _ in range(2)]
    return left[:7], [*losses, *model.parameters(), *(p.grad for p in model.parameters())]


def scales_by_what_is_there(lib: Any, compile: Compile) -> Any:
    """A hook that reads the gradients of later layers, which are complete, and those of earlier ones, which are not there."""
    a, b = leaf(lib, 1, 2), leaf(lib, 3, 4)

    def scale(p: Any) -> None:
        norm = sum(q.grad.sin().sum() for q in (a, b) if q.grad is not None)
        p.grad = p.grad / (1 + norm)

    a.register_post_accumulate_grad_hook(scale)
    b.register_post_accumulate_grad_hook(scale)

    @compile
    def step(x: Any) -> None:
        a.grad = b.grad = None
        ((a * x).exp() * b).sum().backward()

    step(inputs(lib, 2))
    return [], [a.grad, b.grad]


def retained(lib: Any, compile: Compile) -> Any:
    log, a = Log(), leaf(lib, 1, 2)
    log.watch(a=a)

    @compile
    def step() -> Any:
        h = a * 2
        k = h.exp()
        log.leaves.update(h=h, k=k)
        h.retain_grad()
        k.retain_grad()
        log.watch_values(h=h, k=k)
        k.sum().backward()
        log.leaves.clear()
        return h.grad * 1, k.grad * 1

    return [], [*step(), a.grad]


def by_some_inputs(lib: Any, compile: Compile) -> Any:
    log, a, b = Log(), leaf(lib, 1, 2), leaf(lib, 3, 4)
    log.watch(a=a, b=b)

    @compile
    def step() -> None:
        h = a * 2
        k = h * b
        log.watch_values(h=h, k=k)
        k.sum().backward(inputs=[a], retain_graph=True)
        k.sum().backward(inputs=[b, h], retain_graph=True)
        lib.autograd.grad(k.sum(), [a], retain_graph=True)
        lib.autograd.grad(k.sum(), [h, a])

    step()
    return log.calls, [a.grad, b.grad]


def recorded(lib: Any, compile: Compile) -> Any:
    calls, a = [], leaf(lib, 1, 2)
    a.register_post_accumulate_grad_hook(lambda p: calls.append(f"{p.grad.requires_grad} {lib.is_grad_enabled()}"))

    @compile
    def step() -> None:
        (a**3).sum().backward(create_graph=True)
        g = a.grad
        a.grad = None
        (g * g).sum().backward()

    step()
    return calls, [a.grad]


def of_operations(lib: Any, compile: Compile) -> Any:
    log, a, b = Log(), leaf(lib, 1, 2), leaf(lib, 2, 2)
    log.watch(a=a, b=b)

    @compile
    def step() -> None:
        h = a * b
        k = h.exp()
        for name, value in {"h": h, "k": k}.items():
            value.grad_fn.register_hook(lambda operands, results, name=name: log.note(f"after {name}"))
            value.grad_fn.register_prehook(lambda results, name=name: log.note(f"before {name}"))
        k.sum().backward()

    step()
    return log.calls, [a.grad, b.grad]


def of_several(lib: Any, compile: Compile) -> Any:
    log, a, b, c = Log(), leaf(lib, 1, 2), leaf(lib, 2, 2), leaf(lib, 1, 1)
    log.watch(a=a, b=b, c=c)
    lib.autograd.graph.register_multi_grad_hook((a, b, c), lambda found: log.note(str([g is not None for g in found])))
    lib.autograd.graph.register_multi_grad_hook((a, b, c), lambda g: log.note("any"), mode="any")

    @compile
    def step() -> None:
        ((a * b).exp() * c).sum().backward()
        (a * c).sum().backward()

    step()
    return log.calls, [a.grad, b.grad, c.grad]


def of_modules(lib: Any, compile: Compile) -> Any:
    nn, log = lib.nn, Log()
    model = filled(lib, nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))))
    for name, module in model.named_modules():
        module.register_full_backward_pre_hook(lambda m, g, name=name: log.note(f"before {name}"))
        module.register_full_backward_hook(lambda m, g, h, name=name: log.note(f"after {name}"))
    log.watch(**{key.replace(".", "_"): p for key, p in model.named_parameters()})

    @compile
    def step(x: Any) -> None:
        model(x).sin().sum().backward()

    step(inputs(lib, 4, 3).requires_grad_())
    return log.calls, [p.grad for p in model.parameters()]


def checkpointed(lib: Any, compile: Compile) -> Any:
    nn, log = lib.nn, Log()
    model = filled(lib, nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)))
    log.watch(**{key.replace(".", "_"): p for key, p in model.named_parameters()})

    @compile
    def step(x: Any) -> None:
        lib.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sin().sum().backward()

    step(inputs(lib, 4, 3))
    return log.calls, [p.grad for p in model.parameters()]


CASES: dict[str, Callable[..., Any]] = {name: of_layers(name) for name in layers(sg)} | {
    case.__name__.replace("_", " "): case
    for case in (
        branches,
        a_layer_used_twice,
        several_values_of_a_leaf,
        registered_after_the_use,
        steps_within_the_pass,
        scales_by_what_is_there,
        retained,
        by_some_inputs,
        recorded,
        of_operations,
        of_several,
        of_modules,
        checkpointed,
    )
}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("compile", [lambda f: f, sg.compile], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_hooks_are_called_in_pytorchs_order(name: str, compile: Compile) -> None:
    calls, values = CASES[name](sg, compile)
    expected_calls, expected_values = CASES[name](torch, lambda f: f)
    assert calls == expected_calls
    for found, expected in zip(values, expected_values, strict=True):
        if expected is None:
            assert found is None
        else:
            assert_close(found.detach(), expected.detach(), 1e-4, 1e-5)


def test_hooks_change_no_bit_of_a_gradient() -> None:
    """They change the order of a pass, and a sum of three numbers depends on the order of its parts."""
    found = []
    for listens in (False, True):
        x = sg.tensor(np.random.default_rng(1).standard_normal(64).astype(np.float32)).requires_grad_()
        if listens:
            x.register_hook(lambda g: None)
        h = x.sin() * 1.1
        ((h.exp() * x + (x * h).cos()) * x.tanh() + h * 0.3 + (x * 7).sin()).sum().backward()
        found.append(grad_of(x).numpy().tobytes())
    assert found[0] == found[1]


@both
def test_a_hook_that_raises_ends_the_pass_where_pytorch_ends_it(lib: Any) -> None:
    a, b = leaf(lib, 1, 2), leaf(lib, 3, 4)

    def refuse(p: Any) -> None:
        raise ValueError("no more")

    b.register_post_accumulate_grad_hook(refuse)
    with pytest.raises(ValueError, match="no more"):
        (a.exp() * 2 * b).sum().backward()
    assert a.grad is None
    assert b.grad.tolist() == (a.exp() * 2).tolist()


@both
def test_a_pass_within_a_hook_is_another_pass(lib: Any) -> None:
    a, b = leaf(lib, 1, 2), leaf(lib, 3, 4)
    calls: list[Any] = []

    def again(p: Any) -> None:
        with lib.enable_grad():
            (b * b).sum().backward()
        calls.append(b.grad.tolist())

    a.register_post_accumulate_grad_hook(again)
    b.register_post_accumulate_grad_hook(lambda p: calls.append("b"))
    (a * 5).sum().backward()
    assert calls == ["b", [6.0, 8.0]]
    assert a.grad.tolist() == [5, 5]
