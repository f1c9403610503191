"""sg.compile: a compiled function does what the function does, in one submission, and compiles once."""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import Counted, assert_close, assert_compiles_nothing, assert_same_bits, grad_of, listed
from shadergrad import nn, optim
from shadergrad.drive import execute
from shadergrad.drive.execute import programs
from shadergrad.plan import Plan
from shadergrad.tensor import generator

Pair = namedtuple("Pair", "loss logits")
Scenario = tuple[Callable[..., Any], list[sg.Tensor], list[tuple[Any, ...]]]


def numbers(*shape: int, device: str, seed: int = 0) -> sg.Tensor:
    return sg.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), device=device)


def batches(device: str, count: int = 4, rows: int = 6) -> list[tuple[sg.Tensor, sg.Tensor]]:
    """Inputs (rows, 4) and labels (rows,) below 3."""
    rng = np.random.default_rng(3)
    return [
        (numbers(rows, 4, device=device, seed=k), sg.tensor(rng.integers(0, 3, rows), dtype=sg.int32, device=device))
        for k in range(count)
    ]


def perceptron(device: str) -> nn.Sequential:
    sg.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8, device=device), nn.Tanh(), nn.Linear(8, 3, device=device))


# Uncompiled steps: the first has no state, and the cpu interprets a long graph the first time that it comes.
BEFORE_ALL_IS_COMPILED = {"cpu": 3, "webgpu": 2}


def training(device: str, make_optimizer: Callable[[Any], Any]) -> tuple[nn.Sequential, Any, Callable[..., sg.Tensor]]:
    model = perceptron(device)
    optimizer = make_optimizer(model.parameters())

    def step(x: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


# ---------------------------------------------------------------------------------- compiled = uncompiled

SCENARIOS: dict[str, Callable[[str], Scenario]] = {}


def scenario(function: Callable[[str], Scenario]) -> Callable[[str], Scenario]:
    SCENARIOS[function.__name__.replace("_", " ")] = function
    return function


def _training_scenario(name: str, make_optimizer: Callable[[Any], Any]) -> None:
    def build(device: str) -> Scenario:
        model, optimizer, step = training(device, make_optimizer)
        state = [t for s in optimizer.state.values() for t in s.values()]
        return step, [*model.parameters(), *state], batches(device)  # type: ignore[return-value]

    SCENARIOS[f"training with {name}"] = build


_training_scenario("SGD", lambda p: optim.SGD(p, lr=0.1))
_training_scenario("nesterov momentum", lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2))
_training_scenario("dampening", lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5))
_training_scenario("AdamW", lambda p: optim.AdamW(p, lr=1e-2))
_training_scenario("amsgrad", lambda p: optim.Adam(p, lr=1e-2, amsgrad=True))


@scenario
def a_pure_function(device: str) -> Scenario:
    return lambda x, labels: (x.exp().sum(1), labels + 1), [], batches(device)


@scenario
def a_counter_that_is_not_a_parameter(device: str) -> Scenario:
    count = sg.zeros((), device=device)

    def step(x: sg.Tensor) -> sg.Tensor:
        count.add_(1)
        return x * count

    return step, [count], [(x,) for x, _ in batches(device)]


@scenario
def two_tensors_that_swap_their_values(device: str) -> Scenario:
    a, b = numbers(3, 5, device=device, seed=1), numbers(3, 5, device=device, seed=2)

    def step(x: sg.Tensor) -> sg.Tensor:
        old = a.clone()
        a.copy_(b)
        b.copy_(old)
        return (a * 2 + b).sum() + x.sum()

    return step, [a, b], [(x,) for x, _ in batches(device)]


@scenario
def a_matrix_overwritten_by_its_transpose(device: str) -> Scenario:
    a = numbers(5, 5, device=device)

    def step(x: sg.Tensor) -> sg.Tensor:
        a.copy_(a.t() + x.sum())
        return a.sum(1)

    return step, [a], [(x,) for x, _ in batches(device)]


@scenario
def a_vector_overwritten_by_its_reverse(device: str) -> Scenario:
    a = numbers(7, device=device)

    def step() -> sg.Tensor:
        a.copy_(a.flip(0) * 0.5)
        return a * 2

    return step, [a], [()] * 3


@scenario
def a_matrix_overwritten_by_its_softmax(device: str) -> Scenario:
    a = numbers(3, 9, device=device)

    def step() -> sg.Tensor:
        a.copy_(a.softmax(1) * 2)
        return a[1]

    return step, [a], [()] * 3


@scenario
def a_matrix_overwritten_by_a_product(device: str) -> Scenario:
    a, w = numbers(4, 4, device=device), numbers(4, 4, device=device, seed=5)

    def step() -> sg.Tensor:
        a.copy_((a @ w).tanh())
        return a.sum()

    return step, [a], [()] * 3


@scenario
def rows_overwritten_less_their_mean(device: str) -> Scenario:
    a = numbers(4, 7, device=device)

    def step() -> sg.Tensor:
        a.sub_(a.mean(1, keepdim=True)).mul_(1.5)
        return a.amax(0)

    return step, [a], [()] * 3


