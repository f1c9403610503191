"""Memory statistics of the device behind 'cuda'; all are zero without one."""

from __future__ import annotations

from typing import Any

from .. import devices
from ..errors import DeviceError
from ..runtime.device import get_device, standing_for
from ..runtime.webgpu import WebGPUDevice

_NOTHING = devices.MemoryStats(in_use=0, peak=0, pooled=0, limit=None, buffers=0)


def _statistics() -> devices.MemoryStats:
    name = standing_for("cuda")
    counted = name is not None and isinstance(get_device(name), WebGPUDevice)
    return devices.memory_stats(name) if counted else _NOTHING


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors and steps take on the device; 0 without one.

    >>> sg.cuda.memory_allocated()
    0
    """
    return _statistics().in_use


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use at once; 0 without a device.

    >>> sg.cuda.max_memory_allocated()
    0
    """
    return _statistics().peak


def memory_reserved(device: Any = None) -> int:
    """Bytes in use and in the pool of free buffers; 0 without a device.

    >>> sg.cuda.memory_reserved()
    0
    """
    found = _statistics()
    return found.in_use + found.pooled


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were in use at once, or what is reserved now if that is more; 0 without a device.

    >>> sg.cuda.max_memory_reserved()
    0
    """
    return max(memory_reserved(), max_memory_allocated())


def memory_stats(device: Any = None) -> dict[str, int]:
    """The figures of sg.devices.memory_stats by PyTorch's names; {} without a device.

    >>> sg.cuda.memory_stats()
    {}
    """
    if standing_for("cuda") is None:
        return {}
    found = _statistics()
    return {
        "allocated_bytes.all.current": found.in_use,
        "allocated_bytes.all.peak": found.peak,
        "reserved_bytes.all.current": memory_reserved(),
        "reserved_bytes.all.peak": max_memory_reserved(),
        "allocation.all.current": found.buffers,
        "num_ooms": 0,
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of them for people.

    >>> print(sg.cuda.memory_summary())
    memory        bytes
    in use            0
    peak              0
    pooled            0
    """
    found = _statistics()
    rows = {"in use": found.in_use, "peak": found.peak, "pooled": found.pooled}
    return "\n".join([f"{'memory':8}  {'bytes':>9}", *(f"{name:8}  {count:9,}" for name, count in rows.items())])


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and all: of SHADERGRAD_MEMORY_LIMIT, for WebGPU does not tell how much memory a GPU has.

    Raises DeviceError without a device, or without that limit.

    >>> try:
    ...     sg.cuda.mem_get_info()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:19])
    [cuda.mem_get_info]
    """
    found = _statistics()
    if found.limit is None:
        raise DeviceError(
            "[cuda.mem_get_info] WebGPU does not tell how much memory a GPU has. "
            "Hint: with SHADERGRAD_MEMORY_LIMIT=8G it is that much."
        )
    return max(found.limit - memory_reserved(), 0), found.limit


def empty_cache() -> None:
    """Give memory that is free back to the driver; nothing without a device.

    >>> sg.cuda.empty_cache()
    """
    name = standing_for("cuda")
    if name is not None and isinstance(get_device(name), WebGPUDevice):
        devices.empty_cache(name)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let max_memory_allocated begin anew; nothing without a device.

    >>> sg.cuda.reset_peak_memory_stats()
    """
    name = standing_for("cuda")
    if name is not None and isinstance(get_device(name), WebGPUDevice):
        devices.reset_peak_memory_stats(name)


def reset_max_memory_allocated(device: Any = None) -> None:
    """As reset_peak_memory_stats.

    >>> sg.cuda.reset_max_memory_allocated()
    """
    reset_peak_memory_stats(device)


__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
]
