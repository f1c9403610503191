"""The row archetype: reductions along rows with maps between and after them, in one dispatch.

A workgroup processes `rows` rows with `width` threads each, which loop over the row by elements, or by vec4s where memory permits.
Independent reductions share a loop over the row; the threads' partial results are combined in workgroup memory. Then one thread writes the
scalars of the row, and a last loop writes its vectors. A short loop is unrolled, and its loaded or computed values stay in registers for
the next loop. If the reduced axis is not the innermost (sums over a batch), neighbouring threads process neighbouring rows, so that memory
accesses are coalesced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...graph.index import Index, opaque, variable
from ...graph.node import Node
from ...symbolic_sizes import hint
from ..choices import Choice, RowChoice
from ..groups import Group, reduce_index, row_position, row_recorder
from ..kernel import Rendered, finish, indent, workgroup_index
from ..puller import Indices, lane_variable
from ..render import Renderer
from .functions import narrowed

BLOCK = 32  # elements that a thread adds before it adds them to its total, to keep precision in long sums
TOGETHER = 4  # reductions that are combined between the same two barriers


def render_row(group: Group, choice: Choice, r: Renderer) -> Rendered:
    """The kernel of a row group, or of several that share a dispatch: each takes a range of workgroups."""
    parts = group.parts or [group]
    own = [part for part in choice.parts if isinstance(part, RowChoice)]
    threads = own[0].threads
    counts = [-(-part.outer // (of.columns * of.rows)) for part, of in zip(parts, own, strict=True)]
    total = sum(counts)
    index = workgroup_index(total, choice)
    partials: dict[str, str] = {}
    body: list[str] = []
    flops = start = 0
    if len(parts) == 1:
        flops = RowKernel(group, own[0], r, partials).render(index)
        body = r.scopes[0].lines
    else:
        for part, of, count in zip(parts, own, counts, strict=True):
            r.open("o")
            flops += RowKernel(part, of, r, partials).render(f"(wg - {start})")
            body += [f"if (wg >= {start} && wg < {start + count}) {{", *indent(r.close()), "}"]
            start += count
        body = [f"let wg = {index};", *r.scopes[0].lines, *body]
    globals_ = "".join(f"var<workgroup> {name}: array<{wgsl}, {threads}>;\n" for name, wgsl in partials.items())
    shapes = [f"{part.outer} rows of {part.inner}" for part in parts]
    shape = " + ".join(shapes) if len(parts) <= 2 else f"{len(parts)} parts, {sum(p.outer for p in parts)} rows"
    return finish(
        r, group, choice, threads=threads, workgroups=total, body=body, globals_=globals_, shape=shape, flops=flops
    )


@dataclass
class Place:
    """The element, or four, of its row that a thread processes; ok: the condition that it exists, None if it always does."""

    element: Index
    ok: str | None = None


class RowKernel:
    """The statements of one row group. partials: the arrays in workgroup memory that parts share, type by name."""

    def __init__(self, group: Group, choice: RowChoice, r: Renderer, partials: dict[str, str]) -> None:
        self.group, self.r, self.partials = group, r, partials
        self.rows, self.width, self.lanes = choice.rows, choice.width, choice.lanes
        self.alone, self.one_stage, self.unrolled = choice.alone, choice.one_stage, choice.unrolled
        self.columns, self.outer = choice.columns, group.outer // choice.columns
        self.vector = self.lanes > 1 or self.columns > 1
        self.o = variable("o", self.outer)
        if self.columns > 1:
            self.o = self.o * self.columns + lane_variable()
        self.steps = group.inner // self.lanes
        self.rounds = -(-hint(self.steps) // self.width)
        self.results: dict[int, str] = {}

    def render(self, index: str) -> int:
        """Writes the statements, with `index` the number of the workgroup in the group; returns the operation count."""
        group, r = self.group, self.r
        trailing, rows, width = group.trailing, self.rows, self.width
        of_thread = "0" if rows == 1 else f"i32(lid) / {width}" if trailing else f"i32(lid) % {rows}"
        place = f"i32(lid) % {width}" if trailing else f"i32(lid) / {rows}"
        if self.alone:
            place = "min(i32(lid), 0)"  # no driver knows that it is 0: loops are not written out, and compile in a ninth of the time
        r.line(f"let row = {index} * {rows} + {of_thread};")
        r.line(f"let place = {place};")
        if self.outer > 1:
            r.line(f"let o = min(row, {self.outer - 1});")
        for reduce in group.reduces:
            r.local[id(reduce)] = self._result_of(reduce)
        places = list(self._places()) if self.unrolled else []
        for level in _levels(group, r):
            for first in range(0, len(level), TOGETHER):
                self._reduce(level[first : first + TOGETHER], places)
        self._write(places)
        return _flops(group, r)

    def _result_of(self, reduce: Node):
        def read(index: Indices) -> str | None:
            result = self.results[id(reduce)]
            return result if self.columns == 1 or self.r.lane is None else f"{result}.{'xyzw'[self.r.lane]}"

        return read

    # -- the walk along a row

    def _element(self, step: Index) -> Index:
        return step * self.lanes + lane_variable() if self.lanes > 1 else step

    def _places(self) -> Iterator[Place]:
        """The positions of all iterations, with names."""
        for k in range(self.rounds):
            text, name = f"place + {k * self.width}" if k else "place", f"step{k}"
            ok = None
            if (k + 1) * self.width > self.steps:
                ok = f"inside{k}"
                self._let(ok, f"{text} < {self.steps}")
                text = f"min({text}, {self.steps - 1})"
            if self.steps > 1:
                self._let(name, text)
            yield Place(self._element(opaque(name, 0, self.steps - 1) if self.steps > 1 else variable(name, 1)), ok)

    def _let(self, name: str, text: str) -> None:
        """A name within the part."""
        self.r.line(f"let {name} = {text};")
        self.r.depth[name] = len(self.r.scopes) - 1

    # -- reductions

    def _reduce(self, level: list[Node], places: list[Place]) -> None:
        """One loop along the row for these reductions, and their results."""
        r, group = self.r, self.group
        accumulators = [f"acc{group.reduces.index(n)}" for n in level]
        self._start(level, accumulators)
        for name in accumulators:  # values computed from results stay within the part
            r.depth[name] = r.depth[name.replace("acc", "s")] = len(r.scopes) - 1
        if self.unrolled:
            for place in places:
                self._add(level, accumulators, place)
        else:
            self._loop(level, accumulators)
        totals = [self._across(node, acc) for node, acc in zip(level, accumulators, strict=True)]
        if self.width > 1:
            totals = self._join(level, totals)
        for node, total in zip(level, totals, strict=True):
            result = self.results[id(node)] = narrowed(total, node.dtype, self.columns > 1)
            if self.columns > 1:
                r.vectors.add(result)
            else:
                r.vectors.discard(result)  # the name may be a vector's in another part

    def _start(self, level: list[Node], names: list[str], space: str = "") -> None:
        """A variable for each reduction, with its identity."""
        for node, name in zip(level, names, strict=True):
            self.r.line(f"{space}var {name} = {self._identity(node)};")

    def _identity(self, node: Node) -> str:
        text = self.r.literal(node.primitive.identity(node.dtype), node.dtype)  # type: ignore[attr-defined]
        return f"vec4<{node.dtype.wgsl}>({text})" if self.vector else text

    def _add(self, level: list[Node], names: list[str], place: Place) -> None:
        """Adds the elements at a position to the accumulators."""
        r = self.r
        r.lanes = self.lanes * self.columns
        for node, acc in zip(level, names, strict=True):
            value = r.pull(node.inputs[0], reduce_index(node, self.o, place.element))
            if self.vector:
                value = r.as_vector(value, node.dtype)
            if place.ok is not None:
                value = f"select({self._identity(node)}, {value}, {place.ok})"
            r.line(f"{acc} = {self._combined(node, acc, value, self.vector)};")
        r.lanes = 1

    def _loop(self, level: list[Node], accumulators: list[str]) -> None:
        """A loop of many iterations; very many are blocked."""
        r, steps, width = self.r, self.steps, self.width
        blocks = self.rounds > 2 * BLOCK
        names = [f"block_{acc}" if blocks else acc for acc in accumulators]
        r.open("r")
        self._add(level, names, Place(self._element(variable("r", steps))))
        lines = r.close()
        if not blocks:
            _append(r, [f"for (var r = place; r < {steps}; r += {width}) {{", *indent(lines), "}"])
            return
        r.line(f"for (var block = place; block < {steps}; block += {BLOCK * width}) {{")
        self._start(level, names, "  ")
        r.line(f"  for (var r = block; r < min(block + {BLOCK * width}, {steps}); r += {width}) {{")
        _append(r, [*indent(lines, 2), "  }"])
        for node, acc, part in zip(level, accumulators, names, strict=True):
            r.line(f"  {acc} = {self._combined(node, acc, part, self.vector)};")
        r.line("}")

    def _combined(self, node: Node, a: str, b: str, vector: bool = False) -> str:
        text = node.primitive.expression(node.dtype).format(a=a, b=b)  # type: ignore[attr-defined]
        return self.r.use_functions(text, vector, node.primitive.name)

    def _across(self, node: Node, acc: str) -> str:
        """The result of a thread: its accumulator reduced over the four lanes."""
        if self.lanes == 1:
            return acc
        for name, low, high in (("low", "x", "y"), ("high", "z", "w")):
            self._let(f"{acc}_{name}", self._combined(node, f"{acc}.{low}", f"{acc}.{high}"))
        self._let(f"{acc}_all", self._combined(node, f"{acc}_low", f"{acc}_high"))
        return f"{acc}_all"

    def _join(self, level: list[Node], totals: list[str]) -> list[str]:
        """Combines the results of a row's threads, first of neighbours and then of all: every thread adds the same numbers in
        the same order. Two barriers protect every array from being overwritten while it is read.
        """
        r, group, width = self.r, self.group, self.width
        near = 1 << (width.bit_length() // 2)
        stride = 1 if group.trailing else self.rows
        r.line(f"let first{group.reduces.index(level[0])} = i32(lid) - place * {stride};")
        first = f"first{group.reduces.index(level[0])}"
        if self.one_stage:
            return self._join_in_one_stage(level, totals, first, near, stride)
        for stage, (count, step) in enumerate(((near, 1), (width // near, near))):
            arrays = [self._array(node, k, stage) for k, node in enumerate(level)]
            for array, total in zip(arrays, totals, strict=True):
                r.line(f"{array}[lid] = {total};")
            r.line("workgroupBarrier();")
            begin = f"place / {near} * {near * stride}" if stage == 0 else "0"
            totals = [
                self._added(node, array, f"{first} + {begin}", count, step * stride, stage)
                for node, array in zip(level, arrays, strict=True)
            ]
        return totals

    def _join_in_one_stage(self, level: list[Node], totals: list[str], first: str, near: int, stride: int) -> list[str]:
        """The same sums in one stage: half the memory, for more reads."""
        r, group = self.r, self.group
        if self.results:
            r.line("workgroupBarrier();")  # the arrays have been read
        arrays = [self._array(node, k, 0) for k, node in enumerate(level)]
        for array, total in zip(arrays, totals, strict=True):
            r.line(f"{array}[lid] = {total};")
        r.line("workgroupBarrier();")
        found = []
        for node, array in zip(level, arrays, strict=True):
            cells = [f"{array}[{first} + {k * stride}]" for k in range(self.width)]
            sums = [f"({self._of_all(node, cells[k : k + near])})" for k in range(0, self.width, near)]
            found.append(f"s{group.reduces.index(node)}")
            self._let(found[-1], self._of_all(node, sums))
        return found

    def _array(self, node: Node, k: int, stage: int) -> str:
        name = f"{('near', 'far')[stage]}_{node.dtype.wgsl}_{k}"
        self.partials[name] = str(node.dtype.wgsl)
        return name

    def _added(self, node: Node, array: str, first: str, count: int, step: int, stage: int) -> str:
        """`count` numbers of an array, `step` apart."""
        number = self.group.reduces.index(node)
        name = f"s{number}" if stage else f"near{number}"
        begin = f"{name}_at"
        self.r.line(f"let {begin} = {first};")
        self._let(
            name,
            self._of_all(node, [f"{array}[{begin}]", *(f"{array}[{begin} + {k * step}]" for k in range(1, count))]),
        )
        return name

    def _of_all(self, node: Node, terms: list[str]) -> str:
        text = terms[0]
        for term in terms[1:]:
            text = self._combined(node, text, term)
        return text

    # -- results

    def _write(self, places: list[Place]) -> None:
        """Scalars by the first thread of a row, vectors by all."""
        r, group = self.r, self.group
        scalars = [n for n in group.roots if n.size == group.outer]
        vectors = [n for n in group.roots if n.size != group.outer]
        if scalars:
            r.lanes = self.columns
            r.open()
            for root in scalars:
                self._store(root, variable("r", group.inner))
            lines = r.close()
            r.lanes = 1
            condition = f"row < {self.outer}" + (" && place == 0" if self.width > 1 else "")
            _append(r, [f"if ({condition}) {{", *indent(lines), "}"])
        if not vectors:
            return
        r.lanes = self.lanes
        lines = []
        if self.unrolled:
            for place in places:
                r.open()
                for root in vectors:
                    self._store(root, place.element)
                found = r.close()
                lines += found if place.ok is None else [f"if ({place.ok}) {{", *indent(found), "}"]
        else:
            r.open("r")
            for root in vectors:
                self._store(root, self._element(variable("r", self.steps)))
            lines = [f"for (var r = place; r < {self.steps}; r += {self.width}) {{", *indent(r.close()), "}"]
        r.lanes = 1
        _append(r, [f"if (row < {group.outer}) {{", *indent(lines), "}"])

    def _store(self, root: Node, element: Index) -> None:
        """Compute a root and write it."""
        position = row_position(root, self.group.outer, self.group.inner).substitute({"r": element, "o": self.o})
        self.r.store(root, position, self.r.pull_flat(root, position))


def _levels(group: Group, r: Renderer) -> list[list[Node]]:
    """Reductions in rounds: each depends only on those of earlier rounds."""
    level: dict[int, int] = {}
    inside = {id(n) for n in group.reduces}
    for reduce in group.reduces:
        seen: set[int] = set()
        stack = list(reduce.inputs)
        depth = 0
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if id(node) in inside:
                depth = max(depth, level[id(node)] + 1)
            elif not r.is_buffer(node):
                stack.extend(node.inputs)
        level[id(reduce)] = depth
    return [[n for n in group.reduces if level[id(n)] == k] for k in range(max(level.values()) + 1)]


def _append(r: Renderer, lines: list[str]) -> None:
    for line in lines:
        r.line(line)


def _flops(group: Group, r: Renderer) -> int:
    recorder = row_recorder(group, r.is_buffer)
    o, element = variable("o", group.outer), variable("r", group.inner)
    for node in group.reduces:
        recorder.pull(node.inputs[0], reduce_index(node, o, element))
    return (recorder.cost + len(group.reduces)) * group.outer * group.inner
