"""Plans are plain data: every buffer with its role, name and size, equal where programs are, readable, and on paper."""

from __future__ import annotations

import copy
import json
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn, optim
from shadergrad.drive import execute
from shadergrad.errors import PlanError
from shadergrad.plan import FORMAT, BufferSpec, Dispatch, Kernel, Plan
from shadergrad.target import PORTABLE

Pair = namedtuple("Pair", "loss rest")


def training() -> sg.CompiledStep:
    """A step of a network with dropout, normalization and AdamW; captured, and called once."""
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
    optimizer = optim.AdamW(model.parameters())
    seen, scale = sg.zeros(()), sg.ones(())

    def step(batch: Any, *, options: Any) -> Any:
        optimizer.zero_grad()
        x, labels = batch
        loss = F.cross_entropy(model(x) * scale, labels)
        loss.backward()
        optimizer.step()
        seen.add_(1)
        return {"loss": loss, "more": (options["a"] * 2, [loss * 3])}

    compiled = sg.compile(step)
    compiled((sg.ones(5, 4), sg.zeros(5, dtype=sg.int32)), options={"a": sg.ones(2)})
    return compiled


def labels_of(plan: Plan, rows: tuple[int, ...]) -> dict[str, str]:
    """Roles by name; names are unique."""
    found = {plan.buffers[row].name: plan.buffers[row].role for row in rows}
    assert len(found) == len(rows)
    return found


# ---------------------------------------------------------------------------------- roles and names

PARAMETERS = ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]


def test_inputs_have_the_names_of_arguments_modules_optimizers_and_variables() -> None:
    plan = training().plan
    assert labels_of(plan, plan.inputs) == {
        "batch[0]": "argument",
        "batch[1]": "argument",
        "options['a']": "argument",
        **dict.fromkeys(PARAMETERS, "parameter"),
        **{f"{what}.{name}": "state" for what in ("exp_avg", "exp_avg_sq") for name in PARAMETERS},
        **dict.fromkeys(("1.running_mean", "1.running_var", "1.num_batches_tracked", "step", "lr", "seen"), "state"),
        "counter": "counter",
        "key": "constant",
        "scale": "constant",
    }


def test_outputs_are_named_by_their_path_or_as_what_they_replace() -> None:
    plan = training().plan
    found = labels_of(plan, plan.outputs)
    assert {name for name, role in found.items() if role == "result"} == {
        "result['loss']",
        "result['more'][0]",
        "result['more'][1][0]",
    }
    inputs = labels_of(plan, plan.inputs)
    replaced = {name for name in found if name in inputs}
    assert all(inputs[name] == found[name] for name in replaced)
    assert replaced == {n for n, role in inputs.items() if role in ("parameter", "state", "counter") and n != "lr"}
    assert {n for n in found if n not in replaced and found[n] == "state"} == {f"grad.{name}" for name in PARAMETERS}


def test_all_other_buffers_are_temporaries_with_names() -> None:
    plan = training().plan
    rest = [b for k, b in enumerate(plan.buffers) if k not in {*plan.inputs, *plan.outputs}]
    assert {b.role for b in rest} == {"temporary"}
    assert len({b.name for b in rest}) == len(rest)


