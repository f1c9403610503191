"""The state before a capture: existing objects, and the contents of places when the function first accessed them.

In: objects and places, as the watcher encounters them. Out: the reads, which become guards; the changes, which become effects; and the
restored state.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from ..tensor import Tensor
from .attributes import is_network
from .places import MISSING, ClassAttributes, Slots, contents, differences, held, is_plain, put, refill
from .trees import tensors_in
from .users_code import is_users

LARGEST_WATCHED = (
    100_000  # the largest dict of which all items are compared; of a larger one, only those that the code names
)
PASSED = frozenset({"_unguarded"})  # attributes of modules that do not belong to the user


class Snapshot:
    """The state before the capture.

    known: objects, by id. before: the contents of containers when they were first accessed, by id; of namespaces only the names that were
    read. reads: places on which the function's course depends, with their source text; whole: containers that were read
    as a whole; lengths: containers whose length was read. alone: tensors that shared no memory when they were
    first accessed. asked: tuples and plain values whose identity the function compared, by id. functions: by the id of
    their code.
    """

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        self.before: dict[int, tuple[Any, dict[Any, Any] | Any, str]] = {}
        self.partial: set[int] = set()
        self.reads: dict[tuple[int, Any], tuple[Any, Any, str]] = {}
        self.whole: dict[int, str] = {}
        self.lengths: dict[int, str] = {}
        self.alone: dict[int, Tensor] = {}
        self.asked: dict[int, Any] = {}
        self.functions: dict[int, list[FunctionType]] = {}

    def is_known(self, value: Any) -> bool:
        """Whether an object existed before the capture, and may hold state."""
        if value is MISSING or is_plain(value) or isinstance(value, Tensor):
            return False
        return id(value) in self.known or isinstance(value, ModuleType | type) or is_network(value)

    def meet(self, value: Any) -> None:
        """Record a value that was in a place before the capture."""
        self.alone.update({id(t): t for t in tensors_within(value) if t._shared is None})
        self.know(value)

    def know(self, value: Any) -> None:
        """Record an object that existed before the capture, and its parts."""
        if is_plain(value) or isinstance(value, Tensor) or id(value) in self.known:
            return
        self.known[id(value)] = value
        if isinstance(value, FunctionType):
            self.functions.setdefault(id(value.__code__), []).append(value)
            for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
                self.know(default)
            if value.__closure__ and not is_users(value.__code__.co_filename):  # a wrapper of the library's
                for cell in value.__closure__:
                    self.know(held(cell, ""))
        elif isinstance(value, MethodType):
            self.know(value.__self__)
            self.know(value.__func__)
        elif isinstance(value, partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.know(part)
        elif isinstance(value, tuple):
            for element in value:
                self.know(element)

    def open(self, container: Any, path: str, *, is_namespace: bool = False) -> Any:
        """The contents of a container when it was first accessed."""
        if id(container) not in self.before:
            is_namespace = is_namespace or (isinstance(container, dict) and len(container) > LARGEST_WATCHED)
            if is_namespace:
                self.partial.add(id(container))
            self.before[id(container)] = (container, {} if is_namespace else contents(container), path)
        return self.before[id(container)][1]

    def at(self, container: Any, key: Any, path: str, is_read: bool = True, *, is_namespace: bool = False) -> Any:
        """The content of a place, recorded as a read if it is unchanged since before the capture."""
        before = self.open(container, path.rpartition(".")[0], is_namespace=is_namespace)
        now = held(container, key)
        if isinstance(before, dict):
            old = before.setdefault(key, now) if id(container) in self.partial else before.get(key, MISSING)
        else:
            old = before[key] if -len(before) <= key < len(before) else MISSING
        if now is old:
            if is_read:
                self.reads.setdefault((id(container), key), (container, key, path))
            self.meet(now)
        return now

    def slots(self, owner: Any) -> Slots:
        """The one Slots of an object."""
        slots = self.known.get(-id(owner))
        if slots is None:
            slots = self.known[-id(owner)] = Slots(owner)
        return slots

    def of_class(self, owner: type) -> ClassAttributes:
        """The one ClassAttributes of a class."""
        attributes = self.known.get(-id(owner))
        if attributes is None:
            attributes = self.known[-id(owner)] = ClassAttributes(owner)
        return attributes

    def name(self, container: Any, key: Any, path: str) -> str:
        """The source text of a place. path: that of its container."""
        if isinstance(container, CellType) or id(container) in self.partial:
            known = self.reads.get((id(container), key))
            return known[2] if known else f"{path}.{key}" if path else str(key)
        is_item = isinstance(container, dict) and any(c is container for c in self.known.values())
        return f"{path}[{key!r}]" if is_item else f"{path}.{key}"

    def undo(self) -> None:
        """Restore the contents of places from before the function ran."""
        for container, before, _ in self.before.values():
            if isinstance(before, dict):
                for key, _ in list(self.differences(container, before)):
                    put(container, key, before.get(key, MISSING))
                if type(container) is dict and id(container) not in self.partial and list(container) != list(before):
                    refilled = {k: container[k] for k in before}
                    container.clear()
                    container.update(refilled)
            elif not is_unchanged(container, before):
                refill(container, before)

    def differences(self, container: Any, before: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """The keys whose places have other contents than when they were first accessed, with these."""
        if id(container) in self.partial:
            found = ((k, held(container, k)) for k in before)
            yield from ((k, v) for k, v in found if v is not before[k])
        else:
            passed = PASSED if isinstance(container, dict) and "_parameters" in container else ()
            yield from ((k, v) for k, v in differences(container, before, self.asked) if k not in passed)


def is_unchanged(container: Any, before: Any) -> bool:
    """Whether a list, a deque or a set has the elements that it had."""
    if isinstance(container, set):
        return container == before
    return len(container) == len(before) and all(a is b for a, b in zip(container, before, strict=True))


def tensors_within(value: Any) -> list[Tensor]:
    """A tensor, or the tensors in a tuple, which is replaced as a whole."""
    return [t for _, t in tensors_in(value)] if isinstance(value, Tensor | tuple) else []
