"""Runs a program under PyTorch and in a mode of the library, and finds the first difference.

Out: a Verdict. What PyTorch refuses must be refused, by an exception of its kind, and leave what PyTorch leaves. Two things
are allowed: to compute where PyTorch says that a saved value was changed, and, where steps are compiled, to refuse one with
a CompileError. The program stops there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import shadergrad as sg
from shadergrad.config import config

from .as_here import AsHere, ask, tensors_of
from .language import WAYS, Program, Statement, execute, namespace, observed

MODES = {  # how steps run (not compiled, compiled, as forward passes of compiled modules; PyTorch itself on our device), and the device
    f"{how}-{device}": (how, device) for device in ("cpu", "webgpu") for how in ("eager", *WAYS, "torch")
}
TOLERANCE = 1e-5  # values are exact in float32 by construction; steps of some optimizers are not

# where PyTorch stops, and the library need not: a right value of what was saved is as good, what is read before a write has
# its old value, one of several views is a view, and positions in a tensor are looked at when the value is computed
MAY_COMPUTE = (
    "modified by an inplace operation",
    "is out of bounds for dimension",
    "index out of range in self",
    "requiring a storage size of",  # index_fill_ of a position in an axis of size 0
    "returned an invalid gradient",
    "some elements of the input tensor and the written-to tensor refer to a single memory location",
    "is a view and is being modified inplace",
    "function that returns multiple views",
)


@dataclass(frozen=True)
class Difference:
    """The first thing that is not as in PyTorch."""

    kind: str  # value, property, accepted (PyTorch refuses), refused (PyTorch does not), other error, reading
    where: int  # of the statements
    statement: str
    path: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return (
            f"{self.kind} after statement {self.where}:\n    {self.statement.replace(chr(10), chr(10) + '    ')}\n"
            f"  {self.path}\n    PyTorch: {self.expected}\n    here:    {self.found}"
        )


@dataclass(frozen=True)
class Verdict:
    """What came of a program in a mode."""

    outcome: str  # same, allowed, refusal, different
    difference: Difference | None = None
    message: str = ""


@dataclass(frozen=True)
class Moment:
    """What PyTorch did at a statement, and all that could be seen then."""

    error: Exception | None
    seen: dict[str, Any]


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return function


def under_torch(program: Program) -> list[Moment]:
    """What each statement means."""
    space = namespace(torch, uncompiled)
    moments = []
    for statement in program.statements():
        with AsHere():
            error = execute(statement.text, space)
        moments.append(Moment(error, observed(space, torch.Tensor, values=statement.look)))
    return moments


@contextmanager
def default_device(device: str) -> Iterator[None]:
    """Tensors that name no device are made there."""
    before = sg.get_default_device()
    sg.set_default_device(device)
    try:
        yield
    finally:
        sg.set_default_device(before)


@contextmanager
def torchs_device(device: str) -> Iterator[None]:
    """PyTorch's device "webgpu" with one of ours behind it: its tensors that name no device are made there, and nothing runs on the host."""
    import shadergrad.torch
    from shadergrad.torch import host_fallback

    before = host_fallback.config
    host_fallback.config = replace(config, torch_fallback="error")
    shadergrad.torch.use(device)
    try:
        with torch.device("webgpu"):
            yield
    finally:
        shadergrad.torch.use("webgpu")
        host_fallback.config = before


def standing_on(how: str, device: str) -> AbstractContextManager[None]:
    """What a mode's programs run in."""
    return torchs_device(device) if how == "torch" else default_device(device)


def library_of(how: str) -> Any:
    """Whose functions and tensors a mode's programs use."""
    return torch if how == "torch" else sg


