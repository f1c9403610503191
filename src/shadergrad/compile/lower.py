"""Rules that turn primitives into forms the kernels are good at. They change the graph's shape, not its values."""

from __future__ import annotations

import math

from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.call import Call
from ..primitives.dot import Dot
from ..primitives.reduce import Reduce
from ..primitives.views import Pad, Slice
from ..primitives.window import Fold, Unwindow
from .order import argsort_to_merges, argsort_to_ranks, scatter_to_index, scatter_to_sum
from .rewrite import Inputs, Rewriter
from .tiles import is_shared, parts_of

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


def contiguous_rows(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A reduction over the innermost axis and others further out goes over the last axes, so that neighbouring threads read
    neighbouring elements: the statistics of a batch norm, the gradient of a bias."""
    if not isinstance(p, Reduce):
        return None
    (x,) = inputs
    wide = [a for a in range(x.ndim) if x.shape[a] > 1]
    reduced = [a for a in wide if a in p.axes]
    if not reduced or reduced[-1] != wide[-1] or reduced == wide[len(wide) - len(reduced) :]:
        return None
    kept = [a for a in range(x.ndim) if a not in reduced]
    moved = r.permute(x, (*kept, *reduced))
    shape, _ = p.infer(x)
    return r.reshape(r.make(type(p)(tuple(range(len(kept), x.ndim))), moved), shape)


def split_large_reductions(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Few long sums become many shorter ones and then one short one, so that all cores take part."""
    if not isinstance(p, Reduce):
        return None
    (x,) = inputs
    shape, dtype = p.infer(x)
    count = math.prod(x.shape[a] for a in p.axes)
    parts = _worthwhile_parts(count, x.size // max(count, 1))
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


def _worthwhile_parts(count: int, outputs: int) -> int:
    """Into how many parts reductions of `count` elements are cut, for that many outputs; below 2: not at all."""
    if count < SPLIT_FROM or outputs > SPLIT_OUTPUTS:
        return 1
    return min(SPLIT_PARTS, count // 1024, max(1, SPLIT_OUTPUTS * 16 // max(outputs, 1)))


def fold_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Every element gathers from the windows that hold it."""
    if not isinstance(p, Fold):
        return None
    (g,) = inputs
    rank = g.ndim - len(p.axes)
    parts = r.make(Unwindow(p.axes, p.lengths, p.steps, p.dilations), g)
    total = r.sum(parts, tuple(range(rank, g.ndim)))
    return r.reshape(total, total.shape[:rank])


def split_long_contractions(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A product with few results and a long contraction becomes several shorter ones and their sum, in a fixed order."""
    if not isinstance(p, Dot):
        return None
    a, b = inputs
    batch, m, k = a.shape
    n = b.shape[2]
    shared = is_shared(a)  # all samples have one left operand: they are further columns
    samples, batch = (batch, 1) if shared else (1, batch)
    parts = parts_of(batch, m, samples * n, k, p.window, r.target)
    if parts < 2:
        return None
    chunk = k // parts
    if shared:
        a = r.make(Slice((0, 0, 0), (1, m, k), (1, 1, 1)), a)
    left = r.permute(r.reshape(a, (batch, m, parts, chunk)), (0, 2, 1, 3))
    left = r.reshape(left, (batch * parts, m, chunk))
    right = r.permute(r.reshape(b, (samples, batch * parts, chunk, n)), (1, 2, 0, 3))
    right = r.reshape(right, (batch * parts, chunk, samples * n))
    partial = r.reshape(r.make(p, left, right), (batch, parts, m, samples, n))
    partial = r.permute(partial, (0, 3, 1, 2, 4))
    return r.reshape(r.sum(partial, (2,)), (batch * samples, m, n))


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
    thin_dot_to_sum,
    split_long_contractions,
    contiguous_rows,
    split_large_reductions,
)
