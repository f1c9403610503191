"""The state of optimizers: dicts that report changes to a capture, and state tensors that a capture creates as if they had existed before.

State is created when a parameter is first updated. Scalars ('step') are one tensor for all parameters of a group that started
together, which saves a dispatch per parameter. If one of the parameters is not updated, the others get a new tensor, and
so does a parameter whose scalar a program reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple, Self

import numpy as np

from ..complex_numbers import view_as_real
from ..drive import execute, tracing
from ..drive.tracing import current, unwatched
from ..dtypes import DType, complex128, float32, float64
from ..graph.node import grad_mode
from ..tensor import Tensor, full


class Noted(dict):
    """A dict whose changes are reported to compiled steps."""

    def __setitem__(self, key: Any, value: Any) -> None:
        tracing.changes += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        tracing.changes += 1
        super().__delitem__(key)

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def clear(self) -> None:
        tracing.changes += 1
        super().clear()

    def pop(self, *args: Any) -> Any:
        tracing.changes += 1
        return super().pop(*args)

    def popitem(self) -> tuple[Any, Any]:
        tracing.changes += 1
        return super().popitem()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        tracing.changes += 1
        return super().setdefault(key, default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        tracing.changes += 1
        super().update(*args, **kwargs)


class States(Noted):
    """The state of all parameters; an empty one for a parameter without."""

    def __missing__(self, p: Any) -> Kept:
        made = self[p] = Kept()
        return made


class Kept(Noted):
    """The state of one parameter. Shared scalars become its own when a program reads or sets one."""

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self._shared: set[str] = set()

    def keep(self, name: str, value: Tensor, shared: bool) -> None:
        """Store a tensor, which other parameters may share."""
        super().__setitem__(name, value)
        (self._shared.add if shared else self._shared.discard)(name)

    def _part(self) -> None:
        """Stop sharing: scalars advance together."""
        for name in sorted(self._shared):
            self.keep(name, fresh_copy(super().__getitem__(name)), shared=False)

    def __setitem__(self, key: Any, value: Any) -> None:
        if key in self._shared:
            self._part()
        super().__setitem__(key, value)

    def __getitem__(self, key: Any) -> Any:
        if key in self._shared:
            self._part()
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self._shared:
            self._part()
        return super().get(key, default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else super().setdefault(key, default)

    def pop(self, *args: Any) -> Any:
        if args[0] in self._shared:
            self._part()
        return super().pop(*args)

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (dict(dict.items(self)), set(self._shared))


def _unpickled(items: dict[str, Any], shared: set[str]) -> Kept:
    result = Kept(items)
    result._shared = shared
    return result


class Within(MutableMapping[str, Any]):
    """A state as update rules see it: scalars stay shared."""

    __slots__ = ("_state",)

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def __getitem__(self, key: str) -> Any:
        return dict.__getitem__(self._state, key) if isinstance(self._state, Kept) else self._state[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._state[key] = value

    def __delitem__(self, key: str) -> None:
        del self._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def pairs_of(tensor: Tensor) -> Tensor:
    """The real and imaginary parts of a complex tensor, a view along a new last axis; any other tensor itself."""
    return view_as_real(tensor) if tensor.dtype.is_complex else tensor


class PairsWithin(Within):
    """The state of a complex parameter as an update rule sees it: pairs of real numbers."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return pairs_of(value) if isinstance(value, Tensor) else value


class Filling(NamedTuple):
    """A tensor of one value."""

    shape: tuple[int, ...]
    value: float | complex
    dtype: DType
    device: str


def held(state: dict[str, Any], name: str) -> Any:
    """A stored value without side effects; None if there is none."""
    return dict.get(state, name) if isinstance(state, Kept) else state.get(name)


def all_held(state: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """The items of a state, without side effects."""
    return dict.items(state)


def scalar_dtype(like: Tensor) -> DType:
    """The dtype of 0-d state, because half precision does not suit counts and rates."""
    return float64 if like.dtype in (float64, complex128) else float32


def outside(make: Callable[[], list[Tensor]]) -> list[Tensor]:
    """Tensors that a compiled step treats as if they had been made, and computed, before its capture began."""
    trace = current.trace
    with unwatched(), grad_mode(False):
        made = make()
        by_device: dict[str, list[Tensor]] = {}
        for t in made:
            by_device.setdefault(t._node.device, []).append(t)
        for together in by_device.values():
            execute.realize([t._node for t in together])
    if trace is not None:
        for t in made:
            t._serial = -abs(t._serial)
    return made


def filled(wanted: list[Filling]) -> list[Tensor]:
    """New state."""
    return outside(lambda: [full(f.shape, f.value, dtype=f.dtype, device=f.device) for f in wanted])


def fresh_copy(tensor: Tensor) -> Tensor:
    """A new tensor with the present value of another."""
    node = tensor._node
    if current.trace is None:
        with grad_mode(False):
            return outside(lambda: [tensor.clone()])[0]
    if node.storage is not None:
        return outside(lambda: [Tensor(execute.download(node), dtype=tensor.dtype, device=tensor.device)])[0]
    [made] = filled([Filling(tuple(tensor.shape), 0.0, tensor.dtype, node.device)])  # changed earlier in this capture
    return made.copy_(tensor)


def copied(value: Any) -> Any:
    """State with its tensors copied."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: copied(v) for k, v in all_held(value)}
    if isinstance(value, list | tuple):
        return type(value)(copied(v) for v in value)
    return value


def as_array(value: Any) -> np.ndarray:
    """A saved value as a host array, from a tensor of this library or of another."""
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def holders_of(
    name: str, states: Iterable[tuple[Tensor, dict[str, Any]]]
) -> dict[int, list[tuple[Tensor, dict[str, Any]]]]:
    """The parameters that share a tensor under a name, with their states, by its id."""
    found: dict[int, list[tuple[Tensor, dict[str, Any]]]] = {}
    for p, have in states:
        tensor = held(have, name)
        if isinstance(tensor, Tensor):
            found.setdefault(id(tensor), []).append((p, have))
    return found


def put(have: dict[str, Any], name: str, value: Tensor, shared: bool) -> None:
    if isinstance(have, Kept):
        have.keep(name, value, shared)
    else:
        have[name] = value
