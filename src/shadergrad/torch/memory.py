"""Memory statistics under PyTorch's names. In: sg.devices' figures. Out: bytes; zeros on the cpu device, which does not count its arrays."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .. import devices
from ..errors import DeviceError
from .sequences import flush
from .storage import Place

_NOTHING = devices.MemoryStats(in_use=0, peak=0, pooled=0, limit=None, buffers=0)


def _statistics() -> devices.MemoryStats:
    return _NOTHING if Place.device == "cpu" else devices.memory_stats(Place.device)


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors and plans take now. What is not computed yet takes none."""
    return _statistics().in_use


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use at once."""
    return _statistics().peak


def memory_reserved(device: Any = None) -> int:
    """Bytes in use, and those kept for what comes next."""
    found = _statistics()
    return found.in_use + found.pooled


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were in use at once, or what is reserved now if that is more."""
    return max(memory_reserved(), max_memory_allocated())


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """The same figures by the keys of PyTorch's allocators."""
    found = _statistics()
    return OrderedDict(
        {
            "allocated_bytes.all.current": found.in_use,
            "allocated_bytes.all.peak": found.peak,
            "reserved_bytes.all.current": memory_reserved(),
            "reserved_bytes.all.peak": max_memory_reserved(),
            "allocation.all.current": found.buffers,
            "num_ooms": 0,
        }
    )


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of them for people."""
    return "\n".join(f"{name:28}  {count:14,}" for name, count in memory_stats().items())


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and all: of SHADERGRAD_MEMORY_LIMIT, for WebGPU does not tell how much memory a GPU has.

    Raises DeviceError without that limit.
    """
    limit = _statistics().limit
    if limit is None:
        raise DeviceError(
            "[torch.webgpu.mem_get_info] WebGPU does not tell how much memory a GPU has. Hint: with SHADERGRAD_MEMORY_LIMIT=8G it is that much."
        )
    return max(limit - memory_reserved(), 0), limit


def total_memory() -> int:
    """Of SHADERGRAD_MEMORY_LIMIT; 0 where that is not set."""
    return _statistics().limit or 0


def empty_cache() -> None:
    """Give memory that is free back to the driver."""
    if Place.device != "cpu":
        flush()
        devices.empty_cache(Place.device)


def empty_host_cache() -> None:
    """Nothing: there is no page-locked memory."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let max_memory_allocated begin anew."""
    if Place.device != "cpu":
        devices.reset_peak_memory_stats(Place.device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing: no figure is accumulated."""


FUNCTIONS = (
    empty_cache, empty_host_cache, max_memory_allocated, max_memory_reserved, mem_get_info, memory_allocated, memory_reserved, memory_stats,
    memory_summary, reset_accumulated_memory_stats, reset_peak_memory_stats,
)  # fmt: skip
