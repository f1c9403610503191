"""The Python state of a compiled step: values other than tensors that its function reads and stores.

While a function is captured, the watcher records its reads from places (watcher.py). The contents become guards: a call that finds
other values causes a recompilation. Stores become effects: each run repeats them, with its own tensors. If a place held a tensor, and
the function stores another one there, the first is an input of the step, read from there at each call.
"""

from __future__ import annotations

from types import CellType
from typing import Any

from ..drive import tracing
from ..graph.node import Node
from ..tensor import Tensor
from .effects import Effect
from .places import MISSING, ClassAttributes, held, keys_of, same, same_contents, shown
from .snapshot import tensors_within
from .trees import exchange, tensors_in


def form_of(value: Any) -> Any:
    """The properties that another value with tensors must share to replace this one."""
    return exchange(value, Tensor, lambda t: (t._node.shape, t._node.dtype, t._node.device))


class PlaceSlot:
    """The tensor that is in a place at the time of a call. number: its position among the tensors in the place."""

    def __init__(self, container: Any, key: Any, number: int, tensor: Tensor, path: str) -> None:
        self.container, self.key, self.number, self.path = container, key, number, path
        self.first: Tensor | None = tensor  # until the capture is over

    @property
    def tensor(self) -> Tensor:
        value = held(self.container, self.key)
        return value if isinstance(value, Tensor) else [t for _, t in tensors_in(value)][self.number]

    @property
    def _node(self) -> Node:
        return self.tensor._node


class PythonState:
    """The reads and stores of a captured function, except those of tensors' values.

    Guards, which must hold for the capture to be reused, each with its source text at the end: places: (container, key, value, text);
    exact: the same, for values that must be the same object; whole: (container, its items, text); lengths: (container, its keys or
    their number, text).
    slots: tensors that each call reads again; shapes: the properties in which they must agree. effects: the stores that each run
    repeats; `fresh`: those of them that get new values. tensors: ids of the tensors found in places, while the capture lasts.
    asks_which: whether the function may have compared identities of tensors. keys: tensors that are keys of dicts which it read.
    """

    def __init__(self, effects: list[Effect], asks_which: bool) -> None:
        self.asks_which = asks_which
        self.keys: list[Tensor] = []
        self.places: list[tuple[Any, Any, Any, str]] = []
        self.exact: list[tuple[Any, Any, Any, str]] = []
        self.whole: list[tuple[Any, Any, str]] = []
        self.lengths: list[tuple[Any, Any, str]] = []
        self.slots: list[PlaceSlot] = []
        self.shapes: list[tuple[Any, Any, Any]] = []
        self.tensors: frozenset[int] = frozenset()
        self.effects = effects
        self.fresh = [e for e in effects if e.is_fresh]
        self._dicts: list[tuple[Any, Any, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._others: list[tuple[Any, Any, Any]] = []
        self._wakes = any(
            "_parameters" in e.container and e.key == "_training" for e in effects if isinstance(e.container, dict)
        )

    def settle(self) -> None:
        """Sort the guards by kind of look-up."""
        for container, key, value, _ in self.places:
            if isinstance(container, ClassAttributes) or (
                isinstance(container, dict) and type(container).get is dict.get
            ):
                self._dicts.append((container.get, key, value))
            elif isinstance(container, CellType) and value is not MISSING:
                self._cells.append((container, value))
            else:
                self._others.append((container, key, value))

    def forget(self) -> None:
        """Release the tensors of the capture."""
        for effect in self.fresh:
            effect.value = None
        for slot in self.slots:
            slot.first = None

    def met(self) -> list[Tensor]:
        """The tensors in places that must stay the same, and those that are dict keys."""
        whole = (v for _, items, _ in self.whole for v in (items.values() if isinstance(items, dict) else items))
        found = [
            t for v in (*(value for _, _, value, _ in (*self.places, *self.exact)), *whole) for t in tensors_within(v)
        ]
        return [*found, *self.keys]

    def met_anew(self, tensors: list[Tensor]) -> set[int]:
        """The numbers of those given tensors that are in places which each call reads again, if the function may compare identities."""
        if not (self.asks_which and self.slots):
            return set()
        found = {id(slot.tensor) for slot in self.slots}
        return {k for k, t in enumerate(tensors) if id(t) in found}

    @property
    def is_empty(self) -> bool:
        """Whether the function read no Python state that could change."""
        return not (self.places or self.exact or self.whole or self.lengths or self.slots)

    def holds(self, changed: list[Tensor], met: set[int], arguments: list[Tensor]) -> bool:
        """Whether the Python state is as the function found it. changed: tensors that it changes; met: ids of tensors whose identity it
        may compare.
        """
        for get, key, value in self._dicts:
            found = get(key, MISSING)
            if found is not value and not same(found, value):
                return False
        for cell, value in self._cells:
            try:
                found = cell.cell_contents
            except ValueError:
                return False
            if found is not value and not same(found, value):
                return False
        if any(not same(held(container, key), value) for container, key, value in self._others):
            return False
        if any(held(container, key) is not value for container, key, value, _ in self.exact):
            return False
        for container, items, _ in self.whole:
            if not same_contents(container, items):
                return False
        for container, keys, _ in self.lengths:
            if keys_of(container) != keys:
                return False
        return not self.slots or (self._slots_hold(changed, met) and not self.met_anew(arguments))

    def _slots_hold(self, changed: list[Tensor], met: set[int]) -> bool:
        for container, key, form in self.shapes:
            if form_of(held(container, key)) != form:
                return False
        found = [slot.tensor for slot in self.slots]
        ids = {id(t) for t in found}
        if len(ids) < len(found) or ids & met:
            return False
        return not any(t._shared is not None or t.requires_grad or any(t is c for c in changed) for t in found)

    def broken(self) -> str:
        """The first changed guard, in words; "" if all hold."""
        own = {(id(e.container), e.key) for e in self.effects}
        for container, key, value, path in self.places:
            found = held(container, key)
            if not same(found, value):
                words = f"{path} went from {shown(value)} to {shown(found)}"
                is_own = (id(container), key) in own
                return (
                    f"{words} (the step changes it itself: keep it in a tensor, or outside the step)"
                    if is_own
                    else words
                )
        for container, key, value, path in self.exact:
            if held(container, key) is not value:
                return f"{path} is another object than the {type(value).__name__} that it was"
        for container, items, path in self.whole:
            if not same_contents(container, items):
                same_size = len(container) == len(items)
                return (
                    f"{path} has other elements"
                    if same_size
                    else f"{path} went from {len(items)} to {len(container)} elements"
                )
        for container, keys, path in self.lengths:
            if keys_of(container) != keys:
                return f"{path} has other keys, or another number of elements"
        for container, key, form in self.shapes:
            if form_of(held(container, key)) != form:
                slot = next(s for s in self.slots if s.container is container and s.key == key)
                return f"the tensor in {slot.path} has another shape, dtype or device"
        return ""

    def values(self) -> list[Any]:
        """The new values that each run stores in places, with tensors of the capture."""
        return [e.value for e in self.fresh]

    def do(self, values: list[Any], given: list[Any]) -> None:
        """Repeat the function's stores. values: of `fresh`; given: the containers among the arguments."""
        new = iter(values)
        for effect in self.effects:
            effect.do(next(new) if effect.is_fresh else effect.value, given)
        if self._wakes:
            tracing.changes += 1
