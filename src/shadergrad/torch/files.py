"""Storages that move between host and device as bytes, as torch.load(map_location=) does, and safetensors.

A storage of bytes has no dtype before a tensor is laid over it: until then it keeps the host's bytes.
"""

from __future__ import annotations

from typing import Any

import torch

from .private import lay, new_tensor

_BYTES = torch.uint8


def _on_device(host: torch.UntypedStorage) -> torch.UntypedStorage:
    n = host.nbytes()
    storage = lay(new_tensor((n,), _BYTES), new_tensor((n,), _BYTES).untyped_storage(), 0, (n,), (1,)).untyped_storage()
    storage.host = host.clone()  # type: ignore[attr-defined]  storage.py makes a cell of it, when it knows the dtype
    return storage


def _replace_moves() -> None:
    of_storage = torch.storage._StorageBase.to

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        device = torch.device(device)
        if self.device.type == device.type or "webgpu" not in (self.device.type, device.type):
            return of_storage(self, device=device, non_blocking=non_blocking)
        if device.type == "webgpu":
            return _on_device(self.cpu())
        raise NotImplementedError(
            "[torch] a storage of webgpu has no bytes on the host. Hint: move its tensor, with tensor.cpu()."
        )

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
    """Replace the functions, once; for other devices they do what they did."""
    _replace_moves()
    _replace_safetensors()
