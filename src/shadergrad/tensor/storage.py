"""The objects that tensors share when they share memory.

    Storage  the present value, without history, and its version
    Base     an independent tensor for autograd, over a whole storage or a part: a leaf, a result, a detached alias
    Tensor   a base seen through a path of views: rows, slices, transposes, other shapes (paths.py)

Nodes are immutable; a write makes a new node. A tensor that writes through its path replaces the node of its base by one in which that
part is new, and then the storage's. All other tensors compare versions: an outdated tensor is derived again from its base, and an
outdated base from the storage. A tensor that shares nothing has none of these objects (handle.py). succession.py describes the effect of
writes on histories.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from ..drive import tracing
from ..drive.tracing import current
from ..graph.composition import is_kind
from ..graph.leaves import Variable
from ..graph.node import Node, grad_mode
from . import pending
from .paths import Path, follow, may_repeat, put
from .succession import renamed, succeeding, without_history

_versions = itertools.count(1)


def new_version() -> int:
    """A number that no storage has had."""
    return next(_versions)


class Storage:
    """A value that tensors share.

    node: the present value. version: changes with every write. origin: the serial number of the tensor that
    was shared first. tensor: a weak reference to one that shows all of it.
    """

    __slots__ = ("__weakref__", "_serial", "node", "origin", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self._serial = pending.next_serial()
        self.origin: int = tensor._serial
        self.tensor: weakref.ref[Any] = weakref.ref(tensor)
        self.node: Node = tensor._current
        self.version = new_version()
        if self.node.storage is None:
            pending.note(self)

    @property
    def _node(self) -> Node:
        return self.node

    def _holds(self, node: Node) -> bool:
        """Whether a node is the present value."""
        return self.node is node

    def value(self) -> Node:
        """The present value without history, owned by the storage: a leaf that shows it may leave it."""
        value = without_history(self.node)
        if value is not self.node:
            value.owner = weakref.ref(self)
        return value

    def _snapshot(self) -> tuple[Node, int]:
        return self.node, self.version

    def _restore(self, state: tuple[Node, int]) -> None:
        self.node, self.version = state


class Leaf:
    """Identifies a leaf for the backward pass: all nodes that have represented it in the graph reference this, whatever their values.

    tensor: the leaf, weakly; storage: the storage of which it shows all, weakly, if it does.
    """

    __slots__ = ("__weakref__", "storage", "tensor")

    def __init__(self, tensor: weakref.ref[Any]) -> None:
        self.tensor = tensor
        self.storage: weakref.ref[Storage] | None = None

    def _holds(self, node: Node) -> bool:
        """Whether a node is the leaf's present value."""
        tensor = self.tensor()
        return tensor is not None and tensor._holds(node)


class Base:
    """The base of differentiable views: all of a storage, or the part that a path selects, with its own history.

    node: the value with its history, as of `version` of the storage. tensor: the one that was made with it, weakly.
    leaf: that of the tensor, if it is one. ambiguous: made under no_grad from a tensor that requires grad, so that a write
    with recorded gradients is refused.
    """

    __slots__ = ("__weakref__", "ambiguous", "leaf", "node", "path", "storage", "tensor", "version")

    def __init__(self, storage: Storage, path: Path, node: Node, tensor: Any, ambiguous: bool = False) -> None:
        self.storage = storage
        self.path = path
        self.node = node
        self.tensor: weakref.ref[Any] = weakref.ref(tensor)
        self.version = storage.version
        self.ambiguous = ambiguous
        self.leaf: Leaf | None = None

    def _holds(self, node: Node) -> bool:
        """Whether a node is the value, in the version that was seen last."""
        return self.node is node

    def current(self) -> Node:
        """The present value with its history."""
        if self.version != self.storage.version:
            with grad_mode(False):
                value = follow(self.path, self.storage.value())
                node = succeeding(self.node, value, self)
            if is_kind(node, Variable):
                self.own(node)
            self._set(node)
        return self.node

    def _set(self, node: Node) -> None:
        if current.trace is not None:
            current.trace.on_change(self)
        self.node = node
        self.version = self.storage.version

    def own(self, node: Node) -> None:
        """Mark a node as the value of this base; the storage, and a leaf, may outlive it."""
        if is_kind(node, Variable):
            if self.leaf is None:
                self.leaf = Leaf(self.tensor)
            self.leaf.storage = None if self.path else weakref.ref(self.storage)
            node.owner = weakref.ref(self.leaf)
        else:
            node.owner = weakref.ref(self if self.path else self.storage)

    def write(self, path: Path, node: Node) -> None:
        """Replace the part of the base that `path` selects by `node`."""
        before = self.current()
        storage = self.storage
        if current.trace is not None:
            current.trace.on_change(storage)
        if self.path:
            with grad_mode(False):
                value = put(storage.value(), (*self.path, *path), without_history(node))
                storage.node = value if value.owner is None else renamed(value)
            storage.node.owner = weakref.ref(storage)
        if may_repeat(self.path):  # a write through one view shows in the others
            with grad_mode(False):
                after = succeeding(before, follow(self.path, storage.node), self)
        else:
            after = succeeding(before, put(before, path, node), self)
        owner = None if after.owner is None else after.owner()
        if owner is not None and owner is not self and (self.path or owner is not storage):
            after = renamed(after)  # the node stays the value of its owner, too
        if not self.path:
            storage.node = after
        storage.version = new_version()
        if after.requires_grad != before.requires_grad:
            tracing.changes += 1
        self._set(after)
        self.own(after)
        if storage.node.storage is None:
            pending.note(storage)
            pending.changed(storage)

    def _snapshot(self) -> tuple[Node, int]:
        return self.node, self.version

    def _restore(self, state: tuple[Node, int]) -> None:
        self.node, self.version = state
