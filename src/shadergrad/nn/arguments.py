"""What arguments must be: tensors, whole numbers, numbers within limits.

Every check raises in one line, with the name of what was called, the argument and its value.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from ..tensor import Tensor
from .errors import ArgumentError, ArgumentTypeError

F = TypeVar("F", bound=Callable[..., Any])

TENSORS = {"Tensor": False, "Tensor | None": True}  # annotations of arguments, and whether None will do


def takes_tensors(function: F, name: str = "") -> F:
    """The function behind a check: an argument that is annotated as a tensor is one, else ArgumentTypeError.

    name: what users call it, if not by its own name. Of a `forward`, the message names the module's class.
    """
    public = name or function.__name__
    parameters = inspect.signature(function).parameters
    wanted = {name: TENSORS[p.annotation] for name, p in parameters.items() if p.annotation in TENSORS}
    by_position = tuple((k, name) for k, name in enumerate(parameters) if name in wanted)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = len(args)
        for k, name in by_position:
            if k >= given:
                break
            value = args[k]
            if not isinstance(value, Tensor) and not (value is None and wanted[name]):
                refuse(_called(public, args), name, value, "Tensor")
        for name in kwargs:
            if name in wanted and not isinstance(kwargs[name], Tensor) and not (kwargs[name] is None and wanted[name]):
                refuse(_called(public, args), name, kwargs[name], "Tensor")
        return function(*args, **kwargs)

    if name:
        checked.__name__ = checked.__qualname__ = name
    return checked  # type: ignore[return-value]  # wraps gives another type, and the same signature


def _called(name: str, args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__ if name == "forward" else name


def refuse(what: str, name: str, value: Any, wanted: str) -> NoReturn:
    """Raise for an argument of another type."""
    kind = type(value)
    found = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    hint = " Hint: sg.tensor(...) makes one." if wanted == "Tensor" and value is not None else ""
    raise ArgumentTypeError(f"{what}(): argument '{name}' must be {wanted}, not {found}.{hint}")


def check_tensor(what: str, name: str, value: Any) -> Tensor:
    """The tensor that an argument must be."""
    return value if isinstance(value, Tensor) else refuse(what, name, value, "Tensor")


def whole(what: str, name: str, value: Any, least: int | None = None) -> int:
    """The whole number that an argument must be, and not below `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        refuse(what, name, value, "int")
    if least is not None and number < least:
        raise ArgumentError(f"{what}(): {_bound(name, least)}, but got {name}={value}.")
    return number


def _bound(name: str, least: int) -> str:
    if least == 0:
        return f"negative {name} is not supported"
    return f"{name} should be greater than zero" if least == 1 else f"{name} should be at least {least}"


def sizes(what: str, name: str, value: Any, least: int = 0) -> tuple[int, ...]:
    """The whole numbers that an argument gives, one or several, none below `least`."""
    given: tuple[Any, ...] = (value,)
    if isinstance(value, Iterable) and not isinstance(value, str):
        given = tuple(value)
    for size in given:
        try:
            operator.index(size)
        except TypeError:
            refuse(what, name, size, "int or a tuple of ints")
        if size < least:
            raise ArgumentError(f"{what}(): {_bound(name, least)}, but got {name}={value}.")
    return given


def per_axis(what: str, name: str, value: Any, rank: int, least: int = 0) -> tuple[int, ...]:
    """A whole number for every spatial axis, of one for all or of a list."""
    given = sizes(what, name, value, least)
    if len(given) not in (1, rank):
        raise ArgumentError(
            f"{what}(): expected {name} to be a single integer value or a list of {rank} values, but got {name}={value}."
        )
    return given * rank if len(given) == 1 else given


def number(what: str, name: str, value: Any) -> float:
    """The number that an argument must be."""
    if isinstance(value, str) or not hasattr(value, "__float__"):
        refuse(what, name, value, "float")
    return value
