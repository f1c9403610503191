"""Constants of captures beside the tensors that are alive: a constant in the memory of one would keep its present value for
ever, in silence, whatever the tensor becomes. In: what is captured meanwhile. Out: how many constants, and which are wrong.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from shadergrad.graph.node import Node
from shadergrad.run.captured import Captured
from shadergrad.tensor import Tensor


@dataclass
class Constants:
    """count: all; wrong: what is told of those in memory that a tensor has which was there before the capture."""

    count: int = 0
    wrong: list[str] = field(default_factory=list)


@contextmanager
def constants_noted() -> Iterator[Constants]:
    """Note the constants of every capture."""
    found, held = Constants(), Captured._held
    old = [weakref.ref(t) for t in _tensors()]

    def noting(self: Captured, node: Node) -> tuple[int, Tensor]:
        is_new = id(node) not in self._known
        key, holder = held(self, node)
        if is_new and holder._serial > self.watch.began:
            found.count += 1
            alive = [*_tensors(), *(t for r in old if (t := r()) is not None)]
            owners = [t for t in alive if _is_in(t, node, self.watch.began)]
            if owners:
                found.wrong.append(f"{node.dtype.name} of shape {node.shape} is in the memory of {len(owners)} tensors")
        return key, holder

    gc.freeze()  # what is here already is not looked through again for every constant
    try:
        with mock.patch.object(Captured, "_held", noting):
            yield found
    finally:
        gc.unfreeze()


def _tensors() -> list[Tensor]:
    """All that the collector knows and that are not frozen. Asking an object for its class may run its code, asking for its type does not."""
    return [t for t in gc.get_objects() if issubclass(type(t), Tensor)]


def _is_in(tensor: Any, node: Node, began: int) -> bool:
    """Whether a tensor from before a capture has a node's memory. One whose making failed, and which a traceback keeps, has none."""
    if not hasattr(tensor, "_serial") or tensor._serial > began:
        return False
    return node.storage is not None and tensor._current.storage is node.storage
