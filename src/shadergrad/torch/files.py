"""Storages that move between host and device as bytes, in torch.load(map_location=) and safetensors.

A storage of bytes has no dtype until a tensor is made over it; until then it keeps the host's bytes. A storage on its way to the host
has the dtype of the tensor that was saved (copies.py records it), else that of its values.
"""

from __future__ import annotations

import io
from typing import Any

import torch

from ..errors import DTypeError
from .dtypes import TORCH
from .private import lay, new_tensor
from .storage import to_host

_BYTES = torch.uint8


def _on_device(host: torch.UntypedStorage) -> torch.UntypedStorage:
    n = host.nbytes()
    storage = lay(new_tensor((n,), _BYTES), new_tensor((n,), _BYTES).untyped_storage(), 0, (n,), (1,)).untyped_storage()
    storage.host = host.clone()  # type: ignore[attr-defined]  storage.py makes a cell of it, when it knows the dtype
    return storage


def _on_host(storage: Any) -> torch.UntypedStorage:
    """The bytes as PyTorch's cpu stores them. Raises DTypeError if their dtype is unknown."""
    if hasattr(storage, "host"):
        return storage.host.clone()
    if not hasattr(storage, "cell"):
        return torch.zeros(storage.nbytes(), dtype=_BYTES).untyped_storage()
    dtype = getattr(storage, "shown", None)
    if dtype is None:
        value = storage.cell.value
        dtype = TORCH[value.dtype]
        if value.numel() * dtype.itemsize != storage.nbytes():  # it substitutes another dtype, which is not unique
            raise DTypeError("[torch] a storage of webgpu does not say which dtype it has. Hint: move its tensor.")
    n = storage.nbytes() // dtype.itemsize
    return to_host(lay(new_tensor((n,), dtype), storage, 0, (n,), (1,))).untyped_storage()


def _replace_reading() -> None:
    """Replaces the copy of a storage to the host, its file of PyTorch's old format, and its pickle, which is such a file."""
    of_storage, of_bytes, of_pickle = (
        torch.storage._StorageBase.cpu,
        torch.UntypedStorage._write_file,
        torch.storage._StorageBase.__reduce__,
    )
    of_typed, into_storage = torch.TypedStorage.__reduce__, torch.UntypedStorage._set_from_file

    def cpu(self: Any) -> Any:
        return _on_host(self) if self.device.type == "webgpu" else of_storage(self)

    def write_file(self: Any, *args: Any) -> Any:
        return of_bytes(_on_host(self) if self.device.type == "webgpu" else self, *args)

    def set_from_file(self: Any, *args: Any) -> Any:
        """The old format first makes storages, then tensors over them, then reads their bytes."""
        if self.device.type != "webgpu":
            return into_storage(self, *args)
        self.host = torch.UntypedStorage(self.nbytes())
        self.__dict__.pop("cell", None)
        into_storage(self.host, *args)
        return self

    def reduced(self: Any, storage: Any, otherwise: Any) -> Any:
        if storage.device.type != "webgpu":
            return otherwise(self)
        if storage is not self:
            storage.shown = self._dtype
        file = io.BytesIO()
        torch.save(self, file)
        return torch.storage._load_from_bytes, (file.getvalue(),)

    for kind in (torch.storage._StorageBase, torch.UntypedStorage):
        kind.cpu = cpu  # type: ignore[method-assign]
        kind.__reduce__ = lambda self: reduced(self, self, of_pickle)  # type: ignore[method-assign]
    torch.UntypedStorage._write_file = write_file
    torch.UntypedStorage._set_from_file = set_from_file
    torch.TypedStorage.__reduce__ = lambda self: reduced(self, self._untyped_storage, of_typed)  # type: ignore[method-assign]


def _replace_moves() -> None:
    of_storage = torch.storage._StorageBase.to

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        device = torch.device(device)
        if self.device.type == device.type or "webgpu" not in (self.device.type, device.type):
            return of_storage(self, device=device, non_blocking=non_blocking)
        if device.type == "webgpu":
            return _on_device(self.cpu())
        return _on_host(self)

    torch.storage._StorageBase.to = to  # type: ignore[method-assign]
    torch.UntypedStorage.to = to  # type: ignore[method-assign]


def _replace_safetensors() -> None:
    try:
        from safetensors import safe_open  # late: other programs have no use for it
        from safetensors import torch as files
    except ImportError:
        return
    of_file = files.load_file

    def load_file(filename: Any, device: Any = "cpu", **options: Any) -> dict[str, torch.Tensor]:
        if torch.device(device).type != "webgpu":
            return of_file(filename, device, **options)
        with safe_open(filename, framework="pt", device="cpu", **options) as file:  # a tensor at a time
            return {name: file.get_tensor(name).to(device) for name in file.keys()}  # noqa: SIM118  it is no mapping

    files.load_file = load_file


def register() -> None:
    """Replace the functions, once; for other devices they call the originals."""
    _replace_moves()
    _replace_reading()
    _replace_safetensors()
