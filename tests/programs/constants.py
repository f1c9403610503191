"""Constants of captures beside the tensors that are alive: a constant in the memory of one would keep its present value for
ever, in silence, whatever the tensor becomes. In: what is captured meanwhile. Out: how many constants, and which are wrong.
"""

from __future__ import annotations

import gc
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

    def noting(self: Captured, node: Node) -> tuple[int, Tensor]:
        is_new = id(node) not in self._known
        key, holder = held(self, node)
        if is_new and holder._serial > self.watch.began:
            found.count += 1
            owners = [t for t in gc.get_objects() if issubclass(type(t), Tensor) and _is_in(t, node, self.watch.began)]
            if owners:
                found.wrong.append(f"{node.dtype.name} of shape {node.shape} is in the memory of {len(owners)} tensors")
        return key, holder

    with mock.patch.object(Captured, "_held", noting):
        yield found


def _is_in(tensor: Any, node: Node, began: int) -> bool:
    """Whether a tensor from before a capture has a node's memory. One whose making failed, and which a traceback keeps, has none."""
    if not hasattr(tensor, "_serial") or tensor._serial > began:
        return False
    return node.storage is not None and tensor._current.storage is node.storage
