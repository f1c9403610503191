"""Rules that rewrite primitives into operations with efficient kernels. They change the graph, not its values."""

from __future__ import annotations

import math

from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.call import Call
from ..primitives.dot import Dot
from ..primitives.reduce import Reduce
from ..primitives.views import Pad, Permute, Reshape, Slice
from ..primitives.window import Fold, Unwindow
from ..symbolic_sizes import hint
from . import matrix_units
from .attention import attention_to_calls
from .layouts import innermost, is_shared
from .order import argsort_to_merges, argsort_to_ranks, scatter_to_index, scatter_to_sum
from .products import Product
from .rewrite import Inputs, Rewriter
from .tiles import bounded, chunk_of

MOST_INDEX = 2**31 - 1  # the largest i32
SPLIT_FROM = 4096  # elements per reduction above which a second pass pays
SPLIT_OUTPUTS = 2048  # with more results, one pass occupies all cores
SPLIT_PARTS = 512
ENOUGH_ROWS = 512  # rows, one per workgroup, that occupy all cores regardless of their length
SPLIT_COLUMNS_FROM = 1024  # like SPLIT_FROM, for sums down columns: a workgroup has 32 columns, with 8 threads each
ENOUGH_COLUMNS = 16384  # columns, or parts of columns, that occupy all cores
SHORT_WINDOWS = 32  # elements in all windows of an output that one thread adds


