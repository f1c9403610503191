"""The kernels of attention, in WGSL: the forward pass, the sums that the backward pass needs, the three gradients.

A workgroup computes a block of rows of its result and walks over the blocks that they meet: queries over keys for the
result and the gradient of q, keys over queries for those of k and v, which share a dispatch. Each product is a tiled one as
in compile/wgsl/dot.py: a step of both operands in workgroup memory, the contraction outermost, a few rows by a few vec4s
of sums in a thread's registers. The block of weights between two products passes through workgroup memory; rows keep their
maximum and sum as they go (Dao, "FlashAttention-2", 2023, algorithms 1 and 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..graph.primitive import Shape
from ..plan import Target
from .call import CallKernel

LANES = 4
UNROLL = 8  # steps of a contraction that are written out
WORDS = 1 << 32
SMALL = 32  # sequences up to this take the small blocks

Layout = tuple[int, ...]  # of (n, heads, l, d) in a buffer: the first element, the strides of n, heads and l

PREAMBLE = """
fn of_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }
fn lowest() -> f32 { return of_bits(0xff800000u); }
fn finite(x: vec4<f32>) -> vec4<f32> { return select(x, vec4<f32>(), x == vec4<f32>(lowest())); }
"""


def padded(size: int) -> int:
    """To whole vec4s."""
    return -(-size // LANES) * LANES


def kept_from(dropped: float) -> int:
    """A weight is kept where its random word is not below this."""
    return min(WORDS - 1, round(dropped * WORDS))


@dataclass(frozen=True)
class Problem:
    """q (n, heads, rows, d), k and v (n, heads, columns, d); mask: the strides of one, by n, heads, rows and columns;
    allows: whether it is of bools."""

    n: int
    heads: int
    rows: int
    columns: int
    d: int
    scale: float
    causal: bool
    mask: tuple[int, ...] | None
    allows: bool
    dropped: float

    @property
    def shape(self) -> Shape:
        return (self.n, self.heads, self.rows, self.d)

    @property
    def shapes(self) -> tuple[Shape, Shape, Shape]:
        other = (self.n, self.heads, self.columns, self.d)
        return self.shape, other, other

    @property
    def names(self) -> tuple[str, ...]:
        """Of the inputs besides q, k and v."""
        return (*(("mask",) if self.mask is not None else ()), *(("key",) if self.dropped else ()))

    @property
    def wide(self) -> int:
        """The size of a head in workgroup memory, where zeros fill it."""
        return 16 if self.d <= 16 else -(-self.d // 32) * 32


@dataclass(frozen=True)
class Blocks:
    """Rows (queries) and columns (keys) of a block of weights, threads of a workgroup, steps of a contraction over d;
    kept: the size of a head, where the rows' operand stays in workgroup memory, else 0."""

    rows: int
    columns: int
    threads: int
    depth: int
    kept: int = 0

    @property
    def pool(self) -> int:
        """Vec4s of workgroup memory."""
        return self.weights + self.exchange + self.rows // LANES

    @property
    def second(self) -> int:
        """Where a step of the second operand begins: behind the first, a step of it or all."""
        return (self.kept or self.depth) * self.stride(self.rows)

    @property
    def plain(self) -> int:
        """Where a plain tile begins: over the operands' steps."""
        return self.second if self.kept else 0

    @property
    def weights(self) -> int:
        """Where the block of weights begins: behind the operands."""
        return self.second + self.depth * self.stride(self.columns)

    @property
    def exchange(self) -> int:
        """Vec4s of the block of weights, in either order."""
        return max(self.columns * self.stride(self.rows), self.rows * self.stride(self.columns))

    @staticmethod
    def stride(size: int) -> int:
        """Vec4s from one step of a tile to the next; one more than it has, for memory banks."""
        return size // LANES + 1

    def steps(self, wide: int, most: int) -> int:
        """Rows of a plain tile, `wide` elements each, that fit where the two operands do."""
        steps = most
        while steps * wide // LANES > self.weights - self.plain:
            steps //= 2
        return steps


def choose_blocks(p: Problem, target: Target) -> Blocks:
    """The largest blocks that fit the device and are not mostly padding."""
    threads = 256 if p.wide > 64 else 128
    small = Blocks(32, 32, 64, min(p.wide, 32))
    if min(p.rows, p.columns) <= SMALL or threads > target.max_workgroup_invocations:
        return small
    large = (Blocks(64, 64, threads, min(p.wide, depth)) for depth in (32, 16))
    return next((b for b in large if 16 * b.pool <= target.max_workgroup_storage), small)


