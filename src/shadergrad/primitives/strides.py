"""The strides of views over their bases, so that a kernel reads a view in place instead of a copy.

In: a node. Out: the node whose buffer holds its elements, the views between, and a stride for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..graph.node import Node, resolve
from ..graph.primitive import Shape
from .views import Permute, Reshape, Slice


@dataclass(frozen=True)
class Strided:
    """Element (i, j, ...) of a view is element offset + i strides[0] + j strides[1] + ... of `base`, row-major.

    views: from the base to the view, in this order. The stride of an axis of size 1 is 0.
    """

    base: Node
    offset: int
    strides: tuple[int, ...]
    views: tuple[Node, ...]


def row_major(shape: Shape) -> tuple[int, ...]:
    """The strides of a whole array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step if n > 1 else 0)
        step *= n
    return tuple(reversed(strides))


def strided(node: Node) -> Strided:
    """The node as a strided view of the earliest possible node; of itself, if it is not a strided view."""
    chain: list[Node] = []
    below = resolve(node)
    while isinstance(below.primitive, Reshape | Permute | Slice) and below.storage is None:
        chain.append(below)
        below = resolve(below.inputs[0])
    found = Strided(below, 0, row_major(below.shape), ())
    for view in reversed(chain):
        found = _through(found, view)
    return found


def _through(source: Strided, view: Node) -> Strided:
    """The strides after one more view; if it has none, the view becomes a new base."""
    primitive, shape = view.primitive, view.inputs[0].shape
    views = (*source.views, view)
    if isinstance(primitive, Permute):
        return Strided(source.base, source.offset, tuple(source.strides[a] for a in primitive.axes), views)
    if isinstance(primitive, Slice):
        offset = sum(a * s for a, s in zip(primitive.starts, source.strides, strict=True))
        steps = (
            s * k if n > 1 else 0 for s, k, n in zip(source.strides, primitive.steps, primitive.sizes, strict=True)
        )
        return Strided(source.base, source.offset + offset, tuple(steps), views)
    strides = reshaped(shape, source.strides, view.shape)
    if strides is None:
        return Strided(view, 0, row_major(view.shape), ())
    return Strided(source.base, source.offset, strides, views)


def reshaped(shape: Shape, strides: Sequence[int], new: Shape) -> tuple[int, ...] | None:
    """The strides of a strided array in another shape; None if no strides give its order."""
    runs: list[list[int]] = []  # [elements, step] of groups of axes that have a single stride
    for n, step in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * step:
            runs[-1] = [runs[-1][0] * n, step]
        else:
            runs.append([n, step])
    result: list[int] = []
    for n in reversed(new):
        if n == 1:
            result.append(0)
            continue
        if not runs or runs[-1][0] % n:
            return None
        left, step = runs[-1]
        result.append(step)
        runs[-1] = [left // n, step * n]
        if left == n:
            runs.pop()
    return tuple(reversed(result))


def is_covered(size: int, places: Sequence[tuple[int, int]]) -> bool:
    """Whether axes, each (elements, stride), reach each of `size` places exactly once."""
    reached = 1
    for n, step in sorted((p for p in places if p[0] > 1), key=lambda p: p[1]):
        if step != reached:
            return False
        reached *= n
    return reached == size
