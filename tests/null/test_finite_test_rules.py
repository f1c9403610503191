"""Tests of many arrays for infinities and NaN: which graphs they are, and how many kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_simplify import Graph

import shadergrad as sg
from dawn_front_end import FrontEnd
from shadergrad.compile import finite_tests, lower
from shadergrad.compile.pipeline import compile_graph
from shadergrad.compile.rewrite import Rewriter
from shadergrad.dtypes import DType, bfloat16, bool_, float16, float32, int32
from shadergrad.graph import build
from shadergrad.graph.capture import Capture
from shadergrad.graph.node import Node, make, topological
from shadergrad.plan import Plan
from shadergrad.primitives.elementwise import Cast, IsFinite, Maximum, Not
from shadergrad.primitives.reduce import ReduceMax
from shadergrad.primitives.views import Slice
from shadergrad.target import PORTABLE, Target
from shadergrad.tensor import flush

WIDE = Target("wgsl", max_storage_buffers=16)


def flag(x: Node, axes: Sequence[int] | None = None) -> Node:
    """1 if an element is infinite or NaN, as a GradScaler writes it."""
    bad = build.cast(make(Not(), make(IsFinite(), x)), int32)
    most = make(ReduceMax(tuple(range(x.ndim)) if axes is None else tuple(axes)), bad)
    return build.cast(make(Cast(bool_), build.reshape(most, ())), float32)


def most_of(flags: Sequence[Node]) -> Node:
    return functools.reduce(lambda a, b: make(Maximum(), a, b), flags)


def rewritten(node: Node, target: Target = PORTABLE) -> Node:
    return Rewriter((*finite_tests.RULES, *lower.RULES), "cpu", target).rewrite([node])[id(node)]


def calls(node: Node) -> list[int]:
    """The numbers of arrays that kernels test."""
    return [len(n.inputs) for n in topological([node], lambda n: n.inputs) if n.primitive.name == "nonfinite"]


@pytest.mark.parametrize("bad", [None, 0, 1, 2, 3, 4])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_the_rule_keeps_the_value(bad: int | None, value: float) -> None:
    """Of arrays that one row holds, that are reduced in parts, of halves, transposed, and of one element."""
    graph = Graph()
    shapes: list[tuple[tuple[int, ...], DType]] = [
        ((5, 7), float32), ((5001,), float32), ((33,), float16), ((4, 3), bfloat16), ((), float32),
    ]  # fmt: skip
    arrays = [graph.input(*shape, dtype=dtype) for shape, dtype in shapes]
    if bad is not None:
        graph.values[bad][(-1,) * graph.values[bad].ndim] = value
    seen = [build.transpose(x) if k in (0, 3) else x for k, x in enumerate(arrays)]
    before = most_of([flag(x if x.dtype is float32 else build.cast(x, float32)) for x in seen])
    after = rewritten(before)
    assert calls(after) == [5]
    assert graph.evaluate(after) == graph.evaluate(before) == float(bad is not None)


@pytest.mark.parametrize(
    ("count", "target", "expected"),
    [
        (2, PORTABLE, [2]),
        (7, PORTABLE, [7]),
        (8, PORTABLE, [7, 1]),
        (20, PORTABLE, [7, 7, 6]),
        (20, replace(PORTABLE, checked=True), [6, 6, 6, 2]),
        (40, WIDE, [15, 15, 10]),
    ],
)
def test_a_kernel_tests_as_many_arrays_as_it_may_bind(count: int, target: Target, expected: list[int]) -> None:
    graph = Graph()
    after = rewritten(most_of([flag(graph.input(3, 4)) for _ in range(count)]), target)
    assert [n for n in calls(after) if n > 1] == [n for n in expected if n > 1]
    assert graph.evaluate(after) == 0


def test_an_array_is_bound_once() -> None:
    graph = Graph()
    x, y = graph.input(3), graph.input(4)
    assert calls(rewritten(most_of([flag(x), flag(y), flag(x)]))) == [2]


OTHERS: dict[str, Callable[[Graph], Node]] = {
    "one array": lambda g: flag(g.input(3)),
    "a part": lambda g: most_of([flag(make(Slice((1,), (3,), (1,)), g.input(9))) for _ in range(2)]),
    "integers": lambda g: make(Maximum(), build.cast(g.input(dtype=int32), float32), flag(g.input(3))),
    "numbers": lambda g: make(Maximum(), g.input(), flag(g.input(3))),
    "the other way round": lambda g: most_of(
        [build.cast(make(Cast(bool_), build.reshape(make(ReduceMax((0,)), build.cast(make(IsFinite(), g.input(3)), int32)), ())), float32)] * 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_graphs_keep_their_form(name: str) -> None:
    graph = Graph()
    before = OTHERS[name](graph)
    after = rewritten(before)
    assert not calls(after)
    assert graph.evaluate(after) == graph.evaluate(before)


def test_rows_that_are_tested_one_by_one_keep_their_form() -> None:
    graph = Graph()
    each = [make(ReduceMax((1,)), build.cast(make(Not(), make(IsFinite(), graph.input(3, 4))), int32)) for _ in "ab"]
    before = make(Maximum(), *(build.cast(x, float32) for x in each))
    assert not calls(rewritten(before))


def plan_of_step(layers: int, target: Target) -> Plan:
    """Of a GradScaler's step: tests, and the update of the parameters."""
    flush(views=True)
    parameters = [sg.tensor(np.ones((3, 4 + k), np.float32), requires_grad=True) for k in range(layers)]
    for p in parameters:
        p.grad = sg.tensor(np.ones(p.shape, np.float32))
    scaler = sg.amp.GradScaler("cpu")
    scaler.scale(sg.ones(()))
    flush(views=True)
    optimizer: Any = sg.optim.SGD(parameters, lr=0.1)
    scaler.unscale_(optimizer)
    found = [scaler._found[optimizer], *(p.grad for p in parameters)]
    return compile_graph(Capture([t._node for t in found if t is not None]).graph(), target)[0]


@pytest.mark.parametrize(("layers", "tests"), [(6, 1), (15, 1), (16, 2), (60, 4)])
def test_a_scalers_tests_are_few_dispatches(layers: int, tests: int) -> None:
    """As many as kernels that bind all gradients, and one for their results, beside one for a gradient that is left; others unscale the gradients."""
    plan = plan_of_step(layers, WIDE)
    kinds = [plan.kernels[d.kernel].archetype for d in plan.dispatches]
    assert kinds.count("call") <= tests
    assert kinds.count("row") == 1 + (layers % 15 == 1)
    assert all(len(d.buffers) <= 16 for d in plan.dispatches)
    assert not FrontEnd().refused(k.source for k in plan.kernels)
