"""Data sets: by index, or as a stream. In: arrays and other data sets. Out: samples, and whole batches if they are cheap.

The names are PyTorch's. In addition a data set may return the batch of several rows at once (`batch_of`), which for arrays is
one indexing operation instead of one per sample.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from ..errors import IndexRangeError, ShapeError
from ..tensor import Generator, Tensor, host_tensor, randperm
from .errors import DataError

T_co = TypeVar("T_co", covariant=True)
Array = np.ndarray | Tensor


class Dataset(Generic[T_co]):
    """Samples by index. Write `__getitem__` and, if it is finite, `__len__`; `+` gives a ConcatDataset.

    holds_tensors: whether samples are parts of tensors; a loader then uses no worker threads.

    >>> class Squares(sg.data.Dataset):
    ...     def __getitem__(self, index):
    ...         return index**2
    ...     def __len__(self):
    ...         return 4
    >>> [batch.tolist() for batch in sg.data.DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4, 9]]
    """

    holds_tensors: bool = False

    def __getitem__(self, index: int) -> T_co:
        raise NotImplementedError(
            f"{type(self).__name__} has no __getitem__. Hint: write one that returns sample number i."
        )

    def batch_of(self, rows: np.ndarray) -> Any:
        """The samples of `rows` [batch] as one collated batch; None if the loader must ask for each sample."""
        return None

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples as a stream. Write `__iter__`. A loader reads one iterator, however many workers it has.

    >>> class Countdown(sg.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> [batch.tolist() for batch in sg.data.DataLoader(Countdown(), batch_size=2)]
    [[3, 2], [1]]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__. Hint: write one that yields samples.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Rows of arrays that have equal first axes: sample i is (a[i], b[i], ...).

    arrays: NumPy arrays, which stay on the host until a loader uploads a batch, or tensors, which stay on their device.
    Raises ShapeError if the first axes differ, DataError without arrays.

    >>> dataset = sg.data.TensorDataset(sg.tensor([[1.0, 2.0], [3.0, 4.0]]), sg.tensor([0, 1]))
    >>> dataset[1]
    (tensor([3., 4.]), tensor(1))
    """

    def __init__(self, *arrays: Array) -> None:
        if not arrays:
            raise DataError("TensorDataset needs at least one array.")
        if any(a.ndim == 0 for a in arrays) or len({a.shape[0] for a in arrays}) > 1:
            shapes = ", ".join(str(tuple(a.shape)) for a in arrays)
            raise ShapeError(f"[TensorDataset] size mismatch: the first axes must be equal, the shapes are {shapes}.")
        self.tensors = arrays
        self.holds_tensors = any(isinstance(a, Tensor) for a in arrays)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(a[index] for a in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def __repr__(self) -> str:
        arrays = ", ".join(f"{a.dtype}{list(a.shape)}".removeprefix("shadergrad.") for a in self.tensors)
        return f"{type(self).__name__}({arrays})"

    def batch_of(self, rows: np.ndarray) -> tuple[Any, ...] | None:
        if type(self).__getitem__ is not TensorDataset.__getitem__:
            return None  # a subclass may define its own samples
        return tuple(_rows_of(a, rows) for a in self.tensors)


def _rows_of(array: Array, rows: np.ndarray) -> Array:
    if isinstance(array, np.ndarray):
        return array[rows]
    size = array.shape[0]
    return array.index_select(0, host_tensor(np.where(rows < 0, rows + size, rows), device=array.device))


class Subset(Dataset[T_co]):
    """The samples of another data set at `indices`, in that order.

    >>> list(sg.data.Subset("abcd", [3, 0]))
    ['d', 'a']
    """

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int] | np.ndarray) -> None:
        self.dataset = dataset
        self.indices = np.asarray(indices, np.int64)
        self.holds_tensors = getattr(dataset, "holds_tensors", False)

    def __getitem__(self, index: int) -> T_co:
        return self.dataset[int(self.indices[index])]

    def __len__(self) -> int:
        return len(self.indices)

    def path_of(self, index: int) -> Any:
        """The file of a sample, for errors; None where samples are no files."""
        return path_of(self.dataset, int(self.indices[index]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} of {self.dataset!r})"

    def batch_of(self, rows: np.ndarray) -> Any:
        if type(self).__getitem__ is not Subset.__getitem__ or not isinstance(self.dataset, Dataset):
            return None
        return self.dataset.batch_of(self.indices[rows])


