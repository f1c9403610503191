"""Errors and warnings for features that this device lacks: pinned memory, a second device, nn.DataParallel."""

from __future__ import annotations

import warnings
from typing import Any

import torch

_said: set[str] = set()


def _once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)


def _replace_pinning() -> None:
    of_tensor = torch.Tensor.pin_memory

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        if self.device.type != "cpu" or (device is not None and torch.device(device).type != "webgpu"):
            return of_tensor(self) if device is None else of_tensor(self, device)
        _once("pin_memory: the device webgpu has no page-locked memory; tensors stay in ordinary memory.")
        return self

    torch.Tensor.pin_memory = pin_memory  # type: ignore[method-assign]


def _replace_data_parallel() -> None:
    made = torch.nn.DataParallel.__init__

    def init(self: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        if any(p.device.type == "webgpu" for p in module.parameters()):
            raise RuntimeError(
                "[torch] nn.DataParallel copies a model to several devices, and webgpu is one. Hint: call the model itself."
            )
        made(self, module, *args, **kwargs)

    torch.nn.DataParallel.__init__ = init  # type: ignore[method-assign]


def register() -> None:
    """Replace PyTorch's functions, once; for other devices they call the originals."""
    _replace_pinning()
    _replace_data_parallel()
