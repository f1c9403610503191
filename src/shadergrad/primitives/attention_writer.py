"""WGSL generators that the attention kernels share: loads of tiles into workgroup memory, their products, blocks of weights.

A product is tiled as in compile/wgsl/matmul: a step of both operands in workgroup memory, the contraction outermost, a
few rows by a few vec4s of sums in a thread's registers. The next operands are loaded into registers before each product
(software pipelining).
"""

from __future__ import annotations

from collections.abc import Callable

from ..graph.floats import float_text
from .attention_tiles import LANES, AttentionChoice, Layout, Load, Problem, Tile, keep_threshold

UNROLL = 8  # steps of a contraction that are unrolled

PREAMBLE = """
fn of_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }
fn lowest() -> f32 { return of_bits(0xff800000u); }
fn finite(x: vec4<f32>) -> vec4<f32> { return select(x, vec4<f32>(), x == vec4<f32>(lowest())); }
"""


VECTORS = """fn held(at: i32) -> vec4<f32> { return pool[at]; }
fn put(at: i32, value: vec4<f32>) { pool[at] = value; }
"""
NUMBERS = """fn held(at: i32) -> vec4<f32> {
  let i = at * 4;
  return vec4<f32>(pool[i], pool[i + 1], pool[i + 2], pool[i + 3]);
}
fn put(at: i32, value: vec4<f32>) {
  let i = at * 4;
  pool[i] = value.x;
  pool[i + 1] = value.y;
  pool[i + 2] = value.z;
  pool[i + 3] = value.w;
}
"""

Factor = Callable[[int], str]  # of a thread's row, by its number


def scale_text(p: Problem) -> str:
    """The factor of the scores, as WGSL, also if it is infinite or NaN."""
    return float_text(p.scale, "of_bits")[0]


