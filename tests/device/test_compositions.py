"""Nodes that stand for compositions: made when they are read, and never where the same loop came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad.drive import execute
from shadergrad.graph import autodiff
from shadergrad.graph.composition import Composite, Composition, shown

F = sg.nn.functional


def composite(device: str = "cpu", **kwargs: Any) -> tuple[Any, Any]:
    """x, and a result of a call that came before."""
    x = y = sg.zeros(0)
    for _ in range(2):
        x = sg.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, 1.0]], device=device, **kwargs)
        y = F.softmax(x * 2, -1)
    assert type(y._node) is Composite
    return x, y


def expected() -> torch.Tensor:
    return torch.softmax(torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, 1.0]]) * 2, -1)


def model(device: str) -> Any:
    sg.manual_seed(0)
    layers = (sg.nn.Conv2d(1, 2, 3), sg.nn.BatchNorm2d(2), sg.nn.GELU(), sg.nn.Flatten(), sg.nn.Linear(18, 4))
    return sg.nn.Sequential(*layers).to(device)


def loop(device: str, steps: int, watch: Callable[[int], None] = lambda k: None) -> list[float]:
    """The losses of an uncompiled loop."""
    net = model(device)
    optimizer = sg.optim.SGD(net.parameters(), lr=0.1)
    rng = np.random.default_rng(0)
    losses = []
    for k in range(steps):
        watch(k)
        x = sg.tensor(rng.normal(size=(3, 1, 5, 5)).astype(np.float32), device=device)
        loss = F.cross_entropy(net(x), sg.tensor([0, 3, 1], device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_composite_reads_as_what_it_stands_for(device: str) -> None:
    _, y = composite(device)
    assert_close(y, expected(), 1e-5, 1e-6)
    assert type(y._node) is not Composite
    _, y = composite(device)
    assert y._node.primitive.name == "div"
    assert type(y._node) is not Composite
    assert_close(y, expected(), 1e-5, 1e-6)


def test_results_of_one_composition_share_their_nodes() -> None:
    layer: Any = sg.nn.BatchNorm1d(3)
    y: Any = None
    for _ in range(2):
        x = sg.tensor(np.random.default_rng(0).normal(size=(4, 3)), dtype=sg.float32)
        y = layer(x)
    ends: list[Any] = [shown(y._node), shown(layer.running_mean._node)]
    assert [type(n) for n in ends] == [Composite, Composite]
    assert ends[0].composition is ends[1].composition
    mean = ends[0].inputs[2]  # which makes all
    assert type(ends[1]) is not Composite
    assert mean.storage is None
    assert mean in execute.Capture([ends[1]]).order


def test_a_loop_that_came_before_makes_no_nodes_of_compositions(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expanded: list[int] = []
    step = [0]
    expand = Composition.expand
    monkeypatch.setattr(Composition, "expand", lambda self: (expanded.append(step[0]), expand(self))[1])
    losses = loop(device, 7, lambda k: step.__setitem__(0, k))
    assert max(expanded) < 5
    assert losses[-1] < losses[0]


def test_a_loop_means_the_same_whoever_reads_its_nodes(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = loop(device, 6)
    made = Composite.__init__

    def at_once(self: Composite, *args: Any) -> None:
        made(self, *args)
        opened.append(self)

    opened: list[Composite] = []
    monkeypatch.setattr(Composite, "__init__", at_once)
    accumulate = sg.nn.Linear.forward

    def forward(self: Any, x: Any) -> Any:
        for node in opened[::2]:
            assert node.inputs is not None
        opened.clear()
        return accumulate(self, x)

    monkeypatch.setattr(sg.nn.Linear, "forward", forward)
    assert_close(np.array(loop(device, 6)), np.array(plain), 1e-5, 1e-6)


def test_a_graph_is_used_up_though_its_nodes_were_never_made() -> None:
    x: Any
    y: Any = None
    for _ in range(4):
        x = sg.ones(2, 3, requires_grad=True)
        y = F.softmax(x, -1)
        y.square().sum().backward()
    with pytest.raises(sg.errors.AutogradError, match="second time"):
        y.sum().backward()
    layer = sg.nn.BatchNorm1d(3)
    for _ in range(4):
        x = sg.ones(4, 3, requires_grad=True)
        y = F.softmax(layer(x * 2), -1)
        y.sum().backward(retain_graph=True)
        before = x.grad.numpy()
        y.sum().backward()
        assert_close(x.grad, before * 2, 1e-5, 1e-6)


def test_second_derivatives_go_through_composites() -> None:
    second = None
    for _ in range(3):
        x, y = composite(requires_grad=True)
        (g,) = sg.autograd.grad(y.square().sum(), x, create_graph=True)
        (second,) = sg.autograd.grad(g.square().sum(), x)
    t = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, 1.0]], requires_grad=True)
    (h,) = torch.autograd.grad(torch.softmax(t * 2, -1).square().sum(), t, create_graph=True)
    assert_close(second, torch.autograd.grad(h.square().sum(), t)[0], 1e-4, 1e-5)


def test_a_hook_on_a_result_is_called_in_every_step() -> None:
    seen = []
    for _ in range(4):
        _, y = composite(requires_grad=True)
        y.register_hook(lambda g: seen.append(g.sum().item()))
        y.sum().backward()
    assert seen == [6.0] * 4


def test_numbers_that_change_beside_composites_count(device: str) -> None:
    for k in range(6):
        _, y = composite(device)
        z = y * (0.5 + k)
        sg.sync()  # computes, and reads nothing
        assert_close(z, expected() * (0.5 + k), 1e-5, 1e-6)


def test_what_is_held_is_computed_with_the_step(device: str) -> None:
    """Values that the program holds besides the loss: of composites, of views of them, of what was computed before."""
    held = []
    for _ in range(4):
        x, y = composite(device, requires_grad=True)
        held = [y, y[0], y.detach(), (y + 1).t()]
        loss = y.square().sum()
        loss.backward()
        sg.sync()
        assert x.grad is not None
    whole = expected()
    for found, wanted in zip(held, (whole, whole[0], whole, (whole + 1).t()), strict=True):
        assert_close(found.detach(), wanted, 1e-5, 1e-6)


def test_programs_that_are_dropped_are_compiled_again(device: str) -> None:
    for _ in range(3):
        loop(device, 4)
        execute.programs.clear()
    assert loop(device, 4) == loop(device, 4)


@pytest.mark.parametrize("name", ["unbind", "LSTM", "GRU"])
def test_backward_passes_through_slices_and_recurrent_layers_come_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradient rules are evaluated for the first passes alone; the layers add one node each."""
    evaluated = []
    by_rules = autodiff._by_rules

    def counting(*args: Any) -> Any:
        evaluated.append(len(args[0]))
        return by_rules(*args)

    monkeypatch.setattr(autodiff, "_by_rules", counting)
    layer = None if name == "unbind" else getattr(sg.nn, name)(3, 4, num_layers=2, bidirectional=True)
    parameter = sg.nn.Parameter(sg.ones(3))
    for k in range(6):
        x = sg.full((5, 2, 3), k + 1.0) * parameter
        parts = x.unbind() if layer is None else layer(x)[0].unbind()
        parameter.grad = None
        before = len(evaluated)
        (parts[0].sum() + 2 * parts[-1].sum() + 3 * (parts[1] * parts[1]).sum()).backward()
        assert k < 3 or len(evaluated) == before
    if layer is None:
        assert_close(parameter.grad, [36.0 + 432.0] * 3, 1e-6, 1e-6)
    else:
        h = layer(sg.ones(5, 2, 3) * parameter)[0]
        assert type(shown(h._node)) is Composite or shown(h._node).primitive.name == "cat"


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
def test_a_step_of_a_recurrent_cell_is_one_composition(name: str) -> None:
    cell = getattr(sg.nn, name)(3, 4)
    cell(sg.ones(2, 3))
    state = cell(sg.ones(2, 3))
    states = state if isinstance(state, tuple) else (state,)
    shown_as = [shown(s._node) for s in states]
    assert all(type(node) is Composite for node in shown_as)
    assert len({id(node.composition) for node in shown_as if isinstance(node, Composite)}) == 1
    recipe = next(node.composition.recipe for node in shown_as if isinstance(node, Composite))
    assert len([row for row in recipe.rows if row[0].name == "dot"]) == 2


