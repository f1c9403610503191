"""PyTorch's storage objects: the memory of tensors as a sequence of bytes, or of elements of one dtype.

A storage object references the tensor that it was requested from, which keeps the memory alive. All tensors that share the memory see
its writes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..dtypes import DType, uint8
from ..errors import ArgumentError, ArgumentTypeError, DTypeError, IndexRangeError, ShapeError, UnsupportedError


@dataclass(frozen=True)
class StorageHandle:
    """Memory as bytes: for comparing identity, its size, and copies of its bytes."""

    origin: int
    nbytes_: int
    shown_by: Any = field(default=None, repr=False, compare=False)

    def data_ptr(self) -> int:
        """A number that is equal for tensors that share their memory, and different for others. It is not an address.

        >>> x = sg.zeros(2)
        >>> x.untyped_storage().data_ptr() == x.data.untyped_storage().data_ptr()
        True
        """
        return self.origin << 40

    def nbytes(self) -> int:
        """Bytes of all the elements.

        >>> sg.zeros(2, 3)[0].untyped_storage().nbytes()
        24
        """
        return self.nbytes_

    size = __len__ = nbytes

    def element_size(self) -> int:
        """1."""
        return 1

    @property
    def dtype(self) -> DType:
        """uint8: elements are bytes."""
        return uint8

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return self.asked_of().device

    def tolist(self) -> list[int]:
        """The bytes. Raises as `asked_of`.

        >>> sg.tensor([1, 256], dtype=sg.int16).untyped_storage().tolist()
        [1, 0, 0, 1]
        """
        return list(self.asked_of()._whole().detach().numpy().tobytes())

    def __getitem__(self, index: int) -> int:
        return self.tolist()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def asked_of(self) -> Any:
        """The tensor from which it was requested, for `set_`. Raises ArgumentError if that refers to other memory now."""
        found = self.shown_by
        if found is None or found.untyped_storage().origin != self.origin:
            raise ArgumentError("the tensor that this storage was asked of shows other memory now. Hint: ask it again.")
        return found


class TypedStorage:
    """Memory as a sequence of elements of one dtype, which can be read and written.

    >>> x = sg.zeros(2, 2)
    >>> x.storage()[3] = 5
    >>> x
    tensor([[0., 0.],
            [0., 5.]])
    """

    __slots__ = ("_untyped_storage", "dtype")

    def __init__(self, untyped: StorageHandle, dtype: DType) -> None:
        self._untyped_storage = untyped
        self.dtype = dtype

    def _flat(self) -> Any:
        """A tensor of all the elements, which shares them."""
        return self._untyped_storage.asked_of().data._whole().reshape(-1).view(self.dtype)

    def untyped(self) -> StorageHandle:
        """The same memory as bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """A number that is equal for tensors that share their memory, and different for others. It is not an address."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Bytes of all the elements."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements there are."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return self.device != "cpu"

    def is_shared(self) -> bool:
        """False: no memory is shared with other processes."""
        return False

    def _at(self, index: Any) -> Any:
        if isinstance(index, slice):
            return index
        try:
            at = operator.index(index)
        except TypeError:
            raise ArgumentTypeError(f"a storage is indexed by an int or a slice, not {type(index).__name__}.") from None
        if not -len(self) <= at < len(self):
            raise IndexRangeError(f"index {at} is out of range for a storage of size {len(self)}.")
        return at

    def __getitem__(self, index: int) -> Any:
        """An element as a number. IndexRangeError outside, NotImplementedError for a slice, as in PyTorch."""
        if isinstance(index, slice):
            raise UnsupportedError("a storage has no slices to read. Hint: .tolist()[a:b], or a view of a tensor.")
        return self._flat()[self._at(index)].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._flat()[self._at(index)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as numbers."""
        return self._flat().tolist()

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element to a number. In place; returns self."""
        self._flat().fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Copy the elements of a storage of the same size and dtype. In place; returns self. ShapeError or DTypeError for another."""
        if source.dtype is not self.dtype:
            raise DTypeError(
                f"[copy_] a storage of {source.dtype.name} into one of {self.dtype.name}. Hint: copy the tensors."
            )
        if len(source) != len(self):
            raise ShapeError(f"[copy_] a storage of {len(source)} elements into one of {len(self)}.")
        self._flat().copy_(source._flat())
        return self

    def clone(self) -> TypedStorage:
        """The same elements in memory of their own."""
        return self._flat().clone().storage()

    def cpu(self) -> TypedStorage:
        """Itself on the cpu device; else a copy there."""
        return self if self.device == "cpu" else self._flat().cpu().storage()

    def __repr__(self) -> str:
        lines = [f" {value}" for value in self.tolist()]
        of = f"dtype={self.dtype.name}, device={self.device}"
        return "\n".join([*lines, f"[shadergrad.TypedStorage({of}) of size {len(self)}]"])