@dataclass(frozen=True)
class Tile:
    """How the threads of a workgroup share a block of sums: tall x broad a thread, `across` threads beside each other."""

    rows: int
    columns: int
    tall: int
    broad: int

    @property
    def across(self) -> int:
        return self.columns // self.broad

    @property
    def down(self) -> int:
        return self.rows // self.tall

    @property
    def threads(self) -> int:
        return self.across * self.down

    @property
    def name(self) -> str:
        return f"{self.across}x{self.down}"


@dataclass(frozen=True)
class Load:
    """A tile on its way from an operand's rows first, first + 1, ... to workgroup memory.

    count: its rows; limit: the first that there is not. depth: where along d a turned tile begins, which is stored with d
    outermost; None for a plain one. to: where it goes. slot: the register of its first vec4.
    """

    source: str
    first: str
    count: int
    limit: int
    step: int
    depth: str | None
    to: str
    slot: int

    def at(self, first: str, depth: str | None = None) -> Load:
        """The same tile of other rows, or of another part of d."""
        return replace(self, first=first, depth=self.depth if depth is None else depth)


def choose_tile(rows: int, columns: int, threads: int) -> Tile:
    """The squarest share of a block for each thread, with as many threads at work as can be."""
    shapes = [Tile(rows, columns, tall, broad) for tall in (4, 8) for broad in (4, 8, 12, 16) if columns % broad == 0]
    fitting = [t for t in shapes if t.threads <= threads and t.rows % t.tall == 0]
    return max(fitting, key=lambda t: (t.threads, -abs(t.tall - t.broad)))


