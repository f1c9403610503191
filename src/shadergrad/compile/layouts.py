"""Memory layout of operands, found by index algebra.

In: a node and an index into it. Out: the consecutive elements that one vector load covers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..graph.index import ZERO, Index, flatten, number, variable
from ..graph.node import Node
from ..primitives.views import SliceAt, View
from ..primitives.window import Window
from ..symbolic_sizes import divides
from .choices import Layout, Tile
from .puller import LANE, LANES, lane_variable
from .recorder import Recorder

IndexOf = Callable[[Index, Index], tuple[Index, ...]]  # from (free axis, k) to an index into the operand
IsBuffer = Callable[[Node], bool]


class OperandIndex(NamedTuple):
    """Indices of a matrix multiplication's operands. columns: of all results; if all samples share one left operand (then
    there is one batch), more than the n of a sample.
    """

    batches: int
    columns: int
    n: int

    @property
    def batch(self) -> Index:
        return variable("b", self.batches)

    def left(self, row: Index, k: Index) -> tuple[Index, ...]:
        return self.batch, row, k

    def right(self, column: Index, k: Index) -> tuple[Index, ...]:
        if self.columns != self.n:
            return column // self.n, k, column % self.n
        return self.batch, k, column


def layout_of(operand: Node, free: int, k: int, index: IndexOf, tile: Tile, window: int, is_buffer: IsBuffer) -> Layout:
    """The layout in which an operand of (free axis, k) is loaded into its tile: vector loads along k, else along the free axis; whole
    windows; or scalar loads along the axis with the smaller stride.
    """
    k_quads = index(variable("f", free), variable("q", -(-k // LANES)) * LANES + lane_variable())
    free_quads = index(variable("q", -(-free // LANES)) * LANES + lane_variable(), variable("k", k))
    if divides(LANES, k) and tile.bk % LANES == 0 and reads_quads(operand, k_quads, is_buffer):
        return "rows" if tile.keeps_rows else "along k"
    if divides(LANES, free) and reads_quads(operand, free_quads, is_buffer):
        return "along free"
    if window > 1 and has_windows(operand):
        return "windows"
    return "scalars along k" if _is_nearer_along_k(operand, k, index, is_buffer) else "scalars along free"


def reads_quads(operand: Node, index: tuple[Index, ...], is_buffer: IsBuffer, unit: int = LANES) -> bool:
    """Whether one vector load covers the four neighbours that `index` numbers by its lane, and they begin at multiples of `unit`."""
    recorder = Recorder(is_buffer)
    recorder.pull(operand, index)
    splits = [flat.split(LANE) for flat in recorder.places]
    if not splits or not any(s is not None and s[1] == 1 for s in splits):
        return False
    return all(s is not None and (s[1] == 0 or (s[1] == 1 and s[0].divisible(unit))) for s in splits)


class _Inside(Recorder):
    """Computes positions of elements as if every index were within the bounds of its view."""

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        return i // by, None


def _is_nearer_along_k(operand: Node, k: int, index: IndexOf, is_buffer: IsBuffer) -> bool:
    """Whether neighbours along k, within the innermost axis over which k runs, are contiguous in memory."""
    recorder = _Inside(is_buffer)
    recorder.pull(operand, index(ZERO, variable("k", k)))
    at = [[flat.substitute({"k": number(place)}).constant for place in (0, 1)] for flat in recorder.places]
    return any(abs(second - first) == 1 for first, second in at)


def is_shared(x: Node) -> bool:
    """Whether x is constant along its first axis."""
    _, index = _behind_views(x)
    return x.shape[0] > 1 and not any("x0" in i.variables() for i in index)


def has_windows(x: Node) -> bool:
    """Whether x is a view of overlapping windows."""
    while isinstance(x.primitive, View | SliceAt):
        if isinstance(x.primitive, Window):
            return True
        x = x.inputs[0]
    return False


def moves_along_rows(x: Node) -> bool:
    """Whether x is a view of windows that move along the last axis of their array, so that neighbours along a window are neighbours in memory."""
    while isinstance(x.primitive, View | SliceAt):
        if isinstance(x.primitive, Window) and x.inputs[0].ndim - 1 in x.primitive.axes:
            return True
        x = x.inputs[0]
    return False


def innermost(x: Node) -> int | None:
    """The axis of x that is contiguous in memory, through all views; None if there is none."""
    source, index = _behind_views(x)
    flat = flatten(index, source.shape)
    splits = {a: flat.split(f"x{a}") for a, n in enumerate(x.shape) if n > 1}
    return next((a for a, split in splits.items() if split is not None and split[1] == 1), None)


def _behind_views(x: Node) -> tuple[Node, tuple[Index, ...]]:
    """The node of which x is a view, and the index in it of element (x0, x1, ...)."""
    index = tuple(variable(f"x{a}", n) for a, n in enumerate(x.shape))
    while isinstance(x.primitive, View):
        (source,) = x.inputs
        index, x = x.primitive.source_index(index, source.shape), source
    return x, index
