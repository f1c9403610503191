"""Hooks on tensors, retained gradients, grad_fn, and backward by some inputs only, as PyTorch has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, grad_of

both = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "pytorch"])


def leaf(lib: Any, values: Any, device: str = "cpu") -> Any:
    return lib.tensor(np.array(values, np.float32), device=device if lib is sg else None).requires_grad_()


# ---------------------------------------------------------------------------------- register_hook


def test_a_hook_sees_and_replaces_the_gradient(device: str) -> None:
    seen: list[Any] = []
    x = leaf(sg, [1.0, 2.0], device)
    y = x * 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward()
    assert seen == [[6, 12]]
    assert x.grad.tolist() == [180, 360]


@both
def test_a_hook_gets_all_of_the_gradient_once(lib: Any) -> None:
    """Also from uses that were there before the hook."""
    seen: list[Any] = []
    x = leaf(lib, [1.0])
    y = x * 2
    before = y * 5
    y.register_hook(lambda g: seen.append(g.tolist()))
    (before + y * 7 + y).sum().backward()
    assert seen == [[13]]
    assert x.grad.tolist() == [26]


@both
def test_a_hook_on_a_leaf_sees_this_pass_and_not_the_sum(lib: Any) -> None:
    seen: list[Any] = []
    x = leaf(lib, [1.0])
    x.register_hook(lambda g: (seen.append(g.tolist()), g * 2)[1])
    for _ in range(2):
        (x * 3).sum().backward()
    assert seen == [[3], [3]]
    assert x.grad.tolist() == [12]
    assert lib.autograd.grad((x * 5).sum(), x)[0].tolist() == [10]


@both
def test_hooks_run_in_order_and_can_be_removed(lib: Any) -> None:
    seen: list[str] = []
    x = leaf(lib, [1.0])
    first = x.register_hook(lambda g: seen.append("first"))
    with x.register_hook(lambda g: seen.append("second")):
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    first.remove()
    first.remove()
    (x * 1).sum().backward()
    assert seen == ["first", "second", "first"]


@both
def test_hooks_of_a_leaf_stay_when_its_value_changes(lib: Any) -> None:
    x = leaf(lib, [1.0])
    x.register_hook(lambda g: g * 10)
    with lib.no_grad():
        x.add_(1)
    (x * x).sum().backward()
    assert x.grad.tolist() == [40]


@both
def test_what_a_hook_does_is_recorded_where_asked(lib: Any) -> None:
    x = leaf(lib, [2.0])
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(g.sum(), x)
    assert (g.tolist(), second.tolist()) == ([8], [8])


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another shape": (lambda g: g.sum(), "has changed the size of value"),
    "another dtype": (lambda g: g.double(), "has changed the type of value"),
    "no tensor": (lambda g: 3, r"returned (a|')"),
}


@both
@pytest.mark.parametrize("case", WRONG)
def test_what_a_hook_may_not_return(case: str, lib: Any) -> None:
    hook, message = WRONG[case]
    y = leaf(lib, [1.0, 2.0]) * 2
    y.register_hook(hook)
    with pytest.raises((RuntimeError, TypeError), match=message):
        y.sum().backward()


@both
def test_what_has_no_gradient_has_no_hooks(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        lib.ones(2).register_hook(print)
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
        (leaf(lib, [1.0]) * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        lib.ones(2).retain_grad()


@both
def test_an_optimizer_may_step_within_backward(lib: Any) -> None:
    """register_post_accumulate_grad_hook: the gradient is used as soon as it is there, and let go."""
    w = leaf(lib, [1.0, 2.0])
    optimizer = lib.optim.SGD([w], lr=0.5)

    def step(tensor: Any) -> None:
        assert tensor is w
        optimizer.step()
        optimizer.zero_grad()

    handle = w.register_post_accumulate_grad_hook(step)
    (w * w).sum().backward()
    assert (w.tolist(), w.grad) == ([0, 0], None)
    handle.remove()
    (w * 1).sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_a_compiled_step_sees_hooks_come_and_go(device: str) -> None:
    w = leaf(sg, [1.0, 2.0], device)

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss

    x = sg.ones(2, device=device)
    step(x)
    assert w.grad.tolist() == [1, 1]
    handle = w.register_hook(lambda g: g * 3)
    step(x)
    step(x)
    assert w.grad.tolist() == [3, 3]
    handle.remove()
    step(x)
    assert w.grad.tolist() == [1, 1]
    assert step.captures <= 3


# ---------------------------------------------------------------------------------- retain_grad and grad_fn


def test_retained_gradients_accumulate(device: str) -> None:
    x = leaf(sg, [1.0, 2.0], device)
    y = x * 3
    y.retain_grad()
    assert (y.retains_grad, x.retains_grad) == (True, False)
    z = (y * y).sum()
    z.backward(retain_graph=True)
    assert y.grad.tolist() == [6, 12]
    z.backward()
    assert y.grad.tolist() == [12, 24]
    assert x.grad.tolist() == [36, 72]


@both
def test_a_retained_gradient_is_what_hooks_made_of_it(lib: Any) -> None:
    x = leaf(lib, [1.0])
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    (y * 5).sum().backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([10], [30])


@both
def test_a_leaf_may_be_asked_to_retain_its_gradient(lib: Any) -> None:
    x = leaf(lib, [1.0])
    x.retain_grad()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2]


@both
def test_grad_fn_is_there_for_what_was_computed(lib: Any) -> None:
    x = leaf(lib, [1.0])
    y = x * lib.ones(1)
    assert x.grad_fn is None
    assert lib.ones(1).grad_fn is None
    assert y.detach().grad_fn is None
    assert y.grad_fn.name().startswith("MulBackward")
    assert y.grad_fn.next_functions[0][0].name().endswith("AccumulateGrad")
    assert y.grad_fn.next_functions[1][0] is None
    assert y.grad_fn == y.grad_fn
    assert [t.is_leaf for t in (x, y, y.detach(), lib.ones(1))] == [True, False, True, True]


# ---------------------------------------------------------------------------------- backward by some inputs


@both
def test_backward_by_inputs_leaves_other_leaves_alone(lib: Any) -> None:
    a, b = leaf(lib, [2.0]), leaf(lib, [3.0])
    (a * b).sum().backward(inputs=[a])
    assert (a.grad.tolist(), b.grad) == ([3], None)
    (a * b).sum().backward(inputs=a)
    assert a.grad.tolist() == [6]


def test_backward_by_a_computed_tensor(device: str) -> None:
    x = leaf(sg, [2.0], device)
    y = x * 3
    (y * y).sum().backward(inputs=[y])
    assert (y.grad.tolist(), x.grad) == ([12], None)
    w = x * 5
    w.retain_grad()
    (w * w).sum().backward(inputs=[w])
    assert w.grad.tolist() == [20]


@both
def test_inputs_must_be_there_and_require_gradients(lib: Any) -> None:
    y = (leaf(lib, [2.0]) * 3).sum()
    with pytest.raises(RuntimeError, match="cannot be empty"):
        y.backward(inputs=[], retain_graph=True)
    with pytest.raises(RuntimeError, match=r"requires? grad|requires_grad"):
        y.backward(inputs=[lib.ones(1)], retain_graph=True)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        lib.autograd.grad(y, [])


@both
def test_backward_of_several_tensors_at_once(lib: Any) -> None:
    x = leaf(lib, [1.0, 2.0])
    lib.autograd.backward([x.sum(), x * x], [None, lib.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [3, 41]
    x.grad = None
    lib.autograd.backward((x * 2).sum())
    assert grad_of(x).tolist() == [2, 2]


@both
def test_unused_inputs_have_zeros_if_asked(lib: Any) -> None:
    x, unused = leaf(lib, [1.0]), leaf(lib, [2.0, 3.0])
    found = lib.autograd.grad((x * 2).sum(), [x, unused], materialize_grads=True)
    assert [g.tolist() for g in found] == [[2], [0, 0]]
    with pytest.raises(ValueError, match="allow_unused to be True or not passed when materialize_grads=True"):
        lib.autograd.grad((x * 2).sum(), [x], materialize_grads=True, allow_unused=False)


@both
def test_one_cotangent_or_none_for_each_output(lib: Any) -> None:
    x = leaf(lib, [1.0, 2.0])
    (g,) = lib.autograd.grad([x.sum(), x * x], [x], [None, lib.tensor([1.0, 10.0])])
    assert g.tolist() == [3, 41]


@both
def test_inference_mode_records_nothing(lib: Any) -> None:
    x = leaf(lib, [1.0])
    with lib.inference_mode():
        assert not (x * 2).requires_grad
        with lib.inference_mode(False):
            assert (x * 2).requires_grad
    assert not lib.inference_mode()(lambda: x * 2)().requires_grad
    assert (x * 2).requires_grad


# ---------------------------------------------------------------------------------- the norm at 0


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, -1, float("inf"), float("-inf")])
@pytest.mark.parametrize("axes", [{}, {"dim": 1}, {"dim": (0, 1)}, {"dim": 0, "keepdim": True}], ids=str)
def test_the_gradient_of_a_norm_is_finite_and_pytorchs(p: float, axes: dict[str, Any]) -> None:
    values = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, -2.0]])
    x = sg.tensor(values, dtype=sg.float64, requires_grad=True)
    t = torch.tensor(values, requires_grad=True)
    found, expected = x.norm(p, **axes), t.norm(p, **axes)
    assert_close(found, expected, 1e-12, 0)
    found.sum().backward()
    expected.sum().backward()
    assert_close(x.grad, np.zeros_like(values) if t.grad is None else t.grad, 1e-12, 1e-15)
