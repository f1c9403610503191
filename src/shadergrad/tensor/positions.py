"""Bounds checks of index tensors.

In: an index tensor from a caller. Out: the same positions. If their values are known, on the cpu device and for tensors just made from
host data, an out-of-range index raises IndexRangeError at the call, before anything is written. Otherwise the kernel that reads them
reports it, and the next read raises. Positions that the library itself computes need no check.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ..drive import execute
from ..drive.tracing import current
from ..graph.node import Node, make, mode, resolve
from ..primitives.indexing import InRange, check_range
from .base import TensorBase
from .bounds import bounds_of
from .comparison import where
from .handle import wrap

T = TypeVar("T", bound=TensorBase)


def in_range(index: T, size: int, fault: int, low: int = 0) -> T:
    """The same positions; one outside [low, size) raises IndexRangeError: at once if its value is known, else at the next read.

    fault: the error, a number of plan.FAULTS.
    """
    node = index._node
    if not node.size or not node.dtype.is_position or _is_inside(node, size, low):
        return index
    if current.trace is None and not mode.heard:  # recorded and repeated operations read no values
        values = _known_values(node)
        if values is not None:
            check_range(fault, values, size, low)
            return index
    return wrap(make(InRange(size, fault, low), node))


def wrapped(index: Any, size: int, fault: int) -> Any:
    """Non-negative positions: negative ones count from the end. Raises as `in_range`."""
    if _is_inside(index._node, size):
        return index
    index = in_range(index, size, fault, -size)
    if _is_known_positive(index._node):
        return index
    return where(index < 0, index + size, index)


def known_number(index: TensorBase, size: int) -> int | None:
    """The position in a 0-d tensor, if its value is known without waiting and in range; else None."""
    node = index._node
    if node.shape or not node.dtype.is_position or current.trace is not None or mode.heard:
        return None
    values = _known_values(node)
    number = None if values is None else int(values.reshape(-1)[0])
    return number if number is not None and -size <= number < size else None


def _is_inside(node: Node, size: int, low: int = 0) -> bool:
    """Whether positions are in [low, size) because of how they are computed, or were checked already."""
    bounds = bounds_of(node)
    return bounds is not None and low <= bounds[0] and bounds[1] < size


def _is_known_positive(node: Node) -> bool:
    """Whether no position is negative, as far as values are known on the host. A recorded step may not rely on them."""
    if node.device != "cpu" or node.storage is None or current.trace is not None or mode.heard:
        return False
    values = node.storage.handle
    return not values.size or bool(values.min() >= 0)


def _known_values(node: Node) -> np.ndarray | None:
    """Values that are available without waiting for a device."""
    if node.device == "cpu":
        execute.realize([node], read=True)
        return node.storage.handle
    storage = resolve(node).storage
    uploaded = None if storage is None else storage.uploaded
    return None if uploaded is None else np.frombuffer(uploaded, node.dtype.stored)
