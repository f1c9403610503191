"""Renders the body of one kernel in WGSL, from its results down to the buffers.

Elements come from the rules (elements.py), statements are placed in scopes (wgsl/statements.py), and buffers are accessed by
wgsl/accesses.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ..dtypes import DType, bool_, float32
from ..errors import CompileError
from ..graph.index import Index, flatten, number, opaque, render
from ..graph.node import Node
from ..plan import IN_GATHER
from ..primitives.elementwise import Elementwise
from .elements import element_rule
from .puller import LANE, LANES, Indices, Puller
from .wgsl.accesses import Accesses, Binding
from .wgsl.algebra import SUMS, to_hide
from .wgsl.functions import literal, math_functions, missing, narrowed
from .wgsl.statements import Statements, both


class Renderer(Statements, Puller):
    """Writes the body of one kernel.

    lanes: 1, or 4 to compute four consecutive elements at once, numbered by the index variable LANE.
    in_place: the inputs whose buffers roots overwrite, by the id of the root.
    Values are expressions; `vectors` holds those that are vec4.
    branching: a branch skips elements outside of a view's bounds, instead of loading another element and replacing it. This is
    faster if there are many loads whose positions are known before a loop.
    wide: vec4s in read-only buffers are read 64 bits at a time, for targets where a load of 32 bits takes as long.
    converts_halves: use the device's conversions between halves and float32.
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
        Puller.__init__(self, is_buffer)
        Statements.__init__(self)
        self.wide = wide
        self.converts_halves = converts_halves
        self.lanes = 1
        self.lane: int | None = None  # the lane that is being computed separately
        self.in_place = in_place or {}
        self.checked = checked
        self.bindings: dict[int, Binding] = {}
        self.functions: set[str] = set()
        self.made_of: dict[str, tuple[str, str, str]] = {}  # `algebra.MadeOf`
        self.rounded: dict[str, str] = {}  # values rounded to halves: what they were rounded from
        self.faults = False
        # Code before the loop over elements does the same in all threads, so one thread reports its faults. It must not be a thread beyond
        # the end: that one may read elements which another thread has already overwritten in place.
        self.reports_once = False
        self.tiled: dict[tuple[int, Index], str] = {}  # the names of values that were loaded before, by their reads
        self.branching = False
        self.packed = 0  # halves per load, if loads give their bits; 0: loads give float32
        self._branches = 0
        self._accesses = Accesses(self.functions, wide)

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
            max(self.depth_of_values(*values), self.depth_in(text)),
            vector,
        )
        if primitive.name in SUMS or primitive.name == "neg":
            self.made_of.setdefault(result, (primitive.name, values[0], values[-1]))
        if (
            primitive.name == "cast"
            and node.dtype.is_half
            and node.inputs[0].dtype is float32
            and values[0] in self.depth
        ):
            self.rounded[result] = values[0]
        return result

    def _beyond_algebra(self, primitive: Elementwise, values: list[str], vector: bool) -> list[str]:
        """The operands. Those that algebra.py lists are hidden: combined with a value that is always 0, which no compiler can know."""
        hide = to_hide(primitive.name, values, self.made_of)
        return [self._hidden(v, vector) if h else v for v, h in zip(values, hide, strict=True)]

    def _hidden(self, value: str, vector: bool) -> str:
        words = "vec4<u32>" if vector else "u32"
        text = f"bitcast<{'vec4<f32>' if vector else 'f32'}>(bitcast<{words}>({value}) | {words}(wid.z))"
        return self.define(text, self.depth_of_values(value), vector)

    def use_functions(self, text: str, vector: bool, operation: str) -> str:
        """Record the sg_ functions that `text` calls; in vec4 code, call their vec4 forms.

        Raises CompileError, which names the operation, if there is no such function.
        """

        def note(match: re.Match[str]) -> str:
            if match[0] not in math_functions():
                raise CompileError(f"[{operation}] {missing(match[0])}")
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
        """The same position, with its loop-invariant parts computed outside of the loops."""
        known = Index(0, {a: c for a, c in flat.terms.items() if self.depth_of(Index(0, {a: 1})) == 0})
        if len(known.terms) == len(flat.terms) or not known.terms:
            return flat
        name = self.define(render(known), 0, prefix="at")
        return opaque(name, known.low, known.high) + (flat - known)

    def _access(self, binding: Binding, flat: Index, quad: Index | None) -> str:
        vector = quad is not None
        binding.vectorized |= vector
        packed = bool(self.packed) and binding.is_half
        binding.octets |= packed and self.packed > LANES
        token = self._accesses.mark(binding, flat, quad, packed)
        if binding.node.dtype is bool_:
            token = f"({token} != {'vec4<u32>(0u)' if vector else '0u'})"
        key = ("load", id(binding.node), flat, vector, packed)
        depth = self.depth_of([quad] if quad is not None else [flat])
        if self._branches:  # the load is only safe inside of the branch
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
        if binding.is_half:  # storing rounds
            value = self.rounded.get(value, value)
        quad = None
        if vector:
            split = flat.split(LANE)
            assert split is not None
            assert split[1] == 1
            binding.vectorized = True
            value = self.as_vector(value, node.dtype)
            quad = split[0] // LANES
        if stored is not None:
            value = f"vec4<u32>({value})" if vector else f"u32({value})"
        self.line(self._accesses.mark_write(binding, flat, quad, value))

    def resolve(self, text: str) -> str:
        """Replace placeholders with the accesses, when it is known which buffers are arrays of vec4."""
        return self._accesses.resolve(text)

    # -- places

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        span = (size - 1) * by + 1
        whole, i = i, self._hoisted(i) if self.branching else i
        checks = []
        if i.low < 0:  # as an unsigned number, a negative index exceeds every span
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
        """An index that is `i` if the condition holds, else 0: always inside an axis of `size`."""
        depth = max(self.depth_of(i), self.depth_of_values(condition))
        return opaque(self.define(f"select(0, {render(i)}, {condition})", depth, prefix="j"), 0, max(size - 1, 0))

    def below(self, i: Index, end: int) -> str:
        return self.define(f"{render(i)} < {end}", self.depth_of(i), prefix="ok")

    def position(self, value: str, size: int) -> tuple[Index, str]:
        condition = self._within(value, size)
        depth = self.depth_in(value)
        if self.checked:
            self._report(IN_GATHER, value, condition, size)
        chosen = self.define(f"select(0, {value}, {condition})", depth, prefix="j")
        return opaque(chosen, 0, max(size - 1, 0)), condition

    def offset(self, value: str, highest: int) -> Index:
        highest = max(highest, 0)
        name = self.define(f"clamp({value}, 0, {highest})", self.depth_of_values(value), prefix="j")
        return opaque(name, 0, highest)

    def _within(self, value: str, size: int, low: int = 0) -> str:
        """The condition that a position lies in [low, size)."""
        return self.define(f"({value} >= {low}) & ({value} < {size})", self.depth_in(value), prefix="ok")

    def report(self, fault: int, value: str, size: int, low: int = 0) -> None:
        self._report(fault, value, self._within(value, size, low), size)

    def _report(self, fault: int, value: str, condition: str, size: int) -> None:
        self.faults = True
        told = f"fault[1] = {value}; fault[2] = {size}; fault[3] = {fault}; fault[0] = 1;"
        depth = self.depth_in(value)
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
        """`value`, as a vec4 if the other is one."""
        if other not in self.vectors or value in self.vectors:
            return value
        wide = self.as_vector(value, dtype)
        return self.define(wide, self.depth_of_values(value), vector=True) if value in self.depth else wide

    def guarded(
        self, conditions: Sequence[str], value: Callable[[], str], fill: Callable[[], str], dtype: DType
    ) -> str:
        if not self.branching:
            return super().guarded(conditions, value, fill, dtype)
        name = self.new_name("v")
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
