"""Hooks on gradients: the handles that registration returns, and the hooks of a node.

A hook belongs to the node that the tensor held when it was registered; a leaf's hook applies to every later value of the leaf. A hook
gets a pending gradient, which is computed if the hook reads it. In a compiled step a hook runs once, during capture; its operations
become part of the step.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
)
from ..graph.node import Node
from .base import TensorBase
from .handle import wrap


class RemovableHandle:
    """The handle of a registered hook; `remove()` removes the hook, as does leaving a `with` block."""

    def __init__(self, table: dict[int, Any], id: int, changed: Callable[[], None]) -> None:
        self._table = table
        self.id = id
        self._changed = changed

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        if self._table.pop(self.id, None) is not None:
            self._changed()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class GradientHooks:
    """The hooks of a node.

    before: called with the gradient, and may replace it; after: called with a leaf, once its .grad is updated.
    through: called with the gradients of the operands and of the result, and may replace those of the operands.
    retainer: the non-leaf tensor whose .grad receives the gradient.
    """

    def __init__(self) -> None:
        self.before: dict[int, Callable[[Any], Any]] = {}
        self.after: dict[int, Callable[[Any], Any]] = {}
        self.through: dict[int, Callable[[Any, Any], Any]] = {}
        self.notes: dict[str, Any] = {}  # of a program's own
        self.retainer: weakref.ref[Any] | None = None

    def ids(self) -> tuple[int, ...]:
        return (*self.before, *self.after, *self.through)

    def on_gradient(self, g: Node) -> Node:
        """The gradient after its hooks; the backward pass calls this once, with the complete gradient."""
        for hook in list(self.before.values()):
            g = _checked(hook, hook(wrap(g)), g)
        tensor = None if self.retainer is None else self.retainer()
        if tensor is not None:
            before = tensor.grad
            tensor.grad = wrap(g) if before is None else wrap(before._node + g)
        return g

    def on_operands(self, gradients: Sequence[Node | None], g: Node) -> Sequence[Node | None]:
        """The gradients of the operands after their hooks; the backward pass calls this once per operation."""
        for hook in list(self.through.values()):
            found = hook(tuple(None if x is None else wrap(x) for x in gradients), (wrap(g),))
            if found is None:
                continue
            found = found if isinstance(found, tuple) else (found,)
            if len(found) != len(gradients):
                raise ArgumentError(f"a hook has returned {len(found)} gradients for {len(gradients)} operands.")
            gradients = [None if x is None else _checked(hook, y, x) for x, y in zip(gradients, found, strict=True)]
        return gradients


def _checked(hook: Any, found: Any, g: Node) -> Node:
    if found is None:
        return g
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(found, TensorBase):
        raise DTypeError(f"expected a Tensor or None, but the hook {name!r} returned a {type(found).__name__}.")
    if found.shape != g.shape:
        raise ShapeError(f"hook {name!r} has changed the size of value: from {list(g.shape)} to {list(found.shape)}.")
    if found.dtype is not g.dtype:
        raise DTypeError(f"hook {name!r} has changed the type of value: from {g.dtype.name} to {found.dtype.name}.")
    return found._node


def hooks_of(node: Node) -> GradientHooks:
    if node.hooks is None:
        node.hooks = GradientHooks()
    return node.hooks
