"""Argument checks of modules and their functions: tensors, one int per axis, and the checks of ..arguments.

Every check raises a one-line error with the name of the called function, the argument and its value.
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
from ..errors import ArgumentError, DTypeError, ShadergradError
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

TENSORS = {"Tensor": False, "Tensor | None": True}  # annotations of tensor arguments, and whether None is permitted


def takes_tensors(function: F, name: str = "", out: bool = False, floating: bool = False) -> F:
    """Wraps a function in a check that arguments annotated as tensors are tensors, else ArgumentTypeError.

    name: the public name, if it differs. out: whether it has an `out` argument.
    floating: whether its first argument must be a floating tensor, else DTypeError. For a `forward`, the message names the module's class.
    """
    public = name or function.__name__
    signature = inspect.signature(function)
    parameters = signature.parameters
    wanted = {name: TENSORS[p.annotation] for name, p in parameters.items() if p.annotation in TENSORS}
    by_position = tuple((k, name) for k, name in enumerate(parameters) if name in wanted)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if out and "out" in kwargs:
            return written(public, kwargs.pop("out"), checked(*args, **kwargs))
        _check_tensors(public, by_position, wanted, args, kwargs)
        if floating:
            _check_floating(public, args[0] if args else next(iter(kwargs.values()), None))
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


def _check_tensors(
    what: str,
    by_position: tuple[tuple[int, str], ...],
    wanted: dict[str, bool],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """wanted: the arguments that must be tensors, by name, and whether None is permitted; by_position: their positions."""
    given = len(args)
    for k, name in by_position:
        if k >= given:
            break
        value = args[k]
        if not isinstance(value, Tensor) and not (value is None and wanted[name]):
            refuse(_called(what, args), name, value, "Tensor")
    for name, value in kwargs.items():
        if name in wanted and not isinstance(value, Tensor) and not (value is None and wanted[name]):
            refuse(_called(what, args), name, value, "Tensor")


def _check_floating(what: str, first: Any) -> None:
    if isinstance(first, Tensor) and first.dtype.category != 2:
        raise DTypeError(f"{what}() is not implemented for {first.dtype.name}. Hint: .float() first.")


def _called(name: str, args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__ if name == "forward" else name


def check_tensor(what: str, name: str, value: Any) -> Tensor:
    """Check that an argument is a tensor."""
    return value if isinstance(value, Tensor) else refuse(what, name, value, "Tensor")


def per_axis(what: str, name: str, value: Any, rank: int, least: int = 0) -> tuple[int, ...]:
    """An int for every spatial axis, from one for all or from a list."""
    given = sizes(what, name, value, least)
    if len(given) not in (1, rank):
        raise ArgumentError(
            f"{what}(): expected {name} to be a single integer value or a list of {rank} values, but got {name}={value}."
        )
    return given * rank if len(given) == 1 else given
