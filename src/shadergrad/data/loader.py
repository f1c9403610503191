"""Batches for training. In: a data set. Out: batches as tensors on a device, in an order that the seed determines.

The order does not depend on the number of workers: the iterating thread draws the indices, and batches come in the order of
their indices. Workers upload, too, so the next batches reach the device ahead of time. fetching.py makes the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..runtime.device import get_device
from ..system.browser import IN_BROWSER
from ..tensor import Generator, resolve_device
from .collate import default_collate, default_convert
from .dataset import IterableDataset, length_of
from .errors import DataError
from .fetching import Epoch
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .workers import END, Pool, WorkerInfo, Workers

T_co = TypeVar("T_co", covariant=True)


class DataLoader(Generic[T_co]):
    """Iterate over batches of a data set; each iteration is an epoch.

    dataset: by index (`__getitem__`, `__len__`) or a stream (IterableDataset).
    batch_size: samples per batch; None: single samples, not collated.
    shuffle, sampler, batch_sampler, drop_last: as in PyTorch; shuffle, sampler and batch_sampler exclude each other.
    collate_fn: from a list of samples to a batch; by default `default_collate`. The loader uploads NumPy arrays in its result.
    num_workers: threads that prepare batches ahead; 0: the iterating thread prepares each on demand. A data set of tensors uses
    none, and a browser has none.
    device: the device of the batches; None: NumPy arrays go to the default device, tensors stay on theirs.
    generator or seed: draws random orders; by default the generator of sg.manual_seed. It also decides what workers draw.
    prefetch_factor: the number of batches that each worker prepares and uploads ahead, by default 2.
    timeout: seconds to wait for a worker's batch before LoaderTimeoutError; 0 waits for ever.
    worker_init_fn: called in each worker with its number, in each epoch; with persistent_workers, whose threads stay, in the first.
    in_order: False gives batches as they get ready.
    multiprocessing_context, pin_memory, pin_memory_device: have no effect, because workers are threads and upload batches
    themselves.
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
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        device: Any = None,
        seed: int | None = None,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        if seed is not None:
            if generator is not None:
                raise DataError("generator and seed both decide the order: give one of them.")
            generator = Generator("cpu", seed)
        if device is not None:
            get_device(resolve_device(device))  # an unknown device raises here, not in a worker
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.device = device
        self.generator = generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.drop_last = drop_last
        self.batch_size = batch_size
        self._choose_samplers(shuffle, sampler, batch_sampler)
        single = self.batch_size is None and self.batch_sampler is None
        self.collate_fn = collate_fn or (default_convert if single else default_collate)
        self.epochs = 0  # iterations begun: with the generator they decide what workers draw
        self.stream_copies: list[WorkerInfo] | None = None
        self._pool: Pool | None = None
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and getattr(self, "_is_made", False):
            raise DataError(
                f"DataLoader: {name} cannot be set after the loader is made. Hint: make another DataLoader."
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        """The data set, and the arguments that differ from the defaults."""
        shown = [f"{type(self.dataset).__name__}" if len(repr(self.dataset)) > 80 else repr(self.dataset)]
        if self.batch_size is not None:
            shown.append(f"batch_size={self.batch_size}")
        elif self.batch_sampler is not None:
            shown.append(f"batch_sampler={type(self.batch_sampler).__name__}")
        if isinstance(self.sampler, RandomSampler):
            shown.append("shuffle=True")
        elif self.sampler is not None and not isinstance(self.sampler, SequentialSampler):
            shown.append(f"sampler={type(self.sampler).__name__}")
        shown += [f"{n}={getattr(self, n)!r}" for n in ("num_workers", "drop_last", "device") if getattr(self, n)]
        return f"DataLoader({', '.join(shown)})"

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
        if sampler is None:
            if batch_sampler is None:
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
        threads = self.num_workers > 0 and not IN_BROWSER and not getattr(self.dataset, "holds_tensors", False)
        epoch = Epoch(self, threads)
        self.epochs += 1
        if not threads:
            return _in_this_thread(epoch)
        if self._pool is None or len(self._pool.threads) != self.num_workers or not self._pool.close.alive:
            pool = Pool(self.num_workers)
            self._pool = pool if self.persistent_workers else None
        else:
            pool = self._pool
        return Workers(
            pool,
            epoch.jobs,
            epoch.stages,
            ahead=self.num_workers * (self.prefetch_factor or 2),
            timeout=self.timeout,
            in_order=self.in_order,
            keep=self.persistent_workers,
        )


_FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, context: Any
) -> None:
    """Raises DataError for arguments that exclude each other."""
    if num_workers < 0:
        raise DataError(f"num_workers is {num_workers}; it must not be negative.")
    if timeout < 0:
        raise DataError(f"timeout is {timeout}; it must not be negative.")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise DataError(f"prefetch_factor is {prefetch_factor}; it must be at least 1.")
    for name, given in (
        ("prefetch_factor", prefetch_factor is not None),
        ("persistent_workers", persistent_workers),
        ("multiprocessing_context", context is not None),
    ):
        if given and num_workers == 0:
            raise DataError(
                f"{name} is about workers, and num_workers is 0. Hint: num_workers=1 or more, or no {name}."
            )
    if isinstance(context, str) and context not in ("fork", "spawn", "forkserver"):
        raise DataError(f"multiprocessing_context is {context!r}; there are 'fork', 'spawn' and 'forkserver'.")


def _in_this_thread(epoch: Epoch) -> Iterator[Any]:
    for position, job in enumerate(epoch.jobs):
        item = epoch.stages.take(job)
        if item is END:
            return
        yield epoch.stages.work(item, position)
