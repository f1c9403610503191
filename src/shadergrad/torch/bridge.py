"""Conversion between torch.Tensors of the device and shadergrad tensors, without a copy through the host.

In: one of either. Out: the other, with the same values. They share neither memory nor history: PyTorch replaces the value of a
storage, and shadergrad tensors are written in place.
"""

from __future__ import annotations

import torch

from ..errors import DeviceError
from ..interop import torch_tensors
from ..tensor import Tensor
from .storage import Place, is_ours, read, wrap


def to_shadergrad(x: torch.Tensor) -> Tensor:
    """A shadergrad tensor with the values of a torch.Tensor of the device webgpu. Raises DeviceError for one of another device."""
    if not is_ours(x):
        raise DeviceError(
            f"[to_shadergrad] the tensor is on {x.device}, not on webgpu. Hint: sg.interop.from_torch takes tensors of any device."
        )
    return read(x.detach()).clone()


def from_shadergrad(x: Tensor) -> torch.Tensor:
    """A torch.Tensor of the device webgpu with the values of a shadergrad tensor."""
    value = x.detach().clone()
    return wrap(value if str(value.device).partition(":")[0] == Place.device else value.to(Place.device))


def register() -> None:
    """Let sg.interop.from_torch use this conversion."""
    torch_tensors.ON_DEVICE["webgpu"] = to_shadergrad
