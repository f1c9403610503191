"""What a program is, how it reads, and how it runs.

A program is a setup, perhaps one function `step`, and a schedule: calls of the step and statements between them. Each
statement is a line or a block of Python over the names `lib` (torch or shadergrad), `compiled` (sg.compile or nothing),
`copy`, `state` and `together`, so that what is printed is what ran.
"""

from __future__ import annotations

import copy
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, SimpleNamespace
from typing import Any

import shadergrad as sg

PRELUDE = """\
import copy
from types import SimpleNamespace
import {lib} as lib
compiled = {compiled}
state = SimpleNamespace()
"""
TOGETHER = """\
from programs.language import together  # the calls, each in its own thread, and what they gave
"""


MODULE = """\
from programs.language import as_module  # the step as the forward pass of a compiled module
"""


@dataclass(frozen=True)
class Statement:
    """A statement: its text, the features that it shows, and what is known of it."""

    text: str
    features: frozenset[str] = frozenset()
    look: bool = True  # whether all values are compared after it; what is pending stays pending otherwise
    results: tuple[str, ...] = ()  # names that hold what a step gave


@dataclass(frozen=True)
class Step:
    """The function that is compiled in compiled mode."""

    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    returns: str
    cell: str | None = None  # the first value of `cell`, a variable of the function around the step

    def captured(self) -> set[str]:
        """The names around it that it uses."""
        names = set[str]().union(*(code(s.text).co_names for s in self.body), code(self.returns).co_names)
        return names - set(self.parameters)

    def source(self) -> str:
        """The definition as Python."""
        lines = ["@compiled", f"def step({', '.join(self.parameters)}):"]
        lines += [f"    {line}" for statement in self.body for line in statement.text.splitlines()]
        lines.append(f"    return {self.returns}")
        if self.cell is None:
            return "\n".join(lines)
        inner = [f"    {line}" for line in lines]
        change = ["    def change(value):", "        nonlocal cell", "        cell = value", "    return step, change"]
        return "\n".join(["def make(cell):", *inner, *change, f"step, change = make({self.cell})"])


@dataclass(frozen=True)
class Program:
    """A setup, a step or none, and a schedule."""

    setup: tuple[Statement, ...]
    schedule: tuple[Statement, ...]
    step: Step | None = None
    seed: int = field(default=-1, compare=False)

    @property
    def features(self) -> frozenset[str]:
        """All that its statements show."""
        body = self.step.body if self.step else ()
        return frozenset[str]().union(*(s.features for s in (*self.setup, *body, *self.schedule)))

    def statements(self) -> Iterator[Statement]:
        """What runs at the top level, in order."""
        yield from self.setup
        if self.step:
            yield Statement(self.step.source(), look=False)
        yield from self.schedule

    def source(self, lib: str = "shadergrad", how: str = "compiled") -> str:
        """The whole program as Python that can be pasted. how: the step is run, one of WAYS."""
        text_of = {"compiled": "lib.compile", "module": "as_module"}
        compiler = text_of.get(how if lib == "shadergrad" else "", "lambda function: function")
        lines = [MODULE.rstrip()] if compiler == "as_module" else []
        lines.append(PRELUDE.format(lib=lib, compiled=compiler).rstrip())
        text = [s.text + ("  # all values are read" if s.look else "") for s in self.statements()]
        if any("together(" in t for t in text):
            lines.append(TOGETHER.rstrip())
        return "\n".join([*lines, *text])


class _Called(sg.nn.Module):
    """A function as the forward pass of a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def as_module(function: Callable[..., Any]) -> Any:
    """A compiled module whose forward pass is the function."""
    return sg.compile(_Called(function))


def together(step: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], times: int = 8) -> list[Any]:
    """What a thread for each of `arguments` gets from calling `step` so many times, or what was raised there. Python changes
    between the threads as often as it can.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gate = threading.Barrier(len(arguments))
    given: list[Any] = [None] * len(arguments)

    def call(index: int) -> None:
        gate.wait()
        try:
            given[index] = [step(*arguments[index]) for _ in range(times)]
        except sg.CompileError as error:
            refused.append(error)
        except Exception as error:
            given[index] = f"raised {type(error).__name__}: {error}"

    refused: list[sg.CompileError] = []
    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(arguments))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if refused:
        raise refused[0]
    return given


