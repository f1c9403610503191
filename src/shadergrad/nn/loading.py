"""Atomic loading of a state dict: all of it, or nothing.

In: tensors of modules and their new values. Out: the tensors with these values, in place. Values are written once all are known to fit, or
earlier, before user code may read them; then the old values are kept until the load has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.node import grad_mode
from ..tensor import Tensor, host_tensor
from .parameter import Parameter


class Loading:
    """One call of load_state_dict, which may contain nested ones."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Any, str, Tensor, Any, bool]] = []
        self._undo: list[Callable[[], Any]] = []
        self._outer: Loading | None = None

    def __enter__(self) -> Loading:
        self._outer, _current.loading = _current.loading, self
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        _current.loading = self._outer
        if kind is None:
            self.write(keep=self._outer is not None)
            if self._outer is not None:
                self._outer._undo += self._undo
        else:
            for undo in reversed(self._undo):
                undo()

    def take(self, module: Any, name: str, tensor: Tensor, value: Any, assign: bool) -> None:
        """Schedule a value for a parameter or buffer, or with `assign` its replacement."""
        self._waiting.append((module, name, tensor, value, assign))

    def write(self, keep: bool = True) -> None:
        """Write the scheduled values: user code may read them, or the load has ended. keep: store the old values, because the load may still fail."""
        waiting, self._waiting = self._waiting, []
        for module, name, tensor, value, assign in waiting:
            if keep and assign:
                self._undo.append(lambda m=module, n=name, t=tensor: setattr(m, n, t))
            elif keep:
                before = Tensor._of(tensor._node).detach()
                self._undo.append(lambda t=tensor, b=before: _put(t, b))
            if assign:
                setattr(module, name, _assigned(tensor, value))
            else:
                _put(tensor, value)


class _Current(threading.local):
    loading: Loading | None = None


_current = _Current()


def take(module: Any, name: str, tensor: Tensor, value: Any, assign: bool) -> None:
    """As Loading.take of the running load. Outside of a load, the value is written immediately."""
    if _current.loading is None:
        with Loading() as alone:
            alone.take(module, name, tensor, value, assign)
    else:
        _current.loading.take(module, name, tensor, value, assign)


def users_turn() -> None:
    """Called before user code, which must see the values loaded so far."""
    if _current.loading is not None:
        _current.loading.write()


def as_host_array(value: Any) -> np.ndarray:
    """A tensor of this library or of PyTorch, or an array, as an array."""
    plain = value.detach() if hasattr(value, "detach") else value
    if str(getattr(plain, "dtype", "")) == "torch.bfloat16":  # NumPy has no bfloat16; float32 holds all its values
        plain = plain.float()
    return np.asarray(plain)


def _put(tensor: Tensor, value: Any) -> None:
    with grad_mode(False):
        if isinstance(value, Tensor):
            tensor._assign(value._node)
        elif value.dtype.kind == "c":
            tensor.copy_(host_tensor(value))
        else:
            tensor.write_(value)


def _assigned(old: Tensor, value: Any) -> Tensor:
    """The replacement of a parameter or buffer."""
    new = value if isinstance(value, Tensor) else host_tensor(value)
    if not isinstance(old, Parameter):
        return new
    if not isinstance(new, Parameter):
        return Parameter(new, requires_grad=old.requires_grad)
    return new.requires_grad_(old.requires_grad)
