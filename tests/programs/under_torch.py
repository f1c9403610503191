"""Runs programs under PyTorch without two of its accidents, which no one would want to have again.

Whether a view of what got a history since is taken for a leaf, and so refused to be written, depends on whether someone
asked for its grad_fn before: here someone always did. And a backward pass silently takes the value that a leaf has now where
`.data` was changed after the leaf was used: `SavedLeaves` tells of it (docs/differences.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


class Looking(TorchFunctionMode):
    """Before every operation, tensors that it gets are asked for their gradient function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for given in args:
            for t in given if isinstance(given, list | tuple) else (given,):
                if isinstance(t, torch.Tensor):
                    ask(t)
        return func(*args, **(kwargs or {}))


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
