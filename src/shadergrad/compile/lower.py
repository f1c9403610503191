"""Rules that turn primitives into forms the kernels are good at. They change the graph's shape, not its values."""

from __future__ import annotations

import math

from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.call import Call
from ..primitives.dot import Dot
from ..primitives.reduce import Reduce
from ..primitives.views import Pad
from ..primitives.window import Conv, Fold, Unwindow, Window
from .order import argsort_to_merges, argsort_to_ranks, scatter_to_index, scatter_to_sum
from .rewrite import Inputs, Rewriter

SPLIT_FROM = 4096  # elements a reduction must have more than before it is worth a second pass
SPLIT_OUTPUTS = 2048  # with more results than this, there is work enough for every core in one pass
SPLIT_PARTS = 512
ENOUGH_ROWS = 512  # rows, each a workgroup's, that keep every core at work however long they are
SPLIT_COLUMNS_FROM = 1024  # as SPLIT_FROM, of sums down columns: a workgroup has 32 of them, with 8 threads each
ENOUGH_COLUMNS = 16384  # columns, or parts of columns, that keep every core at work


def thin_dot_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A product with a vector is bound by memory: a row kernel reads the matrix once. An outer product is a map."""
    if not isinstance(p, Dot):
        return None
    a, b = inputs
    batch, m, k = a.shape
    n = b.shape[2]
    if k == 1:
        shape = (batch, m, n)
        return r.mul(r.broadcast(a, shape), r.broadcast(b, shape))
    if n == 1:
        row = r.permute(b, (0, 2, 1))
        product = r.mul(a, r.broadcast(row, (batch, m, k)))
        return r.sum(product, (2,))
    if m == 1:
        column = r.permute(a, (0, 2, 1))
        product = r.mul(r.broadcast(column, (batch, k, n)), b)
        return r.sum(product, (1,))
    return None


def split_large_reductions(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Few long sums become many shorter ones and then one short one, so that all cores take part."""
    if not isinstance(p, Reduce):
        return None
    (x,) = inputs
    shape, dtype = p.infer(x)
    count = math.prod(x.shape[a] for a in p.axes)
    wide = [a for a in range(x.ndim) if x.shape[a] > 1]
    along_rows = set(wide[len(wide) - sum(a in p.axes for a in wide) :]) <= set(p.axes)
    parts = (_parts_of_rows if along_rows else _parts_of_columns)(count, x.size // max(count, 1))
    if parts < 2:
        return None
    before = tuple(a for a in range(min(p.axes)) if a not in p.axes)
    after = tuple(a for a in range(min(p.axes), x.ndim) if a not in p.axes)
    head, tail = (tuple(x.shape[a] for a in axes) for axes in (before, after))
    flat = r.reshape(r.permute(x, (*before, *p.axes, *after)), (*head, count, *tail))
    chunk = -(-count // parts)
    if parts * chunk > count:
        zeros = (0,) * flat.ndim
        high = (*zeros[: len(head)], parts * chunk - count, *zeros[len(head) + 1 :])
        flat = r.make(Pad(zeros, high, zeros, p.identity(dtype)), flat)
    parted = r.reshape(flat, (*head, parts, chunk, *tail))
    partial = r.make(type(p)((len(head) + 1,)), parted)
    partial = r.reshape(partial, (*head, parts, *tail))
    return r.reshape(r.make(type(p)((len(head),)), partial), shape)


def _parts_of_rows(count: int, outputs: int) -> int:
    """Into how many parts sums along `outputs` rows of `count` elements are cut; below 2: not at all."""
    if count <= SPLIT_FROM or outputs >= ENOUGH_ROWS:
        return 1
    return min(SPLIT_PARTS, count // 1024, max(1, SPLIT_OUTPUTS * 16 // max(outputs, 1)))


def _parts_of_columns(count: int, outputs: int) -> int:
    """The same for sums down columns: powers of two, which divide most sizes."""
    if count < SPLIT_COLUMNS_FROM or outputs > SPLIT_OUTPUTS * 2:
        return 1
    wanted = max(count // 1024, min(ENOUGH_COLUMNS // max(outputs, 1), count // 64))
    return min(SPLIT_PARTS, 1 << (wanted.bit_length() - 1)) if wanted else 1


def fold_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Every element gathers from the windows that hold it."""
    if not isinstance(p, Fold):
        return None
    (g,) = inputs
    rank = g.ndim - len(p.axes)
    parts = r.make(Unwindow(p.axes, p.lengths, p.steps, p.dilations), g)
    total = r.sum(parts, tuple(range(rank, g.ndim)))
    return r.reshape(total, total.shape[:rank])


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
    weights = r.reshape(w, (groups, out, channels * window))
    if count >= MERGE_BELOW or batch == 1:
        columns = r.permute(windows, (0, 1, 2, *places, *axes))
        columns = r.reshape(columns, (groups * batch, channels * window, count))
        rows = r.reshape(weights, (groups, 1, out, channels * window))
        rows = r.broadcast(rows, (groups, batch, out, channels * window))
        rows = r.reshape(rows, (groups * batch, out, channels * window))
        return r.reshape(r.dot(rows, columns), (groups, batch, out, *counts))
    columns = r.permute(windows, (0, 2, *places, 1, *axes))
    columns = r.reshape(columns, (groups, channels * window, batch * count))
    product = r.reshape(r.dot(weights, columns), (groups, out, batch, *counts))
    return r.permute(product, (0, 2, 1, *axes))


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
    left = r.permute(r.reshape(a, (batch, m, parts, chunk)), (0, 2, 1, 3))
    left = r.reshape(left, (batch * parts, m, chunk))
    right = r.reshape(b, (batch * parts, chunk, n))
    partial = r.reshape(r.dot(left, right), (batch, parts, m, n))
    return r.reshape(r.sum(partial, (1,)), (batch, m, n))


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
