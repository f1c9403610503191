"""The rule for tests of many arrays for infinities and NaN, as a GradScaler makes them of all gradients: a few kernels test all arrays.

In: the maximum of flags, each of which is 1 if an array holds an infinity or NaN, and the maximum of such maxima. Out: the same over
calls of primitives/nonfinite.py, each of as many arrays as a kernel may bind. Separate tests would take two dispatches per array.
"""

from __future__ import annotations

from ..dtypes import float32
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.elementwise import Cast, IsFinite, Maximum, Not
from ..primitives.nonfinite import EXPONENT, NonFinite
from ..primitives.reduce import ReduceMax
from ..primitives.views import Flip, Pad, Permute, Reshape
from ..symbolic_sizes import varies
from .rewrite import Inputs, Rewriter


def tests_together(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The maximum of two flags, or of a maximum with a flag and another flag, if one kernel may bind the arrays of both."""
    if not isinstance(p, Maximum) or inputs[0].dtype is not float32 or inputs[0].size != 1:
        return None
    first, second = inputs
    tested = arrays_of(second)
    if tested is None:
        return None
    before = arrays_of(first)
    if before is not None:
        return _flag(r, (*before, *tested), second)
    if not isinstance(first.primitive, Maximum):
        return None
    earlier, last = first.inputs
    before = arrays_of(last)
    together = None if before is None else _flag(r, (*before, *tested), second)
    return None if together is None else r.make(p, earlier, together)


def _flag(r: Rewriter, arrays: tuple[Node, ...], like: Node) -> Node | None:
    """The flag of arrays; None if they are too many for a kernel."""
    different = tuple({id(x): x for x in arrays}.values())
    if len(different) + 1 + r.target.checked > r.target.max_storage_buffers:  # the result; a checked kernel's faults
        return None
    flags = r.make(NonFinite(len(different)), *different)
    return r.reshape(r.make(ReduceMax((0,)), flags), like.shape)


def arrays_of(flag: Node) -> tuple[Node, ...] | None:
    """The arrays that a flag tests: it is 1 if one of them holds an infinity or NaN, else 0. None if the node is no such flag."""
    node, reduced, cast = flag, False, False
    while not isinstance(node.primitive, Not | NonFinite):
        p = node.primitive
        if isinstance(p, ReduceMax):
            reduced, cast = True, False
        elif isinstance(p, Cast) and p.dtype.category < 3:
            cast = True
        elif isinstance(p, Pad):  # of a reduction in parts
            if not reduced or cast or not p.value < 0:
                return None
        elif not isinstance(p, Reshape | Permute):
            return None
        (node,) = node.inputs
    if flag.size != 1 or not reduced:
        return None
    if isinstance(node.primitive, NonFinite):
        return node.inputs
    (test,) = node.inputs
    if not isinstance(test.primitive, IsFinite):
        return None
    (x,) = test.inputs
    while isinstance(x.primitive, Reshape | Permute | Flip) or _widens(x):
        (x,) = x.inputs
    if x.primitive.kind == "view":  # a call would need a copy of a part of an array
        return None
    return (x,) if x.dtype in EXPONENT and x.size and not any(map(varies, x.shape)) else None


def _widens(node: Node) -> bool:
    """Whether a node is a cast of halves to float32: a half that is finite stays so."""
    return isinstance(node.primitive, Cast) and node.dtype is float32 and node.inputs[0].dtype.is_half


RULES = (tests_together,)
