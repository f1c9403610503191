"""The tree of modules: submodules, parameters and buffers by dotted names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ..tensor import Tensor
from .errors import ArgumentError, ModuleAttributeError
from .hooks import HookTables
from .parameter import Parameter

M = TypeVar("M", bound="ModuleTree[Any]")
Self = TypeVar("Self", bound="ModuleTree[Any]")


class ModuleTree(Generic[M]):
    """A module's parameters, buffers and children, and iterators over the tree of modules. M: the class of children, which is Module."""

    _parameters: OrderedDict[str, Parameter | None]
    _buffers: OrderedDict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: OrderedDict[str, M]
    _hooks: HookTables

    def _guard(self) -> None:
        """Report to a capture that it depends on the contents of this module."""
        raise NotImplementedError

    def children(self) -> Iterator[M]:
        """Each direct child once, in the order of assignment."""
        for _, child in self.named_children():
            yield child

    def named_children(self) -> Iterator[tuple[str, M]]:
        """Each direct child once, with its name."""
        self._guard()
        seen: set[int] = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, M]]:
        """This module and all below it, with dotted names; parents first.

        memo: modules that are left out, to which those found are added. prefix: the name of this module.
        remove_duplicate: each once, under the first of its names.
        """
        seen = set() if memo is None else memo
        this: Any = self
        if remove_duplicate:
            if this in seen:
                return
            seen.add(this)
        self._guard()
        yield prefix, this
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[M]:
        """This module and all below it, parents first; each once, or, with remove_duplicate=False, at each of its places."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named(self, table: str, prefix: str, recurse: bool, unique: bool) -> Iterator[tuple[str, Any]]:
        self._guard()
        seen: set[int] = set()
        for path, module in self.named_modules(None, prefix, unique) if recurse else [(prefix, self)]:
            for name, value in getattr(module, table).items():
                if value is not None and not (unique and id(value) in seen):
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Each parameter once, with its dotted name after prefix; recurse=False: this module's own alone.

        remove_duplicate=False: shared ones under each of their names.
        """
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Each parameter once, for an optimizer; recurse=False: this module's own alone."""
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Each buffer once, with its dotted name; arguments as of named_parameters."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Each buffer once; recurse=False: this module's own alone."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Any:
        """The module of a dotted name; '' for this one. Raises ModuleAttributeError if there is none."""
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise ModuleAttributeError(f"{type(found).__name__} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, ModuleTree):
                raise ModuleAttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Replace the module of a dotted name, or, unless strict, add one.

        Raises ArgumentError for an empty name and for anything but a module, ModuleAttributeError if the parent module
        does not exist, if the name is taken by something else, and with strict if it is free.
        """
        if target == "":
            raise ArgumentError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleTree):
            raise ArgumentError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if hasattr(parent, name):
            if not isinstance(getattr(parent, name), ModuleTree):
                raise ModuleAttributeError(f"`{name}` is not an nn.Module")
        elif strict:
            raise ModuleAttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name. Raises ModuleAttributeError if there is none."""
        return self._get(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name. Raises ModuleAttributeError if there is none."""
        return self._get(target, "_buffers", "a buffer")

    def _get(self, target: str, table: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise ModuleAttributeError(f"{type(module).__name__} has no attribute `{name}`")
        module._guard()
        if getattr(module, table).get(name) is None:
            raise ModuleAttributeError(f"`{name}` is not {what}")
        return getattr(module, table)[name]

    def apply(self: Self, fn: Callable[[Any], Any]) -> Self:
        """Call fn with every module, children first, then with this one, and return it: for example to initialize."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self
