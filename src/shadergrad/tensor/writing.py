"""In-place assignment: another value for a tensor and for all tensors that share its memory.

In: a tensor and a node of its shape, dtype and device. Out: the same tensor. All writes go through `_assign`; `_update_in_place`
first refuses the writes that PyTorch refuses.
"""

from __future__ import annotations

import weakref
from typing import Self

import numpy as np

from ..drive import execute, tracing
from ..drive.tracing import current
from ..errors import (
    AutogradError,
    DeviceError,
    DTypeError,
    ShapeError,
)
from ..graph.build import cast
from ..graph.composition import is_kind, unpacks
from ..graph.leaves import Variable
from ..graph.node import Node, grad_mode, mode
from . import pending
from .reading import ReadableTensor
from .strides import overlaps
from .succession import renamed, succeeding


class WritableTensor(ReadableTensor):
    """A tensor that can be written in place."""

    __slots__ = ()

    def _assign(self, node: Node, what: str = "write") -> None:
        """Take another value, in place, with all tensors that share the memory; a leaf that requires grad stays one.

        Raises ShapeError, under the name `what`, if several elements share a position, for which only fill_ has a unique value.
        """
        self._check_memory(what)
        if current.trace is not None:
            current.trace.on_assign(self)
        if mode.written is not None:
            mode.written.append((weakref.ref(self), node))
        shared = self._shared
        if shared is None:
            if current.trace is not None:
                current.trace.on_change(self)
            before = self._current
            self._own(succeeding(before, node, self))
            if self._current.requires_grad != before.requires_grad:
                tracing.changes += 1
            if self._current.storage is None:
                pending.changed(self)
            return
        shared.write(self._path, node)
        if self._path and not node.requires_grad and not shared.node.requires_grad:
            if current.trace is not None:
                current.trace.on_seen(self)
            self._current = renamed(node)  # so the written part need not be sliced out again
            self._current.owner = weakref.ref(self)
            self._seen = shared.storage.version
        if (self._path or shared.path) and node.storage is None:
            pending.written(self)

    def _is_part_again(self) -> bool:
        """Refer to the part of a computed storage that the paths select, instead of the value written there. Returns whether it does."""
        shared = self._shared
        if shared is None or shared.node.requires_grad:
            return True
        if shared.storage.node.storage is None:
            return False
        if shared.path and shared.node.storage is None:
            shared.version = 0
        if self._current.storage is None:
            self._seen = 0
        return True

    def _update_in_place(self, value: WritableTensor | Node, what: str) -> Self:
        """The result of an in-place operation; refuses what PyTorch refuses."""
        node = value if isinstance(value, Node) else value._node
        self._check_writable(what)
        if node.shape != self._node.shape:
            raise ShapeError(
                f"[{what}] output with shape {list(self.shape)} doesn't match the broadcast shape {list(node.shape)}"
            )
        if node.dtype is not self.dtype:
            if node.dtype.category > self.dtype.category:
                raise DTypeError(
                    f"[{what}] result type {node.dtype.name} can't be cast to the desired output type {self.dtype.name}"
                )
            node = cast(node, self.dtype)
        if node.device != self._node.device:
            raise DeviceError(f"[{what}] the value is on {node.device}, the tensor on {self.device}.")
        self._assign(node, what)
        return self

    def _check_writable(self, what: str) -> None:
        """Raises AutogradError if autograd cannot record a write."""
        shared = self._shared
        whole = self._current if shared is None else shared.current()
        if mode.grad:
            if is_kind(whole, Variable):
                leaf = "a leaf Variable" if not self._path else "a view of a leaf Variable"
                raise AutogradError(
                    f"{leaf} that requires grad is being used in an in-place operation ({what}). Hint: do it under sg.no_grad()."
                )
            if shared is not None and shared.ambiguous:
                raise AutogradError(
                    f"A view was created in no_grad mode and is being modified inplace with grad mode enabled ({what}). "
                    "Hint: make the view outside no_grad, or write to it within."
                )

    def _is_unpacked(self) -> bool:
        """Whether it is, or shares memory with, a quantised weight's unpacked numbers, which are not stored."""
        return unpacks(self._node) or (self._shared is not None and unpacks(self._shared.storage.node))

    def _check_memory(self, what: str) -> None:
        if self._is_unpacked():
            raise AutogradError(
                f"[{what}] a quantised weight is computed from packed integers: what is written would be lost. Hint: clone() it first."
            )
        shared = self._shared
        if shared is None or not (shared.path or self._path) or what == "fill_":
            return
        if overlaps(self._node.shape, self._strides()[0]):
            raise ShapeError(
                f"[{what}] unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )

    def write_(self, array: np.ndarray) -> Self:
        """Overwrite the value with a host array of the same shape, ordered after all work submitted so far.

        The array is cast to the tensor's dtype. Not in PyTorch. Raises ShapeError for another shape.

        >>> x = sg.zeros(2)
        >>> x.write_(np.array([1.0, 2.0]))
        tensor([1., 2.])
        """
        if array.dtype.kind not in ("biufc" if self.dtype.is_complex else "biuf"):
            raise DTypeError(f"write_(): cannot write an array of {array.dtype}: give one of numbers or bools.")
        array = np.asarray(array, self.dtype.numpy, order="C")
        if array.shape != self._node.shape:
            raise ShapeError(f"[write_] the array is {array.shape}, the tensor {tuple(self.shape)}.")
        with grad_mode(False):
            self._assign(execute.upload(array, self.dtype, self._node.device), "write_")
        return self
