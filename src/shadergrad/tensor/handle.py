"""`Handle`: the fields of a tensor and its constructor. The other files of this package access each other's tensors through it only.

In: a node. Out: a tensor that owns the node, or shares it with others (storage.py). `_begin` sets all fields of a tensor, and
nothing else does: whatever makes a tensor allocates it and calls `_begin`, directly or through `_adopt`. A tensor without fields is
one whose construction failed.

Each uncompiled operation ends in `wrap`. A function call that is saved here is saved in every operation.
"""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

from ..arguments import Checkable
from ..drive import tracing
from ..drive.tracing import current
from ..graph.node import Node, grad_mode
from . import pending
from .paths import Path, follow
from .storage import Base, Leaf
from .succession import renamed


class Handle(Checkable):
    """A handle on a value: a node that it owns, or a path of views over a base that it shares (storage.py)."""

    __slots__ = (
        "__weakref__",
        "_current",
        "_grad",
        "_leaf",
        "_path",
        "_rebound",
        "_seen",
        "_serial",
        "_shared",
        "_siblings",
    )
    __array_priority__ = (
        1000  # so that NumPy leaves array + tensor to the tensor, which refuses it, and 2.0 * tensor too
    )
    __hash__ = object.__hash__  # == is elementwise; a tensor is itself

    _class: ClassVar[type[Any]]  # the class of results: Tensor, set where it is defined

    _current: Node  # the value; if it is shared, as of version _seen
    _shared: Base | None  # the base of which this is a part
    _path: Path  # the views through which it is seen
    _seen: int
    _leaf: Leaf | None  # of a tensor that is, or was, shared
    _rebound: int  # how often its memory was exchanged for another's, for guards of compiled steps
    _grad: Any  # the gradient, a tensor or None
    _serial: int
    _siblings: list[weakref.ref[Any]] | None  # the tensors from the same backward pass

    def _begin(self, node: Node, shared: Base | None = None, path: Path = (), seen: int = 0) -> None:
        """The constructor of all tensors: sets up a new one that owns a node, or sees it through `path` of a shared base."""
        self._serial = pending.next_serial()
        self._current = node
        self._shared = shared
        self._path = path
        self._seen = seen
        self._leaf = self._grad = self._siblings = None
        self._rebound = 0

    def _adopt(self, node: Node, alone: bool = True) -> None:
        """Begin with a node. If it is another tensor's, this tensor gets a new node of the same value."""
        if alone:
            node = self._claim(node)
        self._begin(node)
        if node.storage is None:
            pending.note(self)

    def _claim(self, node: Node) -> Node:
        """The node, now owned by this tensor; a new one of the same value if it is another's."""
        owner = node.owner
        if owner is not None and owner() is not self:
            if owner() is not None:
                node = renamed(node)
            node.owner = weakref.ref(self)
        elif owner is None:
            node.owner = weakref.ref(self)
        return node

    def _own(self, node: Node) -> None:
        """Own a node; tensors that shared memory with this one keep it."""
        node = self._current = self._claim(node)
        self._shared = None
        self._path = ()
        self._seen = 0
        if node.storage is None:
            pending.note(self)

    @property
    def _node(self) -> Node:
        """The present value."""
        shared = self._shared
        if shared is None:
            return self._current
        if tracing.is_capturing and current.trace is not None:
            current.trace.on_look(self)
        if self._seen != shared.storage.version or (self._path and self._current.released):
            if current.trace is not None:
                current.trace.on_seen(self)
            seen = shared.storage.version  # before the value: if another thread writes it meanwhile, it is read again
            whole = shared.current()
            with grad_mode(True):
                node = self._current = follow(self._path, whole)
            if node.owner is None:
                node.owner = weakref.ref(self)
            self._seen = seen
        return self._current

    def _holds(self, node: Node) -> bool:
        """Whether a node is the value, in the version that was seen last."""
        return self._current is node

    @staticmethod
    def _of(node: Node) -> Any:
        """A tensor around a node, even if that is another tensor's: for internal use, not for a result."""
        result = object.__new__(Handle._class)
        owner = node.owner
        result._adopt(node, owner is None or owner() is None)
        return result

    @staticmethod
    def _first_of(node: Node) -> Any:
        """As _of, for a node that has a value and was made for this tensor, as in each call of a compiled step."""
        result = object.__new__(Handle._class)
        result._begin(node)
        node.owner = weakref.ref(result)
        return result


def wrap(node: Node) -> Any:
    """A tensor around a node."""
    result = object.__new__(Handle._class)
    result._adopt(node)
    pending.bound()
    return result
