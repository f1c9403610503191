"""Batches for training. In: a data set. Out: batches as tensors on a device, in an order that the seed determines.

The order does not depend on the number of workers: the iterating thread draws the indices, and batches come in the order of
their indices. Samples stay NumPy arrays until their batch is uploaded. Workers upload, too, so the next batches reach the
device ahead of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from typing import Any

import numpy as np

from ..runtime.device import get_device
from ..tensor import Generator, get_default_device, resolve_device
from .collate import default_collate, host_only, upload
from .dataset import Dataset, IterableDataset, length_of
from .errors import DataError
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .workers import END, Stages, Workers


class DataLoader:
    """Iterate over batches of a data set; each iteration is an epoch.

    dataset: by index (`__getitem__`, `__len__`) or a stream (IterableDataset).
    batch_size: samples per batch; None: single samples, not collated.
    shuffle, sampler, batch_sampler, drop_last: as in PyTorch; shuffle, sampler and batch_sampler exclude each other.
    collate_fn: from a list of samples to a batch; by default `default_collate`. The loader uploads NumPy arrays in its result.
    num_workers: threads that prepare batches ahead; 0: the iterating thread prepares each on demand. A data set of tensors uses
    none.
    device: the device of the batches; None: NumPy arrays go to the default device, tensors stay on theirs.
    generator or seed: draws random orders; by default the generator of sg.manual_seed.
    prefetch_factor: the number of batches that each worker prepares and uploads ahead.
    timeout: seconds to wait for a worker's batch before LoaderTimeoutError; 0 waits for ever.
    worker_init_fn: called in each worker with its number. pin_memory and persistent_workers have no effect.
    Raises DataError for arguments that exclude each other or are out of range. The loop raises the exceptions of workers.

    >>> dataset = sg.data.TensorDataset(np.arange(3, dtype=np.float32), np.array([0, 1, 0]))
    >>> for x, y in sg.data.DataLoader(dataset, batch_size=2):
    ...     print(x, y)
    tensor([0., 1.]) tensor([0, 1], dtype=shadergrad.int64)
    tensor([2.]) tensor([0], dtype=shadergrad.int64)
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        *,
        device: Any = None,
        generator: Generator | None = None,
        seed: int | None = None,
        prefetch_factor: int = 2,
        persistent_workers: bool = False,
    ) -> None:
        if num_workers < 0:
            raise DataError(f"num_workers is {num_workers}; it must not be negative.")
        if timeout < 0:
            raise DataError(f"timeout is {timeout}; it must not be negative.")
        if prefetch_factor < 1:
            raise DataError(f"prefetch_factor is {prefetch_factor}; it must be at least 1.")
        if seed is not None:
            if generator is not None:
                raise DataError("generator and seed both decide the order: give one of them.")
            generator = Generator("cpu", seed)
        if device is not None:
            get_device(resolve_device(device))  # raises for a device that there is not, here and not in a worker
        self.dataset = dataset
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.device = device
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.drop_last = drop_last
        self.batch_size = batch_size
        self._choose_samplers(shuffle, sampler, batch_sampler)

    def _choose_samplers(
        self, shuffle: bool | None, sampler: Iterable[int] | None, batch_sampler: Iterable[list[int]] | None
    ) -> None:
        if batch_sampler is not None:
            if self.batch_size not in (1, None) or shuffle or sampler is not None or self.drop_last:
                raise DataError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            self.batch_size = None
        elif self.batch_size is None and self.drop_last:
            raise DataError("drop_last drops an incomplete batch, and batch_size=None makes none.")
        if isinstance(self.dataset, IterableDataset):
            if shuffle or sampler is not None or batch_sampler is not None:
                raise DataError(
                    "an IterableDataset decides its own order: it takes no shuffle, sampler or batch_sampler."
                )
            BatchSampler((), 1 if self.batch_size is None else self.batch_size)  # checks the size
            self.sampler, self.batch_sampler = None, None
            return
        if sampler is not None and shuffle:
            raise DataError("sampler option is mutually exclusive with shuffle")
        if sampler is None and batch_sampler is None:
            length_of(self.dataset)
            sampler = (
                RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)
            )
        if batch_sampler is None and self.batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, self.batch_size, self.drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def __len__(self) -> int:
        """The number of batches in an epoch. Raises TypeError for a stream without a length."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        if self.sampler is not None:
            return len(self.sampler)  # type: ignore[arg-type]
        samples = len(self.dataset)
        size = self.batch_size or 1
        return samples // size if self.drop_last else -(-samples // size)

    def __iter__(self) -> Iterator[Any]:
        stages, jobs = self._plan()
        if self.num_workers == 0 or getattr(self.dataset, "holds_tensors", False):
            return _in_this_thread(stages, jobs)
        return Workers(
            jobs,
            stages,
            workers=self.num_workers,
            ahead=self.num_workers * self.prefetch_factor,
            timeout=self.timeout,
        )

    def _plan(self) -> tuple[Stages, Iterator[Any]]:
        """The function for jobs, and the jobs of an epoch: rows of a data set, or turns to read a stream."""
        device = str(get_default_device()) if self.device is None else resolve_device(self.device)
        threads = self.num_workers > 0 and not getattr(self.dataset, "holds_tensors", False)
        single = self.batch_size is None and self.batch_sampler is None
        can = isinstance(self.dataset, Dataset) and type(self.dataset).batch_of is not Dataset.batch_of
        whole = can and not single and self.collate_fn is None

        def finish(samples: Any) -> Any:
            if threads:
                samples = host_only(samples)
            batch = samples if single else (self.collate_fn or default_collate)(samples)
            return upload(batch, device, move=self.device is not None)

        def fetch(rows: Any) -> Any:
            if whole:
                batch = self.dataset.batch_of(np.asarray(rows, np.int64))
                if batch is not None:
                    return upload(batch, device, move=self.device is not None)
            if single:
                return finish(self.dataset[rows])
            several = getattr(self.dataset, "__getitems__", None)
            return finish([self.dataset[row] for row in rows] if several is None else several(rows))

        begin = self.worker_init_fn if threads else None
        if not isinstance(self.dataset, IterableDataset):
            rows = self.sampler if single else self.batch_sampler
            assert rows is not None
            return Stages(lambda job: job, fetch, begin), iter(rows)
        stream, size = iter(self.dataset), self.batch_size

        def read(_: Any) -> Any:
            if size is None:
                return next(stream, END)
            samples = list(islice(stream, size))
            return END if not samples or (self.drop_last and len(samples) < size) else samples

        return Stages(read, finish, begin), repeat(None)


def _in_this_thread(stages: Stages, jobs: Iterator[Any]) -> Iterator[Any]:
    for job in jobs:
        item = stages.take(job)
        if item is END:
            return
        yield stages.work(item)


def get_worker_info() -> None:
    """None, because workers share one iterator of an IterableDataset and need not divide the data.

    >>> sg.data.get_worker_info() is None
    True
    """
    return
