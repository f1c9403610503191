"""The GPU of this machine, as torch.accelerator: WebGPU's first adapter, where there is one.

Under `shadergrad run --device` it is the device that was asked for, and there is none for `--device cpu`.
"""

from __future__ import annotations

from typing import Any

from .runtime.adapters import adapters
from .runtime.device import only_device
from .tensor import device, sync


def device_count() -> int:
    """How many adapters there are.

    >>> sg.accelerator.device_count() >= 0
    True
    """
    only = only_device()
    return len(adapters()) if only is None else int(only != "cpu")


def is_available() -> bool:
    """Whether there is a WebGPU adapter.

    >>> sg.accelerator.is_available() == (sg.accelerator.device_count() > 0)
    True
    """
    return device_count() > 0


def current_accelerator(check_available: bool = False) -> Any:
    """The device 'webgpu', or None where there is no adapter.

    >>> sg.accelerator.current_accelerator() in ("webgpu", None)
    True
    """
    return device(only_device() or "webgpu") if is_available() else None


def current_device_index() -> int:
    """0.

    >>> sg.accelerator.current_device_index()
    0
    """
    return 0


def synchronize(device: Any = None) -> None:
    """Compute all pending values, and wait for the device.

    >>> sg.accelerator.synchronize()
    """
    sync(None if device is None or isinstance(device, int) else str(device))


__all__ = ["current_accelerator", "current_device_index", "device_count", "is_available", "synchronize"]