def thin_dot_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A matrix-vector multiplication is bound by memory: as a row kernel it reads the matrix once. An outer product is a map."""
    if not isinstance(p, Dot) or p.chunk:
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
    if m == 1 and (innermost(b) == 1 or (n <= SHORT_WINDOWS and innermost(b) is None)):
        product = r.mul(r.broadcast(a, (batch, n, k)), r.permute(b, (0, 2, 1)))
        return r.permute(r.sum(product, (2,)), (0, 2, 1))
    if m == 1 and (p.window == 1 or k <= SHORT_WINDOWS):
        column = r.permute(a, (0, 2, 1))
        product = r.mul(r.broadcast(column, (batch, k, n)), b)
        return r.sum(product, (1,))
    return None


def contiguous_rows(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A reduction over the innermost axis and others further out is permuted to reduce the last axes, so that neighbouring threads read
    neighbouring elements: the statistics of a batch norm, the gradient of a bias.
    """
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
    """Few long sums become many shorter ones and then one short one, so that all cores are busy."""
    if not isinstance(p, Reduce):
        return None
    (x,) = inputs
    shape, dtype = p.infer(x)
    count = math.prod(x.shape[a] for a in p.axes)
    outputs = x.size // max(count, 1)
    wide = [a for a in range(x.ndim) if x.shape[a] > 1]
    along_rows = set(wide[len(wide) - sum(a in p.axes for a in wide) :]) <= set(p.axes)
    parts = (_parts_of_rows if along_rows else _parts_of_columns)(hint(count), hint(outputs))
    chunk = -(-count // max(parts, 1))
    if (
        outputs * parts * chunk > MOST_INDEX and len(p.axes) > 1
    ):  # one axis after the other: no number names a place of them all
        partial = r.make(type(p)((p.axes[-1],)), x)
        return r.make(type(p)(p.axes[:-1]), partial)
    if parts < 2:
        return None
    before = tuple(a for a in range(min(p.axes)) if a not in p.axes)
    after = tuple(a for a in range(min(p.axes), x.ndim) if a not in p.axes)
    head, tail = (tuple(x.shape[a] for a in axes) for axes in (before, after))
    flat = r.reshape(r.permute(x, (*before, *p.axes, *after)), (*head, count, *tail))
    if parts * chunk > count:
        zeros = (0,) * flat.ndim
        high = (*zeros[: len(head)], parts * chunk - count, *zeros[len(head) + 1 :])
        flat = r.make(Pad(zeros, high, zeros, p.identity(dtype)), flat)
    parted = r.reshape(flat, (*head, parts, chunk, *tail))
    partial = r.make(type(p)((len(head) + 1,)), parted)
    partial = r.reshape(partial, (*head, parts, *tail))
    return r.reshape(r.make(type(p)((len(head),)), partial), shape)


def _parts_of_rows(count: int, outputs: int) -> int:
    """The number of parts into which to split sums along `outputs` rows of `count` elements; below 2: do not split."""
    if count <= SPLIT_FROM or outputs >= ENOUGH_ROWS:
        return 1
    return min(SPLIT_PARTS, count // 1024, max(1, SPLIT_OUTPUTS * 16 // max(outputs, 1)))


def _parts_of_columns(count: int, outputs: int) -> int:
    """The same for sums down columns: powers of two, which divide most sizes."""
    if count < SPLIT_COLUMNS_FROM or outputs > SPLIT_OUTPUTS * 2:
        return 1
    wanted = max(count // 1024, min(ENOUGH_COLUMNS // max(outputs, 1), count // 64))
    return min(SPLIT_PARTS, 1 << (wanted.bit_length() - 1)) if wanted else 1


def fold_to_views(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """If windows do not overlap, every element is in one window, so the gradient of a pooling only rearranges elements."""
    if not isinstance(p, Fold):
        return None
    (g,) = inputs
    rank = g.ndim - len(p.axes)
    counts, sizes = [g.shape[a] for a in p.axes], g.shape[rank:]
    if any(d > 1 or k > s for d, k, s in zip(p.dilations, sizes, p.steps, strict=True)):
        return None
    high = [0] * g.ndim
    high[rank:] = [s - k for k, s in zip(sizes, p.steps, strict=True)]
    g = _padded(r, g, high)
    order = [a for axis in range(rank) for a in (axis, *(rank + i for i, b in enumerate(p.axes) if b == axis))]
    g = r.permute(g, tuple(order))
    moved = {a: n * s for a, n, s in zip(p.axes, counts, p.steps, strict=True)}
    g = r.reshape(g, tuple(moved.get(a, inputs[0].shape[a]) for a in range(rank)))
    wanted = dict(zip(p.axes, p.lengths, strict=True))
    kept = tuple(min(wanted.get(a, n), n) for a, n in enumerate(g.shape))
    if kept != g.shape:
        g = r.make(Slice((0,) * rank, kept, (1,) * rank), g)
    return _padded(r, g, [wanted.get(a, n) - n for a, n in enumerate(kept)])


def _padded(r: Rewriter, x: Node, high: list[int]) -> Node:
    """x with zeros behind its last elements."""
    zeros = (0,) * x.ndim
    return r.make(Pad(zeros, tuple(high), zeros, 0), x) if any(high) else x


def fold_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Every element gathers from the windows that contain it."""
    if not isinstance(p, Fold):
        return None
    (g,) = inputs
    rank = g.ndim - len(p.axes)
    parts = r.make(Unwindow(p.axes, p.lengths, p.steps, p.dilations), g)
    total = r.sum(parts, tuple(range(rank, g.ndim)))
    return r.reshape(total, total.shape[:rank])


def split_long_contractions(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A matrix multiplication with few results and a long contraction becomes several shorter ones and their sum, in a fixed order (split-K)."""
    if not isinstance(p, Dot) or p.chunk:
        return None
    a, b = inputs
    batch, m, k = a.shape
    n = b.shape[2]
    shared = is_shared(a)  # all samples have one left operand: they are further columns
    samples, batch = (batch, 1) if shared else (1, batch)
    product = Product(batch, m, samples * n, k, k, 1, p.window)
    if matrix_units.is_for_units(inputs, product, r.target):
        chunk = bounded(matrix_units.chunk_of(product, r.target), k, p.window, r.target)
    else:
        chunk = chunk_of(batch, m, samples * n, k, p.window, r.target)
    if chunk >= k:
        return None
    if shared:
        a = r.make(Slice((0, 0, 0), (1, m, k), (1, 1, 1)), a)
    b = r.permute(r.reshape(b, (samples, batch, k, n)), (1, 2, 0, 3))
    split = Dot(p.window, chunk)
    partial = r.make(split, a, r.reshape(b, (batch, k, samples * n)))
    partial = r.reshape(partial, (batch, split.parts(k), m, samples, n))
    partial = r.permute(partial, (0, 3, 1, 2, 4))
    return r.reshape(r.sum(partial, (2,)), (batch * samples, m, n))


def transposed_product(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The transpose of a^T b, as the gradient of a weight is written, becomes b^T a, which has the memory layout of the weight."""
    if not isinstance(p, Permute):
        return None
    (x,) = inputs
    dot = x.inputs[0] if isinstance(x.primitive, Reshape) else x
    if (
        not isinstance(dot.primitive, Dot)
        or dot.primitive.chunk
        or p.axes != (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    ):
        return None
    a, b = dot.inputs
    if x.shape[-2:] != dot.shape[-2:] or innermost(a) != 1:
        return None
    return r.reshape(r.dot(r.permute(b, (0, 2, 1)), r.permute(a, (0, 2, 1))), p.infer(x)[0])


def expand_call(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A call of several kernels becomes the nodes of which it is composed."""
    return p.expand(r, *inputs) if isinstance(p, Call) else None


RULES = (
    attention_to_calls,
    expand_call,
    scatter_to_index,
    scatter_to_sum,
    fold_to_views,
    fold_to_sum,
    argsort_to_merges,
    argsort_to_ranks,
    transposed_product,
    thin_dot_to_sum,
    split_long_contractions,
    contiguous_rows,
    split_large_reductions,
)
