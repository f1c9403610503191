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
    """The bytes that tensors and plans use now. Pending values use none."""
    return _statistics().in_use


def max_memory_allocated(device: Any = None) -> int:
    """The peak of bytes in use."""
    return _statistics().peak


def memory_reserved(device: Any = None) -> int:
    """Bytes in use, and those kept for reuse."""
    found = _statistics()
    return found.in_use + found.pooled


def max_memory_reserved(device: Any = None) -> int:
    """The peak of bytes in use, or the bytes reserved now if they are more."""
    return max(memory_reserved(), max_memory_allocated())


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """The same figures under the keys of PyTorch's allocators."""
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
    """A printed table of them."""
    return "\n".join(f"{name:28}  {count:14,}" for name, count in memory_stats().items())


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of SHADERGRAD_MEMORY_LIMIT, because WebGPU does not report a GPU's total memory.

    Raises DeviceError without that limit.
    """
    limit = _statistics().limit
    if limit is None:
        raise DeviceError(
            "[torch.webgpu.mem_get_info] WebGPU does not tell how much memory a GPU has. Hint: with SHADERGRAD_MEMORY_LIMIT=8G it is that much."
        )
    return max(limit - memory_reserved(), 0), limit


def total_memory() -> int:
    """SHADERGRAD_MEMORY_LIMIT in bytes; 0 if that is not set."""
    return _statistics().limit or 0


def empty_cache() -> None:
    """Return free memory to the driver."""
    if Place.device != "cpu":
        flush()
        devices.empty_cache(Place.device)


def empty_host_cache() -> None:
    """Nothing: there is no pinned memory."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Reset max_memory_allocated to the present use."""
    if Place.device != "cpu":
        devices.reset_peak_memory_stats(Place.device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing: no figure is accumulated."""


FUNCTIONS = (
    empty_cache, empty_host_cache, max_memory_allocated, max_memory_reserved, mem_get_info, memory_allocated, memory_reserved, memory_stats,
    memory_summary, reset_accumulated_memory_stats, reset_peak_memory_stats,
)  # fmt: skip
