"""Views and aliases: how a tensor comes to share memory with others, and when it stops sharing.

In: a tensor and a path of views. Out: a tensor over that part, with the history of the first (`_view`) or its own (`_alias`).
storage.py describes the shared objects. A tensor without views and aliases is the only owner of its node. When all others are gone, it is
so again, which reference counts show (`_share_no_more`, `_keep_memory_private`). Another local variable in these two functions would
change the counts; tests/memory and tests/device/test_storages.py detect that.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Self

from .. import cpython
from ..drive import execute
from ..drive.tracing import current
from ..dtypes import bool_
from ..graph import build
from ..graph import node as nodes
from ..graph.composition import is_kind
from ..graph.leaves import Variable
from ..graph.node import Node, grad_mode, make, mode
from ..primitives.views import Reshape
from . import pending
from .description import DescribedTensor
from .handle import Handle
from .paths import Path, between, follow, joined
from .storage import Base, Storage, new_version
from .strides import row_major, strides
from .succession import renamed, succeeding, without_history


class SharedTensor(DescribedTensor):
    """A tensor that may share memory with others."""

    __slots__ = ()

    def _share(self) -> Base:
        """The base of which this tensor and its views and aliases are parts."""
        shared = self._shared
        if shared is None:
            node = self._current
            shared = self._shared = Base(Storage(self), (), node, self)
            self._path = ()
            self._seen = shared.version
            if node.owner is None or node.owner() is self or node.owner() is None:
                shared.own(node)
                self._leaf = shared.leaf
        return shared

    def _seen_through(self, shared: Base, path: Path, node: Node, seen: int | None = None) -> Self:
        """A tensor over a base through a path, with `node` as its present value, or as its value in the storage's version `seen`."""
        result = object.__new__(Handle._class)
        result._begin(node, shared, path, shared.storage.version if seen is None else seen)
        if node.owner is None:
            node.owner = weakref.ref(result)
        pending.bound()
        return result

    def _view(self, show: Callable[[Node], Node]) -> Self:
        """A view of this tensor: `show` computes its value from this tensor's, by views alone."""
        shared = self._share()
        seen = shared.storage.version  # read before the value, so that another thread's write in between is noticed
        mine = self._node
        node = show(mine)
        if node is mine and is_kind(mine, Variable):
            node = make(Reshape(mine.shape), mine)  # a view of all of a leaf is a result, not the leaf
        path = (*self._path, *between(mine, node)) if node is not mine else self._path
        if mine.requires_grad and not (node.requires_grad and mode.grad):
            return self._alias(path, without_history(node), ambiguous=True)
        if not mine.requires_grad and (shorter := joined(path)) is not path:
            path, node = shorter, follow(shorter, shared.current())
        return self._seen_through(shared, path, node, seen)

    def _seen_along(self, path: Path, is_alias: bool) -> Self:
        """A view through a path, without history. is_alias: it stays without, even if this tensor gets one later."""
        node = self._node
        with grad_mode(False):
            seen = follow(path, without_history(node))
        if is_alias or node.requires_grad:
            return self._alias((*self._path, *path), seen)
        return self._seen_through(self._share(), (*self._path, *path), seen)

    def _alias(self, path: Path, node: Node, ambiguous: bool = False) -> Self:
        """A tensor with a new history of its own, which shares the part of this one's base that `path` selects."""
        shared = self._share()
        base = Base(shared.storage, (*shared.path, *path), node, self, ambiguous)
        node = base.node = self._with_own_base(base, node)
        result = self._seen_through(base, (), node)
        base.tensor = weakref.ref(result)
        return result

    def _with_own_base(self, base: Base, node: Node) -> Node:
        """`node`, the value of an alias of this tensor, with the alias's own base as its owner, so that it has an owner after this tensor is
        gone. In a capture, this tensor stays the owner, because it existed before.
        """
        if node.requires_grad or current.trace is not None:
            return node
        if node is self._current:
            if not base.path:  # the storage's node, which both reference
                return node
            node = renamed(node)
        base.own(node)
        return node

    def _alias_of(self, other: SharedTensor) -> None:
        """Begin as a tensor that shares the memory of `other`, without its history."""
        node = without_history(other._node)
        self._begin(node)
        self._join(other, node)

    def _cell(self) -> Any:
        """The owner of the value: the storage if the tensor shows all of it, else the tensor."""
        shared = self._shared
        return self if shared is None or shared.path or self._path else shared.storage

    def _keep_memory_private(self) -> bool:
        """Call this before the memory of the value is overwritten: it ensures that nothing else references it. If others do, they keep the
        memory, and this tensor, which shows all of it, continues with a copy. Returns whether a copy was needed.

        It compares reference counts of the value's node and of its memory. A count that is too high only costs a copy.
        """
        self._share_no_more()
        shared = self._shared
        node = self._node
        if shared is not None:
            shared.node = shared.storage.node = node
        # the tensor and the variable reference the node, shared memory does so twice; the node and the list of inputs reference the memory
        ours = (2 if shared is None else 4) + cpython.ASKING
        if cpython.references(self._current) <= ours and cpython.references(node.storage) <= 2 + cpython.ASKING:
            return False
        copy = build.elementwise("Or", node, False) if self.dtype is bool_ else build.elementwise("Mul", node, 1)
        execute.realize([copy])
        with grad_mode(False):
            made = succeeding(node, nodes.leaf(copy.storage, node.shape, node.dtype, node.device), self)
        if made.storage is None:
            made.materialize(copy.storage)
        self._current = made
        if shared is None:
            made.owner = weakref.ref(self)
        else:
            shared.own(made)
            self._leaf = shared.leaf
            shared.node = shared.storage.node = made
        return True

    def _share_no_more(self) -> bool:
        """Stop sharing if all tensors that shared the value are gone. Returns whether the tensor shares nothing."""
        shared = self._shared
        if shared is None:
            return True
        if self._path:
            return False
        notes = (0, 0) if current.trace is None else current.trace.references(shared)
        others = cpython.references(self._shared) - notes[0] - 2 - cpython.ASKING  # not the tensor and the variable
        if others > 0 or cpython.references(shared.storage) - notes[1] > 1 + cpython.ASKING:
            return False
        if current.trace is not None:
            current.trace.on_seen(self)
        node = self._current = shared.current()
        self._shared = None
        value = nodes.resolve(node)
        value.owner = node.owner = weakref.ref(self)  # a leaf's earlier nodes have `_leaf`
        if value.storage is None:
            pending.succeed(self, shared.storage)
        return True

    def _is_alone(self) -> bool:
        """Whether no other tensor shows any part of this tensor's memory."""
        shared = self._shared
        if shared is None:
            return True
        if shared.storage.node.dtype is not self._current.dtype:
            return False
        notes = (0, 0) if current.trace is None else current.trace.references(shared)
        others = cpython.references(self._shared) - notes[0] - 2 - cpython.ASKING
        return others <= 0 and cpython.references(shared.storage) - notes[1] <= 1 + cpython.ASKING

    @property
    def _exchanged(self) -> tuple[Any, ...]:
        """How often the memory was replaced, and by which memory; 0 times if the tensor shares it with no other, because then only the
        kind of memory matters.
        """
        times = 0 if not self._rebound or self._share_no_more() else self._rebound
        node = self._current
        return times, node.shape, node.dtype, node.device

    def _was_overwritten(self) -> None:
        """Call this after the memory of the value was overwritten: tensors that share it must derive their values again."""
        shared = self._shared
        if shared is not None:
            self._seen = shared.version = shared.storage.version = new_version()

    @staticmethod
    def _all_of(storage: Storage) -> Any:
        """A tensor over all of a storage: the one that the storage references, if it still exists."""
        first = storage.tensor()
        if first is not None and first._cell() is storage:
            return first
        result = object.__new__(Handle._class)
        base = Base(storage, (), storage.value(), result)
        result._begin(base.node, base, (), storage.version)
        result._serial = storage.origin
        return result

    def _join(self, other: SharedTensor, node: Node) -> Base:
        """Share the memory of `other` from now on, with a separate history; `node` is the present value. Returns the new base."""
        shared = other._share()
        base = self._shared = Base(shared.storage, (*shared.path, *other._path), node, self)
        base.leaf = self._leaf
        self._path = ()
        self._current = base.node = other._with_own_base(base, node)
        self._seen = base.version
        if not base.path and not (current.trace is not None and base.storage.origin <= current.trace.began):
            base.storage.tensor = weakref.ref(self)  # in a capture, a tensor from before stays the storage's tensor
        return base

    def _snapshot(self) -> tuple[Any, ...]:
        return self._current, self._shared, self._path, self._seen

    def _restore(self, state: tuple[Any, ...]) -> None:
        self._current, self._shared, self._path, self._seen = state
        node = self._current
        owner = None if node.owner is None else node.owner()
        if self._shared is None and not isinstance(owner, Handle):  # a Handle: sharing began meanwhile
            node.owner = weakref.ref(self)

    def _is_the_same_view(self, other: SharedTensor) -> bool:
        """Whether both show the same elements of the same base."""
        return self._shared is not None and self._shared is other._shared and self._path == other._path

    def _is_the_same_memory(self, other: SharedTensor) -> bool:
        """Whether both show the same elements of the same storage, in the same order."""
        mine, its = self._shared, other._shared
        if mine is None or its is None:
            return self is other
        return mine.storage is its.storage and (*mine.path, *self._path) == (*its.path, *other._path)

    def _strides(self) -> tuple[tuple[int, ...], int]:
        """The strides in elements along every axis, and the offset, in shared memory."""
        shared = self._shared
        if shared is None:
            return self._lies(self._serial, self._node.shape), 0
        whole = shared.storage.node.shape
        found = strides((*shared.path, *self._path), whole, self._lies(shared.storage.origin, whole))
        return (row_major(self._node.shape), 0) if found is None else found

    @staticmethod
    def _lies(origin: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The strides of the shared memory: row-major, except for arguments of a compiled step with another layout."""
        given = None if current.trace is None else current.trace.layouts.get(origin)
        return row_major(shape) if given is None else given
