"""Copies, pickles and printing of tensors without addresses. In: PyTorch's own methods. Out: replacements that work by value on this device.

PyTorch reads a storage's address when it copies, pickles, shares or prints it. For tensors of other devices the replaced functions call
the originals.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import _tensor_str

from .storage import Cell, is_ours, to_host


def _replace_pickling() -> None:
    of_tensor = torch.Tensor._reduce_ex_internal

    def reduce_internal(self: torch.Tensor, protocol: Any) -> Any:
        """PyTorch's own form: a storage, sizes, strides. It does not ask the storage for its values; files.py does."""
        if is_ours(self):
            self.untyped_storage().shown = self.dtype  # type: ignore[attr-defined]
        return of_tensor(self, protocol)

    torch.Tensor._reduce_ex_internal = reduce_internal  # type: ignore[assignment]


def _replace_deepcopy() -> None:
    of_storage = torch.storage._StorageBase.__deepcopy__

    def deepcopy(self: Any, memo: dict[Any, Any]) -> Any:
        if self.device.type != "webgpu":
            return of_storage(self, memo)
        made = memo.setdefault("torch", {})
        if self._cdata not in made:
            copy = torch.empty(self.nbytes(), dtype=torch.uint8, device="webgpu").untyped_storage()
            if hasattr(self, "cell"):
                copy.cell = Cell(self.cell.value.clone())  # type: ignore[attr-defined]
            made[self._cdata] = copy
        return made[self._cdata]

    torch.storage._StorageBase.__deepcopy__ = deepcopy  # type: ignore[assignment]
    torch.UntypedStorage.__deepcopy__ = deepcopy  # type: ignore[assignment]


def _replace_printing() -> None:
    of_tensor = _tensor_str._tensor_str

    def shown(self: torch.Tensor, indent: int) -> str:
        return of_tensor(to_host(self) if is_ours(self) else self, indent)

    _tensor_str._tensor_str = shown


def register() -> None:
    """Replace PyTorch's functions, once."""
    _replace_pickling()
    _replace_deepcopy()
    _replace_printing()
