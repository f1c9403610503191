"""Loads of the operands of a tiled matrix multiplication: from memory into registers, then into workgroup memory as [k][free axis], or as
[free axis][k] if rows are kept. There is a class for each layout: vec4 loads along either axis; scalar loads with neighbouring threads
along the nearer axis; and whole windows per thread, whose positions are constants in the source, so that expressions of them are
computed before the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....graph.index import Index
from ....graph.node import Node
from ....symbolic_sizes import divides
from ...choices import DotChoice, Layout
from ...kernel import indent
from ...layouts import IndexOf
from ...puller import LANES, lane_variable
from .product import ProductWriter

FEW_BANKS = 8  # neighbours along k whose adjacent stores use two banks


@dataclass
class Operand:
    """The tile of an operand. tile_free: the tile's size along the free axis, which starts at `start`. `count` units are
    loaded for a tile, `parts` of them by each thread; if the numbers do not divide, some threads skip the last one.
    """

    kernel: ProductWriter
    node: Node
    name: str
    free: int
    tile_free: int
    start: str
    index: IndexOf
    transposed = True  # whether neighbouring threads store along k: then rows are padded, against bank conflicts
    writes_components = (
        True  # a thread's values are not neighbours in the tile; they alternate with those of other threads
    )

    @property
    def across(self) -> int:
        """vec4s per row of the tile."""
        return self.tile_free // LANES + (1 if self.transposed and self.kernel.choice.padded else 0)

    @property
    def offsets(self) -> range:
        """The offsets in a row of the tile, in vec4s, of the first thread's operands."""
        t = self.kernel.tile
        each = t.tm if self.name == "a" else t.tn
        return range(0, self.tile_free // LANES, self.tile_free // each)

    def row(self, k: int) -> int:
        """The start of the row for a position along the contraction, in vec4s."""
        return k * self.across

    @property
    def quads(self) -> int:
        """vec4s in the tile of a step."""
        return self.row(self.kernel.tile.bk)

    @property
    def filled(self) -> str:
        """The offset, as a summand, of the tile into which threads store."""
        return f"fill_{self.name} + " if self.kernel.tile.stages > 1 else ""

    @property
    def count(self) -> int:
        return self.kernel.tile.bk * self.tile_free

    @property
    def parts(self) -> int:
        return -(-self.count // self.kernel.tile.threads)

    @property
    def whole(self) -> bool:
        """Whether every thread loads equally much, and all of it lies within the operand."""
        return self.count % self.kernel.tile.threads == 0

    def registers(self) -> Iterator[str]:
        """The declarations of the thread's registers for fetched elements."""
        for part in range(self.parts):
            yield f"var {self.register(part)} = {self.zero()};"

    def register(self, part: int) -> str:
        return f"next_{self.name}_{part}"

    def zero(self) -> str:
        return self.kernel.r.literal(0, self.kernel.dot.dtype)

    def place(self, text: str) -> str:
        """A name, defined outside the loop, for the position of a thread's part in the tile."""
        return self.kernel.r.define(text, 0)

    def thread(self, part: int) -> str:
        return f"(id + {part * self.kernel.tile.threads})" if part else "id"

    def divided(self, part: int, by: int) -> tuple[str, str]:
        """Quotient and remainder of a part's number divided by `by`; the remainder is the same for all parts if possible."""
        threads = self.kernel.tile.threads
        if part and threads % by == 0:
            slow = self.place(f"{self.place(f'id / {by}')} + {part * threads // by}")
            return slow, self.place(f"id % {by}")
        return self.place(f"{self.thread(part)} / {by}"), self.place(f"{self.thread(part)} % {by}")

    def clamped_free(self, text: str) -> Index:
        exact = self.whole and divides(self.tile_free, self.free)
        return self.kernel.clamped(f"{self.start} + {text}", self.free, exact, "free")[0]

    def clamped_k(self, text: str) -> tuple[Index, str | None]:
        exact = self.whole and divides(self.kernel.tile.bk, self.kernel.k)
        return self.kernel.clamped(f"k0 + {text}", self.kernel.k, exact, "step")

    def fetch(self) -> None:
        """Statements that load all parts into registers."""
        raise NotImplementedError

    def store(self) -> list[str]:
        """Statements that move the registers to workgroup memory."""
        lines = []
        for part in range(self.parts):
            found = list(self.stored(part))
            if (part + 1) * self.kernel.tile.threads > self.count:
                found = [f"if ({self.thread(part)} < {self.count}) {{", *indent(found), "}"]
            lines += found
        return lines

    def stored(self, part: int) -> Iterator[str]:
        """Statements that store one part."""
        raise NotImplementedError

    # -- the tile in workgroup memory

    @property
    def holds_numbers(self) -> bool:
        """Whether the tile is an array of scalars instead of vec4s."""
        return self.name in self.kernel.numbers

    @property
    def held(self) -> int:
        """vec4s in workgroup memory."""
        return self.quads * self.kernel.tile.stages

    def declaration(self) -> str:
        count, element = self.held, self.kernel.element
        kind = f"array<{element}, {count * LANES}>" if self.holds_numbers else f"array<vec4<{element}>, {count}>"
        return f"var<workgroup> tile_{self.name}: {kind};\n"

    def quad(self, at: str) -> str:
        """Four neighbours of the tile, by the number of their vec4."""
        if not self.holds_numbers:
            return f"tile_{self.name}[{at}]"
        parts = (f"tile_{self.name}[({at}) * {LANES} + {e}]" for e in range(LANES))
        return f"vec4<{self.kernel.element}>({', '.join(parts)})"

    def put(self, at: str, four: str) -> Iterator[str]:
        """Statements that write four neighbours of the tile, by the number of their vec4. four: the name of a vec4."""
        if not self.holds_numbers:
            yield f"tile_{self.name}[{at}] = {four};"
            return
        for e in range(LANES):
            yield f"tile_{self.name}[({at}) * {LANES} + {e}] = {four}[{e}];"

    def cell(self, row: str, free: str) -> str:
        """An lvalue of one element of the tile, in the row that begins there."""
        if self.holds_numbers:
            return f"tile_{self.name}[({self.filled}{row}) * {LANES} + {free}]"
        return f"tile_{self.name}[{self.filled}{row} + {free} / {LANES}][{free} % {LANES}]"


class Quads(Operand):
    """Vector loads: four neighbours along an axis are one load, and a part is four elements."""

    @property
    def count(self) -> int:
        return super().count // LANES

    def zero(self) -> str:
        return f"vec4<{self.kernel.element}>()"

    def zeroed(self, value: str, condition: str | None) -> str:
        """The value, or zero past the end of the contraction."""
        value = self.kernel.r.as_vector(value, self.kernel.dot.dtype)
        return value if condition is None else f"select({self.zero()}, {value}, {condition})"


class AlongK(Quads):
    """Four neighbours along k are one load. In long steps, two neighbouring threads load each row, so that loads
    fill sectors of memory and adjacent stores fall into different banks. If four threads load each row,
    the rows that one thread stores are skewed against the next ones.
    """

    @property
    def skew(self) -> int:
        """vec4s of padding between four rows of the tile and the next four. Two are eight banks: then the stores of four threads with four rows
        each, for eight neighbours along the free axis, cover all 32 banks.
        """
        return 2 if self.kernel.choice.skewed else 0

    @property
    def across(self) -> int:
        return self.tile_free // LANES if self.skew else super().across

    def row(self, k: int) -> int:
        return super().row(k) + k // LANES * self.skew

    def fetch(self) -> None:
        d = self.kernel
        for part in range(self.parts):
            row, quad = self.places(part)
            f = self.clamped_free(row)
            exact = self.whole and divides(d.tile.bk, d.k)
            q, ok = d.clamped(f"(k0 >> {LANES.bit_length() - 1}u) + {quad}", d.k // LANES, exact, "q")
            value = d.r.pull(self.node, self.index(f, q * LANES + lane_variable()))
            d.r.line(f"{self.register(part)} = {self.zeroed(value, ok)};")

    def stored(self, part: int) -> Iterator[str]:
        row, quad = self.places(part)
        for e in range(LANES):
            yield f"{self.cell(f'{quad} * {self.row(LANES)} + {self.row(e)}', row)} = {self.register(part)}[{e}];"

    def places(self, part: int) -> tuple[str, str]:
        """The row, and the quad in it, that a thread loads."""
        quads, threads = self.kernel.tile.bk // LANES, self.kernel.tile.threads
        if quads % 2 or quads < FEW_BANKS:
            return self.divided(part, quads)
        pairs, before = 2 * self.tile_free, part * threads
        if pairs % threads == 0:  # the rows of a pair of quads take several parts
            row, first = self.place(f"id / 2 + {before % pairs // 2}"), f"{before // pairs * 2}"
        elif threads % pairs == 0:
            row, first = self.place(f"id / 2 % {self.tile_free}"), f"id / {pairs} * 2 + {before // pairs * 2}"
        else:
            row = self.place(f"{self.thread(part)} / 2 % {self.tile_free}")
            first = f"{self.thread(part)} / {pairs} * 2"
        return row, self.place(f"id % 2 + {first}")


class Rows(AlongK):
    """As AlongK, but four neighbours along k stay neighbours in the tile: a load is one store instead of four, and neighbouring threads load
    whole rows. A quad belongs to one row. Rows are ordered so that those which neighbouring threads read are adjacent,
    and have an odd length in quads, so that they start in different banks.
    """

    transposed = False
    writes_components = False

    @property
    def pitch(self) -> int:
        """vec4s from a row to the next."""
        quads = self.kernel.tile.bk // LANES
        return quads + (1 - quads % 2 if self.kernel.choice.padded else 0)

    @property
    def quads(self) -> int:
        return self.tile_free * self.pitch

    def places(self, part: int) -> tuple[str, str]:
        return self.divided(part, self.kernel.tile.bk // LANES)

    def stored(self, part: int) -> Iterator[str]:
        row, quad = self.places(part)
        place = self.place(f"({row} % {LANES} * {self.tile_free // LANES} + {row} / {LANES}) * {self.pitch} + {quad}")
        yield from self.put(f"{self.filled}{place}", self.register(part))


class AlongFree(Quads):
    """Four neighbours along the free axis are one load."""

    transposed = False
    writes_components = False

    def fetch(self) -> None:
        d = self.kernel
        for part in range(self.parts):
            step, quad = self.divided(part, self.tile_free // LANES)
            exact = divides(self.tile_free, self.free)
            q, _ = d.clamped(f"{self.start} / {LANES} + {quad}", self.free // LANES, exact, "q")
            k, ok = self.clamped_k(step)
            value = d.r.pull(self.node, self.index(q * LANES + lane_variable(), k))
            d.r.line(f"{self.register(part)} = {self.zeroed(value, ok)};")

    def stored(self, part: int) -> Iterator[str]:
        step, quad = self.divided(part, self.tile_free // LANES)
        yield from self.put(f"{self.filled}{step} * {self.across} + {quad}", self.register(part))


class Scalars(Operand):
    """Scalar loads; neighbouring threads load neighbours along k."""

    def places(self, part: int) -> tuple[str, str]:
        """The position of a part: along the free axis, along k."""
        return self.divided(part, self.kernel.tile.bk)

    def fetch(self) -> None:
        with self.kernel.single():
            for part in range(self.parts):
                self._fetch(part)

    def _fetch(self, part: int) -> None:
        d = self.kernel
        row, step = self.places(part)
        f = self.clamped_free(row)
        if d.window > 1 and divides(d.tile.bk, d.k) and self.whole:
            places, windows = self.place(f"{step} % {d.window}"), self.place(f"{step} / {d.window}")
            k = d.known(f"{d.at_window()} + {windows}", d.k // d.window, "channel") * d.window
            k, ok = k + d.known(places, d.window, "place"), None
        else:
            k, ok = self.clamped_k(step)
        value = d.r.pull(self.node, self.index(f, k))
        if ok is not None:
            value = f"select({self.zero()}, {value}, {ok})"
        d.r.line(f"{self.register(part)} = {value};")

    def stored(self, part: int) -> Iterator[str]:
        row, step = self.places(part)
        yield f"{self.cell(f'{step} * {self.across}', row)} = {self.register(part)};"


class ScalarsAlongFree(Scalars):
    """As Scalars, for operands that are contiguous along the free axis."""

    transposed = False

    def places(self, part: int) -> tuple[str, str]:
        step, row = self.divided(part, self.tile_free)
        return row, step


class Windows(Operand):
    """Whole windows: a thread loads all elements of a channel's window; neighbouring threads load neighbours along the free axis."""

    transposed = False

    @property
    def count(self) -> int:
        return super().count // self.kernel.window

    def registers(self) -> Iterator[str]:
        for part in range(self.parts):
            for place in range(self.kernel.window):
                yield f"var {self.register(part)}_{place} = {self.zero()};"

    def fetch(self) -> None:
        with self.kernel.single():
            for part in range(self.parts):
                self._fetch(part)

    def _fetch(self, part: int) -> None:
        d = self.kernel
        channel, column = self.divided(part, self.tile_free)
        f = self.clamped_free(column)
        exact = self.whole and divides(d.tile.bk, d.k)
        at, ok = d.clamped(f"{d.at_window()} + {channel}", d.k // d.window, exact, "channel")
        for place in range(d.window):
            value = d.r.pull(self.node, self.index(f, at * d.window + place))
            if ok is not None:
                value = f"select({self.zero()}, {value}, {ok})"
            d.r.line(f"{self.register(part)}_{place} = {value};")

    def stored(self, part: int) -> Iterator[str]:
        channel, column = self.divided(part, self.tile_free)
        for place in range(self.kernel.window):
            step = f"({channel} * {self.kernel.window} + {place})"
            yield f"{self.cell(f'{step} * {self.across}', column)} = {self.register(part)}_{place};"


LOADERS: dict[Layout, type[Operand]] = {
    "along k": AlongK,
    "rows": Rows,
    "along free": AlongFree,
    "windows": Windows,
    "scalars along k": Scalars,
    "scalars along free": ScalarsAlongFree,
}


def held_as_numbers(choice: DotChoice) -> Iterator[str]:
    """The names of the operands whose tiles must be arrays of scalars to avoid races: if a thread writes components of
    vec4s, and the compiler may write the whole vec4 for one.
    """
    if choice.method == "tiled" and not choice.component_stores:
        for name, layout in zip("ab", choice.layouts, strict=True):
            if LOADERS[layout].writes_components:
                yield name


def operand_of(
    layout: Layout,
    kernel: ProductWriter,
    node: Node,
    name: str,
    free: int,
    tile_free: int,
    start: str,
    index: IndexOf,
) -> Operand:
    """An Operand of the class for its layout."""
    return LOADERS[layout](kernel, node, name, free, tile_free, start, index)
