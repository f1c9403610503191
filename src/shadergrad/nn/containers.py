"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ..errors import IndexRangeError
from .errors import ModuleTypeError
from .module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]

L = TypeVar("L", bound="_Listed")


def position(index: Any, length: int) -> int:
    at = operator.index(index)
    if not -length <= at < length:
        raise IndexRangeError(f"index {at} is out of range")
    return at % length


class _Listed(Module):
    """Modules by position."""

    def _make(self, modules: Iterable[Module]) -> Any:
        """Another of this class."""
        raise NotImplementedError

    def __getitem__(self, index: int | slice) -> Any:
        self._guard()
        modules = list(self._modules.values())
        return self._make(modules[index]) if isinstance(index, slice) else modules[position(index, len(modules))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[position(index, len(self))], module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [names[position(index, len(names))]]:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def _renumber(self, modules: list[Module]) -> None:
        self._modules.clear()
        self._modules.update((str(k), m) for k, m in enumerate(modules))

    def __len__(self) -> int:
        self._guard()
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        self._guard()
        return iter(list(self._modules.values()))

    def append(self: L, module: Module) -> L:
        """Append a module; returns the container. Raises ModuleTypeError for anything but a Module."""
        self.add_module(str(len(self._modules)), module)
        return self

    def insert(self: L, index: int, module: Module) -> L:
        """Insert a module before position index; later modules get new names.

        Raises ModuleTypeError for anything but a Module.
        """
        if not isinstance(module, Module):
            raise ModuleTypeError(f"{type(module).__name__} is not a Module subclass")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self: L, modules: Iterable[Module]) -> L:
        """Append modules; returns the container.

        Raises ModuleTypeError for anything but an iterable of Modules.
        """
        if not isinstance(modules, Iterable):
            raise ModuleTypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got {modules!r}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def __iadd__(self: L, modules: Iterable[Module]) -> L:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> Any:
        return self._make([*self, *other])

    def pop(self, index: int | slice) -> Any:
        """Remove and return the module at a position; later modules get new names.

        Raises IndexRangeError for a position out of range.
        """
        found = self[index]
        del self[index]
        return found


class Sequential(_Listed):
    """Modules applied one after another, each to the result of the one before. Takes modules, or one dict of named modules.

    Indexing and slicing as for a list; a slice is a Sequential. Raises ModuleTypeError for anything but a Module,
    IndexRangeError for a position out of range.

    >>> model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    >>> model
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): ReLU()
    )
    >>> model(sg.ones(3, 4)).shape
    shadergrad.Size([3, 2])
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], Mapping) else enumerate(modules)
        for name, module in named:
            self.add_module(str(name), module)

    def _make(self, modules: Iterable[Module]) -> Sequential:
        return Sequential(*modules)

    def forward(self, input: Any) -> Any:
        """Apply all modules to input."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Listed):
    """A list of submodules, whose parameters are registered.

    It has no forward. append, extend, insert, pop, indexing, slicing and + as for a list. Raises ModuleTypeError for
    anything but a Module, IndexRangeError for a position out of range.

    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    >>> len(list(layers.parameters()))
    6
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _make(self, modules: Iterable[Module]) -> Any:
        return type(self)(modules)

    def __repr__(self) -> str:
        """Equal neighbours as one line, `(0-3): 4 x Linear(...)`."""
        blocks: list[tuple[int, int, str]] = []
        for k, text in enumerate(map(repr, self._modules.values())):
            if blocks and blocks[-1][2] == text:
                blocks[-1] = (blocks[-1][0], k, text)
            else:
                blocks.append((k, k, text))
        if not blocks:
            return f"{self._get_name()}()"
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in blocks]
        return f"{self._get_name()}(\n  " + "\n  ".join(line.replace("\n", "\n  ") for line in lines) + "\n)"


class ModuleDict(Module):
    """A dict of submodules in insertion order, whose parameters are registered; from a dict, another ModuleDict, or pairs.

    It has no forward. Raises ModuleTypeError for anything but a Module, ModuleKeyError for the name of an attribute.

    >>> choices = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    >>> choices["relu"]
    ReLU()
    >>> list(choices)
    ['relu', 'tanh']
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        self._guard()
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        self._guard()
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        self._guard()
        return iter(list(self._modules))

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> list[str]:
        """The names, in order."""
        return list(self)

    def values(self) -> list[Module]:
        """The modules, in order."""
        return [self[key] for key in self]

    def items(self) -> list[tuple[str, Module]]:
        """(name, module), in order."""
        return [(key, self[key]) for key in self]

    def pop(self, key: str) -> Module:
        """Remove and return the module of a name. Raises KeyError if there is none."""
        return self._modules.pop(key)

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def update(self, modules: Any) -> None:
        """Add the modules of a dict, another ModuleDict, or (name, module) pairs; existing names are replaced."""
        if not isinstance(modules, Iterable):
            raise ModuleTypeError(f"ModuleDict.update should be called with an iterable, but got {modules!r}")
        pairs: Any = modules.items() if isinstance(modules, Mapping | ModuleDict) else modules
        for key, module in pairs:
            self[key] = module
