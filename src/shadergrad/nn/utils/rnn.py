"""Padding, packing and unpacking of sequences of different lengths, as torch.nn.utils.rnn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, NotTensorsError, ShapeError
from ...tensor import Tensor, host_tensor, stack
from ..packed_sequence import PackedSequence, lengths_of, packed_from, padded

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences (length, *) as one tensor (longest, n, *), or (n, longest, *) with batch_first.

    padding_side: the side of padding_value, 'right' or 'left'. Raises ArgumentError for another side, and without sequences.

    >>> sg.nn.utils.rnn.pad_sequence([sg.tensor([1, 2]), sg.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"padding_side should be left or right, but got {padding_side!r}.")
    if not isinstance(sequences, Iterable):
        raise NotTensorsError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences).__name__}"
        )
    parts = list(sequences)
    if not parts:
        raise ArgumentError("pad_sequence(): received an empty list of sequences.")
    longest = max(p.shape[0] for p in parts)
    rows = []
    for p in parts:
        more = longest - p.shape[0]
        amounts = (0, 0) * (p.ndim - 1) + ((0, more) if padding_side == "right" else (more, 0))
        rows.append(p.pad(amounts, padding_value))
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The inverse of pad_sequence, given the lengths.

    >>> sg.nn.utils.rnn.unpad_sequence(sg.tensor([[1, 2], [3, 0]]), sg.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(x.unbind(0), np.asarray(_array(lengths)), strict=True)]


def _array(lengths: Any) -> np.ndarray:
    return lengths.detach().numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation.

    >>> sg.nn.utils.rnn.invert_permutation(sg.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """A batch (time, n, *), or (n, time, *) with batch_first, of sequences of these lengths, packed.

    enforce_sorted: whether the sequences must be sorted, the longest first; else they are sorted here, and results of recurrent
    modules are put back in order. The lengths are read on the host. Raises ShapeError for lengths out of range or of another number,
    ArgumentError if they are not sorted.

    >>> packed = sg.nn.utils.rnn.pack_padded_sequence(sg.tensor([[1, 3], [2, 0]]), [2, 1])
    >>> packed.data, packed.batch_sizes.tolist()
    (tensor([1, 3, 2]), [2, 1])
    """
    counts = _array(lengths).astype(np.int64)
    x = input.transpose(0, 1) if batch_first else input
    if counts.shape != (x.shape[1],):
        raise ShapeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {counts.size} (batch_size={x.shape[1]})"
        )
    if not counts.size:
        raise ShapeError("Cannot pack an empty tensor: a batch has one sequence at least.")
    if (counts <= 0).any():
        raise ShapeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if counts.max() > x.shape[0]:
        raise ShapeError(f"Expected lengths up to {x.shape[0]}, the number of times, but got {counts.max()}")
    orders: list[Tensor | None] = [None, None]
    if not enforce_sorted:
        order = np.argsort(-counts, kind="stable").astype(np.int32)
        back = np.argsort(order, kind="stable").astype(np.int32)
        orders = [host_tensor(o, device=x.device) for o in (order, back)]
        x, counts = x.index_select(1, orders[0]), counts[order]  # type: ignore[arg-type]
    elif (np.diff(counts) > 0).any():
        raise ArgumentError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False`."
        )
    sizes = (counts[None, :] > np.arange(counts[0])[:, None]).sum(1)
    return packed_from(x[: len(sizes)], sizes, *orders)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(batch (time, n, *), lengths), with the sequences in their original order. total_length: the padded length, at least the longest.

    >>> packed = sg.nn.utils.rnn.pack_sequence([sg.tensor([1, 2]), sg.tensor([3])])
    >>> x, lengths = sg.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    >>> x, lengths.tolist()
    (tensor([[1, 2],
            [3, 0]]), [2, 1])
    """
    x = padded(sequence, padding_value, total_length)
    lengths = host_tensor(lengths_of(sequence), device="cpu")
    if sequence.unsorted_indices is not None:
        x = x.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return (x.transpose(0, 1) if batch_first else x), lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (length, *), packed; see pack_padded_sequence.

    >>> sg.nn.utils.rnn.pack_sequence([sg.tensor([1, 2]), sg.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one.

    >>> sg.nn.utils.rnn.unpack_sequence(sg.nn.utils.rnn.pack_sequence([sg.tensor([1, 2]), sg.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    x, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(x, lengths, batch_first=True)