@scenario
def the_value_before_and_after_an_update(device: str) -> Scenario:
    a = numbers(5, device=device)

    def step() -> tuple[sg.Tensor, sg.Tensor]:
        before = a * 3
        a.add_(1)
        return before, a * 3

    return step, [a], [()] * 3


@scenario
def a_moving_average_of_trained_parameters(device: str) -> Scenario:
    w = numbers(4, device=device).requires_grad_()
    average = w.detach().clone()
    optimizer = optim.SGD([w], lr=0.1)

    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = ((x @ w) ** 2).mean()
        loss.backward()
        optimizer.step()
        with sg.no_grad():
            average.mul_(0.9).add_(w * 0.1)
        return loss

    return step, [w, average], [(x,) for x, _ in batches(device)]


@scenario
def two_updates_in_one_step(device: str) -> Scenario:
    model, _, once = training(device, lambda p: optim.SGD(p, lr=0.1, momentum=0.5))

    def step(x: sg.Tensor, labels: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        return once(x, labels), once(x * 2, labels)

    return step, list(model.parameters()), batches(device)


@scenario
def a_penalty_on_the_gradient(device: str) -> Scenario:
    w = numbers(4, device=device).requires_grad_()

    def step(x: sg.Tensor) -> sg.Tensor:
        w.grad = None
        loss = (x @ w).tanh().sum()
        (slope,) = sg.autograd.grad(loss, w, create_graph=True)
        (slope * slope).sum().backward()
        with sg.no_grad():
            w.sub_(grad_of(w) * 0.1)
        return loss

    return step, [w], [(x,) for x, _ in batches(device)]


@scenario
def a_matrix_trained_through_gather(device: str) -> Scenario:
    table = numbers(5, 3, device=device).requires_grad_()
    optimizer = optim.AdamW([table], lr=0.1)

    def step(labels: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = (table[labels] ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step, [table], [(labels,) for _, labels in batches(device)]


@scenario
def noise_from_the_default_generator(device: str) -> Scenario:
    sg.manual_seed(5)
    return (
        lambda x: (x + sg.randn(6, 4, device=device), sg.rand(3, device=device)),
        [],
        [(x,) for x, _ in batches(device)],
    )


@scenario
def results_in_containers(device: str) -> Scenario:
    def step(batch: dict[str, Any], scale: float) -> dict[str, Any]:
        logits = batch["x"][0] * scale
        return {"pair": Pair(logits.sum(), logits), "list": [logits, logits], "number": 3, "none": None}

    def flat(batch: Any, scale: float, step: Any = step) -> list[Any]:
        result = step(batch, scale)
        assert isinstance(result["pair"], tuple)
        assert (result["number"], result["none"]) == (3, None)
        return [*result["pair"], *result["list"]]

    return flat, [], [({"x": [x]}, 2.0) for x, _ in batches(device)]


@scenario
def an_argument_returned_as_it_came(device: str) -> Scenario:
    return lambda x, labels: (x, labels, x * 2), [], batches(device)


@scenario
def one_tensor_as_two_arguments(device: str) -> Scenario:
    return lambda x, y: x * y + x, [], [(x, x) for x, _ in batches(device)]


@scenario
def constants_only(device: str) -> Scenario:
    return lambda: (sg.ones(3, device=device) * 2, sg.arange(4, device=device)), [], [()] * 2


@scenario
def an_empty_batch(device: str) -> Scenario:
    return lambda x: (x * 2, x.sum()), [], [(sg.zeros(0, 4, device=device),)] * 2


@scenario
def an_argument_changed_in_place(device: str) -> Scenario:
    def step(x: sg.Tensor) -> sg.Tensor:
        x = x * 1
        x.mul_(3)
        return x + 1

    return step, [], [(x,) for x, _ in batches(device)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_compiled_does_what_the_function_does(name: str, device: str) -> None:
    """After each of several calls: equal results, and equal state."""
    plain, plain_state, calls = SCENARIOS[name](device)
    expected = []
    for call in calls:
        results = listed(plain(*call))
        expected.append([t.detach().numpy() for t in [*results, *plain_state]])
    function, state, calls = SCENARIOS[name](device)
    step = sg.compile(function)
    for k, call in enumerate(calls):
        results = listed(step(*call))
        for n, (t, value) in enumerate(zip([*results, *state], expected[k], strict=True)):
            assert_close(
                t, value, 1e-6 if device == "cpu" else 1e-4, 1e-7 if device == "cpu" else 1e-6, f"call {k}, tensor {n}"
            )
    assert step.captures == 1


# ---------------------------------------------------------------------------------- what is compiled, and when


def test_the_second_step_compiles_nothing(device: str) -> None:
    _, _, function = training(device, lambda p: optim.AdamW(p, lr=1e-2))
    step = sg.compile(function)
    data = batches(device)
    step(*data[0])
    for x, labels in data[1:]:
        assert_compiles_nothing(lambda x=x, labels=labels: step(x, labels))
    assert step.captures == 1


def test_later_uncompiled_steps_compile_nothing_either(device: str) -> None:
    _, _, step = training(device, lambda p: optim.AdamW(p, lr=1e-2))
    data = batches(device)
    for x, labels in data[: BEFORE_ALL_IS_COMPILED[device]]:
        step(x, labels).item()
    for x, labels in data[BEFORE_ALL_IS_COMPILED[device] :]:
        assert_compiles_nothing(lambda x=x, labels=labels: step(x, labels).item())


def test_a_step_is_one_submission(webgpu: str) -> None:
    _, _, function = training(webgpu, lambda p: optim.AdamW(p, lr=1e-2))
    step = sg.compile(function)
    data = batches(webgpu)
    step(*data[0])
    for x, labels in data[1:]:
        sg.sync()
        count = Counted(webgpu)
        step(x, labels)
        assert (count.submits, count.dispatches) == (1, len(step.plan.dispatches))


def test_new_shapes_are_captured_anew_and_remembered(device: str) -> None:
    step = sg.compile(lambda x: x.sum(0))
    for rows in (3, 5, 3, 5, 3):
        x = numbers(rows, 2, device=device)
        assert_close(step(x), x.numpy().sum(0), 1e-5, 1e-6)
    assert step.captures == 2


def test_new_python_arguments_are_captured_anew(device: str) -> None:
    step = sg.compile(lambda x, power, flag=False: (x**power).sum() if flag else x**power)
    x = numbers(3, device=device)
    assert_close(step(x, 2), x.numpy() ** 2, 1e-5, 1e-6)
    assert_close(step(x, 3), x.numpy() ** 3, 1e-5, 1e-6)
    assert_close(step(x, 2, flag=True), (x.numpy() ** 2).sum(), 1e-5, 1e-6)
    assert_close(step(x, 3), x.numpy() ** 3, 1e-5, 1e-6)
    assert step.captures == 3


def test_one_and_true_are_different_arguments(device: str) -> None:
    step = sg.compile(lambda x, n: x + (10 if n is True else 0))
    x = sg.zeros(2, device=device)
    assert step(x, 1).tolist() == [0, 0]
    assert step(x, True).tolist() == [10, 10]


def test_another_dtype_is_captured_anew(device: str) -> None:
    step = sg.compile(lambda x: x + 1)
    assert step(sg.zeros(2, device=device)).dtype is sg.float32
    assert step(sg.zeros(2, dtype=sg.int32, device=device)).dtype is sg.int32
    assert step.captures == 2


def test_changing_the_learning_rate_compiles_nothing(device: str) -> None:
    losses = {}
    for compiled in (False, True):
        _, optimizer, function = training(device, lambda p: optim.SGD(p, lr=0.5, momentum=0.9))
        step = sg.compile(function) if compiled else function
        values = []
        for k, (x, labels) in enumerate(batches(device) * 2):
            optimizer.param_groups[0]["lr"] = 0.5 / (k + 1)
            before = programs.compiled
            values.append(step(x, labels).item())
            assert k < BEFORE_ALL_IS_COMPILED[device] or programs.compiled == before
        losses[compiled] = values
    assert_close(losses[True], losses[False], 1e-5, 1e-6)


@pytest.mark.filterwarnings("ignore:.* is captured for the 8th time")  # that it is, is the point
def test_changing_another_hyperparameter_is_seen(device: str) -> None:
    losses = {}
    for compiled in (False, True):
        _, optimizer, function = training(device, lambda p: optim.SGD(p, lr=0.5, momentum=0.9))
        step = sg.compile(function) if compiled else function
        values = []
        for k, (x, labels) in enumerate(batches(device) * 2):
            optimizer.param_groups[0]["momentum"] = (0.9, 0.1)[k % 2]
            values.append(step(x, labels).item())
        losses[compiled] = values
    assert_close(losses[True], losses[False], 1e-5, 1e-6)


def test_train_and_eval_are_two_captures(device: str) -> None:
    class Switch(nn.Module):
        def forward(self, x: sg.Tensor) -> sg.Tensor:
            return x * 2 if self.training else x * 3

    model = Switch()
    step = sg.compile(model)
    x = sg.ones(2, device=device)
    assert step(x).tolist() == [2, 2]
    model.eval()
    assert step(x).tolist() == [3, 3]
    model.train()
    assert step(x).tolist() == [2, 2]
    assert step.captures == 2


# ---------------------------------------------------------------------------------- what a step may not do

READS: dict[str, Callable[[sg.Tensor], Any]] = {
    "item()": lambda t: t.item(),
    "numpy()": lambda t: t.detach().numpy(),
    "tolist()": lambda t: t.tolist(),
    "float()": float,
    "if": lambda t: 1 if t > 0 else 2,
}


@pytest.mark.parametrize("name", READS)
def test_reading_inside_raises_and_leaves_everything_unchanged(name: str, device: str) -> None:
    model, optimizer, train = training(device, lambda p: optim.SGD(p, lr=0.5, momentum=0.9))
    data = batches(device)
    train(*data[0])
    tensors = [
        *model.parameters(),
        *(p.grad for p in model.parameters()),
        *(s["momentum_buffer"] for s in optimizer.state.values()),
    ]
    before = [t.detach().numpy() for t in tensors]

    def function(x: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        loss = train(x, labels)
        READS[name](loss)
        return loss

    step = sg.compile(function)
    with pytest.raises(sg.CompileError, match="inside a compiled step"):
        step(*data[1])
    now = [
        *model.parameters(),
        *(p.grad for p in model.parameters()),
        *(s["momentum_buffer"] for s in optimizer.state.values()),
    ]
    for t, value in zip(now, before, strict=True):
        assert_same_bits(t, value)
    assert np.isfinite(train(*data[1]).item()), "the uncompiled step works afterwards"


def test_an_exception_comes_after_what_was_changed_before_it(device: str) -> None:
    def losses(compiled: bool) -> list[Any]:
        model, _, train = training(device, lambda p: optim.SGD(p, lr=0.5))

        def function(x: sg.Tensor, labels: sg.Tensor, bad: bool) -> sg.Tensor:
            loss = train(x, labels)
            if bad:
                raise KeyError("mine")
            return loss

        step = sg.compile(function) if compiled else function
        batch = batches(device)[0]
        found: list[Any] = [step(*batch, False).item()]
        with pytest.raises(KeyError, match="mine"):
            step(*batch, True)
        return [*found, step(*batch, False).item(), *(p.detach().numpy() for p in model.parameters())]

    for found, wanted in zip(losses(True), losses(False), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_printed_tensor_inside_shows_that_it_is_captured(device: str) -> None:
    seen = []
    sg.compile(lambda x: (seen.append(repr(x * 2)), x * 2)[1])(sg.ones(2, device=device))
    assert "captured" in seen[0]


def test_what_cannot_be_captured_says_so(device: str) -> None:
    x = sg.ones(2, device=device)
    with pytest.raises(sg.CompileError, match=r"sg\.tensor"):
        sg.compile(lambda t: t)(np.ones(2))
    with pytest.raises(sg.CompileError, match="nothing to compile"):
        sg.compile(lambda t: None)(x)
    with pytest.raises(sg.CompileError, match="before its first call"):
        sg.compile(lambda t: t).plan
    with pytest.raises(sg.CompileError, match="not set"):
        sg.compile(lambda t, s: t)(x, {1})


def test_two_devices_in_one_step_are_refused(webgpu: str) -> None:
    with pytest.raises(sg.CompileError, match="one device"):
        sg.compile(lambda x, y: (x * 2, y * 2))(sg.ones(2), sg.ones(2, device=webgpu))


def test_an_argument_is_not_changed_by_the_step(device: str) -> None:
    x = sg.ones(3, device=device)
    step = sg.compile(lambda t: t * 2)
    for _ in range(2):
        assert step(x).tolist() == [2, 2, 2]
        assert x.tolist() == [1, 1, 1]


# ---------------------------------------------------------------------------------- seen from outside


def test_results_kept_by_the_user_are_not_overwritten(device: str) -> None:
    model, _, function = training(device, lambda p: optim.SGD(p, lr=0.5))
    step = sg.compile(lambda x, labels: (function(x, labels), model[0].weight.detach() * 1, model[0].bias.grad))
    kept, read = [], []
    for x, labels in batches(device):
        results = step(x, labels)
        kept.append(results)
        read.append([t.numpy() for t in results])
    for results, values in zip(kept, read, strict=True):
        for t, value in zip(results, values, strict=True):
            assert_same_bits(t, value)
    assert not np.array_equal(read[0][1], read[1][1]), "the parameters did change"


@pytest.mark.parametrize("kept_as", [lambda g: g, lambda g: g.detach()], ids=["itself", "detached"])
def test_a_gradient_kept_by_the_user_is_not_overwritten(kept_as: Any, device: str) -> None:
    model, _, function = training(device, lambda p: optim.SGD(p, lr=0.5))
    step = sg.compile(function)
    data = batches(device)
    step(*data[0])
    step(*data[1])
    kept = kept_as(model[0].weight.grad)
    value = kept.numpy()
    step(*data[2])
    assert_same_bits(kept, value)
    assert not np.array_equal(model[0].weight.grad.numpy(), value)


def test_a_gradient_that_a_history_will_read_is_not_overwritten(device: str) -> None:
    model, _, function = training(device, lambda p: optim.SGD(p, lr=0.5))
    step = sg.compile(function)
    data = batches(device)
    step(*data[0])
    step(*data[1])
    factor = sg.ones(*model[0].weight.shape, device=device, requires_grad=True)
    total = (grad_of(model[0].weight) * factor).sum()
    value = grad_of(model[0].weight).numpy()
    total.item()  # computed: nothing is pending
    step(*data[2])
    total.backward()
    assert_same_bits(grad_of(factor), value)


def test_a_gradient_is_replaced_by_what_it_was_at_other_places(device: str) -> None:
    w = sg.zeros(10_001, device=device, requires_grad=True)
    expected = np.arange(10_001, dtype=np.float32)
    w.grad = sg.tensor(expected, device=device)

    @sg.compile
    def step() -> None:
        w.grad = grad_of(w).flip(0) * 0.5 + 1

    for _ in range(5):
        step()
        expected = expected[::-1] * np.float32(0.5) + np.float32(1)
        assert_same_bits(w.grad, expected)


def test_what_was_recorded_before_a_step_keeps_its_value(device: str) -> None:
    model, _, function = training(device, lambda p: optim.SGD(p, lr=0.5))
    step = sg.compile(function)
    data = batches(device)
    step(*data[0])
    w = model[0].weight
    value = w.detach().numpy()
    pending, copy, view = w.detach() * 2, w.detach().clone(), w.detach().t() * 1
    step(*data[1])
    assert_close(pending, value * 2, 1e-6, 0)
    assert_same_bits(copy, value)
    assert_close(view, value.T, 0, 0)
    assert not np.array_equal(w.detach().numpy(), value)


def test_changes_from_outside_are_seen(device: str) -> None:
    """load_state_dict, in-place changes and a new .data between steps, against an uncompiled twin."""
    twins = [training(device, lambda p: optim.SGD(p, lr=0.1, momentum=0.9)) for _ in range(2)]
    steps = [sg.compile(twins[0][2]), twins[1][2]]
    saved = [{k: v.clone() for k, v in model.state_dict().items()} for model, _, _ in twins]
    data = batches(device)
    for change in ("nothing", "load", "mul_", "data", "write_"):
        for (model, _, _), state in zip(twins, saved, strict=True):
            if change == "load":
                model.load_state_dict(state)
            weight = model[0].weight
            with sg.no_grad():
                if change == "mul_":
                    weight.mul_(0.5)
                if change == "data":
                    weight.data = sg.ones(8, 4, device=device) * 0.25
                if change == "write_":
                    weight.write_(np.full((8, 4), -0.125, np.float32))
        losses = [[step(x, labels).item() for x, labels in data] for step in steps]
        assert_close(losses[0], losses[1], 1e-4, 1e-6, f"after {change}")
    for p, q in zip(twins[0][0].parameters(), twins[1][0].parameters(), strict=True):
        assert_close(p, q, 1e-4, 1e-6)
    assert steps[0].captures == 1


@pytest.mark.parametrize("how", ["write_", "fill_", "data"])
def test_changing_a_tensor_that_is_no_parameter_is_seen(how: str, device: str) -> None:
    scale = sg.ones((), device=device)
    step = sg.compile(lambda x: x * scale)
    x = sg.ones(2, device=device)
    assert step(x).tolist() == [1, 1]
    if how == "write_":
        scale.write_(np.array(3, np.float32))
    elif how == "fill_":
        scale.fill_(3)
    else:
        scale.data = sg.full((), 3.0, device=device)
    assert step(x).tolist() == [3, 3]


def test_loading_optimizer_state_between_steps_is_seen(device: str) -> None:
    model, optimizer, function = training(device, lambda p: optim.AdamW(p, lr=1e-2))
    step = sg.compile(function)
    data = batches(device)
    step(*data[0])
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    state = optimizer.state_dict()
    first = [step(x, labels).item() for x, labels in data]
    model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    assert [step(x, labels).item() for x, labels in data] == first


def test_freezing_a_parameter_between_steps_is_seen(device: str) -> None:
    model, _, function = training(device, lambda p: optim.SGD(p, lr=0.5))
    step = sg.compile(function)
    data = batches(device)
    step(*data[0])
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.numpy()
    step(*data[1])
    assert_same_bits(model[0].weight, frozen)


def test_compiled_and_uncompiled_steps_take_turns(device: str) -> None:
    losses = []
    for pattern in ((False, False), (True, False)):
        _, _, function = training(device, lambda p: optim.AdamW(p, lr=1e-2))
        step = sg.compile(function)
        losses.append(
            [
                (step if pattern[k % 2] else function)(x, labels).item()
                for k, (x, labels) in enumerate(batches(device) * 2)
            ]
        )
    assert_close(losses[1], losses[0], 1e-5, 1e-6)


def test_gradients_accumulate_across_compiled_steps(device: str) -> None:
    """Three calls that only add gradients, then one that uses them, twice over; as without compile."""
    results = []
    for wrap in (lambda f: f, sg.compile):
        model = perceptron(device)
        optimizer = optim.SGD(model.parameters(), lr=0.5)

        def accumulate(x: sg.Tensor, labels: sg.Tensor, model: Any = model) -> sg.Tensor:
            loss = F.cross_entropy(model(x), labels) / 3
            loss.backward()
            return loss

        def update(optimizer: Any = optimizer) -> None:
            optimizer.step()
            optimizer.zero_grad()

        first, second = wrap(accumulate), wrap(update)
        seen = []
        for _ in range(2):
            for x, labels in batches(device, 3):
                seen.append(first(x, labels).item())
                seen.append(model[0].bias.grad.numpy())
            second()
            assert all(p.grad is None for p in model.parameters())
        results.append([*seen, *(p.detach().numpy() for p in model.parameters())])
        if wrap is sg.compile:
            assert first.captures == 2, "once with and once without gradients to add to"
    for a, b in zip(*results, strict=True):
        assert_close(a, b, 1e-5, 1e-6)


def test_a_state_passed_from_call_to_call(device: str) -> None:
    step = sg.compile(lambda h, x: (h * 0.5 + x).tanh())
    h, expected = sg.zeros(6, 4, device=device), np.zeros((6, 4))
    for x, _ in batches(device):
        h = step(h, x)
        expected = np.tanh(expected * 0.5 + x.numpy())
    assert_close(h, expected, 1e-4, 1e-6)


def test_a_compiled_function_within_another(device: str) -> None:
    inner = sg.compile(lambda x: x * 2)
    outer = sg.compile(lambda x: inner(x) + 1)
    assert outer(sg.ones(2, device=device)).tolist() == [3, 3]
    assert inner(sg.ones(2, device=device)).tolist() == [2, 2]


def test_a_step_under_no_grad_and_then_with_gradients(device: str) -> None:
    model = perceptron(device)
    step = sg.compile(lambda x: model(x))
    x, _ = batches(device)[0]
    with sg.no_grad():
        quiet = step(x)
    assert_close(step(x), quiet, 0, 0)


def test_arguments_that_are_one_tensor_at_first_may_differ_later(device: str) -> None:
    step = sg.compile(lambda x, y: x - 2 * y)
    x, y = numbers(3, device=device), numbers(3, device=device, seed=1)
    for a, b in ((x, x), (x, y), (y, x), (y, y)):
        assert_close(step(a, b), a.numpy() - 2 * b.numpy(), 1e-6, 1e-6)
    assert step.captures == 2  # one for a tensor that is given twice


def test_an_argument_that_is_state_at_first_may_be_another_later(device: str) -> None:
    state = sg.zeros(3, device=device)

    def function(x: sg.Tensor) -> sg.Tensor:
        state.copy_(x + 1)
        return x * 2

    step = sg.compile(function)
    assert step(state).tolist() == [2, 2, 2], "x is state, which has changed when it is read"
    assert step(state).tolist() == [4, 4, 4]
    assert step(sg.ones(3, device=device) * 5).tolist() == [10, 10, 10]
    assert state.tolist() == [6, 6, 6]


@dataclass
class Batch:
    """Tensors in a dataclass."""

    x: sg.Tensor
    scales: list[sg.Tensor]
    power: int = 1


class Holder:
    """An object of which the library knows nothing."""

    def __init__(self, x: sg.Tensor) -> None:
        self.x = x


def test_dataclasses_are_taken_and_given(device: str) -> None:
    step = sg.compile(lambda b: Batch(b.x**b.power * b.scales[0], [b.x.sum()], b.power))
    for value in (1.0, 2.0, 3.0):
        x, scale = sg.full((2,), value, device=device), sg.full((), 5.0, device=device)
        result = step(Batch(x, [scale], 2))
        assert isinstance(result, Batch)
        assert (result.x.tolist(), result.scales[0].item(), result.power) == ([5 * value**2] * 2, 2 * value, 2)
    assert step.captures == 1
    assert {step.plan.buffers[r].name for r in step.plan.outputs} == {"result.x", "result.scales[0]"}
    step(Batch(x, [scale], 3))
    assert step.captures == 2


@pytest.mark.parametrize("hide", [Holder, lambda t: {t}, lambda t: [1, Holder(t)]], ids=["object", "set", "in a list"])
def test_a_result_that_hides_a_tensor_is_refused(hide: Callable[[sg.Tensor], Any], device: str) -> None:
    """The next call could not put its own tensor there."""
    step = sg.compile(lambda x: (x * 2, hide(x * 3)))
    with pytest.raises(
        sg.CompileError, match=r"result\[1\].* holds a tensor of this call.*Hint: return tensors in tuples"
    ):
        step(sg.ones(2, device=device))


def test_a_list_of_the_outside_grows_by_a_tensor_of_each_call(device: str) -> None:
    kept: list[sg.Tensor] = []

    def function(x: sg.Tensor) -> sg.Tensor:
        kept.append(x.exp() + x.detach())
        return x * 2

    step = sg.compile(function)
    for value in (1.0, 2.0):
        assert step(sg.full((2,), value, device=device)).tolist() == [2 * value] * 2
    for found, value in zip(kept, (1.0, 2.0), strict=True):
        assert_close(found, np.full(2, np.exp(value) + value, np.float32), 1e-6, 0)
    assert step.captures == 1


def test_the_first_call_compiles_one_plan_and_computes_nothing_twice(device: str) -> None:
    model, optimizer, function = training(device, lambda p: optim.AdamW(p, lr=1e-2))
    step = sg.compile(function)
    data = batches(device)
    for p in model.parameters():
        p.grad = sg.zeros_like(p)
    optimizer.step()  # makes its state
    optimizer.zero_grad()
    sg.sync()
    state = [t for s in optimizer.state_dict()["state"].values() for t in s.values()]
    assert all(t.numpy() is not None for t in [*state, *(p.detach() for p in model.parameters())])
    programs.clear()
    before, count = programs.compiled, Counted(device)
    step(*data[0])
    assert programs.compiled == before + 1
    assert device == "cpu" or count.submits == 1
    assert all(p.grad is not None and np.isfinite(p.grad.numpy()).all() for p in model.parameters())


# ---------------------------------------------------------------------------------- random numbers within


def test_noise_differs_each_call_and_reproduces_after_manual_seed(device: str) -> None:
    step = sg.compile(lambda: (sg.randn(4, device=device), sg.rand(3, device=device)))
    runs = []
    for _ in range(2):
        sg.manual_seed(7)
        runs.append([[t.numpy() for t in step()] for _ in range(3)])
    assert_same_bits(np.concatenate([b for r in runs[0] for b in r]), np.concatenate([b for r in runs[1] for b in r]))
    assert not np.array_equal(runs[0][0][0], runs[0][1][0])
    assert step.captures == 1
    sg.manual_seed(7)
    uncompiled = [[sg.randn(4, device=device).numpy(), sg.rand(3, device=device).numpy()] for _ in range(3)]
    for a, b in zip(runs[0], uncompiled, strict=True):
        assert_close(a[0], b[0], 1e-6, 1e-6)
        assert_same_bits(a[1], b[1])


def test_another_seed_gives_other_noise(device: str) -> None:
    step = sg.compile(lambda: sg.rand(4, device=device))
    sg.manual_seed(7)
    first = step().numpy()
    sg.manual_seed(8)
    second = step().numpy()
    assert not np.array_equal(first, second)
    sg.manual_seed(8)
    assert_same_bits(sg.rand(4, device=device), second)


def test_a_step_that_is_the_first_to_draw_draws_anew_each_call(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's generator is made while the step is captured."""
    sg.manual_seed(7)
    expected = [sg.rand(4, device=device).numpy() for _ in range(3)]
    monkeypatch.setattr(generator, "_generators", {})
    sg.manual_seed(7)
    step = sg.compile(lambda: sg.rand(4, device=device))
    for value in expected:
        assert_same_bits(step(), value)
    sg.manual_seed(7)
    assert_same_bits(step(), expected[0])


def test_noise_is_the_same_on_both_devices(webgpu: str) -> None:
    found = {}
    for device in ("cpu", webgpu):
        step = sg.compile(lambda device=device: sg.rand(5, device=device))
        sg.manual_seed(3)
        found[device] = [step().numpy() for _ in range(3)]
    assert_same_bits(np.array(found["cpu"]), np.array(found[webgpu]))


# ---------------------------------------------------------------------------------- the plan


def trained(device: str) -> tuple[sg.CompiledStep, tuple[Any, ...]]:
    _, _, function = training(device, lambda p: optim.AdamW(p, lr=1e-2))
    step = sg.compile(function)
    data = batches(device)
    step(*data[0])
    return step, data[1]


def test_a_plan_comes_back_from_json_equal(device: str) -> None:
    step, _ = trained(device)
    again = Plan.from_json(step.plan.to_json())
    assert again == step.plan
    assert again.to_json() == step.plan.to_json()


def test_a_plan_from_json_replays_to_the_same_bits(device: str) -> None:
    step, arguments = trained(device)
    values = step.inputs(*arguments)
    found = []
    for plan in (step.plan, Plan.from_json(step.plan.to_json())):
        program = execute.load_plan(plan, device)
        rows = [plan.buffers[r] for r in plan.inputs]
        d = execute.get_device(device)
        outputs = program.run([d.upload(np.ascontiguousarray(v), b.dtype) for v, b in zip(values, rows, strict=True)])
        found.append(
            [
                d.download(s, plan.buffers[r].shape, plan.buffers[r].dtype)
                for s, r in zip(outputs, plan.outputs, strict=True)
            ]
        )
    loss = step(*arguments)
    for a, b in zip(*found, strict=True):
        assert_same_bits(a, b)
    assert any(a.shape == () and a.tobytes() == loss.numpy().tobytes() for a in found[0] if a.dtype == np.float32)


def test_explain_mentions_every_dispatch(webgpu: str) -> None:
    step, _ = trained(webgpu)
    text = step.explain()
    lines = text.splitlines()
    assert len(lines) == len(step.plan.dispatches) + 3
    for line, dispatch in zip(lines[2:], step.plan.dispatches, strict=False):
        kernel = step.plan.kernels[dispatch.kernel]
        number, name = line.split()[:2]
        assert (int(number), name) == (lines.index(line) - 2, kernel.name)
        assert kernel.archetype in line
    assert f"{len(step.plan.dispatches)} dispatches" in lines[-1]


def test_parameters_and_their_state_are_updated_in_place(webgpu: str) -> None:
    model, _, function = training(webgpu, lambda p: optim.AdamW(p, lr=1e-2))
    step = sg.compile(function)
    step(*batches(webgpu)[0])
    updated = sum(step.plan.buffers[r].aliases is not None for r in step.plan.outputs)
    assert updated == 3 * len(list(model.parameters())) + 1, "each parameter with two moments, and one step counter"
    before = [id(p._node.storage) for p in model.parameters()]
    step(*batches(webgpu)[1])
    assert [id(p._node.storage) for p in model.parameters()] == before


@pytest.mark.slow
def test_the_steps_of_time_share_their_kernels(webgpu: str) -> None:
    """A longer sequence is more dispatches of the same kernels: a binding begins where its step of time does."""

    def plan(length: int) -> Plan:
        sg.manual_seed(0)
        model = nn.LSTM(4, 16, device=webgpu)

        @sg.compile
        def step(x: sg.Tensor) -> sg.Tensor:
            loss = (model(x)[0] ** 2).sum()
            model.zero_grad()
            loss.backward()
            return loss.detach()

        step(sg.ones(length, 8, 4, device=webgpu))
        return step.plan

    short, long = plan(6), plan(12)
    assert len(long.dispatches) > 1.5 * len(short.dispatches)
    few_bindings = long.target.max_storage_buffers <= 8  # then longer stacks take more kernels
    assert len(long.kernels) <= len(short.kernels) + (8 if few_bindings else 1)
    assert any(any(d.offsets) for d in long.dispatches)
    assert Plan.from_json(long.to_json()) == long


def test_results_of_a_step_say_where_their_history_stayed(device: str) -> None:
    w = sg.ones(3, device=device, requires_grad=True)
    kept: dict[str, sg.Tensor] = {}

    @sg.compile
    def step(x: sg.Tensor) -> tuple[sg.Tensor, dict[str, sg.Tensor]]:
        kept["loss"] = loss = (w * x).sum()
        return loss, {"rows": w * x}

    for _ in range(2):
        loss, rest = step(sg.ones(3, device=device))
        for t in (loss, kept["loss"], rest["rows"].sum(), rest["rows"][1] * 2):
            with pytest.raises(
                sg.AutogradError, match=r"comes from a compiled step, .* call backward\(\) within the step"
            ):
                t.backward()
    with pytest.raises(sg.AutogradError, match="comes from a compiled step"):
        sg.autograd.grad(kept["loss"], [w])
    plain = sg.compile(lambda x: x.sum())(sg.ones(3, device=device))
    with pytest.raises(sg.AutogradError, match=r"does not have a grad_fn$"):
        plain.backward()


# ---------------------------------------------------------------------------------- other devices


MOVES = {
    "an argument": lambda x, w: x.cpu() * 2,
    "what is computed": lambda x, w: (x * 2).sum().detach().cpu(),
    "a tensor of the outside": lambda x, w: x * w.to(x.device),
    "drawn numbers": lambda x, w: x * sg.randn(2).to(x.device),
}


@pytest.mark.parametrize("what", MOVES)
def test_a_tensor_moved_within_a_step_is_refused_with_the_way(what: str, webgpu: str) -> None:
    w = sg.ones(2)
    with pytest.raises(sg.CompileError, match=r"\[to\] a compiled step works on one device.*Hint: move arguments"):
        sg.compile(lambda x: MOVES[what](x, w))(sg.ones(2, device=webgpu))


def test_constants_made_within_a_step_may_be_moved(webgpu: str) -> None:
    step = sg.compile(lambda x: x * sg.arange(2).to(x.device) + sg.full((2,), 3.0).to(x))
    for scale in (1.0, 2.0):
        assert step(sg.ones(2, device=webgpu) * scale).tolist() == [3.0, 3.0 + scale]


def test_a_module_imported_by_a_capture_that_fails_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_by_a_step.py").write_text(
        "factor = None\ndef of(x):\n    return x if factor is None else x * factor\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def step(x: sg.Tensor, fail: bool) -> sg.Tensor:
        import imported_by_a_step as module  # type: ignore[import-not-found]

        return module.of(x) + (x.item() if fail else 0.0)

    compiled = sg.compile(step)
    with pytest.raises(sg.CompileError):
        compiled(sg.ones(1), True)
    assert compiled(sg.ones(1), False).tolist() == [1.0]


def test_a_deep_copy_of_views_without_what_they_show_is_refused(device: str) -> None:
    table = numbers(3, 2, device=device)
    rows = [table[1:], table[:2]]
    step = sg.compile(lambda: [t.mul_(2) for t in copy.deepcopy(rows)])
    with pytest.raises(sg.CompileError, match="deep copy of a view"):
        step()
    first, second = sg.compile(lambda: copy.deepcopy([table, *rows]))()[1:]
    first[0] = 0.0
    assert_same_bits(second[1], np.zeros(2, np.float32))


@pytest.mark.parametrize("before", ["no gradient", "a gradient of its own"])
def test_a_history_from_outside_is_used_up_by_the_first_call(before: str, device: str) -> None:
    """As without `compile`: the second backward pass through it is an error, though all else is as in the first call."""

    def outcomes(compiled: Callable[..., Any], retain: bool) -> list[Any]:
        w = sg.tensor([1.0, -2.0, 3.0], device=device, requires_grad=True)
        hidden = w.relu()

        @compiled
        def step(x: sg.Tensor) -> sg.Tensor:
            w.grad = None if before == "no gradient" else sg.ones(3, device=device)
            loss = (hidden * x).sum()
            loss.backward(retain_graph=retain)
            return loss.detach()

        found: list[Any] = []
        for k in range(3):
            try:
                found.append(step(numbers(3, device=device, seed=k)).item())
            except sg.AutogradError as error:
                found.append(str(error))
            found.append(None if w.grad is None else w.grad.tolist())
        return found

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    once = outcomes(sg.compile, retain=False)
    assert once == outcomes(plain, retain=False)
    assert "a second time" in once[2]
    assert outcomes(sg.compile, retain=True) == outcomes(plain, retain=True)
