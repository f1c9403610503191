"""Rules for sorting and scattering: comparison of all pairs for short axes; merge sort or radix sort for long ones."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..dtypes import int32, uint32
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..plan import IN_SCATTER
from ..primitives.indexing import ArgSort, InRange, ScatterAdd
from ..primitives.radix import BITS, DigitCounts, DigitStarts, MoveByDigit
from ..primitives.sorting import BLOCK, MergeRuns, SegmentStarts, SegmentSum, SortBlocks
from ..primitives.views import Expand, Slice
from ..symbolic_sizes import hint
from .calls import own_of
from .rewrite import Inputs, Rewriter

# cost of sorting by a digit, of sorting blocks and of merging, in dispatches of a digit (H200)
DIGIT, BLOCKS, MERGE = 3, 2, 2
ALL_PAIRS = 1 << 20  # comparisons up to which a sort, or a scattered sum, is two plain kernels: fewer dispatches
ALL_PLACES = 32  # results per row up to which each result of a scattered sum reads all sources


def sorted_rows(r: Rewriter, x: Node, descending: bool, bits: int = 32) -> Node:
    """Keys and positions, uint32 (2, rows, n), of the sorted rows of x (rows, n), whose keys have that many bits."""
    n = x.shape[1]
    widths = [BLOCK << k for k in range((-(-n // BLOCK) - 1).bit_length())]
    shifts = range(0, bits, BITS)
    if DIGIT * len(shifts) < BLOCKS + MERGE * len(widths):
        return _sorted_by_digits(r, x, descending, shifts)
    runs = r.make(SortBlocks(descending), x)
    for width in widths:
        runs = r.make(MergeRuns(width), runs)
    return runs


def _sorted_by_digits(r: Rewriter, x: Node, descending: bool, shifts: Iterable[int]) -> Node:
    """The same, sorted by the digits at `shifts` one after another."""
    runs, own = x, own_of(hint(x.size), r.target)
    for shift in shifts:
        starts = r.make(DigitStarts(), r.make(DigitCounts(shift, descending, own), runs))
        runs = r.make(MoveByDigit(shift, descending, own), runs, starts)
    return runs


def argsort_to_merges(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Blocks sorted and merged pairwise, or whole rows sorted digit by digit."""
    if not isinstance(p, ArgSort):
        return None
    (x,) = inputs
    n = x.shape[p.axis]
    if hint(x.size * n) <= ALL_PAIRS:
        return None
    last = (*(a for a in range(x.ndim) if a != p.axis), p.axis)
    moved = r.permute(x, last)
    rows = sorted_rows(r, r.reshape(moved, (x.size // n, n)), p.descending)
    order = r.cast(r.make(Slice((1, 0, 0), (1, *rows.shape[1:]), (1, 1, 1)), rows), int32)
    back = tuple(last.index(a) for a in range(x.ndim))
    return r.permute(r.reshape(order, moved.shape), back)


def report_scatters(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """In checked mode, positions out of range are reported instead of being dropped silently."""
    if not isinstance(p, ScatterAdd) or isinstance(inputs[0].primitive, InRange):
        return None
    positions, source = inputs
    return r.make(p, r.make(InRange(p.size, IN_SCATTER), positions), source)


def scatter_to_index(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Sorts the positions, once if all rows share them, and adds the sources of every target in that order."""
    if not isinstance(p, ScatterAdd):
        return None
    positions, source = inputs
    axis, n = p.axis, source.shape[p.axis]
    if hint(p.size) <= ALL_PLACES or hint(source.size * p.size) <= ALL_PAIRS:
        return None
    outer, inner = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
    shared = _one_row(positions, axis)
    if shared is not None:
        rows = r.reshape(shared, (1, n))
    else:
        split = r.reshape(positions, (outer, n, inner))
        rows = r.reshape(r.permute(split, (0, 2, 1)), (outer * inner, n))
    unsigned = r.cast(rows, uint32)  # negative positions wrap to numbers above every size
    inside = r.elementwise("Minimum", unsigned, p.size)
    index = sorted_rows(r, inside, False, p.size.bit_length())
    starts = r.make(SegmentStarts(p.size), index)
    total = r.make(SegmentSum(p.size), index, starts, r.reshape(source, (outer, n, inner)))
    return r.reshape(total, (*source.shape[:axis], p.size, *source.shape[axis + 1 :]))


def _one_row(positions: Node, axis: int) -> Node | None:
    """The positions along `axis`, if the graph shows that they are equal along all other axes: they are the operand of an Expand."""
    node = positions
    while isinstance(node.primitive, Expand):
        (node,) = node.inputs
    alone = node.ndim == positions.ndim and node.size == positions.shape[axis] == node.shape[axis]
    return node if alone else None


def scatter_to_sum(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """out[v] = sum over j of source[j] where positions[j] == v: every result gathers, so there are no races."""
    if not isinstance(p, ScatterAdd):
        return None
    positions, source = inputs
    axis = p.axis
    shape = (*source.shape[:axis], p.size, *source.shape[axis:])  # v before j

    def spread(x: Node, at: int) -> Node:
        return r.broadcast(r.reshape(x, (*x.shape[:at], 1, *x.shape[at:])), shape)

    counter = r.iota(p.size, r.device, positions.dtype)
    counter = r.broadcast(r.reshape(counter, tuple(n if a == axis else 1 for a, n in enumerate(shape))), shape)
    values = spread(source, axis)
    masked = r.where(r.equal(spread(positions, axis), counter), values, 0)
    total = r.sum(masked, (axis + 1,))
    return r.reshape(total, (*source.shape[:axis], p.size, *source.shape[axis + 1 :]))


def argsort_to_ranks(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The rank of an element is the number of those before it; position k holds the element of rank k.

    Two sums over all pairs of an axis: correct for any length, fast for up to some thousands.
    """
    if not isinstance(p, ArgSort):
        return None
    (x,) = inputs
    axis, size = p.axis, x.shape[p.axis]
    pairs = (*x.shape[:axis], size, size, *x.shape[axis + 1 :])  # axis of element i, then axis of the other element j

    def spread(node: Node, at: int) -> Node:
        shape = (*node.shape[:at], 1, *node.shape[at:])
        return r.broadcast(r.reshape(node, shape), pairs)

    def counter(at: int) -> Node:
        shape = tuple(size if a == at else 1 for a in range(len(pairs)))
        return r.broadcast(r.reshape(r.iota(size, r.device), shape), pairs)

    def before(a: Node, b: Node) -> Node:
        """Whether a sorts before b, regardless of positions; NaN is the largest."""
        low, high = (b, a) if p.descending else (a, b)
        less = r.less(low, high)
        if x.dtype.category != 2:
            return less
        only_high = r.both(r.elementwise("IsNan", high), r.inverted(r.elementwise("IsNan", low)))
        return r.either(less, only_high)

    own, other = spread(x, axis + 1), spread(x, axis)
    own_place, other_place = counter(axis), counter(axis + 1)
    tie = r.both(r.inverted(before(own, other)), r.less(other_place, own_place))
    first = r.either(before(other, own), tie)
    one = r.cast(first, int32)
    rank = r.reshape(r.sum(one, (axis + 1,)), x.shape)
    chosen = r.equal(spread(rank, axis), own_place)  # rank of j is position i
    place = r.where(chosen, other_place, 0)
    return r.reshape(r.sum(place, (axis + 1,)), x.shape)
