"""Tensor methods about memory layout: strides, offsets, and which tensors share memory."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Self

from ..drive.tracing import current
from ..errors import ArgumentError, AutogradError, ShapeError
from .axes import check_axis
from .repetition import RepeatTensor
from .storage_handles import StorageHandle, TypedStorage


class AddressTensor(RepeatTensor):
    """Methods about memory layout."""

    __slots__ = ()

    def is_contiguous(self, memory_format: str = "contiguous_format") -> bool:
        """Whether the elements are row-major and contiguous in memory; with memory_format "channels_last" (four axes) or
        "channels_last_3d" (five axes), whether they are with axis 1 as the last one.

        >>> x = sg.zeros(2, 3)
        >>> x.is_contiguous(), x.t().is_contiguous()
        (True, False)
        """
        axes = {"channels_last": 4, "channels_last_3d": 5}.get(memory_format)
        if axes is None:
            return self._is_row_major()
        if self.ndim != axes:
            return False
        sizes, strides, expected = self.shape, self._strides()[0], 1
        for axis in (1, *range(axes - 1, 1, -1), 0):
            if sizes[axis] != 1 and strides[axis] != expected:
                return False
            expected *= sizes[axis]
        return True

    def as_strided(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Self:
        """A view of shape `size` of the tensor's memory: element (i, j, ...) is the one at storage_offset + i *
        stride[0] + j * stride[1] + ... storage_offset: by default the tensor's own.

        Raises ShapeError if the memory is too short, ArgumentError for negative numbers, and AutogradError for a tensor with
        history that is not contiguous, or that does not contain all elements of the view.

        >>> sg.arange(6).as_strided((2, 3), (1, 2))
        tensor([[0, 2, 4],
                [1, 3, 5]])
        """
        if len(size) != len(stride):
            raise ShapeError("mismatch in length of strides and shape")
        own = self.storage_offset()
        start = own if storage_offset is None else storage_offset
        if start < 0 or any(n < 0 for n in (*size, *stride)):
            raise ArgumentError("as_strided: Negative sizes, strides and offsets are not supported.")
        reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
        inside = own <= start and start + reach <= own + self.numel() and self._is_row_major()
        if inside or self._shared is None:
            flat: Any = self.reshape(-1)
            start -= own
        elif self._node.requires_grad:
            raise AutogradError(
                "as_strided: a tensor with history must lie row by row and hold the view. Hint: .contiguous()."
            )
        else:
            flat = self._all_of(self._shared.storage).reshape(-1)
            flat = flat if flat.dtype is self.dtype else flat.view(self.dtype)
        if start + reach > flat.numel():
            raise ShapeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start} require {start + reach} elements, "
                f"but there are {flat.numel()}."
            )
        found = flat[start : start + reach]
        if 0 in size:
            return found.reshape(*size)
        for k, (n, step) in enumerate(zip(size, stride, strict=True)):
            rest = reach - (n - 1) * step
            if step == 0 or n == 1:
                found = found.unsqueeze(k).expand(*size[: k + 1], reach)
            else:
                found = found.unfold(k, rest, step)
            reach = rest
        return found.squeeze(-1)

    def stride(self, dim: int | None = None) -> Any:
        """The distance in elements between neighbours along every axis, or along `dim`, in the tensor's memory.

        Raises IndexRangeError for an axis that does not exist.

        >>> sg.zeros(2, 3).stride(), sg.zeros(2, 3).t().stride(0)
        ((3, 1), 1)
        """
        layout = self._strides()[0]
        return layout if dim is None else layout[check_axis(dim, self.ndim, "stride")]

    def storage_offset(self) -> int:
        """The position of the first element in the tensor's memory, in elements.

        >>> sg.arange(5)[2:].storage_offset()
        2
        """
        return self._strides()[1]

    def data_ptr(self) -> int:
        """A number that identifies the first element's memory: equal for tensors that begin at the same element of the same memory,
        different otherwise. It is not an address.

        >>> x = sg.zeros(2, 3)
        >>> x.data_ptr() == x.t().data_ptr(), x.data_ptr() == x[1].data_ptr(), x.data_ptr() == x.clone().data_ptr()
        (True, False, False)
        """
        return self.untyped_storage().data_ptr() + self.storage_offset() * self.element_size()

    @property
    def _cdata(self) -> int:
        """A number that identifies this object, by which libraries on top of PyTorch test whether two names are one tensor."""
        return id(self)

    def untyped_storage(self) -> StorageHandle:
        """The memory that the tensor shares with its views and aliases, to be compared by data_ptr(), counted and copied as bytes.

        >>> x = sg.zeros(2, 3)
        >>> x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr()
        True
        """
        shared = self._shared
        if shared is None:
            return StorageHandle(self._serial, self._node.size * self.element_size(), self)
        whole = shared.storage.node
        return StorageHandle(shared.storage.origin, whole.size * whole.dtype.itemsize, self)

    @property
    def _base(self) -> Any:
        """The tensor of which this one is a view; None if it is not a view."""
        shared = self._shared
        if shared is None or shared.storage.tensor() is self or self._serial == shared.storage.origin:
            return None
        found = self._all_of(shared.storage)
        if shared.storage.tensor() is None and current.trace is None:
            shared.storage.tensor = weakref.ref(found)  # the same object as long as it is referenced
        return found

    def _is_view(self) -> bool:
        """Whether the tensor is a view of another."""
        return self._base is not None

    def storage(self) -> TypedStorage:
        """The memory that the tensor shares with its views and aliases, as a sequence of elements of its dtype.

        >>> x = sg.arange(4).reshape(2, 2)
        >>> x[1].storage().tolist(), x.storage().data_ptr() == x.detach().storage().data_ptr()
        ([0, 1, 2, 3], True)
        """
        return TypedStorage(self.untyped_storage(), self.dtype)
