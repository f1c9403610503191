"""Copies, pickles and printing of tensors that have no address. In: PyTorch's own methods. Out: the same, by values for this device.

PyTorch asks a storage for its address when it copies, pickles, shares or prints it. Five of its functions are replaced; for
tensors of other devices they do what they did.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import _tensor_str, _utils

from .storage import Cell, is_ours, to_host


def _replace_pickling() -> None:
    of_tensor, of_parameter = torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__

    def reduce_tensor(self: torch.Tensor, protocol: Any) -> Any:
        if not is_ours(self):
            return of_tensor(self, protocol)
        return _utils._rebuild_device_tensor_from_cpu_tensor, (
            to_host(self),
            self.dtype,
            str(self.device),
            self.requires_grad,
        )

    def reduce_parameter(self: torch.nn.Parameter, protocol: Any) -> Any:
        if not is_ours(self):
            return of_parameter(self, protocol)
        return _utils._rebuild_parameter, (self.data, self.requires_grad, {})

    torch.Tensor.__reduce_ex__ = reduce_tensor  # type: ignore[assignment]
    torch.nn.Parameter.__reduce_ex__ = reduce_parameter  # type: ignore[assignment]


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
