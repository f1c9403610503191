"""The rules of compile/simplify.py and lower.py that also preserve the bits of a value, in every graph. In: rules. Out: rules.

The same operation may run alone, in an uncaptured loop or in a captured step, and the rules see a different graph each time. So a rule that
changes a rounding is left out, or restricted to the cases in which it does not. The sign of zero is one of these bits.
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
    """Does not fold functions: kernels compute them, and NumPy's results differ in the last bits."""
    return None if type(p) in OF_SINGLE else simplify.fold_constants(r, p, inputs)


def reduce_constants(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Folds only sums of equal float32 numbers, which are exact in float64. Products and float64 sums are rounded at each step."""
    found = simplify.reduce_constants(r, p, inputs)
    if found is None or inputs[0].dtype.category != 2:
        return found
    if inputs[0].size == found.size or not isinstance(p, ReduceSum | ReduceProd):
        return found
    value = simplify.number_of(inputs[0])
    return found if isinstance(p, ReduceSum) and inputs[0].dtype is float32 and value else None


def sum_of_repeats(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Applies only if all added elements are repeats: then the sum is exact before it is rounded."""
    if not isinstance(p, ReduceSum):
        return None
    found, (x,) = simplify.sum_of_repeats(r, p, inputs), inputs
    if found is None or x.dtype.category != 2:
        return found
    source = x.inputs[0]
    if x.dtype is not float32 or x.size // source.size > EXACT or any(source.shape[a] > 1 for a in p.axes):
        return None
    return _with_zero(r, found)  # a sum starts at 0.0, so that -0.0 becomes 0.0


def sum_of_parts(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Adds 0.0, as the sum does, so that a part of -0.0 becomes 0.0."""
    found = simplify.sum_of_parts(r, p, inputs)
    if found is None or found.dtype.category != 2:
        return found
    return _with_zero(r, found)


def fold_to_views(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Applies only to windows that do not overlap, and adds 0.0 to each element. The interpreter sums overlapping ones in its own order."""
    found = lower.fold_to_views(r, p, inputs)
    return found if found is None or found.dtype.category != 2 else _with_zero(r, found)


def _with_zero(r: Rewriter, x: Node) -> Node:
    """x with 0.0 in place of -0.0."""
    return r.add(x, 0.0)


_REPLACED = {
    simplify.fold_constants: fold_constants,
    simplify.reduce_constants: reduce_constants,
    simplify.sum_of_repeats: sum_of_repeats,
    simplify.sum_of_parts: sum_of_parts,
}
RULES = (fold_to_views, *(_REPLACED.get(rule, rule) for rule in simplify.RULES))
