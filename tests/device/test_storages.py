"""Tensors that share memory: what is written through one is read through all, on every device, compiled or not."""

from __future__ import annotations

import copy
import gc
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.drive.execute import programs


def gradient(x: sg.Tensor) -> sg.Tensor:
    assert x.grad is not None
    return x.grad


ALIASES = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "a row": lambda x: x[1],
    "a slice with steps": lambda x: x[:, ::2],
    "a view": lambda x: x.view(-1),
    "a reshape": lambda x: x.reshape(3, 2),
    "a transpose": lambda x: x.t(),
    "a diagonal": lambda x: x.diagonal(1),
    "a part of a split": lambda x: x.split(2, 1)[1],
    "one of unbind": lambda x: x.unbind(1)[2],
    "windows that do not overlap": lambda x: x.unfold(1, 1, 2),
    "a column of windows that overlap": lambda x: x.unfold(1, 2, 1)[..., 0],
    "a row of an expanded column": lambda x: x[:, :1].expand(2, 3).t()[2],
    "a chain": lambda x: x.t()[1:].unsqueeze(0)[:, :, 0],
}


@pytest.mark.parametrize("alias", ALIASES)
def test_what_is_written_through_an_alias_is_in_the_tensor_and_in_its_other_aliases(alias: str, device: str) -> None:
    torch = pytest.importorskip("torch")

    def run(lib: Any, **options: Any) -> list[Any]:
        x = lib.arange(6, dtype=lib.float32, **options).reshape(2, 3)
        other, part = x.detach()[0], ALIASES[alias](x)
        part.mul_(2).add_(10)
        seen = [x.tolist(), other.tolist(), part.tolist()]
        x.sub_(1)
        return [*seen, x.tolist(), other.tolist(), part.tolist()]

    assert run(sg, device=device) == run(torch)


@pytest.mark.parametrize("alias", ALIASES)
def test_a_compiled_step_writes_through_an_alias_and_aliases_see_what_it_writes(alias: str, device: str) -> None:
    x = sg.arange(6, dtype=sg.float32, device=device).reshape(2, 3)
    expected = x.clone()
    part, of_expected = ALIASES[alias](x), ALIASES[alias](expected)
    step = sg.compile(lambda rate: part.mul_(rate).add_(1))
    for rate in (2.0, 3.0, 3.0):
        step(rate)
        of_expected.mul_(rate).add_(1)
        assert x.tolist() == expected.tolist()
        assert part.tolist() == of_expected.tolist()


def test_copies_keep_their_values_while_compiled_steps_overwrite_the_memory(device: str) -> None:
    """Of a parameter's memory that a step overwrites, whoever else holds the value keeps it."""
    w = sg.ones(3, device=device).requires_grad_()
    step = sg.compile(lambda: w.data.mul_(2))
    copies = [sg.tensor(w), w.detach().clone(), sg.Tensor(w.detach()), copy.deepcopy(w), w.contiguous().clone()]
    loss = (w * w).sum()
    loss.item()
    detached, before = w.detach(), w.detach().numpy()
    for _ in range(3):
        step()
    assert w.tolist() == detached.tolist() == [8, 8, 8]
    assert before.tolist() == [1, 1, 1]
    for c in copies:
        assert c.tolist() == [1, 1, 1]
    loss.backward()
    assert gradient(w).tolist() == [2, 2, 2], "by the value that w had"


def test_a_training_step_copies_nothing_once_it_runs(device: str) -> None:
    model = nn.Linear(4, 4).to(device)
    optimizer = sg.optim.Adam(model.parameters())

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = sg.ones(2, 4, device=device)
    step(x)
    before = programs.compiled
    kept = model.state_dict()
    for _ in range(4):
        step(x)
    assert programs.compiled - before <= 2, "a copy for each shape of what state_dict() shares, at most"
    memory = id(model.weight._node.storage)  # and not itself: who holds it keeps its value
    step(x)
    assert id(model.weight._node.storage) == memory, "the same, step after step"
    assert kept["weight"].tolist() == model.weight.tolist()


