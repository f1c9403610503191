"""PackedSequence: sequences of different lengths in one tensor without gaps, as recurrent modules read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..tensor import Tensor, host_tensor, where


class PackedSequence(NamedTuple):
    """Sequences one element after the other in time: those of the first time of all, then of the second, ...

    data: (sum of lengths, *). batch_sizes: how many sequences have each time, int64 on the cpu device. sorted_indices: the
    sequences by length, longest first; unsorted_indices: the way back. None where they came sorted. Made by
    nn.utils.rnn.pack_padded_sequence and its like, taken by RNN, LSTM and GRU.

    >>> sg.nn.utils.rnn.pack_sequence([sg.tensor([1, 2]), sg.tensor([3])]).batch_sizes.tolist()
    [2, 1]
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the data, and the orders, elsewhere or in another dtype."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = [None if t is None else t.to(data.device) for t in self[2:]]
        return PackedSequence(data, self.batch_sizes, *orders)

    def cpu(self) -> PackedSequence:
        """On the cpu device."""
        return self.to("cpu")

    def double(self) -> PackedSequence:
        """With the data as float64."""
        return self.to(dtype="float64")

    def float(self) -> PackedSequence:
        """With the data as float32."""
        return self.to(dtype="float32")

    def half(self) -> PackedSequence:
        """With the data as float16."""
        return self.to(dtype="float16")

    def long(self) -> PackedSequence:
        """With the data as int64."""
        return self.to(dtype="int64")

    def int(self) -> PackedSequence:
        """With the data as int32."""
        return self.to(dtype="int32")

    def short(self) -> PackedSequence:
        """With the data as int16."""
        return self.to(dtype="int16")

    def char(self) -> PackedSequence:
        """With the data as int8."""
        return self.to(dtype="int8")

    def byte(self) -> PackedSequence:
        """With the data as uint8."""
        return self.to(dtype="uint8")


def lengths_of(packed: PackedSequence) -> np.ndarray:
    """The lengths of the sequences, longest first."""
    sizes = packed.batch_sizes.numpy()
    return (np.arange(sizes[0])[:, None] < sizes).sum(1)


def places(batch_sizes: np.ndarray) -> np.ndarray:
    """Where in the data each (time, sequence) lies; 0 where there is none."""
    starts = np.concatenate([[0], np.cumsum(batch_sizes)[:-1]])
    where_in = starts[:, None] + np.arange(batch_sizes[0])
    return np.where(np.arange(batch_sizes[0]) < batch_sizes[:, None], where_in, 0)


def padded(packed: PackedSequence, value: float = 0.0, total: int | None = None) -> Tensor:
    """(time, sequence, *), the sequences longest first, filled up with a value."""
    sizes = packed.batch_sizes.numpy()
    if total is not None and total < len(sizes):
        raise ShapeError(
            f"Expected total_length to be at least the length of the longest sequence in input, but got total_length={total} and "
            f"max sequence length being {len(sizes)}"
        )
    more = np.zeros((0 if total is None else total) - len(sizes) if total else 0, sizes.dtype)
    all_sizes = np.concatenate([sizes, more])
    index = np.concatenate([places(sizes), np.zeros((len(more), sizes[0]), np.int64)]).astype(np.int32)
    data = packed.data
    found = data[host_tensor(index.ravel(), device=data.device)].reshape(*index.shape, *data.shape[1:])
    real = np.arange(sizes[0]) < all_sizes[:, None]
    mask = host_tensor(real.reshape(*real.shape, *[1] * (data.ndim - 1)), device=data.device)
    return where(mask.expand(*found.shape), found, value if data.is_floating_point() else int(value))


def packed_from(x: Tensor, batch_sizes: np.ndarray, *orders: Tensor | None) -> PackedSequence:
    """Of (time, sequence, *), longest first, what the batch sizes count."""
    times, count = x.shape[:2]
    index = np.concatenate([t * count + np.arange(n) for t, n in enumerate(batch_sizes)]).astype(np.int32)
    data = x.reshape(times * count, *x.shape[2:])[host_tensor(index, device=x.device)]
    return PackedSequence(data, host_tensor(np.asarray(batch_sizes, np.int64), device="cpu"), *orders)
