"""Placeholders for PyTorch's names that this library does not have.

A program may import a placeholder, annotate and decorate with it, derive from it, subscript it, pass it on, and call isinstance with it.
Every other use raises AbsentNameError, which gives the name. A placeholder does not pretend that the name exists: hasattr and getattr do
not find it, and a program that catches the ImportError or AttributeError gets that error.
"""

from __future__ import annotations

import functools
import inspect
import typing
from abc import ABCMeta
from types import FrameType, ModuleType
from typing import Any

from ..cpython import frame_of_caller, is_importing
from ..errors import ShadergradError
from . import missing_names, pytorch_names
from .name_lookups import asks_whether, decorates

HINT = "Hint: docs/from-pytorch.md says what is."
_made: dict[str, Absent] = {}


class AbsentNameError(ShadergradError, AttributeError, NotImplementedError):
    """A program uses a name of PyTorch's that this library does not have."""


def refusal(whole: str, frame: FrameType | None, obj: object = None, why: str = "") -> AbsentNameError:
    """The error for a use of the name. Also records the name for the list that is printed when the program ends."""
    missing_names.note(whole, frame)
    return AbsentNameError(f"{why or whole} is not in shadergrad. {HINT}", name=whole.rpartition(".")[2], obj=obj)


class Absent(ABCMeta):
    """The metaclass of placeholders, which are classes, so that they can be bases and annotations."""

    __absent__: str

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        return super().__new__(cls, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        super().__init__(name, bases, namespace)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        frame = frame_of_caller()
        if "__absent__" not in vars(cls):
            raise refusal(cls.__absent__, frame, cls, f"{cls.__name__} derives from {cls.__absent__}, which")
        decorating = decorates(frame)
        if decorating == "applied":
            return _decorated(args[0], cls.__absent__)
        if decorating == "made":
            return lambda thing: _decorated(thing, cls.__absent__)
        raise refusal(cls.__absent__, frame, cls)

    def __getattr__(cls, name: str) -> Any:
        if "__absent__" not in vars(cls) or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
        return attribute(cls.__absent__, name, frame_of_caller(), cls)

    def __setattr__(cls, name: str, value: Any) -> None:
        if "__absent__" in vars(cls) and not name.startswith("_"):
            raise refusal(f"{cls.__absent__}.{name}", frame_of_caller(), cls)
        super().__setattr__(name, value)

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __repr__(cls) -> str:
        return f"<absent {cls.__absent__}>" if "__absent__" in vars(cls) else super().__repr__()


def _refuse(cls: Any, *args: Any, **kwargs: Any) -> Any:
    raise refusal(cls.__absent__, frame_of_caller(), cls)


_USES = [
    "bool",
    "len",
    "iter",
    "next",
    "contains",
    "enter",
    "exit",
    "aenter",
    "aexit",
    "int",
    "float",
    "index",
    "complex",
    "lt",
    "le",
    "gt",
    "ge",
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "matmul",
    "rmatmul",
    "truediv",
    "rtruediv",
    "floordiv",
    "rfloordiv",
    "mod",
    "rmod",
    "pow",
    "rpow",
    "and",
    "rand",
    "xor",
    "rxor",
    "lshift",
    "rlshift",
    "rshift",
    "rrshift",
    "neg",
    "pos",
    "abs",
    "invert",
    "setitem",
    "delitem",
    "fspath",
    "array",
]
for _use in _USES:
    setattr(Absent, f"__{_use}__", _refuse)


def absent(whole: str) -> Absent:
    """The placeholder of a name such as "torch.fx.Tracer"; the same object each time."""
    if whole not in _made:
        module, _, name = whole.rpartition(".")
        # a name in an except clause must be an exception, a category of warnings a Warning
        bases = (
            (Warning,) if name.endswith("Warning") else (Exception,) if name.endswith(("Error", "Exception")) else ()
        )
        namespace = {
            "__absent__": whole,
            "__module__": module,
            "__qualname__": name,
            "__doc__": f"{whole}, which is not in shadergrad: a use of it raises.",
        }
        _made[whole] = Absent(name, bases, namespace)
    return _made[whole]


def attribute(module: str, name: str, frame: FrameType, obj: object) -> Any:
    """The placeholder of a missing name of a module. Raises AttributeError if PyTorch lacks the name, too, and if the
    program only tests whether it exists."""
    whole = f"{module}.{name}"
    if name in typing.__all__:  # PyTorch's modules re-export such names
        return getattr(typing, name)
    if pytorch_names.has_name(module, name) and not asks_whether(
        frame, "import" if is_importing(frame) else "attribute"
    ):
        return absent(whole)
    missing_names.note_question(whole, frame)
    raise AttributeError(f"{whole} is not in shadergrad. {HINT}", name=name, obj=obj)


def _decorated(thing: Any, whole: str) -> Any:
    """The result of decorating with an absent name: it can be defined, and raises an error when it is called."""
    why = f"{getattr(thing, '__qualname__', thing)} is decorated with {whole}, which"

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise refusal(whole, frame_of_caller(), None, why)

    if inspect.isclass(thing):
        thing.__init__ = refuse  # type: ignore[misc]
        return thing
    return functools.update_wrapper(refuse, thing) if callable(thing) else refuse


class StandIn(ModuleType):
    """A module under PyTorch's name. A name that it lacks gives a placeholder, or an AttributeError if PyTorch lacks it, too."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):  # look-ups by Python itself
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return attribute(self.__name__, name, frame_of_caller(), self)
