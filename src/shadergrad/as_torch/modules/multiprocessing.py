"""torch.multiprocessing: Python's multiprocessing, with spawn. Tensors travel between processes as copies."""

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
        """Their numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one or more to end, and say whether all have. Raises what the first that failed raised, and ends the others."""
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
    """Run fn(i, *args) in nprocs processes; wait for them, or give their ProcessContext."""
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
    """Run fn(i, *args) in nprocs fresh processes; wait for them, or give their ProcessContext."""
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


_strategy = "file_system"


def get_all_sharing_strategies() -> set[str]:
    """The names that PyTorch has; here tensors are copied with each."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The one that was set."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Kept, and without effect: tensors are copied."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"{new_strategy!r} is none of {sorted(get_all_sharing_strategies())}.")
    _strategy = new_strategy
