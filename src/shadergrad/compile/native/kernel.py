"""From a group to a function in LLVM IR: `void kernel(ptr buffers, i64 begin, i64 end)` computes rows, or elements, from begin to end.

A row kernel makes one pass along its rows for each round of reductions, and stores a result as soon as its operands are known. Sums of floats
accumulate in float64 in each lane, then the lanes are added pairwise. So the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...dtypes import DType
from ...graph.index import unflatten, variable
from ...graph.node import Node
from ...primitives.reduce import ReduceMax, ReduceMin, ReduceSum
from ..groups import Group, reduce_index, row_position
from . import rules
from .domain import Domain
from .function_text import function_text
from .values import Value, kind_of, literal
from .writer import Variable, Writer


@dataclass(frozen=True)
class Written:
    """A function: its text, the nodes whose buffers it takes, in order, and how it iterates."""

    text: str
    buffers: tuple[Node, ...]
    domain: Domain


def serves_reduction(node: Node) -> bool:
    """Whether a reduction has a kernel."""
    return isinstance(node.primitive, ReduceSum | ReduceMax | ReduceMin)


def write(group: Group, domain: Domain, is_buffer: Callable[[Node], bool]) -> Written:
    """The function of a group."""
    return _Kernel(group, domain, is_buffer).write()


class _Kernel:
    def __init__(self, group: Group, domain: Domain, is_buffer: Callable[[Node], bool]) -> None:
        own = {id(n) for n in group.nodes}
        self.group, self.domain = group, domain
        self.w = Writer(lambda n: id(n) not in own and is_buffer(n), {}, domain.lanes)
        self.s = self.w.s
        self.is_buffer = self.w.is_buffer
        self.code: list[str] = []  # of the loop over rows
        self.allocations: list[str] = []
        self.label = "row"

    def write(self) -> Written:
        if self.domain.flat:
            self._flat()
        else:
            self._rows()
        body = [*self.allocations, *self.s.lines[0], *self.code]
        text = function_text(body, sorted(self.s.declared))
        return Written(text, tuple(self.w.buffers.values()), self.domain)

    # -- one row of any length

    def _flat(self) -> None:
        lanes = self.domain.lanes
        register = "%r" if lanes > 1 else "%r.at"
        self.w.variables = {"r": Variable(register, 3, wide=True)}
        for root in self.group.roots:
            self._store(root, 3)
        body = [*self.s.lines[1], *self.s.lines[2], *self.s.lines[3]]
        last = [f"%r.last = sub i64 %end, {lanes}"] if lanes > 1 else []
        self.code = [
            *last,
            "br label %loop",
            "loop:",
            "%r.at = phi i64 [ %begin, %entry ], [ %r.next, %loop ]",
            *self._least("%r", "%r.at", "%r.last"),
            *body,
            f"%r.next = add i64 %r.at, {lanes}",
            "%r.more = icmp slt i64 %r.next, %end",
            "br i1 %r.more, label %loop, label %done",
            "done:",
            "ret void",
        ]

    def _least(self, name: str, at: str, last: str) -> list[str]:
        """The first element of a vector; the last vector ends with the row."""
        if self.domain.lanes == 1:
            return []
        return [f"{name}.past = icmp sgt i64 {at}, {last}", f"{name} = select i1 {name}.past, i64 {last}, i64 {at}"]

    # -- rows

    def _rows(self) -> None:
        domain, group = self.domain, self.group
        step = domain.lanes if domain.columns else 1
        row = "%o" if step > 1 or not domain.columns else "%o.at"
        if not domain.columns:
            row = "%o.at"
        self.w.variables = {"o": Variable(row, 1, wide=domain.columns)}
        depth = self._depths()
        rounds = max((depth[id(n)] for n in group.reduces), default=-1) + 1
        vectors = [root for root in group.roots if root.size != domain.outer]
        for k in range(rounds + 1):
            reduces = [n for n in group.reduces if depth[id(n)] == k]
            roots = [root for root in vectors if depth[id(root)] == k]
            if reduces:
                self._pass(f"{k}", reduces, roots, 0, domain.inner)
            elif roots:
                for n, (begin, end) in enumerate(domain.pieces):
                    self._pass(f"{k}.{n}", [], roots, begin, end)
        for root in group.roots:
            if root.size == domain.outer:
                self._store(root, 1)
        self._flush()
        last = [f"%o.last = sub i64 %end, {step}"] if domain.columns and step > 1 else []
        self.code = [
            *last,
            "br label %row",
            "row:",
            f"%o.at = phi i64 [ %begin, %entry ], [ %o.next, %{self.label} ]",
            *(self._least("%o", "%o.at", "%o.last") if domain.columns else []),
            *self.code,
            f"%o.next = add i64 %o.at, {step}",
            "%o.more = icmp slt i64 %o.next, %end",
            "br i1 %o.more, label %row, label %done",
            "done:",
            "ret void",
        ]

    def _depths(self) -> dict[int, int]:
        """The round of each reduction and root: after the rounds of the reductions that it reads."""
        depth: dict[int, int] = {}
        inside = {id(n) for n in self.group.reduces}
        for node in (*self.group.reduces, *self.group.roots):
            found, seen = 0, set[int]()
            stack = list(node.inputs) if id(node) in inside else [node]
            while stack:
                below = stack.pop()
                if id(below) in seen:
                    continue
                seen.add(id(below))
                if id(below) in inside:
                    found = max(found, depth[id(below)] + 1)
                elif not self.w.is_buffer(below):
                    stack.extend(below.inputs)
            depth[id(node)] = found
        return depth

    def _flush(self) -> None:
        """Move the statements of the row level into the code, before the next loop."""
        self.code += self.s.lines[1]
        self.s.lines[1] = []

    def _pass(self, k: str, reduces: list[Node], roots: list[Node], first: int, last: int) -> None:
        """A loop along a row, or a piece of it."""
        domain, lanes = self.domain, self.domain.lanes
        self.w.forget_loop()
        along = 1 if domain.columns else lanes  # elements of an iteration
        register = f"%r{k}" if along > 1 else f"%r{k}.at"
        self.w.variables |= {
            "s": Variable(f"%s{k}", 2),
            "r": Variable(register, 3, wide=not domain.columns),
        }
        sums = [self._accumulate(node, f"%sum{k}.{n}", k) for n, node in enumerate(reduces)]
        for root in roots:
            self._store(root, 3, first, last)
        self._flush()
        before, begin, loop, latch, end = self.label, f"p{k}", f"p{k}.loop", f"p{k}.latch", f"p{k}.end"
        ends = [] if along == 1 else self._least(register, f"{register}.at", str(last - first - lanes))
        self.code += [
            f"br label %{begin}",
            f"{begin}:",
            f"%s{k} = phi i64 [ 0, %{before} ], [ %s{k}.next, %{latch} ]",
            *self.s.lines[2],
            f"br label %{loop}",
            f"{loop}:",
            f"%r{k}.at = phi i64 [ 0, %{begin} ], [ %r{k}.next, %{loop} ]",
            *ends,
            *self.s.lines[3],
            f"%r{k}.next = add i64 %r{k}.at, {along}",
            f"%r{k}.more = icmp slt i64 %r{k}.next, {last - first}",
            f"br i1 %r{k}.more, label %{loop}, label %{latch}",
            f"{latch}:",
            f"%s{k}.next = add i64 %s{k}, 1",
            f"%s{k}.more = icmp slt i64 %s{k}.next, {domain.segments}",
            f"br i1 %s{k}.more, label %{begin}, label %{end}",
            f"{end}:",
        ]
        self.label = end
        self.w.forget_loop()
        for node, name in zip(reduces, sums, strict=True):
            self._finish(node, name)

    # -- reductions

    def _sum_kind(self, dtype: DType) -> str:
        return "double" if dtype.category == 2 else kind_of(dtype)

    def _accumulate(self, node: Node, name: str, k: str) -> str:
        """Combine the elements of an iteration with the accumulator."""
        s, domain = self.s, self.domain
        (x,) = node.inputs
        is_sum = isinstance(node.primitive, ReduceSum)
        kind = self._sum_kind(x.dtype) if is_sum else kind_of(x.dtype)
        start = literal(0 if is_sum else node.primitive.identity(x.dtype), kind)  # type: ignore[attr-defined]
        if not is_sum and x.dtype.category == 1:
            low, high = x.dtype.range
            start = literal(low if isinstance(node.primitive, ReduceMax) else high, kind)
        whole = s.type_of(kind, True)
        self.allocations.append(f"{name} = alloca {whole}, align 64")
        s.lines[1].append(f"store {whole} {s.text(start, True)}, ptr {name}, align 64")
        value = self.w.pull(x, reduce_index(node, domain.row, domain.element))
        if is_sum and value.kind == "float":
            value = s.convert("fpext", value, "double")
        before = Value(s.fresh(), kind, 3, wide=True)
        s.lines[3].append(f"{before} = load {whole}, ptr {name}, align 64")
        joined = self._joined(node, x.dtype, before, value)
        if not domain.columns and domain.inner % domain.lanes:
            joined = s.select(self._new_lanes(k), joined, before)
        s.lines[3].append(f"store {whole} {s.text(joined, True)}, ptr {name}, align 64")
        return name

    def _joined(self, node: Node, dtype: DType, a: Value, b: Value) -> Value:
        if isinstance(node.primitive, ReduceSum):
            return self.s.op("fadd" if dtype.category == 2 else "add", a, b)
        rule = rules.maximum if isinstance(node.primitive, ReduceMax) else rules.minimum
        return rule(self.s, dtype, [a, b])

    def _new_lanes(self, k: str) -> Value:
        """The lanes of a row's last vector that the vector before does not contain."""
        s = self.s
        done = s.op("sub", Value(f"%r{k}.at", "i64", 3), Value(f"%r{k}", "i64", 3))
        return s.compare("icmp sge", self.w.lane_numbers("i32"), s.convert("trunc", done, "i32"))

    def _finish(self, node: Node, name: str) -> None:
        """Combine the lanes of the accumulator into the result of a row."""
        s, (x,) = self.s, node.inputs
        is_sum = isinstance(node.primitive, ReduceSum)
        kind = self._sum_kind(x.dtype) if is_sum else kind_of(x.dtype)
        result = Value(s.fresh(), kind, 1, wide=True)
        s.lines[1].append(f"{result} = load {s.type_of(kind, True)}, ptr {name}, align 64")
        if not self.domain.columns:
            result = self._across(node, x.dtype, result)
        if result.kind != kind_of(node.dtype):
            result = s.convert("fptrunc", result, kind_of(node.dtype))
        self.w.local[id(node)] = lambda index: result

    def _across(self, node: Node, dtype: DType, value: Value) -> Value:
        """All lanes combined, by halves. The upper lanes of each shuffle are poison: when they repeated lanes, LLVM 22 with AVX-512 confused two lanes
        in a function with two integer reductions (tests/device/test_native_cpu.py)."""
        lanes, kind, whole = self.domain.lanes, value.kind, self.s.type_of(value.kind, True)
        s = self.s
        while lanes > 1:
            lanes //= 2
            order = [str(k + lanes) if k < lanes else "poison" for k in range(self.domain.lanes)]
            mask = f"<{self.domain.lanes} x i32> <{', '.join(f'i32 {k}' for k in order)}>"
            other = s.statement(f"shufflevector {whole} {value}, {whole} poison, {mask}", kind, 1, True)
            value = self._joined(node, dtype, value, other)
        if self.domain.lanes > 1:
            return s.statement(f"extractelement {whole} {value}, i32 0", kind, 1, False)
        return Value(str(value), kind, 1, wide=False)

    # -- results

    def _store(self, root: Node, level: int, first: int = 0, last: int = 0) -> None:
        """Write a result; if a row has pieces, its elements `first` to `last`."""
        domain = self.domain
        element = variable("r", last - first) + first if domain.cuts and level == 3 else domain.element
        position = row_position(root, domain.outer, domain.segments * domain.inner)
        position = position.substitute({"o": domain.row, "r": element})
        self.w.store(root, position, self.w.pull(root, unflatten(position, root.shape)), level)
