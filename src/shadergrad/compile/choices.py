"""Choices: how each kernel is made, as plain data. In: nothing but values. Out: the records that pass from choosing to emission.

compile/choose.py makes a `Choice` for each kernel, from its groups, their shapes and the Target. The emitters in compile/wgsl obey it
and know no target. What a table of measurements holds (compile/tables, `shadergrad tune`) is part of the same records: a `Cut`, that
is a tile and the number of parts of the contraction. `str(choice)` is the line that `explain(choices=True)` shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ..symbolic_sizes import MARK

QUAD = 4  # elements of a load
MANY_PLACES = 16  # along k; rows of fewer were slower than their transposes (masked LM, H200)
FEW_SUMS = 12  # rows and columns of a thread's results of which it can hold four places each
REGISTERS = 65536  # that the threads of a workgroup share at most
FEW_ROWS = 4  # of a narrow product
SHORTEST_PART = 64
SHORTEST_STEP = 16  # what parts are a multiple of, so that steps do not reach from one into the next


@dataclass(frozen=True)
class Tile:
    """bm x bn results a workgroup in steps of bk; tm x tn results a thread. stages: how many steps' tiles are in workgroup
    memory at a time; with two, one is filled while the other is read, and a step takes one barrier. slices: a step is cut into
    so many, each for some of the threads, which then have as many sums of the same results: more threads where there are few
    results and a long contraction."""

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
        """Threads of a slice."""
        return (self.bm // self.tm) * (self.bn // self.tn)

    @cached_property
    def keeps_rows(self) -> bool:
        """Whether operands whose neighbours along k are neighbours in memory keep that order in the tile: where slices take many of
        them, four at a time, and threads have registers for four of each of their rows and columns."""
        places = self.bk // self.slices
        if self.slices == 1 or places % QUAD or places < MANY_PLACES or self.tm + self.tn > FEW_SUMS:
            return False
        return self._registers(QUAD) * self.threads <= REGISTERS

    @property
    def deals_rows(self) -> bool:
        """Whether the sums of all slices have room in both operands' tiles, so that each slice joins those of some rows."""
        room = 2 * self.bk * min(self.bm, self.bn) * self.stages
        return self.slices % 2 == 0 and self.tm % self.slices == 0 and self.slices * self.bm * self.bn <= room

    @property
    def narrow(self) -> bool:
        """Whether each thread has a whole column of results, and only the left operand is shared."""
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
        """Elements of both operands that a thread keeps in registers while they are on their way."""
        return -(-self.bk * (self.bm + self.bn) // self.threads)

    @cached_property
    def registers(self) -> int:
        """Of a thread, about."""
        return self._registers(QUAD if self.keeps_rows else 1)

    def _registers(self, places: int) -> int:
        """Of a thread that reads so many places along the contraction at a time."""
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
    """A tile, and into how many parts the contraction is cut (split-K)."""

    tile: Tile
    parts: int = 1

    def chunk(self, k: int) -> int:
        """How long the parts of a contraction over k are; k: it stays whole."""
        unit = math.lcm(self.tile.bk, SHORTEST_STEP)
        chunk = -(-k // (self.parts * unit)) * unit
        return k if chunk >= k else chunk

    def divides(self, k: int) -> bool:
        """Whether a contraction over k has so many parts of some length."""
        return self.parts == 1 or (self.chunk(k) >= SHORTEST_PART and -(-k // self.chunk(k)) == self.parts)


class Beside(NamedTuple):
    """A product that shares a dispatch with another."""

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
    """threads: of a workgroup. axis: along which rows of what is read lie, where that goes through square tiles in workgroup memory;
    None: elements are read where they are wanted."""

    threads: int
    axis: int | None = None

    def __str__(self) -> str:
        return f"{self.threads} threads" + ("" if self.axis is None else f", tiles across axis {self.axis}")


@dataclass(frozen=True)
class RowChoice:
    """rows: of a workgroup. width: threads of a row. lanes: elements of a load. written_out: whether the walk along a row is, so
    that values stay in registers from one walk to the next. alone: whether a thread takes a row by itself and its loops stay loops.
    one_stage: whether the threads' results are joined between one pair of barriers."""

    rows: int
    width: int
    lanes: int
    written_out: bool
    alone: bool
    one_stage: bool

    @property
    def threads(self) -> int:
        return self.rows * self.width

    def __str__(self) -> str:
        marks = {"written out": self.written_out, "loops kept": self.alone, "joined at once": self.one_stage}
        threads = "a thread" if self.width == 1 else f"{self.width} threads"
        head = f"{threads} a row, {self.rows} a workgroup, loads of {self.lanes}"
        return ", ".join([head, *(mark for mark, holds in marks.items() if holds)])


@dataclass(frozen=True)
class DotChoice:
    """How a matrix multiplication is made.

    way: "tiled": operands go through tiles in workgroup memory. "narrow": only the left one does, and a thread has a whole column.
        "direct": operands are read where they are wanted. "shuffled": likewise, and the threads of a subgroup share what they load.
    tile: see Tile. layouts: of both operands, where they have tiles.
    window: places along the contraction that belong together; 1 where steps do not take whole windows.
    padded: whether rows of tiles are, against conflicts of memory banks. apart: whether four rows of a transposed tile lie apart from
        the next four, for the same reason.
    striped: whether workgroups take tiles in stripes, so that those which run at a time share what they read.
    written_out: whether all places of a step are, or a loop goes over some at a time.
    fma_order: whether multiplications are written one by one in the order that suits registers (boustrophedon). pipelined: whether
        those of a place wait until the next was read (software pipelining). scalar_sums: whether the sums grow as scalars.
        many_sums: whether a thread has so many that it reads operands in turn.
    loads_always: whether the last step loads its own tiles once more, instead of asking whether there is a next one.
    moves_sums: whether sums are stored from other registers than those in which they grew.
    component_stores: whether tiles are arrays of vectors of which a thread writes single components.
    quads: whether four columns of the right operand are one load, and along_k: whether four places along the contraction are;
        of direct and shuffled ones.
    """

    way: Literal["tiled", "narrow", "direct", "shuffled"]
    tile: Tile
    layouts: tuple[Layout, ...] = ()
    window: int = 1
    padded: bool = False
    apart: bool = False
    striped: bool = False
    written_out: bool = False
    fma_order: bool = False
    pipelined: bool = False
    scalar_sums: bool = False
    many_sums: bool = False
    loads_always: bool = False
    moves_sums: bool = False
    component_stores: bool = False
    quads: bool = False
    along_k: bool = False

    @property
    def has_tiles(self) -> bool:
        return self.way == "tiled"

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
        }
        of = [" x ".join(self.layouts)] if self.layouts else []
        return ", ".join([f"{self.way} {self.tile}", *of, *(mark for mark, holds in marks.items() if holds)])


@dataclass(frozen=True)
class CallChoice:
    """options: what the primitive chose for its own shader, plain data; None where there is nothing to choose."""

    options: Any = None

    def __str__(self) -> str:
        return "" if self.options is None else str(self.options)


Part = MapChoice | RowChoice | DotChoice | CallChoice


@dataclass(frozen=True)
class Choice:
    """How one kernel is made.

    parts: of each group that shares the dispatch. max_workgroups: of the grid, along each dimension. checked: whether indices that are
    out of range are reported. wide_loads: whether buffers of vec4s that are only read are read 64 bits at a time.
    """

    archetype: str
    parts: tuple[Part, ...]
    max_workgroups: int
    checked: bool = False
    wide_loads: bool = False

    def __str__(self) -> str:
        found = [str(part) for part in self.parts if str(part)]
        alike = list(dict.fromkeys(found))
        times = f"{len(found)} times " if len(found) > 1 and len(alike) == 1 else ""
        text = f"{self.archetype}: {times}{' + '.join(alike if times else found)}" if found else self.archetype
        return (text + (", loads of 64 bits" if self.wide_loads else "")).replace(MARK, "")

    def grid(self, workgroups: int) -> tuple[int, int, int]:
        """A grid of at least that many workgroups within the limit per dimension."""
        if workgroups <= self.max_workgroups:
            return (workgroups, 1, 1)
        y = math.ceil(workgroups / self.max_workgroups)
        return (math.ceil(workgroups / y), y, 1)
