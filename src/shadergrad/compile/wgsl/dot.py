"""The dot archetype: a tiled matrix product whose operands are pulled and whose result goes through an epilogue.

A workgroup computes a bm x bn tile. Steps of bk along the contraction bring a tile of each operand into workgroup
memory, both with the contraction axis outermost; each thread keeps tm x tn sums in registers. Operands are fetched
four at a time along whichever of their axes is contiguous in memory, as index algebra shows; the loop over a step is
written out, for compilers get no hint to unroll it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...graph.index import Index, opaque, unflatten, variable
from ...graph.node import Node
from ...plan import Target
from ..fuse import Fuser, Group
from ..kernel import Rendered, finish, indent, workgroup_index
from ..render import LANE, LANES, Recorder, Renderer, lane_variable, narrowed


@dataclass(frozen=True)
class Tile:
    """bm x bn results a workgroup in steps of bk; tm x tn results a thread."""

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int

    @property
    def threads(self) -> int:
        return (self.bm // self.tm) * (self.bn // self.tn)

    @property
    def storage(self) -> int:
        """Bytes of workgroup memory."""
        return 4 * self.bk * (self.bm + self.bn)

    def fits(self, target: Target) -> bool:
        return self.threads <= target.max_workgroup_invocations and self.storage <= target.max_workgroup_storage

    def is_filled(self, m: int, n: int, part: int) -> bool:
        """Whether m x n results reach beyond 1 / part of the tile along both axes."""
        return m > self.bm // part and n > self.bn // part


TILES = (
    Tile(128, 128, 16, 8, 8),
    Tile(64, 64, 16, 8, 4),
    Tile(32, 32, 32, 4, 4),
    Tile(16, 16, 32, 4, 4),
)
# for contractions that a step of 32 would mostly pad, and for browsers, which compile a short text sooner
SHORT = (Tile(16, 16, 8, 4, 4), Tile(16, 16, 16, 4, 4))
UNROLLED = 4  # steps that are written out for browsers, where the rest is a loop; every tile is a multiple deep
ENOUGH_WORKGROUPS = 96  # with fewer, a large GPU idles: a smaller tile is better


def choose_tile(batch: int, m: int, n: int, k: int, target: Target) -> Tile:
    """The largest tile that still gives enough workgroups and is not mostly padding."""
    fitting = [t for t in TILES if t.fits(target)]
    for tile in fitting:
        workgroups = batch * -(-m // tile.bm) * -(-n // tile.bn)
        if workgroups >= ENOUGH_WORKGROUPS and tile.is_filled(m, n, 2):
            return tile
    tile = next((t for t in reversed(fitting) if t.is_filled(m, n, 4)), fitting[-1])
    return next((t for t in SHORT if k <= t.bk or not target.native), tile) if tile is TILES[-1] else tile


class DotKernel:
    """The state of rendering one product."""

    def __init__(self, group: Group, fuser: Fuser, renderer: Renderer, target: Target) -> None:
        assert group.dot is not None
        self.group, self.r, self.target = group, renderer, target
        self.dot = group.dot
        self.batch, self.m, self.k = self.dot.inputs[0].shape
        self.n = self.dot.shape[2]
        self.tile = choose_tile(self.batch, self.m, self.n, self.k, target)
        self.is_float = self.dot.dtype.category == 2
        self.element = str(self.dot.dtype.wgsl)

    def render(self) -> Rendered:
        t, r = self.tile, self.r
        tiles_m, tiles_n = -(-self.m // t.bm), -(-self.n // t.bn)
        workgroups = self.batch * tiles_m * tiles_n
        across = t.bn // t.tn
        r.lanes = LANES
        r.line(f"let wg = {workgroup_index(workgroups, self.target)};")
        r.line(f"let n0 = (wg % {tiles_n}) * {t.bn};")
        r.line(f"let m0 = ((wg / {tiles_n}) % {tiles_m}) * {t.bm};")
        if self.batch > 1:
            r.line(f"let b = wg / {tiles_n * tiles_m};")
        r.line("let id = i32(lid);")
        r.line(f"let tm = id / {across};")
        r.line(f"let tn = id % {across};")
        for i in range(t.tm):
            for j in range(t.tn // LANES):
                r.line(f"var c_{i}_{j} = vec4<{self.element}>();")
        operands = self._loop()
        self._epilogue()
        globals_ = "".join(operand.declaration() for operand in operands)
        shape = (
            f"{self.batch} x " * (self.batch > 1) + f"{self.m} x {self.n} x {self.k} (tile {t.bm} x {t.bn} x {t.bk})"
        )
        return finish(
            r,
            self.group,
            self.target,
            threads=t.threads,
            workgroups=workgroups,
            body=r.scopes[0].lines,
            globals_=globals_,
            shape=shape,
            flops=2 * self.batch * self.m * self.n * self.k,
        )

    # -- the loop over the contraction

    def _loop(self) -> tuple[Operand, Operand]:
        """Each step stores the tiles fetched before, starts fetching the next ones, and multiplies meanwhile."""
        t, r = self.tile, self.r
        a, b = self.dot.inputs
        operands = (
            self._operand(a, "a", self.m, t.bm, "m0", lambda f, k: (self._batch_index(), f, k)),
            self._operand(b, "b", self.n, t.bn, "n0", lambda f, k: (self._batch_index(), k, f)),
        )
        for operand in operands:
            for part in range(operand.parts):
                r.line(f"var {operand.register(part)} = vec4<{self.element}>();")
        r.line("var k0 = 0;")
        self._fetch_into_registers(operands, "{")
        r.line(f"for (var k = 0; k < {self.k}; k += {t.bk}) {{")
        r.open()
        for operand in operands:
            for line in operand.store():
                r.line(line)
        r.line("workgroupBarrier();")
        if self.k > t.bk:
            r.line(f"k0 = k + {t.bk};")
            self._fetch_into_registers(operands, f"if (k0 < {self.k}) {{")
        self._multiply(*operands)
        r.line("workgroupBarrier();")
        for line in indent(r.close()):
            r.line(line)
        r.line("}")
        return operands

    def _fetch_into_registers(self, operands: tuple[Operand, ...], head: str) -> None:
        self.r.open("k0")
        for operand in operands:
            operand.fetch()
        lines = self.r.close()
        self.r.line(head)
        for line in indent(lines):
            self.r.line(line)
        self.r.line("}")

    def _multiply(self, a: Operand, b: Operand) -> None:
        t, r = self.tile, self.r
        if self.target.native:
            for step in range(t.bk):
                self._multiply_step(a, b, str(step), step)
            return
        r.line(f"for (var step = 0; step < {t.bk}; step += {UNROLLED}) {{")
        r.open()
        for step in range(UNROLLED):
            self._multiply_step(a, b, str(step), f"(step + {step})" if step else "step")
        lines = indent(r.close())
        for line in lines:
            r.line(line)
        r.line("}")

    def _multiply_step(self, a: Operand, b: Operand, name: str, step: int | str) -> None:
        """Products of one place along the contraction; `step` is its number, or the text of it."""
        t, r = self.tile, self.r

        def at(tile: int, part: int, each: int, thread: str) -> str:
            row = (
                f"{step * tile // LANES + part * each}"
                if isinstance(step, int)
                else f"{step} * {tile // LANES} + {part * each}"
            )
            return f"{row} + {thread}"

        for i in range(t.tm // LANES):
            r.line(f"let a_{name}_{i} = {a.quad(at(t.bm, i, t.bm // t.tm, 'tm'))};")
        for j in range(t.tn // LANES):
            r.line(f"let b_{name}_{j} = {b.quad(at(t.bn, j, t.bn // t.tn, 'tn'))};")
        for i in range(t.tm):
            for j in range(t.tn // LANES):
                r.line(self._multiply_add(f"c_{i}_{j}", f"a_{name}_{i // LANES}[{i % LANES}]", f"b_{name}_{j}"))

    def _multiply_add(self, c: str, a: str, b: str) -> str:
        if self.is_float:
            return f"{c} = fma(vec4<{self.element}>({a}), {b}, {c});"
        return f"{c} = {c} + {a} * {b};"

    def _batch_index(self) -> Index:
        return variable("b", self.batch)

    def _operand(self, node: Node, name: str, free: int, tile_free: int, start: str, index: IndexOf) -> Operand:
        along = self._contiguous_axis(node, free, index)
        return LOADERS[along](self, node, name, free, tile_free, start, index)

    def _contiguous_axis(self, operand: Node, free: int, index: IndexOf) -> str:
        """Along which axis four neighbours are one load: k, free, or neither (then which is nearer in memory)."""
        k_quads = index(variable("f", free), variable("q", -(-self.k // LANES)) * LANES + lane_variable())
        free_quads = index(variable("q", -(-free // LANES)) * LANES + lane_variable(), variable("k", self.k))
        if self.k % LANES == 0 and self._reads_quads(operand, k_quads):
            return "k"
        if free % LANES == 0 and self._reads_quads(operand, free_quads):
            return "free"
        recorder = Recorder(self.r.is_buffer)
        recorder.pull(operand, index(variable("f", free), variable("k", self.k)))
        splits = [flat.split("k") for _, flat in recorder.reads]
        return "scalar k" if any(s is not None and s[1] == 1 for s in splits) else "scalar free"

    def _reads_quads(self, operand: Node, index: tuple[Index, ...]) -> bool:
        recorder = Recorder(self.r.is_buffer)
        recorder.pull(operand, index)
        splits = [flat.split(LANE) for _, flat in recorder.reads]
        if not splits or not any(s is not None and s[1] == 1 for s in splits):
            return False
        return all(s is not None and (s[1] == 0 or (s[1] == 1 and s[0].divisible(LANES))) for s in splits)

    def known(self, text: str, size: int, prefix: str) -> Index:
        """A name for an index expression within an axis, in the present scope."""
        return opaque(self.r.define(text, self._depth(text), prefix=prefix), 0, max(size - 1, 0))

    def clamped(self, text: str, size: int, exact: bool, prefix: str) -> tuple[Index, str | None]:
        """(index, condition): past the end of the axis the index stays inside and the condition is false."""
        if exact:
            return self.known(text, size, prefix), None
        raw = self.r.define(text, self._depth(text), prefix=prefix)
        condition = self.r.define(f"{raw} < {size}", self._depth(raw), prefix="ok")
        return self.known(f"min({raw}, {size - 1})", size, prefix), condition

    def _depth(self, text: str) -> int:
        """Where a text over names can be computed: outside the loop, unless it depends on the step."""
        return max((self.r.depth.get(word, 0) for word in re.findall(r"[A-Za-z_]\w*", text)), default=0)

    # -- the results

    def _epilogue(self) -> None:
        """Write tm x tn results a thread, four at a time where rows are a multiple of four."""
        t, r = self.tile, self.r
        rows, across = t.bm // t.tm, t.bn // t.tn
        vector = self.n % LANES == 0
        r.lanes = LANES if vector else 1
        for j in range(t.tn // LANES):
            r.line(f"let n_{j} = n0 + ({j * across} + tn) * {LANES};")
        for i in range(t.tm):
            r.line(f"let m_{i} = m0 + ({i // LANES * rows} + tm) * {LANES} + {i % LANES};")
            for j in range(t.tn // LANES):
                for e in range(1 if vector else LANES):
                    self._result(i, j, e, vector)

    def _result(self, i: int, j: int, e: int, vector: bool) -> None:
        r, t = self.r, self.tile
        checks = []
        if self.m % t.bm:
            checks.append(f"m_{i} < {self.m}")
        if self.n % t.bn:
            checks.append(f"n_{j} < {self.n}" if vector else f"n_{j} + {e} < {self.n}")
        r.open(f"m_{i}")  # nothing that depends on m may leave the guard
        m = opaque(f"m_{i}", 0, self.m - 1)
        if vector:
            n = self.known(f"n_{j} / {LANES}", self.n // LANES, "q") * LANES + lane_variable()
        else:
            n = self.known(f"n_{j} + {e}" if e else f"n_{j}", self.n, "column")
        value = narrowed(f"c_{i}_{j}" if vector else f"c_{i}_{j}[{e}]", self.dot.dtype, vector)
        if vector:
            r.vectors.add(value)
        r.local[id(self.dot)] = lambda index: value
        flat = (self._batch_index() * self.m + m) * self.n + n
        values = [(root, r.pull(root, unflatten(flat, root.shape))) for root in self.group.roots]
        for root, result in values:
            r.store(root, flat, result)
        lines = r.close()
        r.line(f"if ({' && '.join(checks)}) {{" if checks else "{")
        for line in indent(lines):
            r.line(line)
        r.line("}")


IndexOf = Callable[[Index, Index], tuple[Index, ...]]  # from (free axis, k) to an index into the operand


@dataclass
class Operand:
    """A tile of an operand on its way: fetched into registers, four values a thread and part, then stored as
    [k][free axis] in workgroup memory. tile_free: the tile's size along the free axis, which starts at `start`."""

    kernel: DotKernel
    node: Node
    name: str
    free: int
    tile_free: int
    start: str
    index: IndexOf

    @property
    def quads(self) -> int:
        return self.kernel.tile.bk * self.tile_free // LANES

    @property
    def parts(self) -> int:
        assert self.quads % self.kernel.tile.threads == 0, "a tile must be a whole number of fetches"
        return self.quads // self.kernel.tile.threads

    def register(self, part: int) -> str:
        return f"next_{self.name}_{part}"

    def place(self, text: str) -> str:
        """A name, outside the loop, for where a thread's part lies in the tile."""
        return self.kernel.r.define(text, 0)

    def thread(self, part: int) -> str:
        return f"(id + {part * self.kernel.tile.threads})" if part else "id"

    def zeroed(self, value: str, condition: str | None) -> str:
        """The value, or zero past the end of the contraction."""
        value = self.kernel.r.as_vector(value, self.kernel.dot.dtype)
        return value if condition is None else f"select(vec4<{self.kernel.element}>(), {value}, {condition})"

    def fetch(self) -> None:
        """Statements that load all parts into registers."""
        raise NotImplementedError

    def store(self) -> list[str]:
        """Statements that move the registers to workgroup memory."""
        raise NotImplementedError

    # -- the tile in workgroup memory

    writes_components = True  # a thread has four values that lie apart in the tile, beside those of other threads

    @property
    def holds_numbers(self) -> bool:
        """Whether the tile is an array of numbers and not of vec4s, so that threads cannot race."""
        return self.writes_components and not self.kernel.target.native

    def declaration(self) -> str:
        count = self.kernel.tile.bk * self.tile_free
        element = self.kernel.element
        kind = f"array<{element}, {count}>" if self.holds_numbers else f"array<vec4<{element}>, {count // LANES}>"
        return f"var<workgroup> tile_{self.name}: {kind};\n"

    def quad(self, at: str) -> str:
        """Four neighbours of the tile, by the number of their vec4."""
        if not self.holds_numbers:
            return f"tile_{self.name}[{at}]"
        parts = (f"tile_{self.name}[({at}) * {LANES} + {e}]" for e in range(LANES))
        return f"vec4<{self.kernel.element}>({', '.join(parts)})"

    def write_component(self, step: str, row: str, value: str) -> str:
        """The statement that puts a value into the tile."""
        if self.holds_numbers:
            return f"tile_{self.name}[({step}) * {self.tile_free} + {row}] = {value};"
        return f"tile_{self.name}[{step} * {self.tile_free // LANES} + {row} / {LANES}][{row} % {LANES}] = {value};"


