"""Leaves, `requires_grad` and `detach`: whether operations on a tensor are recorded for the backward pass.

In: a tensor. Out: a tensor of the same value that is a leaf, has no history, or has another one. gradients.py handles the gradients.
"""

from __future__ import annotations

import weakref
from typing import Self

from ..arguments import type_name
from ..drive import tracing
from ..drive.tracing import current
from ..errors import (
    ArgumentTypeError,
    AutogradError,
)
from ..graph import node as nodes
from ..graph.composition import is_kind, unpacks
from ..graph.leaves import Variable
from ..graph.node import Node
from .sharing import SharedTensor
from .storage import new_version
from .succession import without_history


class FlagError(AutogradError, ArgumentTypeError):
    """A value other than True or False for a flag."""


class HistoryTensor(SharedTensor):
    """A tensor with an autograd history."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the tensor are recorded for backward(). May be set, as by requires_grad_.

        >>> w = sg.ones(2, requires_grad=True)
        >>> w.requires_grad, (w * 2).requires_grad, w.detach().requires_grad
        (True, True, False)
        """
        return self._node.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise FlagError(f"requires_grad must be a bool, not {type_name(value)}.")
        if not self.is_leaf:
            raise AutogradError("you can only change requires_grad flags of leaf variables. Use detach() instead.")
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is not the result of recorded operations. backward() accumulates gradients in leaves that require
        one.

        >>> w = sg.ones(2, requires_grad=True)
        >>> w.is_leaf, (w * 2).is_leaf
        (True, False)
        """
        node = self._node
        return not node.requires_grad or is_kind(node, Variable)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether backward() accumulates a gradient here. In place; returns the tensor.

        Raises AutogradError for integers and bools, and for False on a non-leaf tensor: detach() it.

        >>> sg.tensor([1.0, 2.0]).requires_grad_()
        tensor([1., 2.], requires_grad=True)
        """
        if current.trace is not None:
            current.trace.on_flag(self)
        node = self._node
        if requires_grad == node.requires_grad:
            return self
        if not requires_grad and not self.is_leaf:
            raise AutogradError("you can only change requires_grad flags of leaf variables. Use detach() instead.")
        if requires_grad and unpacks(node):
            raise AutogradError(
                "[requires_grad_] a quantised weight is computed from packed integers and is not trained. Hint: train adapters beside it (LoRA)."
            )
        if requires_grad and self.dtype.category < 2:
            raise AutogradError("only Tensors of floating point and complex dtype can require gradients")
        self._rebase(nodes.variable(node, self) if requires_grad else without_history(node), alone=True)
        return self

    def _rebase(self, node: Node, alone: bool = False) -> None:
        """Start a new history, with the same value and the same sharing. alone: the history of its views stays as it was."""
        tracing.changes += 1
        if current.trace is not None:
            current.trace.on_change(self)
        shared = self._shared
        if shared is None:
            node.owner = weakref.ref(self)
            self._own(node)
            return
        if alone or shared.tensor() is not self:
            first = shared.storage.tensor
            shared = self._join(self, node)
            if first() is not None:  # it still shows all of the storage
                shared.storage.tensor = first
        else:  # and so of its views
            shared.node = self._current = node
            self._seen = shared.version = shared.storage.version = new_version()
        shared.own(node)
        self._leaf = shared.leaf

    def detach(self) -> Self:
        """An alias of the same value and memory that requires no gradient. Changing one in place
        changes the other.

        >>> w = sg.ones(2, requires_grad=True)
        >>> d = w.detach()
        >>> d.add_(1)
        tensor([2., 2.])
        >>> w
        tensor([2., 2.], requires_grad=True)
        """
        return self._alias(self._path, without_history(self._node))

    def detach_(self) -> Self:
        """detach, in place: the tensor becomes a leaf without history. Raises AutogradError for a view.

        >>> y = sg.ones(2, requires_grad=True) * 2
        >>> y.detach_()
        tensor([2., 2.])
        """
        if self._shared is not None and self._shared.tensor() is not self:
            raise AutogradError("Can't detach views in-place. Use detach() instead.")
        if current.trace is not None:
            current.trace.on_flag(self)
        if self.requires_grad:
            self._rebase(without_history(self._node), alone=True)
        return self

    def _move_to(self, other: HistoryTensor) -> None:
        """Share the memory of `other` from now on, as its detach() does."""
        alias = other.detach()
        self._restore(alias._snapshot())
        assert self._shared is not None
        self._shared.tensor = weakref.ref(self)
        self._leaf = None

    def _become(self, node: Node) -> None:
        """Take another value in new memory; a leaf stays one. Tensors that shared the old memory keep it."""
        before = self._node
        if is_kind(before, Variable):
            node = nodes.variable(without_history(node), self, before.hooks)
        self._own(node)
