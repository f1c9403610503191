"""The hooks that pack what Function.save_for_backward is given, and unpack it for backward; graph.py sets them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import DTypeError
from ..tensor import Tensor


class _Hooks(threading.local):
    refusal: str | None = None  # why there may be none

    def __init__(self) -> None:
        self.stack: list[tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]] = []  # the last ones are at work


hooks = _Hooks()


class Packed(NamedTuple):
    """What a hook made of a tensor, and the one that makes a tensor of it."""

    value: Any
    unpack: Callable[[Any], Tensor]

    def unpacked(self) -> Tensor:
        """The tensor. Raises DTypeError where the hook gives something else."""
        found = self.unpack(self.value)
        if not isinstance(found, Tensor):
            raise DTypeError("Output of saved tensor unpack_hook expected to be a Tensor.")
        return found


def packed(tensor: Tensor) -> Packed | None:
    """What the hooks at work make of a tensor; None where there are none."""
    if not hooks.stack:
        return None
    pack, unpack = hooks.stack[-1]
    return Packed(pack(tensor.detach()), unpack)
