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
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Self

from .errors import LoaderTimeoutError

END = object()  # what `take` gives when there is no more
PATIENCE = 1.0  # seconds that closing waits for workers in the midst of a job


@dataclass(frozen=True)
class Stages:
    """The two stages of a job: work(take(job)).

    take: called for one job at a time, in order, so that it may read a stream; returns END at its end.
    work: called by all workers at once. begin: called in each worker with its number, before its first work.
    """

    take: Callable[[Any], Any]
    work: Callable[[Any], Any]
    begin: Callable[[int], None] | None = None


class Workers:
    """Iterate over the results for `jobs`, computed by threads, ahead of time, in order.

    jobs: pulled in the consumer's thread.
    ahead: the most results to hold.
    timeout: seconds to wait for one, 0 for ever. The consumer gets a worker's exception in place of its result, with the
    worker's traceback. The exception closes the iterator, as do its end, close() and garbage collection.
    """

    def __init__(self, jobs: Iterator[Any], stages: Stages, *, workers: int, ahead: int, timeout: float = 0) -> None:
        self._jobs = enumerate(jobs)
        self._ahead = ahead
        self._timeout = timeout
        self._pending: deque[Future[Any]] = deque()
        self._tasks: SimpleQueue[tuple[int, Any, Future[Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # threads know the queue but not this object, so that it dies, and they leave, when its user forgets it
        self._close = weakref.finalize(self, _shut_down, self._pending, self._tasks, self._threads)
        order = threading.Lock()
        for k in range(workers):
            arguments = (k, order, self._tasks, stages)
            self._threads.append(threading.Thread(target=_serve, args=arguments, name=f"data-{k}", daemon=True))
            self._threads[-1].start()
        self._fill()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            result = END
            if self._pending:
                future = self._pending.popleft()
                self._fill()
                result = self._result_of(future)
        except BaseException:
            self.close()
            raise
        if result is END:
            self.close()
            raise StopIteration
        return result

    def close(self) -> None:
        """Stop the workers: drop jobs that have not begun, and wait briefly for those in progress."""
        self._jobs = iter(())
        self._close()

    def _fill(self) -> None:
        while len(self._pending) < self._ahead and (job := next(self._jobs, None)) is not None:
            future: Future[Any] = Future()
            self._pending.append(future)
            self._tasks.put((*job, future))

    def _result_of(self, future: Future[Any]) -> Any:
        if wait([future], self._timeout or None).done:
            return future.result()
        raise LoaderTimeoutError(
            f"DataLoader timed out after {self._timeout} seconds: a worker is still at its batch. "
            "Hint: a larger timeout, more workers, or look at what the data set waits for."
        )


def _serve(number: int, order: threading.Lock, tasks: SimpleQueue[Any], stages: Stages) -> None:
    """The loop of a worker: it takes tasks until it gets None."""
    begun = False
    while True:
        with order:
            task = tasks.get()
            if task is None:
                return
            position, job, future = task
            if not future.set_running_or_notify_cancel():
                continue
            failure, item = _attempt(stages.take, job)
        if not begun and stages.begin is not None and failure is None:
            failure, _ = _attempt(stages.begin, number)
            begun = failure is None
        if failure is None and item is not END:
            failure, item = _attempt(stages.work, item)
        if failure is None:
            future.set_result(item)
        else:
            failure.add_note(f"in DataLoader worker {number}, at batch {position}")
            future.set_exception(failure)
        del task, future, job, item, failure  # a waiting worker keeps no batch alive


def _attempt(function: Callable[[Any], Any], argument: Any) -> tuple[BaseException | None, Any]:
    """The exception of function(argument), or None; and its result, or None."""
    try:
        return None, function(argument)
    except StopIteration as error:
        # raised as it is, it would end the consumer's loop as if there were no more batches
        failure = RuntimeError("the data set raised StopIteration")
        failure.__cause__ = error
        return failure, None
    except BaseException as error:
        return error, None


def _shut_down(pending: deque[Future[Any]], tasks: SimpleQueue[Any], threads: list[threading.Thread]) -> None:
    while pending:
        pending.popleft().cancel()
    for _ in threads:
        tasks.put(None)
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
