"""The dot archetype: a tiled matrix product whose operands are pulled and whose result goes through an epilogue.

A workgroup computes a bm x bn tile. Steps of bk along the contraction bring a tile of each operand into workgroup
memory, both with the contraction axis outermost; each thread keeps tm x tn sums in registers. Operands are fetched
four at a time along whichever of their axes is contiguous in memory, as index algebra shows; the loop over a step is
written out, for compilers get no hint to unroll it.

Browsers set workgroup memory to zero, and SwiftShader writes that out word by word: a small product takes seconds to compile.
There its operands are read from memory as they are needed, and there are no tiles. Where loads are dear (`Target.dear_loads`) a large
product has none either: threads hand each other what they load. Of a product with a few rows over windows, as a convolution
to the three colours of pictures is, only the left operand has a tile, which is all of it: a thread has a whole column, and no
other wants what it reads of the right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest

from ...graph.index import ZERO, Index, number, opaque, variable
from ...graph.node import Node
from ...plan import Target
from ...symbolic_sizes import divides, hint, varies
from ..fuse import Fuser, Group, behind_reshapes
from ..kernel import Rendered, finish, indent, store_results, workgroup_index
from ..render import LANES, Recorder, Renderer, Scope, lane_variable, narrowed
from ..tiles import CORES, DIRECT, SMALLEST, handed_tile
from ..together import Product
from .operand import AlongK, IndexOf, Operand, Quads, Rows, TiledProduct, operand_of, reads_quads

UNROLLED = (4, 3, 2, 1)  # steps that are written out for browsers, the rest a loop: as many as go into the tile's
WRITTEN_TWICE = 8  # steps of two stages up to which two are written out
MANY_SUMS = 128  # of a thread, with which it multiplies more often than it reads
ENOUGH_SUMS = 64  # of a thread, whose registers are not worth sparing
HELD = "held"  # the place along the contraction that a step leaves to the next
MANY_TILES = 2048  # above which they are taken in stripes
STRIPE = 16  # tiles beside each other
SHORT_STEP = 8  # up to which steps load without asking whether there is a next one
SUBGROUP = ", @builtin(subgroup_size) subgroup_size: u32, @builtin(subgroup_invocation_id) subgroup_lane: u32"
AT_ONCE = 4  # rows of results that a loop writes in one turn
CHEAP = 8  # operations of an element of an operand that may be done again for every few results
CHEAP_BESIDE_LOADS = 64  # the same where a load takes longer than many operations


class DotKernel(TiledProduct):
    """The state of rendering one product."""

    def __init__(self, group: Group, fuser: Fuser, renderer: Renderer, target: Target) -> None:
        assert group.dot is not None
        self.group, self.r, self.target = group, renderer, target
        self.dot = group.dot
        self.batch, self.m, self.k = self.dot.inputs[0].shape
        self.n = self.dot.shape[2]
        product = self.product = Product.of(self.dot)
        self.window, self.chunk, self.parts = product.window, product.chunk, product.parts
        self.batches, self.columns = product.batches, product.n
        self.shared = self.columns != self.n  # all samples have one left operand: they are further columns
        self.handed = self._is_handed()
        self.direct = self.handed or self._is_small()
        self.quads = self.direct and self._has_quads()
        self.along = self.handed and self._is_along_k(self.quads)
        if self.handed:
            self.tile = handed_tile(product.shape, self.quads, self.along)
        elif self.direct:
            self.tile = min(DIRECT, key=lambda t: -(-hint(self.m) // t.bm) * -(-hint(self.columns) // t.bn))
        else:
            self.tile = group.tile or product.tile(target)
        assert self.parts == 1 or self.chunk % self.tile.bk == 0, "a step reaches into the next part"
        if self.tile.bk % self.window:
            self.window = 1
        padding = 4 * 2 * LANES * self.tile.bk * self.tile.stages
        if self.tile.keeps_rows:
            padding += 4 * LANES * (self.tile.bm + self.tile.bn) * self.tile.stages
        self.padded = self.tile.storage + padding <= target.max_workgroup_storage
        self.sums_are_numbers = False  # while they grow; else vec4s of four neighbours
        self.is_float = self.dot.dtype.category == 2
        self.element = str(self.dot.dtype.wgsl)

    @property
    def workgroups(self) -> int:
        return self.product.workgroups(self.tile)

    def render(self, number: str) -> tuple[Operand, ...]:
        """Writes the statements, `number` that of the workgroup in the product; gives what has tiles."""
        t, r = self.tile, self.r
        tiles_m, tiles_n = -(-self.m // t.bm), -(-self.columns // t.bn)
        r.lanes = 1 if t.narrow else LANES
        r.line(f"let wg = {number};")
        self._origin(tiles_m, tiles_n)
        if self.batches > 1:
            r.line(f"let b = wg / {tiles_n * tiles_m * self.parts};")
        if self.parts > 1:
            r.line(f"let part = wg / {tiles_n * tiles_m} % {self.parts};")
            r.line(f"let first = part * {self.chunk};")
            r.line(f"let last = min(first + {self.chunk}, {self.k});")
        r.line("let id = i32(lid);")
        if t.narrow:
            self._columns()
            return ()
        self._places()
        for i in range(t.tm):
            for j in range(t.tn // LANES):
                r.line(f"var c_{i}_{j} = vec4<{self.element}>();")
        operands = self._hand_round() if self.handed else self._sum_up() if self.direct else self._loop()
        if t.deals_rows:
            self._deal_rows()
        elif t.slices > 1:
            self._join_slices(operands)
            r.line("if (slice > 0) { return; }")
        self._epilogue()
        return operands

    def _origin(self, tiles_m: int, tiles_n: int) -> None:
        """The first row and column of the tile. Row after row, but of many tiles in stripes: workgroups that run at a time then share
        what they read of both operands, which stays in the cache."""
        t, r = self.tile, self.r
        if hint(tiles_m * tiles_n) <= MANY_TILES or hint(tiles_m) == 1 or self.direct:
            r.line(f"let n0 = (wg % {tiles_n}) * {t.bn};")
            r.line(f"let m0 = ((wg / {tiles_n}) % {tiles_m}) * {t.bm};")
            return
        r.line(f"let stripe = wg % {tiles_m * tiles_n} / {STRIPE * tiles_m} * {STRIPE};")
        r.line(f"let across = min({STRIPE}, {tiles_n} - stripe);")
        r.line(f"let inside = wg % {tiles_m * tiles_n} - stripe * {tiles_m};")
        r.line(f"let n0 = (stripe + inside % across) * {t.bn};")
        r.line(f"let m0 = inside / across * {t.bm};")

    @property
    def shape(self) -> str:
        t = self.tile
        return (
            f"{self.dot.shape[0]} x " * (self.dot.shape[0] > 1)
            + f"{self.m} x {self.n} x {self.chunk} ({self._way} {t.bm} x {t.bn} x {t.bk})"
        )

    @property
    def _way(self) -> str:
        return "direct" if self.direct else "narrow" if self.tile.narrow else "tile"

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    def _places(self) -> None:
        """Where in the tile a thread's results lie: a subgroup takes 8 by 4 threads, which read few different elements. Two neighbours
        share their rows, and those two apart their columns: NVIDIA's cores bring 16 bytes to eight threads at a time, or to
        sixteen where these are the same for such pairs."""
        t, r = self.tile, self.r
        down, across = t.bm // t.tm, t.bn // t.tn
        own = "id"
        if t.slices > 1:
            own = "own"
            r.line(f"let own = id % {t.slice};")
            r.line(f"let slice = id / {t.slice};")
        if down % 4 or across % 8:
            r.line(f"let tm = {own} / {across};")
            r.line(f"let tn = {own} % {across};")
        else:
            row, column = f"{own} % 8 / 2", f"{own} % 32 / 8 * 2 + {own} % 2"
            if self._has_many_sums:
                row, column = f"{own} % 32 / 8", f"{own} % 8"
            r.line(f"let tm = {own} / 32 / {across // 8} * 4 + {row};")
            r.line(f"let tn = {own} / 32 % {across // 8} * 8 + {column};")

    @property
    def _minds_registers(self) -> bool:
        """Whether multiplications are written in the order that suits registers."""
        return self.is_float and self.target.native and not self.direct and not self.target.dear_loads

    @property
    def _is_a_place_behind(self) -> bool:
        """Whether multiplications wait until the next place along the contraction has been read. With few sums a thread NVIDIA's driver
        keeps to few registers, so that more workgroups run at a time, and puts some of them into memory: that pays only where there
        are no more workgroups."""
        enough = self.tile.tm * self.tile.tn >= ENOUGH_SUMS or hint(self.workgroups) <= 2 * CORES
        return self._minds_registers and enough

    @property
    def _has_many_sums(self) -> bool:
        return self.tile.tm * self.tile.tn >= MANY_SUMS

    @property
    def _moves_sums(self) -> bool:
        """Whether sums are stored from other registers than those they were made in. Where nothing is computed of them, NVIDIA's driver
        makes them where they are stored from, four neighbours at a time, which lets multiplications wait for registers and moves some
        sums there and back in every step. It does not know that what is added here is zero."""
        plain = any(behind_reshapes(root) is self.dot for root in self.group.roots)
        return self._minds_registers and plain and divides(LANES, self.n)

    # -- without tiles

    def _is_small(self) -> bool:
        """Whether it is a browser's, and so small that a tile would take longer to compile."""
        small = hint(self.batch * self.m * self.n * self.k) <= SMALLEST
        return small and not self.target.native and self.window == 1 and self._cost() <= CHEAP

    def _is_handed(self) -> bool:
        """Whether its threads hand each other what they load. Elements of the right operand are computed by each of them."""
        many = self.target.shares_loads(hint(self.batch * self.m * self.n * self.k))
        return many and self._cost() <= CHEAP_BESIDE_LOADS

    def _cost(self) -> int:
        """Operations that an element of both operands takes besides reading."""
        batch, m, n, k = (
            variable(x, size) for x, size in (("b", self.batches), ("m", self.m), ("n", self.columns), ("k", self.k))
        )
        a, b = self.dot.inputs
        recorder = Recorder(self.r.is_buffer)
        recorder.pull(a, (batch, m, k))
        recorder.pull(b, self._index_of_column(n, k))
        return recorder.cost

    def _sum_up(self) -> tuple[Operand, ...]:
        """A walk along the contraction: tm elements of the left operand, tn of the right one, their products. No operand has a
        tile."""
        r = self.r
        rows = self._rows()
        first, last = self._stretch()
        r.open("k")
        k = variable("k", self.k)
        with self.single():
            left = [[r.pull(self.dot.inputs[0], (self._batch_index(), row, k))] for row in rows]
        self._multiply_rows(left, [k])
        self._close_loop(f"for (var k = {first}; k < {last}; k++)")
        return ()

    def _hand_round(self) -> tuple[Operand, ...]:
        """As above, but the threads, which want the same rows, each load one in so many of them, at one place along the contraction or
        at four, and hand it to the others. A subgroup has them all, and a row's number tells who has loaded it."""
        t, r = self.tile, self.r
        first, last = self._stretch()
        places = LANES if self.along else 1
        by = f" / {places}" if places > 1 else ""
        r.line("let lane = i32(subgroup_lane);")
        r.open("at")
        at = variable("at", self.k // places)
        for i in range(0, t.tm, t.threads):
            row, _ = self.clamped(f"m0 + {i} + lane", self.m, divides(t.bm, self.m), "row")
            r.line(f"let own_{i // t.threads} = {self._own(row, at)};")
        rows = [f"own_{i // t.threads}{{}}, {i % t.threads}u" for i in range(t.tm)]
        if self.along:
            left = [[f"subgroupShuffle({row.format(f'.{c}')})" for c in "xyzw"] for row in rows]
            self._multiply_rows(left, [at * LANES + c for c in range(LANES)])
        else:
            self._multiply_rows([[f"subgroupShuffle({row.format('')})"] for row in rows], [at])
        self._close_loop(f"for (var at = {first}{by}; at < {last}{by}; at++)")
        return ()

    def _own(self, row: Index, place: Index) -> str:
        """What a thread loads of a row of the left operand."""
        r, a = self.r, self.dot.inputs[0]
        if self.along:
            value = r.pull(a, (self._batch_index(), row, place * LANES + lane_variable()))
            return r.as_vector(value, self.dot.dtype)
        with self.single():
            return r.pull(a, (self._batch_index(), row, place))

    def _close_loop(self, head: str) -> None:
        """What was written since the scope was opened, as the body of a loop."""
        for line in (f"{head} {{", *indent(self.r.close()), "}"):
            self.r.line(line)

    def _rows(self) -> list[Index]:
        """Those of a thread's results."""
        t = self.tile
        down, exact = t.bm // t.tm, divides(t.bm, self.m)
        places = [f"m0 + ({i // LANES * down} + tm) * {LANES} + {i % LANES}" for i in range(t.tm)]
        return [self.clamped(place, self.m, exact, "row")[0] for place in places]

    def _has_quads(self) -> bool:
        """Whether four neighbours of a row of the right operand are one load."""
        quad = variable("q", -(-self.columns // LANES)) * LANES + lane_variable()
        index = self._index_of_column(quad, variable("k", self.k))
        return divides(LANES, self.columns) and reads_quads(self, self.dot.inputs[1], index)

    def _is_along_k(self, quads: bool) -> bool:
        """Whether four places along the contraction are one load of a row of the left operand; and of a column of the right one,
        unless four columns are."""

        def reads(operand: Node, free: int, index: IndexOf) -> bool:
            quad = variable("q", -(-self.k // LANES)) * LANES + lane_variable()
            return reads_quads(self, operand, index(variable("free", free), quad))

        a, b = self.dot.inputs
        return (
            divides(LANES, self.k)
            and divides(LANES, self.chunk)
            and reads(a, self.m, lambda row, k: (self._batch_index(), row, k))
            and (quads or reads(b, self.columns, self._index_of_column))
        )

    def _stretch(self) -> tuple[str, str]:
        """Where along the contraction the sums begin and end."""
        return ("first", "last") if self.parts > 1 else ("0", f"{self.k}")

    def _multiply_rows(self, left: list[list[str]], places: list[Index]) -> None:
        """The products at some places along the contraction: of the left operand those of each row are given, those of the right
        one are read."""
        t, r = self.tile, self.r
        for j in range(t.tn // LANES):
            right = self._right(j, places)
            for i, values in enumerate(left):
                total = f"c_{i}_{j}"
                for a, b in zip(values, right, strict=True):
                    total = self._multiply_add(total, a, b)
                r.line(f"c_{i}_{j} = {total};")

    def _right(self, j: int, places: list[Index]) -> list[str]:
        """Four neighbours of a row of the right operand, at each of some places along the contraction."""
        t, r = self.tile, self.r
        b, depth = self.dot.inputs[1], len(r.scopes) - 1
        across, exact = t.bn // t.tn, divides(t.bn, self.columns)
        start = f"n0 + ({j * across} + tn) * {LANES}"
        if self.quads:
            q = self.clamped(f"({start}) / {LANES}", self.columns // LANES, exact, "q")[0] * LANES + lane_variable()
            return [r.as_vector(r.pull(b, self._index_of_column(q, k)), self.dot.dtype) for k in places]
        columns = [self.clamped(f"{start} + {e}", self.columns, exact, "column")[0] for e in range(LANES)]
        if self.along:
            four = places[0] + lane_variable()
            by_column = [
                r.as_vector(r.pull(b, self._index_of_column(column, four)), self.dot.dtype) for column in columns
            ]
            parts = [[f"{value}.{place}" for value in by_column] for place in "xyzw"]
        else:
            with self.single():
                parts = [[r.pull(b, self._index_of_column(column, k)) for column in columns] for k in places]
        return [r.define(f"vec4<{self.element}>({', '.join(p)})", depth) for p in parts]

    # -- a column a thread

    @property
    def declaration(self) -> str:
        """The left operand of a narrow product in workgroup memory."""
        return "" if not self.tile.narrow else f"var<workgroup> rows: array<{self._column}, {self.k}>;\n"

    @property
    def _column(self) -> str:
        """The type of a thread's results."""
        return f"vec{self.m}<{self.element}>" if self.m > 1 else self.element

    def _columns(self) -> None:
        """All of the left operand into workgroup memory, then a walk along the windows; the places of one are written out."""
        t, r = self.tile, self.r
        a, b = self.dot.inputs
        r.open("at")
        with self.single():
            parts = [r.pull(a, (self._batch_index(), number(i), variable("at", self.k))) for i in range(self.m)]
        r.line(f"rows[at] = {self._column}({', '.join(parts)});")
        self._close_loop(f"for (var at = id; at < {self.k}; at += {t.threads})")
        r.line("workgroupBarrier();")
        exact = divides(t.bn, self.columns)
        column = self.clamped("n0 + id", self.columns, exact, "column")[0]
        r.line(f"var c = {self._column}();")
        r.open("channel")
        for place in range(self.window):
            k = variable("channel", self.k // self.window) * self.window + place
            with self.single():
                value = r.pull(b, self._index_of_column(column, k))
            left = f"rows[channel * {self.window} + {place}]"
            r.line(f"c = fma({self._column}({value}), {left}, c);" if self.is_float else f"c = c + {value} * {left};")
        self._close_loop(f"for (var channel = 0; channel < {self.k // self.window}; channel++)")
        if not exact:
            r.line(f"if (n0 + id >= {self.columns}) {{ return; }}")
        batch, _, n = self._index_of_column(column, ZERO)
        for i in range(self.m):
            value = narrowed(f"c[{i}]" if self.m > 1 else "c", self.dot.dtype, False)
            store_results(r, self.group, self.dot, value, (batch * self.m + i) * self.n + n)

    # -- the loop over the contraction

    def _loop(self) -> tuple[Operand, ...]:
        """Each step stores the tiles fetched before, starts fetching the next ones, and multiplies meanwhile."""
        t, r = self.tile, self.r
        a, b = self.dot.inputs
        operands = (
            operand_of(self, a, "a", self.m, t.bm, "m0", lambda f, k: (self._batch_index(), f, k)),
            operand_of(self, b, "b", self.columns, t.bn, "n0", self._index_of_column),
        )
        for operand in operands:
            for register in operand.registers():
                r.line(register)
        first, last = self._stretch()
        r.line(f"var k0 = {first};")
        self._fetch_into_registers(operands, "{")
        # sums are declared after the first loads: before them, NVIDIA's driver makes a product of 2048³ take 8 % longer
        self.sums_are_numbers = self._minds_registers and self._has_many_sums and not operands[1].transposed
        if self.sums_are_numbers:
            self._declare_numbers()
        if self._is_a_place_behind:
            for name in self._names_read(operands, HELD):
                r.line(f"var {name} = vec4<{self.element}>();")
        if t.stages > 1:
            self._staged_steps(operands, first, last)
        else:
            self._steps(operands, first, last)
        if self._is_a_place_behind:
            self._to_and_fro(HELD)
        if self.sums_are_numbers:
            self._join_numbers()
        return operands

    def _declare_numbers(self) -> None:
        """Sums as numbers."""
        for i in range(self.tile.tm):
            for j in range(self.tile.tn):
                self.r.line(f"var {self._sum(i, j)} = {self.element}();")

    def _join_numbers(self) -> None:
        """Sums as vectors, from which results are made."""
        for i in range(self.tile.tm):
            for j in range(0, self.tile.tn, LANES):
                four = ", ".join(self._sum(i, j + e) for e in range(LANES))
                self.r.line(f"c_{i}_{j // LANES} = vec4<{self.element}>({four});")

    def _steps(self, operands: tuple[Operand, ...], first: str, last: str) -> None:
        """Steps with one tile of each operand: between two barriers it is read."""
        t, r = self.tile, self.r
        if t.slices > 1:
            for operand in operands:
                r.line(f"let at_{operand.name} = {self._own_place(operand)};")
        r.line(f"for (var k = {first}; k < {last}; k += {t.bk}) {{")
        r.open()
        self._store(operands)
        r.line("workgroupBarrier();")
        if hint(self.chunk) > t.bk or varies(self.chunk):
            self._fetch_next(operands, last)
        self._multiply(operands)
        r.line("workgroupBarrier();")
        for line in indent(r.close()):
            r.line(line)
        r.line("}")

    def _staged_steps(self, operands: tuple[Operand, ...], first: str, last: str) -> None:
        """Steps with two tiles of each operand: while one is read, the other is filled for the next step. Short steps are written
        out two by two, so that the places of the tiles are numbers."""
        t, r = self.tile, self.r
        pairs = t.bk <= WRITTEN_TWICE
        if not pairs:
            for operand in operands:
                r.line(f"var fill_{operand.name} = 0;")
        r.line(f"for (var k = {first}; k < {last}; k += {t.bk * (2 if pairs else 1)}) {{")
        r.open()
        for step in range(2 if pairs else 1):
            if pairs:
                r.line(f"if (k + {t.bk} < {last}) {{" if step else "{")
                for operand in operands:
                    r.line(f"const fill_{operand.name} = {step * operand.quads};")
            self._store(operands)
            r.line("workgroupBarrier();")
            r.line(f"k0 = k + {t.bk * (step + 1)};")
            self._fetch_into_registers(operands, f"if (k0 < {last}) {{")
            for operand in operands:
                r.line(f"let at_{operand.name} = fill_{operand.name} + {self._own_place(operand)};")
            self._multiply(operands)
            if pairs:
                r.line("}")
            else:
                for operand in operands:
                    r.line(f"fill_{operand.name} = {operand.quads} - fill_{operand.name};")
        for line in indent(r.close()):
            r.line(line)
        r.line("}")

    def _own_place(self, operand: Operand) -> str:
        """Where in a tile a thread begins to read, in vec4s."""
        thread = "tm" if operand.name == "a" else "tn"
        if isinstance(operand, Rows):
            return f"slice * {self.tile.bk // LANES // self.tile.slices} + {thread} * {operand.pitch}"
        if self.tile.slices == 1:
            return thread
        return f"slice * {operand.quads // self.tile.slices} + {thread}"

    def _deal_rows(self) -> None:
        """Each slice's share of the rows, as sums over all slices: those of the first half lie in one operand's tile, the others in
        the other's."""
        t, r = self.tile, self.r
        quads, half, each = t.tn // LANES, t.tm // 2, t.tm // t.slices
        if t.stages > 1:
            r.line("workgroupBarrier();")
        for i in range(t.tm):
            for j in range(quads):
                place = f"(slice * {half * quads} + {i % half * quads + j}) * {t.slice} + own"
                r.line(f"tile_{'ab'[i // half]}[{place}] = c_{i}_{j};")
        r.line("workgroupBarrier();")
        for tile, condition in zip("ab", (f"slice < {t.slices // 2}", f"slice >= {t.slices // 2}"), strict=True):
            r.line(f"if ({condition}) {{")
            for i in range(each):
                for j in range(quads):
                    first = f"(slice % {t.slices // 2} * {each * quads} + {i * quads + j}) * {t.slice} + own"
                    terms = (f"tile_{tile}[{first} + {s * half * quads * t.slice}]" for s in range(t.slices))
                    r.line(f"  c_{i}_{j} = {' + '.join(terms)};")
            r.line("}")

    def _join_slices(self, operands: tuple[Operand, ...]) -> None:
        """The sums of all slices into those of the first, half of them by half, through the memory of the larger tile: as many
        at a time as it holds."""
        t, r = self.tile, self.r
        scratch = max(operands, key=lambda o: o.tile_free)
        sums = [f"c_{i}_{j}" for i in range(t.tm) for j in range(t.tn // LANES)]
        half = t.slices // 2
        if t.stages > 1:
            r.line("workgroupBarrier();")
        while half:
            room = min(len(sums), t.room // (half * t.slice))
            for start in range(0, len(sums), room):
                some = sums[start : start + room]
                places = [f"* {t.slice * len(some)} + {number * t.slice} + own" for number in range(len(some))]
                r.line(f"if (slice >= {half} && slice < {2 * half}) {{")
                for name, place in zip(some, places, strict=True):
                    r.line(f"  tile_{scratch.name}[(slice - {half}) {place}] = {name};")
                r.line("}")
                r.line("workgroupBarrier();")
                r.line(f"if (slice < {half}) {{")
                for name, place in zip(some, places, strict=True):
                    r.line(f"  {name} = {name} + tile_{scratch.name}[slice {place}];")
                r.line("}")
                r.line("workgroupBarrier();")
            half //= 2

    def _store(self, operands: tuple[Operand, ...]) -> None:
        for operand in operands:
            for line in operand.store():
                self.r.line(line)

    def _fetch_next(self, operands: tuple[Operand, ...], last: str) -> None:
        """What the next step takes. The last step loads its own tiles once more, where that pays, instead of asking whether there is
        a next one: without a branch a compiler mixes loads and multiplications."""
        r, following = self.r, f"k + {self.tile.bk}"
        if self._loads_always(operands):
            r.line(f"k0 = select(k, {following}, {following} < {last});")
            self._fetch_into_registers(operands, "{")
        else:
            r.line(f"k0 = {following};")
            self._fetch_into_registers(operands, f"if (k0 < {last}) {{")

    def _loads_always(self, operands: tuple[Operand, ...]) -> bool:
        """As was measured: where loads bring four elements, in short steps, and in all steps that transpose both operands."""
        kind = Quads if self.tile.bk <= SHORT_STEP else AlongK
        return self.target.native and all(isinstance(operand, kind) for operand in operands)

    def _fetch_into_registers(self, operands: tuple[Operand, ...], head: str) -> None:
        self.r.open("k0")
        for operand in operands:
            operand.fetch()
        lines = self.r.close()
        self.r.line(head)
        for line in indent(lines):
            self.r.line(line)
        self.r.line("}")

    def _multiply(self, operands: tuple[Operand, ...]) -> None:
        """The products of a step."""
        t, r = self.tile, self.r
        if self._is_a_place_behind:
            self._multiply_a_place_behind(operands)
        elif self.target.native:
            for step in range(t.bk // t.slices):
                self._read(operands, str(step), step)
                (self._to_and_fro if self._minds_registers else self._multiply_place)(str(step))
        else:
            unrolled = next(n for n in UNROLLED if t.bk % n == 0)
            r.open()
            for step in range(unrolled):
                self._read(operands, str(step), f"(step + {step})" if step else "step")
                self._multiply_place(str(step))
            self._close_loop(f"for (var step = 0; step < {t.bk}; step += {unrolled})")

    def _multiply_a_place_behind(self, operands: tuple[Operand, ...]) -> None:
        """The same, where what is read at a place along the contraction waits for that of the next: what is read last is multiplied in
        the next step. NVIDIA's driver writes these products between the stores to the tiles, and as some operands stay from step to
        step it moves fewer sums out of their way and back."""
        before = HELD
        for step in range(self.tile.bk // self.tile.slices):
            self._to_and_fro(before)
            self._read(operands, str(step), step)
            before = str(step)
        for held, read in zip(self._names_read(operands, HELD), self._names_read(operands, before), strict=True):
            self.r.line(f"{held} = {read};")

    @staticmethod
    def _names_read(operands: tuple[Operand, ...], place: str) -> list[str]:
        """The names of what a thread multiplies at a place along the contraction."""
        return [f"{o.name}_{place}_{quad}" for o in operands for quad in range(len(o.offsets))]

    def _multiply_place(self, name: str) -> None:
        """Products of one place along the contraction."""
        t = self.tile
        for i in range(t.tm):
            for j in range(t.tn // LANES):
                a, b, c = f"a_{name}_{i // LANES}[{i % LANES}]", f"b_{name}_{j}", f"c_{i}_{j}"
                self.r.line(f"{c} = {self._multiply_add(c, a, b)};")

    def _to_and_fro(self, name: str) -> None:
        """The same, one by one, every second row backwards: each takes one operand from the one before, so that it reads two
        registers, a sum and the other operand. NVIDIA's cores read two in a cycle, and wait for a third. Many rows begin with the one
        that was read last."""
        t = self.tile
        for n, i in enumerate(reversed(range(t.tm)) if self._has_many_sums else range(t.tm)):
            for j in reversed(range(t.tn)) if n % 2 else range(t.tn):
                c = self._sum(i, j)
                a, b = f"a_{name}_{i // LANES}.{'xyzw'[i % LANES]}", f"b_{name}_{j // LANES}.{'xyzw'[j % LANES]}"
                self.r.line(f"{c} = fma({a}, {b}, {c});")

    def _sum(self, i: int, j: int) -> str:
        """The name of one of a thread's sums."""
        return f"sum_{i}_{j}" if self.sums_are_numbers else f"c_{i}_{j // LANES}.{'xyzw'[j % LANES]}"

    def _read(self, operands: tuple[Operand, ...], name: str, step: int | str) -> None:
        """What a thread multiplies at one place along the contraction; `step` is its number, or the text of it."""
        texts = []
        for operand in operands:
            if isinstance(operand, Rows):
                assert isinstance(step, int), "slices are written out"
                texts.append(list(self._rows_read(operand, step)))
            else:
                texts.append(list(self._quads_read(operand, name, step)))
        left, right = texts
        in_turn = self._has_many_sums and self._minds_registers
        lines = chain.from_iterable(zip_longest(right, left)) if in_turn else left + right
        for line in filter(None, lines):
            self.r.line(line)

    def _quads_read(self, operand: Operand, name: str, step: int | str) -> Iterator[str]:
        """The statements that read an operand at one place, four neighbours along its free axis each."""
        t = self.tile
        thread = ("tm" if operand.name == "a" else "tn") if t.stages * t.slices == 1 else f"at_{operand.name}"
        for quad, offset in enumerate(operand.offsets):
            row = operand.row(step) + offset if isinstance(step, int) else f"{step} * {operand.across} + {offset}"
            yield f"let {operand.name}_{name}_{quad} = {operand.quad(f'{row} + {thread}')};"

    def _rows_read(self, operand: Rows, step: int) -> Iterator[str]:
        """Those where four places of a row are a vec4 of the tile, which is read with the first of them."""
        number, place = divmod(step, LANES)
        for quad, offset in enumerate(operand.offsets):
            rows = [f"{operand.name}_{number}_{quad}_{lane}" for lane in range(LANES)]
            for lane, row in enumerate(rows):
                at = (offset + lane * operand.tile_free // LANES) * operand.pitch + number
                if place == 0:
                    yield f"let row_{row} = {operand.quad(f'{at} + at_{operand.name}')};"
            parts = ", ".join(f"row_{row}[{place}]" for row in rows)
            yield f"let {operand.name}_{step}_{quad} = vec4<{self.element}>({parts});"

    def _multiply_add(self, c: str, a: str, b: str) -> str:
        return f"fma(vec4<{self.element}>({a}), {b}, {c})" if self.is_float else f"{c} + {a} * {b}"

    def _batch_index(self) -> Index:
        return variable("b", self.batches)

    def _index_of_column(self, column: Index, k: Index) -> tuple[Index, ...]:
        """The index into the right operand."""
        if self.shared:
            return column // self.n, k, column % self.n
        return self._batch_index(), k, column

    # -- the results

    def _epilogue(self) -> None:
        """Write tm x tn results a thread, four at a time where rows are a multiple of four."""
        t, r = self.tile, self.r
        rows, across = t.bm // t.tm, t.bn // t.tn
        vector = divides(LANES, self.n)
        r.lanes = LANES if vector else 1
        for j in range(t.tn // LANES):
            r.line(f"let n_{j} = n0 + ({j * across} + tn) * {LANES};")
        if self.handed:
            self._row_by_row(vector)
            return
        if self._moves_sums:
            r.line(f"let zero = vec4<{self.element}>({self.element}(wid.z));")
        dealt = t.tm // t.slices if t.deals_rows else t.tm
        for i in range(dealt):
            if t.deals_rows:
                r.line(f"let row_{i} = slice * {dealt} + {i};")
                r.line(f"let m_{i} = m0 + (row_{i} / {LANES} * {rows} + tm) * {LANES} + row_{i} % {LANES};")
            else:
                r.line(f"let m_{i} = m0 + ({i // LANES * rows} + tm) * {LANES} + {i % LANES};")
            for j in range(t.tn // LANES):
                for e in range(1 if vector else LANES):
                    self._result(i, j, e, vector)

    def _row_by_row(self, vector: bool) -> None:
        """The results of the first rows, as often as there are so many, while the others move up. Written out, it would take llvmpipe
        four times as long to compile, so no driver knows how often that is; and where more follows, rows go one by one."""
        t, r = self.tile, self.r
        alone = all(behind_reshapes(root) is self.dot for root in self.group.roots)
        quads, some = range(t.tn // LANES), range(AT_ONCE if alone else 1)
        # what is made of sums stays in the loop
        r.open(*(f"m_{i}" for i in some), *(f"c_{i}_{j}" for i in some for j in quads))
        for i in some:
            r.line(f"let m_{i} = m0 + row + {i};" if i else "let m_0 = m0 + row;")
        for j in quads:
            for i in some:
                for e in range(1 if vector else LANES):
                    self._result(i, j, e, vector)
            for i in range(t.tm - len(some)):
                r.line(f"c_{i}_{j} = c_{i + len(some)}_{j};")
        r.line(f"let rows = {t.tm} * min(i32(subgroup_size), 1);", len(r.scopes) - 2)
        self._close_loop(f"for (var row = 0; row < rows; row += {len(some)})")

    def _result(self, i: int, j: int, e: int, vector: bool) -> None:
        r, t = self.r, self.tile
        checks = []
        if not divides(t.bm, self.m):
            checks.append(f"m_{i} < {self.m}")
        if not divides(t.bn, self.columns):
            checks.append(f"n_{j} < {self.columns}" if vector else f"n_{j} + {e} < {self.columns}")
        total = f"c_{i}_{j}"
        if self._moves_sums:
            total = f"moved_{i}_{j}"
            r.line(f"let {total} = c_{i}_{j} + zero;")
        r.open(f"m_{i}")  # nothing that depends on m may leave the guard
        m = opaque(f"m_{i}", 0, self.m - 1)
        if vector:
            column = self.known(self._inside(f"n_{j} / {LANES}", self.columns // LANES), self.columns // LANES, "q")
            column = column * LANES + lane_variable()
        else:
            text = self._inside(f"n_{j} + {e}" if e else f"n_{j}", self.columns)
            column = self.known(text, self.columns, "column")
        value = narrowed(total if vector else f"{total}[{e}]", self.dot.dtype, vector)
        if vector:
            r.vectors.add(value)
        b, _, n = self._index_of_column(column, m)
        flat = ((b * self.parts + variable("part", self.parts)) * self.m + m) * self.n + n
        store_results(r, self.group, self.dot, value, flat)
        lines = r.close()
        r.line(f"if ({' && '.join(checks)}) {{" if checks else "{")
        for line in indent(lines):
            r.line(line)
        r.line("}")

    def _inside(self, text: str, size: int) -> str:
        """A column that is read before the guard is asked."""
        return text if divides(self.tile.bn, self.columns) else f"min({text}, {size - 1})"


def render_dot(group: Group, fuser: Fuser, r: Renderer, target: Target) -> Rendered:
    """The kernel of a dot group, or of several that share a dispatch: each takes a range of workgroups."""
    kernels = [DotKernel(part, fuser, r, target) for part in group.parts or [group]]
    total = sum(kernel.workgroups for kernel in kernels)
    index = workgroup_index(total, target)
    tiles: dict[str, Operand] = {}  # of all parts in the same memory
    body: list[str] = []
    start = 0
    for kernel in kernels:
        r.scopes = [Scope()]  # what is known in one part is not in others
        alone = len(kernels) == 1
        for operand in kernel.render(index if alone else f"number - {start}" if start else "number"):
            tiles[operand.name] = max(tiles.get(operand.name, operand), operand, key=lambda o: o.held)
        start += kernel.workgroups
        lines = r.scopes[0].lines
        body += (
            lines
            if alone
            else [f"if (number >= {start - kernel.workgroups} && number < {start}) {{", *indent(lines), "}"]
        )
    if len(kernels) > 1:
        body = [f"let number = {index};", *body]
    return finish(
        r,
        group,
        target,
        threads=kernels[0].tile.threads,
        workgroups=total,
        body=body,
        globals_="".join(operand.declaration() for operand in tiles.values()) + kernels[0].declaration,
        arguments=SUBGROUP if any(kernel.handed for kernel in kernels) else "",
        shape=" + ".join(kernel.shape for kernel in kernels),
        flops=sum(kernel.flops for kernel in kernels),
    )
