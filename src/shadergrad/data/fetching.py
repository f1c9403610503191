"""The batches of an epoch. In: a loader's data set, samplers and functions. Out: stages and jobs for workers.

A worker may compute with tensors. It evaluates its batch before it hands it over, so the consumer's graph contains no
node of another thread. Its random numbers come from a separate stream, determined by the generator, the epoch and the number of
the batch, so they are the same for any number of workers. Pending tensors of the data set are computed before the workers
start. Guard: tests/device/test_data_workers.py.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, repeat
from types import ModuleType
from typing import Any

import numpy as np

from ..drive import execute
from ..errors import ShapeError
from ..graph.node import grad_mode, mode
from ..tensor import Tensor, get_default_device, resolve_device
from ..tensor.generator import own_draws, stream_here
from .collate import collate_arrays, default_collate, default_convert, settled, upload, without_tuples
from .dataset import Dataset, IterableDataset, path_of
from .workers import END, Stages, WorkerInfo, here

MOST_SEARCHED = 2000  # values that are searched for tensors: a list of a million samples is not
_PLAIN = (str, bytes, int, float, complex, np.ndarray, type(None))


class Epoch:
    """One pass over the data of a DataLoader: `stages` for each of `jobs`, rows of a data set or turns to read a stream.

    threads: whether workers will run them.
    """

    def __init__(self, loader: Any, threads: bool) -> None:
        self._loader = loader
        self._threads = threads
        self._single = loader.batch_size is None and loader.batch_sampler is None
        self._device = str(get_default_device()) if loader.device is None else resolve_device(loader.device)
        self._base = _base_of(loader)
        collate = loader.collate_fn
        self._collate: Callable[[Any], Any] | None = None if collate in (default_collate, default_convert) else collate
        self.jobs: Iterator[Any]
        take: Callable[[Any], Any] = lambda job: job  # noqa: E731
        if threads:  # a second tensor makes the memory shared before threads create views of it
            self._held = [tensor.detach() for tensor in compute_held(loader.dataset)]
        if isinstance(loader.dataset, IterableDataset):
            take, work, self.jobs = self._reader(), self._finish, repeat(None)
        else:
            rows = loader.sampler if self._single else loader.batch_sampler
            assert rows is not None
            work, self.jobs = self._fetcher(), iter(rows)
        if threads:
            begin = None if isinstance(loader.dataset, IterableDataset) else loader.worker_init_fn
            self.stages = Stages(take, self._in_worker(work), begin, self._info)
        else:
            self.stages = Stages(take, lambda item, _: work(item))

    def _info(self, number: int) -> WorkerInfo:
        return WorkerInfo(number, self._loader.num_workers, _mixed(*self._base, number), self._loader.dataset)

    def _in_worker(self, work: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
        """A job as the consumer's thread would run it, with separate random numbers."""
        grad, base = mode.grad, self._base

        def run(item: Any, position: int) -> Any:
            with grad_mode(grad), own_draws(_mixed(*base, position)):
                return settled(work(item))

        return run

    def _finish(self, samples: Any) -> Any:
        """From samples to a batch on the device."""
        if self._collate is not None:
            batch = self._collate(samples)
        else:
            batch = without_tuples(samples) if self._single else collate_arrays(samples)
        return upload(batch, self._device, move=self._loader.device is not None)

    def _fetcher(self) -> Callable[[Any], Any]:
        dataset = self._loader.dataset
        can = isinstance(dataset, Dataset) and type(dataset).batch_of is not Dataset.batch_of
        whole = can and not self._single and self._collate is None

        def samples_of(rows: Any) -> Any:
            if self._single:
                return dataset[rows]
            several = getattr(dataset, "__getitems__", None)
            return [dataset[row] for row in rows] if several is None else several(rows)

        def fetch(rows: Any) -> Any:
            if whole:
                batch = dataset.batch_of(np.asarray(rows, np.int64))
                if batch is not None:
                    batch = list(batch) if type(batch) is tuple else batch  # as default_collate
                    return upload(batch, self._device, move=self._loader.device is not None)
            samples = samples_of(rows)
            try:
                return self._finish(samples)
            except ShapeError as error:
                odd = None if self._single else _odd_file(dataset, rows, samples)
                if odd is None:
                    raise
                raise ShapeError(f"{error} {odd}") from None

        return fetch

    def _reader(self) -> Callable[[Any], Any]:
        streams = deque(self._streams())

        def read(_: Any) -> Any:
            while streams:
                info, stream = streams[0]
                with _as_worker(info):
                    samples = self._next(stream)
                if samples is not END:
                    streams.rotate(-1)
                    return samples
                streams.popleft()
            return END

        return read

    def _next(self, stream: Iterator[Any]) -> Any:
        size = self._loader.batch_size
        if size is None:
            return next(stream, END)
        samples = list(islice(stream, size))
        return END if not samples or (self._loader.drop_last and len(samples) < size) else samples

    def _streams(self) -> list[tuple[WorkerInfo | None, Iterator[Any]]]:
        """The iterator of a stream. If worker_init_fn divides the stream, as in PyTorch's manual, each worker iterates its own copy, and the
        batches come from the workers in turn."""
        loader = self._loader
        if not self._threads or loader.worker_init_fn is None:
            return [(None, iter(loader.dataset))]
        if loader.stream_copies is None:
            infos = [self._info(k) for k in range(loader.num_workers)]
            infos = [WorkerInfo(i.id, i.num_workers, i.seed, copy.copy(i.dataset)) for i in infos]
            for info in infos:
                with _as_worker(info), own_draws(info.seed):
                    loader.worker_init_fn(info.id)
        else:
            infos = loader.stream_copies
        loader.stream_copies = infos if loader.persistent_workers else None
        if not any(_was_changed(info.dataset, loader.dataset) for info in infos):
            return [(None, iter(loader.dataset))]
        streams = []
        for info in infos:
            with _as_worker(info):
                streams.append((info, iter(info.dataset)))
        return streams


