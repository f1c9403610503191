"""torch.accelerator for this device. PyTorch's functions need a C++ allocator and C++ hooks, which a device in Python lacks.

One of them would read invalid memory and crash the process. In: PyTorch's functions. Out: replacements, which call the original for other
devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..errors import DeviceError
from . import memory, streams

Function = Callable[..., Any]


def _is_ours() -> bool:
    found = torch.accelerator.current_accelerator()
    return found is not None and found.type == "webgpu"


def refuse_index(device: Any) -> None:
    """Raises DeviceError for any but the first device."""
    index = device if isinstance(device, int) else None if device is None else torch.device(device).index
    if index not in (None, 0):
        raise DeviceError(f"[torch] there is one device, webgpu:0, not {device!r}.")


def _chosen(theirs: Function, ours: Function) -> Function:
    @functools.wraps(theirs)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _is_ours():
            return theirs(*args, **kwargs)
        for device in args[:1]:
            if not isinstance(device, torch.Stream):
                refuse_index(device)
        return ours(*args, **kwargs)

    return run


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """The dtypes with which an accelerator computes, in PyTorch's form."""
    dtypes = (
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
    return {"supported_dtypes": set(dtypes)}


def register() -> None:
    """Replace the functions, once."""
    rooms = (torch.accelerator, torch.accelerator.memory)
    ours: dict[str, Function] = {f.__name__: f for f in memory.FUNCTIONS}
    ours |= {
        "get_memory_info": memory.mem_get_info,
        "synchronize": streams.synchronize,
        "get_device_capability": get_device_capability,
        "set_device_index": lambda device: None,
        "set_device_idx": lambda device: None,
    }
    for name, function in ours.items():
        theirs = next((getattr(room, name) for room in rooms if hasattr(room, name)), None)
        if theirs is None:
            continue
        made = _chosen(theirs, function)
        for room in rooms:
            if hasattr(room, name):
                setattr(room, name, made)
    enter = torch.accelerator.device_index.__enter__

    def entered(self: Any) -> None:
        if _is_ours():
            refuse_index(self.idx)
        return enter(self)

    torch.accelerator.device_index.__enter__ = entered  # type: ignore[method-assign]
