"""Rendering by pulling: from a node and an index to WGSL, down to the buffers.

`pull(node, index)` gives the text of one element. A view only rewrites the index, an elementwise operation pulls its
operands at the same index, a node that has a buffer is loaded. Statements land in the outermost scope in which
everything they use is known, so what does not depend on a loop is computed before it.

How each primitive is pulled is a rule in the table ELEMENT. A rule is written over a `Puller`, so it serves two: the
`Renderer` writes WGSL, the `Recorder` writes nothing and lists which buffers are read, and at which index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from ..dtypes import DType, bool_, float32, int32
from ..errors import CompileError
from ..graph.floats import float_text
from ..graph.index import Index, flatten, number, opaque, render, unflatten, variable
from ..graph.leaves import Constant, Iota
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..plan import IN_GATHER
from ..primitives.elementwise import Add, And, Cast, Elementwise, Mul, ShiftRight, Sub
from ..primitives.indexing import Gather, InRange
from ..primitives.quantized import Dequantize
from ..primitives.random import Threefry
from ..primitives.views import Cat, Pad, PadAt, Places, SliceAt, View
from ..primitives.window import Unwindow
from ..symbolic_sizes import Varying, varies

Indices = tuple[Index, ...]
ZERO = re.compile(r"(?:vec4<f32>\()?(?:0\.0|sg_bits\(0x80000000u\))\)*")  # as `literal` writes it
ZERO_TIMES = {
    "mul": 2,
    "div": 2,
}  # operations of which a driver knows the result where one of so many operands is 0, or gives anything: x / 0
SUMS = ("add", "sub")
OF_ITSELF = {"sub", "div"}  # those of which it knows the result where both are equal
Sparse = Sequence[tuple[Index, int, int]]
LANE = "lane"
LANES = 4
OFFSET_ALIGNMENT = 64  # elements: a binding begins at a multiple of 256 bytes, whatever the device


class Puller:
    """The walk, and the words in which the rules of ELEMENT are written. A value is a text; a condition as well.

    is_buffer: whether a node is read from memory rather than computed here.
    """

    def __init__(self, is_buffer: Callable[[Node], bool]) -> None:
        self.is_buffer = is_buffer
        self.local: dict[int, Callable[[Indices], str | None]] = {}

    def pull(self, node: Node, index: Indices) -> str:
        """One element of `node`, at an index of its rank."""
        raise NotImplementedError

    def pull_flat(self, node: Node, flat: Index) -> str:
        """One element, by row-major position."""
        return self.pull(node, unflatten(flat, node.shape))

    def count(self, operations: int) -> None:
        """The element costs so many scalar operations more."""

    def apply(self, primitive: Elementwise, node: Node, values: list[str]) -> str:
        """The result of an elementwise operation."""
        raise NotImplementedError

    def literal(self, value: float, dtype: DType) -> str:
        raise NotImplementedError

    def index_value(self, index: Index) -> str:
        """An index as a value (i32)."""
        raise NotImplementedError

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        """i / by, and the condition that i is a multiple of `by` within `size` elements, None if it always holds; where it
        does not hold, the index is some other one within."""
        raise NotImplementedError

    def below(self, i: Index, end: int) -> str:
        """The condition i < end."""
        raise NotImplementedError

    def position(self, value: str, dtype: DType, size: int) -> tuple[Index, str]:
        """An index that is data, and the condition that it lies within `size` elements."""
        raise NotImplementedError

    def offset(self, value: str, highest: int) -> Index:
        """A number (i32) that is data as a place from 0 to `highest`."""
        raise NotImplementedError

    def report(self, fault: int, value: str, dtype: DType, size: int, low: int = 0) -> None:
        """Tell the device of a position that does not lie in [low, size)."""
        raise NotImplementedError

    def choose(self, conditions: Sequence[str], value: str, otherwise: str, dtype: DType) -> str:
        """`value` where all conditions hold, else `otherwise`."""
        raise NotImplementedError

    def guarded(
        self, conditions: Sequence[str], value: Callable[[], str], fill: Callable[[], str], dtype: DType
    ) -> str:
        """What `value` pulls where all conditions hold, else `fill`."""
        return self.choose(conditions, value(), fill(), dtype)

    def random_word(self, values: list[str], index: Index | None) -> str:
        """Word `index` (0 or 1) of threefry2x32 for two key words and two counter words, or one xor the other."""
        raise NotImplementedError

    def note_packed(self, flat: Index) -> None:
        """Elements at this place are parts of words: neighbours are neighbours in memory, although one word is read."""

    def depends_on_lane(self, indices: Iterable[Index]) -> bool:
        """Whether the index differs between the elements that are computed at once."""
        return False

    def is_vector(self, value: str) -> bool:
        return False

    def lane_by_lane(self, node: Node, index: Indices) -> str:
        """Four elements, one by one: for what depends on the lane in a way that has no vector form."""
        raise NotImplementedError


# -- how each primitive is pulled


def _constant(w: Puller, p: Constant, node: Node, index: Indices) -> str:
    return w.literal(p.value, p.dtype)


def _iota(w: Puller, p: Iota, node: Node, index: Indices) -> str:
    return w.index_value(index[0])


def _elementwise(w: Puller, p: Elementwise, node: Node, index: Indices) -> str:
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
    """Where each axis begins: a number, or data (for None), of which `highest` is the largest that leaves nothing out."""
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
    """The element of the input of `node` at, along every axis, i / by for (i, by, n) of `places`, where i is a
    multiple of `by` within n elements; `fill` elsewhere."""
    if w.depends_on_lane(i for i, by, n in places if _needs_check(i, by, n)):
        return w.lane_by_lane(node, index)
    w.count(1)
    conditions: list[str] = []
    inside: list[Index] = []
    for i, by, n in places:
        position, condition = w.inside(i, by, n)
        inside.append(position)
        if condition is not None:
            conditions.append(condition)
    source = node.inputs[0]
    if not conditions:
        return w.pull(source, tuple(inside))
    return w.guarded(conditions, lambda: w.pull(source, tuple(inside)), fill, node.dtype)


def _needs_check(i: Index, by: int, n: int) -> bool:
    return i.low < 0 or i.high >= (n - 1) * by + 1 or by > 1


def _cat(w: Puller, p: Cat, node: Node, index: Indices) -> str:
    axis, i = p.axis, index[p.axis]
    if w.depends_on_lane([i]):
        return w.lane_by_lane(node, index)
    w.count(len(node.inputs) - 1)
    end = sum(s.shape[axis] for s in node.inputs)
    result: str | None = None
    for source in reversed(node.inputs):
        start = end - source.shape[axis]
        if i.low < end and i.high >= start and start != end:
            position, _ = w.inside(i - start, 1, source.shape[axis])
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
    inside, condition = w.position(position, positions.dtype, x.shape[p.axis])
    value = w.pull(x, (*index[: p.axis], inside, *index[p.axis + 1 :]))
    return w.choose([condition], value, w.literal(0, node.dtype), node.dtype)


def _in_range(w: Puller, p: InRange, node: Node, index: Indices) -> str:
    position = w.pull(node.inputs[0], index)
    # not lane_by_lane: where a product's tile gives the value, its index has no lane to take apart
    for part in (f"{position}.{c}" for c in "xyzw") if w.is_vector(position) else (position,):
        w.report(p.fault, part, node.dtype, p.size, p.low)
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
    """A node of an elementwise operation on operands of a dtype, which says what `apply` wants to know."""
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
    """How elements of that primitive, or of the nearest of its bases, are pulled."""
    for base in primitive.__mro__:
        if base in ELEMENT:
            return ELEMENT[base]
    raise CompileError(
        f"[{primitive.__name__}] has no rule that gives single elements: it needs an entry in the table ELEMENT "
        "(compile/render.py), a rewrite rule, or a kernel of its own."
    )


class Recorder(Puller):
    """Lists reads: (node, row-major index) pairs, and how many scalar operations an element costs."""

    def __init__(self, is_buffer: Callable[[Node], bool]) -> None:
        super().__init__(is_buffer)
        self.reads: dict[tuple[int, Index], Node] = {}
        self.packed: list[Index] = []
        self.cost = 0
        self._seen: set[tuple[int, Indices]] = set()
        self._names = 0

    def pull(self, node: Node, index: Indices) -> str:
        if (id(node), index) in self._seen:
            return ""
        self._seen.add((id(node), index))
        if self.is_buffer(node):
            flat = flatten(index, node.shape)
            self.reads[id(node), flat] = node
            return ""
        primitive = node.primitive
        return element_rule(type(primitive))(self, primitive, node, index)

    @property
    def places(self) -> list[Index]:
        """Where neighbouring elements may be neighbours in memory: of buffers, and of elements that are parts of words."""
        return [*(flat for _, flat in self.reads), *self.packed]

    def note_packed(self, flat: Index) -> None:
        self.packed.append(flat)

    def count(self, operations: int) -> None:
        self.cost += operations

    def apply(self, primitive: Elementwise, node: Node, values: list[str]) -> str:
        return ""

    def literal(self, value: float, dtype: DType) -> str:
        return ""

    def index_value(self, index: Index) -> str:
        return ""

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        return (self._unknown(size), "") if _needs_check(i, by, size) else (i, None)

    def below(self, i: Index, end: int) -> str:
        return ""

    def position(self, value: str, dtype: DType, size: int) -> tuple[Index, str]:
        return self._unknown(size), ""

    def offset(self, value: str, highest: int) -> Index:
        return self._unknown(highest + 1)

    def report(self, fault: int, value: str, dtype: DType, size: int, low: int = 0) -> None:
        pass

    def choose(self, conditions: Sequence[str], value: str, otherwise: str, dtype: DType) -> str:
        return ""

    def random_word(self, values: list[str], index: Index | None) -> str:
        return ""

    def _unknown(self, size: int) -> Index:
        self._names += 1
        return opaque(f"?{self._names}", 0, max(size - 1, 0))


@dataclass
class Scope:
    """Statements at one level of nesting, and the names that they define."""

    lines: list[str] = field(default_factory=list)
    memo: dict[object, str] = field(default_factory=dict)


@dataclass
class Binding:
    """A buffer of the kernel. `vectorized` once something accesses it four at a time.

    start: its first element that the kernel reads, rounded down; what comes before is not bound. wide: its elements are read two by
    two, as integers of 64 bits (`Traits.slow_loads`). Halves lie two to a word; shared: a thread writes one of a word, and another
    thread the other, so that words are atomic. octets: they are declared eight to a vec4<u32>, for threads that load 16 bytes.
    """

    name: str
    node: Node
    written: bool = False
    vectorized: bool = False
    start: int = 0
    wide: bool = False
    shared: bool = False
    octets: bool = False

    @property
    def is_half(self) -> bool:
        return self.node.dtype.is_half

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return 2 if self.is_half else 4

    @property
    def stored(self) -> str:
        """The type of an element in memory."""
        return "u32" if self.node.dtype is bool_ else str(self.node.dtype.wgsl)

    @property
    def element(self) -> str:
        """What the kernel declares an array of."""
        if self.wide:
            return "vec2<u64>"
        if self.is_half:
            if self.octets:
                return "vec4<u32>"
            return "atomic<u32>" if self.shared else "vec2<u32>" if self.vectorized else "u32"
        return f"vec4<{self.stored}>" if self.vectorized else self.stored


def both(conditions: Sequence[str]) -> str:
    """All of them, without `&&`, which branches: a kernel with hundreds of branches takes some compilers minutes."""
    return " & ".join(f"({c})" for c in conditions) if len(conditions) > 1 else conditions[0]


class Renderer(Puller):
    """Writes the body of one kernel.

    lanes: 1, or 4 to compute four consecutive elements at once, numbered by the index variable LANE.
    in_place: for a root that overwrites an input's buffer, by id, that input.
    Values are texts; `vectors` holds those that are vec4.
    branching: elements outside of what a view holds are not loaded, rather than loaded from elsewhere and replaced. That is
    faster where loads are many and their places known before a loop.
    wide: buffers of vec4s that are only read are read 64 bits at a time, for a target that takes as long for 32.
    converts_halves: by the device's own conversions.
    """

    def __init__(
        self,
        is_buffer: Callable[[Node], bool],
        *,
        in_place: dict[int, Node] | None = None,
        checked: bool = False,
        wide: bool = False,
        converts_halves: bool = False,
    ) -> None:
        super().__init__(is_buffer)
        self.wide = wide
        self.converts_halves = converts_halves
        self.lanes = 1
        self.lane: int | None = None  # of those, the one that is computed by itself
        self.in_place = in_place or {}
        self.checked = checked
        self.bindings: dict[int, Binding] = {}
        self.functions: set[str] = set()
        self.vectors: set[str] = set()
        self.scopes = [Scope()]
        self.depth: dict[str, int] = {}
        self.made_of: dict[
            str, tuple[str, str, str]
        ] = {}  # sums, differences and opposites: operation, first and last operand
        self.faults = False
        # what stands before the loop over elements is the same in all threads: one tells of it, and not one beyond the end, which
        # may read what another has overwritten in place by then
        self.reports_once = False
        self.tiled: dict[tuple[int, Index], str] = {}  # reads that were made before, and where their value is now
        self.branching = False
        self.packed = 0  # halves of a load that gives their bits; 0: loads give float32
        self._packed: set[int] = set()  # accesses that do
        self._branches = 0
        self._accesses: list[tuple[Binding, Index, Index | None]] = []
        self._names = 0

    # -- statements

    def line(self, text: str, depth: int | None = None) -> None:
        """Append a statement to the innermost scope, or the scope of that depth."""
        self.scopes[-1 if depth is None else depth].lines.append(text)

    def open(self, *variables: str) -> None:
        """Enter a nested scope in which `variables` are known."""
        self.scopes.append(Scope())
        for v in variables:
            self.depth[v] = len(self.scopes) - 1

    def close(self) -> list[str]:
        """Leave the scope; gives its statements."""
        return self.scopes.pop().lines

    def define(self, text: str, depth: int, vector: bool = False, prefix: str = "v") -> str:
        """The name of a value; the same text at the same place is computed once."""
        for scope in self.scopes[: depth + 1]:
            found = scope.memo.get(text)
            if found is not None:
                return found
        self._names += 1
        name = f"{prefix}{self._names}"
        self.line(f"let {name} = {text};", depth)
        self.scopes[depth].memo[text] = name
        self.depth[name] = depth
        if vector:
            self.vectors.add(name)
        return name

    def depth_of(self, index: Index | Iterable[Index]) -> int:
        parts = [index] if isinstance(index, Index) else index
        return max((self.depth.get(v, 0) for i in parts for v in i.variables()), default=0)

    def depth_of_values(self, *values: str) -> int:
        return max((self.depth[v] if v in self.depth else self._depth_in(v) for v in values), default=0)

    # -- values

    def pull(self, node: Node, index: Indices) -> str:
        key = (id(node), index)
        for scope in self.scopes:
            found = scope.memo.get(key)
            if found is not None:
                return found
        local = self.local.get(id(node))
        value = local(index) if local is not None else None
        if value is None:
            value = (
                self.load(node, flatten(index, node.shape))
                if self.is_buffer(node)
                else element_rule(type(node.primitive))(self, node.primitive, node, index)
            )
        self.scopes[min(max(self.depth_of(index), self.depth.get(value, 0)), len(self.scopes) - 1)].memo[key] = value
        return value

    def value_type(self, dtype: DType, vector: bool) -> str:
        return f"vec4<{dtype.wgsl}>" if vector else str(dtype.wgsl)

    def as_vector(self, value: str, dtype: DType) -> str:
        return value if value in self.vectors else f"vec4<{dtype.wgsl}>({value})"

    def literal(self, value: float, dtype: DType) -> str:
        return literal(value, dtype, self.functions)

    def index_value(self, index: Index) -> str:
        if self.lanes > 1 and LANE in index.variables():
            parts = ", ".join(render(index.substitute({LANE: number(k)})) for k in range(LANES))
            return self.define(f"vec4<i32>({parts})", self.depth_of(index), vector=True)
        return render(index)

    def apply(self, primitive: Elementwise, node: Node, values: list[str]) -> str:
        vector = any(v in self.vectors for v in values)
        if vector:
            values = [self.as_vector(v, s.dtype) for v, s in zip(values, node.inputs, strict=True)]
        if primitive.arity == 2 and node.inputs[0].dtype is float32:
            values = self._beyond_algebra(primitive, values, vector)
        template = primitive.expression(node.inputs[-1].dtype)
        text = template.format(
            **dict(zip("abc", values, strict=False))
            if primitive.arity < 3
            else {"c": values[0], "a": values[1], "b": values[2]},
            type=self.value_type(node.dtype, vector),
            utype="vec4<u32>" if vector else "u32",
            itype="vec4<i32>" if vector else "i32",
        )
        text = narrowed(text, node.dtype, vector)
        result = self.define(
            self.use_functions(text, vector, primitive.name),
            max(self.depth_of_values(*values), self._depth_in(text)),
            vector,
        )
        if primitive.name in SUMS or primitive.name == "neg":
            self.made_of.setdefault(result, (primitive.name, values[0], values[-1]))
        return result

    def _beyond_algebra(self, primitive: Elementwise, values: list[str], vector: bool) -> list[str]:
        """The operands, one of them hidden from the driver where its algebra would drop NaN and infinities: some take x * 0, x - x and 0 / x
        for 0, and x / x for 1, without a look at x. Hidden means joined with a number that is always 0, which no compiler knows."""
        a, b = values
        name = primitive.name
        if name in ZERO_TIMES and any(ZERO.fullmatch(v) for v in values[: ZERO_TIMES[name]]):
            return [self._hidden(v, vector) if ZERO.fullmatch(v) else v for v in values]
        if (name in OF_ITSELF and a == b) or (name in SUMS and self._cancel(name, a, b)):
            return [a, self._hidden(b, vector)]
        return values

    def _cancel(self, name: str, a: str, b: str) -> bool:
        """Whether something is left out of a sum or a difference if it is taken as if numbers had all digits: x + -x, (x + y) - x."""
        (left, x, y), (right, v, w) = self.made_of.get(a, ("", "", "")), self.made_of.get(b, ("", "", ""))
        if name == "add":
            return (left in ("neg", "sub") and y == b) or (right in ("neg", "sub") and w == a)
        return (
            (left == "add" and b in (x, y))
            or (left == "sub" and x == b)
            or (right in SUMS and v == a)
            or (right == "add" and w == a)
        )

    def _hidden(self, value: str, vector: bool) -> str:
        words = "vec4<u32>" if vector else "u32"
        text = f"bitcast<{'vec4<f32>' if vector else 'f32'}>(bitcast<{words}>({value}) | {words}(wid.z))"
        return self.define(text, self.depth_of_values(value), vector)

    def _depth_in(self, text: str) -> int:
        return max((self.depth[w] for w in re.findall(r"[A-Za-z_]\w*", text) if w in self.depth), default=0)

    def use_functions(self, text: str, vector: bool, operation: str) -> str:
        """Note the sg_ functions that `text` calls for an operation; in vec4 code, call their vec4 forms.

        Raises CompileError, which names the operation, where there is no such function.
        """

        def note(match: re.Match[str]) -> str:
            if match[0] not in math_functions():
                raise CompileError(f"[{operation}] {_missing(match[0])}")
            name = match[0] + ("_v4" if vector and match[0] != "sg_bits" else "")
            self.functions.add(name)
            return name

        return re.sub(r"sg_\w+", note, text)

    def is_vector(self, value: str) -> bool:
        return value in self.vectors

    def lane_by_lane(self, node: Node, index: Indices) -> str:
        parts = []
        for lane in range(LANES):
            self.lane = lane
            parts.append(self.pull(node, tuple(i.substitute({LANE: number(lane)}) for i in index)))
        self.lane = None
        return self.define(f"vec4<{node.dtype.wgsl}>({', '.join(parts)})", self.depth_of_values(*parts), vector=True)

    def depends_on_lane(self, indices: Iterable[Index]) -> bool:
        return self.lanes > 1 and any(LANE in i.variables() for i in indices)

    # -- memory

    def bind(self, node: Node, written: bool = False) -> Binding:
        node = self.in_place.get(id(node), node)
        binding = self.bindings.get(id(node))
        if binding is None:
            binding = self.bindings[id(node)] = Binding(f"b{len(self.bindings)}", node)
        binding.written |= written
        return binding

    def load(self, node: Node, flat: Index) -> str:
        """The element of a buffer at a row-major position."""
        if (id(node), flat) in self.tiled:
            return self.tiled[id(node), flat]
        binding = self.bind(node)
        if self.depends_on_lane([flat]):
            split = flat.split(LANE)
            if split is not None and split[1] == 1 and split[0].divisible(LANES):
                return self._access(binding, flat, split[0] // LANES)
            parts = [self.load(node, flat.substitute({LANE: number(k)})) for k in range(LANES)]
            return self.define(
                f"vec4<{node.dtype.wgsl}>({', '.join(parts)})", self.depth_of_values(*parts), vector=True
            )
        return self._access(binding, self._hoisted(flat) if self.branching else flat, None)

    def _hoisted(self, flat: Index) -> Index:
        """The same position, what is known outside of all scopes computed there."""
        known = Index(0, {a: c for a, c in flat.terms.items() if self.depth_of(Index(0, {a: 1})) == 0})
        if len(known.terms) == len(flat.terms) or not known.terms:
            return flat
        name = self.define(render(known), 0, prefix="at")
        return opaque(name, known.low, known.high) + (flat - known)

    def _access(self, binding: Binding, flat: Index, quad: Index | None) -> str:
        vector = quad is not None
        binding.vectorized |= vector
        token = f"@{len(self._accesses)}@"
        packed = bool(self.packed) and binding.is_half
        if packed:
            self._packed.add(len(self._accesses))
            binding.octets |= self.packed > LANES
        self._accesses.append((binding, flat, quad))
        if binding.node.dtype is bool_:
            token = f"({token} != {'vec4<u32>(0u)' if vector else '0u'})"
        key = ("load", id(binding.node), flat, vector, packed)
        depth = self.depth_of([quad] if quad is not None else [flat])
        if self._branches:  # it is only safe here
            depth = len(self.scopes) - 1
        for scope in self.scopes[: depth + 1]:
            if key in scope.memo:
                return scope.memo[key]
        name = self.define(token, depth, vector)
        self.scopes[depth].memo[key] = name
        return name

    def store(self, node: Node, flat: Index, value: str) -> None:
        """Write an element (or, in a vec4 kernel, four) of a buffer."""
        binding = self.bind(node, written=True)
        vector = self.depends_on_lane([flat])
        stored = bool_ if node.dtype is bool_ else None
        binding.shared |= binding.is_half and not vector
        if vector:
            split = flat.split(LANE)
            assert split is not None
            assert split[1] == 1
            binding.vectorized = True
            value = self.as_vector(value, node.dtype)
            self._accesses.append((binding, flat, split[0] // LANES))
        else:
            self._accesses.append((binding, flat, None))
        if stored is not None:
            value = f"vec4<u32>({value})" if vector else f"u32({value})"
        if binding.is_half:
            self.line(f"@{len(self._accesses) - 1}:{value}@")
            return
        self.line(f"@{len(self._accesses) - 1}@ = {value};")

    def _choose_starts(self) -> None:
        """Bind each buffer that is only read from where the reading begins: kernels that differ in that, say in the step
        of time, are one kernel."""
        lowest: dict[int, tuple[Binding, int]] = {}
        for binding, flat, _ in self._accesses:
            before = lowest.get(id(binding), (binding, flat.low))[1]
            lowest[id(binding)] = (binding, min(before, flat.low))
        for binding, low in lowest.values():
            if not binding.written and not varies(low):
                alignment = OFFSET_ALIGNMENT * 4 // binding.itemsize
                binding.start = max(low, 0) // alignment * alignment

    def resolve(self, text: str) -> str:
        """Replace access marks by the accesses, now that it is known which buffers are arrays of vec4."""

        self._choose_starts()
        for binding, _, _ in self._accesses:
            binding.wide = self.wide and binding.vectorized and not binding.written and not binding.is_half
            binding.octets = binding.octets and not binding.written

        def access(match: re.Match[str]) -> str:
            binding, flat, quad = self._accesses[int(match[1])]
            flat = flat - binding.start
            if binding.is_half:
                quad = None if quad is None else quad - binding.start // LANES
                return self._load_halves(binding, flat, quad, int(match[1]) in self._packed)
            if binding.wide:
                return self._wide_access(binding, flat, None if quad is None else quad - binding.start // LANES)
            if quad is not None:
                return f"{binding.name}[{render(quad - binding.start // LANES)}]"
            if binding.vectorized:
                return f"{binding.name}[{render(flat // LANES)}][{render(flat % LANES)}]"
            return f"{binding.name}[{render(flat)}]"

        def write(match: re.Match[str]) -> str:
            binding, flat, quad = self._accesses[int(match[1])]
            return self._store_halves(binding, flat, quad, match[2])

        return re.sub(r"@(\d+)@", access, re.sub(r"@(\d+):(.*?)@", write, text))

    def _load_halves(self, binding: Binding, flat: Index, quad: Index | None, packed: bool) -> str:
        """An element, or four of them, of a buffer of halves, as float32; packed: as bits, in a word or in two."""
        kind = binding.node.dtype.name

        def word(place: Index) -> str:
            if binding.shared:
                return f"atomicLoad(&{binding.name}[{render(place)}])"
            if binding.octets:
                return f"{binding.name}[{render(place // LANES)}][{render(place % LANES)}]"
            return (
                f"{binding.name}[{render(place // 2)}][{render(place % 2)}]"
                if binding.vectorized
                else f"{binding.name}[{render(place)}]"
            )

        if quad is None and packed:
            return f"(({word(flat // 2)} >> (16u * u32({render(flat % 2)}))) & 0xffffu)"
        if quad is None:
            self.functions.add(f"sg_one_{kind}")
            return f"sg_one_{kind}({word(flat // 2)}, {render(flat % 2)})"
        words = (
            f"vec2<u32>({word(quad * 2)}, {word(quad * 2 + 1)})"
            if binding.shared or binding.octets
            else f"{binding.name}[{render(quad)}]"
        )
        half = quad % 2
        if binding.octets and not half.terms:
            words = f"{binding.name}[{render(quad // 2)}].{'zw' if half.constant else 'xy'}"
        if packed:
            return words
        self.functions.add(f"sg_four_{kind}")
        return f"sg_four_{kind}({words})"

    def _store_halves(self, binding: Binding, flat: Index, quad: Index | None, value: str) -> str:
        """The statement that writes an element, or four of them, to a buffer of halves. A thread that writes one of a word leaves the
        other, which another thread may be writing."""
        kind, name = binding.node.dtype.name, binding.name
        if quad is None:
            self.functions.add(f"sg_bits_{kind}")
            word, shift = f"&{name}[{render(flat // 2)}]", f"16u * u32({render(flat % 2)})"
            return (
                f"atomicAnd({word}, 0xffff0000u >> ({shift})); atomicOr({word}, sg_bits_{kind}({value}) << ({shift}));"
            )
        self.functions.add(f"sg_words_{kind}")
        words = f"sg_words_{kind}({value})"
        if not binding.shared:
            return f"{name}[{render(quad)}] = {words};"
        places = (f"&{name}[{render(quad * 2 + k)}], {words}.{part}" for k, part in enumerate("xy"))
        return " ".join(f"atomicStore({place});" for place in places)

    def _wide_access(self, binding: Binding, flat: Index, quad: Index | None) -> str:
        """An element, or four of them, of a buffer that is declared as integers of 64 bits."""
        if quad is not None:
            text, value = f"sg_four({binding.name}[{render(quad)}])", f"vec4<{binding.stored}>"
        else:
            word = f"{binding.name}[{render(flat // LANES)}][{render(flat % LANES // 2)}]"
            text, value = f"sg_one({word}, {render(flat % 2)})", binding.stored
        return text if binding.stored == "u32" else f"bitcast<{value}>({text})"

    # -- places

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        span = (size - 1) * by + 1
        whole, i = i, self._hoisted(i) if self.branching else i
        checks = []
        if i.low < 0:  # as an unsigned number it is beyond every span
            checks.append(f"u32({render(i)}) < {span}u" if i.high >= span else f"{render(i)} >= 0")
        elif i.high >= span:
            checks.append(f"{render(i)} < {span}")
        if by > 1:
            checks.append(f"{render(i % by)} == 0")
        if not checks:
            return i, None
        condition = self.define(both(checks), self.depth_of(i), prefix="ok")
        return whole // by if self.branching else self.clamp(i // by, condition, size), condition

    def clamp(self, i: Index, condition: str, size: int) -> Index:
        """An index that is `i` where the condition holds and 0 elsewhere: always inside an axis of `size`."""
        depth = max(self.depth_of(i), self.depth_of_values(condition))
        return opaque(self.define(f"select(0, {render(i)}, {condition})", depth, prefix="j"), 0, max(size - 1, 0))

    def below(self, i: Index, end: int) -> str:
        return self.define(f"{render(i)} < {end}", self.depth_of(i), prefix="ok")

    def position(self, value: str, dtype: DType, size: int) -> tuple[Index, str]:
        value, condition = self._within(value, dtype, size)
        depth = self._depth_in(value)
        if self.checked:
            self._report(IN_GATHER, value, condition, size)
        chosen = self.define(f"select(0, {value}, {condition})", depth, prefix="j")
        return opaque(chosen, 0, max(size - 1, 0)), condition

    def offset(self, value: str, highest: int) -> Index:
        highest = max(highest, 0)
        name = self.define(f"clamp({value}, 0, {highest})", self.depth_of_values(value), prefix="j")
        return opaque(name, 0, highest)

    def _within(self, value: str, dtype: DType, size: int, low: int = 0) -> tuple[str, str]:
        """A position as i32, and the condition that it lies in [low, size)."""
        depth = self._depth_in(value)
        if dtype.wgsl == "u32":
            value = self.define(f"i32(min({value}, 2147483647u))", depth)
        return value, self.define(f"({value} >= {low}) & ({value} < {size})", depth, prefix="ok")

    def report(self, fault: int, value: str, dtype: DType, size: int, low: int = 0) -> None:
        self._report(fault, *self._within(value, dtype, size, low), size)

    def _report(self, fault: int, value: str, condition: str, size: int) -> None:
        self.faults = True
        told = f"fault[1] = {value}; fault[2] = {size}; fault[3] = {fault}; fault[0] = 1;"
        depth = self._depth_in(value)
        one = "lid == 0u && " if self.reports_once and depth == 0 else ""
        self.line(f"if ({one}!{condition}) {{ {told} }}", depth)

    def choose(self, conditions: Sequence[str], value: str, otherwise: str, dtype: DType) -> str:
        vector = value in self.vectors or otherwise in self.vectors
        value, otherwise = self._same_width(value, otherwise, dtype), self._same_width(otherwise, value, dtype)
        condition = (
            conditions[0]
            if len(conditions) == 1
            else self.define(both(conditions), self.depth_of_values(*conditions), prefix="ok")
        )
        return self.define(
            f"select({otherwise}, {value}, {condition})",
            self.depth_of_values(value, condition, otherwise),
            vector,
        )

    def _same_width(self, value: str, other: str, dtype: DType) -> str:
        """`value`, widened if the other is a vec4."""
        if other not in self.vectors or value in self.vectors:
            return value
        wide = self.as_vector(value, dtype)
        return self.define(wide, self.depth_of_values(value), vector=True) if value in self.depth else wide

    def guarded(
        self, conditions: Sequence[str], value: Callable[[], str], fill: Callable[[], str], dtype: DType
    ) -> str:
        if not self.branching:
            return super().guarded(conditions, value, fill, dtype)
        self._names += 1
        name = f"v{self._names}"
        self.depth[name] = len(self.scopes) - 1
        self.line(f"var {name} = {fill()};")
        self._branches += 1
        self.open()
        self.line(f"{name} = {value()};")
        lines = self.close()
        self._branches -= 1
        self.line(f"if ({both(conditions)}) {{ {' '.join(lines)} }}")
        return name

    def random_word(self, values: list[str], index: Index | None) -> str:
        call = self.use_functions(f"sg_threefry({', '.join(values)})", False, "threefry")
        block = self.define(call, self.depth_of_values(*values))
        if index is None:
            return self.define(f"{block}.x ^ {block}.y", self.depth_of_values(block))
        return self.define(f"{block}[{render(index)}]", max(self.depth_of_values(block), self.depth_of(index)))


def lane_variable() -> Index:
    return variable(LANE, LANES)


def literal(value: float, dtype: DType, functions: set[str]) -> str:
    """A number as a WGSL literal of `dtype`."""
    if dtype is bool_:
        return "true" if value else "false"
    if dtype.category == 1:
        low, high = dtype.stored_range
        if not low <= value <= high:
            raise dtype.refused(int(value), "constant")
        if isinstance(value, Varying):
            return f"u32({value})" if dtype.wgsl == "u32" else f"i32({value})"
        if dtype.wgsl == "u32":
            return f"{int(value)}u"
        return f"i32({int(value)})" if value < 0 else f"{int(value)}"
    assert dtype.wgsl == "f32", dtype
    if dtype.is_half:
        value = dtype.holding(value).item()
    text, from_bits = float_text(value, "sg_bits")
    if from_bits:
        functions.add("sg_bits")
    return text


def narrowed(text: str, dtype: DType, vector: bool = False) -> str:
    """A computed value as its dtype holds it: an integer of 8 or 16 bits, which shaders hold in 32, wraps at those. Every
    place that computes values passes them through here: elementwise operations, reductions, products, sums by an index.
    tests/device/test_integers.py"""
    return dtype.narrowed(text, vector)


@lru_cache(maxsize=1)
def wide_loads() -> str:
    """The functions that buffers of 64-bit elements are read with."""
    return _without_comments("loads.wgsl").replace("\n\n", "\n").lstrip("\n")


def _without_comments(file: str) -> str:
    text = resources.files("shadergrad.compile").joinpath("wgsl", file).read_text(encoding="utf-8")
    return re.sub(r"^//.*\n", "", text, flags=re.M)


@lru_cache(maxsize=2)
def math_functions(converts_halves: bool = False) -> dict[str, str]:
    """The functions of math.wgsl, by name, in file order. converts_halves: with those of halves.wgsl in place of its own."""
    return _functions("math.wgsl") | (_functions("halves.wgsl") if converts_halves else {})


def _functions(file: str) -> dict[str, str]:
    found = re.findall(r"^(fn (sg_\w+)\(.*?^\}\n)", _without_comments(file), flags=re.M | re.S)
    return {name: body for body, name in found}


def functions_text(names: set[str], converts_halves: bool = False) -> str:
    """The named functions and all that they call; `_v4` forms apply the scalar function to each component."""
    library = math_functions(converts_halves)
    needed: set[str] = set()

    def add(name: str) -> None:
        if name not in library:
            raise CompileError(_missing(name))
        if name not in needed:
            needed.add(name)
            for called in re.findall(r"sg_\w+", library[name]):
                add(called)

    for name in names:
        add(name.removesuffix("_v4"))
    text = "".join(body for name, body in library.items() if name in needed)
    for name in sorted(n for n in names if n.endswith("_v4")):
        text += _vector_form(library[name.removesuffix("_v4")], name)
    return text


def _missing(function: str) -> str:
    return f"there is no WGSL function {function}(). Hint: write it in compile/wgsl/math.wgsl."


def _vector_form(body: str, name: str) -> str:
    match = re.match(r"fn (sg_\w+)\((.*?)\) -> (\w+)", body)
    assert match is not None
    scalar, parameters, result = match.groups()
    names = [p.split(":")[0].strip() for p in parameters.split(",")]
    types = [p.split(":")[1].strip() for p in parameters.split(",")]
    calls = ", ".join(f"{scalar}({', '.join(f'{n}.{c}' for n in names)})" for c in "xyzw")
    declared = ", ".join(f"{n}: vec4<{t}>" for n, t in zip(names, types, strict=True))
    return f"fn {name}({declared}) -> vec4<{result}> {{\n  return vec4<{result}>({calls});\n}}\n"
