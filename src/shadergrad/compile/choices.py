"""The parameters of each kernel, as plain data.

compile/choose.py makes a `Choice` for each kernel from its groups, their shapes and the Target. The emitters in compile/wgsl follow
it and know no target. Tables of measurements (compile/tables, `shadergrad tune`) hold a `Cut` for each shape: a tile and the number
of parts of the contraction. `str(choice)` is the line that `explain(choices=True)` shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ..symbolic_sizes import MARK

QUAD = 4  # elements of a vec4 load
MANY_PLACES = 16  # steps along k; shorter rows were slower than their transposes (masked LM, H200)
FEW_SUMS = 12  # rows plus columns per thread for which registers can hold four steps each
REGISTERS = 65536  # registers of a workgroup
FEW_ROWS = 4  # rows of a narrow multiplication
SHORTEST_PART = 64
AHEAD = ("", "loads ahead", "two tiles in turn")
SHORTEST_STEP = 16  # the granularity of split-K parts, so that steps do not cross parts


@dataclass(frozen=True)
class Tile:
    """The tile of a matrix multiplication: bm x bn results per workgroup in steps of bk, tm x tn results per thread.

    stages: the number of steps whose tiles are in workgroup memory at once. With two (double buffering), threads fill one while they read
    the other, and a step takes one barrier. slices: the number of slices of a step. Each slice has its own threads, which accumulate
    partial sums of the same results. Slices add threads if a product has few results and a long contraction.
    """

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    stages: int = 1
    slices: int = 1

    def __str__(self) -> str:
        more = (f", {self.stages} stages" if self.stages > 1 else "") + (
            f", {self.slices} slices" if self.slices > 1 else ""
        )
        return f"{self.bm}x{self.bn}x{self.bk}, {self.tm}x{self.tn} a thread{more}"

    @cached_property
    def threads(self) -> int:
        return self.slice * self.slices

    @cached_property
    def slice(self) -> int:
        """Threads per slice."""
        return (self.bm // self.tm) * (self.bn // self.tn)

    @cached_property
    def keeps_rows(self) -> bool:
        """Whether operands that are contiguous along k keep that order in the tile: if there are slices of many steps along k,
        four at a time, and threads have registers for four of each of their rows and columns.
        """
        places = self.bk // self.slices
        if self.slices == 1 or places % QUAD or places < MANY_PLACES or self.tm + self.tn > FEW_SUMS:
            return False
        return self._registers(QUAD) * self.threads <= REGISTERS

    @property
    def distributes_rows(self) -> bool:
        """Whether the tiles of both operands have room for the sums of all slices, so that each slice adds some rows."""
        room = 2 * self.bk * min(self.bm, self.bn) * self.stages
        return self.slices % 2 == 0 and self.tm % self.slices == 0 and self.slices * self.bm * self.bn <= room

    @property
    def narrow(self) -> bool:
        """Whether each thread computes a whole column of results, and only the left operand is in workgroup memory."""
        return self.tn == 1

    @cached_property
    def storage(self) -> int:
        """Bytes of workgroup memory, rows without padding."""
        if self.narrow:
            return 4 * self.bk * FEW_ROWS
        return 4 * self.bk * (self.bm + self.bn) * self.stages

    @property
    def room(self) -> int:
        """vec4s of the larger operand's tiles, rows without padding."""
        return self.bk * max(self.bm, self.bn) * self.stages // 4

    @cached_property
    def fetched(self) -> int:
        """Elements of both operands that a thread holds in registers between load and store."""
        return -(-self.bk * (self.bm + self.bn) // self.threads)

    @cached_property
    def registers(self) -> int:
        """Approximate registers per thread."""
        return self._registers(QUAD if self.keeps_rows else 1)

    def _registers(self, places: int) -> int:
        """Approximate registers of a thread that reads `places` positions along the contraction at once."""
        return self.tm * self.tn + places * (self.tm + self.tn) + self.fetched + 44


# -- what tables of measurements hold


class Shape(NamedTuple):
    """`batch` products of m x n results over k."""

    batch: int
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return "x".join(map(str, self if self.batch > 1 else self[1:]))


@dataclass(frozen=True)
class Cut:
    """A tile, and the number of parts of the contraction (split-K)."""

    tile: Tile
    parts: int = 1

    def chunk(self, k: int) -> int:
        """The length of a part of a contraction over k; k if it is not cut."""
        unit = math.lcm(self.tile.bk, SHORTEST_STEP)
        chunk = -(-k // (self.parts * unit)) * unit
        return k if chunk >= k else chunk

    def divides(self, k: int) -> bool:
        """Whether a contraction over k can have this many parts."""
        return self.parts == 1 or (self.chunk(k) >= SHORTEST_PART and -(-k // self.chunk(k)) == self.parts)


class Beside(NamedTuple):
    """A matrix multiplication that shares a dispatch with another."""

    shape: Shape
    other: Shape


Table = Mapping[Shape | Beside, Cut]


# -- how a kernel is made

Layout = Literal["along k", "rows", "along free", "windows", "scalars along k", "scalars along free"]
"""How an operand of a matrix multiplication goes from memory to its tile (wgsl/matmul/operands.py): four neighbours along the
contraction as one load, transposed on their way or kept as rows; four along its other axis; whole windows by one thread; or single
elements, neighbouring threads along the axis that is nearer in memory."""


@dataclass(frozen=True)
class MapChoice:
    """threads: per workgroup. axis: for a transpose through square tiles in workgroup memory, the axis along which the reads are contiguous;
    None: elements are read directly.
    """

    threads: int
    axis: int | None = None

    def __str__(self) -> str:
        return f"{self.threads} threads" + ("" if self.axis is None else f", tiles across axis {self.axis}")


@dataclass(frozen=True)
class RowChoice:
    """rows: per workgroup. width: threads per row. lanes: elements per load along a row. columns: neighbouring rows that a thread processes
    at once, 1 or 4. Four are columns in memory, so that a load covers one element of each; `rows` then counts fours. unrolled: whether the
    loop along a row is unrolled. Values then stay in registers from one loop to the next. alone: whether one thread processes a row, in
    loops that are not unrolled. one_stage: whether the threads' results are combined between one pair of barriers.
    """

    rows: int
    width: int
    lanes: int
    columns: int
    unrolled: bool
    alone: bool
    one_stage: bool

    @property
    def threads(self) -> int:
        return self.rows * self.width

    def __str__(self) -> str:
        marks = {"unrolled": self.unrolled, "loops kept": self.alone, "joined at once": self.one_stage}
        threads = "a thread" if self.width == 1 else f"{self.width} threads"
        each = "a row" if self.columns == 1 else f"{self.columns} columns"
        head = f"{threads} {each}, {self.rows} a workgroup, loads of {self.lanes * self.columns}"
        return ", ".join([head, *(mark for mark, holds in marks.items() if holds)])


@dataclass(frozen=True)
class Units:
    """How matrix units multiply a tile.

    m, n, k: the shape of an instruction. rows, columns: of a subgroup's results, a multiple of the instruction's. subgroup: its threads.
    padding: halves between the rows of operands' tiles. widths: elements per load of both operands, 8, 4 or 1. packed: whether both are
    halves in memory that are copied to their tiles unchanged. joined: columns of sums that pass through workgroup memory at a time.
    ahead: prefetching during the multiplication. 0: none. 1: the next tiles are loaded into registers. 2: the same, with double-buffered
    tiles, so that a step takes one barrier.
    """

    m: int
    n: int
    k: int
    rows: int = 64
    columns: int = 64
    subgroup: int = 32
    padding: int = 8
    widths: tuple[int, int] = (8, 8)
    packed: tuple[bool, bool] = (True, True)
    joined: int = 32
    ahead: int = 0

    def __str__(self) -> str:
        text = f"{self.m}x{self.n}x{self.k} units, {self.rows}x{self.columns} a subgroup, loads of {self.widths[0]} and {self.widths[1]}"
        return text + (f", {AHEAD[self.ahead]}" if self.ahead else "")


@dataclass(frozen=True)
class DotChoice:
    """The parameters of a matrix multiplication.

    method: "tiled": both operands are staged in workgroup memory. "narrow": only the left one is, and a thread computes a whole column.
        "direct": threads read operands from memory as they need them. "shuffled": as direct, and threads of a subgroup share loads.
        "units": tiles of float16, multiplied by matrix units.
    tile: see Tile. layouts: of both operands, if they have tiles.
    window: the number of places along the contraction that form a window; 1 if steps do not take whole windows.
    padded: whether rows of tiles are padded against bank conflicts. skewed: whether four rows of a transposed tile are separated from
        the next four, for the same reason.
    striped: whether workgroups take tiles in stripes, so that concurrent ones share reads.
    unrolled: whether a step is fully unrolled; if not, a loop runs over some places at a time.
    fma_order: whether single multiply-adds are written in the order that suits registers (boustrophedon). pipelined: whether the
        multiplications of a place follow the reads of the next (software pipelining). scalar_sums: whether the accumulators are
        scalars. many_sums: whether a thread has so many accumulators that it reads operands in turn.
    loads_always: whether the last step loads its own tiles again, instead of a test for a next step.
    moves_sums: whether accumulators are copied to other registers before they are stored.
    component_stores: whether tiles are arrays of vectors of which a thread writes single components.
    quads: whether four columns of the right operand are one load. along_k: whether four places along the contraction are. Both for
        direct and shuffled products. units: see Units.
    """

    method: Literal["tiled", "narrow", "direct", "shuffled", "units"]
    tile: Tile
    layouts: tuple[Layout, ...] = ()
    window: int = 1
    padded: bool = False
    skewed: bool = False
    striped: bool = False
    unrolled: bool = False
    fma_order: bool = False
    pipelined: bool = False
    scalar_sums: bool = False
    many_sums: bool = False
    loads_always: bool = False
    moves_sums: bool = False
    component_stores: bool = False
    quads: bool = False
    along_k: bool = False
    units: Units | None = None

    def __str__(self) -> str:
        marks = {
            f"windows of {self.window}": self.window > 1,
            "padded": self.padded,
            "in stripes": self.striped,
            "pipelined": self.pipelined,
            "in fma order": self.fma_order and not self.pipelined,
            "scalar sums": self.scalar_sums,
            "loads of 4 columns": self.quads,
            "loads of 4 places": self.along_k,
            str(self.units): self.units is not None,
        }
        of = [" x ".join(self.layouts)] if self.layouts else []
        return ", ".join([f"{self.method} {self.tile}", *of, *(mark for mark, holds in marks.items() if holds)])


@dataclass(frozen=True)
class CallChoice:
    """options: options of the primitive's own, as plain data; None if it has none."""

    options: Any = None

    def __str__(self) -> str:
        return "" if self.options is None else str(self.options)


Part = MapChoice | RowChoice | DotChoice | CallChoice


@dataclass(frozen=True)
class Choice:
    """The parameters of one kernel.

    parts: one choice for each group of the dispatch. max_workgroups: of the grid, along each dimension. checked: whether the kernel reports
    indices that are out of range. wide_loads: whether read-only buffers of vec4s are read 64 bits at a time.
    converts_halves: whether halves are converted by the device's own instructions.
    """

    archetype: str
    parts: tuple[Part, ...]
    max_workgroups: int
    checked: bool = False
    wide_loads: bool = False
    converts_halves: bool = False

    def __str__(self) -> str:
        found = [str(part) for part in self.parts if str(part)]
        alike = list(dict.fromkeys(found))
        times = f"{len(found)} times " if len(found) > 1 and len(alike) == 1 else ""
        text = f"{self.archetype}: {times}{' + '.join(alike if times else found)}" if found else self.archetype
        return (text + (", loads of 64 bits" if self.wide_loads else "")).replace(MARK, "")

    def grid(self, workgroups: int) -> tuple[int, int, int]:
        """A grid of at least this many workgroups within the limit per dimension."""
        if workgroups <= self.max_workgroups:
            return (workgroups, 1, 1)
        y = math.ceil(workgroups / self.max_workgroups)
        return (math.ceil(workgroups / y), y, 1)
