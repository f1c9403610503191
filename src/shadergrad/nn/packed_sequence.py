"""PackedSequence: sequences of different lengths in one tensor without gaps, as recurrent modules read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..graph.node import grad_mode, mode
from ..tensor import Tensor, host_tensor, where


class PackedSequence(NamedTuple):
    """Sequences in order of time: the first elements of all sequences, then the second ones, ...

    data: (sum of lengths, *). batch_sizes: the number of sequences at each time, int64 on the cpu device. sorted_indices: the
    order of the sequences by length, longest first; unsorted_indices: its inverse. Both are None if the sequences were sorted. Made by
    nn.utils.rnn.pack_padded_sequence and pack_sequence; RNN, LSTM and GRU accept it.

    >>> sg.nn.utils.rnn.pack_sequence([sg.tensor([1, 2]), sg.tensor([3])]).batch_sizes.tolist()
    [2, 1]
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    @property
    def is_cuda(self) -> bool:
        """Always False."""
        return False

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """A copy on another device or with another dtype; indices move with the data."""
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


class _Unpacked(PackedSequence):
    """A PackedSequence of rows (time, sequence, *), longest first. `data` is gathered at its first use.

    Until then, recurrent modules and pad_packed_sequence read the rows instead; afterwards the program may have written to the data.
    The size of the data depends on the lengths, that of the rows does not. So a loop with new lengths in each step reuses its programs.
    """

    rows: Tensor
    _gathered: Tensor | None
    _records: bool  # whether gradients were recorded where the sequences were packed

    @classmethod
    def of(cls, rows: Tensor, batch_sizes: np.ndarray, *orders: Tensor | None) -> PackedSequence:
        """The sequence of those elements of the rows that the batch sizes count."""
        made = tuple.__new__(cls, (None, host_tensor(np.asarray(batch_sizes, np.int64), device="cpu"), *orders))
        made._gathered, made._records = None, mode.grad
        # their present value, because the rows may be a view of a tensor that is changed later
        made.rows = Tensor._of(rows._node) if mode.grad else rows.detach().clone()
        return made

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """(sum of lengths, *)."""
        if self._gathered is None:
            times, count = self.rows.shape[:2]
            sizes = self.batch_sizes.numpy()
            index = np.concatenate([t * count + np.arange(n) for t, n in enumerate(sizes)]).astype(np.int32)
            with grad_mode(self._records):
                flat = self.rows.reshape(times * count, *self.rows.shape[2:])
                self._gathered = flat[host_tensor(index, device=self.rows.device)]
        return self._gathered

    @property
    def is_gathered(self) -> bool:
        """Whether the program has used `data`."""
        return self._gathered is not None

    # other methods that read the first item of the tuple

    def __iter__(self) -> Iterator[Any]:
        return iter((self.data, self.batch_sizes, self.sorted_indices, self.unsorted_indices))

    def __getitem__(self, key: Any) -> Any:
        return tuple(self)[key]

    def __add__(self, other: Any) -> Any:
        return tuple(self) + other

    def _replace(self, **values: Any) -> PackedSequence:  # type: ignore[misc]
        return PackedSequence(*self)._replace(**values)

    def __repr__(self) -> str:
        return repr(PackedSequence(*self))

    def __reduce__(self) -> Any:
        return PackedSequence, tuple(self)


def lengths_of(packed: PackedSequence) -> np.ndarray:
    """The lengths of the sequences, longest first."""
    return is_real(packed.batch_sizes.numpy()).sum(0)


def is_real(batch_sizes: np.ndarray) -> np.ndarray:
    """Whether each (time, sequence) has an element."""
    return np.arange(batch_sizes[0]) < batch_sizes[:, None]


def places(batch_sizes: np.ndarray) -> np.ndarray:
    """The position of each (time, sequence) in the data; 0 beyond a sequence's end."""
    starts = np.concatenate([[0], np.cumsum(batch_sizes)[:-1]])
    where_in = starts[:, None] + np.arange(batch_sizes[0])
    return np.where(is_real(batch_sizes), where_in, 0)


def padded(packed: PackedSequence, value: float = 0.0, total: int | None = None) -> Tensor:
    """(time, sequence, *), the sequences longest first, padded with a value."""
    sizes = packed.batch_sizes.numpy()
    if total is not None and total < len(sizes):
        raise ShapeError(
            f"Expected total_length to be at least the length of the longest sequence in input, but got total_length={total} and "
            f"max sequence length being {len(sizes)}"
        )
    more = 0 if total is None else total - len(sizes)
    real = is_real(np.concatenate([sizes, np.zeros(more, sizes.dtype)]))
    if isinstance(packed, _Unpacked) and not packed.is_gathered:
        found = packed.rows.pad((0, 0) * (packed.rows.ndim - 1) + (0, more)) if more else packed.rows
    else:
        index = np.concatenate([places(sizes), np.zeros((more, sizes[0]), np.int64)]).astype(np.int32)
        data = packed.data
        found = data[host_tensor(index.ravel(), device=data.device)].reshape(*index.shape, *data.shape[1:])
    mask = host_tensor(real.reshape(*real.shape, *[1] * (found.ndim - 2)), device=found.device)
    return where(mask.expand(*found.shape), found, value if found.is_floating_point() else int(value))


def packed_from(x: Tensor, batch_sizes: np.ndarray, *orders: Tensor | None) -> PackedSequence:
    """The elements of (time, sequence, *), longest first, that the batch sizes count. orders: sorted and unsorted indices, or None."""
    return _Unpacked.of(x, batch_sizes, *orders)