class Writer:
    """Writes the parts that the kernels share."""

    def __init__(self, p: Problem, choice: AttentionChoice, layouts: dict[str, Layout]) -> None:
        self.p, self.layouts, self.scalar_pool = p, layouts, choice.scalar_pool
        self.blocks = choice.blocks
        self.lines: list[str] = []
        self.scores = choice.scores

    def add(self, text: str) -> None:
        self.lines += text.strip("\n").split("\n")

    # -- the position of a thread

    def places(self, *tiles: Tile) -> None:
        """x and y of this thread in each division of a block. 32 neighbours are 8 by 4, which read few different elements;
        each thread shares its y with its neighbour, and its x with the one after that, so that one memory access serves
        half of them.
        """
        for name, across, down in sorted({(t.name, t.across, t.down) for t in tiles}):
            if across % 8 or down % 4:
                self.add(f"let x{name} = id % {across};\nlet y{name} = id / {across};")
            else:
                self.add(f"let x{name} = id / 32 % {across // 8} * 8 + id / 4 % 4 * 2 + id % 2;")
                self.add(f"let y{name} = id / 32 / {across // 8} * 4 + id / 16 % 2 * 2 + id / 2 % 2;")

    def row_quad(self, tile: Tile, g: int) -> str:
        """The vec4 of rows that is a thread's g-th."""
        return f"({g * tile.down} + y{tile.name})"

    def column_quad(self, tile: Tile, q: int) -> str:
        return f"({q * tile.across} + x{tile.name})"

    def row(self, tile: Tile, i: int) -> str:
        return f"({self.row_quad(tile, i // LANES)} * {LANES} + {i % LANES})"

    def active(self, tile: Tile) -> str:
        """The condition for threads that have sums of the tile, as the head of a block."""
        return "{" if tile.threads == self.blocks.threads else f"if (id < {tile.threads}) {{"

    # -- sums

    def sums(self, name: str, tile: Tile) -> None:
        """Registers for a block, initialized to zero."""
        for i in range(tile.tall):
            for q in range(tile.broad // LANES):
                self.add(f"var {name}_{i}_{q} = vec4<f32>();")

    def clear(self, name: str, tile: Tile) -> None:
        for i in range(tile.tall):
            for q in range(tile.broad // LANES):
                self.add(f"{name}_{i}_{q} = vec4<f32>();")

    def product(self, name: str, tile: Tile, steps: int, a: tuple[str, int], b: tuple[str, int]) -> None:
        """Accumulate a product in a block of sums: a and b are (offset of the operand, its stride), in vec4s of workgroup memory."""
        self.add(self.active(tile))
        self.add(f"for (var k = 0; k < {steps}; k += {UNROLL}) {{")
        self.add(f"let at_a = {a[0]} + k * {a[1]} + y{tile.name};\nlet at_b = {b[0]} + k * {b[1]} + x{tile.name};")
        for u in range(UNROLL):
            for g in range(tile.tall // LANES):
                self.add(f"let a_{u}_{g} = held(at_a + {u * a[1] + g * tile.down});")
            for q in range(tile.broad // LANES):
                self.add(f"let b_{u}_{q} = held(at_b + {u * b[1] + q * tile.across});")
            for i in range(tile.tall):
                for q in range(tile.broad // LANES):
                    c = f"{name}_{i}_{q}"
                    self.add(f"{c} = fma(vec4<f32>(a_{u}_{i // LANES}[{i % LANES}]), b_{u}_{q}, {c});")
        self.add("}\n}")

    # -- loads of operands into workgroup memory

    def turned(self, source: str, first: str, slot: int = 0) -> Load:
        """A step of an operand of a product over d, which begins at d0."""
        b, p = self.blocks, self.p
        of_rows = first == "r0"
        count, to = (b.rows, 0) if of_rows else (b.columns, b.second)
        return Load(
            source,
            first,
            count,
            p.rows if of_rows else p.columns,
            self.layouts[source][3] // LANES,
            "d0",
            str(to),
            slot,
        )

    def plain(self, source: str, first: str) -> Load:
        """Rows of an operand of a product over them, as many as fit."""
        b, p = self.blocks, self.p
        count, limit = (b.rows, p.rows) if first == "r0" else (b.columns, p.columns)
        return Load(source, first, b.steps(p.wide, count), limit, self.layouts[source][3] // LANES, None, "0", 0)

    def registers(self, *loads: Load) -> None:
        """Registers for the vec4s that a thread prefetches."""
        most = max(load.slot + self.parts(load) for load in loads)
        for i in range(most):
            self.add(f"var ahead_{i} = vec4<f32>();")

    def quads(self, load: Load) -> int:
        return load.count * (self.p.wide if load.depth is None else self.blocks.depth) // LANES

    def parts(self, load: Load) -> int:
        return -(-self.quads(load) // self.blocks.threads)

    def each(self, load: Load, statements: Callable[[int], list[str]]) -> None:
        """Statements for each vec4 of a tile that this thread loads: t, its row r and its position `quad` along d. In a transposed tile two
        neighbours along d by sixteen rows are neighbouring threads: they read whole memory sectors, and write without bank
        conflicts.
        """
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
        """Load into registers; zeros for rows that do not exist, and beyond the end of a head."""
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
        """Store registers in workgroup memory."""
        stride = self.blocks.stride(load.count)

        def statements(i: int) -> list[str]:
            value = f"ahead_{load.slot + i}"
            if load.depth is None:
                return [f"put({load.to} + t, {value});"]
            at = f"{load.to} + quad * {LANES * stride} + r / {LANES}"
            return [self.part(f"{at} + {e * stride}", f"r % {LANES}", f"{value}[{e}]") for e in range(LANES)]

        self.each(load, statements)

    def between(self, name: str, a: str, b: str, then: Callable[[], None]) -> None:
        """The block of products of rows of a (from r0) and rows of b (from c0): name += a b^T. The first steps of both are in
        registers; `then` loads the next operands.
        """
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
        self.product(
            name, self.scores, blocks.depth, ("0", stride), (str(blocks.second), blocks.stride(blocks.columns))
        )
        self.add("}")

    def pair(self, a: str, b: str) -> list[Load]:
        """The loads of a step of a product over d."""
        first = self.turned(a, "r0")
        return [first, self.turned(b, "c0", self.parts(first))]

    def begin(self, a: str, b: str, **at: str) -> None:
        """Load the first steps of `between`; at: other values of r0 or c0."""
        for load in self.pair(a, b):
            self.fetch(load.at(at.get(load.first, load.first), "0"))

    def onto(self, name: str, tile: Tile, of: str, first: str, then: Callable[[], None]) -> None:
        """name += (the block in workgroup memory) (rows of an operand from `first` on), which the product contracts. The
        first of them are in registers; `then` loads the next operands.
        """
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
        """The block s: scaled, with the masks; minus infinity where a row may not attend to a column, or the column does not exist."""
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
                value = f"{s} * {scale_text(p)}"
                if p.mask is not None:
                    mask = self.mask_of(f"min(row_{i}, {p.rows - 1})", q) if p.mask[2] else f"mask_{q}"
                    value = f"{value} + {mask}"
                if not exact:
                    value = f"select(vec4<f32>(lowest()), {value}, inside_{q})"
                if p.causal:
                    value = f"select(vec4<f32>(lowest()), {value}, column_{q} <= vec4<i32>(row_{i}))"
                self.add(f"{s} = {value};")

    def mask_of(self, row: str, q: int) -> str:
        """The mask's summand for four columns of a row."""
        assert self.p.mask is not None
        parts = []
        for e in range(LANES):
            column = f"min(column_{q}[{e}], {self.p.columns - 1}) * {self.p.mask[3]}"
            value = f"mask[mask_at + {row} * {self.p.mask[2]} + {column}]"
            parts.append(f"select(lowest(), 0.0, {value} != 0u)" if self.p.allows else value)
            if not self.p.mask[3]:
                return f"vec4<f32>({parts[0]})"
        return f"vec4<f32>({', '.join(parts)})"

    def keep_factor(self, i: int, q: int) -> str:
        """The dropout factor of four weights of a row, as a name."""
        p, name = self.p, f"kept_{i}_{q}"
        half = -(-p.columns // 2)
        for part in range(2):
            place = f"u32(row_{i}) * {half}u + u32(column_{q}[{2 * part}]) / 2u"
            self.add(f"let {name}_{part} = sg_threefry(key[0], key[1], {place}, u32(bh));")
        words = f"vec4<u32>({name}_0, {name}_1)"
        gain = f"vec4<f32>({1.0 / (1.0 - p.dropped)!r})"
        self.add(f"let {name} = select(vec4<f32>(), {gain}, {words} >= vec4<u32>({keep_threshold(p.dropped)}u));")
        return name

    def write_turned(self, name: str) -> None:
        """Write the block into workgroup memory with its columns outermost."""
        tile, b = self.scores, self.blocks
        for q in range(tile.broad // LANES):
            for e in range(LANES):
                for g in range(tile.tall // LANES):
                    values = ", ".join(f"{name}_{g * LANES + i}_{q}[{e}]" for i in range(LANES))
                    at = f"{b.weights} + ({self.column_quad(tile, q)} * {LANES} + {e}) * {b.stride(b.rows)} + {self.row_quad(tile, g)}"
                    self.add(f"put({at}, vec4<f32>({values}));")

    def write(self, name: str) -> None:
        """Write the block into workgroup memory with its rows outermost."""
        tile, b = self.scores, self.blocks
        for i in range(tile.tall):
            for q in range(tile.broad // LANES):
                at = f"{b.weights} + {self.row(tile, i)} * {b.stride(b.columns)} + {self.column_quad(tile, q)}"
                self.add(f"put({at}, {name}_{i}_{q});")

    # -- the head and the result

    def head(self) -> None:
        """The offset of this workgroup's head, number bh, in each array."""
        p = self.p
        self.add(f"let b = bh / {p.heads};\nlet h = bh % {p.heads};")
        for name, (start, by_n, by_head, _) in self.layouts.items():
            self.add(f"let {name}_at = {start // LANES} + b * {by_n // LANES} + h * {by_head // LANES};")
        if p.mask is not None:
            self.add(f"let mask_at = b * {p.mask[0]} + h * {p.mask[1]};")

    def store(
        self,
        name: str,
        tile: Tile,
        first: str,
        limit: int,
        place: Layout,
        factor: Factor,
        whole: bool = True,
        onto: str | None = None,
    ) -> None:
        """Store a block of sums, each row times its factor, in the result; whole: the result is bound as vec4s. onto: a condition;
        if it is false, the sums are added to the stored values.
        """
        p = self.p
        self.add(self.active(tile))
        for i in range(tile.tall):
            self.add(f"let goal_{i} = {first} + {self.row(tile, i)};\nif (goal_{i} < {limit}) {{")
            for q in range(tile.broad // LANES):
                quad = self.column_quad(tile, q)
                at, value = f"result_at + goal_{i} * {place[3] // LANES} + {quad}", f"{name}_{i}_{q} * {factor(i)}"
                self.add("{" if p.wide == p.d else f"if ({quad} < {p.d // LANES}) {{")
                if onto is not None:
                    self.add(f"let at = {at};\nvar value = {value};\nif (!{onto}) {{ value += result[at]; }}")
                    self.add("result[at] = value;")
                elif whole:
                    self.add(f"result[{at}] = {value};")
                else:
                    self.add(f"let at = ({at}) * {LANES};\nlet value = {value};")
                    for e in range(LANES):
                        self.add(f"result[at + {e}] = value[{e}];")
                self.add("}")
            self.add("}")
        self.add("}")

    @property
    def functions(self) -> tuple[str, ...]:
        return ("sg_threefry",) if self.p.dropped else ()

    # -- workgroup memory: vec4s, or scalars if a browser may write a whole vector for one component

    def part(self, at: str, component: str, value: str) -> str:
        """The statement that writes one component of a vec4 in workgroup memory."""
        if self.scalar_pool:
            return f"pool[({at}) * {LANES} + {component}] = {value};"
        return f"pool[{at}][{component}] = {value};"

    def preamble(self) -> str:
        if self.scalar_pool:
            return f"var<workgroup> pool: array<f32, {LANES * self.blocks.pool}>;{PREAMBLE}{NUMBERS}"
        return f"var<workgroup> pool: array<vec4<f32>, {self.blocks.pool}>;{PREAMBLE}{VECTORS}"
