"""The tape behaves as PyTorch's: what accumulates, what is freed, what is refused and in which words, on each device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import Counted, assert_close, assert_compiles_nothing, grad_of
from shadergrad import nn
from shadergrad.drive import execute


def leaf(values: Any, device: str) -> sg.Tensor:
    return sg.tensor(values, dtype=sg.float32, device=device, requires_grad=True)


# ---------------------------------------------------------------------------------- backward


def test_gradients_accumulate_over_backward_calls(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    (x * x).sum().backward()
    assert grad_of(x).tolist() == [2, 4]
    (3 * x).sum().backward()
    assert grad_of(x).tolist() == [5, 7]


def test_setting_grad_to_none_starts_over(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    (x * x).sum().backward()
    x.grad = None
    (3 * x).sum().backward()
    assert grad_of(x).tolist() == [3, 3]


def test_a_gradient_held_elsewhere_is_not_changed_by_accumulation(device: str) -> None:
    x = leaf([1.0], device)
    (2 * x).sum().backward()
    before = grad_of(x).clone()
    (2 * x).sum().backward()
    assert before.tolist() == [2]


def test_gradients_have_the_shape_dtype_and_device_of_the_leaf(device: str) -> None:
    x = leaf(np.ones((3, 1)), device)
    (x * sg.ones(2, 3, 4, device=device)).sum().backward()
    assert (tuple(grad_of(x).shape), grad_of(x).dtype, grad_of(x).device) == ((3, 1), sg.float32, x.device)
    assert not grad_of(x).requires_grad


def test_only_leaves_collect_gradients(device: str) -> None:
    x = leaf([1.0], device)
    y = x * 2
    (y * 3).sum().backward()
    assert y.grad is None
    assert x.is_leaf
    assert not y.is_leaf


def test_a_tensor_used_twice_gets_both_gradients(device: str) -> None:
    x = leaf([2.0, -1.0], device)
    (x * x + x.exp() * 0 + x).sum().backward()
    assert_close(x.grad, [5, -1], 1e-6, 1e-6)


def test_both_operands_may_be_the_same_tensor(device: str) -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]], device)
    (x @ x).sum().backward()
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (a @ a).sum().backward()
    assert_close(x.grad, a.grad, 1e-6, 1e-6)


@pytest.mark.parametrize("function", ["matmul", "mul", "div", "sub", "pow", "maximum"])
@pytest.mark.parametrize("recorded", [0, 1])
def test_one_operand_of_two_may_record(function: str, recorded: int, device: str) -> None:
    arrays = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[2.0, 1.5], [0.5, 5.0]])]
    found = []
    for lib in (sg, torch):
        options = {"device": device} if lib is sg else {}
        tensors = [lib.tensor(a, dtype=lib.float32, **options) for a in arrays]
        tensors[recorded].requires_grad_()
        (getattr(lib, function)(*tensors) ** 2).sum().backward()
        assert tensors[1 - recorded].grad is None
        found.append(tensors[recorded].grad)
    assert_close(found[0], found[1], 1e-5, 1e-5)


def test_a_diamond_of_diamonds_is_walked_once(device: str) -> None:
    """Twenty stages y = y + y: 2 ** 20 paths, but twenty nodes."""
    x = leaf([1.0], device)
    y = x
    for _ in range(20):
        y = y + y
    y.sum().backward()
    assert grad_of(x).tolist() == [2.0**20]


def test_a_diamond_with_unequal_arms(device: str) -> None:
    x = leaf([0.5, 1.5], device)
    a = x.exp()
    b = (a * x).tanh() + a
    (a * b).sum().backward()
    t = torch.tensor([0.5, 1.5], requires_grad=True)
    ta = t.exp()
    ((ta * t).tanh() + ta).mul(ta).sum().backward()
    assert_close(x.grad, t.grad, 1e-4, 1e-5)


def test_a_chain_of_a_thousand_operations(device: str) -> None:
    x = leaf([1.0], device)
    y = x
    for _ in range(1000):
        y = y * 1.001
    y.sum().backward()
    assert_close(x.grad, [1.001**1000], 1e-3, 0)


def test_several_leaves_each_get_their_own(device: str) -> None:
    a, b, unused = leaf([2.0], device), leaf([3.0], device), leaf([4.0], device)
    (a * b).sum().backward()
    assert (grad_of(a).tolist(), grad_of(b).tolist(), unused.grad) == ([3], [2], None)


def test_a_leaf_may_be_the_output(device: str) -> None:
    x = leaf(2.0, device)
    x.backward()
    assert grad_of(x).item() == 1


def test_an_output_of_one_element_needs_no_gradient_argument(device: str) -> None:
    x = leaf([[2.0]], device)
    (x * 3).backward()
    assert grad_of(x).tolist() == [[3]]


def test_the_gradient_argument_is_the_cotangent(device: str) -> None:
    x = leaf([1.0, 2.0, 3.0], device)
    (x * x).backward(sg.tensor([1.0, 0.0, -1.0], device=device))
    assert grad_of(x).tolist() == [2, 0, -6]
    x.grad = None
    (x * x).backward(gradient=sg.ones(3, device=device))
    assert grad_of(x).tolist() == [2, 4, 6]


def test_backward_after_a_change_in_place_uses_the_value_that_was_used(device: str) -> None:
    """Values are immutable here, so what PyTorch refuses by version counters just works."""
    x = leaf([1.0, 2.0], device)
    y = x * 1
    z = (y * y).sum()
    with sg.no_grad():
        x.add_(10)
    z.backward()
    assert grad_of(x).tolist() == [2, 4]
    assert x.tolist() == [11, 12]


# ---------------------------------------------------------------------------------- what is refused, in PyTorch's words


def test_backward_a_second_time_says_retain_graph(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(sg.AutogradError, match="Trying to backward through the graph a second time"):
        y.backward()
    assert grad_of(x).tolist() == [2, 4]


def test_backward_through_a_shared_part_a_second_time_is_refused(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    shared = x * x
    shared.sum().backward()
    with pytest.raises(sg.AutogradError, match="retain_graph=True"):
        (shared * 2).sum().backward()


def test_retain_graph_allows_a_second_time(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert grad_of(x).tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_leaf_may_be_used_in_many_graphs(device: str) -> None:
    x = leaf([1.0], device)
    for _ in range(3):
        (x * 2).sum().backward()
    assert grad_of(x).tolist() == [6]


def test_backward_without_requires_grad_says_so(device: str) -> None:
    with pytest.raises(
        sg.AutogradError, match="element 0 of tensors does not require grad and does not have a grad_fn"
    ):
        sg.ones(1, device=device).backward()


def test_backward_of_many_elements_wants_a_gradient(device: str) -> None:
    with pytest.raises(sg.AutogradError, match="grad can be implicitly created only for scalar outputs"):
        (leaf([1.0, 2.0], device) * 2).backward()


def test_a_gradient_of_another_shape_or_dtype_is_refused(device: str) -> None:
    y = leaf([1.0, 2.0], device) * 2
    with pytest.raises(sg.ShapeError, match=r"shape of \[3\].*shape of \[2\]"):
        y.backward(sg.ones(3, device=device))
    with pytest.raises(sg.DTypeError, match="int32"):
        y.backward(sg.ones(2, dtype=sg.int32, device=device))


def test_a_gradient_on_another_device_is_refused(webgpu: str) -> None:
    y = leaf([1.0, 2.0], webgpu) * 2
    with pytest.raises(sg.DeviceError, match="cpu"):
        y.backward(sg.ones(2))


def test_integers_cannot_require_gradients(device: str) -> None:
    with pytest.raises(
        sg.AutogradError, match="only Tensors of floating point and complex dtype can require gradients"
    ):
        sg.tensor([1, 2], device=device).requires_grad_()
    with pytest.raises(RuntimeError, match="floating point"):
        sg.tensor([True], device=device, requires_grad=True)


def test_numpy_of_a_tensor_that_requires_grad_is_refused(device: str) -> None:
    with pytest.raises(sg.AutogradError, match=r"Use tensor\.detach\(\)\.numpy\(\) instead"):
        leaf([1.0], device).numpy()


def test_requires_grad_of_a_computed_tensor_cannot_be_dropped(device: str) -> None:
    with pytest.raises(sg.AutogradError, match="leaf variables"):
        (leaf([1.0], device) * 2).requires_grad_(False)


IN_PLACE: dict[str, Callable[[sg.Tensor], Any]] = {
    "add_": lambda x: x.add_(1),
    "mul_": lambda x: x.mul_(2),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(3.0),
    "copy_": lambda x: x.copy_(sg.ones(2, device=x.device)),
    "sub_": lambda x: x.__isub__(1),
    "div_": lambda x: x.__itruediv__(2),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_leaf_is_not_changed_in_place_while_recording(name: str, device: str) -> None:
    x = leaf([1.0, 2.0], device)
    with pytest.raises(
        sg.AutogradError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ):
        IN_PLACE[name](x)
    assert x.tolist() == [1, 2]
    with sg.no_grad():
        IN_PLACE[name](x)
    assert x.tolist() != [1, 2]
    assert x.requires_grad
    assert x.is_leaf


@pytest.mark.parametrize("key", [sg.tensor([True, False, True]), sg.tensor([7])], ids=["mask", "positions"])
def test_a_leaf_is_refused_before_the_key_is_looked_at(key: sg.Tensor, device: str) -> None:
    x = leaf([1.0, 2.0], device)
    with pytest.raises(sg.AutogradError, match="a leaf Variable that requires grad"):
        x[key.to(device)] = 3.0


def test_a_changed_leaf_still_collects(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    with sg.no_grad():
        x.mul_(3)
    (x * x).sum().backward()
    assert grad_of(x).tolist() == [6, 12]


def test_computed_tensors_change_in_place_on_the_tape(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    y = x * 2
    y.mul_(3).add_(x)
    y += 1
    y.sum().backward()
    assert grad_of(x).tolist() == [7, 7]


def test_assigning_a_gradient_checks_it(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    with pytest.raises(sg.ShapeError, match="grad"):
        x.grad = sg.ones(3, device=device)
    x.grad = sg.ones(2, device=device)
    (x * 2).sum().backward()
    assert grad_of(x).tolist() == [3, 3]


# ---------------------------------------------------------------------------------- detach and no_grad


def test_detach_cuts_the_tape(device: str) -> None:
    x = leaf([2.0], device)
    y = x * x
    assert not y.detach().requires_grad
    (y.detach() * x).sum().backward()
    assert grad_of(x).tolist() == [4]


def test_detach_of_a_leaf_has_its_value(device: str) -> None:
    x = leaf([2.0], device)
    assert x.detach().tolist() == [2]
    assert x.data.tolist() == [2]
    assert x.detach().is_leaf


def test_no_grad_as_a_context(device: str) -> None:
    x = leaf([2.0], device)
    with sg.no_grad():
        assert not sg.is_grad_enabled()
        assert not (x * 2).requires_grad
        with sg.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert sg.is_grad_enabled()
    assert (x * 2).requires_grad


def test_no_grad_as_a_decorator(device: str) -> None:
    @sg.no_grad()
    def double(x: sg.Tensor) -> sg.Tensor:
        return x * 2

    @sg.enable_grad()
    def triple(x: sg.Tensor) -> sg.Tensor:
        return x * 3

    x = leaf([2.0], device)
    assert not double(x).requires_grad
    with sg.no_grad():
        assert triple(x).requires_grad
    assert double.__name__ == "double"


def test_one_no_grad_object_may_be_entered_twice() -> None:
    context = sg.no_grad()
    with context:
        with context:
            assert not sg.is_grad_enabled()
        assert not sg.is_grad_enabled()
    assert sg.is_grad_enabled()


def test_no_grad_ends_with_an_exception() -> None:
    with pytest.raises(KeyError), sg.no_grad():
        raise KeyError
    assert sg.is_grad_enabled()


def test_set_grad_enabled_as_a_context_and_as_a_call() -> None:
    with sg.set_grad_enabled(False):
        assert not sg.is_grad_enabled()
    assert sg.is_grad_enabled()
    sg.set_grad_enabled(False)
    assert not sg.is_grad_enabled()
    sg.set_grad_enabled(True)
    assert sg.is_grad_enabled()

    @sg.set_grad_enabled(False)
    def quiet() -> bool:
        return sg.is_grad_enabled()

    assert sg.is_grad_enabled()
    assert not quiet()
    assert sg.is_grad_enabled()


def test_a_tensor_made_under_no_grad_may_be_a_leaf(device: str) -> None:
    with sg.no_grad():
        x = leaf([1.0, 2.0], device)
    (x * 2).sum().backward()
    assert grad_of(x).tolist() == [2, 2]


def test_no_gradient_flows_through_comparisons_and_integers(device: str) -> None:
    x = leaf([1.5, -2.0], device)
    assert not (x > 0).requires_grad
    assert not x.argmax().requires_grad
    assert not x.int().requires_grad
    (x * (x > 0)).sum().backward()
    assert grad_of(x).tolist() == [1, 0]


def test_requires_grad_follows_the_operands(device: str) -> None:
    x, c = leaf([1.0], device), sg.ones(1, device=device)
    assert (x + c).requires_grad
    assert not (c + c).requires_grad
    assert sg.cat([c, x]).requires_grad


# ---------------------------------------------------------------------------------- autograd.grad


def test_grad_leaves_dot_grad_alone(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    (g,) = sg.autograd.grad((x * x).sum(), x)
    assert g.tolist() == [2, 4]
    assert x.grad is None


def test_grad_by_a_computed_tensor(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    y = x * 3
    gy, gx = sg.autograd.grad((y * y).sum(), [y, x])
    assert gy.tolist() == [6, 12]
    assert gx.tolist() == [18, 36]


def test_grad_with_several_outputs_adds_up(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    cotangents = [sg.tensor([1.0, 0.0], device=device), sg.tensor([0.0, 1.0], device=device)]
    (g,) = sg.autograd.grad([x * 2, x * x], [x], cotangents)
    assert g.tolist() == [2, 4]


def test_unused_inputs_are_refused_unless_allowed(device: str) -> None:
    x, unused = leaf([1.0], device), leaf([2.0], device)
    with pytest.raises(sg.AutogradError, match="allow_unused=True"):
        sg.autograd.grad((x * 2).sum(), [x, unused])
    gx, gu = sg.autograd.grad((x * 2).sum(), [x, unused], allow_unused=True)
    assert gx is not None
    assert gx.tolist() == [2]
    assert gu is None


def test_inputs_that_require_no_gradient_are_refused(device: str) -> None:
    x = leaf([1.0], device)
    with pytest.raises(sg.AutogradError, match="does not require grad"):
        sg.autograd.grad((x * 2).sum(), sg.ones(1, device=device))


def test_grad_frees_the_graph_unless_told(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    y = (x * x).sum()
    sg.autograd.grad(y, x, retain_graph=True)
    sg.autograd.grad(y, x)
    with pytest.raises(sg.AutogradError, match="second time"):
        sg.autograd.grad(y, x)


def test_create_graph_gives_derivatives_of_any_order(device: str) -> None:
    x = leaf([0.5, -1.5], device)
    y = (x**4).sum()
    for expected in (lambda v: 4 * v**3, lambda v: 12 * v**2, lambda v: 24 * v):
        (g,) = sg.autograd.grad(y, x, create_graph=True)
        assert g.requires_grad
        assert_close(g, expected(np.array([0.5, -1.5])), 1e-4, 1e-5)
        y = g.sum()


def test_backward_with_create_graph_gives_a_differentiable_gradient(device: str) -> None:
    x = leaf([2.0], device)
    (x**3).sum().backward(create_graph=True)
    first = grad_of(x)
    assert first.requires_grad
    x.grad = None
    first.sum().backward()
    assert grad_of(x).tolist() == [12]


def test_without_create_graph_gradients_are_constants(device: str) -> None:
    x = leaf([2.0], device)
    (g,) = sg.autograd.grad((x**3).sum(), x)
    assert not g.requires_grad


# ---------------------------------------------------------------------------------- nothing is computed twice


def network(device: str, end: Callable[[sg.Tensor], sg.Tensor] = sg.Tensor.tanh) -> tuple[list[sg.Tensor], sg.Tensor]:
    rng = np.random.default_rng(0)
    x = sg.tensor(rng.standard_normal((8, 16)), dtype=sg.float32, device=device)
    weights = [leaf(rng.standard_normal(s) * 0.3, device) for s in ((16, 16), (16, 16), (16, 4))]
    h = x
    for w in weights[:-1]:
        h = (h @ w).tanh()
    return weights, end(h @ weights[-1]).mean()


def dispatches_of(run: Callable[[], Any], device: str) -> int:
    sg.sync()
    count = Counted(device)
    run()
    sg.sync()
    return count.dispatches


@pytest.mark.parametrize(
    "end",
    [
        sg.Tensor.tanh,
        sg.Tensor.square,
    ],
    ids=["tanh", "square"],
)
def test_reading_the_loss_before_backward_computes_no_product_twice(
    end: Callable[[sg.Tensor], sg.Tensor], webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three products forward and five backward (the input needs no gradient), whether the loss is read between or not."""
    plans: list[Any] = []
    compile_graph = execute.compile_graph
    monkeypatch.setattr(execute, "compile_graph", lambda *a: plans.append(compile_graph(*a)) or plans[-1])

    def products() -> int:
        kernels = [plan.kernels[d.kernel] for plan, _ in plans for d in plan.dispatches]
        plans.clear()
        return sum(1 + k.shape.count(" + ") for k in kernels if k.archetype == "dot")  # of some that share a dispatch

    for read in (False, True):
        execute.programs.clear()
        weights, loss = network(webgpu, end)
        if read:
            loss.item()
            assert products() == 3
        loss.backward()
        execute.realize([grad_of(w)._node for w in weights])
        assert products() == (5 if read else 8)


