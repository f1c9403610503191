"""Devices and memory as PyTorch's programs ask for them: `x.cuda()`, `x.get_device()`, pinned and shared memory."""

from __future__ import annotations

from typing import Any

from ..errors import DeviceError
from ..runtime.device import standing_for
from ..tensor import Tensor
from ..tensor.placement import has_stand_in
from .installation import install_methods, install_properties

NO_CUDA = "CUDA is not there: GPUs are reached by WebGPU. Hint: .to('webgpu')."


def _cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """There is no CUDA: raises DeviceError. GPUs are x.to('webgpu').

    >>> try:
    ...     sg.ones(2).cuda()
    ... except sg.DeviceError as error:
    ...     print(error)
    [cuda] CUDA is not there: GPUs are reached by WebGPU. Hint: .to('webgpu').
    """
    if has_stand_in("cuda"):  # under `shadergrad run --device`
        return self.to("cuda")
    raise DeviceError(f"[cuda] {NO_CUDA}")


def _get_device(self: Tensor) -> int:
    """-1 on the cpu device, else the number of the adapter.

    >>> sg.ones(2).get_device()
    -1
    """
    return -1 if self.device.type == "cpu" else self.device.index


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: uploads need no pinned memory.

    >>> sg.ones(2).pin_memory()
    tensor([1., 1.])
    """
    return self


def _is_pinned(self: Tensor) -> bool:
    """False.

    >>> sg.ones(2).is_pinned()
    False
    """
    return False


def _share_memory_(self: Tensor) -> Tensor:
    """The tensor itself; other processes get a copy.

    >>> sg.ones(2).share_memory_()
    tensor([1., 1.])
    """
    return self


def _is_shared(self: Tensor) -> bool:
    """False: other processes get a copy.

    >>> sg.ones(2).is_shared()
    False
    """
    return False


def _is_cuda(self: Tensor) -> bool:
    """Whether it is on the device that the name 'cuda' stands for, as under `shadergrad run` on a GPU.

    >>> sg.ones(2).is_cuda
    False
    """
    return self.device == standing_for("cuda")


install_methods(
    {
        "cuda": _cuda,
        "get_device": _get_device,
        "pin_memory": _pin_memory,
        "is_pinned": _is_pinned,
        "share_memory_": _share_memory_,
        "is_shared": _is_shared,
    }
)


def _is_cpu(self: Tensor) -> bool:
    """Whether it is on the cpu device.

    >>> sg.ones(2).is_cpu
    True
    """
    return self.device == "cpu"


def _is_unsupported(self: Tensor) -> bool:
    """False: there are no tensors of that kind.

    >>> sg.ones(2).is_xpu, sg.ones(2).is_meta
    (False, False)
    """
    return False


_UNSUPPORTED = (
    "is_mps",
    "is_xpu",
    "is_meta",
    "is_mtia",
    "is_hpu",
    "is_xla",
    "is_ipu",
    "is_vulkan",
    "is_mkldnn",
    "is_maia",
)
install_properties({"is_cuda": _is_cuda, "is_cpu": _is_cpu} | dict.fromkeys(_UNSUPPORTED, _is_unsupported))
