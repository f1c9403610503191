"""Training on several machines, as far as a single process looks: it is not there."""

from __future__ import annotations

from typing import Any

from .errors import DeviceError


def is_available() -> bool:
    """False.

    >>> sg.distributed.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """False.

    >>> sg.distributed.is_initialized()
    False
    """
    return False


def get_rank(group: Any = None) -> int:
    """0: this process is alone (PyTorch raises before init_process_group).

    >>> sg.distributed.get_rank()
    0
    """
    return 0


def get_world_size(group: Any = None) -> int:
    """1: this process is alone.

    >>> sg.distributed.get_world_size()
    1
    """
    return 1


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Raises DeviceError: one process trains here.

    >>> try:
    ...     sg.distributed.init_process_group("nccl")
    ... except sg.DeviceError as error:
    ...     print(error)
    [distributed] there is no training on several processes here. Hint: is_available() says so.
    """
    raise DeviceError("[distributed] there is no training on several processes here. Hint: is_available() says so.")


__all__ = ["get_rank", "get_world_size", "init_process_group", "is_available", "is_initialized"]
