"""The devices of this process: which adapters there are, and a way back after one was lost.

A GPU can be lost at any time: its driver is reset because a kernel ran too long, it is unplugged, or another program
crashes it. Everything in its memory is gone then, and each call to it raises DeviceLostError until `reset`.
"""

from __future__ import annotations

from .errors import CompileError
from .run.tracing import current
from .runtime import adapters as runtime_adapters
from .runtime.adapters import AdapterInfo
from .runtime.device import canonical_name, open_devices
from .tensor.pending import failures, flush

__all__ = ["AdapterInfo", "adapters", "reset"]


def adapters(all_backends: bool = False) -> list[AdapterInfo]:
    """The adapters that `webgpu`, `webgpu:1`, ... open, in this order; empty where the machine has none.

    all_backends: also those that show the same GPU once more, through a worse backend; their `index` is -1.
    Raises DeviceError where wgpu cannot be loaded, ConfigError where SHADERGRAD_ADAPTER names none of them.

    >>> all(isinstance(adapter, sg.devices.AdapterInfo) for adapter in sg.devices.adapters())
    True
    """
    return runtime_adapters.adapters(all_backends)


def reset(name: object | None = None) -> list[str]:
    """Open a lost device again, or, without a name, every one that was lost; returns the names of those.

    Devices that were not lost stay as they are. Models, optimizers and compiled steps go on with the new device: load
    the last checkpoint into them (`load_state_dict`), and seed the random numbers (`sg.manual_seed`). Tensors that the
    host can make again have their values: pending ones that read nothing from the old memory, and those made from up to
    4 KiB of host data and not changed in a compiled step since. All others are gone; using one raises DeviceLostError,
    until it is given another value.

    Raises DeviceError where the device cannot be opened, or another adapter is in its place; CompileError within a
    compiled step.

    >>> sg.devices.reset()
    []
    """
    if current.trace is not None:
        raise CompileError("devices.reset() cannot be part of a compiled step. Hint: call it outside.")
    wanted = None if name is None else canonical_name(name)
    again = [device.name for device in open_devices() if wanted in (None, device.name) and device.reset()]
    for device_name in again:
        flush(device_name, views=True)  # what needs lost values is dropped here, and not met by the next step
        failures(device_name)
    return again
