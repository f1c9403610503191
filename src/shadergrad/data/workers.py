"""Worker threads that prepare batches ahead. In: jobs in order. Out: their results, in the same order.

Threads, not processes: decoding, NumPy and uploads release Python's lock, no data is copied between processes, and a forked
process could not share a GPU device. At most `ahead` results are finished or in progress at any time.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Self

from .errors import LoaderTimeoutError

END = object()  # the result of `take` at the end
PATIENCE = 1.0  # seconds that `close` waits for workers during a job


@dataclass(frozen=True)
class WorkerInfo:
    """The result of `get_worker_info` in a worker: its number, the number of workers, its seed, the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True)
class Stages:
    """The two stages of a job: work(take(job), position).

    take: called for one job at a time, in order, so that it may read a stream; returns END at its end.
    work: called by all workers at once. begin: called in each worker with its number, before its first work.
    info: what get_worker_info() tells in begin and work of a worker.
    """

    take: Callable[[Any], Any]
    work: Callable[[Any, int], Any]
    begin: Callable[[int], None] | None = None
    info: Callable[[int], WorkerInfo] | None = None


class _Here(threading.local):
    info: WorkerInfo | None = None


here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """Within a loader's worker its WorkerInfo, else None.

    None also where an IterableDataset is read: workers share one iterator of it and need not divide the data.

    >>> sg.data.get_worker_info() is None
    True
    """
    return here.info


class Pool:
    """Threads that work for one iteration, or for all iterations of a loader with persistent workers."""

    def __init__(self, workers: int) -> None:
        self.tasks: SimpleQueue[tuple[int, Any, Future[Any], Stages] | None] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        # threads reference the queue, not this object: when its user drops it, it is collected, and the threads end
        self.close = weakref.finalize(self, _shut_down, self.tasks, self.threads)
        order = threading.Lock()
        for k in range(workers):
            thread = threading.Thread(target=_serve, args=(k, order, self.tasks), name=f"data-{k}", daemon=True)
            self.threads.append(thread)
            thread.start()


class Workers:
    """Iterate over the results for `jobs`, computed by a pool, ahead of time, in order.

    jobs: pulled in the consumer's thread.
    ahead: the most results to hold.
    in_order: else a result comes as soon as it is ready.
    keep: whether the pool works on after the iteration.
    timeout: seconds to wait for one, 0 for ever. The consumer gets a worker's exception in place of its result, with the
    worker's traceback. The exception closes the iterator, as do its end, close() and garbage collection.
    """

    def __init__(
        self,
        pool: Pool,
        jobs: Iterator[Any],
        stages: Stages,
        *,
        ahead: int,
        timeout: float = 0,
        in_order: bool = True,
        keep: bool = False,
    ) -> None:
        self._pool = pool
        self._jobs = enumerate(jobs)
        self._stages = stages
        self._ahead = ahead
        self._timeout = timeout
        self._in_order = in_order
        self._pending: deque[Future[Any]] = deque()
        self._close = weakref.finalize(self, _cancel, self._pending, None if keep else pool.close)
        self._fill()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            result = END
            while result is END and self._pending:  # with in_order=False the end may come before the last batch
                future = self._take()
                self._fill()
                result = future.result()
                if result is END:
                    self._jobs = iter(())
                if self._in_order:
                    break
        except BaseException:
            self.close()
            raise
        if result is END:
            self.close()
            raise StopIteration
        return result

    def close(self) -> None:
        """Drop jobs that have not begun; stop the workers, if they are this iteration's, and wait briefly for those in a job."""
        self._jobs = iter(())
        self._close()

    def _fill(self) -> None:
        while len(self._pending) < self._ahead and (job := next(self._jobs, None)) is not None:
            future: Future[Any] = Future()
            self._pending.append(future)
            self._pool.tasks.put((*job, future, self._stages))

    def _take(self) -> Future[Any]:
        """Wait for the next result."""
        wanted = [self._pending[0]] if self._in_order else list(self._pending)
        done = wait(wanted, self._timeout or None, FIRST_COMPLETED).done
        if done:
            future = next(f for f in wanted if f in done)
            self._pending.remove(future)
            return future
        raise LoaderTimeoutError(
            f"DataLoader timed out after {self._timeout} seconds: a worker is still at its batch. "
            "Hint: a larger timeout, more workers, or look at what the data set waits for."
        )


def _serve(number: int, order: threading.Lock, tasks: SimpleQueue[Any]) -> None:
    """The loop of a worker: it takes tasks until it gets None."""
    begun: Callable[[int], None] | None = None
    while True:
        with order:
            task = tasks.get()
            if task is None:
                return
            position, job, future, stages = task
            if not future.set_running_or_notify_cancel():
                del task, future, stages, job  # as below: nothing may come after
                continue
            failure, item = _attempt(stages.take, job)
        here.info = stages.info(number) if stages.info is not None else None
        if failure is None and stages.begin is not None and begun is not stages.begin:
            failure, _ = _attempt(stages.begin, number)
            begun = stages.begin if failure is None else None
        if failure is None and item is not END:
            failure, item = _attempt(stages.work, item, position)
        here.info = None
        if failure is None:
            future.set_result(item)
        else:
            failure.add_note(f"in DataLoader worker {number}, at batch {position}")
            future.set_exception(failure)
        del task, future, stages, job, item, failure  # a waiting worker references no batch and no data set


def _attempt(function: Callable[..., Any], *arguments: Any) -> tuple[BaseException | None, Any]:
    """The exception of function(*arguments), or None; and its result, or None."""
    try:
        return None, function(*arguments)
    except StopIteration as error:
        # an unwrapped StopIteration would end the consumer's loop silently
        failure = RuntimeError("the data set raised StopIteration")
        failure.__cause__ = error
        return failure, None
    except BaseException as error:
        return error, None


def _cancel(pending: deque[Future[Any]], close: Callable[[], Any] | None) -> None:
    while pending:
        pending.popleft().cancel()
    if close is not None:
        close()


def _shut_down(tasks: SimpleQueue[Any], threads: list[threading.Thread]) -> None:
    for _ in threads:
        tasks.put(None)
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