def named(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(role, name) of inputs and outputs."""
    step = sg.compile(function)
    step(*args, **kwargs)
    plan = step.plan
    inputs, outputs = (
        [(plan.buffers[r].role, plan.buffers[r].name) for r in rows] for rows in (plan.inputs, plan.outputs)
    )
    return inputs, outputs


def test_a_single_result_and_a_named_tuple() -> None:
    x = sg.ones(2)
    assert named(lambda x: x * 2, x) == ([("argument", "x")], [("result", "result")])
    _, outputs = named(lambda x: Pair(x * 2, [x - 1, x + 1]), x)
    assert [name for _, name in outputs] == ["result.loss", "result.rest[0]", "result.rest[1]"]


def test_arguments_without_names_of_their_own() -> None:
    x, y = sg.ones(2), sg.ones(3)
    assert named(lambda *all: all[0].sum() + all[1].sum(), x, y)[0] == [("argument", "all[0]"), ("argument", "all[1]")]
    assert named(lambda **all: all["b"] * 2, b=x)[0] == [("argument", "all['b']")]
    assert named(nn.ReLU().forward, x)[0] == [("argument", "input")]


def test_several_modules_are_told_apart_by_their_variables() -> None:
    generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    inputs, _ = named(lambda x: critic(generator(x)), sg.ones(3, 2))
    assert [name for _, name in inputs[1:]] == ["generator.weight", "generator.bias", "critic.weight", "critic.bias"]


def test_several_modules_of_one_class_without_variables() -> None:
    both = [nn.Linear(2, 2), nn.Linear(2, 2)]
    inputs, _ = named(lambda x: both[1](both[0](x)), sg.ones(3, 2))
    assert sorted(name for _, name in inputs[1:]) == [
        "Linear.bias",
        "Linear.bias (2)",
        "Linear.weight",
        "Linear.weight (2)",
    ]


def test_a_module_that_is_reached_through_another_keeps_its_place_in_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    inputs, _ = named(lambda x: model[1](x), sg.ones(3, 2))
    assert [name for _, name in inputs] == ["x", "1.weight", "1.bias"]


def test_buffers_of_a_module_that_do_not_change_are_constants() -> None:
    model = nn.BatchNorm1d(2).eval()
    inputs, _ = named(lambda x: model(x), sg.ones(3, 2))
    assert {name: role for role, name in inputs} == {
        "x": "argument",
        "running_mean": "constant",
        "running_var": "constant",
        "weight": "parameter",
        "bias": "parameter",
    }


def test_parameters_without_a_module() -> None:
    w, table = sg.ones(2).requires_grad_(), [sg.ones(2).requires_grad_()]
    optimizer = optim.SGD([w, *table], lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        (w * table[0]).sum().backward()
        optimizer.step()

    inputs, _ = named(step)
    assert sorted(inputs) == [
        ("parameter", "params[1]"),
        ("parameter", "w"),
        ("state", "lr"),
        ("state", "momentum_buffer.params[1]"),
        ("state", "momentum_buffer.w"),
    ]


def test_parameter_groups_and_given_names() -> None:
    a, b = (sg.ones(2).requires_grad_() for _ in range(2))
    both = [a, b]
    optimizer = optim.SGD([{"params": [("alpha", both[0])]}, {"params": [("beta", both[1])], "lr": 0.2}], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        ((both[0] * both[0]).sum() + (both[1] * both[1]).sum()).backward()
        optimizer.step()

    inputs, _ = named(step)
    assert sorted(inputs) == [("parameter", "alpha"), ("parameter", "beta"), ("state", "lr"), ("state", "lr.1")]


class Averager:
    """State in attributes."""

    def __init__(self) -> None:
        self.mean = sg.ones(2)
        self.rate = sg.ones(())

    def update(self, x: sg.Tensor) -> None:
        self.mean.add_((x - self.mean) * self.rate)


def test_attributes_of_the_object_whose_method_is_compiled() -> None:
    inputs, outputs = named(Averager().update, sg.ones(2))
    assert inputs == [("argument", "x"), ("state", "mean"), ("constant", "rate")]
    assert outputs == [("state", "mean")]


def test_a_variable_without_a_value_yet_is_no_hindrance() -> None:
    def step(x: sg.Tensor, deep: bool = False) -> sg.Tensor:
        return later(x) if deep else x * 2

    assert named(step, sg.ones(2))[0] == [("argument", "x")]
    later = step


def test_what_nothing_names_is_numbered() -> None:
    held = {"a": sg.ones(2), "b": sg.ones(2)}

    def step(x: sg.Tensor) -> sg.Tensor:
        held["a"].add_(x)
        return held["a"] * held["b"] * sg.tensor([1.0, 2.0])

    inputs, _ = named(step, sg.ones(2))
    assert inputs == [("argument", "x"), ("state", "state0"), ("constant", "constant0"), ("constant", "constant1")]


def test_gradients_that_are_added_to_are_state() -> None:
    w = sg.ones(2).requires_grad_()

    def step() -> None:
        (w * 3).sum().backward()

    compiled = sg.compile(step)
    compiled()
    compiled()
    plan = compiled.plan
    assert labels_of(plan, plan.inputs)["grad.w"] == "state"
    assert labels_of(plan, plan.outputs) == {"grad.w": "state"}


def test_a_graph_that_no_step_captured_has_numbered_arguments_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    compile_graph = execute.compile_graph
    monkeypatch.setattr(execute, "compile_graph", lambda *a: plans.append(compile_graph(*a)[0]) or compile_graph(*a))
    x, y = sg.tensor(np.ones((3, 7))), sg.tensor(np.ones(7))
    (x * y).cosh().numpy()
    (plan,) = plans[-1:]
    assert labels_of(plan, plan.inputs) == {"in0": "argument", "in1": "argument"}
    assert labels_of(plan, plan.outputs) == {"out0": "result"}


# ---------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("dtype", "shape", "bound"),
    [
        (sg.float32, (), 4),
        (sg.float32, (3,), 12),
        (sg.bool, (3,), 12),
        (sg.bool, (0, 2), 4),
        (sg.uint8, (5,), 20),
        (sg.int64, (5,), 20),
        (sg.float64, (3,), 24),
    ],
)
def test_a_bound_is_a_multiple_of_four_bytes(dtype: Any, shape: tuple[int, ...], bound: int) -> None:
    assert BufferSpec("argument", shape, dtype).bound == bound


# ---------------------------------------------------------------------------------- for people


def test_repr_is_a_line() -> None:
    buffers = tuple(BufferSpec("argument", (2,), sg.float32) for _ in range(9))
    kernels = tuple(Kernel(f"k{k}", "map", ("read",) * 9, f"source {k}") for k in range(12))
    dispatches = tuple(Dispatch(k % 12, tuple(range(9))) for k in range(15))
    plan = Plan(PORTABLE, buffers, kernels, dispatches, tuple(range(9)), (0, 1, 2), (1 << 20, 200 << 10))
    assert repr(plan) == "Plan(wgsl: 12 kernels, 15 dispatches, 9 inputs, 3 outputs, 1.2 MiB of temporaries)"
    small = Plan(PORTABLE, buffers[:1], kernels[:1], dispatches[:1], (0,), (0,))
    assert repr(small) == "Plan(wgsl: 1 kernel, 1 dispatch, 1 input, 1 output, 0 B of temporaries)"


def test_a_training_steps_repr_is_a_line_and_its_text_the_table() -> None:
    step = training()
    assert "\n" not in repr(step.plan)
    assert len(repr(step.plan)) < 120
    assert str(step.plan) == step.explain()


def test_what_asks_for_a_plan_before_the_first_call_is_told_to_call() -> None:
    step = sg.compile(lambda x: x * 2)
    for ask in (lambda: step.plan, step.explain, lambda: step.inputs(sg.ones(2))):
        with pytest.raises(sg.CompileError, match=r"before its first call.*Hint: call it once with its arguments"):
            ask()


def test_inputs_of_other_arguments_than_the_plans_are_refused() -> None:
    step = sg.compile(lambda x: x * 2)
    step(sg.ones(2))
    assert [a.tolist() for a in step.inputs(sg.zeros(2))] == [[0, 0]]
    with pytest.raises(sg.CompileError, match="Hint: call the step with them first"):
        step.inputs(sg.ones(3))


# ---------------------------------------------------------------------------------- equality and JSON


def test_a_portable_plan_writes_nothing_where_its_arguments_lie() -> None:
    # a page uploads a batch once for the runs that take it (web/site/runtime/run.js)
    w = sg.ones(5, 4)

    @sg.compile
    def step(x: Any, y: Any) -> Any:
        w.copy_(x * 2)
        return {"x": x, "reversed": (x + 1).exp().log() - y, "sum": y.sum()}

    plan = step.portable(sg.ones(5, 4), sg.ones(5, 4)).plan
    given = {row for row in plan.inputs if plan.buffers[row].role == "argument"}
    written = {
        row
        for d in plan.dispatches
        for row, access in zip(d.buffers, plan.kernels[d.kernel].access, strict=True)
        if access != "read"
    }
    assert len(given) == 2
    assert not given & {plan.buffers[row].aliases if plan.buffers[row].aliases is not None else row for row in written}
    assert all(plan.buffers[row].slot is None for row in given)


def test_two_plans_of_the_same_program_are_equal_and_have_equal_json() -> None:
    a, b = training().plan, training().plan
    assert a == b
    execute.programs.clear()
    c = training().plan
    assert c is not a
    assert c == a
    assert hash(c) == hash(a)
    assert c.to_json() == a.to_json()


def test_a_plan_comes_back_from_json_with_every_field() -> None:
    plan = Plan(
        PORTABLE,
        (
            BufferSpec("argument", (5,), sg.float32, name="x", bound=32),
            BufferSpec("parameter", (2, 3), sg.bool, name="w"),
            BufferSpec("parameter", (2, 3), sg.bool, aliases=1, name="w"),
            BufferSpec("temporary", (), sg.int32, slot=0, name="t"),
            BufferSpec("fault", (4,), sg.int32, name="fault"),
        ),
        (Kernel("k", "row", ("read", "read_write"), "code", "", "", (64, 1, 1), "5 rows", 12, 40, "sum(in0)"),),
        (Dispatch(0, (0, 2), (3, 2, 1), (0, 16)), Dispatch(0, (0, 3))),
        (0, 1),
        (2,),
        (16,),
    )
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert hash(again) == hash(plan)
    assert again.to_json() == plan.to_json()


def test_numbers_that_compare_oddly_come_back_as_they_were() -> None:
    step = sg.compile(lambda x: x + float("nan") + -0.0 + 0.0 + float("inf"))
    step(sg.ones(2))
    again = Plan.from_json(step.plan.to_json())
    assert again == step.plan
    values = [json.loads(k.parameters)["value"] for k in again.kernels if k.primitive == "Constant"]
    assert sorted(map(repr, values)) == ["-0.0", "0.0", "inf", "nan"]
    text = json.loads(step.plan.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert text["format"] == FORMAT


DAMAGED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another format": (lambda d: d.update(format=2), rf"has format 2; this version reads format {FORMAT}\. Hint"),
    "a format that is none": (lambda d: d.update(format=[[0] * 999]), rf"this version reads format {FORMAT}"),
    "no format": (lambda d: d.pop("format"), "no plan: KeyError: 'format'"),
    "no buffers": (lambda d: d.pop("buffers"), "no plan: KeyError: 'buffers'"),
    "an unknown field": (lambda d: d.update(colour="red"), "no plan: TypeError.*colour"),
    "an unknown role": (lambda d: d["buffers"][0].update(role="input"), "no role or access is 'input'"),
    "an unknown dtype": (lambda d: d["buffers"][0].update(dtype="float3"), "no plan: DTypeError"),
    "a negative bound": (lambda d: d["buffers"][0].update(bound=-4), "a size or offset is -4"),
    "a name that is none": (lambda d: d["buffers"][0].update(name=7), "name of a BufferSpec is 7"),
    "parameters that are none": (lambda d: d["kernels"][0].update(parameters={}), "parameters of a Kernel is {}"),
    "buffers that are none": (lambda d: d.update(buffers=3), "no plan: TypeError"),
    "a row beyond the table": (lambda d: d["dispatches"][0].update(buffers=[0, 99]), "names buffer 99, and has 2"),
    "a missing binding": (
        lambda d: d["dispatches"][0].update(buffers=[0]),
        "2 bindings; a dispatch of it has 1 buffers",
    ),
    "an unknown kernel": (lambda d: d["dispatches"][0].update(kernel=-1), "names kernel -1"),
    "an unknown input": (lambda d: d.update(inputs=[77]), "names input 77"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_plan_is_refused_in_a_line(name: str) -> None:
    change, message = DAMAGED[name]
    step = sg.compile(lambda x: x.exp())
    step(sg.ones(2))
    data = copy.deepcopy(json.loads(step.plan.to_json()))
    change(data)
    with pytest.raises(PlanError, match=message) as caught:
        Plan.from_json(json.dumps(data))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", "[" * 100_000], ids=lambda t: repr(t[:4]))
def test_a_text_that_is_no_plan_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(PlanError, match="the text is no plan") as caught:
        Plan.from_json(text)
    assert "\n" not in str(caught.value)


def test_a_plan_from_json_runs_on_the_cpu() -> None:
    step = sg.compile(lambda x: x.exp().sum(0) * 2)
    x = sg.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    wanted = step(x).numpy()
    plan = Plan.from_json(step.plan.to_json())
    device = execute.get_device("cpu")
    (storage,) = execute.load_plan(plan, "cpu").run([device.upload(a, sg.float32) for a in step.inputs(x)])
    np.testing.assert_array_equal(device.download(storage, (3,), sg.float32), wanted)


def test_a_plan_with_a_primitive_that_nobody_knows_is_refused() -> None:
    step = sg.compile(lambda x: x.exp())
    step(sg.ones(2))
    text = step.plan.to_json().replace('"Exp"', '"Expp"')
    with pytest.raises(sg.CompileError, match=r"no primitive 'Expp'. Hint: import the module"):
        execute.load_plan(Plan.from_json(text), "cpu")
