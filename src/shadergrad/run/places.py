"""Places, the locations where Python keeps values: reading, comparing and restoring their contents.

A place is a container and a key: a namespace or an object's `__dict__` and a name, a dict and a key, a list and an index, the cell of
a closure variable, an attribute in a slot. Contents are compared as a program could distinguish them: plain values by value and type,
all others by identity.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from operator import is_
from types import CellType, MemberDescriptorType, MethodType
from typing import Any

import numpy as np

from ..tensor import Tensor

MISSING = type("Missing", (), {"__repr__": lambda self: "nothing"})()
LARGEST = 1000  # elements of a container that are compared; of larger containers only the length is


class Slots:
    """The attributes of an object without a dict."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.members = {
            name: member
            for kind in reversed(type(owner).__mro__)
            for name, member in vars(kind).items()
            if isinstance(member, MemberDescriptorType)
        }


class ClassAttributes:
    """The attributes of a class itself."""

    def __init__(self, owner: type) -> None:
        self.owner = owner
        self.get = vars(owner).get  # of the class's own dict, so that later changes are seen


def held(container: Any, key: Any) -> Any:
    """The content of a place; MISSING if it is empty."""
    if isinstance(container, dict):
        return dict.get(container, key, MISSING)
    if isinstance(container, ClassAttributes):
        return container.get(key, MISSING)
    if isinstance(container, CellType):
        try:
            return container.cell_contents
        except ValueError:
            return MISSING
    if isinstance(container, Slots):
        try:
            return container.members[key].__get__(container.owner)
        except AttributeError:
            return MISSING
    return container[key] if -len(container) <= key < len(container) else MISSING


def put(container: Any, key: Any, value: Any) -> None:
    """Store a value in a place; MISSING removes its content."""
    if isinstance(container, CellType):
        if value is MISSING:
            del container.cell_contents
        else:
            container.cell_contents = value
    elif isinstance(container, Slots):
        member = container.members[key]
        if value is MISSING:
            member.__delete__(container.owner)
        else:
            member.__set__(container.owner, value)
    elif isinstance(container, ClassAttributes):
        if value is MISSING:
            type.__delattr__(container.owner, key)
        else:
            type.__setattr__(container.owner, key, value)
    elif isinstance(container, list | deque):
        container[key] = value
    elif value is MISSING:
        dict.pop(container, key, None)
    else:
        dict.__setitem__(container, key, value)


def contents(container: Any) -> Any:
    """A copy of a container's contents."""
    if isinstance(container, CellType):
        return {"": held(container, "")}
    if isinstance(container, Slots):
        return {name: held(container, name) for name in container.members}
    if isinstance(container, ClassAttributes):
        return {name: value for name, value in vars(container.owner).items() if not name.startswith("__")}
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def keys_of(container: Any) -> Any:
    """The places in a container: the keys of a dict in order, else the number of elements."""
    return list(container) if isinstance(container, dict) else len(container)


def refill(container: Any, items: Any) -> None:
    """Replace the contents of a list, deque, set, dict or dataclass."""
    if isinstance(container, list):
        container[:] = items
    elif not isinstance(container, deque | set | dict):
        for name, value in items.items():
            object.__setattr__(container, name, value)
    else:
        container.clear()
        container.extend(items) if isinstance(container, deque) else container.update(items)


def appended(before: list[Any], after: list[Any], most: int | None) -> list[Any] | None:
    """The elements that were appended, if nothing else changed; most: the maximal length of the container."""
    added = len(after) - len(before)
    if most is not None and len(after) == most:  # a full deque may have dropped its first elements
        for kept in range(min(len(before), most), -1, -1):
            if all(map(is_, before[len(before) - kept :], after)):
                return after[kept:]
        return None
    return after[len(before) :] if added >= 0 and all(map(is_, before, after)) else None


def same(a: Any, b: Any) -> bool:
    """Whether a program cannot distinguish two values; for values that are not plain, whether they are identical."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)
    if isinstance(a, bool | int | str | bytes):
        return a == b
    if isinstance(a, complex | np.generic):
        return repr(a) == repr(b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, MethodType):
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    return False


def is_plain(value: Any) -> bool:
    """Whether a value is compared by type and value."""
    return value is None or isinstance(value, bool | int | float | str | bytes | complex | np.generic)


def same_contents(container: Any, items: Any) -> bool:
    """Whether a container has the same contents as before."""
    if len(container) != len(items):
        return False
    if len(items) > LARGEST:
        return True
    if isinstance(container, set):
        return container == items
    if isinstance(container, dict):
        return all(map(same, container, items)) and all(map(same, container.values(), items.values()))
    return all(map(is_, container, items)) or all(map(same, container, items))


def differences(container: Any, before: dict[Any, Any], asked: dict[int, Any]) -> Iterator[tuple[Any, Any]]:
    """The keys whose contents differ from before, with their new contents. asked: values, by id, which the program compared by identity, so
    an equal value counts as different.
    """
    now = contents(container) if not isinstance(container, dict) else container
    for key, old in before.items():
        new = now.get(key, MISSING)
        if new is not old and not (is_plain(new) and same(new, old) and id(old) not in asked and id(new) not in asked):
            yield key, new
    if len(now) > len(before) or any(k not in before for k in now):
        yield from [(key, value) for key, value in now.items() if key not in before]


def elements(value: Any) -> Iterator[Any]:
    """The elements of a value, if it is a container."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from value


def shown(value: Any) -> str:
    """A value as text for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value._node.shape)}"
    text = repr(value) if is_plain(value) or isinstance(value, tuple) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
