"""ONNX rules of matrix multiplications, convolutions, attention, and of reads and writes at positions given by tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import bool_, int64
from .captured import Operation, Row
from .errors import OnnxError
from .reductions import reduced
from .sizes import Dim, Size
from .writer import Shape, Value, Writer

REDUCTIONS = {"prod": ("mul", 1.0), "amax": ("max", -math.inf), "amin": ("min", math.inf)}


def of_dot(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    wide = w.widened(out.dtype)
    a, b = (w.cast(w.full(v), v.dtype, wide) for v in inputs)
    return w.value(w.cast(w.node("MatMul", a, b), wide, out.dtype), out.shape, out.dtype)


def of_conv(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """ONNX has groups within the channels. Zeros between elements, of a transposed convolution, are put there before."""
    x, weight = inputs
    settings, rank = operation.parameters, len(out.shape) - 3
    groups, batch, channels, *size = x.shape
    outs = weight.shape[1]
    inside = (batch, groups, channels, *size)
    name = w.transposed(w.full(x), x.shape, (1, 0, *range(2, rank + 3)))
    name = w.reshaped(name, inside, (batch, _times(groups, channels), *size))
    low, high = settings["low"], settings["high"]
    if not all(isinstance(n, int) for n in (*low, *high)):
        raise OnnxError(
            "[onnx] a convolution is padded otherwise for other sizes of the dynamic axes. Hint: export with fixed sizes."
        )
    cut = [[min(n, 0) for n in side] for side in (low, high)]
    between = [n - 1 for n in settings["spread"]]
    moved = (batch, _times(groups, channels), *size)
    name, _ = w.pad(name, moved, x.dtype, [0, 0, *cut[0]], [0, 0, *cut[1]], [0, 0, *between], 0.0)
    kernel = w.reshaped(w.full(weight), weight.shape, (_times(groups, outs), *weight.shape[2:]))
    made = w.node(
        "Conv",
        name,
        kernel,
        group=groups,
        kernel_shape=list(weight.shape[3:]),
        strides=list(settings["steps"]),
        dilations=list(settings["dilations"]),
        pads=[max(n, 0) for n in (*low, *high)],
    )
    counts = out.shape[3:]
    split = (batch, groups, outs, *counts)
    made = w.reshaped(made, (batch, _times(groups, outs), *counts), split)
    return w.value(w.transposed(made, split, (1, 0, *range(2, rank + 3))), out.shape, out.dtype)


def _times(a: Dim, b: Dim) -> Dim:
    """The product of two sizes, one of which is fixed."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    plain, other = (a, b) if isinstance(a, int) else (b, a)
    if not isinstance(plain, int):
        raise OnnxError(
            "[onnx] a convolution has a dynamic number of groups and channels. Hint: export with fixed sizes."
        )
    return other.times(plain) if isinstance(other, Size) else None


