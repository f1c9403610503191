"""Properties of a CUDA device that programs read before they choose a kernel or a batch size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import devices
from ..errors import DeviceError
from ..runtime.device import get_device, standing_for
from ..runtime.webgpu import WebGPUDevice


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of the device behind 'cuda'. total_memory: SHADERGRAD_MEMORY_LIMIT, or 0, because WebGPU does not report it. It is no
    CUDA device: the capability is (0, 0), and the number of multiprocessors 0."""

    name: str
    total_memory: int
    major: int = 0
    minor: int = 0
    multi_processor_count: int = 0
    is_integrated: bool = False


def _standing(what: str) -> str:
    name = standing_for("cuda")
    if name is None:
        raise DeviceError(
            f"[cuda.{what}] CUDA is not there: GPUs are reached by WebGPU. Hint: .to('webgpu'), sg.devices for what there is."
        )
    return name


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties. Raises DeviceError without a device.

    >>> try:
    ...     sg.cuda.get_device_properties(0)
    ... except sg.DeviceError as error:
    ...     print(str(error)[:28])
    [cuda.get_device_properties]
    """
    name = _standing("get_device_properties")
    found = get_device(name)
    limit = devices.memory_stats(name).limit if isinstance(found, WebGPUDevice) else None
    return DeviceProperties(found.describe(), limit or 0)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(0, 0): no CUDA device, below every capability that a program asks for. Raises DeviceError without a device.

    >>> try:
    ...     sg.cuda.get_device_capability()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:28])
    [cuda.get_device_capability]
    """
    _standing("get_device_capability")
    return 0, 0


def get_arch_list() -> list[str]:
    """[]: nothing is compiled for CUDA.

    >>> sg.cuda.get_arch_list()
    []
    """
    return []


__all__ = ["DeviceProperties", "get_arch_list", "get_device_capability", "get_device_properties"]
