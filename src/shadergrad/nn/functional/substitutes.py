"""Functions that some devices compute whole, where others compute the operations that they are composed of.

In: a function of this folder. Out: the same, which on a device with a substitute of its name calls that instead. A
substitute takes the same arguments, and gives the same value and gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from ...tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")

_substitutes: dict[tuple[str, str], Callable[..., Any]] = {}  # by device and name
_replaceable: set[str] = set()


def substitute(device: str, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Let `device` compute these functions, by their names, in its own way."""
    assert _replaceable.issuperset(functions), f"no replaceable functions: {functions.keys() - _replaceable}"
    _substitutes.update({(device, name): function for name, function in functions.items()})


def replaceable(function: Callable[P, R]) -> Callable[P, R]:
    """The function, or the substitute on the device of its first argument."""
    name = function.__name__
    _replaceable.add(name)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _substitutes:
            first = args[0] if args else next(iter(kwargs.values()), None)
            found = _substitutes.get((first._node.device, name)) if isinstance(first, Tensor) else None
            if found is not None:
                return found(*args, **kwargs)
        return function(*args, **kwargs)

    return call
