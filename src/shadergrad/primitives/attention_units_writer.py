"""The parts that the attention kernels on matrix units share: tiles of float16 in workgroup memory, sums in matrices, loads and stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from .attention_tiles import OCTET, Layout, Problem

SIDE = 16  # of a matrix
PADDING = 8  # halves between the rows of tiles, so that they start in different banks
QUAD = 4  # sums of one load
GAP = 4  # words between the rows of sums: an odd number of quads, so that eight rows are in different banks
SUBGROUP = 32
SUBGROUPS = 4
THREADS = SUBGROUP * SUBGROUPS
ROWS = SUBGROUPS * SIDE  # queries of a forward workgroup: a row of matrices for each subgroup


@dataclass(frozen=True)
class UnitsChoice:
    """own: rows of the block that a workgroup keeps. others: rows of a block of the sequence over which it iterates."""

    own: int
    others: int

    def __str__(self) -> str:
        return f"matrix units, blocks of {self.own} x {self.others}"


def bytes_of_forward(d: int, choice: UnitsChoice) -> int:
    """Workgroup memory of the forward kernel."""
    tiles = (choice.own + choice.others) * (d + PADDING) + choice.own * (choice.others + PADDING)
    return 2 * tiles + 4 * (choice.own * (choice.others + GAP) + 2 * THREADS)


def bytes_of_gradient(d: int, choice: UnitsChoice) -> int:
    """Workgroup memory of the backward kernel."""
    tiles = 2 * (choice.own + choice.others) * (d + PADDING) + 2 * choice.others * (choice.own + PADDING)
    return 2 * tiles + 4 * (choice.others * (choice.own + GAP) + 2 * choice.own)


@dataclass(frozen=True)
class Tile:
    """An array of float16 in workgroup memory with `rows` rows of `width` elements."""

    name: str
    rows: int
    width: int

    @property
    def pitch(self) -> int:
        """Octets from a row to the next."""
        return (self.width + PADDING) // OCTET

    @property
    def octets(self) -> int:
        return self.width // OCTET

    @property
    def declaration(self) -> str:
        return f"var<workgroup> tile_{self.name}: array<vec4<u32>, {self.rows * self.pitch}>;\n"

    def matrix(self, kind: str, row: str, column: str, turned: bool) -> str:
        """The expression that loads the matrix at a row and a column of the tile; turned: its transpose."""
        order = "col_major" if turned else "row_major"
        at = f"({row}) * {self.pitch} + ({column}) / {OCTET}"
        return f"subgroupMatrixLoad<{kind}, {order}>(&tile_{self.name}, u32({at}), {self.pitch}u)"


@dataclass(frozen=True)
class Parts:
    """The division of m x n sums among the subgroups: `down` x `across` matrices for each, `beside` subgroups in a row of matrices."""

    m: int
    n: int

    @property
    def beside(self) -> int:
        return max(1, SUBGROUPS * SIDE // self.m)

    @property
    def down(self) -> int:
        return self.m * self.beside // (SIDE * SUBGROUPS)

    @property
    def across(self) -> int:
        return self.n // (SIDE * self.beside)

    @property
    def fits(self) -> bool:
        rows = self.m % SIDE == 0 and self.down > 0 and self.m * self.beside == SIDE * SUBGROUPS * self.down
        return rows and self.n % (SIDE * self.beside) == 0

    def row(self, i: int) -> str:
        """The first row of a subgroup's i-th matrix from above."""
        return f"subgroup / {self.beside} * {self.down * SIDE} + {i * SIDE}"

    def column(self, j: int) -> str:
        return f"subgroup % {self.beside} * {self.across * SIDE} + {j * SIDE}"

    def each(self) -> Iterator[tuple[int, int]]:
        yield from product(range(self.down), range(self.across))


