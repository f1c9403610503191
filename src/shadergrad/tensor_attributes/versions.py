"""`x._version`: a counter of a tensor's changes. Libraries use it to keep values that they derived from a tensor until it changes."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from ..tensor import Tensor
from .installation import install_methods, install_properties


@dataclass
class _Seen:
    """Of a tensor, when it was last asked: the node and the writes of its memory, and the number that was told."""

    tensor: weakref.ref[Tensor]
    node: weakref.ref[Any]
    writes: int
    count: int = 0


_seen: dict[int, _Seen] = {}  # by the tensor's id, while it lives


def _version(self: Tensor) -> int:
    """A number that is another one whenever the tensor was written to since it was last asked for. 0 at first.

    PyTorch counts every write; here several in a row may count once.

    >>> x = sg.zeros(2)
    >>> before = x._version
    >>> _ = x.add_(1)
    >>> x._version != before, x._version == x._version
    (True, True)
    """
    node = self._node
    writes = 0 if node.storage is None else node.storage.writes
    key = id(self)
    seen = _seen.get(key)
    if seen is None or seen.tensor() is not self:
        seen = _seen[key] = _Seen(weakref.ref(self, lambda _: _seen.pop(key, None)), weakref.ref(node), writes)
    elif seen.node() is not node or seen.writes != writes:
        seen.node, seen.writes, seen.count = weakref.ref(node), writes, seen.count + 1
    return seen.count


def _is_inference(self: Tensor) -> bool:
    """False: inference_mode is no_grad by another name.

    >>> sg.ones(2).is_inference()
    False
    """
    return False


install_properties({"_version": _version})
install_methods({"is_inference": _is_inference})
