"""Where CPython is not as it is known, steps run as they are written, say so once, and give right values.

Each assumption is broken by itself, as another interpreter might break it; the experiments must notice.
"""

from __future__ import annotations

import dis
import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import cpython, nn
from shadergrad.cpython import ASSUMPTIONS, InstructionTrace, instructions_of
from shadergrad.errors import CompileError

Break = Callable[[pytest.MonkeyPatch], Any]


class _Immortal:
    """In place of a weak reference: what it is made of stays."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __call__(self) -> Any:
        return self.thing


def _renamed(code: Any) -> Iterator[dis.Instruction]:
    for instruction in _get_instructions(code):
        yield instruction._replace(opname=instruction.opname.replace("LOAD_ATTR", "LOAD_MEMBER"))


_get_instructions, _getrefcount = dis.get_instructions, getattr(sys, "getrefcount", lambda _: 0)

BREAKS: dict[str, tuple[Break, ...]] = {
    "sys.getrefcount counts every object that holds another": (
        lambda patch: patch.delattr(sys, "getrefcount"),
        lambda patch: patch.setattr(sys, "getrefcount", lambda thing: 2),
        lambda patch: patch.setattr(sys, "getrefcount", lambda thing: _getrefcount(thing) - 3),
    ),
    "an object goes as soon as nothing holds it": (lambda patch: patch.setattr(cpython.weakref, "ref", _Immortal),),
    "the instructions that dis shows are those that are known here": (
        lambda patch: patch.setattr(dis, "get_instructions", _renamed),
        lambda patch: patch.setitem(cpython._PLAIN, "LOAD_GLOBAL", "other"),
    ),
    "a trace function is told of each instruction before it runs": (
        lambda patch: patch.setattr(sys, "settrace", lambda function: None),
        lambda patch: patch.setattr(cpython, "variable", lambda frame, name, missing: missing),
    ),
    "an instruction has a line": (lambda patch: patch.setattr(cpython, "line_at", lambda code, instruction: None),),
    "the garbage collector finds the functions that have a code": (
        lambda patch: patch.setattr(gc, "get_referents", lambda *things: []),
    ),
    "a flag tells the classes of Python code from those of C": (
        lambda patch: patch.setattr(cpython, "HEAP_TYPE", 1 << 40),
    ),
}
EACH = [pytest.param(words, ways, id=f"{words} {k}") for words, all in BREAKS.items() for k, ways in enumerate(all)]


@pytest.fixture
def broken() -> Iterator[Callable[[Break], list[str]]]:
    """Breaks something and examines all again; afterwards all is as it was."""
    with pytest.MonkeyPatch.context() as patch:

        def examined_after(way: Break) -> list[str]:
            way(patch)
            found = cpython.examine()
            patch.undo()  # what noticed is not what is to work without it
            return found

        yield examined_after
    assert not cpython.examine()


def test_this_interpreter_is_as_it_is_known() -> None:
    assert not cpython.refuted


def test_each_assumption_is_broken_here() -> None:
    assert BREAKS.keys() == ASSUMPTIONS.keys()


@pytest.mark.parametrize(("words", "way"), EACH)
def test_a_step_runs_as_written_where_an_assumption_does_not_hold(
    words: str, way: Break, broken: Callable[[Break], list[str]]
) -> None:
    assert words in broken(way)
    calls = []
    weight = sg.tensor([1.0, 2.0], device="cpu")

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        calls.append(len(calls))  # of a captured function the list would say so, too: the number is Python's
        return weight.add_(x).sum() * len(calls)

    x = sg.tensor([1.0, 1.0], device="cpu")
    with pytest.warns(UserWarning, match=r"steps run uncompiled: on .* it does not hold that") as said:
        results = [step(x), step(x), step(x)]
    values = [float(result) for result in results]
    assert values == [5.0, 14.0, 27.0]
    assert calls == [0, 1, 2]
    assert step.captures == 0
    (warning,) = said
    assert cpython.interpreter() in str(warning.message)
    assert words in str(warning.message)
    assert warning.filename == __file__


def _trained(is_compiled: bool) -> list[np.ndarray]:
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = sg.optim.Adam(model.parameters(), lr=0.1)
    x = sg.tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3))

    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = sg.compile(step) if is_compiled else step
    losses = [step(x).item() for _ in range(5)]
    return [np.array(losses), *(p.detach().numpy() for p in model.parameters())]


@pytest.mark.filterwarnings("ignore:steps run uncompiled")
def test_training_is_the_same_where_references_cannot_be_counted(broken: Callable[[Break], list[str]]) -> None:
    expected = _trained(is_compiled=False)
    broken(lambda patch: patch.delattr(sys, "getrefcount"))
    assert cpython.references(expected) == sys.maxsize
    for found, wanted in zip(_trained(is_compiled=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_compiled_step_is_right_where_it_takes_all_memory_as_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too high a count costs a copy and nothing else."""
    expected = _trained(is_compiled=False)
    monkeypatch.setattr(cpython, "references", cpython._uncounted)
    assert cpython.references(expected) == sys.maxsize
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as where steps run uncompiled
        found = _trained(is_compiled=True)
    for ours, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:steps run uncompiled")
