"""Addresses for storages without memory of the process, so that programs can test whether two tensors share memory.

In: PyTorch's data_ptr() of tensors and storages. Out, for this device: a unique number of the storage, plus the tensor's
offset. It is not an address of the process and must not be dereferenced.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from .storage import cell_of, is_ours

_SPACING = 1 << 40  # bytes: larger than any storage
_next = itertools.count(_SPACING, _SPACING).__next__


def _address_of(cell: Any) -> int:
    if cell.address == 0:
        cell.address = _next()
    return cell.address


def register() -> None:
    """Replace PyTorch's two methods, once; for other devices they call the originals."""
    of_tensor, of_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr

    def tensor_address(self: torch.Tensor) -> int:
        if not is_ours(self):
            return of_tensor(self)
        return _address_of(cell_of(self)) + int(self.storage_offset()) * self.element_size() if self.numel() else 0

    def storage_address(self: torch.UntypedStorage) -> int:
        cell = getattr(self, "cell", None)
        if cell is not None:
            return _address_of(cell)
        if self.device.type != "webgpu":
            return of_storage(self)
        if not hasattr(self, "address"):  # bytes without a tensor so far: its cell will take this address
            self.address = _next()  # type: ignore[attr-defined]
        return self.address  # type: ignore[attr-defined]

    torch.Tensor.data_ptr = tensor_address  # type: ignore[method-assign]
    torch.UntypedStorage.data_ptr = storage_address  # type: ignore[method-assign]