def test_a_state_behind_a_released_pass_holds_no_history() -> None:
    """A truncated backward pass through time: what a program keeps of a step keeps neither its nodes nor the memory of its parameters."""
    layer: Any = sg.nn.LSTM(3, 4)
    optimizer = sg.optim.SGD(layer.parameters(), lr=0.1)
    state: Any = None
    for _ in range(4):
        optimizer.zero_grad()
        output, last = layer(sg.ones(5, 2, 3), state)
        output.sum().backward()
        optimizer.step()  # computes `last`, which is alive
        assert last[0]._node.storage is not None
        assert not last[0]._node.inputs
        state = tuple(s.detach() for s in last)
        with pytest.raises(sg.AutogradError, match="second time"):
            last[1].sum().backward()


@pytest.mark.parametrize("what", ["a result", "a slice"])
def test_what_is_computed_of_a_released_tensor_has_gradients_up_to_it(what: str) -> None:
    """As of a generator's pictures, whose own pass is over."""
    x = sg.ones(2, 3, requires_grad=True)
    made = x.sin() * 2 if what == "a result" else x.sin().unbind()[1]
    made.sum().backward()
    y = (made * made).exp().log()
    sg.sync("cpu")  # computes it
    (found,) = sg.autograd.grad(y.sum(), made)
    assert_close(found, 2 * made.detach(), 1e-5, 1e-6)
    with pytest.raises(sg.AutogradError, match="second time"):
        (made * made).sum().backward()
