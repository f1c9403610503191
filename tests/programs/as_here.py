"""Runs programs under PyTorch without two of its accidents, which no one would want to have again, and with results that lie
row by row, as those of the library do (docs/from-pytorch.md).

Whether a view of what got a history since is taken for a leaf, and so refused to be written, depends on whether someone
asked for its grad_fn before: here someone always did. And a backward pass silently takes the value that a leaf has now where
`.data` was changed after the leaf was used: `SavedLeaves` tells of it (docs/from-pytorch.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


class AsHere(TorchFunctionMode):
    """Before every operation, tensors that it gets are asked for their gradient function; what it makes lies row by row."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tensors_of((*args, *(kwargs or {}).values()))  # of init.constant_(t), by name
        for t in given:
            ask(t)
        result = func(*args, **(kwargs or {}))
        memory = {t.untyped_storage().data_ptr() for t in given}
        # p.grad is no result; what is copied together lies as it did, for copies may share memory
        is_result = getattr(func, "__name__", "") not in ("__get__", "__deepcopy__")
        for t in tensors_of((result,)) if is_result else ():
            if t._base is None and t.untyped_storage().data_ptr() not in memory:
                lie_row_by_row(t)
        return result


def tensors_of(values: tuple[Any, ...]) -> list[torch.Tensor]:
    """Those among values, and in lists and tuples of them."""
    found = [e for v in values for e in (v if isinstance(v, list | tuple) else (v,))]
    return [t for t in found if isinstance(t, torch.Tensor)]


def lie_row_by_row(t: torch.Tensor) -> None:
    """Exchange the memory of a result that keeps the strides of what it was computed from."""
    if (
        not t.is_contiguous()
        and not isinstance(t, torch.nn.Parameter)
        and t.untyped_storage().nbytes() == 4 * t.numel()
    ):
        t.data = t.detach().contiguous()


def ask(t: torch.Tensor) -> None:
    """Let PyTorch bring the history of a view up to date."""
    try:
        _ = t.grad_fn
    except RuntimeError:  # a view made in no_grad of what was changed since: the operation says so itself
        return


class SavedLeaves(saved_tensors_hooks):
    """Notes whether a backward pass took another value of a leaf than the one that was used. changed: whether any did."""

    def __init__(self) -> None:
        super().__init__(self._pack, self._unpack)
        self.changed = False

    @staticmethod
    def _pack(saved: torch.Tensor) -> tuple[Any, ...]:
        is_leaf = saved.is_leaf and saved.requires_grad
        return saved, saved._version, saved.detach().clone() if is_leaf else None

    def _unpack(self, packed: tuple[Any, ...]) -> torch.Tensor:
        saved, version, value = packed
        if saved._version != version:  # which PyTorch leaves to such hooks
            raise RuntimeError(MODIFIED)
        if value is not None and not torch.equal(saved.detach(), value):
            self.changed = True
        return saved
