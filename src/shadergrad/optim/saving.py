"""State dicts of optimizers: state by parameter number, and groups that list parameter numbers. Reference: torch.optim."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor
from .checks import MissingKeyError, OptimizerError
from .group import ParamGroup
from .state import Kept, as_array, copied, held, holders_of, put, scalar_dtype


def state_dict(groups: list[ParamGroup], state: dict[Tensor, dict[str, Any]]) -> dict[str, Any]:
    """The state for resuming, with copied tensors."""
    numbers: dict[Any, int] = {}
    for group in groups:
        for p in group["params"]:
            numbers.setdefault(p, len(numbers))
    packed = [
        {**{k: copied(v) for k, v in group.items() if k != "params"}, "params": [numbers[p] for p in group["params"]]}
        for group in groups
    ]
    return {"state": {numbers.get(p, p): copied(have) for p, have in state.items() if have}, "param_groups": packed}


def load(optimizer: Any, saved: dict[str, Any]) -> None:
    """Load a state saved by this library or PyTorch. Parameters without saved state start again.

    Raises OptimizerError before anything is changed.
    """
    for key in ("param_groups", "state"):
        if key not in saved:
            raise MissingKeyError(f"the loaded state dict must have '{key}', but it has {sorted(saved)}")
    packed = saved["param_groups"]
    if len(packed) != len(optimizer.param_groups):
        raise OptimizerError("loaded state dict has a different number of parameter groups")
    if [len(g["params"]) for g in packed] != [len(g["params"]) for g in optimizer.param_groups]:
        raise OptimizerError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )
    entries: list[list[tuple[Tensor, dict[str, Any] | None]]] = []
    for group, its in zip(optimizer.param_groups, packed, strict=True):
        options = _options(its)
        as_saved = ParamGroup({**group, **options})
        entries.append([])
        for p, number in zip(group["params"], its["params"], strict=True):
            found = saved["state"].get(number, saved["state"].get(str(number)))
            if found:
                found = optimizer.completed(dict(found), as_saved)
                optimizer.check_saved(p, number, found, as_saved)
            entries[-1].append((p, found or None))
    for group, its, found in zip(optimizer.param_groups, packed, entries, strict=True):
        for key, value in _options(its).items():
            group[key] = value
        for p, state in found:
            if state is None:
                optimizer.state.pop(p, None)
            else:
                optimizer.load_state(p, state, group)
        _load_scalars(optimizer, group, [(p, state) for p, state in found if state is not None])


def _options(saved: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters of a saved group; tensors are copied, those of other libraries too."""
    return {k: _option(v) for k, v in saved.items() if k != "params"}


def _option(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return (
            tuple(map(_option, value))
            if all(isinstance(v, int | float) or hasattr(v, "detach") for v in value)
            else value
        )
    if isinstance(value, Tensor):
        return value.detach().clone()
    return Tensor(np.asarray(value.detach().cpu())) if hasattr(value, "detach") else value


def load_slots(state: dict[Tensor, dict[str, Any]], p: Tensor, saved: dict[str, Any], scalars: tuple[str, ...]) -> None:
    """The state of one parameter, written to its existing tensors, so that nothing is recompiled."""
    have = state.get(p)
    if have is None:
        have = state[p] = Kept()
    for name, value in saved.items():
        if name in scalars:
            if name not in have:  # not setdefault, which would read a shared scalar, whose value may be lost
                have[name] = None  # in its place; `_load_scalars` gives the value
            continue
        before = held(have, name)
        if not (isinstance(value, Tensor | np.ndarray | float | int) or hasattr(value, "detach")):
            have[name] = copied(value)
            continue
        array = as_array(value)
        if isinstance(before, Tensor) and tuple(before.shape) == array.shape and before.device == p.device:
            before.write_(array)
        elif isinstance(value, bool | int | float):
            have[name] = value
        else:
            whole = array.dtype.kind == "c" if p.dtype.is_complex else p.is_floating_point() and array.shape
            dtype = p.dtype if whole else scalar_dtype(p)
            have[name] = Tensor(array, dtype=dtype, device=p.device)
    for name in [name for name in have if name not in saved]:
        del have[name]


def _load_scalars(optimizer: Any, group: ParamGroup, found: list[tuple[Tensor, dict[str, Any]]]) -> None:
    """The scalars of a group: parameters with equal values share one tensor again."""
    for name in optimizer.scalars_of(group):
        keepers = holders_of(name, optimizer._state.items())
        alike_ones: dict[Any, list[tuple[Tensor, np.ndarray]]] = {}
        for p, saved in found:
            array = as_array(saved[name]).reshape(())
            key = (array.astype(np.float64).item(), str(p.device), scalar_dtype(p).name)
            alike_ones.setdefault(key, []).append((p, array))
        for together in alike_ones.values():
            states = [optimizer._state[p] for p, _ in together]
            value = held(states[0], name)
            same = isinstance(value, Tensor) and all(held(have, name) is value for have in states)
            p, array = together[0]
            if same and len(keepers[id(value)]) == len(states) and value.device == p.device:
                value.write_(array)
                continue
            value = Tensor(array, dtype=scalar_dtype(p), device=p.device)
            for have in states:
                put(have, name, value, shared=len(states) > 1)
