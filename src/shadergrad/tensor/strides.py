"""The positions of a view's elements in shared memory, as PyTorch's strides.

In: shapes, strides and paths of views. Out: strides, or None if no strides describe the view. No value is computed with them: they decide
when `reshape` copies, what is contiguous, and which writes are refused.
"""

from __future__ import annotations

from operator import mul

from ..dtypes import bool_
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape
from ..primitives import views as v
from ..primitives.dtype_views import AsComplex, AsReal, Reinterpret
from ..primitives.window import Window
from .paths import READINGS, Path


def strides(path: Path, shape: Shape, given: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """The strides, in elements, of the part that a path selects of a value of that shape with strides `given`, and its offset;
    None if no strides describe it (a reshape that its strides cannot express).

    These are PyTorch's strides, which decide where `reshape` copies.
    """
    found, offset = given, 0
    left = list(reversed(path))
    while left:
        step = left.pop()
        if isinstance(step, v.Slice):
            offset += sum(map(mul, step.starts, found))
            found, shape = tuple(map(mul, step.steps, found)), step.sizes
            continue
        if isinstance(step, v.Permute):
            found, shape = tuple([found[a] for a in step.axes]), tuple([shape[a] for a in step.axes])
            continue
        if isinstance(step, READINGS):
            read = _read_as(step, shape, found, offset)
            if read is None:
                return None
            shape, found, offset = read
            continue
        after = _shape_after(step, shape)
        if isinstance(step, v.Expand):
            found = tuple(0 if n != m else s for n, m, s in zip(shape, after, found, strict=True))
        elif isinstance(step, Window):
            more = [found[a] * d for a, d in zip(step.axes, step.dilations, strict=True)]
            along = dict(zip(step.axes, step.steps, strict=True))
            found = (*(s * along.get(a, 1) for a, s in enumerate(found)), *more)
        else:
            reshaped = strides_of_view(shape, found, after)
            if reshaped is None:
                line = _of_a_matrix_in_a_line(left[-1], shape, found) if left and after[:-1] == shape[:-2] else None
                if line is None:
                    return None
                reshaped, first = line
                after = _shape_after(left.pop(), after)
                offset += first
            found = reshaped
        shape = after
    return found, offset


def _read_as(
    step: Primitive, shape: Shape, given: tuple[int, ...], offset: int
) -> tuple[Shape, tuple[int, ...], int] | None:
    """Shape, strides and offset, in elements of the dtype as which a step reads elements with strides `given`."""
    if isinstance(step, AsReal):
        return (*shape, 2), (*(2 * s for s in given), 1), 2 * offset
    if isinstance(step, AsComplex):
        old, new, after, kept = 1, 2, shape[:-1], given[:-1]
    elif isinstance(step, Reinterpret) and step.source.itemsize != step.dtype.itemsize:
        old, new, after, kept = step.source.itemsize, step.dtype.itemsize, step.shown(shape), given[:-1]
    else:
        return shape, given, offset
    if any(s * old % new for s in (*kept, offset)):
        return None
    return after, (*(s * old // new for s in kept), *(1,) * (len(after) - len(kept))), offset * old // new


def _shape_after(step: Primitive, shape: Shape) -> Shape:
    """The shape after a view of a value of a shape."""
    described = Node(step, (), shape, bool_, "")
    return step.infer(described)[0]


def _of_a_matrix_in_a_line(step: Primitive, shape: Shape, given: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """The strides and the offset of a slice of the flattened rows of elements with strides `given`, for example of a
    diagonal. None if the elements of the slice are not evenly spaced.
    """
    if not isinstance(step, v.Slice):
        return None
    columns = shape[-1]
    row, column = divmod(step.starts[-1], columns)
    down, across = divmod(step.steps[-1], columns)
    if column + (step.sizes[-1] - 1) * across >= columns:
        return None
    first = sum(a * s for a, s in zip((*step.starts[:-1], row, column), given, strict=True))
    outer = (a * s for a, s in zip(step.steps[:-1], given[:-2], strict=True))
    return (*outer, down * given[-2] + across * given[-1]), first


def overlaps(shape: Shape, layout: tuple[int, ...]) -> bool:
    """Whether two elements may have the same position: the stride of an axis is smaller than the extent of the finer axes."""
    reach = 0
    for step, n in sorted((s, n) for n, s in zip(shape, layout, strict=True) if n > 1):
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False


def lies_row_by_row(shape: Shape, layout: tuple[int, ...]) -> bool:
    """Whether elements with such strides are row-major and contiguous."""
    whole = row_major(shape)
    return layout == whole or 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, layout, whole, strict=True))


def is_run_of_rows(step: Primitive, shape: Shape) -> bool:
    """Whether a view is a contiguous range: a range of indices along the first axis of a shape."""
    return isinstance(step, v.Slice) and step.sizes[1:] == shape[1:] and step.steps[:1] == (1,)


def row_major(shape: Shape) -> tuple[int, ...]:
    """The strides of a contiguous row-major value."""
    found: list[int] = []
    step = 1
    for n in reversed(shape):
        found.append(step)
        step *= max(n, 1)
    return tuple(reversed(found))


def strides_of_view(shape: Shape, given: tuple[int, ...], wanted: Shape) -> tuple[int, ...] | None:
    """The strides of elements with strides `given` in another shape; None if there are none.

    Axes that are contiguous within each other form one range of memory, which is split anew; no new axis may span two ranges.
    """
    if 0 in shape:
        return row_major(wanted)
    runs: list[list[int]] = []  # [elements, stride] of each, outermost first
    for n, s in zip(shape, given, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * s:
            runs[-1] = [runs[-1][0] * n, s]
        else:
            runs.append([n, s])
    result: list[int] = []
    left, step = 1, 1  # of the innermost run that is not used up: elements, stride of the next axis
    for n in reversed(wanted):
        if n == 1:
            result.append(step)
            continue
        if left == 1:
            left, step = runs.pop()
        if left % n:
            return None
        result.append(step)
        left //= n
        step *= n
    return tuple(reversed(result))
