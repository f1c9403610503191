"""Guards of a capture: of all Python values that the function read, those that must be unchanged, and those that each call reads again."""

from __future__ import annotations

from typing import Any

from ..drive.tracing import Trace
from ..tensor import Tensor
from .effects import Effect
from .places import MISSING, held, keys_of
from .python_state import PlaceSlot, PythonState, form_of
from .snapshot import Snapshot, tensors_within
from .trees import tensors_in
from .watcher import Watcher


def state_of(watcher: Watcher, effects: list[Effect], result: Any, given: list[Tensor]) -> PythonState:
    """The guards and effects of a step. Call it after undo. given: the arguments that the function got as they are."""
    snapshot = watcher.snapshot
    state = PythonState(effects, watcher.asks_which)
    state.keys = [
        k for _, items, _ in snapshot.before.values() if isinstance(items, dict) for k in items if isinstance(k, Tensor)
    ]
    state.asks_which |= bool(state.keys)  # dicts find tensors by identity
    _guard_containers(state, snapshot, effects)
    tensors: dict[int, int] = {}  # the number of places that hold each tensor, by id
    for container, key, _ in snapshot.reads.values():
        for t in tensors_within(held(container, key)):
            tensors[id(t)] = tensors.get(id(t), 0) + 1
    state.tensors = frozenset(tensors)
    kept = [t for _, t in tensors_in((result, [e.value for e in effects if e.value is not MISSING]))]
    stays = {id(t) for t in kept} | {id(t._shared.storage) for t in kept if t._shared is not None}
    stays |= set(map(id, given))
    rewritten = {(id(e.container), e.key): e for e in effects if e.key is not MISSING}
    for (container_id, key), (container, _, path) in snapshot.reads.items():
        value = held(container, key)
        effect = rewritten.get((container_id, key))
        is_replaced = effect is not None or (container_id, key) in watcher.replaced
        is_asked = id(value) in snapshot.asked  # then an equal value cannot replace it
        inside = tensors_within(value) if is_replaced and not is_asked else []
        is_state = bool(inside) and (effect is None or any(True for _ in tensors_in(effect.value)))
        if is_state and all(tensors[id(t)] == 1 and _may_be_read_anew(watcher, t, stays) for t in inside):
            state.slots += [PlaceSlot(container, key, k, t, path) for k, t in enumerate(inside)]
            state.shapes.append((container, key, form_of(value)))
        elif not _is_guarded_by_its_module(watcher.trace, container, key, value):
            (state.exact if is_asked else state.places).append((container, key, value, path))
    state.settle()
    return state


def _guard_containers(state: PythonState, snapshot: Snapshot, effects: list[Effect]) -> None:
    """Guard the containers that were iterated as a whole, or whose length was read."""
    for container_id, path in snapshot.whole.items():
        container, before, _ = snapshot.before[container_id]
        own = [e for e in effects if e.container is container]
        if own and all(e.key is not MISSING for e in own) and keys_of(container) == keys_of(before):
            state.lengths.append((container, keys_of(before), path))  # guarded by element: calls may re-read some
            for key in before if isinstance(before, dict) else range(len(before)):
                snapshot.reads.setdefault((container_id, key), (container, key, f"{path}[{key!r}]"))
        else:
            state.whole.append((container, before, path))
    for container_id, path in snapshot.lengths.items():
        container, before, _ = snapshot.before[container_id]
        state.lengths.append((container, keys_of(before), path))


def _may_be_read_anew(watcher: Watcher, t: Tensor, stays: set[int]) -> bool:
    """Whether each call may read the place of a tensor instead of using the tensor. stays: the ids of tensors, and of
    the objects that they share, which the function returns or stores elsewhere.
    """
    node, ids = t._node, {id(t), id(t._cell())}
    if id(t) not in watcher.snapshot.alone or t.requires_grad or node.storage is None or node.owner is None:
        return False
    if id(t) in watcher.trace.grad_reads or id(t) in watcher.trace.grads:
        return False  # the slot belongs to one tensor
    owner = node.owner()
    is_its_own = owner is t or (owner is not None and t._cell() is owner and owner.tensor() is t)
    return is_its_own and not ids & (stays | watcher.trace.before.keys())


def _is_guarded_by_its_module(trace: Trace, container: Any, key: Any, value: Any) -> bool:
    """Whether a place is an attribute of an nn.Module whose own guard compares it."""
    if not (isinstance(container, dict) and "_parameters" in container and "_modules" in container):
        return False
    is_seen = any(name == "_settings" and owner.__dict__ is container for owner, name, _ in trace.attributes.values())
    is_simple = value is None or isinstance(value, bool | int | float | str)
    return is_seen and is_simple and key not in container.get("_unguarded", ())
