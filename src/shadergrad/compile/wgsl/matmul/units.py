"""float16 matrix multiplication on matrix units, by WGSL's chromium_experimental_subgroup_matrix.

In steps along the contraction, a tile of each operand is loaded into workgroup memory as float16, in its memory order: the instructions
read either order. Each subgroup accumulates a block of results in matrices. Then it passes them, a row of matrices at a time, through
workgroup memory to its threads, which apply the epilogue as in any other matrix multiplication.
https://github.com/gpuweb/gpuweb/blob/main/proposals/subgroup-matrix.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ....dtypes import float32
from ....graph.node import Node
from ....symbolic_sizes import divides
from ...choices import Layout, Units
from ...kernel import indent
from ...layouts import IndexOf
from ...matrix_units import half_behind
from ...puller import LANES, lane_variable
from . import results
from .operands import Operand
from .product import ProductWriter

ENABLES = (
    "enable f16;\nenable subgroups;\nenable chromium_experimental_subgroup_matrix;\n"
    # threads of a subgroup have one subgroup's number, but no compiler knows
    "diagnostic(off, chromium.subgroup_matrix_uniformity);\n"
)


class Halves(Operand):
    """A tile of float16 with rows along the axis along which the operand is loaded, `width` elements at a time. Past the end of the
    contraction it is zero."""

    writes_components = False
    turn = 0  # of two tiles in turn: the one that the text at hand stores and reads

    def __init__(self, w: ProductWriter, name: str, layout: Layout, width: int, packed: bool) -> None:
        t, left = w.tile, name == "a"
        node: Node = w.dot.inputs[0 if left else 1]
        free, tile_free = (w.m, t.bm) if left else (w.columns, t.bn)
        index: IndexOf = w.index.left if left else w.index.right
        super().__init__(w, node, name, free, tile_free, "m0" if left else "n0", index)
        self.width, self.packed, self.along_k = width, packed, not layout.endswith("along free")

    @property
    def units(self) -> Units:
        assert self.kernel.choice.units is not None
        return self.kernel.choice.units

    @property
    def row_length(self) -> int:
        """Elements of a row of the tile."""
        return self.kernel.tile.bk if self.along_k else self.tile_free

    @property
    def pitch(self) -> int:
        """Elements from a row to the next."""
        return self.row_length + self.units.padding

    @property
    def count(self) -> int:
        return self.kernel.tile.bk * self.tile_free // self.width

    @property
    def held(self) -> int:
        """Elements of the tile's array, each of `width` halves."""
        return self.each * (2 if self.units.ahead == 2 else 1)

    @property
    def each(self) -> int:
        """Elements of one tile."""
        return (self.tile_free if self.along_k else self.kernel.tile.bk) * self.pitch // self.width

    @property
    def filled(self) -> str:
        return f"{self.turn * self.each} + " if self.turn else ""

    def registers(self) -> Iterator[str]:
        for part in range(self.parts):
            for half in range(max(self.width // LANES, 1)):
                yield f"var {self.register(part)}_{half} = {'vec2<u32>()' if self.width > 1 else '0u'};"

    def fetch_ahead(self) -> None:
        """As `fetch`, into registers."""
        self.fetch()
        for part, (place, found) in enumerate(self.fetched):
            names = [f"{self.register(part)}_{half}" for half in range(len(found))]
            for name, text in zip(names, found, strict=True):
                self.kernel.r.line(f"{name} = {text};")
            self.fetched[part] = place, names

    def declaration(self) -> str:
        element = {8: "vec4<u32>", 4: "vec2<u32>", 1: "f16"}[self.width]
        return f"var<workgroup> tile_{self.name}: array<{element}, {self.held}>;\n"

    def fetch(self) -> None:
        self.fetched: list[tuple[str, list[str]]] = []
        with self._as_bits():
            if self.width > 1:
                self.fetched = [self._fetch(part) for part in range(self.parts)]
            else:
                with self.kernel.single():
                    self.fetched = [self._fetch(part) for part in range(self.parts)]

    @contextmanager
    def _as_bits(self) -> Iterator[None]:
        """A context in which halves are loaded as bits, if they are copied to the tile unchanged."""
        r = self.kernel.r
        cast = half_behind(self.node, r.is_buffer)
        if not self.packed or cast is None:
            yield
            return
        (source,) = cast.inputs
        r.packed, r.local[id(cast)] = self.width, lambda index: r.pull(source, index)
        yield
        r.packed = 0
        del r.local[id(cast)]

    def _fetch(self, part: int) -> tuple[str, list[str]]:
        """Loads a part; returns its position in the tile, and the bits of its elements: a word for one, two for four."""
        w, width = self.kernel, self.width
        slow, fast = self.divided(part, self.row_length // width)
        exact_k = divides(w.tile.bk, w.k)
        shift = width.bit_length() - 1
        if self.along_k:
            free = self.clamped_free(slow)
            k0 = f"(k0 >> {shift}u)" if shift else "k0"
            k, ok = w.clamped(f"{k0} + {fast}", w.k // width, exact_k, "q")
            k = k * width
        else:
            exact = divides(self.tile_free, self.free)
            free, _ = w.clamped(f"{self.start} / {width} + {fast}", -(-self.free // width), exact, "q")
            free = free * width
            k, ok = w.clamped(f"k0 + {slow}", w.k, exact_k, "step")
        found = []
        for first in range(0, width, LANES):
            lane = lane_variable() + first if width > 1 else 0
            at = self.index(free, k + lane) if self.along_k else self.index(free + lane, k)
            found.append(self._bits(w.r.pull(self.node, at), ok))
        return self.place(f"{slow} * {self.pitch // self.width} + {fast} * {width // self.width}"), found

    def _bits(self, value: str, ok: str | None) -> str:
        r, vector = self.kernel.r, self.width > 1
        if not self.packed:
            function = "sg_words_float16" if vector else "sg_bits_float16"
            r.functions.add(function)
            value = f"{function}({r.as_vector(value, float32) if vector else value})"
        if ok is None:
            return value
        return f"select({'vec2<u32>()' if vector else '0u'}, {value}, {ok})"

    def store(self) -> list[str]:
        texts = {8: "vec4<u32>({})", 4: "{}", 1: "bitcast<vec2<f16>>({}).x"}
        return [
            f"tile_{self.name}[{self.filled}{place}] = {texts[self.width].format(', '.join(found))};"
            for place, found in self.fetched
        ]

    def matrix(self, kind: str, block: str, k: int) -> str:
        """The matrix at a position along the free axis, and another along k."""
        pitch = self.pitch // self.width
        block = f"{block} / {self.width}" if self.width > 1 and not self.along_k else block
        place = f"{block} * {pitch} + {k // self.width}" if self.along_k else f"{k * pitch} + {block}"
        turned = self.along_k is (self.name == "b")
        order = "col_major" if turned else "row_major"
        return f"subgroupMatrixLoad<{kind}, {order}>(&tile_{self.name}, u32({self.filled}{place}), {pitch}u)"


def enables(products: Sequence[ProductWriter]) -> str:
    """The directives of a kernel that uses matrix units; "" for others."""
    return ENABLES if any(w.choice.units for w in products) else ""


def declarations(products: Sequence[ProductWriter]) -> str:
    """Names of matrix types, and workgroup memory for sums."""
    own = [(w, w.choice.units) for w in products if w.choice.units is not None]
    if not own:
        return ""
    _, u = own[0]
    room = max(_scratch(units) * w.tile.threads // units.subgroup for w, units in own)
    return (
        f"alias Left = subgroup_matrix_left<f16, {u.k}, {u.m}>;\n"
        f"alias Right = subgroup_matrix_right<f16, {u.n}, {u.k}>;\n"
        f"alias Sums = subgroup_matrix_result<f32, {u.n}, {u.m}>;\n"
        f"var<workgroup> sums: array<vec4<f32>, {room // LANES}>;\n"
    )


def _scratch(units: Units) -> int:
    """Words of a subgroup's sums on their way to its threads: a row of matrices."""
    return units.m * _across(units)


def _across(units: Units) -> int:
    return units.joined + LANES


def write(w: ProductWriter) -> tuple[Operand, ...]:
    """Writes the statements of a matrix multiplication, once the position of its tile is known. Returns the operands."""
    u, t, r = w.choice.units, w.tile, w.r
    assert u is not None
    operands = tuple(
        Halves(w, name, layout, width, packed)
        for name, layout, width, packed in zip("ab", w.choice.layouts, u.widths, u.packed, strict=True)
    )
    r.line(f"let subgroup = id / {u.subgroup};")
    r.line(f"let lane = id % {u.subgroup};")
    r.line(f"let block_m = subgroup / {t.bn // u.columns} * {u.rows};")
    r.line(f"let block_n = subgroup % {t.bn // u.columns} * {u.columns};")
    down, across = range(u.rows // u.m), range(u.columns // u.n)
    for i in down:
        for j in across:
            r.line(f"var sum_{i}_{j} = Sums();")
    if u.ahead:
        _steps_ahead(w, operands, u.ahead)
    else:
        _steps(w, operands)
    _results(w)
    return operands


def _steps(w: ProductWriter, operands: Sequence[Halves]) -> None:
    """Steps along the contraction without prefetching."""
    first, last = w.stretch()
    w.r.open("k0")
    for operand in operands:
        operand.fetch()
    w.r.line("workgroupBarrier();")
    _store(w, operands)
    w.r.line("workgroupBarrier();")
    _multiply_tiles(w, operands)
    w.close_loop(f"for (var k0 = {first}; k0 < {last}; k0 += {w.tile.bk})")


def _steps_ahead(w: ProductWriter, operands: Sequence[Halves], turns: int) -> None:
    """Software-pipelined steps: loads for the next one during the multiplication. The last step loads its own tiles again: without a branch a
    driver moves loads between multiplications.
    """
    r, bk = w.r, w.tile.bk
    first, last = w.stretch()
    for operand in operands:
        for register in operand.registers():
            r.line(register)
    r.line(f"var k0 = {first};")
    _fetch(w, operands)
    r.line(f"for (var k = {first}; k < {last}; k += {turns * bk}) {{")
    r.open()
    for turn in range(turns):
        if turn:
            r.line(f"if (k + {bk} < {last}) {{")
        for operand in operands:
            operand.turn = turn
        _store(w, operands)
        r.line("workgroupBarrier();")
        following = f"k + {(turn + 1) * bk}"
        r.line(f"k0 = select(k, {following}, {following} < {last});")
        _fetch(w, operands)
        _multiply_tiles(w, operands)
        if turns == 1:
            r.line("workgroupBarrier();")
        if turn:
            r.line("}")
    for line in indent(r.close()):
        r.line(line)
    r.line("}")


def _fetch(w: ProductWriter, operands: Sequence[Halves]) -> None:
    w.r.open("k0")
    for operand in operands:
        operand.fetch_ahead()
    lines = w.r.close()
    for line in ("{", *indent(lines), "}"):
        w.r.line(line)


def _store(w: ProductWriter, operands: Sequence[Halves]) -> None:
    for operand in operands:
        for line in operand.store():
            w.r.line(line)


def _multiply_tiles(w: ProductWriter, operands: Sequence[Halves]) -> None:
    u = w.choice.units
    assert u is not None
    for k in range(0, w.tile.bk, u.k):
        _multiply(w, operands, k)


def _multiply(w: ProductWriter, operands: Sequence[Halves], k: int) -> None:
    """The matrix instructions of one position along the contraction."""
    u, r = w.choice.units, w.r
    assert u is not None
    left, right = operands
    for j in range(u.columns // u.n):
        r.line(f"let right_{k}_{j} = {right.matrix('Right', f'(block_n + {j * u.n})', k)};")
    for i in range(u.rows // u.m):
        r.line(f"let left_{k}_{i} = {left.matrix('Left', f'(block_m + {i * u.m})', k)};")
        for j in range(u.columns // u.n):
            r.line(f"sum_{i}_{j} = subgroupMatrixMultiplyAccumulate(left_{k}_{i}, right_{k}_{j}, sum_{i}_{j});")


def _results(w: ProductWriter) -> None:
    """The results of a block, a row of matrices at a time: each thread computes vec4s."""
    u, r = w.choice.units, w.r
    assert u is not None
    vector, quads, pitch = divides(LANES, w.n), u.joined // LANES, _across(u) // LANES
    r.lanes = LANES if vector else 1
    r.line(f"let own = subgroup * {_scratch(u) // LANES};")
    for i in range(u.rows // u.m):
        for first in range(0, u.columns, u.joined):
            if i or first:
                r.line("workgroupBarrier();")
            for j in range(u.joined // u.n):
                sums = f"sum_{i}_{first // u.n + j}"
                at = f"u32(own + {j * u.n // LANES})"
                r.line(f"subgroupMatrixStore<row_major>(&sums, {at}, {sums}, {pitch}u);")
            r.line("workgroupBarrier();")
            r.open("m_0", "n_0", "c_0_0")
            r.line(f"let row = turn / {quads};")
            r.line(f"let column = turn % {quads};")
            r.line(f"let c_0_0 = sums[own + row * {pitch} + column];")
            r.line(f"let m_0 = m0 + block_m + {i * u.m} + row;")
            r.line(f"let n_0 = n0 + block_n + {first} + column * {LANES};")
            for e in range(1 if vector else LANES):
                results.result(w, 0, 0, e, vector)
            w.close_loop(f"for (var turn = lane; turn < {u.m * quads}; turn += {u.subgroup})")