class ConcatDataset(Dataset[Any]):
    """Data sets one after the other. Raises DataError without data sets, for a stream, or for one without a length.

    >>> dataset = sg.data.ConcatDataset(["ab", "cd"])
    >>> len(dataset), dataset[2]
    (4, 'c')
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DataError("ConcatDataset needs at least one data set.")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise DataError("ConcatDataset takes data sets with indices, not an IterableDataset.")
        self.cumulative_sizes = list(accumulate(length_of(d) for d in self.datasets))
        self.holds_tensors = any(getattr(d, "holds_tensors", False) for d in self.datasets)

    def __getitem__(self, index: int) -> Any:
        dataset, within = self._place_of(index)
        return dataset[within]

    def _place_of(self, index: int) -> tuple[Any, int]:
        size = len(self)
        if not -size <= index < size:
            raise IndexRangeError(f"[ConcatDataset] index {index} is out of range for {size} samples.")
        index %= size
        k = bisect_right(self.cumulative_sizes, index)
        return self.datasets[k], index - (self.cumulative_sizes[k - 1] if k else 0)

    def path_of(self, index: int) -> Any:
        """The file of a sample, for errors; None where samples are no files."""
        return path_of(*self._place_of(index))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples of {len(self.datasets)} data sets)"


class StackDataset(Dataset[Any]):
    """Data sets of one length side by side: sample i is (a[i], b[i], ...), or a dict for data sets given by name.

    Raises DataError without data sets, for some with names and some without, and for different lengths.

    >>> sg.data.StackDataset("ab", [1, 2])[1], sg.data.StackDataset(letter="ab", number=[1, 2])[0]
    (('b', 2), {'letter': 'a', 'number': 1})
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise DataError("StackDataset takes data sets by position or by name, not both.")
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        self._all = args or tuple(kwargs.values())
        if not self._all:
            raise DataError("StackDataset needs at least one data set.")
        lengths = [length_of(d) for d in self._all]
        if len(set(lengths)) > 1:
            raise DataError(f"[StackDataset] size mismatch: the data sets have {lengths} samples.")
        self.holds_tensors = any(getattr(d, "holds_tensors", False) for d in self._all)

    def _sample(self, parts: tuple[Any, ...]) -> Any:
        return dict(zip(self.datasets, parts, strict=True)) if isinstance(self.datasets, dict) else parts

    def __getitem__(self, index: int) -> Any:
        return self._sample(tuple(d[index] for d in self._all))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        columns = []
        for dataset in self._all:
            several = getattr(dataset, "__getitems__", None)
            columns.append([dataset[i] for i in indices] if several is None else several(indices))
            if len(columns[-1]) != len(indices):
                raise DataError(
                    f"[StackDataset] __getitems__ of {type(dataset).__name__} gave {len(columns[-1])} samples "
                    f"for {len(indices)} indices."
                )
        return [self._sample(parts) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return len(self._all[0])


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other; `+` of two streams gives one. Raises DataError if one is no IterableDataset.

    >>> class Letters(sg.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(Letters() + Letters())
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise DataError(f"ChainDataset chains IterableDatasets, and got a {type(dataset).__name__}.")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


def random_split(
    dataset: Dataset[T_co], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T_co]]:
    """Parts of a data set, without overlap, in random order: a list of Subsets.

    lengths: numbers of samples that add up to all of them, or fractions that add up to 1 (the first parts get the samples that
    rounding leaves, one each).
    generator: draws the order; by default that of sg.manual_seed.
    Raises DataError for other lengths.

    >>> train, test = sg.data.random_split("abcde", [0.6, 0.4])
    >>> list(train), list(test)
    (['d', 'b', 'e'], ['c', 'a'])
    """
    size = length_of(dataset)
    if math.isclose(sum(lengths), 1) and all(0 <= n <= 1 for n in lengths):
        counts = [math.floor(size * n) for n in lengths]
        for k in range(size - sum(counts)):
            counts[k % len(counts)] += 1
    else:
        counts = [int(n) for n in lengths]
        if sum(lengths) != size or any(n < 0 or n != count for n, count in zip(lengths, counts, strict=True)):
            raise DataError(
                f"[random_split] the lengths {list(lengths)} add up to {sum(lengths)}; the data set has {size} samples. "
                "Hint: give numbers of samples that add up to that, or fractions that add up to 1."
            )
    order = randperm(size, device="cpu", generator=generator).numpy()
    ends = list(accumulate(counts))
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def length_of(dataset: Any) -> int:
    """len(dataset). Raises DataError if it has none."""
    try:
        return len(dataset)
    except TypeError:
        raise DataError(f"{type(dataset).__name__} has no length. Hint: write __len__.") from None


def path_of(dataset: Any, index: int) -> Any:
    """The file of a sample, if the data set knows it; else None."""
    known = getattr(dataset, "path_of", None)
    return None if known is None else known(index)
