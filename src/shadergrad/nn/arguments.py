"""What arguments of modules and their functions must be: tensors, a whole number for every axis; and what ..arguments has.

Every check raises in one line, with the name of what was called, the argument and its value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..arguments import mismatch, written
from ..arguments import number as number
from ..arguments import refuse as refuse
from ..arguments import sizes as sizes
from ..arguments import whole as whole
from ..errors import ArgumentError, ShadergradError
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

TENSORS = {"Tensor": False, "Tensor | None": True}  # annotations of arguments, and whether None will do


def takes_tensors(function: F, name: str = "", out: bool = False) -> F:
    """The function behind a check: an argument that is annotated as a tensor is one, else ArgumentTypeError.

    name: what users call it, if not by its own name. out: whether it may be told a tensor to write to. Of a `forward`, the message names the module's class.
    """
    public = name or function.__name__
    signature = inspect.signature(function)
    parameters = signature.parameters
    wanted = {name: TENSORS[p.annotation] for name, p in parameters.items() if p.annotation in TENSORS}
    by_position = tuple((k, name) for k, name in enumerate(parameters) if name in wanted)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = len(args)
        if out and "out" in kwargs:
            return written(public, kwargs.pop("out"), checked(*args, **kwargs))
        for k, name in by_position:
            if k >= given:
                break
            value = args[k]
            if not isinstance(value, Tensor) and not (value is None and wanted[name]):
                refuse(_called(public, args), name, value, "Tensor")
        for name in kwargs:
            if name in wanted and not isinstance(kwargs[name], Tensor) and not (kwargs[name] is None and wanted[name]):
                refuse(_called(public, args), name, kwargs[name], "Tensor")
        try:
            return function(*args, **kwargs)
        except ShadergradError:
            raise
        except TypeError:
            error = mismatch(_called(public, args), signature, args, kwargs)
            if error is None:
                raise
            raise error from None

    if name:
        checked.__name__ = checked.__qualname__ = name
    return checked  # type: ignore[return-value]  # wraps gives another type, and the same signature


def _called(name: str, args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__ if name == "forward" else name


def check_tensor(what: str, name: str, value: Any) -> Tensor:
    """The tensor that an argument must be."""
    return value if isinstance(value, Tensor) else refuse(what, name, value, "Tensor")


def per_axis(what: str, name: str, value: Any, rank: int, least: int = 0) -> tuple[int, ...]:
    """A whole number for every spatial axis, of one for all or of a list."""
    given = sizes(what, name, value, least)
    if len(given) not in (1, rank):
        raise ArgumentError(
            f"{what}(): expected {name} to be a single integer value or a list of {rank} values, but got {name}={value}."
        )
    return given * rank if len(given) == 1 else given
