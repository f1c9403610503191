"""The table ELEMENT: for each primitive a rule that gives one element of a node from elements of its inputs.

A rule is written over a `Puller` (puller.py), so that one rule serves WGSL, LLVM IR and the recorder of reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from ..dtypes import DType, float32, int32
from ..errors import CompileError
from ..graph.index import Index, flatten, number
from ..graph.leaves import Constant, Iota
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.elementwise import Add, And, Cast, Elementwise, Mul, ShiftRight, Sub
from ..primitives.indexing import Gather, InRange
from ..primitives.quantized import Dequantize
from ..primitives.random import Threefry
from ..primitives.views import Cat, Pad, PadAt, Places, SliceAt, View
from ..primitives.window import Unwindow
from ..symbolic_sizes import divides
from .puller import LANE, LANES, Indices, Puller, lane_variable

Sparse = Sequence[tuple[Index, int, int]]


def _constant(w: Puller, p: Constant, node: Node, index: Indices) -> str:
    return w.literal(p.value, p.dtype)


def _iota(w: Puller, p: Iota, node: Node, index: Indices) -> str:
    return w.index_value(index[0])


def _elementwise(w: Puller, p: Elementwise, node: Node, index: Indices) -> str:
    if not node.inputs[0].dtype.is_half:  # the load converts halves, at no extra cost
        w.count(p.cost)
    return w.apply(p, node, [w.pull(source, index) for source in node.inputs])


def _view(w: Puller, p: View, node: Node, index: Indices) -> str:
    (source,) = node.inputs
    return w.pull(source, p.source_index(index, source.shape))


def _pad(w: Puller, p: Pad, node: Node, index: Indices) -> str:
    sizes = node.inputs[0].shape
    places = [(i - low, k + 1, n) for i, low, k, n in zip(index, p.low, p.interior, sizes, strict=True)]
    return _sparse(w, node, index, places, lambda: w.literal(p.value, node.dtype))


def _offsets(w: Puller, places: Places, given: Iterable[Node], highest: Sequence[int]) -> list[Index]:
    """The offset along each axis: a number, or, where it is None, an operand. `highest`: the largest offsets with which the slice fits."""
    rest = iter(given)
    return [
        w.offset(w.pull(next(rest), ()), high) if place is None else number(place)
        for place, high in zip(places, highest, strict=True)
    ]


def _slice_at(w: Puller, p: SliceAt, node: Node, index: Indices) -> str:
    source, *given = node.inputs
    highest = [n - (size - 1) * step - 1 for n, size, step in zip(source.shape, p.sizes, p.steps, strict=True)]
    starts = _offsets(w, p.starts, given, highest)
    return w.pull(source, tuple(i * step + start for i, step, start in zip(index, p.steps, starts, strict=True)))


def _pad_at(w: Puller, p: PadAt, node: Node, index: Indices) -> str:
    source, fill, *given = node.inputs
    highest = [size - (n - 1) * (k + 1) - 1 for size, n, k in zip(p.sizes, source.shape, p.interior, strict=True)]
    low = _offsets(w, p.low, given, highest)
    places = [(i - a, k + 1, n) for i, a, k, n in zip(index, low, p.interior, source.shape, strict=True)]
    return _sparse(w, node, index, places, lambda: w.pull(fill, ()))


def _unwindow(w: Puller, p: Unwindow, node: Node, index: Indices) -> str:
    (source,) = node.inputs
    rank = source.ndim - len(p.axes)
    places = [(i, 1, n) for i, n in zip(index, source.shape, strict=True)]
    for axis, k, step, dilation in zip(p.axes, index[rank:], p.steps, p.dilations, strict=True):
        places[axis] = (index[axis] - k * dilation, step, source.shape[axis])
    return _sparse(w, node, index, places, lambda: w.literal(0, node.dtype))


def _sparse(w: Puller, node: Node, index: Indices, places: Sparse, fill: Callable[[], str]) -> str:
    """An element of the input of `node`. `places` has (i, by, n) for each axis: the position is i / by if i is a multiple of `by` and i / by
    lies within n elements. Elsewhere the element is `fill`."""
    quads = [_quad(*place) for place in places]
    if w.depends_on_lane(
        i for (i, by, n), quad in zip(places, quads, strict=True) if quad is None and needs_check(i, by, n)
    ):
        return w.lane_by_lane(node, index)
    w.count(1)
    conditions: list[str] = []
    inside: list[Index] = []
    for (i, by, n), quad in zip(places, quads, strict=True):
        if quad is None:
            position, condition = w.inside(i, by, n)
        else:
            at, condition = w.inside(quad, 1, n // LANES)
            position = at * LANES + lane_variable()
        inside.append(position)
        if condition is not None:
            conditions.append(condition)
    source = node.inputs[0]
    if not conditions:
        return w.pull(source, tuple(inside))
    return w.guarded(conditions, lambda: w.pull(source, tuple(inside)), fill, node.dtype)


def _quad(i: Index, by: int, n: int) -> Index | None:
    """The number of the group of four neighbours (quad) that i addresses, if a bounds check holds for all four or for none; else None."""
    return _number_of_quad(i) if by == 1 and needs_check(i, by, n) and divides(LANES, n) else None


def _number_of_quad(i: Index) -> Index | None:
    """q, if i is 4 q + lane; else None."""
    split = i.split(LANE) if LANE in i.variables() else None
    return split[0] // LANES if split is not None and split[1] == 1 and split[0].divisible(LANES) else None


def needs_check(i: Index, by: int, n: int) -> bool:
    return i.low < 0 or i.high >= (n - 1) * by + 1 or by > 1


def _cat(w: Puller, p: Cat, node: Node, index: Indices) -> str:
    axis, i = p.axis, index[p.axis]
    quad = _number_of_quad(i) if all(divides(LANES, s.shape[axis]) for s in node.inputs) else None
    if quad is None and w.depends_on_lane([i]):
        return w.lane_by_lane(node, index)
    if quad is not None:  # four neighbours belong to one input
        i = quad
    unit = 1 if quad is None else LANES
    w.count(len(node.inputs) - 1)
    end = sum(s.shape[axis] for s in node.inputs) // unit
    result: str | None = None
    for source in reversed(node.inputs):
        size = source.shape[axis] // unit
        start = end - size
        if i.low < end and i.high >= start and start != end:
            position, _ = w.inside(i - start, 1, size)
            if quad is not None:
                position = position * LANES + lane_variable()
            value = w.pull(source, (*index[:axis], position, *index[axis + 1 :]))
            result = value if result is None else w.choose([w.below(i, end)], value, result, node.dtype)
        end = start
    assert result is not None
    return result


def _gather(w: Puller, p: Gather, node: Node, index: Indices) -> str:
    x, positions = node.inputs
    position = w.pull(positions, index)
    if w.is_vector(position):
        return w.lane_by_lane(node, index)
    w.count(1)
    inside, condition = w.position(position, x.shape[p.axis])
    value = w.pull(x, (*index[: p.axis], inside, *index[p.axis + 1 :]))
    return w.choose([condition], value, w.literal(0, node.dtype), node.dtype)


def _in_range(w: Puller, p: InRange, node: Node, index: Indices) -> str:
    position = w.pull(node.inputs[0], index)
    # not lane_by_lane: if the value comes from a product's tile, its index has no lane variable
    for part in (f"{position}.{c}" for c in "xyzw") if w.is_vector(position) else (position,):
        w.report(p.fault, part, p.size, p.low)
    return position


def _threefry(w: Puller, p: Threefry, node: Node, index: Indices) -> str:
    if w.depends_on_lane(index):
        return w.lane_by_lane(node, index)
    w.count(p.cost)
    key, x0, x1 = node.inputs
    which, place = (None, index) if p.joined else (index[0], index[1:])
    words = [w.pull(key, (number(0),)), w.pull(key, (number(1),)), w.pull(x0, place), w.pull(x1, place)]
    return w.random_word(words, which)


@cache
def _of_types(primitive: Elementwise, dtype: DType) -> Node:
    """A stand-in node with a dtype of operands, from which `apply` reads the types."""
    operand = Node(Constant(0, dtype), (), (), dtype, "")
    shape, result = primitive.infer(*[operand] * primitive.arity)
    return Node(primitive, (operand,) * primitive.arity, shape, result, "")


def _dequantize(w: Puller, p: Dequantize, node: Node, index: Indices) -> str:
    def apply(primitive: Elementwise, dtype: DType, *values: str) -> str:
        return w.apply(primitive, _of_types(primitive, dtype), list(values))

    words, scales, *offsets = node.inputs
    *head, i = index
    w.count(p.cost)
    w.note_packed(flatten(index, node.shape))
    group = (*head, i // (node.shape[-1] // scales.shape[-1]))
    bits = apply(ShiftRight(), int32, w.pull(words, (*head, i // p.codes)), w.index_value(i % p.codes * p.bits))
    code = apply(Cast(float32), int32, apply(And(), int32, bits, w.literal((1 << p.bits) - 1, int32)))
    if not offsets:
        return apply(Mul(), float32, apply(Sub(), float32, code, w.literal(p.zero, float32)), w.pull(scales, group))
    return apply(Add(), float32, apply(Mul(), float32, code, w.pull(scales, group)), w.pull(offsets[0], group))


ELEMENT: dict[type[Primitive], Callable[[Any, Any, Node, Indices], str]] = {
    Constant: _constant,
    Iota: _iota,
    Elementwise: _elementwise,
    View: _view,
    Pad: _pad,
    SliceAt: _slice_at,
    PadAt: _pad_at,
    Unwindow: _unwindow,
    Cat: _cat,
    Gather: _gather,
    InRange: _in_range,
    Threefry: _threefry,
    Dequantize: _dequantize,
}


@cache
def element_rule(primitive: type[Primitive]) -> Callable[[Any, Any, Node, Indices], str]:
    """The rule for a primitive's class, or for its nearest base class with a rule."""
    for base in primitive.__mro__:
        if base in ELEMENT:
            return ELEMENT[base]
    raise CompileError(
        f"[{primitive.__name__}] has no rule that gives single elements: it needs an entry in the table ELEMENT "
        "(compile/elements.py), a rewrite rule, or a kernel of its own."
    )