def test_views_are_right_where_references_cannot_be_counted(broken: Callable[[Break], list[str]]) -> None:
    broken(lambda patch: patch.delattr(sys, "getrefcount"))
    whole = sg.zeros(4, device="cpu")
    part = whole[1:3]
    part += 1
    del part
    whole.mul_(2)
    alias = whole.detach()
    whole.add_(1)
    assert alias.tolist() == whole.tolist() == [1.0, 3.0, 3.0, 1.0]


@pytest.mark.filterwarnings("ignore:steps run uncompiled")
def test_a_module_runs_as_written_where_an_assumption_does_not_hold(broken: Callable[[Break], list[str]]) -> None:
    broken(BREAKS["an instruction has a line"][0])
    model = nn.Linear(2, 1, bias=False)
    sg.compile(model)(sg.ones(3, 2)).sum().backward()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[3.0, 3.0]]


def test_asking_for_a_plan_says_why_there_is_none(broken: Callable[[Break], list[str]]) -> None:
    broken(BREAKS["an instruction has a line"][0])
    step = sg.compile(lambda x: x + 1)
    with pytest.raises(CompileError, match=r"a step cannot be captured: on .* an instruction has a line"):
        step.portable(sg.ones(2))
    with pytest.raises(CompileError, match="an instruction has a line"):
        step.explain()


def test_an_interpreter_whose_experiment_raises_is_told_of_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises() -> bool:
        raise SystemError("no such thing here")

    monkeypatch.setitem(ASSUMPTIONS, "this raises nothing", raises)
    assert cpython.examine() == ["this raises nothing"]
    monkeypatch.undo()
    assert not cpython.examine()


def test_nothing_is_said_where_all_holds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sg.compile(lambda x: x + 1)(sg.ones(2)).tolist() == [2.0, 2.0]


# -- the pieces


def _many_names() -> Any:
    """A function with so many names and such long jumps that instructions have prefixes."""
    names = "\n".join(f"        q.a{k}" for k in range(300))
    source = f"def f(q):\n    global last_of_many\n    if q:\n{names}\n    last_of_many = q\n    return q.b\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), namespace)
    return namespace["f"]


class _Any:
    def __getattr__(self, name: str) -> int:
        return 1


def test_each_instruction_that_runs_is_told_of_where_it_begins() -> None:
    function = _many_names()
    instructions = [i for i in instructions_of(function.__code__) if i.kind != "nothing"]
    seen: list[int] = []
    points = {i.offset: i.offset for i in instructions}
    trace = InstructionTrace[int](
        lambda frame: points if frame.f_code is function.__code__ else None,
        lambda frame, offset: seen.append(offset),
        lambda frame, value: None,
    )
    trace.run(function, (_Any(),), {})
    assert any(i.kind == "set global" for i in instructions)
    assert seen == list(points)


def test_following_code_leaves_a_tracer_of_before_at_work() -> None:
    events: list[str] = []

    def tracer(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code is function.__code__:
            events.append(event)
        return tracer

    def function() -> int:
        return 1

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        InstructionTrace[int](lambda frame: {}, lambda frame, what: None, lambda frame, value: None).run(
            function, (), {}
        )
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert events == ["call", "line", "return"]


def test_a_reference_through_an_attribute_counts_alike_in_all_versions() -> None:
    class Holder:
        inner: Any

    holder, other = Holder(), Holder()
    holder.inner = Holder()
    counts = [cpython.references(holder.inner)]
    other.inner = holder.inner
    counts.append(cpython.references(holder.inner))
    variable = other.inner
    counts.append(cpython.references(holder.inner))
    assert variable is other.inner
    assert [count - cpython.ASKING for count in counts] == [1, 2, 3]
