"""In-place changes of the memory that a tensor refers to: `resize_`, `as_strided_`, `set_`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from ..drive import tracing
from ..drive.tracing import current
from ..dtypes import bool_
from ..errors import ArgumentError, AutogradError, CompileError, DeviceError, DTypeError, ShapeError
from ..graph import build
from ..graph.node import make, mode
from ..primitives.views import Pad, Slice
from .addresses import AddressTensor
from .axes import check_sizes, sizes_of
from .storage_handles import StorageHandle, TypedStorage
from .strides import row_major


class MemoryTensor(AddressTensor):
    """In-place changes of the memory to which a tensor refers."""

    __slots__ = ()

    def resize_(self, *sizes: Any, memory_format: str | None = None) -> Self:
        """Change the shape, row-major from the first element on. In place; returns the tensor. Existing elements
        keep their values, additional ones are 0 (PyTorch: undefined). memory_format changes nothing.

        A tensor that becomes smaller keeps its memory, so that it can become larger again. Raises AutogradError for a tensor that
        requires grad, ShapeError if memory that other tensors share is too small, CompileError in a compiled step for a tensor
        from outside.

        >>> sg.arange(4).resize_(2)
        tensor([0, 1])
        >>> sg.arange(2).resize_(2, 2)
        tensor([[0, 1],
                [0, 0]])
        """
        shape = check_sizes(sizes_of(sizes, "resize_", "sizes"), "resize_")
        if shape == self._node.shape:
            return self
        if self._node.requires_grad:
            raise AutogradError(
                "cannot resize variables that require grad. Hint: .data or .detach(), or x.reshape(...)."
            )
        self._check_own("resize_")
        start, n = self.storage_offset(), math.prod(shape)
        if start + n <= self.untyped_storage().nbytes() // self.dtype.itemsize:
            flat: Any = self._whole().reshape(-1).view(self.dtype)
            self._show(flat[start : start + n].reshape(shape), "resize_")
        else:
            self._grow(start, shape)
        return self

    def resize_as_(self, the_template: Any, *, memory_format: str | None = None) -> Self:
        """`resize_` to the shape of another tensor.

        >>> sg.arange(4).resize_as_(sg.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
        """
        return self.resize_(*the_template.shape)

    def set_(
        self,
        source: Any = None,
        storage_offset: int | None = None,
        size: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> Self:
        """Refer to the memory of `source`, a tensor or the result of its `untyped_storage()`: all of it, or as `as_strided` does from
        `storage_offset` on; without a source, no elements. In place; returns the tensor.

        Raises DTypeError and DeviceError for a source of another dtype or on another device, ShapeError if its memory is too
        short, AutogradError for a leaf that requires grad.

        >>> x, y = sg.zeros(2), sg.arange(4.0)
        >>> x.set_(y)
        tensor([0., 1., 2., 3.])
        >>> x[0] = 9
        >>> y
        tensor([9., 1., 2., 3.])
        """
        if mode.grad and self.is_leaf and self.requires_grad:
            raise AutogradError(
                "a leaf Variable that requires grad is being used in an in-place operation (set_). Hint: do it under sg.no_grad()."
            )
        self._check_own("set_")
        source = source.untyped() if isinstance(source, TypedStorage) else source
        if source is None:
            source, size, storage_offset = (
                type(self)._of(build.constant(0, self.dtype, self._node.device, (0,))),
                None,
                None,
            )
        whole = source.asked_of() if isinstance(source, StorageHandle) else source
        if whole.device != self.device:
            raise DeviceError(f"[set_] the source is on {whole.device}, the tensor on {self.device}.")
        if not isinstance(source, StorageHandle) and whole.dtype is not self.dtype:
            raise DTypeError(
                f"[set_] the source is {whole.dtype.name}, the tensor {self.dtype.name}. Hint: source.view(dtype)."
            )
        if isinstance(source, StorageHandle) or size is not None or storage_offset is not None:
            flat = whole._whole().reshape(-1).view(self.dtype)
            start = storage_offset or 0
            shape = (flat.numel() - start,) if size is None else tuple(size)
            whole = flat.as_strided(shape, row_major(shape) if stride is None else stride, start)
        elif stride is not None:
            raise ArgumentError("set_(): strides without a size.")
        self._show(whole, "set_")
        return self

    def as_strided_(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Self:
        """`as_strided`, in place; returns the tensor. Raises AutogradError for a leaf
        that requires grad.

        >>> x = sg.arange(6)
        >>> x.as_strided_((2,), (3,))
        tensor([0, 3])
        """
        return self._turned_into(self.as_strided(size, stride, storage_offset), "as_strided_")

    def _whole(self) -> Any:
        """A tensor over all of the memory that this one shares."""
        return self if self._shared is None else self._all_of(self._shared.storage)

    def _check_own(self, what: str) -> None:
        if current.trace is not None and self._serial <= current.trace.began:
            raise CompileError(
                f"[{what}] a compiled step cannot give a tensor from outside other memory. Hint: do it before."
            )

    def _show(self, view: Any, what: str) -> None:
        """Become the view that `view` makes."""
        if current.trace is not None:
            self._turned_into(view, what)
        else:
            self.data = view

    def _grow(self, start: int, shape: tuple[int, ...]) -> None:
        """Enlarge the memory of a tensor that shares it with none."""
        if not self._is_alone():
            raise ShapeError(
                f"[resize_] {list(shape)} needs more memory than there is, and other tensors share it: their elements would move. "
                "Hint: x = x.clone() first, or drop the views."
            )
        if current.trace is not None:
            current.trace.on_change(self)
        node = self._whole()._node
        flat = build.reshape(node, (node.size,))
        n = math.prod(shape)
        more = make(Pad((0,), (start + n - node.size,), (0,), False if self.dtype is bool_ else 0), flat)
        found = make(Slice((start,), (n,), (1,)), more) if start else more
        tracing.changes += 1
        self._rebound += 1
        self._own(build.reshape(found, shape))
