"""Kernels in order: how many dispatches, how wide their grids, and what cannot be ordered."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.compile.assemble import EMIT
from shadergrad.compile.choices import Choice
from shadergrad.compile.pipeline import compile_graph
from shadergrad.compile.schedule import Schedule
from shadergrad.graph.capture import Capture
from shadergrad.plan import Kernel, Plan
from shadergrad.target import PORTABLE, ROWS, Target
from shadergrad.tensor import positions

WIDE = Target("wgsl", max_storage_buffers=16)


def plan_of(outputs: Sequence[sg.Tensor], over: Sequence[sg.Tensor] = (), target: Target = PORTABLE) -> Plan:
    """What the outputs compile to. over: tensors whose memory the first outputs may take."""
    capture = Capture([t._node for t in outputs], first=[t._node for t in over])
    in_place = {k: place for k, t in enumerate(over) if (place := capture.position_of_source(t._node)) is not None}
    assert len(in_place) == len(over)
    return compile_graph(capture.graph(in_place), target)[0]


def full(value: float, *shape: int) -> sg.Tensor:
    """A tensor with memory; sg.full has none."""
    return sg.tensor(np.full(shape, value, np.float32))


def updates(count: int) -> tuple[list[sg.Tensor], list[sg.Tensor]]:
    """Values of an optimizer's kind, with the tensors that they replace. Each kernel would bind two buffers."""
    parameters = [full(1, 10 + k) for k in range(count)]
    gradients = [full(2, 10 + k) for k in range(count)]
    return [p - g * 0.1 for p, g in zip(parameters, gradients, strict=True)], parameters


@pytest.mark.parametrize(
    ("count", "target", "dispatches"),
    [
        (1, PORTABLE, 1),
        (4, PORTABLE, 1),
        (5, PORTABLE, 2),
        (8, PORTABLE, 2),
        (9, PORTABLE, 3),
        (8, WIDE, 1),
        (9, WIDE, 2),
    ],
)
def test_updates_share_as_few_dispatches_as_the_limit_allows(count: int, target: Target, dispatches: int) -> None:
    new, old = updates(count)
    plan = plan_of(new, old, target)
    assert len(plan.dispatches) == dispatches
    assert all(len(d.buffers) <= target.max_storage_buffers for d in plan.dispatches)
    assert [plan.buffers[row].aliases for row in plan.outputs] == list(plan.inputs[:count])


@pytest.mark.parametrize(("target", "dispatches"), [(PORTABLE, 1 + 4), (WIDE, 1 + 2)])
def test_counters_of_parameters_share_dispatches_before_what_they_scale(target: Target, dispatches: int) -> None:
    """Eight counters, as PyTorch's optimizers have them, are written in place, a binding each; their readers bind three tensors each."""
    counters = [full(k, 1) for k in range(8)]
    counted = [c + 1 for c in counters]
    new, old = updates(8)
    plan = plan_of([*counted, *(n / c for n, c in zip(new, counted, strict=True))], [*counters, *old], target)
    assert len(plan.dispatches) == dispatches


@pytest.mark.parametrize(("count", "dispatches"), [(7, 1), (8, 2)])
def test_a_tensor_that_all_read_is_bound_once(count: int, dispatches: int) -> None:
    scale = full(3)
    parameters = [full(1, 10 + k) for k in range(count)]
    plan = plan_of([p * scale for p in parameters], parameters)
    assert len(plan.dispatches) == dispatches
    assert max(len(d.buffers) for d in plan.dispatches) == 8


def at_unknown_positions(monkeypatch: pytest.MonkeyPatch, count: int) -> sg.Tensor:
    """A sum of `count` gathers whose positions are still to be computed, so that kernels report those out of range."""
    monkeypatch.setattr(positions, "_known_values", lambda node: None)
    places = [sg.tensor(np.array([k % 3, 1, 2], np.int32)) for k in range(count)]
    gathered = [full(k, 4).gather(0, p) for k, p in enumerate(places)]
    return functools.reduce(lambda a, b: a + b, gathered)