class Asked(TorchFunctionMode):
    """Tensors of PyTorch's that an operation gets are asked for their gradient function, as under `AsHere`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for t in tensors_of((*args, *(kwargs or {}).values())):
            ask(t)
        return func(*args, **(kwargs or {}))


def run(program: Program, mode: str, moments: list[Moment] | None = None) -> Verdict:
    """Run a program in a mode, beside what PyTorch did."""
    how, device = MODES[mode]
    moments = under_torch(program) if moments is None else moments
    with standing_on(how, device):
        return _run(program, how, moments)


def _run(program: Program, how: str, moments: list[Moment]) -> Verdict:
    is_compiled = how in WAYS
    library = library_of(how)
    space = namespace(library, WAYS.get(how, uncompiled))
    results: set[str] = set()
    for where, (statement, moment) in enumerate(zip(program.statements(), moments, strict=True)):
        with Asked() if how == "torch" else nullcontext():
            error = execute(statement.text, space)
        results |= set(statement.results) if how == "compiled" else set()
        verdict = judge_errors(where, statement, moment.error, error, is_compiled)
        if verdict is not None:
            return verdict
        try:
            seen = observed(space, library.Tensor, values=statement.look)
        except Exception as failure:
            if is_compiled and isinstance(failure, sg.CompileError):
                return Verdict("refusal", message=str(failure))
            found = f"{type(failure).__name__}: {failure}"
            return Verdict("different", Difference("reading", where, statement.text, "", "can be read", found))
        found = first_difference(moment.seen, seen, results)
        if found is not None:
            path, expected, got = found
            kind = "value" if path in moment.seen and isinstance(expected, float | list) else "property"
            return Verdict("different", Difference(kind, where, statement.text, path, expected, got))
    return Verdict("same")


def judge_errors(
    where: int, statement: Statement, theirs: Exception | None, ours: Exception | None, is_compiled: bool
) -> Verdict | None:
    """None where the program goes on."""
    if is_compiled and isinstance(ours, sg.CompileError):
        return Verdict("refusal", message=str(ours))
    words = [None if e is None else f"{type(e).__name__}: {e}" for e in (theirs, ours)]
    stopped = next((m for m in MAY_COMPUTE if m in str(theirs)), None)
    if stopped is not None and stopped not in str(ours) and may_come_later(ours):
        return Verdict("allowed", message=str(theirs))
    if (theirs is None) != (ours is None):
        kind = "refused" if theirs is None else "accepted"
        return Verdict(
            "different", Difference(kind, where, statement.text, "", words[0] or "goes on", words[1] or "goes on")
        )
    return judged(where, statement, theirs, ours)


def may_come_later(error: Exception | None) -> bool:
    """Whether what comes after a statement's first part may raise this: it is no accident of the library's."""
    if isinstance(error, AttributeError):
        return "has no setter" in str(error)  # x.T += y assigns to x.T in the end
    return error is None or isinstance(error, sg.errors.ShadergradError | NameError | TypeError)


def judged(where: int, statement: Statement, theirs: Exception | None, ours: Exception | None) -> Verdict | None:
    """Whether two exceptions are of one kind."""
    if theirs is None or isinstance(ours, type(theirs)):
        return None
    words = [f"{type(e).__name__}: {e}" for e in (theirs, ours)]
    return Verdict("different", Difference("other error", where, statement.text, "", *words))


def first_difference(
    expected: dict[str, Any], found: dict[str, Any], results: set[str] | frozenset[str] = frozenset()
) -> tuple[str, Any, Any] | None:
    """The first path at which two observations differ. Results of a compiled step are detached: their flags are not
    compared.
    """
    for path in [*expected, *(p for p in found if p not in expected)]:
        is_result = re.split(r"[.\[]", path)[0] in results
        if is_result and (".grad" in path or path.endswith((".requires_grad", ".is_leaf"))):
            continue
        value, got = expected.get(path, "not there"), found.get(path, "not there")
        if not equal(value, got):
            return path, value, got
    return None


def equal(a: Any, b: Any) -> bool:
    """Whether two observed values agree: numbers nearly, the rest exactly."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b
