"""Stores of a captured function into Python objects, which each run repeats."""

from __future__ import annotations

from collections import deque
from operator import is_
from typing import Any

from ..symbolic_sizes import Varying
from ..tensor import Tensor
from .places import MISSING, appended, contents, is_plain, put, refill
from .snapshot import Snapshot, is_unchanged
from .trees import containers_in, exchange, leaves_of, tensors_in


class Outside:
    """Marks a container that existed before, inside a container that each call creates."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Given:
    """Marks a container among the arguments, by number, because each call has its own arguments."""

    def __init__(self, number: int) -> None:
        self.number = number


class Effect:
    """A store that each run repeats in a place: a value, a deletion (MISSING), or elements that are appended to a list.

    is_fresh: each call makes a new value by replacing the tensors in it. holds_tensors: whether it contains tensors.
    """

    def __init__(self, container: Any, key: Any, value: Any, path: str, adds: bool) -> None:
        self.container, self.key, self.value, self.path, self.adds = container, key, value, path, adds
        self.is_fresh = self.holds_tensors = False

    def do(self, value: Any, given: list[Any]) -> None:
        """Repeat the store. given: the containers among the arguments."""
        if self.adds:
            self.container.extend(value)
        elif self.key is MISSING:
            refill(given[self.container.number] if isinstance(self.container, Given) else self.container, value)
        else:
            put(self.container, self.key, value)


def effects_of(snapshot: Snapshot, containers: list[tuple[Any, Any]], result: Any) -> tuple[list[Effect], Any]:
    """The stores of a function in places, collected before they are undone, and its result, in the form that each run repeats.
    containers: those among its arguments, with their previous contents.
    """
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
    made: dict[int, Any] = {}
    marked: dict[int, Any] = {id(value): Given(k) for k, (value, _) in enumerate(containers)}
    for value, held in containers:
        _, now = next(containers_in(value))
        if len(now) != len(held) or not all(map(is_, _parts(now), _parts(held))):
            found.append(
                Effect(marked[id(value)], MISSING, now, f"a {type(value).__name__} among the arguments", False)
            )
    for effect in found:
        value = effect.value
        effect.is_fresh = not (is_plain(value) or value is MISSING or id(value) in snapshot.known)
        effect.holds_tensors = any(True for _ in tensors_in(value))
        if effect.is_fresh or isinstance(value, Varying):
            effect.value = exchange(_with_outside_marked(snapshot, value, marked), Varying, int, made)
    return found, exchange(_with_outside_marked(snapshot, result, marked), Varying, int, made)


def _parts(held: Any) -> list[Any]:
    return [*held, *held.values()] if isinstance(held, dict) else held


def in_outside(value: Any, containers: list[tuple[Any, Any]]) -> list[Tensor]:
    """The tensors within a value that are in containers from outside, or among the arguments."""
    leaves = [leaf for _, leaf in leaves_of(value)]
    found = [leaf.value for leaf in leaves if isinstance(leaf, Outside)]
    found += [containers[leaf.number][0] for leaf in leaves if isinstance(leaf, Given)]
    return [t for _, t in tensors_in(found)]


def _refilled(snapshot: Snapshot, container: Any, before: Any, path: str) -> Effect:
    """The effect on a list, deque or set whose elements changed."""
    if isinstance(container, list | deque):
        added = appended(before, list(container), getattr(container, "maxlen", None))
        if added is not None:
            return Effect(container, MISSING, added, path, True)
    snapshot.whole.setdefault(id(container), path)  # the result depends on all of its elements
    for element in before:
        snapshot.know(element)
    return Effect(container, MISSING, contents(container), path, False)


def _with_outside_marked(snapshot: Snapshot, value: Any, made: dict[int, Any]) -> Any:
    """A copy of a container that the function made, in which containers that existed before are marked, so that runs do not copy them.
    made: the copies of containers encountered so far, by id.
    """
    if id(value) in snapshot.known:
        return Outside(value)
    if type(value) not in (list, tuple, dict) and id(value) not in made:
        return value
    if id(value) not in made:
        if type(value) is dict:
            made[id(value)] = {k: _with_outside_marked(snapshot, v, made) for k, v in value.items()}
        else:
            made[id(value)] = type(value)(_with_outside_marked(snapshot, v, made) for v in value)
    return made[id(value)]
