"""The devices of this process: which adapters there are, and a way back after one was lost.

A GPU can be lost at any time: its driver is reset because a kernel ran too long, it is unplugged, or another program
crashes it. Everything in its memory is gone then, and each call to it raises DeviceLostError until `reset`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import config
from .drive.tracing import current
from .errors import CompileError, DeviceError
from .runtime import adapters as runtime_adapters
from .runtime.adapters import AdapterInfo
from .runtime.device import canonical_name, get_device, open_devices
from .runtime.implementations import forget_adapters
from .runtime.limits import DeviceLimits
from .runtime.limits import measure_limits as runtime_measure_limits
from .runtime.webgpu import WebGPUDevice, wish_of
from .system.browser import IN_BROWSER
from .tensor.pending import failures, flush, sync

__all__ = [
    "AdapterInfo",
    "DeviceLimits",
    "MemoryStats",
    "adapters",
    "empty_cache",
    "measure_limits",
    "memory_stats",
    "request_async",
    "reset",
    "reset_peak_memory_stats",
]


async def request_async() -> list[AdapterInfo]:
    """The adapters, for Python in a page: asks the browser for the GPU, so that the device `webgpu` opens where Python cannot wait.

    Needed once, before the first use of the device, in browsers without JavaScript Promise Integration. Elsewhere the same as `adapters`.

    >>> import asyncio
    >>> asyncio.run(sg.devices.request_async()) == sg.devices.adapters()
    True
    """
    if IN_BROWSER:
        from .runtime import page  # imports pyodide, which only browsers have

        await page.request(wish_of(config))
        forget_adapters()
    return adapters()


@dataclass(frozen=True)
class MemoryStats:
    """Bytes of a device's memory. in_use: by tensors and compiled steps; peak: the maximum of in_use since the device was opened or
    `reset_peak_memory_stats` was called; pooled: free, and kept for later tensors; limit: the maximum of in_use and pooled
    together (SHADERGRAD_MEMORY_LIMIT), or None; buffers: the number of buffers in use.

    >>> sg.devices.MemoryStats(in_use=1024, peak=2048, pooled=0, limit=None, buffers=2).peak
    2048
    """

    in_use: int
    peak: int
    pooled: int
    limit: int | None
    buffers: int


def memory_stats(name: object = "webgpu") -> MemoryStats:
    """What a device's tensors take now. Raises DeviceError for the cpu device, whose arrays are the host's.

    >>> try:
    ...     sg.devices.memory_stats("cpu")
    ... except sg.DeviceError as error:
    ...     print(str(error).partition(".")[0])
    [memory_stats] cpu's arrays are NumPy's, in the host's memory, which is not counted here
    """
    statistics = _gpu(name, "memory_stats").statistics()
    return MemoryStats(
        statistics.bytes_in_use,
        statistics.peak_bytes,
        statistics.bytes_pooled,
        statistics.memory_limit,
        statistics.live_buffers,
    )


def reset_peak_memory_stats(name: object = "webgpu") -> None:
    """Set `memory_stats(name).peak` to the memory in use now. Raises DeviceError for the cpu device.

    >>> for adapter in sg.devices.adapters()[:1]:
    ...     sg.devices.reset_peak_memory_stats("webgpu")
    """
    _gpu(name, "reset_peak_memory_stats").reset_peak()


def empty_cache(name: object = "webgpu") -> None:
    """Return free memory of the pool to the driver. Raises DeviceError for the cpu device.

    >>> for adapter in sg.devices.adapters()[:1]:
    ...     sg.devices.empty_cache("webgpu")
    """
    _gpu(name, "empty_cache").empty_cache()


def measure_limits(name: object = "webgpu") -> DeviceLimits:
    """What a device can do at best, measured once a process, in a fraction of a second: bytes a second of memory, read and
    written, and multiplications and additions a second in float32. Raises DeviceError where it cannot be opened.

    >>> sg.devices.measure_limits("cpu").bytes_per_second > 0
    True
    """
    sync()
    return runtime_measure_limits(canonical_name(name))


def _gpu(name: object, what: str) -> WebGPUDevice:
    device = get_device(canonical_name(name))
    if not isinstance(device, WebGPUDevice):
        raise DeviceError(
            f"[{what}] {device.name}'s arrays are NumPy's, in the host's memory, which is not counted here. "
            "Hint: the process's memory is the operating system's to tell."
        )
    return device


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
        flush(device_name, views=True)  # nodes that need lost values are dropped here, before the next step finds them
        failures(device_name)
    return again