class Writer:
    """Writes the parts that the kernels share."""

    def __init__(self, p: Problem, blocks: Blocks, layouts: dict[str, Layout]) -> None:
        self.p, self.blocks, self.layouts = p, blocks, layouts
        self.lines: list[str] = []
        self.scores = choose_tile(blocks.rows, blocks.columns, blocks.threads)

    def add(self, text: str) -> None:
        self.lines += text.strip("\n").split("\n")

    # -- where a thread is

    def places(self, *tiles: Tile) -> None:
        """x and y of this thread in each sharing of a block: 32 neighbours are 8 by 4, which read few different elements."""
        for name, across, down in sorted({(t.name, t.across, t.down) for t in tiles}):
            if across % 8 or down % 4:
                self.add(f"let x{name} = id % {across};\nlet y{name} = id / {across};")
            else:
                self.add(f"let x{name} = id / 32 % {across // 8} * 8 + id % 8;")
                self.add(f"let y{name} = id / 32 / {across // 8} * 4 + id % 32 / 8;")

    def row_quad(self, tile: Tile, g: int) -> str:
        """The vec4 of rows that is a thread's g-th."""
        return f"({g * tile.down} + y{tile.name})"

    def column_quad(self, tile: Tile, q: int) -> str:
        return f"({q * tile.across} + x{tile.name})"

    def row(self, tile: Tile, i: int) -> str:
        return f"({self.row_quad(tile, i // LANES)} * {LANES} + {i % LANES})"

    def active(self, tile: Tile) -> str:
        """The head of a block for the threads that have sums of the tile."""
        return "{" if tile.threads == self.blocks.threads else f"if (id < {tile.threads}) {{"

    # -- sums

    def sums(self, name: str, tile: Tile) -> None:
        """Registers for a block, zero."""
        for i in range(tile.tall):
            for q in range(tile.broad // LANES):
                self.add(f"var {name}_{i}_{q} = vec4<f32>();")

    def clear(self, name: str, tile: Tile) -> None:
        for i in range(tile.tall):
            for q in range(tile.broad // LANES):
                self.add(f"{name}_{i}_{q} = vec4<f32>();")

    def product(self, name: str, tile: Tile, steps: int, a: tuple[str, int], b: tuple[str, int]) -> None:
        """Add to a block of sums: a and b are (where the operand begins, its stride), in vec4s of workgroup memory."""
        self.add(self.active(tile))
        self.add(f"for (var k = 0; k < {steps}; k += {UNROLL}) {{")
        self.add(f"let at_a = {a[0]} + k * {a[1]} + y{tile.name};\nlet at_b = {b[0]} + k * {b[1]} + x{tile.name};")
        for u in range(UNROLL):
            for g in range(tile.tall // LANES):
                self.add(f"let a_{u}_{g} = pool[at_a + {u * a[1] + g * tile.down}];")
            for q in range(tile.broad // LANES):
                self.add(f"let b_{u}_{q} = pool[at_b + {u * b[1] + q * tile.across}];")
            for i in range(tile.tall):
                for q in range(tile.broad // LANES):
                    c = f"{name}_{i}_{q}"
                    self.add(f"{c} = fma(vec4<f32>(a_{u}_{i // LANES}[{i % LANES}]), b_{u}_{q}, {c});")
        self.add("}\n}")

    # -- operands on their way to workgroup memory

    def turned(self, source: str, first: str, slot: int = 0) -> Load:
        """A step of an operand of a product over d, which begins at d0."""
        b, p = self.blocks, self.p
        of_rows = first == "r0"
        count, to = (b.rows, 0) if of_rows else (b.columns, b.second)
        return Load(source, first, count, p.rows if of_rows else p.columns, self.layouts[source][3] // LANES, "d0", str(to), slot)

    def plain(self, source: str, first: str) -> Load:
        """Rows of an operand of a product over them, as many as fit."""
        b, p = self.blocks, self.p
        count, limit = (b.rows, p.rows) if first == "r0" else (b.columns, p.columns)
        return Load(source, first, b.steps(p.wide, count), limit, self.layouts[source][3] // LANES, None, str(b.plain), 0)

    def registers(self, *loads: Load) -> None:
        """For the vec4s that a thread fetches ahead."""
        most = max(load.slot + self.parts(load) for load in loads)
        for i in range(most):
            self.add(f"var ahead_{i} = vec4<f32>();")

    def quads(self, load: Load) -> int:
        return load.count * (self.p.wide if load.depth is None else self.blocks.depth) // LANES

    def parts(self, load: Load) -> int:
        return -(-self.quads(load) // self.blocks.threads)

    def each(self, load: Load, statements: Callable[[int], list[str]]) -> None:
        """Statements for each vec4 of a tile that is this thread's: t, its row r and its place `quad` along d. Of a turned tile two
        neighbours along d by sixteen rows are neighbouring threads: whole sectors are read, and no memory bank is written
        twice at once."""
        across = self.p.wide // LANES
        for i in range(self.parts(load)):
            self.add(f"{{\nlet t = id + {i * self.blocks.threads};")
            if load.depth is None:
                self.add(f"let r = t / {across};\nlet quad = t % {across};")
            else:
                self.add(f"let r = t / 2 % {load.count};\nlet quad = t / {2 * load.count} * 2 + t % 2;")
            guard = self.quads(load) % self.blocks.threads and i == self.parts(load) - 1
            self.add(f"if (t < {self.quads(load)}) {{" if guard else "{")
            for line in statements(i):
                self.add(line)
            self.add("}\n}")

    def fetch(self, load: Load) -> None:
        """Into registers; zeros for rows that there are not, and beyond the end of a head."""
        p = self.p
        size = self.blocks.rows if "r0" in load.first else self.blocks.columns
        conditions = [f"{load.first} + r < {load.limit}"] if load.limit % size else []
        along = "quad" if load.depth is None else f"{load.depth} / {LANES} + quad"
        if p.wide != p.d:
            conditions.append(f"{along} < {p.d // LANES}")
        value = f"{load.source}[{load.source}_at + ({load.first} + r) * {load.step} + {along}]"

        def statements(i: int) -> list[str]:
            into = f"ahead_{load.slot + i} = "
            if not conditions:
                return [f"{into}{value};"]
            return [f"{into}vec4<f32>();", f"if ({' && '.join(conditions)}) {{ {into}{value}; }}"]

        self.each(load, statements)

    def place(self, load: Load) -> None:
        """From registers to workgroup memory."""
        stride = self.blocks.stride(load.count)

        def statements(i: int) -> list[str]:
            value = f"ahead_{load.slot + i}"
            if load.depth is None:
                return [f"pool[{load.to} + t] = {value};"]
            at = f"{load.to} + quad * {LANES * stride} + r / {LANES}"
            return [f"pool[{at} + {e * stride}][r % {LANES}] = {value}[{e}];" for e in range(LANES)]

        self.each(load, statements)

    def between(self, name: str, a: str, b: str, then: Callable[[], None]) -> None:
        """The block of products of rows of a (from r0) and rows of b (from c0): name += a b^T. The first steps of both are in
        registers; `then` fetches what comes after."""
        blocks, p = self.blocks, self.p
        stride = blocks.stride(blocks.rows)
        loads = self.pair(a, b)
        self.clear(name, self.scores)
        self.add(f"for (var d0 = 0; d0 < {p.wide}; d0 += {blocks.depth}) {{\nworkgroupBarrier();")
        for load in loads:
            self.place(load)
        self.add("workgroupBarrier();")
        if p.wide > blocks.depth:
            self.add(f"if (d0 + {blocks.depth} < {p.wide}) {{")
            for load in loads:
                self.fetch(load.at(load.first, f"(d0 + {blocks.depth})"))
            self.add("} else {")
            then()
            self.add("}")
        else:
            then()
        first = (f"d0 * {stride}" if blocks.kept else "0", stride)
        self.product(name, self.scores, blocks.depth, first, (str(blocks.second), blocks.stride(blocks.columns)))
        self.add("}")

    def pair(self, a: str, b: str) -> list[Load]:
        """The loads of a step of a product over d; of b alone where all of a stays."""
        if self.blocks.kept:
            return [self.turned(b, "c0")]
        first = self.turned(a, "r0")
        return [first, self.turned(b, "c0", self.parts(first))]

    def begin(self, a: str, b: str, **at: str) -> None:
        """Fetch the first steps of `between`; at: other places of r0 or c0."""
        for load in self.pair(a, b):
            self.fetch(load.at(at.get(load.first, load.first), "0"))

    def onto(self, name: str, tile: Tile, of: str, first: str, then: Callable[[], None]) -> None:
        """name += (the block in workgroup memory) (rows of an operand from `first` on), which are the block's contraction. The
        first of them are in registers; `then` fetches what comes after."""
        blocks = self.blocks
        load = self.plain(of, first)
        count = blocks.rows if first == "r0" else blocks.columns
        stride, b = blocks.stride(tile.rows), (load.to, self.p.wide // LANES)
        if load.count == count:
            self.place(load)
            self.add("workgroupBarrier();")
            then()
            self.product(name, tile, count, (str(blocks.weights), stride), b)
            return
        self.add(f"for (var j0 = 0; j0 < {count}; j0 += {load.count}) {{\nif (j0 > 0) {{ workgroupBarrier(); }}")
        self.place(load)
        self.add(f"workgroupBarrier();\nif (j0 + {load.count} < {count}) {{")
        self.fetch(load.at(f"{first} + j0 + {load.count}"))
        self.add("} else {")
        then()
        self.add("}")
        self.product(name, tile, load.count, (f"{blocks.weights} + j0 * {stride}", stride), b)
        self.add("}")

    # -- the block of weights

    def masked(self) -> None:
        """The block s: scaled, with the masks; minus infinity where a row may not see a column, or there is none."""
        p, tile = self.p, self.scores
        exact = p.columns % self.blocks.columns == 0
        for q in range(tile.broad // LANES):
            self.add(f"let column_{q} = vec4<i32>(c0 + {self.column_quad(tile, q)} * {LANES}) + vec4<i32>(0, 1, 2, 3);")
            if not exact:
                self.add(f"let inside_{q} = column_{q} < vec4<i32>({p.columns});")
            if p.mask is not None and not p.mask[2]:
                self.add(f"let mask_{q} = {self.mask_of('0', q)};")
        for i in range(tile.tall):
            self.add(f"let row_{i} = r0 + {self.row(tile, i)};")
            for q in range(tile.broad // LANES):
                s = f"s_{i}_{q}"
                value = f"{s} * {float(p.scale)!r}"
                if p.mask is not None:
                    mask = self.mask_of(f"min(row_{i}, {p.rows - 1})", q) if p.mask[2] else f"mask_{q}"
                    value = f"{value} + {mask}"
                if not exact:
                    value = f"select(vec4<f32>(lowest()), {value}, inside_{q})"
                if p.causal:
                    value = f"select(vec4<f32>(lowest()), {value}, column_{q} <= vec4<i32>(row_{i}))"
                self.add(f"{s} = {value};")

    def mask_of(self, row: str, q: int) -> str:
        """What is added to four columns of a row."""
        assert self.p.mask is not None
        parts = []
        for e in range(LANES):
            column = f"min(column_{q}[{e}], {self.p.columns - 1}) * {self.p.mask[3]}"
            value = f"mask[mask_at + {row} * {self.p.mask[2]} + {column}]"
            parts.append(f"select(lowest(), 0.0, {value} != 0u)" if self.p.allows else value)
            if not self.p.mask[3]:
                return f"vec4<f32>({parts[0]})"
        return f"vec4<f32>({', '.join(parts)})"

    def kept(self, i: int, q: int) -> str:
        """What four weights of a row are multiplied with, as a name."""
        p, name = self.p, f"kept_{i}_{q}"
        half = -(-p.columns // 2)
        for part in range(2):
            place = f"u32(row_{i}) * {half}u + u32(column_{q}[{2 * part}]) / 2u"
            self.add(f"let {name}_{part} = sg_threefry(key[0], key[1], {place}, u32(bh));")
        words = f"vec4<u32>({name}_0, {name}_1)"
        gain = f"vec4<f32>({1.0 / (1.0 - p.dropped)!r})"
        self.add(f"let {name} = select(vec4<f32>(), {gain}, {words} >= vec4<u32>({kept_from(p.dropped)}u));")
        return name

    def write_turned(self, name: str) -> None:
        """The block into workgroup memory with its columns outermost."""
        tile, b = self.scores, self.blocks
        for q in range(tile.broad // LANES):
            for e in range(LANES):
                for g in range(tile.tall // LANES):
                    values = ", ".join(f"{name}_{g * LANES + i}_{q}[{e}]" for i in range(LANES))
                    at = f"{b.weights} + ({self.column_quad(tile, q)} * {LANES} + {e}) * {b.stride(b.rows)} + {self.row_quad(tile, g)}"
                    self.add(f"pool[{at}] = vec4<f32>({values});")

    def write(self, name: str) -> None:
        """The block into workgroup memory with its rows outermost."""
        tile, b = self.scores, self.blocks
        for i in range(tile.tall):
            for q in range(tile.broad // LANES):
                at = f"{b.weights} + {self.row(tile, i)} * {b.stride(b.columns)} + {self.column_quad(tile, q)}"
                self.add(f"pool[{at}] = {name}_{i}_{q};")

    # -- around it

    def head(self) -> None:
        """Where the head of this workgroup, number bh, begins in each array."""
        p = self.p
        self.add(f"let b = bh / {p.heads};\nlet h = bh % {p.heads};")
        for name, (start, by_n, by_head, _) in self.layouts.items():
            self.add(f"let {name}_at = {start // LANES} + b * {by_n // LANES} + h * {by_head // LANES};")
        if p.mask is not None:
            self.add(f"let mask_at = b * {p.mask[0]} + h * {p.mask[1]};")

    def store(self, name: str, tile: Tile, first: str, limit: int, place: Layout, scaled: str) -> None:
        """A block of sums, row by row, times a text in which {i} is the row of the thread, into the result."""
        p = self.p
        self.add(self.active(tile))
        for i in range(tile.tall):
            self.add(f"let goal_{i} = {first} + {self.row(tile, i)};\nif (goal_{i} < {limit}) {{")
            for q in range(tile.broad // LANES):
                quad = self.column_quad(tile, q)
                line = f"result[result_at + goal_{i} * {place[3] // LANES} + {quad}] = {name}_{i}_{q} * {scaled.format(g=i // LANES, e=i % LANES)};"
                self.add(line if p.wide == p.d else f"if ({quad} < {p.d // LANES}) {{ {line} }}")
            self.add("}")
        self.add("}")

    @property
    def functions(self) -> tuple[str, ...]:
        return ("sg_threefry",) if self.p.dropped else ()

    def preamble(self) -> str:
        return f"var<workgroup> pool: array<vec4<f32>, {self.blocks.pool}>;{PREAMBLE}"


def forward(p: Problem, layouts: Sequence[Layout], target: Target) -> CallKernel:
    """q, k, v, [mask], [key] to the result and the logarithms of the sums, as `Attention` says."""
    blocks = choose_blocks(p, target)
    w = Writer(p, blocks, dict(zip(("q", "k", "v"), layouts, strict=True)))
    tile, out = w.scores, choose_tile(blocks.rows, p.wide, blocks.threads)
    count = -(-p.rows // blocks.rows)
    groups = range(tile.tall // LANES)
    exchange, scales = blocks.weights, blocks.weights + blocks.exchange
    quads = blocks.rows // LANES
    w.add("let id = i32(lid);")
    w.add(f"let bh = wg % {p.n * p.heads};\nlet r0 = ({count - 1} - wg / {p.n * p.heads}) * {blocks.rows};")
    w.head()
    w.places(tile, out)
    for g in groups:
        w.add(f"var top_{g} = vec4<f32>(lowest());\nvar total_{g} = vec4<f32>();")
    w.sums("s", tile)
    w.sums("o", out)
    w.registers(*w.pair("q", "k"), w.plain("v", "c0"))
    if blocks.kept:
        _keep_queries(w)
    end = f"min({p.columns}, r0 + {blocks.rows})" if p.causal else str(p.columns)
    w.add("var c0 = 0;")
    w.begin("q", "k")
    w.add(f"for (; c0 < {end}; c0 += {blocks.columns}) {{")
    w.between("s", "q", "k", lambda: w.fetch(w.plain("v", "c0")))
    w.masked()
    for g in groups:
        rows = ", ".join(_largest([f"s_{g * LANES + i}_{q}" for q in range(tile.broad // LANES)]) for i in range(LANES))
        w.add(f"let own_{g} = vec4<f32>({rows});")
        w.add(f"pool[{exchange} + x{tile.name} * {quads} + {w.row_quad(tile, g)}] = own_{g};")
    w.add("workgroupBarrier();")
    for g in groups:
        w.add(f"var next_{g} = top_{g};")
    w.add(f"for (var t = 0; t < {tile.across}; t++) {{")
    for g in groups:
        w.add(f"next_{g} = max(next_{g}, pool[{exchange} + t * {quads} + {w.row_quad(tile, g)}]);")
    w.add("}\nworkgroupBarrier();")
    for g in groups:
        w.add(f"let base_{g} = finite(next_{g});\nlet fall_{g} = exp(top_{g} - base_{g});\ntop_{g} = next_{g};")
        w.add(f"if (x{tile.name} == 0) {{ pool[{scales} + {w.row_quad(tile, g)}] = fall_{g}; }}")
    for i in range(tile.tall):
        for q in range(tile.broad // LANES):
            w.add(f"s_{i}_{q} = exp(s_{i}_{q} - vec4<f32>(base_{i // LANES}[{i % LANES}]));")
    for g in groups:
        rows = ", ".join(
            " + ".join(f"dot(s_{g * LANES + i}_{q}, vec4<f32>(1.0))" for q in range(tile.broad // LANES)) for i in range(LANES)
        )
        w.add(f"total_{g} = total_{g} * fall_{g} + vec4<f32>({rows});")
    if p.dropped:
        for i in range(tile.tall):
            for q in range(tile.broad // LANES):
                w.add(f"s_{i}_{q} *= {w.kept(i, q)};")
    w.write_turned("s")
    # the rows of the result fall with the maximum; what they fall by is another thread's knowledge
    w.add("workgroupBarrier();")
    w.add(w.active(out))
    for g in range(out.tall // LANES):
        w.add(f"let scale_{g} = pool[{scales} + {w.row_quad(out, g)}];")
    for i in range(out.tall):
        for q in range(out.broad // LANES):
            w.add(f"o_{i}_{q} *= scale_{i // LANES}[{i % LANES}];")
    w.add("}")

    def next_block() -> None:
        w.add(f"if (c0 + {blocks.columns} < {end}) {{")
        w.begin("q", "k", c0=f"(c0 + {blocks.columns})")
        w.add("}")

    w.onto("o", out, "v", "c0", next_block)
    w.add("}")
    _finish_rows(w, out, exchange, scales)
    size = math.prod(p.shape)
    flops = 4 * size * p.columns // (2 if p.causal else 1)
    vectors = frozenset(("q", "k", "v", "result"))
    return CallKernel(
        "\n".join(w.lines), blocks.threads, count * p.n * p.heads, w.preamble(), vectors, flops, w.functions
    )


def _keep_queries(w: Writer) -> None:
    """All of the queries' block into workgroup memory."""
    stride = w.blocks.stride(w.blocks.rows)
    load = w.turned("q", "r0")
    w.add(f"for (var d0 = 0; d0 < {w.p.wide}; d0 += {w.blocks.depth}) {{")
    w.fetch(load)
    w.place(replace(load, to=f"d0 * {stride}"))
    w.add("}")


def _largest(names: Sequence[str]) -> str:
    """The largest component of vec4s."""
    most = names[0]
    for name in names[1:]:
        most = f"max({most}, {name})"
    return f"max(max(({most}).x, ({most}).y), max(({most}).z, ({most}).w))"


def _finish_rows(w: Writer, out: Tile, exchange: int, scales: int) -> None:
    """Sums of whole rows from those of threads; the result divided by them, and their logarithms."""
    p, tile, quads = w.p, w.scores, w.blocks.rows // LANES
    groups = range(tile.tall // LANES)
    w.add("workgroupBarrier();")
    for g in groups:
        w.add(f"pool[{exchange} + x{tile.name} * {quads} + {w.row_quad(tile, g)}] = total_{g};")
    w.add("workgroupBarrier();")
    w.add(f"if (x{tile.name} == 0) {{")
    for g in groups:
        w.add(f"for (var t = 1; t < {tile.across}; t++) {{ total_{g} += pool[{exchange} + t * {quads} + {w.row_quad(tile, g)}]; }}")
        w.add(f"let empty_{g} = total_{g} == vec4<f32>();\nlet whole_{g} = select(total_{g}, vec4<f32>(1.0), empty_{g});")
        w.add(f"pool[{scales} + {w.row_quad(tile, g)}] = vec4<f32>(1.0) / whole_{g};")
        w.add(f"let logs_{g} = select(finite(top_{g}) + log(whole_{g}), vec4<f32>(lowest()), empty_{g});")
        for e in range(LANES):
            at = f"{math.prod(p.shape)} + bh * {p.rows} + r0 + {w.row_quad(tile, g)} * {LANES} + {e}"
            w.add(f"if (r0 + {w.row_quad(tile, g)} * {LANES} + {e} < {p.rows}) {{ let at = {at}; result[at / {LANES}][at % {LANES}] = logs_{g}[{e}]; }}")
    w.add("}\nworkgroupBarrier();")
    w.add(w.active(out))
    for g in range(out.tall // LANES):
        w.add(f"let share_{g} = pool[{scales} + {w.row_quad(out, g)}];")
    row = p.heads * p.d
    w.add(f"let result_at = (b * {p.rows * row} + h * {p.d}) / {LANES};")
    w.store("o", out, "r0", p.rows, (0, 0, 0, row), "share_{g}[{e}]")
    w.add("}")


def sums(shape: Shape, layout: Layout) -> CallKernel:
    """The logarithms of the sums, and the sums over d of gradient times result: eight threads a row."""
    n, heads, rows, d = shape
    total, size = n * heads * rows, math.prod(shape)
    start, by_n, by_head, by_row = (s // LANES for s in layout)
    body = f"""
let row = min(wg * 8 + i32(lid) / 8, {total - 1});
let own = i32(lid) % 8;
let bh = row / {rows};
let l = row % {rows};
let g_at = {start} + (bh / {heads}) * {by_n} + (bh % {heads}) * {by_head} + l * {by_row};
let flat_at = (((bh / {heads}) * {rows} + l) * {heads} + bh % {heads}) * {d // LANES};
var sum = 0.0;
for (var q = own; q < {d // LANES}; q += 8) {{ sum += dot(g[g_at + q], flat[flat_at + q]); }}
partial[lid] = sum;
workgroupBarrier();
if (own == 0 && wg * 8 + i32(lid) / 8 < {total}) {{
  for (var t = 1u; t < 8u; t++) {{ sum += partial[lid + t]; }}
  let at = {size} + row;
  result[row] = flat[at / {LANES}][at % {LANES}];
  result[{total} + row] = sum;
}}"""
    preamble = "var<workgroup> partial: array<f32, 64>;\n"
    return CallKernel(body, 64, -(-total // 8), preamble, frozenset(("g", "flat")), 2 * size)


def backward(p: Problem, layouts: Sequence[Layout], places: Sequence[Layout], target: Target) -> CallKernel:
    """g, sums, q, k, v, [mask], [key] to the three gradients, as `AttentionGradient` says. The first workgroups walk over
    queries for the gradients of k and v, the others over keys for that of q."""
    blocks = choose_blocks(p, target)
    w = Writer(p, blocks, dict(zip(("g", "q", "k", "v"), layouts, strict=True)))
    of_keys = choose_tile(blocks.columns, p.wide, blocks.threads)
    of_queries = choose_tile(blocks.rows, p.wide, blocks.threads)
    heads = p.n * p.heads
    for_keys, for_queries = (-(-n // size) * heads for n, size in ((p.columns, blocks.columns), (p.rows, blocks.rows)))
    w.add("let id = i32(lid);")
    w.add(f"let bh = wg % {heads};")
    w.head()
    w.places(w.scores, of_keys, of_queries)
    w.sums("s", w.scores)
    w.sums("t", w.scores)
    w.registers(*w.pair("q", "k"), *(w.plain(*of) for of in (("g", "r0"), ("q", "r0"), ("k", "c0"))))
    w.add(f"if (wg < {for_keys}) {{")
    w.add(f"let c0 = (wg / {heads}) * {blocks.columns};")
    w.sums("dk", of_keys)
    w.sums("dv", of_keys)
    start = f"(c0 / {blocks.rows}) * {blocks.rows}" if p.causal else "0"
    w.add(f"var r0 = {start};")
    w.begin("q", "k")
    w.add(f"for (; r0 < {p.rows}; r0 += {blocks.rows}) {{")
    _weights(w, lambda: w.fetch(w.plain("g", "r0")))
    if p.dropped:
        for i in range(w.scores.tall):
            for q in range(w.scores.broad // LANES):
                w.add(f"let used_{i}_{q} = s_{i}_{q} * {w.kept(i, q)};")
        w.write("used")
    else:
        w.write("s")
    _to_scores(w)
    w.onto("dv", of_keys, "g", "r0", lambda: w.fetch(w.plain("q", "r0")))
    w.add("workgroupBarrier();")
    w.write("t")

    def next_queries() -> None:
        w.add(f"if (r0 + {blocks.rows} < {p.rows}) {{")
        w.begin("q", "k", r0=f"(r0 + {blocks.rows})")
        w.add("}")

    w.onto("dk", of_keys, "q", "r0", next_queries)
    w.add("}")
    for name, place in (("dk", places[1]), ("dv", places[2])):
        w.add(f"{{\nlet result_at = {_start_of(place)};")
        w.store(name, of_keys, "c0", p.columns, place, repr(float(p.scale)) if name == "dk" else "1.0")
        w.add("}")
    w.add("} else {")
    w.add(f"let r0 = ({for_queries // heads - 1} - (wg - {for_keys}) / {heads}) * {blocks.rows};")
    w.sums("dq", of_queries)
    end = f"min({p.columns}, r0 + {blocks.rows})" if p.causal else str(p.columns)
    w.add("var c0 = 0;")
    w.begin("q", "k")
    w.add(f"for (; c0 < {end}; c0 += {blocks.columns}) {{")
    _weights(w, lambda: w.fetch(w.plain("k", "c0")))
    if p.dropped:
        for i in range(w.scores.tall):
            for q in range(w.scores.broad // LANES):
                w.kept(i, q)
    _to_scores(w)
    w.write_turned("t")

    def next_keys() -> None:
        w.add(f"if (c0 + {blocks.columns} < {end}) {{")
        w.begin("q", "k", c0=f"(c0 + {blocks.columns})")
        w.add("}")

    w.onto("dq", of_queries, "k", "c0", next_keys)
    w.add("}")
    w.add(f"let result_at = {_start_of(places[0])};")
    w.store("dq", of_queries, "r0", p.rows, places[0], repr(float(p.scale)))
    w.add("}")
    flops = 14 * math.prod(p.shape) * p.columns // (2 if p.causal else 1)
    return CallKernel(
        "\n".join(w.lines),
        blocks.threads,
        for_keys + for_queries,
        w.preamble(),
        frozenset(("g", "q", "k", "v", "result")),
        flops,
        w.functions,
    )


def _start_of(place: Layout) -> str:
    """Where this head begins in the result."""
    start, by_n, by_head, _ = (s // LANES for s in place)
    return f"{start} + b * {by_n} + h * {by_head}"


def _weights(w: Writer, then: Callable[[], None]) -> None:
    """The block s of weights, t of what the gradient of the result gives each, and the rows' sums. All threads have read
    what lies in workgroup memory when it returns; `then` fetches what comes after."""
    p, tile = w.p, w.scores
    w.between("s", "q", "k", lambda: w.begin("g", "v"))
    w.masked()
    w.between("t", "g", "v", then)
    total = p.n * p.heads * p.rows
    for i in range(tile.tall):
        at = f"bh * {p.rows} + min(row_{i}, {p.rows - 1})"
        w.add(f"let log_{i} = sums[{at}];\nlet delta_{i} = sums[{total} + {at}];")
        # of a row beyond the last nothing may be left, of one that saw nothing all is 0 already
        base = f"select(log_{i}, 0.0, log_{i} == lowest())"
        if p.rows % w.blocks.rows:
            base = f"select(-lowest(), {base}, row_{i} < {p.rows})"
        w.add(f"let base_{i} = {base};")
        for q in range(tile.broad // LANES):
            w.add(f"s_{i}_{q} = exp(s_{i}_{q} - vec4<f32>(base_{i}));")
    w.add("workgroupBarrier();")


def _to_scores(w: Writer) -> None:
    """The gradient of the scores, in t, in the order of operations of all threads alike."""
    for i in range(w.scores.tall):
        for q in range(w.scores.broad // LANES):
            t = f"t_{i}_{q}"
            given = f"{t} * kept_{i}_{q}" if w.p.dropped else t
            w.add(f"{t} = s_{i}_{q} * ({given} - vec4<f32>(delta_{i}));")
