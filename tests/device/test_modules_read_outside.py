"""A compiled module that reads tensors which are neither its own nor given to it: their gradients are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg

Values = Iterator[Any]


class Library:
    """The same program for both: a library, where its tensors lie, and what it does with a module."""

    def __init__(self, lib: Any, device: str, compiled: Callable[[Any], Any]) -> None:
        self.lib, self.device, self.compiled = lib, device, compiled

    def tensor(self, values: Any, requires_grad: bool = False) -> Any:
        return self.lib.tensor(values, device=self.device, requires_grad=requires_grad)

    def module(self, function: Callable[..., Any], **attributes: Any) -> Any:
        """A module of which `function(module, x)` is the forward pass."""

        class Made(self.lib.nn.Module):
            def forward(self, x: Any) -> Any:
                return function(self, x)

        made = Made()
        for name, value in attributes.items():
            setattr(made, name, value)
        return made


def leaf_among_parameters(p: Library) -> Values:
    scale = p.tensor([2.0], requires_grad=True)
    module = p.module(lambda m, x: (m.weight * x * scale).square().sum())
    module.weight = p.lib.nn.Parameter(p.tensor([3.0, -1.0]))
    model = p.compiled(module)
    optimizer = p.lib.optim.SGD([module.weight, scale], lr=0.01)
    for k in range(4):
        optimizer.zero_grad()
        loss = model(p.tensor([1.0, k + 1.0]))
        loss.backward()
        optimizer.step()
        yield from (loss, scale, scale.grad, module.weight)


def history_of_the_outside(p: Library) -> Values:
    w = p.tensor([1.0, -2.0], requires_grad=True)
    module = p.module(lambda m, x: (x * m.made).sum())
    model = p.compiled(module)
    for k in range(3):
        module.made = (w * (k + 1)).exp()
        model(p.tensor([1.0, 2.0])).backward()
        yield w.grad
    module.made = w.relu()
    model(p.tensor([1.0, 2.0])).backward(retain_graph=True)
    model(p.tensor([1.0, 2.0])).backward()
    yield w.grad


def history_that_is_used_up(p: Library) -> Values:
    w = p.tensor([2.0], requires_grad=True)
    h = w.exp()
    model = p.compiled(p.module(lambda m, x: (x * h).sum()))
    for _ in range(3):
        try:
            model(p.tensor([1.0])).backward()
        except RuntimeError:
            yield -1.0
        yield w.grad


def views(p: Library) -> Values:
    w = p.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    module = p.module(lambda m, x: (m.view @ x * w[1]).sum(), view=w.view(2, 2))
    model = p.compiled(module)
    for k in range(4):
        model(p.tensor([[1.0], [k + 1.0]])).backward()
        yield w.grad
        if k:
            module.view = (w * k).view(2, 2)


def argument_that_is_read_besides(p: Library) -> Values:
    w = p.tensor([2.0, 1.0], requires_grad=True)
    h = w * 3
    model = p.compiled(p.module(lambda m, x: (x * h).sum()))
    for x in (h, h, p.tensor([1.0, 1.0]), h.detach()):
        model(x).backward(retain_graph=True)
        yield w.grad


def another_tensor_and_other_flags(p: Library) -> Values:
    w = p.tensor([1.0], requires_grad=True)
    module = p.module(lambda m, x: (x * m.scale * w).sum(), scale=p.tensor([2.0]))
    model = p.compiled(module)
    for k in range(5):
        if k in (1, 3):
            module.scale.requires_grad_(k == 1)
        if k == 4:
            module.scale = p.tensor([5.0], requires_grad=True)
        model(p.tensor([1.0, 1.0])).backward()
        yield from (w.grad, 0.0 if module.scale.grad is None else module.scale.grad)


def written_under_no_grad(p: Library) -> Values:
    scale = p.tensor([2.0], requires_grad=True)

    def forward(m: Any, x: Any) -> Any:
        with p.lib.no_grad():
            scale.mul_(1.5)
        return (scale * x).sum()

    model = p.compiled(p.module(forward))
    for _ in range(3):
        model(p.tensor([2.0])).backward()
        yield from (scale, scale.grad)


def result_that_is_the_tensor(p: Library) -> Values:
    scale = p.tensor([2.0], requires_grad=True)
    model = p.compiled(p.module(lambda m, x: (x * scale, scale)))
    for _ in range(2):
        product, same = model(p.tensor([1.0, 3.0]))
        (product.sum() * same.sum()).backward()
        yield scale.grad


def no_history_wanted(p: Library) -> Values:
    scale = p.tensor([2.0], requires_grad=True)
    model = p.compiled(p.module(lambda m, x: (x * scale, x * scale.detach())))
    for _ in range(2):
        with p.lib.no_grad():
            yield from (float(y.requires_grad) for y in model(p.tensor([1.0])))
        yield from (float(y.requires_grad) for y in model(p.tensor([1.0])))


def called_on_its_own_result(p: Library) -> Values:
    scale = p.tensor([2.0], requires_grad=True)
    model = p.compiled(p.module(lambda m, x: x * scale))
    for _ in range(2):
        model(model(p.tensor([1.0, 3.0]))).sum().backward()
        yield scale.grad


def hooks_are_called_once(p: Library) -> Values:
    scale, w = p.tensor([2.0], requires_grad=True), p.tensor([1.0], requires_grad=True)
    made = w * 2
    made.retain_grad()
    module = p.module(lambda m, x: (x * scale * m.weight * made).sum())
    module.weight = p.lib.nn.Parameter(p.tensor([3.0]))
    for t, factor in ((scale, 2), (module.weight, 10), (made, 100)):
        t.register_hook(lambda g, factor=factor: g * factor)
    model = p.compiled(module)
    for _ in range(2):
        model(p.tensor([1.0, 1.0])).backward(retain_graph=True)
        yield from (scale.grad, module.weight.grad, w.grad, made.grad)


PROGRAMS: dict[str, Callable[[Library], Values]] = {
    f.__name__: f
    for f in (
        leaf_among_parameters,
        history_of_the_outside,
        history_that_is_used_up,
        views,
        argument_that_is_read_besides,
        another_tensor_and_other_flags,
        written_under_no_grad,
        result_that_is_the_tensor,
        no_history_wanted,
        called_on_its_own_result,
        hooks_are_called_once,
    )
}


def told(values: Values) -> list[Any]:
    return [x if isinstance(x, float) else np.array(x.detach().cpu().numpy()) for x in values]


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_reach_the_outside_as_in_pytorch(name: str, device: str) -> None:
    wanted = told(PROGRAMS[name](Library(torch, "cpu", lambda m: m)))
    found = told(PROGRAMS[name](Library(sg, device, sg.compile)))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_history_of_the_outside_that_the_module_overwrites_is_refused(device: str) -> None:
    made = sg.tensor([2.0], device=device, requires_grad=True) * 2

    class Overwrites(sg.nn.Module):
        def forward(self, x: Any) -> Any:
            made.mul_(x)
            return made.sum()

    with pytest.raises(sg.CompileError, match="give it to the module as an argument"):
        sg.compile(Overwrites())(sg.ones(1, device=device))