class AlongK(Operand):
    """Four neighbours along k are one load."""

    def places(self, part: int) -> tuple[str, str]:
        per_row = self.kernel.tile.bk // LANES
        return self.place(f"{self.thread(part)} / {per_row}"), self.place(f"{self.thread(part)} % {per_row}")

    def fetch(self) -> None:
        d = self.kernel
        for part in range(self.parts):
            row, quad = self.places(part)
            f, _ = d.clamped(f"{self.start} + {row}", self.free, self.free % self.tile_free == 0, "free")
            q, ok = d.clamped(f"k0 / {LANES} + {quad}", d.k // LANES, d.k % d.tile.bk == 0, "q")
            value = d.r.pull(self.node, self.index(f, q * LANES + lane_variable()))
            d.r.line(f"{self.register(part)} = {self.zeroed(value, ok)};")

    def store(self) -> list[str]:
        lines = []
        for part in range(self.parts):
            row, quad = self.places(part)
            for e in range(LANES):
                step = f"({quad} * {LANES} + {e})"
                lines.append(self.write_component(step, row, f"{self.register(part)}[{e}]"))
        return lines


class AlongFree(Operand):
    """Four neighbours along the free axis are one load."""

    writes_components = False

    def places(self, part: int) -> tuple[str, str]:
        per_row = self.tile_free // LANES
        return self.place(f"{self.thread(part)} / {per_row}"), self.place(f"{self.thread(part)} % {per_row}")

    def fetch(self) -> None:
        d = self.kernel
        for part in range(self.parts):
            step, quad = self.places(part)
            q, _ = d.clamped(
                f"{self.start} / {LANES} + {quad}", self.free // LANES, self.free % self.tile_free == 0, "q"
            )
            k, ok = d.clamped(f"k0 + {step}", d.k, d.k % d.tile.bk == 0, "step")
            value = d.r.pull(self.node, self.index(q * LANES + lane_variable(), k))
            d.r.line(f"{self.register(part)} = {self.zeroed(value, ok)};")

    def store(self) -> list[str]:
        lines = []
        for part in range(self.parts):
            step, quad = self.places(part)
            lines.append(f"tile_{self.name}[{step} * {self.tile_free // LANES} + {quad}] = {self.register(part)};")
        return lines


class Scalars(Operand):
    """Four single elements a thread and part; neighbouring threads take neighbours along the nearer axis."""

    k_fast = True

    def places(self, part: int, e: int) -> tuple[str, str]:
        at = f"(id + {part * self.kernel.tile.threads + e * self.quads})"
        across = self.kernel.tile.bk if self.k_fast else self.tile_free
        slow, fast = self.place(f"{at} / {across}"), self.place(f"{at} % {across}")
        return (slow, fast) if self.k_fast else (fast, slow)

    def fetch(self) -> None:
        d = self.kernel
        lanes, d.r.lanes = d.r.lanes, 1
        for part in range(self.parts):
            for e in range(LANES):
                row, step = self.places(part, e)
                f, _ = d.clamped(f"{self.start} + {row}", self.free, self.free % self.tile_free == 0, "free")
                k, ok = d.clamped(f"k0 + {step}", d.k, d.k % d.tile.bk == 0, "step")
                value = d.r.pull(self.node, self.index(f, k))
                if ok is not None:
                    value = f"select({d.r.literal(0, d.dot.dtype)}, {value}, {ok})"
                d.r.line(f"{self.register(part)}[{e}] = {value};")
        d.r.lanes = lanes

    def store(self) -> list[str]:
        lines = []
        for part in range(self.parts):
            for e in range(LANES):
                row, step = self.places(part, e)
                lines.append(self.write_component(step, row, f"{self.register(part)}[{e}]"))
        return lines


class ScalarsAlongFree(Scalars):
    """As Scalars, the free axis nearer."""

    k_fast = False


LOADERS: dict[str, type[Operand]] = {
    "k": AlongK,
    "free": AlongFree,
    "scalar k": Scalars,
    "scalar free": ScalarsAlongFree,
}


def render_dot(group: Group, fuser: Fuser, renderer: Renderer, target: Target) -> Rendered:
    """The kernel of a dot group."""
    return DotKernel(group, fuser, renderer, target).render()