class Writer:
    """The statements of a kernel."""

    def __init__(self, p: Problem, layouts: dict[str, Layout]) -> None:
        self.p, self.layouts = p, layouts
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        self.lines.extend(lines)

    def barrier(self) -> None:
        self.add("workgroupBarrier();")

    def head(self) -> None:
        """Names of the thread, its head, and the first octet of that head in each operand."""
        heads = self.p.heads
        self.add(f"let subgroup = id / {SUBGROUP};", f"let lane = id % {SUBGROUP};")
        self.add(f"let b = bh / {heads};", f"let h = bh % {heads};")
        for name, (start, of_n, of_head, _) in self.layouts.items():
            self.add(f"let {name}_at = ({start} + b * {of_n} + h * {of_head}) / {OCTET};")

    def places(self, tile: Tile) -> Iterator[tuple[int, str, str, str]]:
        """For each part of a tile that a thread loads: its number, row, octet, and the condition that it has it, "" if always."""
        total = tile.rows * tile.octets
        for part in range(-(-total // THREADS)):
            number = f"(id + {part * THREADS})"
            whole = (part + 1) * THREADS <= total
            yield part, f"{number} / {tile.octets}", f"{number} % {tile.octets}", "" if whole else f"{number} < {total}"

    def registers(self, tile: Tile) -> None:
        for part, *_ in self.places(tile):
            self.add(f"var {tile.name}_{part} = vec4<u32>();")

    def fetch(self, tile: Tile, source: str, first: str, limit: int) -> None:
        """Load the rows from `first` of an operand into registers. Rows beyond the last one are zero, because an infinity there would make a
        product with weights of zero NaN.
        """
        stride = self.layouts[source][3] // OCTET
        for part, row, octet, _ in self.places(tile):
            value = f"{source}[{source}_at + min({first} + {row}, {limit - 1}) * {stride} + {octet}]"
            if limit % tile.rows:
                value = f"select(vec4<u32>(), {value}, {first} + {row} < {limit})"
            self.add(f"{tile.name}_{part} = {value};")

    def store(self, tile: Tile, to: Tile | None = None) -> None:
        to = to or tile
        for part, row, octet, has in self.places(tile):
            text = f"tile_{to.name}[{row} * {to.pitch} + {octet}] = {tile.name}_{part};"
            self.add(f"if ({has}) {{ {text} }}" if has else text)

    def begin_sums(self, name: str, parts: Parts) -> None:
        for i, j in parts.each():
            self.add(f"var {name}_{i}_{j} = Sums();")

    def multiply(self, name: str, parts: Parts, k: int, left: Tile, right: Tile, turned: tuple[bool, bool]) -> None:
        """Add a product over k to sums. turned: of the left tile, whether its rows are positions of k; of the right tile, whether its rows are
        columns of the product.
        """
        for step in range(0, k, SIDE):
            for j in range(parts.across):
                at = (str(step), parts.column(j))
                row, column = reversed(at) if turned[1] else at
                self.add(f"let {name}_right_{step}_{j} = {right.matrix('Right', row, column, turned[1])};")
            for i in range(parts.down):
                at = (parts.row(i), str(step))
                row, column = reversed(at) if turned[0] else at
                self.add(f"let {name}_left_{step}_{i} = {left.matrix('Left', row, column, turned[0])};")
                for j in range(parts.across):
                    operands = f"{name}_left_{step}_{i}, {name}_right_{step}_{j}, {name}_{i}_{j}"
                    self.add(f"{name}_{i}_{j} = subgroupMatrixMultiplyAccumulate({operands});")

    def spread(self, name: str, parts: Parts) -> None:
        """Sums to workgroup memory, for all threads."""
        for i, j in parts.each():
            self._put(f"{name}_{i}_{j}", parts.row(i), parts.column(j), parts.n)

    def _put(self, name: str, row: str, column: str, width: int) -> None:
        pitch = (width + GAP) // QUAD
        self.add(
            f"subgroupMatrixStore<row_major>(&sums, u32(({row}) * {pitch} + ({column}) / {QUAD}), {name}, {pitch}u);"
        )

    def write(self, name: str, parts: Parts, place: Layout, first: str, limit: int, factor: float = 1) -> None:
        """Sums, times a factor, to the result, at a layout, a column of matrices of each subgroup at a time."""
        start, of_n, of_head, of_row = place
        width = parts.beside * SIDE
        quads = width // QUAD
        self.add(f"let {name}_to = {start} + b * {of_n} + h * {of_head};")
        for j in range(parts.across):
            self.barrier()
            for i in range(parts.down):
                self._put(f"{name}_{i}_{j}", parts.row(i), f"subgroup % {parts.beside} * {SIDE}", width)
            self.barrier()
            to = f"{name}_to + ({first} + row) * {of_row} + column"
            self.add(
                f"for (var i = id; i < {parts.m * quads}; i += {THREADS}) {{",
                f"  let row = i / {quads};",
                f"  let quad = i % {quads} * {QUAD};",
                f"  let column = quad / {SIDE} * {parts.across * SIDE} + {j * SIDE} + quad % {SIDE};",
                f"  if ({first} + row < {limit}) {{",
                f"    let four = sums[row * {quads + GAP // QUAD} + quad / {QUAD}] * {factor!r};",
                *(f"    result[{to} + {e}] = four[{e}];" for e in range(QUAD)),
                "  }",
                "}",
            )

    def load_octet(self, name: str, row: str, octet: str, width: int) -> None:
        """Eight sums of a row of `width`, as two vec4s."""
        at = f"{row} * {(width + GAP) // QUAD} + ({octet}) * {OCTET // QUAD}"
        for half in range(OCTET // QUAD):
            self.add(f"let {name}_{half} = sums[{at} + {half}];")

    def octet(self, names: Sequence[str]) -> str:
        """Eight numbers, rounded to halves."""
        quads = (", ".join(names[k : k + 4]) for k in (0, 4))
        return f"vec4<u32>({', '.join(f'sg_words_float16(vec4<f32>({q}))' for q in quads)})"


def preamble(tiles: Sequence[Tile], words: int, numbers: str) -> str:
    """The declarations of a kernel. words: of sums. numbers: declarations of other arrays in workgroup memory."""
    return (
        f"alias Left = subgroup_matrix_left<f16, {SIDE}, {SIDE}>;\n"
        f"alias Right = subgroup_matrix_right<f16, {SIDE}, {SIDE}>;\n"
        f"alias Sums = subgroup_matrix_result<f32, {SIDE}, {SIDE}>;\n"
        f"var<workgroup> sums: array<vec4<f32>, {words // QUAD}>;\n"
        + "".join(tile.declaration for tile in tiles)
        + numbers
    )
