"""Rules that turn primitives into forms the kernels are good at. They change the graph's shape, not its values."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import int32
from ..graph.node import Node
from ..primitives.base import Primitive
from ..primitives.dot import Dot
from ..primitives.elementwise import And, Cast, Equal, IsNan, Less, Mul, Not, Or, Where
from ..primitives.indexing import ArgSort, ScatterAdd
from ..primitives.reduce import Reduce, ReduceSum
from ..primitives.source import Alias, Iota
from ..primitives.views import Expand, Pad, Permute, Reshape
from ..primitives.window import Conv, Fold, Unwindow, Window
from .rewrite import Rewriter
from .simplify import filled

Inputs = tuple[Node, ...]

SPLIT_FROM = 4096  # elements a reduction must have before it is worth a second pass
SPLIT_OUTPUTS = 2048  # with more results than this, there is work enough for every core in one pass
SPLIT_PARTS = 512


def scatter_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """out[v] = sum over j of source[j] where positions[j] == v: every result gathers, nothing races."""
    if not isinstance(p, ScatterAdd):
        return None
    positions, source = inputs
    axis = p.axis
    shape = (*source.shape[:axis], p.size, *source.shape[axis:])  # v before j

    def spread(x: Node, at: int) -> Node:
        return r.make(Expand(shape), r.make(Reshape((*x.shape[:at], 1, *x.shape[at:])), x))

    counter: Node = r.make(Iota(p.size))
    if positions.dtype is not counter.dtype:
        counter = r.make(Cast(positions.dtype), counter)
    counter = r.make(Expand(shape), r.make(Reshape(tuple(n if a == axis else 1 for a, n in enumerate(shape))), counter))
    values = spread(source, axis)
    masked = r.make(
        Where(), r.make(Equal(), spread(positions, axis), counter), values, filled(r, 0, Alias(), (values,))
    )
    total = r.make(ReduceSum((axis + 1,)), masked)
    return r.make(Reshape((*source.shape[:axis], p.size, *source.shape[axis + 1 :])), total)


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


def argsort_to_ranks(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The rank of an element is the number of those before it; position k holds the element of rank k.

    Two sums over all pairs of an axis: right for any length, quick up to some thousands.
    """
    if not isinstance(p, ArgSort):
        return None
    (x,) = inputs
    axis, size = p.axis, x.shape[p.axis]
    pairs = (*x.shape[:axis], size, size, *x.shape[axis + 1 :])  # element i, then the other j

    def spread(node: Node, at: int) -> Node:
        shape = (*node.shape[:at], 1, *node.shape[at:])
        return r.make(Expand(pairs), r.make(Reshape(shape), node))

    def counter(at: int) -> Node:
        shape = tuple(size if a == at else 1 for a in range(len(pairs)))
        return r.make(Expand(pairs), r.make(Reshape(shape), r.make(Iota(size))))

    def before(a: Node, b: Node) -> Node:
        """Whether a comes before b, positions apart; NaN is the largest."""
        low, high = (b, a) if p.descending else (a, b)
        less = r.make(Less(), low, high)
        if x.dtype.category != 2:
            return less
        only_high = r.make(And(), r.make(IsNan(), high), r.make(Not(), r.make(IsNan(), low)))
        return r.make(Or(), less, only_high)

    own, other = spread(x, axis + 1), spread(x, axis)
    own_place, other_place = counter(axis), counter(axis + 1)
    tie = r.make(And(), r.make(Not(), before(own, other)), r.make(Less(), other_place, own_place))
    first = r.make(Or(), before(other, own), tie)
    one = r.make(Cast(int32), first)
    rank = r.make(Reshape(x.shape), r.make(ReduceSum((axis + 1,)), one))
    chosen = r.make(Equal(), spread(rank, axis), own_place)  # rank of j is position i
    place = r.make(Where(), chosen, other_place, filled(r, 0, Alias(), (other_place,)))
    return r.make(Reshape(x.shape), r.make(ReduceSum((axis + 1,)), place))


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


RULES = (
    scatter_to_sum,
    fold_to_sum,
    argsort_to_ranks,
    conv_to_dot,
    thin_dot_to_sum,
    split_long_contractions,
    split_large_reductions,
)
