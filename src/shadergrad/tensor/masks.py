"""Keys with one mask: x[mask], x[:, mask], x[mask, 0]. They select the elements at which the mask is true.

In: a tensor and a key. Out: a `Choice`: the part of the tensor before the mask selects, and the mask in a shape that broadcasts to it. So an
assignment is a `where`, which reads no value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..dtypes import bool_
from ..errors import IndexRangeError
from .base import TensorBase

WHAT = "indexing by a bool tensor"


class Choice(NamedTuple):
    """part: a view of the tensor, with all places. mask: of as many axes as the part, broadcasts to it. axes: up to the mask's last one."""

    part: Any
    mask: Any
    axes: int


def choice_of(x: Any, parts: tuple[Any, ...], ints: bool = False) -> Choice | None:
    """The choice of a key of one mask, slices and an ellipsis, or also ints; None for another key.

    Raises IndexRangeError for a mask of another shape than the axes that it indexes.
    """
    masks = [p for p, k in enumerate(parts) if isinstance(k, TensorBase)]
    if len(masks) != 1 or not _is_mask(parts[masks[0]]):
        return None
    at, mask = masks[0], parts[masks[0]]
    before, after = parts[:at], parts[at + 1 :]
    if not all(k is Ellipsis or isinstance(k, slice) or (ints and _is_int(k)) for k in (*before, *after)):
        return None
    if sum(k is Ellipsis for k in parts) > 1 or sum(k is not Ellipsis for k in parts) - 1 + mask.ndim > x.ndim:
        return None  # refused elsewhere
    part = x[(*before, *(slice(None),) * mask.ndim, *after)] if before or after else x
    axis = len(before) - sum(map(_is_int, before))
    if any(k is Ellipsis for k in before):
        axis = part.ndim - mask.ndim - (len(after) - sum(map(_is_int, after)))
    end = axis + mask.ndim
    if tuple(mask.shape) != tuple(part.shape[axis:end]):
        raise IndexRangeError(
            f"The shape of the mask {list(mask.shape)} at index {axis} does not match the shape of the indexed tensor {list(x.shape)}"
            f" at index {axis}."
        )
    return Choice(part, mask.reshape(*mask.shape, *(1,) * (part.ndim - end)), end)


def _is_mask(k: Any) -> bool:
    return k.dtype is bool_ and k.ndim > 0


def _is_int(k: Any) -> bool:
    return isinstance(k, int | np.integer) and not isinstance(k, bool)