def in_turns(step: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], times: int = 8) -> list[Any]:
    """What `together` gives where threads do not meet: under PyTorch, in which writing to views of one tensor from several
    threads blocks for ever now and then, and uncompiled, where nothing is promised of such writes."""
    given: list[Any] = []
    for each in arguments:
        try:
            given.append([step(*each) for _ in range(times)])
        except Exception as error:
            given.append(f"raised {type(error).__name__}: {error}")
    return given


WAYS = {"compiled": lambda function: sg.compile(function), "module": as_module}  # how steps are compiled

HIDDEN = {
    "lib",
    "copy",
    "compiled",
    "together",
    "SimpleNamespace",
    "__builtins__",
    "__warningregistry__",
    "q",
    "step",
    "change",
    "make",
}


def namespace(lib: Any, compiled: Callable[..., Any]) -> dict[str, Any]:
    """The names that a program begins with."""
    return {
        "lib": lib,
        "copy": copy,
        "compiled": compiled,
        "together": together if compiled in WAYS.values() else in_turns,
        "SimpleNamespace": SimpleNamespace,
        "state": SimpleNamespace(),
    }


@lru_cache(maxsize=20_000)
def code(text: str) -> CodeType:
    """A statement, ready to run."""
    return compile(text, "<program>", "exec")


def execute(text: str, space: dict[str, Any], local: dict[str, Any] | None = None) -> Exception | None:
    """Run a statement; what it raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's advice on lib.tensor(tensor)
            exec(code(text), space, space if local is None else local)
    except Exception as error:
        return error
    return None


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container, an object of attributes or a module leads to, each with what is written after its name."""
    if isinstance(value, list | tuple):
        yield from ((f"[{index}]", element) for index, element in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", element) for key, element in value.items())
    elif isinstance(value, SimpleNamespace):
        yield from ((f".{name}", element) for name, element in vars(value).items())
    elif hasattr(value, "named_buffers"):  # a module
        yield from ((f".{name}", parameter) for name, parameter in value.named_parameters())
        yield from ((f".{name}", buffer) for name, buffer in value.named_buffers())


def observe(value: Any, path: str, tensor_type: type, *, values: bool, found: dict[str, Any]) -> None:
    """Note what can be seen of a value, by a path: properties of tensors always, their elements where `values`."""
    if isinstance(value, tensor_type):
        note_tensor(value, path, tensor_type, values=values, found=found)
    elif value is None or isinstance(value, bool | int | float | str):
        found[path] = value
    else:
        if isinstance(value, list | tuple):
            found[f"len({path})"] = len(value)
        for more, element in parts(value):
            observe(element, path + more, tensor_type, values=values, found=found)


def note_tensor(tensor: Any, path: str, tensor_type: type, *, values: bool, found: dict[str, Any]) -> None:
    """What can be seen of a tensor."""
    found[f"{path}.shape"] = tuple(tensor.shape)
    found[f"{path}.dtype"] = str(tensor.dtype).rpartition(".")[2]
    found[f"{path}.requires_grad"] = bool(tensor.requires_grad)
    found[f"{path}.is_leaf"] = bool(tensor.is_leaf)
    gradient = tensor.grad if tensor.is_leaf else None
    found[f"{path}.grad is None"] = gradient is None
    if gradient is not None:
        observe(gradient, f"{path}.grad", tensor_type, values=values, found=found)
    if values:
        found[path] = tensor.tolist()


def observed(space: dict[str, Any], tensor_type: type, *, values: bool) -> dict[str, Any]:
    """All that can be seen of a namespace."""
    found: dict[str, Any] = {}
    for name, value in list(space.items()):
        if name not in HIDDEN:
            observe(value, name, tensor_type, values=values, found=found)
    return found
