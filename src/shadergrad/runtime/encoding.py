"""The encoding of values for shaders: 32 bits per element; halves take 16, two per word. In: host arrays. Out: host arrays."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import DType, int64
from ..errors import DTypeError


def encoded(array: np.ndarray, dtype: DType, device: str) -> np.ndarray:
    """The elements in the encoding of shaders. Raises DTypeError for a dtype that shaders lack, and for an int64 beyond 32 bits."""
    if dtype.wgsl is None:
        raise unsupported(dtype)
    if dtype.is_half:
        return dtype.encoded(array)
    data = np.asarray(array, dtype.numpy)
    if dtype is int64 and data.size:
        low, high = dtype.stored_range
        if data.min() < low or data.max() > high:
            raise dtype.refused(int(data[(data < low) | (data > high)][0]), device)
    return np.ascontiguousarray(data, dtype.stored)


def decoded(stored: np.ndarray, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """The elements of a storage's array."""
    if dtype.is_half:
        return dtype.decoded(stored[: math.prod(shape)]).reshape(shape)
    return stored.astype(dtype.numpy, copy=False)


def stored_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """The shape of the array that a storage's bytes fill. Raises DTypeError for a dtype that shaders lack."""
    if dtype.wgsl is None:
        raise unsupported(dtype)
    return (-(-math.prod(shape) // 2) * 2,) if dtype.is_half else shape


def as_bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def unsupported(dtype: DType) -> DTypeError:
    return DTypeError(
        f"[webgpu] {dtype.name} cannot be stored: shaders have float32, integers of up to 32 bits and bool.\n"
        "  Hint: convert on the host first, to float32, or use the cpu device."
    )
