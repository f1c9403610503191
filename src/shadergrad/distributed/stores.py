"""PyTorch's stores, through which processes find each other: the arguments of init_process_group(store=...)."""

from __future__ import annotations

from typing import Any

from .library import c10d


def TCPStore(*args: Any, **options: Any) -> Any:
    """PyTorch's TCPStore(host_name, port, world_size, is_master, timeout). Raises MissingPackageError without PyTorch.

    >>> sg.distributed.TCPStore.__name__
    'TCPStore'
    """
    return c10d().classes.TCPStore(*args, **options)


def FileStore(*args: Any, **options: Any) -> Any:
    """PyTorch's FileStore(file_name, world_size). Raises MissingPackageError without PyTorch.

    >>> sg.distributed.FileStore.__name__
    'FileStore'
    """
    return c10d().classes.FileStore(*args, **options)


def HashStore() -> Any:
    """PyTorch's HashStore(), for the threads of one process. Raises MissingPackageError without PyTorch.

    >>> sg.distributed.HashStore.__name__
    'HashStore'
    """
    return c10d().classes.HashStore()


def PrefixStore(prefix: str, store: Any) -> Any:
    """PyTorch's PrefixStore(prefix, store): keys of a store behind a prefix. Raises MissingPackageError without PyTorch.

    >>> sg.distributed.PrefixStore.__name__
    'PrefixStore'
    """
    return c10d().classes.PrefixStore(prefix, store)
