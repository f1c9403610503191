"""What a compiled module reads and gives back: tensors that are neither its own nor given to it get PyTorch's gradients, arguments and
leaves stay what they are, and what would be lost is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import grad_of

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


def flag_of_an_argument_set_within(p: Library) -> Values:
    """As modules of forces do."""
    scale = p.tensor([1.0, 2.0], requires_grad=True)

    def forward(m: Any, x: Any) -> Any:
        x.requires_grad_()
        energy = (x * scale * m.weight).sin().sum()
        (slope,) = p.lib.autograd.grad(energy, x, create_graph=True)
        return energy, -slope

    module = p.module(forward)
    module.weight = p.lib.nn.Parameter(p.tensor([3.0, -1.0]))
    model = p.compiled(module)
    for k in range(3):
        x = p.tensor([0.1, 0.2 * k])
        energy, force = model(x)
        (energy + force.square().sum()).backward()
        yield from (float(x.requires_grad), x.grad, module.weight.grad, scale.grad)


def arguments_and_leaves_are_results(p: Library) -> Values:
    w = p.tensor([2.0], requires_grad=True)

    def forward(m: Any, x: Any) -> Any:
        made = p.lib.ones_like(x).requires_grad_()
        return {"given": x, "made": made, "product": x * 2, "of it": p.lib.ones_like(x).requires_grad_() * 3}

    model = p.compiled(p.module(forward))
    for x in (w, w * 2, p.tensor([1.0]), w):
        found = model(x)
        yield float(found["given"] is x)
        for t in found.values():
            yield from (float(t.requires_grad), float(t.is_leaf), t)
        (found["product"] + found["of it"]).sum().backward()
    yield w.grad


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
        flag_of_an_argument_set_within,
        arguments_and_leaves_are_results,
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


def compiled(forward: Callable[[Any, Any], Any]) -> Any:
    return Library(sg, "cpu", sg.compile).compiled(Library(sg, "cpu", sg.compile).module(forward))


def overwrites(x: Any, made: Any) -> Any:
    made.mul_(x)
    return made.sum()


def goes_back(x: Any, made: Any) -> Any:
    (x * made).sum().backward()
    return x * 2


def reads_a_gradient(x: Any, made: Any) -> Any:
    return x * 2 if x.grad is None else x


def gives_a_history(x: Any, made: Any) -> Any:
    x.detach_().copy_(made)
    return x * 2


def returns_a_leaf_and_more(x: Any, made: Any) -> Any:
    leaf = sg.ones(1, requires_grad=True)
    return leaf, leaf * made


def stores(x: Any, made: Any) -> Any:
    state.aux = x * 2
    return x * 3


def keeps_in_a_list(x: Any, made: Any) -> Any:
    state.kept.append(x * 2)
    return x * 3


def writes_outside(x: Any, made: Any) -> Any:
    state.plain.copy_(x)
    return x * 3


def switches_gradients_off(x: Any, made: Any) -> Any:
    sg.set_grad_enabled(False)
    return x * 3


state = SimpleNamespace(aux=None, kept=[], plain=sg.ones(1))


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (stores, "left a value with a history in state.aux"),
        (keeps_in_a_list, "left a value with a history in state.kept"),
        (writes_outside, "left a value with a history in a tensor of the outside"),
        (switches_gradients_off, "set whether gradients are recorded"),
        (overwrites, "read a tensor that was made outside"),
        (goes_back, "read or set the .grad of an argument"),
        (reads_a_gradient, "read or set the .grad of an argument"),
        (gives_a_history, "wrote a value with a history into an argument"),
        (returns_a_leaf_and_more, "returned a leaf that it made"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_what_would_be_lost_is_refused(forward: Callable[..., Any], words: str) -> None:
    made = sg.tensor([2.0], requires_grad=True) * 2
    with pytest.raises(sg.CompileError, match=words):
        compiled(lambda m, x: forward(x, made))(sg.ones(1, requires_grad=True))


def test_what_is_stored_without_a_history_is_stored() -> None:
    def forward(m: Any, x: Any) -> Any:
        state.aux = (x * m.weight).detach()
        return state.aux * m.weight

    p = Library(sg, "cpu", sg.compile)
    module = p.module(forward)
    module.weight = sg.nn.Parameter(sg.tensor([3.0]))
    model = sg.compile(module)
    for k in range(3):
        model(sg.tensor([k + 1.0])).backward()
        assert state.aux.tolist() == [3 * (k + 1)]
    assert grad_of(module.weight).tolist() == [18]


def test_what_the_module_raises_is_raised() -> None:
    def forward(m: Any, x: Any) -> Any:
        if x.shape[0] > 1:
            raise KeyError("too long")
        return x * 2

    model = compiled(forward)
    assert model(sg.ones(1, requires_grad=True)).tolist() == [2]
    with pytest.raises(KeyError, match="too long"):
        model(sg.ones(2, requires_grad=True))
