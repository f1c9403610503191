"""Tensors for other libraries (DLPack) and for other processes, by a copy on the host, because nobody else can read the device's memory.

In: PyTorch's functions, which would pass on an invalid address. Out: replacements, which call the original for other devices.
https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing import reductions
from torch.utils import dlpack

from .storage import is_ours, to_host

WEBGPU, CPU = (15, 0), (1, 0)  # as DLPack counts devices: kDLWebGPU, kDLCPU
REFUSED = "[torch] a tensor of webgpu has no address that another library could read. Hint: x.cpu(), or x.__dlpack__(dl_device=(1, 0))."


def _replace_dlpack() -> None:
    of_tensor, device_of, capsule_of = Tensor.__dlpack__, Tensor.__dlpack_device__, torch.to_dlpack  # type: ignore[attr-defined]

    def exported(self: Tensor, **options: Any) -> Any:
        """A capsule of a copy on the host, for a consumer that requests one. Raises BufferError for all others."""
        if not is_ours(self):
            return of_tensor(self, **options)
        if options.pop("dl_device", None) != CPU or options.pop("copy", None) is False:
            raise BufferError(REFUSED)
        return of_tensor(to_host(self), **{**options, "stream": None})

    def device(self: Tensor) -> Any:
        return WEBGPU if is_ours(self) else device_of(self)

    def to_dlpack(tensor: Tensor) -> Any:
        if is_ours(tensor):
            raise BufferError(REFUSED)
        return capsule_of(tensor)

    Tensor.__dlpack__ = exported  # type: ignore[method-assign]
    Tensor.__dlpack_device__ = device  # type: ignore[method-assign]
    dlpack.to_dlpack = to_dlpack  # type: ignore[attr-defined]
    torch.to_dlpack = to_dlpack  # type: ignore[attr-defined]


def received(kind: type, host: Tensor, requires_grad: bool) -> Tensor:
    """A tensor from another process, on this process's device."""
    found = host.to("webgpu")
    return kind(found, requires_grad) if issubclass(kind, nn.Parameter) else found.requires_grad_(requires_grad)


def _sent(tensor: Tensor) -> Any:
    if not is_ours(tensor):
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("[torch] a tensor with a history cannot go to another process. Hint: detach() it.")
    return received, (type(tensor), to_host(tensor), tensor.requires_grad)


def register() -> None:
    """Replace the functions, once."""
    _replace_dlpack()
    for kind in (Tensor, nn.Parameter):
        ForkingPickler.register(kind, _sent)
