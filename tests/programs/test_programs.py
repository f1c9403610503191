"""A thousand random programs, and those written by hand, mean in every mode what PyTorch says that they mean.

`python scripts/programs.py` runs others, and makes those that fail small; `make test-all` runs more. What is not yet as in
PyTorch stands in `features.TO_COME`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import shadergrad as sg
from programs import cases, cases_left  # noqa: F401  which fill the table
from programs.case import CASES, run_case
from programs.compare import MODES, run
from programs.constants import constants_noted
from programs.features import ALL, CASES_TO_COME, COMPANIONS, CORE, TO_COME, is_to_come
from programs.generate import generate
from programs.language import WAYS, Program, Statement, Step
from programs.net import Task, run_task
from programs.shrink import shrink
from shadergrad.run import captured

SIZE = 50  # programs a test


def assert_as_pytorch(first: int, size: int, modes: list[str]) -> None:
    """The programs of some seeds, each as far as its mode goes today."""
    tally = run_task(Task(tuple(range(first, first + size)), None), modes)
    failures = "\n\n".join(map(str, tally.failures[:2]))
    words = "`python scripts/programs.py --shrink --seeds N` makes one small"
    assert not tally.failures, f"{len(tally.failures)} programs differ from PyTorch ({words}):\n{failures}"
    for mode in modes:
        counts = {outcome: n for (m, outcome), n in tally.outcomes.items() if m == mode}
        assert sum(counts.values()) == size or MODES[mode][0] in WAYS
        assert counts.get("same", 0) > size // 5, f"{mode}: hardly a program ran to its end: {counts}"
        assert counts.get("refusal", 0) < size // 5, f"{mode}: too many steps are refused: {tally.refusals}"


@pytest.mark.parametrize("chunk", range(20))
def test_random_programs_mean_what_pytorch_says(chunk: int) -> None:
    assert_as_pytorch(chunk * SIZE, SIZE, ["eager-cpu", "compiled-cpu"])


@pytest.mark.parametrize("chunk", range(10))
def test_random_steps_mean_the_same_as_forward_passes_of_compiled_modules(chunk: int) -> None:
    assert_as_pytorch(chunk * SIZE, SIZE, ["module-cpu"])


@pytest.mark.parametrize("chunk", range(5))
def test_random_programs_mean_the_same_on_webgpu(chunk: int, webgpu: str) -> None:
    assert_as_pytorch(chunk * 20, 20, [f"eager-{webgpu}", f"compiled-{webgpu}"])


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs_mean_the_same_on_pytorchs_device(chunk: int, device: str) -> None:
    """PyTorch itself, with each of our devices behind its device "webgpu"; half as many there."""
    size = SIZE if device == "cpu" else SIZE // 5
    assert_as_pytorch(chunk * size, size, [f"torch-{device}"])


@pytest.mark.parametrize("name", CASES)
def test_programs_written_by_hand_mean_the_same_on_pytorchs_device(name: str) -> None:
    verdict = run_case(CASES[name], "torch-cpu")
    assert verdict.outcome == "same", verdict.difference


@pytest.mark.parametrize("name", CASES)
def test_programs_written_by_hand_mean_what_pytorch_says(name: str, device: str) -> None:
    case = CASES[name]
    for mode in ("eager", "compiled")[: 1 + case.uses_step]:
        if not is_to_come(CASES_TO_COME.get(name), f"{mode}-{device}"):
            verdict = run_case(case, f"{mode}-{device}")
            assert verdict.difference is None, f"{name}, {mode}: {verdict.difference}"


@pytest.mark.parametrize("chunk", range(4))
def test_no_constant_of_a_capture_is_in_the_memory_of_a_tensor(chunk: int) -> None:
    """A value whose owner a capture does not find becomes a constant of it: then there must be none."""
    with constants_noted() as found:
        run_task(Task(tuple(range(chunk * SIZE, (chunk + 1) * SIZE)), None), ["compiled-cpu"])
    assert found.count > 10
    assert not found.wrong, found.wrong[:3]


# -- the net itself


def test_a_value_whose_owner_is_not_found_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "shown_by", lambda node, began: None)
    unmade = object.__new__(sg.Tensor)  # as a traceback keeps one whose making failed
    weight = sg.ones(2)
    with constants_noted() as found:
        sg.compile(lambda x: x * weight)(sg.ones(2))
    assert found.count == len(found.wrong) > 0
    assert not hasattr(unmade, "_serial")


def test_a_seed_is_one_program() -> None:
    generate.cache_clear()
    first = [generate(seed, ALL).source() for seed in range(20)]
    generate.cache_clear()
    assert [generate(seed, ALL).source() for seed in range(20)] == first
    assert len(set(first)) == 20


def test_what_is_marked_is_known() -> None:
    assert TO_COME.keys() <= ALL - CORE
    assert COMPANIONS.keys() <= ALL
    assert frozenset().union(*COMPANIONS.values()) <= ALL
    assert CASES_TO_COME.keys() <= CASES.keys()
    words = {word for where in (*TO_COME.values(), *CASES_TO_COME.values()) for word in where.split()}
    assert words <= {"everywhere", "webgpu", *WAYS}


def lines(*texts: str) -> tuple[Statement, ...]:
    return tuple(map(Statement, texts))


def test_a_program_that_differs_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library whose add_ adds twice."""
    monkeypatch.setattr(sg.Tensor, "add_", lambda self, other: self.sub_(-2 * other))
    program = Program(
        lines("a = lib.tensor([1.0, 2.0])", "b = lib.ones(2)", "b.mul_(2.0)", "a.add_(1.0)", "c = b + 1"), ()
    )
    verdict = run(program, "eager-cpu")
    assert verdict.difference is not None
    assert (verdict.difference.path, verdict.difference.expected, verdict.difference.found) == (
        "a",
        [2.0, 3.0],
        [3.0, 4.0],
    )
    small, _ = shrink(program, "eager-cpu")
    assert [s.text for s in small.setup] == ["a = lib.tensor([1.0, 2.0])", "a.add_(1.0)"]


@pytest.mark.parametrize(
    ("texts", "name", "wrong", "path"),
    [
        (["p = lib.ones(2, requires_grad=True)", "p.add_(1)"], "add_", lambda self, _: self, ""),
        (["a = lib.ones(2)", "a.requires_grad_()"], "requires_grad_", lambda self: self, "a.requires_grad"),
        (["a = lib.ones(2)", "a.zero_()"], "zero_", lambda self: self.missing, ""),
        (
            ["p = lib.ones(2, requires_grad=True)", "p.sum().backward()"],
            "backward",
            lambda self: None,
            "p.grad is None",
        ),
    ],
    ids=["what PyTorch refuses", "a flag", "an exception", "a gradient"],
)
def test_the_net_sees(texts: list[str], name: str, wrong: object, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(lines(*texts), ())
    assert run(program, "eager-cpu").outcome == "same"
    monkeypatch.setattr(sg.Tensor, name, wrong)
    verdict = run(program, "eager-cpu")
    assert verdict.difference is not None
    assert verdict.difference.path == path


def test_a_refusal_in_words_is_allowed_of_a_compiled_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: object) -> object:
        def step(*args: object) -> object:
            raise sg.CompileError("no")

        return step

    monkeypatch.setattr(sg, "compile", refuse)
    program = Program((), lines("r = step(lib.ones(2))"), Step(("x",), lines("y = x + 1"), "y"))
    assert run(program, "compiled-cpu").outcome == "refusal"
    assert run(program, "eager-cpu").outcome == "same"
    assert run(replace(program, schedule=lines("step.absent")), "compiled-cpu").outcome == "same"
