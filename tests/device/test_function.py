"""autograd.Function: operations with a backward step of their own, as PyTorch runs them.

Most tests write one operation twice, from one text for both libraries, and compare what comes out.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, assert_compiles_nothing

both = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "pytorch"])


def leaf(lib: Any, values: Any, device: str = "cpu") -> Any:
    x = np.array(values, np.float32)
    return lib.tensor(x, device=device if lib is sg else None).requires_grad_()


def function(lib: Any, forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """A Function of a library."""
    return type(
        "Mine", (lib.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )


def scale_backward(factor: float) -> Any:
    """y = 2 x with a gradient that is not the derivative, so that a test sees whose it was."""

    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        return g * factor

    return forward, backward


def cube(lib: Any) -> Any:
    """x ** 3, its backward written on what was saved: an argument."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x

    return function(lib, forward, backward)


def exponential(lib: Any) -> Any:
    """exp(x), its backward written on what was saved: the result."""

    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y

    return function(lib, forward, backward)


# ---------------------------------------------------------------------------------- values and gradients


def test_backward_is_ours_and_not_the_derivative(device: str) -> None:
    x = leaf(sg, [1.0, 2.0], device)
    y = function(sg, *scale_backward(7.0)).apply(x)
    assert y.detach().tolist() == [2, 4]
    y.sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_a_function_stands_in_the_middle_of_a_graph(device: str) -> None:
    x = leaf(sg, [0.5, -1.5], device)
    (exponential(sg).apply(x * 2).sin() * x).sum().backward()
    t = leaf(torch, [0.5, -1.5])
    ((t * 2).exp().sin() * t).sum().backward()
    assert_close(x.grad, t.grad, 1e-4, 1e-5)


@both
def test_several_results_and_arguments_that_are_no_tensors(lib: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, k: float, y: Any, name: str) -> Any:
        ctx.k, ctx.name = k, name
        ctx.save_for_backward(x, y)
        return x * y, x * k, name

    def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
        x, y = ctx.saved_tensors
        seen.append((ctx.needs_input_grad, ctx.name, c))
        return a * y + b * ctx.k, None, a * x, None

    x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
    first, second, name = function(lib, forward, backward).apply(x, 10.0, y, "name")
    assert name == "name"
    (first.sum() + (second * second).sum()).backward()
    assert x.grad.tolist() == [203, 404]
    assert y.grad.tolist() == [1, 2]
    assert seen == [((True, False, True, False), "name", None)]


