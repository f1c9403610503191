"""Where kernels come from, and why two are two: what explain() and sg.profile tell."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.compile import plan_cache
from shadergrad.compile.pipeline import compile_graph
from shadergrad.drive import execute
from shadergrad.explanation import Origin, Why, merged, short
from shadergrad.nn import functional as F
from shadergrad.plan import Plan
from shadergrad.target import PORTABLE


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, 2)
        self.head = nn.Linear(8, 12)

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(self.embed(x)))


def training() -> Any:
    """The training step of a transformer of two blocks."""
    sg.manual_seed(0)
    model = Tagger()
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-3)

    @sg.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.fixture(scope="module")
def plan() -> Plan:
    return training().portable(sg.ones(2, 5, dtype=sg.int64)).plan


def kernels_of(plan: Plan, module: str, phase: str) -> list[int]:
    """Those of the dispatches that are from within a module."""
    dispatches = zip(plan.dispatches, plan.notes, strict=True)
    return [d.kernel for d, note in dispatches if note.origin.module.startswith(module) and note.origin.phase == phase]


def test_every_dispatch_of_a_transformer_has_an_origin(plan: Plan) -> None:
    assert len(plan.notes) == len(plan.dispatches)
    assert all(note.origin.name for note in plan.notes), plan.explain()
    names = {note.origin.name for note in plan.notes}
    here = Path(__file__).name
    assert {"embed", "head", "AdamW"} <= names
    assert any(name.startswith(here) for name in names)  # the loss is in no module
    assert {"forward", "backward", "update"} == {note.origin.phase for note in plan.notes}


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_attention_names_its_block_and_equal_blocks_share_kernels(plan: Plan, phase: str) -> None:
    first, second = (kernels_of(plan, f"encoder.layers.{k}.self_attn", phase) for k in range(2))
    assert len(first) == len(second) > 3
    assert set(first) == set(second)


def test_tables_keep_to_120_columns_and_a_plan_is_one_line(plan: Plan) -> None:
    for text in (plan.explain(), plan.explain(why=True)):
        assert max(map(len, text.splitlines())) <= 120
    assert "← encoder.layers.1.norm2" in plan.explain()
    assert "\n" not in repr(plan)


def test_no_plan_depends_on_lines() -> None:
    def doubled(x: Any) -> Any:
        return (x * 2).sum()

    def doubled_below(x: Any) -> Any:
        return (x * 2).sum()

    first, second = (sg.compile(f).portable(sg.ones(3)).plan for f in (doubled, doubled_below))
    assert first == second
    assert hash(first) == hash(second)
    assert first.to_json() == second.to_json()
    for plan, function in ((first, doubled), (second, doubled_below)):
        (note,) = plan.notes
        line = inspect.getsourcelines(function)[1] + 1
        assert note.origin == Origin("", f"{Path(__file__).name}:{line}", "forward")


def test_one_program_for_two_steps_tells_of_each_its_own_lines() -> None:
    steps = []
    for _ in range(2):
        steps.append(sg.compile(lambda x: x * 3))
    steps.append(sg.compile(lambda x: x * 3))
    for step in steps:
        step(sg.ones(3))
    lines = [step.plan.notes[0].origin.line for step in steps]
    assert lines[0] == lines[1] != lines[2]


# ---------------------------------------------------------------------------------- names


def names_in(function: Callable[..., Any], *args: Any) -> set[str]:
    return {str(note.origin) for note in sg.compile(function).node_by_node(*args).plan.notes}


def test_several_models_begin_their_names_with_their_variables() -> None:
    generator, critic = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 1))
    names = names_in(lambda x: critic(generator(x)), sg.ones(1, 2))
    assert {"generator.0", "critic.0"} <= names


def test_a_block_that_is_called_alone_has_the_name_that_its_model_gives_it() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 1))
    assert {"0.0", "0.1"} <= names_in(lambda x: model[0](x), sg.ones(1, 2))


def test_what_the_outermost_module_does_itself_has_its_classs_name() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.inner(x) + 1

    model = Shifted()
    assert {"Shifted", "inner"} <= names_in(lambda x: model(x), sg.ones(1, 2))


def test_what_is_computed_again_for_the_backward_pass_names_its_module() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def step(x: Any) -> Any:
        sg.checkpoint(model, x).sum().backward()
        return [p.grad for p in model.parameters()]

    assert {"backward of 0", "backward of 1"} <= names_in(step, sg.ones(1, 2))


def test_uncompiled_operations_are_not_looked_into() -> None:
    assert (sg.ones(2, requires_grad=True) * 2)._node.origin is None


def test_origins_merge_to_what_they_have_in_common() -> None:
    def module(*names: str) -> str:
        return merged(Origin(name) for name in names).module

    assert module("a.0.b", "a.0.b") == "a.0.b"
    assert module("a.0.b", "a.0.c") == "a.0"
    assert module("a.0.b", "a.1.b", "a.2.b") == "a.*.b"
    assert module("a.0", "AdamW") == "a.0, AdamW"
    assert module("a.0", "b.0", "c.0") == "a, b, ..."
    assert merged([Origin("", "f.py:1"), Origin("", "f.py:1", "backward")]) == Origin("", "f.py:1", "backward")
    assert merged([]) == Origin()


def test_counts_in_tables_are_short() -> None:
    assert [short(n) for n in (0, 999, 1000, 45_440, 999_700, 1_073_741_824)] == [
        "0",
        "999",
        "1k",
        "45.4k",
        "1M",
        "1.07G",
    ]


# ---------------------------------------------------------------------------------- reasons


def reasons(function: Callable[..., Any], *args: Any) -> list[tuple[Why, int]]:
    """Of all pairs of dispatches."""
    plan = sg.compile(function).portable(*args).plan
    for number, note in enumerate(plan.notes):
        assert all(apart.before < number for apart in note.separations)
    return [(apart.why, apart.n) for note in plan.notes for apart in note.separations]


w, large = sg.ones(8, 24), sg.ones(300, 8)


def waves(x: Any) -> Any:
    """What is dear to compute of one row."""
    return x[0].sin() * x[0].exp() + 1


REASONS: dict[str, tuple[Callable[..., Any], list[tuple[Why, int]]]] = {
    "a product reads a softmax": (lambda x: x.softmax(-1) @ w, [(Why.PRODUCT, 24)]),
    "a softmax reads a product": (lambda x: (x @ w).softmax(-1), [(Why.TILES, 0)]),
    "a sum along another axis": (lambda x: x.softmax(1).sum(0), [(Why.AXIS, 0)]),
    "a map that several read": (lambda x: [x + waves(x), (large * waves(x)).sum(1)], [(Why.SHARED, 2)] * 2),
    "a transposed sum": (lambda x: x.softmax(1).T + x.reshape(8, 16), [(Why.OTHER_POSITIONS, 0)]),
    "a row for all": (lambda x: [waves(x), x + waves(x)], [(Why.REPEATED, 16)]),
    "one kernel": (lambda x: (x.exp() + 1).softmax(-1), []),
}


@pytest.mark.parametrize("name", REASONS)
def test_why_two_kernels_are_two(name: str) -> None:
    function, expected = REASONS[name]
    assert reasons(function, sg.ones(16, 8)) == expected


def test_a_plan_from_disk_tells_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "config", replace(plan_cache.config, cache=str(tmp_path), debug=frozenset()))
    monkeypatch.setattr(plan_cache.verify, "enabled", False)
    compiled: list[Any] = []
    x = sg.ones(2, 5, dtype=sg.int64)
    training().portable(
        x
    )  # an optimizer's first state is computed within the capture, which would see `compiled` change

    def counted(*args: Any) -> Any:
        compiled.append(args[1])
        return compile_graph(*args)

    monkeypatch.setattr(execute, "compile_graph", lambda graph, target, *_: plan_cache.compiled(graph, target, counted))
    plans = [training().portable(x).plan for _ in range(2)]
    assert compiled.count(PORTABLE) == 1
    assert plans[0].notes == plans[1].notes
    assert any(note.separations for note in plans[0].notes)
    for why in (False, True):
        assert plans[0].explain(why) == plans[1].explain(why)
