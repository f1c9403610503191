"""What a captured function leaves in places of Python, and each run leaves there anew."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..symbolic_sizes import Varying
from .places import MISSING, appended, contents, is_plain, put, refill
from .snapshot import Snapshot, is_unchanged
from .trees import exchange


class Outside:
    """A container of the outside within one that is made anew."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Effect:
    """What a run leaves in a place: a value, nothing (MISSING), or at the end of a list what is added to it.

    is_fresh: the value is another one at each call, made by exchanging its tensors.
    """

    def __init__(self, container: Any, key: Any, value: Any, path: str, adds: bool) -> None:
        self.container, self.key, self.value, self.path, self.adds = container, key, value, path, adds
        self.is_fresh = False

    def do(self, value: Any) -> None:
        if self.adds:
            self.container.extend(value)
        elif self.key is MISSING:
            refill(self.container, value)
        else:
            put(self.container, self.key, value)


def effects_of(snapshot: Snapshot) -> list[Effect]:
    """What a function left in places, before that is undone."""
    found: list[Effect] = []
    for container, before, path in snapshot.before.values():
        if isinstance(before, dict):
            for key, new in snapshot.differences(container, before):
                found.append(Effect(container, key, new, snapshot.name(container, key, path), False))
        elif isinstance(container, list) and len(container) == len(before):
            for k, new in enumerate(container):
                if new is not before[k]:
                    found.append(Effect(container, k, new, f"{path}[{k}]", False))
        elif not is_unchanged(container, before):
            found.append(_refilled(snapshot, container, before, path))
    for effect in found:
        effect.value = value = exchange(effect.value, Varying, int)
        effect.is_fresh = not (is_plain(value) or value is MISSING or id(value) in snapshot.known)
        if effect.is_fresh:
            effect.value = _with_outside_marked(snapshot, value)
    return found


def _refilled(snapshot: Snapshot, container: Any, before: Any, path: str) -> Effect:
    """The effect on a list, a deque or a set that has other elements."""
    if isinstance(container, list | deque):
        added = appended(before, list(container), getattr(container, "maxlen", None))
        if added is not None:
            return Effect(container, MISSING, added, path, True)
    snapshot.whole.setdefault(id(container), path)  # what comes of it depends on all that was in it
    for element in before:
        snapshot.know(element)
    return Effect(container, MISSING, contents(container), path, False)


def _with_outside_marked(snapshot: Snapshot, value: Any) -> Any:
    """A container that the function made, in which those that existed before are not to be copied."""
    if id(value) in snapshot.known:
        return Outside(value)
    if type(value) in (list, tuple):
        return type(value)(_with_outside_marked(snapshot, v) for v in value)
    if type(value) is dict:
        return {k: _with_outside_marked(snapshot, v) for k, v in value.items()}
    return value
