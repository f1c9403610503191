"""In-place writes at positions given by tensors. If several values are written to one position, the last one stays, on every device."""

from __future__ import annotations

from ..dtypes import bool_
from ..graph import build
from ..graph.node import Node, make
from ..primitives import views as v
from ..primitives.indexing import ArgSort, Gather, ScatterAdd


def overwrite(whole: Node, axis: int, positions: Node, values: Node) -> Node:
    """`whole` with values[..., j, ...] at positions[..., j, ...] along `axis`.

    positions, values: of one shape, no larger than `whole` along the other axes.
    """
    if not positions.size:
        return whole
    last = _last(positions, axis, whole.shape[axis])
    written = make(Gather(axis), values, build.elementwise("Maximum", last - 1, build.like(last, 0)))
    return build.where(_padded(build.greater(last, 0), whole, False), _padded(written, whole, 0), whole)


def _last(positions: Node, axis: int, size: int) -> Node:
    """For each position along `axis` the number, from 1, of the last value written to it; 0 if there is none."""
    n = positions.shape[axis]
    order = make(ArgSort(axis, False), positions)  # stable: of equal positions the last comes last
    ordered = make(Gather(axis), positions, order)
    goes_on = build.equal(_part(ordered, axis, 1, n - 1), _part(ordered, axis, 0, n - 1))
    nothing = (0,) * positions.ndim
    end = tuple(int(a == axis) for a in range(positions.ndim))
    goes_on = make(v.Pad(nothing, end, nothing, False), goes_on)  # the next one has the same place
    return make(ScatterAdd(axis, size), ordered, build.where(goes_on, 0, order + 1))


def _part(x: Node, axis: int, start: int, size: int) -> Node:
    starts = tuple(start if a == axis else 0 for a in range(x.ndim))
    sizes = tuple(size if a == axis else n for a, n in enumerate(x.shape))
    return make(v.Slice(starts, sizes, (1,) * x.ndim), x)


def _padded(x: Node, whole: Node, value: float) -> Node:
    """x with as many elements along each axis as `whole`."""
    if x.shape == whole.shape:
        return x
    nothing = (0,) * x.ndim
    high = tuple(n - m for n, m in zip(whole.shape, x.shape, strict=True))
    return make(v.Pad(nothing, high, nothing, False if x.dtype is bool_ else value), x)