def test_reading_the_loss_first_changes_no_gradient(device: str) -> None:
    found = []
    for read in (False, True):
        weights, loss = network(device)
        if read:
            loss.item()
        loss.backward()
        found.append([grad_of(w).numpy() for w in weights])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, 1e-5, 1e-6)


def test_reading_a_value_twice_dispatches_nothing(webgpu: str) -> None:
    _, loss = network(webgpu)
    loss.item()
    assert dispatches_of(lambda: (loss.item(), loss.detach().numpy(), str(loss)), webgpu) == 0


def test_reading_intermediate_values_keeps_gradients_right(device: str) -> None:
    x = leaf([0.5, 1.0], device)
    a = x.exp()
    a.detach().numpy()
    b = a * x
    b.tolist()
    c = b.sum()
    c.item()
    c.backward()
    value = np.exp([0.5, 1.0])
    assert_close(x.grad, value * (1 + np.array([0.5, 1.0])), 1e-4, 1e-5)


def test_the_same_graph_again_compiles_nothing(device: str) -> None:
    def run() -> list[np.ndarray]:
        weights, loss = network(device)
        loss.item()
        loss.backward()
        return [grad_of(w).numpy() for w in weights]

    first = run()
    for a, b in zip(first, assert_compiles_nothing(run), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_runs_until_a_value_is_needed(webgpu: str) -> None:
    def record() -> Any:
        weights, loss = network(webgpu)
        loss.backward()
        return weights, loss

    sg.sync()
    count = Counted(webgpu)
    kept = record()
    assert count.dispatches == 0
    kept[1].item()
    assert count.dispatches > 0


@pytest.mark.slow
def test_a_very_long_recording_is_computed_along_the_way(device: str) -> None:
    """Past a bound of pending nodes everything alive is computed, so memory does not grow without end."""
    x = sg.zeros(2, device=device)
    for _ in range(21_000):
        x = x + 1
    assert x.tolist() == [21_000] * 2


def test_reading_gradients_one_by_one_is_one_plan(device: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
    x = sg.ones(5, 3, device=device)
    sg.sync()
    model(x).sum().backward()
    before = execute.programs.compiled
    gradients = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    assert execute.programs.compiled <= before + 1
    assert len(gradients) == 4
    first, second = sg.autograd.grad([model(x).square().sum()], [model[0].weight, model[2].weight])
    before = execute.programs.compiled
    assert first is not None
    assert second is not None
    assert (first.numpy().shape, second.numpy().shape) == ((4, 3), (2, 4))
    assert execute.programs.compiled <= before + 1
