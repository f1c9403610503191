"""Rules that make a graph smaller without changing its values. Each has its case in tests/null/test_simplify.py."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import DType, bool_, float32
from ..graph.leaves import Alias, Constant
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.elementwise import (
    Add,
    Cast,
    Div,
    Elementwise,
    Equal,
    Greater,
    GreaterEqual,
    IsNan,
    Less,
    LessEqual,
    Mul,
    Neg,
    NotEqual,
    Pow,
    Relu,
    Sqrt,
    Sub,
    Where,
)
from ..primitives.reduce import Reduce, ReduceProd, ReduceSum
from ..primitives.views import Cat, Expand, Flip, Pad, Permute, Reshape, Slice, View
from ..symbolic_sizes import varies
from .rewrite import Rewriter

Inputs = tuple[Node, ...]
COMPARISONS = (Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual)


def number_of(node: Node) -> bool | int | float | None:
    """The number in all elements of `node`, if it is a constant under views."""
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
    """An empty result is a constant, and a reduction of nothing is its identity element."""
    if not inputs or isinstance(p, (Expand, Reshape)):
        return None
    value = _value_of_nothing(p, inputs)
    return None if value is None else filled(r, value, p, inputs)


def _value_of_nothing(p: Primitive, inputs: Inputs) -> bool | int | float | None:
    """The number that fills a result without elements, or a reduction of none; None if there is something to compute."""
    shape, dtype = p.infer(*inputs)
    if 0 in shape:
        return 0
    if all(i.size for i in (inputs if p.kind == "dot" else inputs[:1])):
        return None
    if isinstance(p, Reduce):
        return p.identity(dtype)
    if isinstance(p, Pad):
        return p.value
    return 0 if p.kind in ("dot", "index") else None


def cat_without_empties(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    full = tuple(i for i in inputs if i.size)
    return r.make(p, *full) if isinstance(p, Cat) and 0 < len(full) < len(inputs) else None


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
        result = p.numpy(*(i.dtype.holding(v) for v, i in zip(values, inputs, strict=True)))
    return r.constant(dtype.numpy.type(result).item(), dtype, r.device, shape)


def reduce_constants(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A sum of equal numbers becomes a multiplication, their product a power, their extremum the number."""
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
    if isinstance(p, ReduceSum):
        value = _wrapped(value * count, x.dtype)
    elif isinstance(p, ReduceProd):
        value = _power(value, count, x.dtype)
    return filled(r, value, p, inputs)


def _wrapped(value: float, dtype: DType) -> float:
    """A number as its dtype represents it; integers wrap."""
    if dtype.category == 2:
        return dtype.numpy.type(value).item()
    low, high = dtype.range
    return (int(value) - low) % (high - low + 1) + low


def _power(value: float, count: int, dtype: DType) -> float:
    """The product of `count` equal numbers."""
    if dtype.category == 1:
        low, high = dtype.range
        return _wrapped(pow(int(value), count, high - low + 1), dtype)
    with np.errstate(over="ignore", under="ignore"):
        return (dtype.numpy.type(value) ** count).item()


