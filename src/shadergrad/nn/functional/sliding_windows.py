"""Sliding windows along spatial axes, for convolution, pooling and resampling.

Shapes: (batch, channels, *size), or without the batch. Windows are views, which are never stored unless an operation needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import ShapeError
from ...graph.node import make
from ...primitives.views import Pad, Slice
from ...primitives.window import Window
from ...tensor import Tensor, wrap

Ints = int | Sequence[int]


def batched_input(input: Tensor, rank: int, what: str) -> tuple[Tensor, bool]:
    if input.ndim == rank + 1:
        return input.unsqueeze(0), False
    if input.ndim != rank + 2:
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {what}, but got input of size: {list(input.shape)}"
        )
    return input, True


def padded(
    x: Tensor, low: Sequence[int], high: Sequence[int], value: float = 0.0, between: Sequence[int] = ()
) -> Tensor:
    """Spatial axes padded, with `between` fill elements between neighbours."""
    interior = tuple(between) or (0,) * len(low)
    if not any((*low, *high, *interior)):
        return x
    lead = (0,) * (x.ndim - len(low))
    return wrap(make(Pad((*lead, *low), (*lead, *high), (*lead, *interior), value), x._node))


def cropped(x: Tensor, start: Sequence[int], sizes: Sequence[int]) -> Tensor:
    lead = x.ndim - len(start)
    wanted = (*x._node.shape[:lead], *sizes)
    if wanted == x._node.shape:
        return x
    return wrap(make(Slice((*(0,) * lead, *start), wanted, (1,) * x.ndim), x._node))


def windows(x: Tensor, kernel: Sequence[int], steps: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """(batch, channels, *size) to (batch, channels, *count, *kernel)."""
    axes = tuple(range(2, x.ndim))
    return wrap(make(Window(axes, tuple(kernel), tuple(steps), tuple(dilations)), x._node))


def along_axis(x: Tensor, axis: int, matrix: np.ndarray) -> Tensor:
    """A constant linear map (out, in) applied along an axis."""
    constant = Tensor(matrix, dtype=x.dtype, device=x.device)
    moved = x.transpose(axis, -1) @ constant.t()
    return moved.transpose(axis, -1)
