"""From samples to a batch, and from the host to a device. In: a list of samples. Out: their batch, as NumPy, then as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..tensor import Tensor, host_tensor, stack
from .errors import DataError


def default_collate(samples: Sequence[Any]) -> Any:
    """Stack samples along a new first axis, within tuples, lists, named tuples and dicts.

    Arrays and numbers give NumPy arrays (Python floats become float32, ints int32, or int64 if they need it), which the loader
    uploads; tensors give tensors; strings, bytes and None stay lists.
    Raises ShapeError if shapes differ, DataError if samples differ in structure or hold other values.

    >>> numbers, names = sg.data.default_collate([(1.0, "a"), (2.0, "b")])
    >>> numbers.tolist(), names
    ([1.0, 2.0], ['a', 'b'])
    """
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
    if isinstance(first, str | bytes) or first is None:
        return list(samples)
    if isinstance(first, Mapping):
        keys = set(first)
        if any(set(s) != keys for s in samples):
            raise DataError(f"[collate] the samples have different keys: the first has {sorted(map(str, keys))}.")
        return {key: default_collate([s[key] for s in samples]) for key in first}
    if isinstance(first, tuple | list):
        if len({len(s) for s in samples}) > 1:
            raise DataError(f"[collate] samples of {sorted({len(s) for s in samples})} parts do not make one batch.")
        parts = [default_collate(part) for part in zip(*samples, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return tuple(parts) if isinstance(first, tuple) else parts
    raise DataError(
        f"[collate] cannot make a batch of {type(first).__name__}. "
        "Hint: samples hold arrays, tensors, numbers, strings, dicts, tuples or lists; else give collate_fn."
    )


def upload(batch: Any, device: str, move: bool) -> Any:
    """The batch with its NumPy arrays as tensors on `device`. move: also move tensors of other devices there."""
    if isinstance(batch, Tensor):
        return batch.to(device) if move and batch.device != device else batch
    if isinstance(batch, np.ndarray | np.generic):
        return host_tensor(batch, device=device) if batch.dtype.kind in "biuf" else batch
    if isinstance(batch, Mapping):
        return {key: upload(value, device, move) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(upload(part, device, move) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(upload(part, device, move) for part in batch)
    return batch


def host_only(value: Any) -> Any:
    """A worker thread's samples with tensors as arrays, because threads must not add to the graph.

    Raises DataError for a tensor without a value.
    """
    if isinstance(value, Tensor):
        if value.requires_grad or value._node.storage is None:
            raise DataError(
                "[DataLoader] a worker got a tensor that has yet to be computed, which only the main thread may do. "
                "Hint: compute samples with NumPy, or take num_workers=0."
            )
        return value.numpy()
    if isinstance(value, Mapping):
        return {key: host_only(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(host_only(part) for part in value))
    if isinstance(value, tuple | list):
        return type(value)(host_only(part) for part in value)
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
