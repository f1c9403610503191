"""ONNX rules of reductions and of operations that contain one: pooling, positions of extrema. Counters and constants.

In: values that know the operations that made them. Out: one ONNX operator where ONNX has one for several of ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import float32, int64
from .captured import Operation, Row
from .writer import Shape, Value, Writer


def of_reduction(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    (x,) = inputs
    name, axes = operation.primitive, list(operation.parameters["axes"])
    if not axes:
        return x
    if x.made[:1] == ("first",) and name == "ReduceMin":
        found = _argument(w, x, axes, out)
        if found is not None:
            return found
    made = reduced(w, x, name, axes, out.shape)
    if name in ("ReduceMax", "ReduceMin") and len(axes) == 1:
        return w.value(made, out.shape, out.dtype, "extremum", name, x, axes[0])
    return w.value(made, out.shape, out.dtype)


def reduced(w: Writer, x: Value, name: str, axes: Sequence[int], shape: Shape) -> str:
    """The name of a reduction, whose axes stay."""
    pooled = _pooled(w, x, name, axes, shape)
    if pooled is not None:
        return pooled
    wide = w.widened(x.dtype)
    made = w.node(name, w.cast(w.full(x), x.dtype, wide), w.constant(list(axes), int64), keepdims=1)
    return w.cast(made, wide, x.dtype)


def _argument(w: Writer, x: Value, axes: Sequence[int], out: Row) -> Value | None:
    """The first place of an extremum, which ONNX has an operator for."""
    _, extremum, source, axis, counted, otherwise = x.made
    if (
        list(axes) != [axis]
        or counted != source.shape[axis]
        or otherwise != counted
        or source.dtype.name not in ("float32", "int32")
    ):
        return None
    op = "ArgMax" if extremum == "ReduceMax" else "ArgMin"
    found = w.node(op, w.full(source), axis=axis, keepdims=1, select_last_index=0)
    return w.value(w.cast(found, int64, out.dtype), out.shape, out.dtype, "argument", extremum, source, axis)


def _pooled(w: Writer, x: Value, name: str, axes: Sequence[int], shape: Shape) -> str | None:
    """A reduction over all places of windows along the last axes is a pooling."""
    if x.made[:1] != ("window",) or x.dtype is not float32 or name not in ("ReduceMax", "ReduceSum"):
        return None
    _, source, sizes, steps, dilations = x.made
    rank, spatial = len(source.shape), len(sizes)
    if list(axes) != list(range(rank, len(x.shape))) or rank != spatial + 2 or spatial > 3:
        return None
    settings: dict[str, Any] = {"kernel_shape": list(sizes), "strides": list(steps)}
    if name == "ReduceMax":
        made = w.node("MaxPool", w.full(source), dilations=list(dilations), **settings)
    elif set(dilations) == {1}:
        mean = w.node("AveragePool", w.full(source), **settings)
        made = w.node("Mul", mean, w.constant(float(math.prod(sizes)), float32))
    else:
        return None
    return w.reshaped(made, shape[:rank], shape)


def of_constant(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    value = operation.parameters["value"]
    return w.value(w.number(value, out.dtype), (), out.dtype, "constant", value)


def of_iota(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    size = operation.parameters["size"]
    if isinstance(size, int):
        name = w.constant(np.arange(size), out.dtype)
    else:
        counted = w.node("Range", w.constant(0, int64), w.scalar(size), w.constant(1, int64))
        name = w.cast(counted, int64, out.dtype)
    return w.value(name, out.shape, out.dtype, "counter", size)


RULES: dict[str, Any] = {
    "ReduceSum": of_reduction, "ReduceMax": of_reduction, "ReduceMin": of_reduction, "ReduceProd": of_reduction,
    "Constant": of_constant, "Iota": of_iota,
}  # fmt: skip