def _odd_file(dataset: Any, rows: Any, samples: list[Any]) -> str | None:
    """A sentence about the file of a batch whose shape differs from most; None if samples are not files."""
    images = [sample[0] if isinstance(sample, tuple | list) and sample else sample for sample in samples]
    shapes = [tuple(getattr(image, "shape", ())) for image in images]
    usual = max(shapes, key=shapes.count)
    for row, shape in zip(rows, shapes, strict=True):
        if shape != usual and (path := path_of(dataset, int(row))) is not None:
            return f"The shape of {path} is {shape}. Hint: size=(height, width) of the folder, or transforms.Resize."
    return None


def _was_changed(copied: Any, original: Any) -> bool:
    mine, theirs = vars(copied), vars(original)
    return mine.keys() != theirs.keys() or any(mine[key] is not theirs[key] for key in mine)


@contextmanager
def _as_worker(info: WorkerInfo | None) -> Iterator[None]:
    before, here.info = here.info, info
    try:
        yield
    finally:
        here.info = before


def _base_of(loader: Any) -> tuple[int, int, int]:
    """The base of an epoch's random numbers in workers. It draws nothing, so the order of samples does not depend on workers."""
    stream = stream_here() if loader.generator is None else loader.generator.stream
    seed, drawn, _ = stream.at
    return seed, drawn, loader.epochs


def _mixed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def compute_held(dataset: Any) -> list[Tensor]:
    """Compute the tensors that a data set holds, in this thread, and return them. Of large containers, only the first elements are searched."""
    queue, seen, found = deque([dataset]), {id(dataset)}, []
    while queue and len(seen) < MOST_SEARCHED:
        value = queue.popleft()
        if isinstance(value, Tensor):
            found.append(value)
            continue
        for part in islice(_parts_of(value), MOST_SEARCHED):
            if id(part) not in seen and not isinstance(part, _PLAIN):
                seen.add(id(part))
                queue.append(part)
    for tensor in found:
        execute.realize([tensor._node])
    return found


def _parts_of(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, tuple | list):
        return value
    return vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, type | ModuleType) else ()
