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


def destroy_process_group(group: Any = None) -> None:
    """Nothing: there is no group. PyTorch raises where none was made.

    >>> sg.distributed.destroy_process_group()
    """


def _refused(name: str) -> DeviceError:
    return DeviceError(
        f"[distributed.{name}] there is no process group: one process trains here. Hint: is_initialized() says so."
    )


def barrier(*args: Any, **kwargs: Any) -> None:
    """Raises DeviceError: there is no process group.

    >>> try:
    ...     sg.distributed.barrier()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:21])
    [distributed.barrier]
    """
    raise _refused("barrier")


def get_backend(group: Any = None) -> str:
    """Raises DeviceError: there is no process group.

    >>> try:
    ...     sg.distributed.get_backend()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:25])
    [distributed.get_backend]
    """
    raise _refused("get_backend")


def is_nccl_available() -> bool:
    """False.

    >>> sg.distributed.is_nccl_available()
    False
    """
    return False


def is_gloo_available() -> bool:
    """False.

    >>> sg.distributed.is_gloo_available()
    False
    """
    return False


def is_mpi_available() -> bool:
    """False.

    >>> sg.distributed.is_mpi_available()
    False
    """
    return False


def is_torchelastic_launched() -> bool:
    """False.

    >>> sg.distributed.is_torchelastic_launched()
    False
    """
    return False


__all__ = [
    "barrier",
    "destroy_process_group",
    "get_backend",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
]
