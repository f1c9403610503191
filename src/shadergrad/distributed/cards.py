"""Assigns GPUs to the processes of a machine that train together. In: the launcher's environment variables. Out: names of devices.

The process with LOCAL_RANK k has webgpu:k. Where there are fewer GPUs than processes they share them, in turn.
"""

from __future__ import annotations

from .. import config
from ..runtime.adapters import adapters
from .launch import local_rank, number


def are_several() -> bool:
    """Whether a launcher started this process with others."""
    return config.launched_with("WORLD_SIZE") not in ("", "1")


def cards() -> list[str]:
    """The devices by number, for every process on this machine and every GPU."""
    count = _count()
    return [f"webgpu:{k % count}" for k in range(max(_processes(), count))]


def own_card() -> str:
    """The device of this process."""
    return cards()[local_rank()]


def sharing() -> str:
    """A description of how the processes of this machine share its GPUs."""
    processes, count = _processes(), _count()
    if processes <= count:
        return f"webgpu:0 to webgpu:{processes - 1} for {processes} processes" if processes > 1 else ""
    return f"{processes} processes share {count} GPU{'s' if count > 1 else ''}"


def are_shared() -> bool:
    """Whether several processes share a GPU of this machine."""
    return _processes() > _count()


def _processes() -> int:
    return max(number("LOCAL_WORLD_SIZE", 1), local_rank() + 1)


def _count() -> int:
    """The number of GPUs, or of software adapters if there is no GPU."""
    found = adapters()
    return max(1, sum(info.type == "hardware" for info in found) or len(found))
