"""Programs are kept by the structure of their graphs: graphs that differ in little are told apart, equal ones are not."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_compiles_nothing, assert_same_bits
from shadergrad.run import leaks
from shadergrad.runtime.device import get_device


def pair(device: str) -> tuple[sg.Tensor, sg.Tensor]:
    return sg.tensor([1.0, 2.0, 4.0], device=device), sg.tensor([5.0, 3.0, -2.0], device=device)


# two functions whose graphs differ in one thing
NEAR: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "the order of operands": (lambda a, b: (a + b) * (a - b), lambda a, b: (a + b) * (b - a)),
    "which operand": (lambda a, b: (a + b) * a, lambda a, b: (a + b) * b),
    "the operation": (lambda a, b: a + b, lambda a, b: a * b),
    "a number": (lambda a, b: a + b * 2, lambda a, b: a + b * 3),
    "one tensor for two": (lambda a, b: a - b, lambda a, b: a - a),
    "the number of uses": (lambda a, b: a + b, lambda a, b: a + b + b),
}


@pytest.mark.parametrize("name", NEAR)
def test_graphs_that_differ_in_little_are_told_apart(name: str, device: str) -> None:
    for function in (*NEAR[name], *NEAR[name]):
        assert_same_bits(function(*pair(device)), function(*(t.numpy() for t in pair("cpu"))))


@pytest.mark.parametrize("dtypes", [("float32", "int32"), ("int32", "float32"), ("int32", "uint32"), ("bool", "int32")])
def test_dtypes_are_told_apart(dtypes: tuple[str, str], device: str) -> None:
    for dtype in dtypes:
        a = sg.tensor(np.array([0, 1, 1], dtype), device=device)
        assert_same_bits(a + a, np.array([0, 1, 1], dtype) + np.array([0, 1, 1], dtype))


def test_shapes_are_told_apart(device: str) -> None:
    for shape in ((2, 3), (3, 2), (6,), (1, 6), (3, 2)):
        a = sg.tensor(np.arange(6, dtype=np.float32).reshape(shape), device=device)
        assert_same_bits(a.flip(0) * 2, np.flip(a.numpy(), 0) * 2)


def test_the_order_of_results_is_told_apart(device: str) -> None:
    """One result is computed from the other, so that both graphs have their nodes in one order."""

    def results(x: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        y = x * 2
        return y, y.exp()

    there, back = sg.compile(results), sg.compile(lambda x: results(x)[::-1])
    for _ in range(2):
        x = pair(device)[0]
        (y, z), (late, early) = there(x), back(x)
        assert_same_bits(y, np.array([2, 4, 8], np.float32))
        assert_same_bits(early, y)
        assert_same_bits(late, z)


def test_devices_are_told_apart(webgpu: str) -> None:
    for device in ("cpu", webgpu, "cpu"):
        a, b = pair(device)
        assert (a + b).device == a.device
        assert_same_bits(a + b, np.array([6, 5, 2], np.float32))
    assert get_device("cpu").target != get_device(webgpu).target


def test_the_same_graph_of_other_tensors_compiles_nothing(device: str) -> None:
    def run() -> list[float]:
        a, b = pair(device)
        return ((a + b) * (a - b)).tolist()

    first = run()
    assert assert_compiles_nothing(run) == first


def test_a_leaf_of_the_step_that_gets_a_gradient_captures_nothing_anew() -> None:
    """It is another one in each call, so what is in its .grad says nothing."""

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        x = x.clone().detach().requires_grad_(True)
        loss = (x * x).sum()
        loss.backward()
        assert x.grad is not None
        return x.grad

    for k in (1.0, 2.0, 3.0):
        assert step(sg.full((2,), k)).tolist() == [2 * k, 2 * k]
    assert step.captures == 1


# how a tensor comes to share memory with another that is gone, or that is not asked: in a library, of a tensor p
ALIASES: dict[str, Any] = {
    "a clone, detached": lambda lib, p: p.clone().detach(),
    "a result, detached": lambda lib, p: (p * 1).detach(),
    "a result's data": lambda lib, p: (p * 1).data,
    "a parameter, detached": lambda lib, p: lib.nn.Parameter(p.detach().clone()).detach(),
    "a parameter of a part": lambda lib, p: lib.nn.Parameter(lib.ones(6)[1:5], requires_grad=False),
    "a part, detached": lambda lib, p: lib.ones(6)[1:5].detach(),
    "a row": lambda lib, p: lib.ones(2, 4)[1],
}


@pytest.mark.parametrize("made", ALIASES)
def test_an_alias_of_what_is_gone_is_no_constant_of_a_step(made: str) -> None:
    def calls(lib: Any, compiled: Any) -> list[Any]:
        p = lib.tensor([-3.0, 3.0, -2.0, 3.0], requires_grad=True)
        c = ALIASES[made](lib, p)
        gc.collect()

        @compiled
        def step(x: Any) -> Any:
            x.mul_(2.0)
            return (c * 1).detach()

        found = [step(c).tolist(), step(c).tolist()]
        with lib.no_grad():
            c.add_(1)
        found.append(step(lib.ones(4)).tolist())
        c.mul_(3.0)
        return [*found, step(lib.ones(4)).tolist(), step(c).tolist()]

    assert calls(sg, sg.compile) == calls(torch, lambda function: function)


def test_a_view_that_is_written_again_and_again_is_no_constant_of_a_step(device: str) -> None:
    whole = sg.ones(6, device=device)
    c = whole[0:4].detach()
    step = sg.compile(lambda x: (x.mul_(2), c * 1)[1])
    step(c)
    step(c)
    c.add_(1)
    assert step(sg.ones(4, device=device)).tolist() == [5, 5, 5, 5]
    c.mul_(3.0)
    assert step(sg.ones(4, device=device)).tolist() == [15, 15, 15, 15]
    assert whole.tolist() == [15, 15, 15, 15, 1, 1]


def test_a_step_does_not_exchange_the_memory_of_an_argument_that_others_have() -> None:
    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        x.mul_(-1.0)
        x.data = sg.tensor([7.0, 7.0])
        return x.sum()

    alone = sg.ones(2)
    assert step(alone).item() == 14
    assert alone.tolist() == [7, 7]
    a = sg.ones(2)
    b = a.detach()
    with pytest.raises(sg.CompileError, match="whose memory others share"):
        step(a)
    assert b.tolist() == [1, 1]


@pytest.mark.parametrize("which", ["captured first", "argument first", "part of the argument", "two arguments"])
@pytest.mark.parametrize("given", ["another", "the captured one", "an alias", "itself twice"])
def test_deep_copies_share_memory_as_arguments_and_captured_tensors_do(which: str, given: str, device: str) -> None:
    def run(lib: Any, **options: Any) -> list[list[float]]:
        captured = lib.tensor([1.0, 2.0], **options)

        def step(x: Any, y: Any) -> Any:
            tensors = {
                "captured first": lambda: [captured, x],
                "argument first": lambda: [x, captured],
                "part of the argument": lambda: [captured, x[:1]],
                "two arguments": lambda: [x, y],
            }[which]()
            written, seen = copy.deepcopy(tensors)
            written.add_(1)
            return seen

        called = sg.compile(step) if lib is sg else step
        fresh, other = lib.tensor([5.0, 6.0], **options), lib.tensor([7.0, 8.0], **options)
        arguments = {
            "another": (other, fresh),
            "the captured one": (captured, fresh),
            "an alias": (captured.view(2), captured.view(2)),
            "itself twice": (other, other),
        }[given]
        calls = [(fresh, other), arguments, arguments, (fresh, other), arguments]
        return [called(*call).tolist() for call in calls]

    assert run(sg, device=device) == run(torch)


@pytest.mark.parametrize("shared", ["Parameter", "detach", "view", "nothing"])
@pytest.mark.parametrize("made", ["a clone", "another", "computed"])
def test_a_step_writes_to_the_memory_that_a_tensor_was_given_since(shared: str, made: str, device: str) -> None:
    def run(lib: Any, **options: Any) -> list[list[float]]:
        p = lib.nn.Parameter(lib.tensor([1.0, 2.0], **options))
        before = p.data
        _other = {
            "Parameter": lambda: lib.nn.Parameter(before),
            "detach": lambda: before.detach(),
            "view": lambda: before.view(2),
            "nothing": lambda: None,
        }[shared]()

        def step() -> Any:
            p.data.sub_(1)
            return p.detach() * 2

        called = sg.compile(step) if lib is sg else step
        found = [called().tolist(), p.tolist(), before.tolist()]
        another = lib.tensor([10.0, 20.0], **options)
        p.data = {"a clone": before.clone, "another": lambda: another, "computed": lambda: another * 2}[made]()
        for _ in range(2):
            found += [called().tolist(), p.tolist(), before.tolist()]
        return found

    assert run(sg, device=device) == run(torch)


def a_copy(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    return copy.deepcopy(w)


def copies_of_two(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    return copy.deepcopy([w, w.grad, w])


def a_parameter(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    p = lib.nn.Parameter((x * 3).detach())
    (p * p).sum().backward()
    (p * x).sum().backward()
    return {"p": p, "sum": p.grad + 1}


def retained(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    y = w * x
    y.retain_grad()
    (y * y).sum().backward()
    return y, w.grad


def a_view(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    c = (x * 2).view(2)
    c.grad = x[:2]
    return [c, c.grad, c]


def an_argument(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    c = x.clone()
    c.grad = x
    return c


def the_same_gradient(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    (w * x).sum().backward()
    c = x * 5
    c.grad = w.grad
    return c


def a_gradient_that_was_there(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    c = x * 5
    c.grad, w.grad = w.grad, c
    return c


def its_own_gradient_has_one(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    c, d = x * 5, x + 1
    c.grad, d.grad = d, c
    return c


def in_a_slot(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    w.grad = x * 2
    w.grad.grad = x * 4
    return x + 1


def in_a_place(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    before = held.get("c")
    held["c"] = x + 7
    held["c"].grad = x if before is None else before.grad * 2 + before
    return held["c"].grad + 0


def set_to_none(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    c = copy.deepcopy(w)
    c.grad = None
    return c


def written_in_place(lib: Any, x: Any, w: Any, held: dict[str, Any]) -> Any:
    c = copy.deepcopy(w)
    c.grad.mul_(10)
    return c


@pytest.mark.parametrize(
    "step",
    [
        a_copy,
        copies_of_two,
        a_parameter,
        retained,
        a_view,
        an_argument,
        the_same_gradient,
        a_gradient_that_was_there,
        its_own_gradient_has_one,
        in_a_slot,
        in_a_place,
        set_to_none,
        written_in_place,
    ],
)
def test_what_a_step_makes_has_its_gradient(step: Callable[..., Any], device: str) -> None:
    def run(lib: Any, **options: Any) -> list[Any]:
        w = lib.tensor([1.0, 2.0], requires_grad=True, **options)
        w.grad = lib.tensor([3.0, 4.0], **options)
        held: dict[str, Any] = {}
        found = []
        called = sg.compile(lambda x: step(lib, x, w, held)) if lib is sg else lambda x: step(lib, x, w, held)
        kept = []
        for k in range(4):
            x = lib.tensor([1.0 + k, 5.0], **options)
            result = called(x)
            kept.append(result)
            tensors = list(result.values()) if isinstance(result, dict) else result
            tensors = [*tensors] if isinstance(tensors, list | tuple) else [tensors]
            tensors += [w, *held.values()]
            tensors += [t.grad for t in tensors if t.grad is not None]
            tensors += [t.grad for t in tensors if t.grad is not None]
            found.append([(t.tolist(), t.requires_grad and t.is_leaf) for t in tensors])
            found.append([[t is other for other in tensors] for t in tensors])
            if k % 2:
                for t in tensors[:1]:
                    if t.requires_grad and t.is_leaf:
                        (t * 2).sum().backward()
                        found.append((t.grad.tolist(), w.grad.tolist()))
                    if t.grad is not None:
                        with lib.no_grad():
                            t.grad.add_(1)
                        found.append([other.tolist() for other in tensors])
        return found

    assert run(sg, device=device) == run(torch)


def test_a_capture_leaves_no_reference_cycle(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector would look at all objects of the process: a second in one that loaded PyTorch's compiler."""

    def collected() -> None:
        pytest.fail("what the capture made was still there when it was over")

    monkeypatch.setattr(leaks, "collect_cycles", collected)
    w = sg.ones(3, 2, device=device, requires_grad=True)
    optimizer = sg.optim.SGD([w], 0.1)

    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = sg.nn.functional.softmax(x @ w, -1).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    sg.compile(step)(sg.ones(4, 3, device=device))
    sg.compile(lambda x: x * 2)(sg.ones(2, device=device))