def of_attention(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """The composed form, with the weights as a matrix. A row that sees nothing gives zeros."""
    settings = operation.parameters
    if settings["dropped"] or settings["logs"]:
        raise OnnxError("[onnx] attention with dropout, or with gradients, is for training. Hint: model.eval().")
    q, k, v = inputs[:3]
    n, heads, rows, d = q.shape
    columns = k.shape[2]
    scores = w.node("MatMul", w.full(q), w.node("Transpose", w.full(k), perm=[0, 1, 3, 2]))
    scores = w.node("Mul", scores, w.constant(settings["scale"], q.dtype))
    lowest = w.constant(-np.inf, q.dtype)
    if settings["masked"]:
        mask = inputs[3]
        scores = w.node("Where", mask.name, scores, lowest) if mask.dtype is bool_ else w.node("Add", scores, mask.name)
    if settings["causal"]:
        scores = w.node("Where", _triangle(w, rows, columns), scores, lowest)
    weights = w.node("Softmax", scores, axis=-1)
    if settings["masked"]:
        top = w.node("ReduceMax", scores, w.constant([-1], int64), keepdims=1)
        weights = w.node("Where", w.node("Equal", top, lowest), w.constant(0, q.dtype), weights)
    result: Shape = (n, heads, rows, d)
    made = w.node("MatMul", weights, w.full(v))
    if settings["by_row"]:
        made, result = w.transposed(made, result, (0, 2, 1, 3)), (n, rows, heads, d)
    return w.value(w.reshaped(made, result, out.shape), out.shape, out.dtype)


def _triangle(w: Writer, rows: Dim, columns: Dim) -> str:
    """(rows, columns), true up to the diagonal."""
    if isinstance(rows, int) and isinstance(columns, int):
        return w.constant(np.tri(rows, columns, dtype=bool), bool_)
    zero, one = w.constant(0, int64), w.constant(1, int64)
    row, column = (w.node("Range", zero, w.scalar(n), one) for n in (rows, columns))
    return w.node("GreaterOrEqual", w.node("Unsqueeze", row, w.constant([1], int64)), column)


def of_gather(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """One list of places for all moves whole slices; the place of an extremum gives the extremum."""
    x, places = inputs
    axis = operation.parameters["axis"]
    if places.made[:1] == ("argument",) and places.made[2:] == (x, axis):
        return w.value(reduced(w, x, places.made[1], [axis], out.shape), out.shape, out.dtype)
    if places.own and all(n == 1 for k, n in enumerate(places.own) if k != axis):
        row = w.reshaped(places.name, places.own, (places.own[axis],))
        return w.value(w.node("Gather", w.full(x), row, axis=axis), out.shape, out.dtype)
    return w.value(w.node("GatherElements", w.full(x), w.full(places), axis=axis), out.shape, out.dtype)


def of_scatter(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    places, source = inputs
    reduction, neutral = "add", 0.0
    if operation.primitive == "ScatterReduce":
        reduction, neutral = REDUCTIONS[operation.parameters["reduction"]]
    if math.isinf(neutral) and out.dtype.category != 2:
        neutral = out.dtype.range[0] if neutral < 0 else out.dtype.range[1]
    start = w.node("Expand", w.constant(neutral, out.dtype), w.sizes(out.shape))
    settings = {"axis": operation.parameters["axis"], "reduction": reduction}
    return w.value(w.node("ScatterElements", start, w.full(places), w.full(source), **settings), out.shape, out.dtype)


def of_sort(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """All of an axis in order: equal values keep theirs."""
    (x,) = inputs
    wide = w.widened(x.dtype)
    axis, descending = operation.parameters["axis"], operation.parameters["descending"]
    whole, count = w.cast(w.full(x), x.dtype, wide), w.size(x.shape[axis])
    places = w.node("TopK", whole, count, outputs=2, axis=axis, largest=int(descending), sorted=1)
    return w.value(w.cast(places, int64, out.dtype), out.shape, out.dtype)


def of_running_sum(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    (x,) = inputs
    wide = w.widened(x.dtype)
    sums = w.node(
        "CumSum", w.cast(w.full(x), x.dtype, wide), w.constant(1, int64), reverse=int(operation.parameters["back"])
    )
    return w.value(w.cast(sums, wide, out.dtype), out.shape, out.dtype)


def of_quantized(w: Writer, inputs: Sequence[Value], operation: Operation, out: Row) -> Value:
    """Codes are shifted out of their words, so that a file holds the words."""
    words, scales, *offsets = inputs
    bits = operation.parameters["bits"]
    codes = 32 // bits
    packed = w.cast(w.reshaped(w.full(words), words.shape, (*words.shape, 1)), words.dtype, "uint32")
    shifted = w.node("BitShift", packed, w.constant(np.arange(codes) * bits, "uint32"), direction="RIGHT")
    found = w.cast(w.node("BitwiseAnd", shifted, w.constant((1 << bits) - 1, "uint32")), "uint32", out.dtype)
    n = out.shape[-1]
    groups = scales.shape[-1]
    if not isinstance(n, int) or not isinstance(groups, int):
        raise OnnxError("[onnx] quantised weights have a dynamic size. Hint: export with fixed sizes.")
    grouped = (*scales.shape, n // groups)
    found = w.reshaped(found, (*words.shape, codes), grouped)
    scale, *offset = (
        w.reshaped(w.cast(w.full(v), v.dtype, out.dtype), v.shape, (*v.shape, 1)) for v in (scales, *offsets)
    )
    if not offset:
        found = w.node("Sub", found, w.constant(1 << (bits - 1), out.dtype))
    found = w.node("Mul", found, scale)
    if offset:
        found = w.node("Add", found, offset[0])
    return w.value(w.reshaped(found, grouped, out.shape), out.shape, out.dtype)


RULES: dict[str, Any] = {
    "Dot": of_dot, "Conv": of_conv, "Attention": of_attention, "Gather": of_gather, "ScatterAdd": of_scatter,
    "ScatterReduce": of_scatter, "ArgSort": of_sort, "RunningSum": of_running_sum, "Dequantize": of_quantized,
}  # fmt: skip
