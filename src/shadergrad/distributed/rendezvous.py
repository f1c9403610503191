"""Connects the processes of a group. In: the arguments of init_process_group. Out: a store, a rank and a number of processes.

env:// asks the environment (torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), tcp://HOST:PORT and file:///PATH need the rank and
the number of processes from the caller. A restarted group of torchrun begins with fresh keys in the same store.
"""

from __future__ import annotations

import os
from datetime import timedelta
from numbers import Integral
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

from .. import config
from .errors import DistNetworkError, NoGroupError
from .launch import number
from .library import c10d


class Place(NamedTuple):
    """store: None where one process needs nobody to be found. holds_store: the rank whose end takes the store along, if any.
    signs: the same store by another connection: who waits for a key keeps the connection to himself, and signs of life must not wait."""

    store: Any
    rank: int
    size: int
    holds_store: int | None
    signs: Any = None


def find(method: str | None, store: Any, rank: int, size: int, timeout: float) -> Place:
    """rank, size: -1 where the caller has not said. Raises NoGroupError where something is missing, DistNetworkError where the
    store cannot be reached."""
    if not (isinstance(rank, Integral) and isinstance(size, Integral)):
        raise NoGroupError(f"[init_process_group] rank={rank!r} and world_size={size!r} must be whole numbers.")
    if store is not None:
        _check("store", rank, size)
        return Place(store, rank, size, None, _beside(store, timeout))
    url = urlsplit(method or "env://")
    said = {name: int(values[0]) for name, values in parse_qs(url.query).items() if values[0].isdigit()}
    rank, size = said.get("rank", rank), said.get("world_size", size)
    if method is None and (rank, size) == (0, 1):
        return Place(None, 0, 1, None)
    if url.scheme == "env":
        rank = number("RANK") if rank < 0 else rank
        size = number("WORLD_SIZE") if size < 0 else size
        _check("env://", rank, size)
        return _from_environment(rank, size, timeout)
    if url.scheme == "tcp":
        _check("tcp://", rank, size)
        port = _port(url)
        if url.hostname is None or port is None:
            raise NoGroupError(
                f"[init_process_group] {method!r} lacks a host, or a port from 0 to 65535. Hint: tcp://10.0.0.1:29500"
            )
        store = _tcp(url.hostname, port, rank, size, timeout, rank == 0)
        return Place(store, rank, size, 0, _beside(store, timeout))
    if url.scheme == "file":
        _check("file://", rank, size)
        store = _file(method or "", url.netloc, url.path, size, timeout)
        return Place(store, rank, size, None, store)
    raise NoGroupError(
        f"[init_process_group] there is no init_method {method!r}. Hint: env://, tcp://HOST:PORT or file:///PATH."
    )


def _port(url: SplitResult) -> int | None:
    try:
        return url.port
    except ValueError:
        return None


def _check(method: str, rank: int, size: int) -> None:
    if size < 1 or not 0 <= rank < size:
        raise NoGroupError(
            f"[init_process_group] {method} needs rank= and world_size=, with 0 <= rank < world_size; they are {rank} and {size}."
        )


def _from_environment(rank: int, size: int, timeout: float) -> Place:
    host, port = config.launched_with("MASTER_ADDR"), number("MASTER_PORT")
    if not host:
        raise NoGroupError(
            "[init_process_group] MASTER_ADDR, the machine of rank 0, is not set. Hint: torchrun sets it; Slurm: "
            "scontrol show hostnames | head -n 1"
        )
    by_agent = config.launched_with("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = _tcp(host, port, rank, size, timeout, rank == 0 and not by_agent)
    signs = _beside(store, timeout)
    if by_agent:
        prefix = f"shadergrad/attempt{config.launched_with('TORCHELASTIC_RESTART_COUNT') or '0'}"
        store, signs = (c10d().classes.PrefixStore(prefix, s) for s in (store, signs))
    return Place(store, rank, size, None if by_agent else 0, signs)


def _file(method: str, host: str, path: str, size: int, timeout: float) -> Any:
    """The store of a file. Raises NoGroupError for a file that cannot be created, for which PyTorch would wait forever."""
    folder = os.path.dirname(path)
    if host not in ("", "localhost") or not os.path.basename(path) or not folder:
        raise NoGroupError(
            f"[init_process_group] {method!r} names no file. Hint: a whole path, file:///shared/folder/file"
        )
    if (
        os.path.isdir(path)
        or not os.path.isdir(folder)
        or not os.access(path if os.path.exists(path) else folder, os.W_OK)
    ):
        raise NoGroupError(
            f"[init_process_group] {path} cannot be written. Hint: a file in a folder that exists and all processes share; it is removed at the end."
        )
    store = c10d().classes.FileStore(path, size)
    store.set_timeout(timedelta(seconds=timeout))
    return store


def _beside(store: Any, timeout: float) -> Any:
    """Another connection to a store, where it has connections."""
    if hasattr(store, "clone"):  # since PyTorch 2.7
        return store.clone()
    kind = c10d().classes.TCPStore
    if not isinstance(store, kind):
        return store
    return kind(store.host, store.port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=timeout))


def _tcp(host: str, port: int, rank: int, size: int, timeout: float, is_master: bool) -> Any:
    try:
        return c10d().classes.TCPStore(
            host, port, size, is_master=is_master, timeout=timedelta(seconds=timeout), multi_tenant=True
        )
    except RuntimeError as error:
        raise DistNetworkError(
            f"[init_process_group] rank {rank} did not find the others at {host}:{port} within {timeout:g} s: {error}\n"
            f"  Hint: {size} processes must start; the machine of rank 0 must be reachable there, and no other program use the port."
        ) from error