def test_updates_by_hand_compile_a_bounded_number_of_plans_and_keep_no_history(device: str) -> None:
    """Nothing asks for the weights: a read computes what was changed in place."""
    w = sg.ones(8, device=device).requires_grad_()
    x = sg.ones(8, device=device)
    counts = []
    for _ in range(40):
        loss = ((w - x * 3) ** 2).sum()
        loss.backward()
        with sg.no_grad():
            w -= 0.01 * gradient(w)
        w.grad = None
        loss.item()
        counts.append(programs.compiled)
    assert counts[4] == counts[-1], "every step after the first few is the same program"
    gc.collect()
    assert w.detach().numpy()[0] == pytest.approx(3 - 2 * 0.98**40, abs=1e-4)


def test_a_moving_average_leaves_the_gradient_of_what_it_copies_alone(device: str) -> None:
    w, average = sg.ones(2, device=device).requires_grad_(), sg.zeros(2, device=device)
    with sg.no_grad():
        average.copy_(w * 2)
        assert not average.requires_grad
        average.copy_(w)
    doubled, scaled = w * 2, w * 1
    with sg.no_grad():
        scaled.copy_(doubled)
    assert scaled.requires_grad  # by its own history
    (w * 3).sum().backward()
    assert gradient(w).tolist() == [3, 3]
    assert average.is_leaf
    assert not average.requires_grad


def test_initialisers_and_state_dicts_write_into_parameters(device: str) -> None:
    layer = nn.Linear(2, 2).to(device)
    nn.init.constant_(layer.weight.data, 3.0)
    layer.state_dict()["bias"].fill_(7)
    layer.weight.data[0] = 9
    assert layer.weight.tolist() == [[9, 9], [3, 3]]
    assert layer.bias is not None
    assert layer.bias.tolist() == [7, 7]
    assert layer.weight.is_leaf
    assert layer.weight.requires_grad


def test_a_history_goes_on_through_writes(device: str) -> None:
    torch = pytest.importorskip("torch")

    def run(lib: Any, **options: Any) -> list[Any]:
        w = lib.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True, **options)
        y = w * 2
        rows = y.view(2, 2)
        rows[0] *= w[:2]
        y.data.add_(1)
        with lib.no_grad():
            rows[1].zero_()
        y[3] = w[0] * 5
        (y * lib.tensor([1.0, 2.0, 3.0, 4.0], **options)).sum().backward()
        return [y.tolist(), rows.tolist(), w.grad.tolist(), y.requires_grad, y.is_leaf]

    assert run(sg, device=device) == run(torch)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda w: w[0].add_(1), "a view of a leaf Variable that requires grad"),
        (lambda w: w.view(-1).zero_(), "a view of a leaf Variable that requires grad"),
        (lambda w: w.add_(1), "a leaf Variable that requires grad"),
        (lambda w: w.detach().expand(3, 2, 2).add_(1), "more than one element"),
        (lambda w: w.detach().view(-1).unfold(0, 2, 1).add_(1), "more than one element"),
        (lambda w: w[0].detach_(), "Can't detach views in-place"),
        (lambda w: setattr(w[0], "requires_grad", False), "leaf variables"),
    ],
)
def test_writes_without_a_place_are_refused(write: Any, words: str, device: str) -> None:
    w = sg.ones(2, 2, device=device).requires_grad_()
    with pytest.raises(sg.ShadergradError, match=words):
        write(w)
    assert w.tolist() == [[1, 1], [1, 1]]


def test_setting_data_shares_memory(device: str) -> None:
    a, b = nn.Linear(2, 2).to(device), nn.Linear(2, 2).to(device)
    old = a.weight.data
    a.weight.data = b.weight.data
    with sg.no_grad():
        b.weight.fill_(4)
    assert a.weight.tolist() == [[4, 4], [4, 4]]
    assert a.weight.data_ptr() == b.weight.data_ptr()
    assert old.tolist() != a.weight.tolist()


def test_strides_and_pointers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")

    def look(lib: Any) -> list[Any]:
        x = lib.zeros(2, 3, 4)
        views = [
            x, x[1], x[:, ::2], x.permute(2, 0, 1), x.transpose(0, 1).reshape(6, 4), x.reshape(6, 4), x[:, :1].expand(2, 5, 4),
            x.diagonal(0, 1, 2), x.unfold(2, 2, 1), x[..., None], x.view(-1)[3:], x.permute(1, 0, 2)[:, 1:].flatten(1),
        ]  # fmt: skip
        shared = [v.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for v in views]
        return [[v.stride(), v.storage_offset(), v.is_contiguous(), tuple(v.shape)] for v in views] + shared

    assert look(sg) == look(torch)


