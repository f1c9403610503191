"""Rules for sorting and scattering: comparing all pairs where an axis is short, sorted runs where it is long."""

from __future__ import annotations

import math

from ..dtypes import int32, uint32
from ..graph.leaves import Alias, Iota
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.elementwise import And, Cast, Equal, IsNan, Less, Not, Or, Where
from ..primitives.indexing import ArgSort, ScatterAdd
from ..primitives.reduce import ReduceSum
from ..primitives.sorting import BLOCK, MergeRuns, SegmentSum, SortBlocks
from ..primitives.views import Expand, Permute, Reshape, Slice
from .rewrite import Inputs, Rewriter
from .simplify import filled

ALL_PAIRS = 1 << 20  # comparisons up to which a sort, or a scattered sum, is two plain kernels: fewer dispatches
ALL_PLACES = 8  # places up to which a scattered sum reads every source for every one


def sorted_rows(r: Rewriter, x: Node, descending: bool) -> Node:
    """Keys and positions, uint32 (2, rows, n), of the sorted rows of x (rows, n)."""
    runs = r.make(SortBlocks(descending), x)
    width = BLOCK
    while width < x.shape[1]:
        runs = r.make(MergeRuns(width), runs)
        width *= 2
    return runs


def argsort_to_merges(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Sorted blocks, merged two by two."""
    if not isinstance(p, ArgSort):
        return None
    (x,) = inputs
    n = x.shape[p.axis]
    if x.size * n <= ALL_PAIRS:
        return None
    last = (*(a for a in range(x.ndim) if a != p.axis), p.axis)
    moved = r.make(Permute(last), x)
    rows = sorted_rows(r, r.make(Reshape((x.size // n, n)), moved), p.descending)
    order = r.make(Cast(int32), r.make(Slice((1, 0, 0), (1, *rows.shape[1:]), (1, 1, 1)), rows))
    back = tuple(last.index(a) for a in range(x.ndim))
    return r.make(Permute(back), r.make(Reshape(moved.shape), order))


def scatter_to_index(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Sort the positions, once where all rows share them, and sum the sources of every place in that order."""
    if not isinstance(p, ScatterAdd):
        return None
    positions, source = inputs
    axis, n = p.axis, source.shape[p.axis]
    if p.size <= ALL_PLACES or source.size * p.size <= ALL_PAIRS:
        return None
    outer, inner = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
    shared = _one_row(positions, axis)
    if shared is not None:
        rows = r.make(Reshape((1, n)), shared)
    else:
        split = r.make(Reshape((outer, n, inner)), positions)
        rows = r.make(Reshape((outer * inner, n)), r.make(Permute((0, 2, 1)), split))
    unsigned = r.make(Cast(uint32), rows)  # negative ones wrap beyond every size
    index = sorted_rows(r, unsigned, False)
    total = r.make(SegmentSum(p.size), index, r.make(Reshape((outer, n, inner)), source))
    return r.make(Reshape((*source.shape[:axis], p.size, *source.shape[axis + 1 :])), total)


def _one_row(positions: Node, axis: int) -> Node | None:
    """The positions along `axis`, if they are the same along all other axes and the graph says so."""
    node = positions
    while isinstance(node.primitive, Expand):
        (node,) = node.inputs
    alone = node.ndim == positions.ndim and node.size == positions.shape[axis] == node.shape[axis]
    return node if alone else None


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
