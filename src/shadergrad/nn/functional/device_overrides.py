"""Functions that some devices implement directly, and others by a composition of operations.

In: a function of this folder. Out: a function that calls the device's substitute of the same name, if there is one. A
substitute takes the same arguments, and gives the same value and gradients. If it raises, the composition is called, and
raises the function's own error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from ...tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")

_overrides: dict[tuple[str, str], Callable[..., Any]] = {}  # by device and name
_overridable: set[str] = set()


def override(device: str, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register a device's implementations of these functions, by name."""
    assert _overridable.issuperset(functions), f"no overridable functions: {functions.keys() - _overridable}"
    _overrides.update({(device, name): function for name, function in functions.items()})


def overridable(function: Callable[P, R]) -> Callable[P, R]:
    """The function, or the substitute of the device of its first argument."""
    name = function.__name__
    _overridable.add(name)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _overrides:
            first = args[0] if args else next(iter(kwargs.values()), None)
            found = _overrides.get((first._node.device, name)) if isinstance(first, Tensor) else None
            if found is not None:
                with suppress(RuntimeError, IndexError, TypeError, ValueError):
                    return found(*args, **kwargs)
        return function(*args, **kwargs)

    return call
