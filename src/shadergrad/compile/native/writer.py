"""Pulling elements as LLVM IR: the same rules as for shaders (compile/elements.py), over values of statements.

In: nodes and indices. Out: values. A wide index is one that differs between the elements computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...dtypes import DType, bool_
from ...errors import CompileError
from ...graph.index import ZERO, Index, flatten, number, opaque
from ...graph.node import Node
from ...primitives.elementwise import Bitcast, Cast, Elementwise
from ...primitives.random import ROTATIONS
from ..elements import element_rule
from ..puller import Indices, Puller
from . import rules
from .values import Statements, Value, kind_of, literal, stored_kind

NARROW = 1 << 31  # indices below it are computed in 32 bits


@dataclass(frozen=True)
class Variable:
    """A loop variable: its register (i64), its level, and whether it is wide: then it increases by one from lane to lane."""

    register: str
    level: int
    wide: bool = False


class Writer(Puller):
    """Writes the statements of one kernel.

    variables: those of the loops, by their names in indices. buffers: the nodes in memory, in the order of their first read.
    """

    def __init__(self, is_buffer: Callable[[Node], bool], variables: dict[str, Variable], lanes: int) -> None:
        super().__init__(is_buffer)
        self.s = Statements(lanes)
        self.variables = variables
        self.buffers: dict[int, Node] = {}
        self.known: dict[str, Value] = {}  # the values of variables in indices, by name
        self._pulled: dict[tuple[int, Indices], Value] = {}

    def forget_loop(self) -> None:
        """Start a new loop over elements: forget the values that were computed within the last one."""
        for level in (2, 3):
            self.s.lines[level], self.s.memo[level] = [], {}
        self._pulled = {key: v for key, v in self._pulled.items() if v.level < 2}

    def forget_dot(self, node: Node) -> None:
        """Start a new element of a product: forget the values of the last one."""
        self._pulled = {key: v for key, v in self._pulled.items() if v.level < 2}
        del self.local[id(node)]

    # -- pulling

    def pull(self, node: Node, index: Indices) -> Value:  # type: ignore[override]
        key = id(node), index
        value = self._pulled.get(key)
        if value is None:
            local = self.local.get(id(node))
            if local is not None:
                value = local(index)
            elif self.is_buffer(node):
                value = self.load(node, flatten(index, node.shape))
            else:
                value = element_rule(type(node.primitive))(self, node.primitive, node, index)
            assert isinstance(value, Value)
            self._pulled[key] = value
        return value

    def apply(self, primitive: Elementwise, node: Node, values: list[str]) -> Value:  # type: ignore[override]
        given: list[Value] = list(values)  # type: ignore[arg-type]
        source = node.inputs[-1].dtype
        if isinstance(primitive, Cast):
            return rules.cast(self.s, given[0], source, node.dtype)
        if isinstance(primitive, Bitcast):
            return rules.bitcast(self.s, given[0], node.dtype)
        rule = rules.rule_of(primitive, source)
        if rule is None:
            raise CompileError(
                f"[{primitive.name}] has no rule in LLVM IR for {source.name} (compile/native/rules.py)."
            )
        return rule(self.s, source, given)

    def literal(self, value: float, dtype: DType) -> Value:  # type: ignore[override]
        return literal(value, kind_of(dtype))

    # -- indices

    def is_wide(self, index: Index) -> bool:
        return any(self._variable(name).wide for name in index.variables())

    def _variable(self, name: str) -> Variable | Value:
        return self.known[name] if name in self.known else self.variables[name]

    def _name_of_lanes(self, index: Index) -> str | None:
        """The wide loop variable, if the index is a multiple of it plus terms that are equal in all lanes."""
        wide = [name for name in index.variables() if self._variable(name).wide]
        if len(wide) == 1 and wide[0] in self.variables and index.split(wide[0]) is not None:
            return wide[0]
        return None

    def place(self, index: Index) -> Value:
        """An index as a scalar i64; for a wide index, that of the first lane."""
        total: Value | None = None
        for atom, factor in index.terms.items():
            if atom.of is None:
                found = self._variable(atom.name)
                if isinstance(found, Value):
                    term = found if found.kind == "i64" else self.s.convert("sext", found, "i64")
                else:
                    term = Value(found.register, "i64", found.level)
            else:
                term = self.s.op("udiv" if atom.kind == "div" else "urem", self.place(atom.of), literal(atom.by, "i64"))
            if factor != 1:
                term = self.s.op("mul", term, literal(factor, "i64"))
            total = term if total is None else self.s.op("add", total, term)
        constant = literal(index.constant, "i64")
        if total is None:
            return constant
        return self.s.op("add", total, constant) if index.constant else total

    def number_of(self, index: Index, kind: str) -> Value:
        """An index as a value of `kind`, wide if the index is."""
        total: Value | None = None
        for atom, factor in index.terms.items():
            if atom.of is None:
                term = self._of_variable(atom.name, kind)
            else:
                inside = self._kind(atom.of)
                term = self.s.op(
                    "udiv" if atom.kind == "div" else "urem", self.number_of(atom.of, inside), literal(atom.by, inside)
                )
                term = self._resized(term, kind)
            if factor != 1:
                term = self.s.op("mul", term, literal(factor, kind))
            total = term if total is None else self.s.op("add", total, term)
        constant = literal(index.constant, kind)
        if total is None:
            return constant
        return self.s.op("add", total, constant) if index.constant else total

    def _of_variable(self, name: str, kind: str) -> Value:
        found = self._variable(name)
        if isinstance(found, Value):
            return self._resized(found, kind)
        first = self._resized(Value(found.register, "i64", found.level), kind)
        return self.s.op("add", first, self.lane_numbers(kind)) if found.wide and self.s.lanes > 1 else first

    def lane_numbers(self, kind: str) -> Value:
        """The vector 0, 1, 2, ..."""
        text = "<" + ", ".join(f"{kind} {k}" for k in range(self.s.lanes)) + ">"
        return Value(text, kind, 0, wide=True)

    def _resized(self, value: Value, kind: str) -> Value:
        if value.kind == kind:
            return value
        return self.s.convert("trunc" if kind == "i32" else "sext", value, kind)

    def _kind(self, index: Index) -> str:
        return "i32" if index.low >= -NARROW and index.high < NARROW else "i64"

    def index_value(self, index: Index) -> Value:  # type: ignore[override]
        return self.number_of(index, "i32")

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        span = (size - 1) * by + 1
        if i.low >= 0 and i.high < span and by == 1:
            return i, None
        if i.high < 0 or i.low >= span:
            return ZERO, literal(False, "i1")
        kind = self._kind(i)
        value = self.number_of(i, kind)
        condition: Value | None = None
        if i.low < 0 or i.high >= span:  # a negative index, as an unsigned number, is beyond every span
            condition = self.s.compare("icmp ult", value, literal(span, kind))
        if by > 1:
            rest = self.s.op("urem", value, literal(by, kind))
            whole = self.s.compare("icmp eq", rest, literal(0, kind))
            condition = whole if condition is None else self.s.op("and", condition, whole)
            value = self.s.op("udiv", value, literal(by, kind))
        assert condition is not None
        return self._opaque(self.s.select(condition, value, literal(0, kind)), max(size - 1, 0)), condition

    def _opaque(self, value: Value, high: int) -> Index:
        if value.constant:
            return number(int(value))
        self.known[str(value)] = value
        return opaque(str(value), 0, high)

    def below(self, i: Index, end: int) -> Value:  # type: ignore[override]
        kind = self._kind(i)
        return self.s.compare("icmp slt", self.number_of(i, kind), literal(end, kind))

    def position(self, value: str, size: int) -> tuple[Index, str]:
        assert isinstance(value, Value)
        return self._opaque(value, max(size - 1, 0)), literal(True, "i1")  # it was checked before (regions.py)

    def offset(self, value: str, highest: int) -> Index:
        assert isinstance(value, Value)
        low = self.s.call("smax", value, self.s.number(0, value))
        return self._opaque(self.s.call("smin", low, self.s.number(max(highest, 0), value)), max(highest, 0))

    def choose(self, conditions: Sequence[str], value: str, otherwise: str, dtype: DType) -> Value:  # type: ignore[override]
        all_of: list[Value] = list(conditions)  # type: ignore[arg-type]
        condition = all_of[0]
        for other in all_of[1:]:
            condition = self.s.op("and", condition, other)
        assert isinstance(value, Value)
        assert isinstance(otherwise, Value)
        return self.s.select(condition, value, otherwise)

    def guarded(  # type: ignore[override]
        self, conditions: Sequence[str], value: Callable[[], str], fill: Callable[[], str], dtype: DType
    ) -> Value:
        nowhere = any(str(c) == str(literal(False, "i1")) for c in conditions)
        return fill() if nowhere else super().guarded(conditions, value, fill, dtype)  # type: ignore[return-value]

    def random_word(self, values: list[str], index: Index | None) -> Value:  # type: ignore[override]
        given: list[Value] = list(values)  # type: ignore[arg-type]
        s = self.s
        k0, k1, x0, x1 = given
        keys = (k0, k1, s.op("xor", s.op("xor", k0, k1), literal(0x1BD11BDA, "i32")))
        x0, x1 = s.op("add", x0, keys[0]), s.op("add", x1, keys[1])
        for group in range(5):
            for r in ROTATIONS[group % 2]:
                x0 = s.op("add", x0, x1)
                x1 = s.op("xor", x0, s.call("fshl", x1, x1, literal(r, "i32")))
            x0 = s.op("add", x0, keys[(group + 1) % 3])
            x1 = s.op("add", s.op("add", x1, keys[(group + 2) % 3]), literal(group + 1, "i32"))
        if index is None:
            return s.op("xor", x0, x1)
        first = s.compare("icmp eq", self.number_of(index, "i32"), literal(0, "i32"))
        return s.select(first, x0, x1)

    # -- memory

    def pointer(self, node: Node) -> Value:
        """The address of a node's buffer."""
        row = list(self.buffers).index(id(node)) if id(node) in self.buffers else len(self.buffers)
        self.buffers[id(node)] = node
        at = self.s.statement(f"getelementptr ptr, ptr %buffers, i64 {row}", "ptr", 0, False)
        return self.s.statement(f"load ptr, ptr {at}", "ptr", 0, False)

    def _address(self, node: Node, at: Value) -> Value:
        base = self.pointer(node)
        return self.s.statement(
            f"getelementptr {stored_kind(node.dtype)}, ptr {base}, i64 {at}", "ptr", at.level, False
        )

    def load(self, node: Node, flat: Index) -> Value:
        """The element of a buffer at a row-major position."""
        kind = stored_kind(node.dtype)
        if not self.is_wide(flat) or self.s.lanes == 1:
            at = self.place(flat)
            value = self.s.statement(
                f"load {kind}, ptr {self._address(node, at)}, align {node.dtype.itemsize}", kind, at.level, False
            )
            value.wide = self.is_wide(flat)
        else:
            value = self._load_lanes(node, flat, kind)
        return self._truth(value) if node.dtype is bool_ else value

    def _load_lanes(self, node: Node, flat: Index, kind: str) -> Value:
        s, name = self.s, self._name_of_lanes(flat)
        whole = s.type_of(kind, True)
        if name is not None:
            split = flat.split(name)
            assert split is not None
            at, step = self.place(flat), split[1]
            if step == 1:
                return s.statement(
                    f"load {whole}, ptr {self._address(node, at)}, align {node.dtype.itemsize}", kind, at.level, True
                )
            places = [at if not k else s.op("add", at, literal(k * step, "i64")) for k in range(s.lanes)]
        else:
            wide = self.number_of(flat, self._kind(flat))
            whole_index = s.type_of(wide.kind, True)
            parts = [
                s.statement(f"extractelement {whole_index} {wide}, i32 {k}", wide.kind, wide.level, False)
                for k in range(s.lanes)
            ]
            places = [p if p.kind == "i64" else s.convert("sext", p, "i64") for p in parts]
        result: Value | str = "poison"
        for k, at in enumerate(places):
            one = s.statement(
                f"load {kind}, ptr {self._address(node, at)}, align {node.dtype.itemsize}", kind, at.level, False
            )
            result = s.statement(f"insertelement {whole} {result}, {kind} {one}, i32 {k}", kind, at.level, True)
        assert isinstance(result, Value)
        return result

    def _truth(self, stored: Value) -> Value:
        return self.s.compare("icmp ne", stored, literal(0, "i8"))

    def store(self, node: Node, flat: Index, value: Value, level: int) -> None:
        """Store an element, or the lanes of a vector, to a buffer, after the statements of a level."""
        s = self.s
        if node.dtype is bool_:
            value = s.convert("zext", value, "i8")
        wide = self.is_wide(flat)
        if wide and s.lanes > 1:
            split = flat.split(str(self._name_of_lanes(flat)))
            assert split is not None
            assert split[1] == 1, "results lie one after the other"
        address = self._address(node, self.place(flat))
        whole = s.type_of(value.kind, wide)
        s.lines[level].append(f"store {whole} {s.text(value, wide)}, ptr {address}, align {node.dtype.itemsize}")