@pytest.mark.parametrize(("checked", "dispatches"), [(False, 4), (True, 5)])
def test_only_kernels_that_report_bind_the_fault_buffer(
    checked: bool, dispatches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four updates are one dispatch, beside one that reports."""
    new, old = updates(12)
    target = replace(PORTABLE, checked=checked)
    plan = plan_of([*new, at_unknown_positions(monkeypatch, 1)], old, target)
    assert len(plan.dispatches) == dispatches
    assert all(len(d.buffers) <= 8 for d in plan.dispatches)


@pytest.mark.parametrize("count", range(2, 9))
def test_kernels_that_report_are_within_the_limit(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fault buffer, and with what shares their dispatch."""
    others = [full(1, 10 + k) * 2 for k in range(count)]
    plan = plan_of([at_unknown_positions(monkeypatch, count), *others])
    assert any(plan.buffers[row].role == "fault" for d in plan.dispatches for row in d.buffers)
    assert all(len(d.buffers) <= 8 for d in plan.dispatches)


@pytest.mark.parametrize(
    ("size", "slow_loads", "dispatches"), [(1 << 16, True, 1), (70_000, True, 2), (70_000, False, 1)]
)
def test_large_maps_share_no_dispatch_where_workgroups_go_through_every_branch(
    size: int, slow_loads: bool, dispatches: int
) -> None:
    target = replace(WIDE, traits=ROWS["native"]).having(slow_loads=slow_loads)
    assert len(plan_of([full(1, size) - 1, full(2, size - 4) * 3], target=target).dispatches) == dispatches


def test_a_map_that_another_kernel_reads_runs_before_it_and_the_others_share() -> None:
    """The second output reads the first at other places."""
    x, a, b = full(1, 1000), full(2, 100), full(3, 100)
    y = (x * 2).exp().sin()
    plan = plan_of([y, y.flip(0) + 1, a * 2, b * 3])
    assert len(plan.dispatches) == 2
    assert plan.outputs[0] in plan.dispatches[0].buffers
    assert set(plan.outputs) <= set(plan.dispatches[1].buffers)


@pytest.mark.parametrize(
    "values",
    [lambda x: (x * 2, x + 1), lambda x: (x.exp().sin(), x.exp().sin() + 1)],
    ids=["in two kernels", "in one"],
)
def test_two_values_for_one_tensor_do_not_both_take_its_memory(values: Callable[[sg.Tensor], list[sg.Tensor]]) -> None:
    x = full(1, 1000)
    plan = plan_of(values(x), [x, x])
    assert sorted(plan.buffers[row].aliases is None for row in plan.outputs) == [False, True]
    assert len(set(plan.outputs)) == 2


def test_maps_of_which_one_reads_what_the_other_overwrites_do_not_share() -> None:
    """The others still do: an add and a multiplication of their own, and one of the two beside them."""
    a, b, c, d = (full(k, 1000) for k in range(4))
    plan = plan_of([a * 2, b + a.flip(0), c * 3, d * 4], [a, b, c, d])
    assert len(plan.dispatches) == 2
    reader = next(k for k, d in enumerate(plan.dispatches) if plan.outputs[1] in d.buffers)
    overwriter = next(k for k, d in enumerate(plan.dispatches) if plan.outputs[0] in d.buffers)
    assert reader < overwriter


@pytest.mark.parametrize(("axis", "dispatches"), [(1, 1), (0, 2)], ids=["rows", "columns"])
def test_what_each_row_needs_is_computed_in_its_kernel_and_what_each_column_needs_before(
    axis: int, dispatches: int
) -> None:
    """A thread of a column's kernel would compute it again for every element."""
    x, s = full(2, 50, 50), full(1, 50)
    scale = s.exp().sin().cos()
    total = (x * scale.unsqueeze(axis)).sum(axis)
    assert len(plan_of([scale, total]).dispatches) == dispatches


def test_maps_between_which_another_kernel_must_run_do_not_share() -> None:
    """q is read, then overwritten by sums of rows that read p, then p is overwritten."""
    p, q, rows = full(1, 1000), full(2, 1000), full(3, 1000, 40)
    plan = plan_of([p * 2, q + (rows * p.reshape(1000, 1)).sum(1), q.flip(0) * 3], [p, q])
    assert [plan.buffers[row].aliases is not None for row in plan.outputs] == [True, True, False]
    order = [next(k for k, d in enumerate(plan.dispatches) if row in d.buffers) for row in plan.outputs]
    assert order == [2, 1, 0]


def test_memory_that_is_bound_as_vec4_under_one_name_is_so_under_both() -> None:
    """Of the ten new values another kernel reads the first eight, four at a time: in whole vec4s, bindings are of 48 bytes."""
    x = full(1, 10)
    y = (x * 1.5).exp().sin()
    plan = plan_of([y, y[:8] * 2], [x])
    new, old = plan.buffers[plan.outputs[0]], plan.buffers[plan.inputs[0]]
    assert new.aliases == plan.inputs[0]
    assert (new.nbytes, new.bound, old.bound) == (40, 48, 48)


@pytest.mark.parametrize("count", range(5, 10))
def test_a_checked_kernel_has_a_binding_left_to_report_in(count: int) -> None:
    """Reads by index among so many others that a kernel binds all it may."""
    table, index = full(1, 10, 4), sg.tensor([1, 2, 3])
    total = table[index]
    for k in range(count):
        total = total + full(k, 3, 4)
    plan = plan_of([total], target=Target("wgsl", checked=True))
    assert "fault" in {b.role for b in plan.buffers}
    assert all(len(d.buffers) <= 8 for d in plan.dispatches)
    assert all(len(k.access) <= 8 for k in plan.kernels)


@pytest.mark.parametrize("count", range(5, 10))
def test_a_kernel_that_reports_labels_has_a_binding_left_too(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_known_values", lambda node: None)  # as of labels that are still to be computed
    total = sg.nn.functional.embedding(sg.tensor([1, 2, 3]), full(1, 10, 4))
    for k in range(count):
        total = total + full(k, 3, 4)
    plan = plan_of([total])
    assert "fault" in {b.role for b in plan.buffers}
    assert all(len(k.access) <= 8 for k in plan.kernels)


@pytest.mark.parametrize(
    ("workgroups", "shape"),
    [
        (1, (1, 1, 1)),
        (65_535, (65_535, 1, 1)),
        (65_536, (32_768, 2, 1)),
        (65_537, (32_769, 2, 1)),
        (131_070, (65_535, 2, 1)),
        (131_071, (43_691, 3, 1)),
    ],
)
def test_a_grid_keeps_to_the_limit_and_has_few_workgroups_too_many(
    workgroups: int, shape: tuple[int, int, int]
) -> None:
    x, y, z = Choice("map", (), PORTABLE.max_workgroups).grid(workgroups)
    assert (x, y, z) == shape
    assert 0 <= x * y * z - workgroups < y


@pytest.mark.parametrize(
    "make", [lambda: sg.zeros(0) * 2, lambda: sg.zeros(0, 4).sum(1), lambda: sg.zeros(3, 0) @ sg.zeros(0, 2)]
)
def test_nothing_is_dispatched_for_no_elements(make: Callable[[], sg.Tensor]) -> None:
    result = make()
    plan = compile_graph(Capture([result._node]).graph(), PORTABLE)[0]
    assert all(min(d.grid) > 0 for d in plan.dispatches)
    assert len(plan.dispatches) == (1 if result.numel() else 0)


def test_a_deep_chain_is_cut_and_its_parts_stay_apart() -> None:
    """Else compiling it would recurse as deep as it is long."""
    x = full(1, 7)
    for _ in range(1000):
        x = (x * 1.001).sin()
    plan = plan_of([x])
    assert 10 <= len(plan.dispatches) <= 40
    assert len(plan.kernels) < len(plan.dispatches)


def test_kernels_that_wait_for_each_other_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Schedule._link

    def linked_in_a_circle(self: Schedule) -> None:
        link(self)
        first, *_, last = self.fuser.groups.values()
        self.after[id(first)].add(id(last))

    monkeypatch.setattr(Schedule, "_link", linked_in_a_circle)
    x = full(1, 1000, 3)
    with pytest.raises(sg.CompileError, match=r"in a circle: (\w+) → (\w+) → \1\."):
        plan_of([(x.t() @ x.sum(1, keepdim=True).expand(1000, 2).exp())])


def test_rows_that_need_nothing_of_each_other_share_a_dispatch() -> None:
    """As long as their workgroups have as many threads."""
    x, y, z = full(1, 64, 200), full(2, 48, 200), full(3, 64, 700)
    assert len(plan_of([x.sum(1), (y * 2).sum(1).exp()]).dispatches) == 1
    assert len(plan_of([x.sum(1), z.sum(1)]).dispatches) == 2


def test_rows_that_can_wait_join_those_that_cannot() -> None:
    """The sums of x are wanted only at the end, those of the product before; both run in one dispatch, after the product."""
    x, y, w = full(1, 64, 200), full(2, 64, 16), full(3, 16, 200)
    early, late = x.sum(1), (y @ w).sum(1)
    plan = plan_of([(early + late).reshape(8, 8) @ full(1, 8, 8)], target=WIDE)
    names = [plan.kernels[d.kernel].archetype for d in plan.dispatches]
    assert names.count("row") == 1, names


def test_rows_of_which_one_reads_the_other_do_not_share() -> None:
    x = full(1, 64, 200)
    first = x.sum(1)
    assert len(plan_of([first, (x * first.flip(0).unsqueeze(1)).sum(1)], target=WIDE).dispatches) == 2


def test_a_cross_entropy_keeps_no_array_of_the_size_of_its_logits() -> None:
    """Neither log-probabilities nor probabilities: they are computed again from the logits and two numbers a row."""
    logits = sg.tensor(np.zeros((300, 256), np.float32), requires_grad=True)
    target = sg.tensor(np.arange(300) % 256)
    loss = sg.nn.functional.cross_entropy(logits, target)
    plan = plan_of([loss, *sg.autograd.grad(loss, [logits])], target=WIDE)
    assert sum(plan.slots) < 4 * 300 * 256 // 8


def test_the_gradient_of_logits_lies_where_they_lay() -> None:
    """Where nothing else reads the logits any more."""
    x, target = full(1, 300, 64), sg.tensor(np.arange(300) % 256)
    weight = full(1, 64, 256).requires_grad_()
    loss = sg.nn.functional.cross_entropy(x @ weight, target)
    plan = plan_of([loss, *sg.autograd.grad(loss, [weight])], target=WIDE)
    slots = [b.slot for b in plan.buffers if b.role == "temporary" and b.shape[-2:] == (300, 256)]
    assert len(slots) == 2
    assert slots[0] == slots[1]


def test_a_temporary_that_others_read_later_is_not_overwritten() -> None:
    h = full(1, 300, 64) @ full(1, 64, 256)
    plan = plan_of([h.t() @ h.softmax(1)], target=WIDE)
    last = [plan.buffers[row].slot for row in plan.dispatches[2].buffers if plan.buffers[row].role == "temporary"]
    assert len(last) == len(set(last)) >= 2


def test_equal_layers_are_rendered_once_and_bind_their_own_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that compiling grows with the number of different kernels. The values are compared by the tests of networks."""
    rendered = []
    for archetype, render in list(EMIT.items()):
        noted = lambda *a, render=render: rendered.append(a[0]) or render(*a)  # noqa: E731
        monkeypatch.setitem(EMIT, archetype, noted)
    counts = {}
    for depth in (3, 9):
        del rendered[:]
        x = full(1, 4, 64)
        for k in range(depth):
            x = (x @ full(k, 64, 64)).tanh().softmax(1)
        plan = plan_of([x])
        counts[depth] = len(rendered), len(plan.dispatches)
        assert len({d.buffers for d in plan.dispatches}) == len(plan.dispatches)
    assert counts[9][0] == counts[3][0]
    assert counts[9][1] == 3 * counts[3][1]


def test_kernels_that_overwrite_what_they_read_are_not_those_that_do_not() -> None:
    p, q, g = full(1, 8), full(2, 8), full(3, 8)
    free, over = plan_of([p - g]), plan_of([p - g], over=[p])
    both = plan_of([p - g, (q - g).sum()], over=[p])
    assert over.kernels[0].access == ("read_write", "read")
    assert free.kernels[0].access == ("read", "read", "read_write")
    assert both.kernels[0].access == ("read_write", "read")


# -- products

NATIVE = Target("wgsl", 64, 1024, 49152, traits=ROWS["native"])


def products_of(plan: Plan) -> list[Kernel]:
    """The kernels of the dispatches that are products."""
    return [kernel for d in plan.dispatches if (kernel := plan.kernels[d.kernel]).archetype == "dot"]


def test_both_gradients_of_a_layer_share_a_dispatch_and_count_both() -> None:
    g, w, x = full(1, 100, 36), full(1, 36, 52), full(1, 100, 52)
    (both,) = products_of(plan_of([g @ w, g.T @ x], target=NATIVE))
    assert both.flops == 2 * 2 * 100 * 36 * 52
    assert both.shape.count("tile") == 2
    assert both.source.count("var<workgroup>") == 2  # parts have the same workgroup memory


def test_the_longest_product_begins_and_all_have_memory_for_the_largest_tile() -> None:
    pairs = [(full(1, 64, 16), full(1, 16, 64)), (full(1, 256, 2048), full(1, 2048, 256))]
    (both,) = products_of(plan_of([a @ b for a, b in pairs], target=NATIVE))
    assert both.shape == "8 x 256 x 256 x 256 (tile 32 x 64 x 32) + 64 x 64 x 16 (tile 32 x 64 x 16)"
    assert f"tile_b: array<vec4<f32>, {64 * 32 // 4}>" in both.source


def test_a_product_that_waits_for_another_is_another_dispatch() -> None:
    a, b, c, d = full(1, 40, 30), full(1, 30, 20), full(1, 20, 50), full(1, 25, 30)
    plan = plan_of([(a @ b).softmax(-1) @ c, d @ b], target=NATIVE)
    first, second = (d for d in plan.dispatches if plan.kernels[d.kernel].archetype == "dot")
    assert plan.outputs[1] in first.buffers
    assert plan.outputs[0] in second.buffers


@pytest.mark.parametrize(
    ("size", "target"),
    [(2048, NATIVE), (36, PORTABLE), (36, replace(NATIVE, max_storage_buffers=4))],
    ids=["that fill the cores", "for a page", "with more buffers than a kernel may bind"],
)
def test_products_stay_apart(size: int, target: Target) -> None:
    a, b, c, d = (full(1, size, size) for _ in range(4))
    assert len(products_of(plan_of([a @ b, c @ d], target=target))) == 2


def test_equal_layers_share_the_kernel_of_their_gradients() -> None:
    g, results = full(1, 100, 48), []
    for layer in range(3):
        results.append(g.T @ full(layer, 100, 48))
        g = (g @ full(layer, 48, 48)).tanh()
    plan = plan_of([*results, g], target=NATIVE)
    assert [k.shape.count("tile") for k in products_of(plan)] == [2, 2, 2]
    assert len(set(products_of(plan))) == 1


def test_a_runner_is_told_of_each_kernel_once_the_products_first() -> None:
    x = full(1, 64, 64)
    twice = [(x * 2).sum(1), (x + 1) @ x, x.exp() + 3, (x + 1).T @ (x * 5), full(2, 64, 64).exp() + 3]
    told: list[Kernel] = []
    capture = Capture([t._node for t in twice])
    plan, _ = compile_graph(capture.graph(), PORTABLE, told.append)
    assert sorted(told, key=repr) == sorted(plan.kernels, key=repr)
    assert [k.archetype == "dot" for k in told] == sorted((k.archetype == "dot" for k in told), reverse=True)
    assert {k.archetype for k in told} == {"map", "row", "dot"}
    assert plan == compile_graph(capture.graph(), PORTABLE)[0]
