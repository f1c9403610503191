"""The rules of compile/simplify.py and lower.py that keep the bits of a value as well, whatever graph it is part of. In: rules. Out: rules.

An operation may run by itself, in a loop that is not captured or in a captured step, each of which shows the rules another part of a
graph. So a rule that gives another rounding is left out, or is used where it gives the same. Signs of zero are bits, too.
"""

from __future__ import annotations

from ...dtypes import float32
from ...graph.node import Node
from ...graph.primitive import Primitive
from ...primitives.reduce import ReduceProd, ReduceSum
from .. import lower, simplify
from ..rewrite import Inputs, Rewriter
from .rules import OF_SINGLE

EXACT = 1 << 24  # float32 holds every whole number up to it


def fold_constants(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Functions are computed by kernels: NumPy's have other last bits."""
    return None if type(p) in OF_SINGLE else simplify.fold_constants(r, p, inputs)


def reduce_constants(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The sum of equal numbers of float32 is exact in float64; products, and sums of float64, are rounded with each number."""
    found = simplify.reduce_constants(r, p, inputs)
    if found is None or inputs[0].dtype.category != 2:
        return found
    if inputs[0].size == found.size or not isinstance(p, ReduceSum | ReduceProd):
        return found
    value = simplify.number_of(inputs[0])
    return found if isinstance(p, ReduceSum) and inputs[0].dtype is float32 and value else None


def sum_of_repeats(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Where nothing but repeats is added, the sum is exact before it is rounded."""
    if not isinstance(p, ReduceSum):
        return None
    found, (x,) = simplify.sum_of_repeats(r, p, inputs), inputs
    if found is None or x.dtype.category != 2:
        return found
    source = x.inputs[0]
    if x.dtype is not float32 or x.size // source.size > EXACT or any(source.shape[a] > 1 for a in p.axes):
        return None
    return _with_zero(r, found)  # as sums begin


def sum_of_parts(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A part of -0.0 was added to 0.0."""
    found = simplify.sum_of_parts(r, p, inputs)
    if found is None or found.dtype.category != 2:
        return found
    return _with_zero(r, found)


def fold_to_views(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Of windows that do not overlap each element was added to 0.0. Others are added in the interpreter's order, by it."""
    found = lower.fold_to_views(r, p, inputs)
    return found if found is None or found.dtype.category != 2 else _with_zero(r, found)


def _with_zero(r: Rewriter, x: Node) -> Node:
    """0.0 for -0.0."""
    return r.add(x, 0.0)


_REPLACED = {
    simplify.fold_constants: fold_constants,
    simplify.reduce_constants: reduce_constants,
    simplify.sum_of_repeats: sum_of_repeats,
    simplify.sum_of_parts: sum_of_parts,
}
RULES = (fold_to_views, *(_REPLACED.get(rule, rule) for rule in simplify.RULES))