@both
def test_needs_input_grad_says_what_is_worth_computing(lib: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return x * y

    Mine = function(lib, forward, lambda ctx, g: (seen.append(ctx.needs_input_grad), (None, g))[1])
    Mine.apply(lib.tensor([2.0]), leaf(lib, [1.0])).sum().backward()
    assert seen == [(False, True), (False, True)]


@both
@pytest.mark.parametrize("materialize", [True, False])
def test_a_result_that_no_one_used_has_zeros_or_none(lib: Any, materialize: bool) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(materialize)
        return x * 2, x * 3

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append(b if b is None else b.tolist())
        return a * 2

    x = leaf(lib, [1.0, 2.0])
    function(lib, forward, backward).apply(x)[0].sum().backward()
    assert seen == [[0, 0] if materialize else None]
    assert x.grad.tolist() == [2, 2]


@both
def test_results_may_be_marked_as_not_differentiable(lib: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        values, mask = x * 2, x * 0
        ctx.mark_non_differentiable(mask)
        return values, mask, x > 1

    def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
        seen.append((b.tolist(), c.tolist()))
        return a * 2

    values, mask, above = function(lib, forward, backward).apply(leaf(lib, [1.0, 2.0]))
    assert [r.requires_grad for r in (values, mask, above)] == [True, False, False]
    values.sum().backward()
    assert seen == [([0, 0], [False, False])]


@both
def test_no_gradient_is_none(lib: Any) -> None:
    x, y = leaf(lib, [1.0]), leaf(lib, [2.0])
    function(lib, lambda ctx, x, y: x * y, lambda ctx, g: (None, g)).apply(x, y).sum().backward()
    assert x.grad is None
    assert y.grad.tolist() == [1]


@both
def test_one_tensor_in_two_places_gets_both_gradients(lib: Any) -> None:
    x = leaf(lib, [1.0])
    function(lib, lambda ctx, x, y: x * y, lambda ctx, g: (g * 3, g * 5)).apply(x, x).sum().backward()
    assert x.grad.tolist() == [8]


@both
def test_setup_context_takes_the_part_of_ctx_in_forward(lib: Any) -> None:
    class Power(lib.autograd.Function):
        @staticmethod
        def forward(x: Any, exponent: int = 3) -> Any:
            return x**exponent

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.exponent = inputs
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * ctx.exponent * y / x, None

    x = leaf(lib, [2.0])
    Power.apply(x, 3).sum().backward()
    assert x.grad.tolist() == [12]
    (g,) = lib.autograd.grad(Power.apply(x, 3).sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(g.sum(), x)
    assert second.tolist() == [12]


def test_setup_context_takes_keyword_arguments() -> None:
    class Power(sg.autograd.Function):
        @staticmethod
        def forward(x: Any, exponent: int = 3, *, _: int = 0) -> Any:
            return x**exponent

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.exponent = inputs[1]
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * ctx.exponent * x ** (ctx.exponent - 1), None

    x = leaf(sg, [2.0])
    Power.apply(x, exponent=2).sum().backward()
    assert x.grad.tolist() == [4]
    with pytest.raises(TypeError, match="setup_context"):
        cube(sg).apply(x=x)


# ---------------------------------------------------------------------------------- what is recorded


@both
def test_without_recording_there_is_no_history(lib: Any) -> None:
    x = leaf(lib, [1.0])
    with lib.no_grad():
        assert not cube(lib).apply(x).requires_grad
    assert not cube(lib).apply(lib.tensor([1.0])).requires_grad
    y = cube(lib).apply(x)
    assert y.requires_grad
    assert not y.is_leaf
    assert "Mine" in y.grad_fn.name()


@both
def test_an_argument_that_is_returned_becomes_a_result(lib: Any) -> None:
    x = leaf(lib, [1.0])
    Mine = function(lib, lambda ctx, x: x, lambda ctx, g: g * 3)
    y = Mine.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.tolist() == [3]
    with lib.no_grad():
        assert not Mine.apply(x).requires_grad


@both
def test_nothing_in_forward_is_recorded_even_if_asked(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        assert not lib.is_grad_enabled()
        with lib.enable_grad():
            return x * 2

    x = leaf(lib, [1.0])
    function(lib, forward, lambda ctx, g: g * 5).apply(x).sum().backward()
    assert x.grad.tolist() == [5]


@both
def test_backward_runs_a_second_time_only_if_the_graph_is_kept(lib: Any) -> None:
    x = leaf(lib, [2.0])
    y = cube(lib).apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [24]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@both
def test_a_backward_that_failed_leaves_nothing_behind(lib: Any) -> None:
    """The gradient that had reached one result must not show up in the next pass, which goes through the other only."""
    x = leaf(lib, [1.0])
    a, b = function(lib, lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 10 + b).apply(x)

    def fails(ctx: Any, g: Any) -> Any:
        raise KeyError("on purpose")

    broken = function(lib, lambda ctx, x: x * 1, fails).apply(b)
    with pytest.raises(KeyError):
        (a * 2 + broken).sum().backward(retain_graph=True)
    (b * 1).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [1]


def test_what_is_saved_keeps_its_value(device: str) -> None:
    """A tensor that takes another value after it was saved; PyTorch refuses, here values are immutable."""
    x = leaf(sg, [2.0], device)
    y = cube(sg).apply(x)
    with sg.no_grad():
        x.add_(10)
    y.sum().backward()
    assert x.grad.tolist() == [12]


@both
def test_a_dirty_argument_is_changed_in_place_and_has_history(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    Mine = function(lib, forward, lambda ctx, g: g * 7)
    x = leaf(lib, [1.0])
    y = x * 3
    z = Mine.apply(y)
    assert z is y
    z.sum().backward()
    assert (z.tolist(), x.grad.tolist()) == ([6], [21])
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Mine.apply(x)


def test_a_call_leaves_no_cycle_behind() -> None:
    """GPU memory is freed when the last tensor dies, not when Python's collector comes along."""
    gc.collect()
    gc.disable()
    try:
        x = leaf(sg, [1.0])
        y = exponential(sg).apply(x)
        seen = weakref.ref(y._node)
        y.sum().backward()
        del y
        assert seen() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------- double backward


@both
def test_what_is_saved_and_returned_is_the_argument(lib: Any) -> None:
    """A second derivative goes by what was saved past the function, not through it."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x

    x = leaf(lib, [3.0])
    (g,) = lib.autograd.grad(function(lib, forward, backward).apply(x).sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(g.sum(), x)
    assert (g.tolist(), second.tolist()) == ([3], [1])


@pytest.mark.parametrize("make", [cube, exponential])
def test_derivatives_of_any_order(make: Callable[[Any], Any], device: str) -> None:
    found = []
    for lib in (sg, torch):
        x = leaf(lib, [0.5, -1.5], device)
        y = make(lib).apply(x * 1)
        for _ in range(3):
            (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
            found.append(g.detach())
            y = g * x
    for ours, theirs in zip(found[:3], found[3:], strict=True):
        assert_close(ours, theirs, 1e-4, 1e-5)


def test_the_second_derivative_by_the_gradient_itself() -> None:
    x, u = leaf(sg, [2.0]), leaf(sg, [5.0])
    (g,) = sg.autograd.grad(cube(sg).apply(x), x, u, create_graph=True)
    gx, gu = sg.autograd.grad(g.sum(), [x, u])
    assert (gx.tolist(), gu.tolist()) == ([60], [12])


@both
def test_once_differentiable_refuses_the_second_time(lib: Any) -> None:
    once = sg.autograd.once_differentiable if lib is sg else torch.autograd.function.once_differentiable

    def backward(ctx: Any, g: Any) -> Any:
        assert not lib.is_grad_enabled()
        (x,) = ctx.saved_tensors
        return g * 2 * x

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    Square = function(lib, forward, once(backward))
    x = leaf(lib, [3.0])
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [6]
    (g,) = lib.autograd.grad((Square.apply(x) * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked with @once_differentiable"):
        g.sum().backward()


# ---------------------------------------------------------------------------------- what is refused, in PyTorch's words

WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "too few": (
        lambda lib: 1,
        r"function MineBackward returned an incorrect number of gradients \(expected 3, got 1\)",
    ),
    "too many": (lambda lib: (1, 1, None, 1), r"incorrect number of gradients \(expected 3, got 4\)"),
    "one for what is no tensor": (
        lambda lib: (1, 1, 1),
        "returned a gradient different than None at position 3, but the corresponding forward input was not a Variable",
    ),
    "of another shape": (
        lambda lib: (lib.ones(3), 1, None),
        r"MineBackward returned an invalid gradient at index 0 - got \[3\] but expected shape compatible with \[2\]",
    ),
    "of fewer axes": (lambda lib: (1, lib.ones(()), None), r"invalid gradient at index 1 - got \[\]"),
    "a number": (lambda lib: (1.5, 1, None), r"expected Variable or None \(got float\)"),
}


@both
@pytest.mark.parametrize("case", WRONG)
def test_wrong_gradients_are_refused(case: str, lib: Any) -> None:
    gradients, message = WRONG[case]

    def backward(ctx: Any, g: Any) -> Any:
        found = gradients(lib)
        fill = lambda v: g if isinstance(v, int) else v  # noqa: E731
        return tuple(fill(v) for v in found) if isinstance(found, tuple) else fill(found)

    x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [1.0, 2.0])
    z = function(lib, lambda ctx, x, y, k: x * y, backward).apply(x, y, 3).sum()
    with pytest.raises((RuntimeError, TypeError), match=message):
        z.backward()
    assert x.grad is None


@both
def test_gradients_are_cut_to_what_was_broadcast(lib: Any) -> None:
    x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [[1.0], [2.0], [3.0]])
    Mine = function(lib, lambda ctx, x, y: x * y, lambda ctx, g: (g, g, None, None))
    Mine.apply(x, y).sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert y.grad.tolist() == [[2], [2], [2]]


def test_gradients_get_the_arguments_dtype() -> None:
    x = leaf(sg, [1.0])
    function(sg, lambda ctx, x: x * 2, lambda ctx, g: g.double()).apply(x).sum().backward()
    assert x.grad.dtype is sg.float32


def test_a_gradient_on_another_device_is_refused(webgpu: str) -> None:
    x = leaf(sg, [1.0], webgpu)
    y = function(sg, lambda ctx, x: x * 2, lambda ctx, g: sg.ones(1)).apply(x).sum()
    with pytest.raises(sg.DeviceError, match="expected device webgpu but got cpu"):
        y.backward()


@both
def test_what_is_missing_is_named(lib: Any) -> None:
    x = leaf(lib, [1.0])
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        type("Empty", (lib.autograd.Function,), {}).apply(x)
    y = type("Half", (lib.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)}).apply(x)
    with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
        y.sum().backward()
    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"):
        function(lib, lambda ctx, x: ctx.save_for_backward(3), lambda ctx, g: g).apply(x)


# ---------------------------------------------------------------------------------- in a training step


def train(device: str, compiled: bool) -> tuple[list[np.ndarray], Any]:
    """A straight-through estimator: the sign of the weights forward, the identity within [-1, 1] backward."""

    def forward(ctx: Any, w: sg.Tensor) -> sg.Tensor:
        ctx.save_for_backward(w)
        return sg.where(w > 0, 1.0, -1.0)

    def backward(ctx: Any, g: sg.Tensor) -> sg.Tensor:
        (w,) = ctx.saved_tensors
        return g * (w.abs() <= 1)

    Sign = function(sg, forward, backward)
    rng = np.random.default_rng(0)
    w = leaf(sg, rng.uniform(-1, 1, (4, 2)), device)
    target = np.sign(rng.standard_normal((4, 2))).astype(np.float32)
    batches = [rng.standard_normal((8, 4)).astype(np.float32) for _ in range(30)]
    optimizer = sg.optim.SGD([w], lr=0.05)

    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = (x @ Sign.apply(w) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = sg.compile(step) if compiled else step
    losses = [run(sg.tensor(b, device=device), sg.tensor(b @ target, device=device)) for b in batches]
    return [w.detach().numpy(), np.array([loss.item() for loss in losses])], run


def test_a_function_trains_in_a_compiled_step_as_outside(device: str) -> None:
    (plain, losses), _ = train(device, compiled=False)
    (compiled, compiled_losses), run = train(device, compiled=True)
    assert_close(compiled, plain, 1e-5, 1e-6)
    assert_close(compiled_losses, losses, 1e-5, 1e-6)
    assert losses[-1] < losses[0]
    assert run.captures == 1


def test_the_second_call_compiles_nothing(device: str) -> None:
    def run() -> Any:
        x = leaf(sg, [0.5, -1.5], device)
        exponential(sg).apply(cube(sg).apply(x)).sum().backward()
        return x.grad.tolist()

    first = run()
    assert assert_compiles_nothing(run) == first


def test_a_function_works_within_a_module(device: str) -> None:
    class Layer(sg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = sg.nn.Linear(3, 2)

        def forward(self, x: sg.Tensor) -> sg.Tensor:
            return exponential(sg).apply(self.linear(x))

    layer = Layer().to(device)
    layer(sg.ones(4, 3, device=device)).sum().backward()
    weight = layer.linear.weight
    expected = layer.linear(sg.ones(4, 3, device=device)).exp().sum(0).detach().numpy()
    assert_close(weight.grad, np.repeat(expected[:, None], 3, 1), 1e-4, 1e-5)


def test_namedtuples_stay_what_they_are() -> None:
    from typing import NamedTuple

    class Pair(NamedTuple):
        a: Any
        b: Any

    x = leaf(sg, [1.0])
    found = function(sg, lambda ctx, x: Pair(x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 3).apply(x)
    assert isinstance(found, Pair)
    (found.a + found.b).sum().backward()
    assert x.grad.tolist() == [5]


def test_other_attributes_of_ctx_are_free() -> None:
    ctx = sg.autograd.FunctionCtx()
    ctx.anything = SimpleNamespace(k=1)
    assert ctx.anything.k == 1
    assert ctx.saved_tensors == ()
