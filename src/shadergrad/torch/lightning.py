"""The device as an accelerator of lightning, whose Trainer knows only its own accelerators.

    from shadergrad.torch.lightning import WebGPUAccelerator
    lightning.Trainer(accelerator=WebGPUAccelerator())

lightning chooses a single-device strategy by the accelerator's class, and uses the host for classes that it does not know. So this one is
derived from its accelerator of Apple's GPUs, which also has one device.
https://lightning.ai/docs/pytorch/stable/extensions/accelerator.html
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from ..errors import DeviceError
from ..system.optional_packages import MissingPackageError
from .registration import get_device_name, is_available


def _bases() -> tuple[type, ...]:
    """The accelerators of the two loops, Trainer and Fabric, in the package of either name."""
    for loops, fabric in (("lightning.pytorch", "lightning.fabric"), ("pytorch_lightning", "lightning_fabric")):
        try:
            rooms = [importlib.import_module(f"{name}.accelerators") for name in (loops, fabric)]
        except ModuleNotFoundError:
            continue
        return tuple(room.MPSAccelerator for room in rooms)
    raise MissingPackageError(
        "shadergrad.torch.lightning needs lightning, which is not installed. Hint: pip install lightning"
    )


class WebGPUAccelerator(*_bases()):  # type: ignore[misc]
    """The device webgpu for lightning's Trainer and Fabric. Raises DeviceError for more than one device."""

    def setup_device(self, device: torch.device) -> None:
        if device.type != "webgpu":
            raise DeviceError(
                f"[WebGPUAccelerator] the strategy's device is {device}, not webgpu. Hint: leave strategy out."
            )

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return torch.webgpu.memory_stats()  # type: ignore[attr-defined]

    def teardown(self) -> None: ...

    @staticmethod
    def parse_devices(devices: Any) -> list[int]:
        if devices in (1, "1", -1, "-1", [0], "auto", "0,"):
            return [0]
        raise DeviceError(f"[WebGPUAccelerator] there is one device, webgpu:0, not devices={devices!r}.")

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        return [torch.device("webgpu", index) for index in WebGPUAccelerator.parse_devices(devices)]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return is_available()

    @staticmethod
    def name() -> str:
        return "webgpu"

    @staticmethod
    def device_name(device: Any = None) -> str:
        return get_device_name()

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        """Nothing: if it were registered by name, lightning would use the host."""


__all__ = ["WebGPUAccelerator"]
