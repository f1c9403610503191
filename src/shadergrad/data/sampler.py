"""The order of samples. In: a number of samples. Out: indices, or lists of them for batches.

Random orders come from the library's own generator, so they are the same on every machine. The iterating thread draws them when
an iteration begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from ..tensor import Generator, default_generator, randperm
from .errors import DataError

Index = TypeVar("Index", covariant=True)


class Sampler(Generic[Index]):
    """Base: an iterable of indices with a length. Write `__iter__` and `__len__`.

    data_source: ignored; older programs pass it to super().__init__.

    >>> class Backwards(sg.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(sg.data.BatchSampler(Backwards(), batch_size=2))
    [[2, 1], [0]]
    """

    def __init__(self, data_source: Any = None) -> None: ...

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__. Hint: write one that yields indices.")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} has no length")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... up to the length of a data set.

    >>> list(sg.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


AT_ONCE = 1 << 16  # indices that are drawn together


class RandomSampler(Sampler[int]):
    """Every sample once, in a new random order each time; with replacement: independent draws.

    num_samples: the number of indices, by default the number of samples. A larger number without replacement appends further
    orders. generator: default: that of sg.manual_seed. Raises DataError for a negative num_samples.

    >>> list(sg.data.RandomSampler("abcd"))
    [3, 1, 2, 0]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if num_samples is not None and num_samples < 0:
            raise DataError(f"num_samples is {num_samples}; it must not be negative.")

    @property
    def num_samples(self) -> int:
        """The number of indices per iteration."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, wanted = len(self.data_source), self.num_samples
        if size == 0 or wanted == 0:
            return iter([])
        parts = self._drawn(size, wanted) if self.replacement else self._orders(size, wanted)
        return chain(next(parts), chain.from_iterable(parts))  # the first indices are drawn now, as if all were

    def _drawn(self, size: int, wanted: int) -> Iterator[list[int]]:
        """Draws in pieces, so 10**10 indices take no memory."""
        for start in range(0, wanted, AT_ONCE):
            count = min(AT_ONCE, wanted - start)
            yield (_uniform(count, self.generator) * size).astype(np.int64).tolist()

    def _orders(self, size: int, wanted: int) -> Iterator[list[int]]:
        for start in range(0, wanted, size):
            order = randperm(size, device="cpu", generator=self.generator).tolist()
            yield order[: wanted - start]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices, in a new random order each time. generator: default: that of sg.manual_seed.

    >>> list(sg.data.SubsetRandomSampler([10, 20, 30]))
    [20, 30, 10]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = randperm(len(self.indices), device="cpu", generator=self.generator).tolist() if self.indices else []
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Index i with a probability proportional to weights[i].

    Without replacement each index comes at most once, with the distribution of successive draws (Efraimidis and Spirakis, 2006:
    the largest u ** (1 / weight)).
    generator: default: that of sg.manual_seed.
    Raises DataError for weights that are negative or not finite, or if too few are positive.

    >>> list(sg.data.WeightedRandomSampler([0.0, 1.0, 1.0], num_samples=8))
    [2, 1, 2, 2, 1, 1, 2, 1]
    """

    def __init__(
        self,
        weights: Sequence[float] | np.ndarray,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        self.weights = np.asarray(weights, np.float64)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise DataError("weights must be one row of finite numbers, none of them negative.")
        if num_samples < 1:
            raise DataError(f"num_samples is {num_samples}; it must be at least 1.")
        possible = int((self.weights > 0).sum())
        if possible == 0 or (not replacement and num_samples > possible):
            raise DataError(f"cannot draw {num_samples} samples: {possible} weights are above zero.")

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            ends = np.cumsum(self.weights)
            drawn = np.searchsorted(ends, _uniform(self.num_samples, self.generator) * ends[-1], side="right")
            return iter(drawn.tolist())
        u = _uniform(len(self.weights), self.generator)
        with np.errstate(divide="ignore", invalid="ignore"):
            keys = np.where(self.weights > 0, np.log(u) / self.weights, -np.inf)
        # a draw of 0 gives log(0) also for a positive weight: it comes last, but before weights of zero
        keys[(self.weights > 0) & np.isinf(keys)] = np.finfo(np.float64).min
        return iter(np.argsort(-keys, kind="stable")[: self.num_samples].tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices; the last one may be shorter, and drop_last omits it.

    Raises DataError for a batch_size that is not a positive int.

    >>> list(sg.data.BatchSampler(range(5), batch_size=2))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise DataError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return batches_of(iter(self.sampler), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        samples = len(self.sampler)  # type: ignore[arg-type]
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)


def batches_of(items: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists of `size` items; the last may be shorter, unless it is dropped."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch


def _uniform(count: int, generator: Generator | None) -> np.ndarray:
    """Uniform on [0, 1), float64 [count], with 53 random bits. Drawn on the host, as randperm is."""
    high, low = (generator or default_generator("cpu")).host_words(count)
    return ((high >> np.uint32(5)) * 2.0**26 + (low >> np.uint32(6))) * 2.0**-53