def sum_of_repeats(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A sum over axes along which an operand is only repeated becomes a multiplication."""
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
    return r.mul(total, _wrapped(count, x.dtype))


def cast_to_its_own_dtype(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    return inputs[0] if isinstance(p, Cast) and p.infer(*inputs)[1] is inputs[0].dtype else None


def halves_cast_back(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A cast to float32 and back."""
    if not isinstance(p, Cast) or not p.dtype.is_half or not isinstance(inputs[0].primitive, Cast):
        return None
    wide = inputs[0]
    (half,) = wide.inputs
    return half if wide.dtype is float32 and half.dtype is p.dtype else None


def relu_of_halves(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """relu of a half is a half, so the result is kept in 16 bits for all readers, such as the gradient."""
    if not isinstance(p, Relu) or not isinstance(inputs[0].primitive, Cast):
        return None
    (half,) = inputs[0].inputs
    return r.cast(r.cast(r.plain(p, *inputs), half.dtype), float32) if half.dtype.is_half else None


def double_negation(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    return inputs[0].inputs[0] if isinstance(p, Neg) and isinstance(inputs[0].primitive, Neg) else None


def known_condition(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    condition = number_of(inputs[0]) if isinstance(p, Where) else None
    return None if condition is None else inputs[1 if condition else 2]


def compared_with_itself(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """x == x, x <= x and x >= x are false for NaN alone, x != x is true for NaN alone: drivers simplify them to true and false."""
    if not isinstance(p, COMPARISONS) or inputs[0] is not inputs[1] or inputs[0].dtype.category != 2:
        return None
    if isinstance(p, (Less, Greater)):
        return filled(r, False, p, inputs)
    is_nan = r.make(IsNan(), inputs[0])
    return is_nan if isinstance(p, NotEqual) else r.inverted(is_nan)


def neutral_operands(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """x - 0, x * 1, x / 1 and 1 * x are x; so are x + 0 and 0 + x of integers, while of floats -0.0 + 0.0 is 0.0."""
    if not isinstance(p, (Add, Sub, Mul, Div)) or inputs[0].dtype is bool_:
        return None
    a, b = inputs
    neutral = 1.0 if isinstance(p, (Mul, Div)) else -0.0 if isinstance(p, Add) else 0.0
    if _is_number(b, neutral):
        return a
    return b if isinstance(p, (Add, Mul)) and _is_number(a, neutral) else None


def sums_with_zero(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """x + 0.0 and x - -0.0 of floats are x, but 0.0 if x is -0.0. The case is written out, because drivers simplify the sum to x."""
    if not isinstance(p, (Add, Sub)) or inputs[0].dtype.category != 2:
        return None
    a, b = inputs
    if _is_number(b, 0.0 if isinstance(p, Add) else -0.0):
        return r.where(r.equal(a, 0.0), 0.0, a)
    return r.where(r.equal(b, 0.0), 0.0, b) if isinstance(p, Add) and _is_number(a, 0.0) else None


def _is_number(node: Node, wanted: float) -> bool:
    """Whether all elements of a node are that number; a floating zero with its sign."""
    value = number_of(node)
    if value is None or value != wanted:
        return False
    return node.dtype.category == 1 or math.copysign(1.0, value) == math.copysign(1.0, wanted)


def division_by_powers_of_two(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A multiplication by the reciprocal, which is exact."""
    divisor = number_of(inputs[1]) if isinstance(p, Div) and inputs[0].dtype is not bool_ else None
    if divisor is None or varies(divisor) or not _exact_reciprocal(divisor):
        return None
    return r.mul(inputs[0], 1.0 / divisor)


def sum_of_counts(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """(n + 1) + 1 is n + 2, in integers, wrapping as they do: counters."""
    if not isinstance(p, Add) or not isinstance(inputs[0].primitive, Add) or inputs[0].dtype.category != 1:
        return None
    a, b = inputs
    inner, outer = number_of(a.inputs[1]), number_of(b)
    if inner is None or outer is None:
        return None
    with np.errstate(over="ignore"):
        total = (np.asarray(inner, a.dtype.numpy) + np.asarray(outer, a.dtype.numpy)).item()
    return r.add(a.inputs[0], total)


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


def compose_permutations(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Two permutations become one; one that moves nothing, or only axes of size 1, is removed."""
    if not isinstance(p, Permute):
        return None
    (x,) = inputs
    if p.axes == tuple(range(x.ndim)):
        return x
    if isinstance(x.primitive, Permute):
        return r.permute(x.inputs[0], tuple(x.primitive.axes[a] for a in p.axes))
    moved = [a for a in p.axes if x.shape[a] != 1]
    return r.reshape(x, p.infer(x)[0]) if moved == sorted(moved) else None


def compose_shapes(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Of two reshapes, or two expansions, only the last counts; one to the same shape is removed."""
    if not isinstance(p, (Reshape, Expand)):
        return None
    (x,) = inputs
    if p.infer(x)[0] == x.shape:
        return x
    return r.make(p, x.inputs[0]) if type(p) is type(x.primitive) else None


def slice_of_padding(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A slice of a padded array that contains no padding is a slice of the array."""
    (x, *_) = inputs or (None,)
    if not isinstance(p, Slice) or x is None or not isinstance(x.primitive, Pad) or any(x.primitive.interior):
        return None
    (source,) = x.inputs
    starts = tuple(a - low for a, low in zip(p.starts, x.primitive.low, strict=True))
    ends = (a + (n - 1) * k for a, n, k in zip(starts, p.sizes, p.steps, strict=True))
    if min(starts, default=0) < 0 or any(end >= n for end, n in zip(ends, source.shape, strict=True)):
        return None
    whole = p.sizes == source.shape and all(k == 1 for k, n in zip(p.steps, p.sizes, strict=True) if n > 1)
    return source if whole else r.make(Slice(starts, p.sizes, p.steps), source)


def sum_of_parts(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Adjacent parts of one array, each padded with zeros to its own position, add up to a larger part: the gradients
    of a split. All of them add up to the array.
    """
    if not isinstance(p, Add):
        return None
    a, b = (_place_of_part(x) for x in inputs)
    if a is None or b is None or a[0] is not b[0]:
        return None
    source, starts, ends = a
    apart = [k for k in range(source.ndim) if (starts[k], ends[k]) != (b[1][k], b[2][k])]
    if len(apart) != 1:
        return None
    (axis,) = apart
    (low, middle), (again, high) = sorted(((starts[axis], ends[axis]), (b[1][axis], b[2][axis])))
    if middle != again:
        return None
    starts, ends = (
        tuple(v if k == axis else old[k] for k in range(source.ndim)) for v, old in ((low, starts), (high, ends))
    )
    sizes = tuple(e - a for a, e in zip(starts, ends, strict=True))
    if sizes == source.shape:
        return source
    part = r.make(Slice(starts, sizes, (1,) * source.ndim), source)
    after = tuple(n - e for n, e in zip(source.shape, ends, strict=True))
    return r.make(Pad(starts, after, (0,) * source.ndim, 0.0), part)


def _place_of_part(x: Node) -> tuple[Node, tuple[int, ...], tuple[int, ...]] | None:
    """(array, starts, ends) of a part that is padded with zeros to its position in the array."""
    pad = x.primitive
    if not isinstance(pad, Pad) or pad.value != 0 or any(pad.interior):
        return None
    (part,) = x.inputs
    cut = part.primitive
    if not isinstance(cut, Slice) or any(k != 1 for k in cut.steps):
        return None
    (source,) = part.inputs
    if source.shape != x.shape or cut.starts != pad.low:
        return None
    return source, cut.starts, tuple(a + n for a, n in zip(cut.starts, cut.sizes, strict=True))


RULES = (
    look_through_aliases,
    empty_results,
    cat_without_empties,
    fold_constants,
    reduce_constants,
    sum_of_repeats,
    cast_to_its_own_dtype,
    halves_cast_back,
    relu_of_halves,
    double_negation,
    known_condition,
    compared_with_itself,
    neutral_operands,
    sums_with_zero,
    division_by_powers_of_two,
    sum_of_counts,
    small_powers,
    compose_permutations,
    compose_shapes,
    slice_of_padding,
    sum_of_parts,
)
