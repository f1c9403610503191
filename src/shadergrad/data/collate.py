"""Collates samples into a batch and uploads it. In: a list of samples. Out: their batch, as NumPy arrays, then as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..drive import execute
from ..dtypes import parse_dtype
from ..errors import ShapeError
from ..tensor import Tensor, host_tensor, resolve_device, stack
from ..tensor.placement import place_of
from .errors import DataError


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack samples along a new first axis, within tuples, lists, named tuples and dicts; tuples become lists, as in PyTorch.

    Arrays and numbers give tensors on the default device (Python floats become float32, ints int32, or int64 if they need it);
    tensors stay on theirs; strings and bytes stay lists.
    Raises ShapeError if shapes differ, DataError if samples differ in structure or hold other values.

    >>> sg.data.default_collate([(1.0, "a"), (2.0, "b")])
    [tensor([1., 2.]), ['a', 'b']]
    """
    return upload(collate_arrays(batch), resolve_device(None), move=False)


def default_convert(data: Any) -> Any:
    """A sample with its NumPy arrays as tensors on the default device, within tuples, lists, named tuples and dicts: what a
    loader without batches does; tuples become lists. All else stays as it is.

    >>> sg.data.default_convert({"x": np.ones(2, np.float32), "name": "a"})
    {'x': tensor([1., 1.]), 'name': 'a'}
    """
    return upload(without_tuples(data), resolve_device(None), move=False)


def without_tuples(data: Any) -> Any:
    """The data with lists in place of tuples."""
    if isinstance(data, Mapping):
        return {key: without_tuples(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(without_tuples, data))
    return [without_tuples(part) for part in data] if isinstance(data, tuple | list) else data


def collate_arrays(samples: Sequence[Any]) -> Any:
    """As default_collate, with NumPy arrays where that gives tensors made of arrays and numbers: a loader uploads them."""
    if not samples:
        raise DataError("[collate] there is no sample to make a batch of.")
    first = samples[0]
    if isinstance(first, np.ndarray | np.generic):
        return _stack([np.asarray(s) for s in samples])
    if isinstance(first, Tensor):
        return _stack_tensors(samples)
    if isinstance(first, bool):
        return np.array(samples, np.bool_)
    if isinstance(first, int | float):
        return _numbers(samples)
    if isinstance(first, str | bytes):
        return list(samples)
    if isinstance(first, Mapping):
        keys = set(first)
        if any(set(s) != keys for s in samples):
            raise DataError(f"[collate] the samples have different keys: the first has {sorted(map(str, keys))}.")
        return {key: collate_arrays([s[key] for s in samples]) for key in first}
    if isinstance(first, tuple | list):
        if len({len(s) for s in samples}) > 1:
            raise DataError(f"[collate] samples of {sorted({len(s) for s in samples})} parts do not make one batch.")
        parts = [collate_arrays(part) for part in zip(*samples, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return parts
    raise DataError(
        f"[collate] cannot make a batch of {type(first).__name__}. "
        "Hint: samples hold arrays, tensors, numbers, strings, dicts, tuples or lists; else give collate_fn."
    )


def upload(batch: Any, device: str, move: bool) -> Any:
    """The batch with its NumPy arrays as tensors on `device`. move: also move tensors of other devices there."""
    if isinstance(batch, Tensor):
        return batch.to(device) if move and batch.device != device else batch
    if isinstance(batch, np.ndarray | np.generic):
        if batch.dtype.kind not in "biufc":
            return batch
        return host_tensor(batch, device=device if move else place_of(parse_dtype(batch.dtype), device))
    if isinstance(batch, Mapping):
        return {key: upload(value, device, move) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(upload(part, device, move) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(upload(part, device, move) for part in batch)
    return batch


def settled(value: Any) -> Any:
    """A worker's batch with all tensors computed: the consumer's thread takes values, not the worker's graph.

    Raises DataError for a tensor that requires a gradient.
    """
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise DataError(
                "[DataLoader] a worker made a tensor that requires a gradient, whose history does not leave the worker. "
                "Hint: detach() it, or take num_workers=0."
            )
        execute.realize([value._node])
    elif isinstance(value, Mapping):
        for part in value.values():
            settled(part)
    elif isinstance(value, tuple | list):
        for part in value:
            settled(part)
    return value


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1:
        raise ShapeError(
            f"[collate] samples of different shapes do not make one batch: {', '.join(map(str, sorted(shapes)))}. "
            "Hint: crop or pad them, or give collate_fn."
        )
    return np.stack(arrays)


def _stack_tensors(tensors: Sequence[Tensor]) -> Any:
    """The stacked tensors: on the cpu one copy through NumPy; on other devices, or with a tape, an operation."""
    if all(t.device == "cpu" and not t.requires_grad for t in tensors):
        array = _stack([t.numpy() for t in tensors])
        return Tensor(array, dtype=array.dtype, device="cpu")
    return stack(list(tensors))


def _numbers(samples: Sequence[int | float]) -> np.ndarray:
    if any(isinstance(s, float) for s in samples):
        return np.array(samples, np.float32)
    array = np.array(samples, np.int64)
    fits = np.iinfo(np.int32)
    return array.astype(np.int32) if fits.min <= array.min() and array.max() <= fits.max else array
