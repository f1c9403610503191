"""Bounds of integers that follow from how they are computed: counted, drawn by randint, sorted, remainders. No value is read.

In: a node of integers. Out: the least and the largest value that it may have, or None. Positions that are inside an axis for every value
need no check (positions.py), so a program that indexes by them is not interrupted to compute them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from .. import symbolic_sizes
from ..graph.leaves import Constant, Iota
from ..graph.node import Node, mode
from ..primitives import elementwise as e
from ..primitives.indexing import ArgSort, InRange

Bounds = tuple[int, int]
DEEPEST = 4  # nested sums and casts


class _Sizes(threading.local):
    """vary: whether recorded operations are compared with those of other sizes."""

    vary = False


_sizes = _Sizes()


@contextmanager
def of_any_size() -> Iterator[None]:
    """A context in which no bounds follow from sizes, so that a function records the same operations for all sizes."""
    _sizes.vary, before = True, _sizes.vary
    try:
        yield
    finally:
        _sizes.vary = before


def bounds_of(node: Node) -> Bounds | None:
    """The least and the largest value of a node of integers; None if the operations do not determine them, or sizes vary from call to call.

    While operations are recorded to be repeated, earlier operations do not count: they may differ next time.
    """
    return _bounds(node, None if mode.made is None else {id(n) for n in mode.made}, 0)


def _bounds(node: Node, own: Collection[int] | None, depth: int) -> Bounds | None:
    """The same. own: ids of the only nodes whose operations count, if not all do."""
    while own is None or id(node) in own:
        primitive = node.primitive
        if primitive.kind not in ("view", "alias") or len(node.inputs) != 1:
            break
        (node,) = node.inputs
    else:
        return None
    if isinstance(primitive, InRange):
        return primitive.low, primitive.size - 1
    if isinstance(primitive, ArgSort):
        return 0, node.shape[primitive.axis] - 1
    if symbolic_sizes.follows or _sizes.vary or node.dtype.category != 1 or depth == DEEPEST:
        return None
    if isinstance(primitive, Constant):
        return int(primitive.value), int(primitive.value)
    if isinstance(primitive, Iota):
        return 0, primitive.size - 1
    found = None
    if isinstance(primitive, e.Cast):
        found = _bounds(node.inputs[0], own, depth + 1)
    elif isinstance(primitive, e.Add):
        a, b = (_bounds(operand, own, depth + 1) for operand in node.inputs)
        found = None if a is None or b is None else (a[0] + b[0], a[1] + b[1])
    elif isinstance(primitive, e.Sub):
        found = _of_remainder(node, own)
    least, most = node.dtype.range
    return found if found is not None and least <= found[0] and found[1] <= most else None


def _of_remainder(node: Node, own: Collection[int] | None) -> Bounds | None:
    """Bounds of a - (a // c) * c for a number c above 0, as randint and `%` compute it."""
    whole, multiple = node.inputs
    if not isinstance(multiple.primitive, e.Mul):
        return None
    quotient, divisor = multiple.inputs
    if not isinstance(quotient.primitive, e.FloorDiv) or quotient.inputs[0] is not whole:
        return None
    found, again = (_bounds(n, own, DEEPEST - 1) for n in (quotient.inputs[1], divisor))
    if found is None or found != again or found[0] != found[1] or found[0] < 1:
        return None
    return 0, found[0] - 1
