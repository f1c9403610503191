"""torch.multiprocessing: Python's multiprocessing, with spawn. Tensors are sent to other processes as copies."""

from __future__ import annotations

import multiprocessing
import traceback
from multiprocessing import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from multiprocessing import connection
from typing import Any


class ProcessException(Exception):
    """A process that spawn started has failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process that spawn started has raised an exception, whose traceback is the message."""


class ProcessExitedException(ProcessException):
    """A process that spawn started has ended with an exit code other than 0."""

    exit_code = 0


def _wrap(fn: Any, i: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The processes that spawn or start_processes started."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes, self.error_queues = processes, error_queues

    def pids(self) -> list[int]:
        """The process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one or more processes end; returns whether all have. If one failed, ends the others and raises its error."""
        connection.wait([p.sentinel for p in self.processes if p.exitcode is None], timeout)
        failed = next((k for k, p in enumerate(self.processes) if p.exitcode not in (None, 0)), None)
        if failed is None:
            return all(p.exitcode is not None for p in self.processes)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join()
        process = self.processes[failed]
        if self.error_queues[failed].empty():
            raise ProcessExitedException(
                f"process {failed} terminated with exit code {process.exitcode}", failed, process.pid
            )
        text = self.error_queues[failed].get()
        raise ProcessRaisedException(
            f"\n\n-- Process {failed} terminated with the following error:\n{text}", failed, process.pid
        )


SpawnContext = ProcessContext


def start_processes(
    fn: Any,
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(i, *args) in nprocs processes. With join, wait for them, else return their ProcessContext."""
    context = multiprocessing.get_context(start_method)
    queues = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [context.Process(target=_wrap, args=(fn, i, args, queues[i]), daemon=daemon) for i in range(nprocs)]  # type: ignore[attr-defined]
    for process in processes:
        process.start()
    started = ProcessContext(processes, queues)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Any,
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run fn(i, *args) in nprocs fresh processes. With join, wait for them, else return their ProcessContext."""
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


_strategy = "file_system"


def get_all_sharing_strategies() -> set[str]:
    """The names of PyTorch's strategies. Tensors are copied with each of them."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The strategy that was set last."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Store the name of a strategy. It has no effect, because tensors are copied."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"{new_strategy!r} is none of {sorted(get_all_sharing_strategies())}.")
    _strategy = new_strategy
