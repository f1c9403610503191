"""Attributes that a program sets on tensors: a compiled step reads and sets them as the function does, or refuses in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shadergrad as sg
from shadergrad import nn


class Holder:
    """An object of the program's with a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def of_a_global(x: Any, at: Holder) -> Any:
    at.tensor.count = getattr(at.tensor, "count", 0) + 1
    return x * at.tensor.count


def read_alone(x: Any, at: Holder) -> Any:
    return x * 2 if at.tensor.flag else x * 3


def asked_for(x: Any, at: Holder) -> Any:
    return x * 2 if hasattr(at.tensor, "later") else x * 3


def read_again(x: Any, at: Holder) -> Any:
    at.tensor.flag = not at.tensor.flag
    return x + 1.0 if at.tensor.flag else x - 1.0


PROGRAMS: dict[str, Callable[[Any, Holder], Any]] = {
    "counted": of_a_global,
    "read": read_alone,
    "asked for": asked_for,
    "turned": read_again,
}


@pytest.mark.parametrize("make", [lambda t: t, nn.Parameter, nn.Buffer], ids=["tensor", "parameter", "buffer"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_reads_and_sets_those_of_tensors_of_before(name: str, make: Callable[[Any], Any], device: str) -> None:
    seen = []
    for compiled in (False, True):
        at = Holder(make(sg.ones(2, device=device)))
        at.tensor.flag = True
        function = PROGRAMS[name]

        def program(x: Any, function: Any = function, at: Holder = at) -> Any:
            return function(x, at)

        run = sg.compile(program) if compiled else program
        found = [run(sg.ones(2, device=device)).tolist() for _ in range(3)]
        at.tensor.flag, at.tensor.later = False, 1
        found += [run(sg.ones(2, device=device)).tolist() for _ in range(2)]
        seen.append((found, at.tensor.flag, getattr(at.tensor, "count", None)))
    assert seen[1] == seen[0]


def test_a_step_sees_those_of_its_arguments(device: str) -> None:
    step = sg.compile(lambda x, **more: x * getattr(x, "factor", 3))
    for factor in (None, 2, 2, 5, None, 2):
        for more in ({}, {"k": 1}):
            x = sg.ones(2, device=device)
            if factor is not None:
                x.factor = factor  # type: ignore[attr-defined]
            assert step(x, **more).tolist() == [3.0 if factor is None else factor] * 2


def set_on_an_argument(x: Any) -> Any:
    x.mark = 1
    return x * 2


def changed_on_an_argument(x: Any) -> Any:
    x.mark_of_before += 1
    return x * 2


def set_on_a_result(x: Any) -> Any:
    found = x * 2
    found.mark = 1
    return {"found": found}


@pytest.mark.parametrize("function", [set_on_an_argument, changed_on_an_argument, set_on_a_result])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_those_that_later_calls_would_lose_are_refused(function: Any, requires_grad: bool, device: str) -> None:
    x: Any = sg.ones(2, device=device, requires_grad=requires_grad)
    x.mark_of_before = 1
    with pytest.raises(sg.CompileError, match=r"sets attributes \(mark"):
        sg.compile(function)(x)


def test_one_that_may_change_within_is_refused_on_an_argument(device: str) -> None:
    x: Any = sg.ones(2, device=device)
    x.names = ["a"]
    with pytest.raises(sg.CompileError, match="the attribute 'names', a list"):
        sg.compile(lambda x: x * 2)(x)
