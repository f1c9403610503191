"""Methods and properties that are added to Tensor, above the classes that define it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arguments import checked
from ..tensor import Tensor


def install_methods(methods: dict[str, Callable[..., Any]]) -> None:
    """Make functions of (self, ...) methods of Tensor, with checks of arguments, special methods apart."""
    for name, method in methods.items():
        if not name.startswith("_"):
            method.__name__ = method.__qualname__ = name
            method = checked(method, name, method=True)
        setattr(Tensor, name, method)


def install_properties(getters: dict[str, Callable[[Tensor], Any]]) -> None:
    """Make functions of self properties of Tensor. A function under several names is called by its first."""
    named: set[Any] = set()
    for name, getter in getters.items():
        if getter not in named:
            getter.__name__ = name
            named.add(getter)
        setattr(Tensor, name, property(getter))
