"""Rules that turn primitives into forms the kernels are good at. They change the graph's shape, not its values."""

from __future__ import annotations

import math

import numpy as np

from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.call import Call
from ..primitives.dot import Dot
from ..primitives.elementwise import Mul
from ..primitives.reduce import Reduce, ReduceSum
from ..primitives.views import Expand, Pad, Permute, Reshape
from ..primitives.window import Conv, Fold, Unwindow, Window
from .order import argsort_to_merges, argsort_to_ranks, scatter_to_index, scatter_to_sum
from .rewrite import Inputs, Rewriter

SPLIT_FROM = 4096  # elements a reduction must have before it is worth a second pass
SPLIT_OUTPUTS = 2048  # with more results than this, there is work enough for every core in one pass
SPLIT_PARTS = 512


def thin_dot_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A product with a vector is bound by memory: a row kernel reads the matrix once. An outer product is a map."""
    if not isinstance(p, Dot):
        return None
    a, b = inputs
    batch, m, k = a.shape
    n = b.shape[2]
    if k == 1:
        shape = (batch, m, n)
        return r.make(Mul(), r.make(Expand(shape), a), r.make(Expand(shape), b))
    if n == 1:
        row = r.make(Permute((0, 2, 1)), b)
        product = r.make(Mul(), a, r.make(Expand((batch, m, k)), row))
        return r.make(ReduceSum((2,)), product)
    if m == 1:
        column = r.make(Permute((0, 2, 1)), a)
        product = r.make(Mul(), r.make(Expand((batch, k, n)), column), b)
        return r.make(ReduceSum((1,)), product)
    return None


def split_large_reductions(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Few long sums become many shorter ones and then one short one, so that all cores take part."""
    if not isinstance(p, Reduce):
        return None
    (x,) = inputs
    shape, dtype = p.infer(x)
    count = int(np.prod([x.shape[a] for a in p.axes]))
    outputs = x.size // max(count, 1)
    parts = min(SPLIT_PARTS, count // 1024, max(1, SPLIT_OUTPUTS * 16 // max(outputs, 1)))
    if count < SPLIT_FROM or outputs > SPLIT_OUTPUTS or parts < 2:
        return None
    kept = tuple(a for a in range(x.ndim) if a not in p.axes)
    first = min(p.axes)
    before = tuple(a for a in kept if a < first)
    after = tuple(a for a in kept if a > first)
    flat = r.make(Permute((*before, *p.axes, *after)), x)
    head = tuple(x.shape[a] for a in before)
    tail = tuple(x.shape[a] for a in after)
    chunk = -(-count // parts)
    flat = r.make(Reshape((*head, count, *tail)), flat)
    missing = parts * chunk - count
    if missing:
        at = len(head)
        zeros = (0,) * (at + 1 + len(tail))
        high = tuple(missing if a == at else 0 for a in range(len(zeros)))
        flat = r.make(Pad(zeros, high, zeros, p.identity(dtype)), flat)
    parted = r.make(Reshape((*head, parts, chunk, *tail)), flat)
    partial = r.make(type(p)((len(head) + 1,)), parted)
    partial = r.make(Reshape((*head, parts, *tail)), partial)
    return r.make(Reshape(shape), r.make(type(p)((len(head),)), partial))


def fold_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Every element gathers from the windows that hold it."""
    if not isinstance(p, Fold):
        return None
    (g,) = inputs
    rank = g.ndim - len(p.axes)
    parts = r.make(Unwindow(p.axes, p.lengths, p.steps, p.dilations), g)
    total = r.make(ReduceSum(tuple(range(rank, g.ndim))), parts)
    return r.make(Reshape(total.shape[:rank]), total)


MERGE_BELOW = 32  # with fewer windows a sample, the samples of a batch share a product


def conv_to_dot(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A product of the weights with window views: of every sample by itself, so that the result has the layout of the
    convolution's, or of all samples together where one alone has few windows."""
    if not isinstance(p, Conv):
        return None
    x, w = inputs
    rank = len(p.steps)
    groups, batch, channels = x.shape[:3]
    out, window = w.shape[1], math.prod(w.shape[3:])
    axes = tuple(range(3, 3 + rank))
    places = tuple(range(3 + rank, 3 + 2 * rank))
    windows = r.make(Window(axes, w.shape[3:], p.steps, p.dilations), x)
    counts = windows.shape[3 : 3 + rank]
    count = math.prod(counts)
    weights = r.make(Reshape((groups, out, channels * window)), w)
    if count >= MERGE_BELOW or batch == 1:
        columns = r.make(Permute((0, 1, 2, *places, *axes)), windows)
        columns = r.make(Reshape((groups * batch, channels * window, count)), columns)
        rows = r.make(Reshape((groups, 1, out, channels * window)), weights)
        rows = r.make(Expand((groups, batch, out, channels * window)), rows)
        rows = r.make(Reshape((groups * batch, out, channels * window)), rows)
        return r.make(Reshape((groups, batch, out, *counts)), r.make(Dot(), rows, columns))
    columns = r.make(Permute((0, 2, *places, 1, *axes)), windows)
    columns = r.make(Reshape((groups, channels * window, batch * count)), columns)
    product = r.make(Reshape((groups, out, batch, *counts)), r.make(Dot(), weights, columns))
    return r.make(Permute((0, 2, 1, *axes)), product)


LONG_CONTRACTION = 4096
FEW_TILES = 64


def split_long_contractions(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A product with few results and a long contraction becomes several shorter ones and their sum, in a fixed order."""
    if not isinstance(p, Dot):
        return None
    a, b = inputs
    batch, m, k = a.shape
    n = b.shape[2]
    tiles = batch * -(-m // 32) * -(-n // 32)
    if k < LONG_CONTRACTION or tiles > FEW_TILES:
        return None
    parts = min(k // 512, 4 * FEW_TILES // tiles)
    while parts > 1 and k % parts:
        parts -= 1
    if parts < 2:
        return None
    chunk = k // parts
    left = r.make(Permute((0, 2, 1, 3)), r.make(Reshape((batch, m, parts, chunk)), a))
    left = r.make(Reshape((batch * parts, m, chunk)), left)
    right = r.make(Reshape((batch * parts, chunk, n)), b)
    partial = r.make(Reshape((batch, parts, m, n)), r.make(Dot(), left, right))
    return r.make(Reshape((batch, m, n)), r.make(ReduceSum((1,)), partial))


def expand_call(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A call of several kernels becomes the nodes that it is made of."""
    return p.expand(r, *inputs) if isinstance(p, Call) else None


RULES = (
    expand_call,
    scatter_to_index,
    scatter_to_sum,
    fold_to_sum,
    argsort_to_merges,
    argsort_to_ranks,
    conv_to_dot,
    thin_dot_to_sum,
    split_long_contractions,
    split_large_reductions,
)
