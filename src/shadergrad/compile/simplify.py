"""Rules that make a graph smaller without changing its values. Each has its case in tests/null/test_simplify.py."""

from __future__ import annotations

import numpy as np

from ..dtypes import bool_
from ..graph.leaves import Alias, Constant
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.elementwise import Add, Cast, Div, Elementwise, Mul, Neg, Pow, Sqrt, Sub, Where
from ..primitives.reduce import Reduce, ReduceSum
from ..primitives.views import Cat, Expand, Flip, Pad, Permute, Reshape, Slice, View
from .rewrite import Rewriter

Inputs = tuple[Node, ...]


def number_of(node: Node) -> bool | int | float | None:
    """The number that fills `node`, if it is a constant under views."""
    while isinstance(node.primitive, (Expand, Reshape)):
        node = node.inputs[0]
    return node.primitive.value if isinstance(node.primitive, Constant) else None


def filled(r: Rewriter, value: bool | int | float, like: Primitive, inputs: Inputs) -> Node:
    """A constant of the shape and dtype that `like(*inputs)` has."""
    shape, dtype = like.infer(*inputs)
    return r.constant(value, dtype, r.device, shape)


def look_through_aliases(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    return inputs[0] if isinstance(p, Alias) else None


def empty_results(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Nothing is computed for no elements, and a reduction of none is its identity."""
    if not inputs or isinstance(p, (Expand, Reshape)):
        return None
    shape, dtype = p.infer(*inputs)
    if 0 in shape:
        return filled(r, 0, p, inputs)
    if isinstance(p, Reduce) and inputs[0].size == 0:
        return filled(r, p.identity(dtype), p, inputs)
    if isinstance(p, Pad) and inputs[0].size == 0:
        return filled(r, p.value, p, inputs)
    if isinstance(p, Cat):
        full = tuple(i for i in inputs if i.size)
        return None if len(full) == len(inputs) else r.make(p, *full)
    if inputs[0].size == 0 and p.kind in ("dot", "index"):
        return filled(r, 0, p, inputs)
    if p.kind == "dot" and inputs[1].size == 0:
        return filled(r, 0, p, inputs)
    return None


def fold_constants(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    if not isinstance(p, Elementwise) and not isinstance(p, (Permute, Slice, Flip)):
        return None
    values = [number_of(i) for i in inputs]
    if values[0] is None or None in values:
        return None
    if isinstance(p, View):
        return filled(r, values[0], p, inputs)
    shape, dtype = p.infer(*inputs)
    with np.errstate(all="ignore"):
        result = p.numpy(*(np.asarray(v, i.dtype.numpy) for v, i in zip(values, inputs, strict=True)))
    return r.constant(dtype.numpy.type(result).item(), dtype, r.device, shape)


def reduce_constants(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The sum of equal numbers is a product, the extremum is the number."""
    if not isinstance(p, Reduce):
        return None
    (x,) = inputs
    count = int(np.prod([x.shape[a] for a in p.axes]))
    shape, _ = p.infer(x)
    if count == 1:
        return r.reshape(x, shape)
    value = number_of(x)
    if value is None:
        return None
    return filled(r, x.dtype.numpy.type(value * count).item() if isinstance(p, ReduceSum) else value, p, inputs)


def sum_of_repeats(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The sum over axes along which an operand only repeats is a product."""
    if not isinstance(p, ReduceSum) or not isinstance(inputs[0].primitive, Expand):
        return None
    (x,) = inputs
    source = x.inputs[0]
    repeated = tuple(a for a in p.axes if source.shape[a] == 1 and x.shape[a] > 1)
    if not repeated:
        return None
    count = int(np.prod([x.shape[a] for a in repeated]))
    kept = tuple(1 if a in repeated else n for a, n in enumerate(x.shape))
    rest = tuple(a for a in p.axes if a not in repeated)
    smaller = r.broadcast(source, kept)
    total = r.sum(smaller, rest) if rest else smaller
    return r.mul(total, count)


def arithmetic_identities(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    if isinstance(p, Cast) and p.infer(*inputs)[1] is inputs[0].dtype:
        return inputs[0]
    if isinstance(p, Neg) and isinstance(inputs[0].primitive, Neg):
        return inputs[0].inputs[0]
    if isinstance(p, Where):
        condition = number_of(inputs[0])
        return None if condition is None else inputs[1 if condition else 2]
    if not isinstance(p, (Add, Sub, Mul, Div)) or inputs[0].dtype is bool_:
        return None
    a, b = inputs
    left, right = number_of(a), number_of(b)
    neutral = 0 if isinstance(p, (Add, Sub)) else 1
    if right is not None and right == neutral:
        return a
    if left is not None and left == neutral and isinstance(p, (Add, Mul)):
        return b
    if isinstance(p, Div) and right is not None and _exact_reciprocal(right):
        return r.mul(a, 1.0 / right)
    if isinstance(p, Add) and isinstance(a.primitive, Add) and right is not None and a.dtype.category == 1:
        inner = number_of(a.inputs[1])
        if inner is not None:  # counters: (n + 1) + 1
            with np.errstate(over="ignore"):
                total = (np.asarray(inner, a.dtype.numpy) + np.asarray(right, a.dtype.numpy)).item()
            return r.add(a.inputs[0], total)
    return None


def _exact_reciprocal(value: float) -> bool:
    return value != 0 and np.frexp(value)[0] in (0.5, -0.5) and abs(value) < 2.0**100


def small_powers(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    if not isinstance(p, Pow) or inputs[0].dtype.category != 2:
        return None
    base, exponent = inputs[0], number_of(inputs[1])
    if exponent == 1:
        return base
    if exponent == 2:
        return r.mul(base, base)
    if exponent == 3:
        return r.mul(r.mul(base, base), base)
    if exponent == 0.5:
        return r.make(Sqrt(), base)
    if exponent == -1:
        return r.div(1.0, base)
    return None


def compose_views(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    if not isinstance(p, (Reshape, Permute, Expand)):
        return None
    (x,) = inputs
    shape, _ = p.infer(x)
    if isinstance(p, (Reshape, Expand)) and shape == x.shape:
        return x
    if isinstance(p, Permute):
        if p.axes == tuple(range(x.ndim)):
            return x
        if isinstance(x.primitive, Permute):
            return r.permute(x.inputs[0], tuple(x.primitive.axes[a] for a in p.axes))
        moved = [a for a in p.axes if x.shape[a] != 1]
        if moved == sorted(moved):  # only axes of size 1 move
            return r.reshape(x, shape)
    if isinstance(p, (Reshape, Expand)) and type(p) is type(x.primitive):
        return r.make(p, x.inputs[0])
    return None


RULES = (
    look_through_aliases,
    empty_results,
    fold_constants,
    reduce_constants,
    sum_of_repeats,
    arithmetic_identities,
    small_powers,
    compose_views,
)