def test_diagonals_of_views_lie_as_pytorchs() -> None:
    """And are copied by contiguous(), which what lies row by row is not."""
    torch = pytest.importorskip("torch")

    def look(lib: Any) -> list[Any]:
        found: list[Any] = []
        x = lib.arange(120.0).reshape(2, 3, 4, 5)
        for view in (
            x[0, 0].mT.diagonal(), x[0, 0, :2, :2].diagonal(), x[1, 0, :, ::2].diagonal(1), x[1, 1].mT.diagonal(-1),
            x.permute(3, 0, 2, 1).diagonal(0, 1, 3), x.diagonal(1, 2, 3)[..., 1:], x.mT.diagonal(-2, -1, -2)[:, ::2, :1],
            x.transpose(0, 2).diagonal(0, 0, 1).diagonal(0, 0, 1), x[:, :1].mT.diagonal(0, 1, 3),
            x[0, 0].unfold(0, 2, 1).diagonal(0, 0, 2), x[0, 0, 0].expand(4, 5).diagonal(),
        ):  # fmt: skip
            found += [view.stride(), view.storage_offset(), view.is_contiguous(), view.tolist()]
            view.contiguous().mul_(2)
        return [*found, x.tolist()]

    assert look(sg) == look(torch)


def view_of(x: Any, rng: random.Random) -> Any:
    """One of the views of a tensor of at least one axis, by the same draws for both libraries."""
    k, n = (axis := rng.randrange(x.ndim)), x.shape[axis]
    a, b = rng.sample(range(x.ndim), 2) if x.ndim > 1 else (0, -1)
    views: list[Callable[[], Any]] = [
        lambda: x.unsqueeze(rng.randint(0, x.ndim)), lambda: x.squeeze(), lambda: x.expand(2, *x.shape), lambda: x.T if x.ndim == 2 else x,
        lambda: x.narrow(k, n // 2, n - n // 2), lambda: x.split(2, k)[-1] if n else x, lambda: x.flatten(*sorted((k, a))),
        lambda: x.reshape(-1), lambda: x.reshape(*reversed(x.shape)), lambda: x.contiguous(), lambda: x.detach(),
        lambda: x[(slice(None),) * k + (slice(None, None, 2),)], lambda: x.select(k, n - 1) if n else x,
        lambda: x.unfold(k, rng.randint(1, n), rng.randint(1, 3)) if n else x, lambda: x.unflatten(k, (-1, 1)) if n else x,
        *[lambda: x.permute(*rng.sample(range(x.ndim), x.ndim)), lambda: x.transpose(a, b)] * 3,
        *[lambda: x.diagonal(rng.randint(-2, 2), a, b) if x.ndim > 1 else x] * 2,
    ]  # fmt: skip
    return rng.choice(views)()


def test_views_of_views_lie_as_pytorchs() -> None:
    """And share the memory where PyTorch's do: what reshape() and contiguous() make of them shows it."""
    torch = pytest.importorskip("torch")

    def look(lib: Any, seed: int) -> list[Any]:
        rng = random.Random(seed)
        shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
        base = x = lib.arange(float(math.prod(shape))).reshape(shape)
        for _ in range(rng.randint(2, 5)):
            x = view_of(x, rng) if x.ndim else x
        strides = [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1] if x.numel() else []
        shares = x.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        return [list(x.shape), strides, x.numel() and x.storage_offset(), x.is_contiguous(), shares, x.tolist()]

    for seed in range(500):
        assert look(sg, seed) == look(torch, seed), f"seed {seed}"


def test_results_of_a_step_are_what_the_function_returns(device: str) -> None:
    """The same object twice, an argument, a tensor of the outside, and views of one memory stay so."""
    state = sg.zeros(2, device=device)

    @sg.compile
    def step(x: sg.Tensor) -> Any:
        y = x * 2
        return x, state.add_(1), y, y, y[:1], x[1:]

    for count in (1, 2):
        x = sg.tensor([1.0, 2.0], device=device)
        same, counter, y, again, part, tail = step(x)
        assert same is x
        assert counter is state
        assert y is again
        assert state.tolist() == [count, count]
        part.fill_(9)
        assert y.tolist() == [9, 4]
        x.fill_(5)
        assert tail.tolist() == [5]


def test_arguments_of_a_step_may_be_written_share_memory_and_require_grad(device: str) -> None:
    def function(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        x.add_(1)
        return y * 2

    step = sg.compile(function)
    a, b = sg.zeros(2, device=device), sg.ones(2, device=device)
    assert step(a, b).tolist() == [2, 2]
    assert a.tolist() == [1, 1]
    assert step(a, a).tolist() == [4, 4], "y is x, which has changed when it is read"
    assert step(a, b).tolist() == [2, 2]
    table = sg.zeros(3, 2, device=device)
    assert step(table[0], table[0]).tolist() == [2, 2]
    assert table.tolist() == [[1, 1], [0, 0], [0, 0]]
    adds = sg.compile(lambda t: (t * t).sum().backward())
    leaf = sg.tensor([3.0], device=device).requires_grad_()
    for count in (1, 2, 3):
        adds(leaf)
        assert gradient(leaf).tolist() == [6.0 * count]


def test_data_that_is_set_in_a_step(device: str) -> None:
    p = nn.Parameter(sg.ones(2, device=device))
    other = sg.zeros(2, device=device)

    @sg.compile
    def step() -> None:
        p.data = p.data * 2

    step()
    alias = p.data
    step()
    assert p.tolist() == [4, 4]
    assert alias.tolist() == [2, 2], "that memory is p's no more"

    @sg.compile
    def shares() -> None:
        p.data = other

    with pytest.raises(sg.CompileError, match="exists outside"):
        shares()
    alias = p.data
    with pytest.raises(sg.CompileError, match="others share"):
        sg.compile(lambda: setattr(p, "data", p.data * 2))()
    del alias
    p.data = other + 1
    step()
    step()
    assert p.tolist() == [4, 4]
    assert step.captures == 1


def test_updates_of_data_in_place_and_views_made_once(device: str) -> None:
    w = sg.ones(4, device=device).requires_grad_()
    view = w.view(2, 2)

    def update(rate: float) -> None:
        w.grad = None
        (view * view).sum().backward()
        w.data -= rate * gradient(w)

    step = sg.compile(update)
    for run in (update, update, step, step):
        run(0.25)
    assert w.tolist() == [0.0625] * 4
    assert view.tolist() == [[0.0625] * 2] * 2
    assert step.captures == 1


def test_memory_that_is_exchanged_between_steps_is_seen(device: str) -> None:
    p, other = nn.Parameter(sg.ones(2, device=device)), sg.zeros(2, device=device)
    row = p.data[:1]
    step = sg.compile(lambda: (p.data.add_(1), row * 10)[1])
    assert step().tolist() == [20]
    p.data = other
    for count in (1, 2):
        assert step().tolist() == [20], "what shared the memory before"
        assert other.tolist() == p.tolist() == [count, count]


def test_what_a_gradient_is_held_by_sees_it_grow(device: str) -> None:
    w = sg.ones(2, device=device).requires_grad_()
    (w * 2).sum().backward()
    held = w.grad
    (w * 3).sum().backward()
    assert held is w.grad
    assert held is not None
    assert held.tolist() == [5, 5]
    gradient(w).data.zero_()
    assert np.asarray(held.detach()).tolist() == [0, 0]


@pytest.mark.parametrize("way", ["write_", "copy_", "backward"])
def test_what_lies_in_one_place_takes_no_different_values(way: str, device: str) -> None:
    base = sg.ones(1, device=device)
    shown = base.expand(3)
    p = sg.ones(3, device=device, requires_grad=True)
    p.grad = shown
    values = np.array([1, 2, 3], np.float32)
    ways: dict[str, Callable[[], Any]] = {
        "write_": lambda: shown.write_(values),
        "copy_": lambda: shown.copy_(sg.tensor(values, device=device)),
        "backward": lambda: (p * p).sum().backward(),
    }
    with pytest.raises(sg.ShapeError, match=rf"\[{way}\].*single memory location"):
        ways[way]()
    assert base.tolist() == [1]
