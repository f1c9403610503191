"""Views as ONNX operators. Most come to nothing, or to one Reshape or Transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..dtypes import int64
from .captured import Operation, Row
from .errors import OnnxError
from .sizes import Dim, Size
from .writer import TO_THE_END, Value, Writer, plus

FROM_THE_END = -(1 << 62)  # before the first element, for a Slice that goes backwards
KEPT = (("counter",), ("constant",), ("argument",))  # what values remain in other shapes


def of_reshape(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    (x,) = inputs
    found = w.reshape(x, out.shape)
    if x.made[:1] == ("window",):  # the axes of a window made one
        rank = len(x.made[1].shape)
        if out.shape[:rank] == x.shape[:rank] and out.shape[rank:] == (math.prod(x.made[2]),):
            return replace(found, made=x.made)
    return replace(found, made=x.made) if x.made[:1] in KEPT else found


def of_expand(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    (x,) = inputs
    return replace(x, shape=out.shape)


def of_permute(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    (x,) = inputs
    axes = operation.parameters["axes"]
    if not x.own:
        return replace(x, shape=out.shape)
    own = tuple(x.own[a] for a in axes)
    return Value(w.transposed(x.name, x.own, axes), own, out.shape, x.dtype)


def of_slice(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """Axes that are broadcast are not sliced."""
    (x,) = inputs
    if not x.own:
        return replace(x, shape=out.shape, made=())
    settings = operation.parameters
    starts, ends, axes, steps = [], [], [], []
    own = list(x.own)
    columns = zip(*(settings[k] for k in ("starts", "sizes", "steps", "to_end")), strict=True)
    for axis, (start, size, step, to_end) in enumerate(columns):
        n = x.shape[axis]
        if (start == 0 and size == n and step == 1) or (x.own[axis] == 1 and n != 1):
            continue
        own[axis] = size
        starts.append(start)
        is_known = isinstance(step, int) or size is not None
        ends.append(TO_THE_END if to_end and is_known else _end(start, size, step))
        axes.append(axis)
        steps.append(step)
    name = w.slice(x.name, starts, ends, axes, steps) if axes else x.name
    return Value(name, tuple(own), out.shape, x.dtype)


def _end(start: Dim, size: Dim, step: Dim) -> Dim:
    """Behind the last element of a slice."""
    if not isinstance(step, int):
        return start if size == 0 else plus(start, 1) if size == 1 else None
    if isinstance(start, int) and isinstance(size, int):
        return start + max(size - 1, 0) * step + 1 if size else start
    if isinstance(start, int):
        return size.times(step).plus(start + 1 - step) if isinstance(size, Size) else None
    return start.plus((size - 1) * step + 1) if isinstance(start, Size) and isinstance(size, int) else None


def of_flip(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    (x,) = inputs
    axes = [a for a in operation.parameters["axes"] if x.own and x.own[a] != 1]
    if not axes:
        return replace(x, made=())
    name = w.slice(x.name, [-1] * len(axes), [FROM_THE_END] * len(axes), axes, [-1] * len(axes))
    return Value(name, x.own, out.shape, x.dtype)


def of_pad(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    (x,) = inputs
    settings = operation.parameters
    parts = (settings["low"], settings["high"], settings["interior"], settings["value"])
    name, _ = w.pad(w.full(x), x.shape, x.dtype, *parts)
    return w.value(name, out.shape, out.dtype)


def of_cat(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    if len(inputs) == 1:
        return inputs[0]
    name = w.node("Concat", *map(w.full, inputs), axis=operation.parameters["axis"])
    return w.value(name, out.shape, out.dtype)


def of_window(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """Elements are gathered, an axis after the other, unless a pooling takes the whole view."""
    (x,) = inputs
    settings = operation.parameters
    axes, sizes, steps, dilations = (settings[k] for k in ("axes", "sizes", "steps", "dilations"))
    name, rank = w.full(x), len(x.shape)
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        name = w.node("Gather", name, _places(w, out.shape[axis], size, step, dilation, name, axis), axis=axis)
        order = [k for k in range(rank + 1) if k != axis + 1] + [axis + 1]
        name = w.node("Transpose", name, perm=order)
        rank += 1
    whole = list(axes) == list(range(len(x.shape) - len(axes), len(x.shape)))
    made = ("window", x, sizes, steps, dilations) if whole else ()
    return w.value(name, out.shape, out.dtype, *made)


def _places(w: Writer, count: Dim, size: int, step: int, dilation: int, name: str, axis: int) -> str:
    """The places (count, size) of the elements of windows along an axis."""
    inner = np.arange(size) * dilation
    if isinstance(count, int):
        return w.constant(np.arange(count)[:, None] * step + inner, int64)
    length = w.node("Squeeze", w.node("Shape", name, start=axis, end=axis + 1), w.constant([0], int64))
    starts = w.node(
        "Range", w.constant(0, int64), w.node("Sub", length, w.constant(inner[-1], int64)), w.constant(step, int64)
    )
    return w.node("Add", w.node("Unsqueeze", starts, w.constant([1], int64)), w.constant(inner, int64))


def of_fold(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """A sum over the places in a window, of all windows' elements there, moved to where they come from."""
    (g,) = inputs
    settings = operation.parameters
    axes, lengths, steps, dilations = (settings[k] for k in ("axes", "lengths", "steps", "dilations"))
    rank = len(out.shape)
    window = [n for n in g.shape[rank:] if isinstance(n, int)]
    counts = [n for n in (g.shape[a] for a in axes) if isinstance(n, int)]
    if len(window) < len(axes) or len(counts) < len(axes) or not all(isinstance(n, int) for n in lengths):
        raise OnnxError("[onnx] windows are added up along a dynamic axis. Hint: export it with a fixed size.")
    total, whole, inner = "", w.full(g), range(rank, rank + len(axes))
    for place in np.ndindex(*window):
        low, high, interior = [0] * rank, [0] * rank, [0] * rank
        columns = zip(axes, lengths, steps, dilations, counts, place, strict=True)
        for axis, length, step, dilation, count, k in columns:
            low[axis], interior[axis] = k * dilation, step - 1
            high[axis] = length - k * dilation - ((count - 1) * step + 1)
        part = w.slice(whole, list(place), [k + 1 for k in place], inner, [1] * len(place))
        part = w.node("Squeeze", part, w.constant(list(inner), int64))
        part, _ = w.pad(part, g.shape[:rank], g.dtype, low, high, interior, 0)
        total = w.node("Add", total, part) if total else part
    return w.value(total, out.shape, out.dtype)


def of_in_range(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    return inputs[0]  # runtimes report indices out of range themselves


RULES: dict[str, Any] = {
    "Reshape": of_reshape, "Expand": of_expand, "Permute": of_permute, "Slice": of_slice, "Flip": of_flip, "Pad": of_pad,
    "Cat": of_cat, "Window": of_window, "Fold": of_fold, "InRange": of_in_range,
}  # fmt: skip
