"""What a program written by hand is, and the table of all: cases.py and cases_left.py fill it.

A case takes `lib` (torch or shadergrad) and `compiled` (sg.compile or nothing) and yields tensors, numbers, or lists
and dictionaries of them. They are read when they are yielded, and compared in every mode.
"""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import shadergrad as sg

from .compare import MODES, Difference, Verdict, first_difference, library_of, standing_on, uncompiled
from .language import WAYS, observe

Run = Callable[[Any, Any], Iterator[Any]]


@dataclass(frozen=True)
class Case:
    """A program written by hand."""

    run: Run
    uses_step: bool
    may_refuse: bool  # a CompileError is as good: what it does with Python state cannot always be captured

    @property
    def name(self) -> str:
        return self.run.__name__


CASES: dict[str, Case] = {}


def case(run: Run) -> Run:
    """A program that no mode may refuse."""
    uses_step = any(i.argval == "compiled" for i in dis.get_instructions(run))
    CASES[run.__name__] = Case(run, uses_step, may_refuse=False)
    return run


def may_refuse(run: Run) -> Run:
    """A program that a compiled step may refuse in words."""
    CASES[run.__name__] = Case(run, uses_step=True, may_refuse=True)
    return run


def raises(function: Callable[[], Any], kind: type[Exception] = Exception) -> str:
    """What kind of exception a call raises: "refused", or "goes on"."""
    try:
        function()
    except sg.CompileError:
        raise
    except kind:
        return "refused"
    return "goes on"


def seen(values: Any, tensor_type: type) -> dict[str, Any]:
    """All that can be seen of what a case yields."""
    found: dict[str, Any] = {}
    observe(values, "yielded", tensor_type, values=True, found=found)
    return found


def run_case(case: Case, mode: str) -> Verdict:
    """The verdict of a case in a mode."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "To copy construct from a tensor")  # that it copies is the point
        return _run_case(case, mode)


def _run_case(case: Case, mode: str) -> Verdict:
    expected = [seen(v, torch.Tensor) for v in case.run(torch, uncompiled)]
    how, device = MODES[mode]
    is_compiled = how in WAYS
    results = {"yielded"} if how == "compiled" and case.uses_step else set()
    at = 0
    library = library_of(how)
    with standing_on(how, device):
        running = case.run(library, WAYS.get(how, uncompiled))
        for at, wanted in enumerate(expected):
            try:
                found = seen(next(running), library.Tensor)
            except sg.CompileError as error:
                if is_compiled and case.may_refuse:
                    return Verdict("refusal", message=str(error))
                return different("refused", at, case, "goes on", f"CompileError: {error}")
            except StopIteration:
                return different("property", at, case, "yields", "ends")
            except Exception as error:
                return different("refused", at, case, "goes on", f"{type(error).__name__}: {error}")
            difference = first_difference(wanted, found, results)
            if difference is not None:
                path, theirs, ours = difference
                return Verdict(
                    "different", Difference("value", at, f"the yield number {at} of {case.name}", path, theirs, ours)
                )
    return Verdict("same")


def different(kind: str, at: int, case: Case, theirs: str, ours: str) -> Verdict:
    return Verdict("different", Difference(kind, at, f"the yield number {at} of {case.name}", "", theirs, ours))
