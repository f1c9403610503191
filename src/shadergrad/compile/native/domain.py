"""How a kernel iterates: the choice between rows, columns and one long row. In: a group. Out: a `Domain`, plain data.

A kernel computes `outer` rows of `segments` times `inner` elements. Contiguous elements of a row are computed `lanes` at a time. The last
vector of a row ends with the row: it overlaps the one before, and computes some elements twice, with equal results. If the elements of a
reduction's row are not contiguous (columns), a vector holds neighbouring rows instead, and a loop runs along them. A kernel without rows is
flat: its text does not depend on its size. If parts of a row come from different arrays, such as the gradients of an LSTM's gates, the row is
cut between them, and each piece has its own loop without conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from ...graph.index import ZERO, Index, unflatten, variable
from ...graph.node import Node
from ...graph.primitive import Shape
from ..elements import needs_check
from ..groups import Group, row_position
from ..recorder import UNKNOWN, Recorder
from .registers import LANES

# the cost of a load with a constant stride, and of a gather, relative to a contiguous load
STRIDED, SCATTERED = 8.0, 24.0
A_ROW = 20.0  # the cost of starting a row
MOST_PIECES = 8  # pieces of a row: each is a loop in the text


@dataclass(frozen=True)
class Domain:
    """outer rows of segments x inner elements. columns: a vector holds an element of each of `lanes` rows. flat: one row of any length. cuts: the
    elements of a row at which a new piece begins."""

    outer: int
    segments: int
    inner: int
    lanes: int
    columns: bool = False
    flat: bool = False
    cuts: tuple[int, ...] = ()

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The first element and the end of each piece of a row."""
        return list(pairwise((0, *self.cuts, self.inner)))

    @property
    def units(self) -> int:
        """The number of units that threads divide among them: rows, or elements if there is only one row."""
        return self.inner if self.flat else self.outer

    @property
    def unit(self) -> int:
        """The elements of a unit."""
        return 1 if self.flat else self.segments * self.inner

    @property
    def row(self) -> Index:
        return ZERO if self.flat else variable("o", self.outer)

    @property
    def element(self) -> Index:
        return variable("s", self.segments) * self.inner + variable("r", self.inner)


def lanes_of(n: int, most: int = LANES) -> int:
    """The number of lanes for n contiguous elements."""
    return min(most, 1 << (max(n, 1).bit_length() - 1))


def domain_of(group: Group, is_buffer: Callable[[Node], bool], most: int = LANES) -> Domain:
    """How the kernel of a group iterates, with at most so many lanes."""
    if group.archetype == "row":
        return _of_rows(group, most)
    return _of_map(group, is_buffer, most)


def _of_rows(group: Group, most: int) -> Domain:
    if group.trailing:
        return Domain(group.outer, 1, group.inner, lanes_of(group.inner, most))
    node = group.reduces[0]  # the order of the others is the same
    return domain_of_reduction(node.inputs[0].shape, node.primitive.axes, most)  # type: ignore[attr-defined]


def domain_of_reduction(shape: Shape, axes: tuple[int, ...], most: int = LANES) -> Domain:
    """The domain of a reduction over axes. It depends on shape and axes only, so that every kernel sums in the same order, to the same bits."""
    inner = math.prod(shape[a] for a in axes)
    outer = math.prod(shape) // inner
    wide = [a for a in range(len(shape)) if shape[a] > 1]
    if not wide or wide[-1] not in axes:
        return Domain(outer, 1, inner, lanes_of(outer, most), columns=True)
    run = 1  # the contiguous elements of a row
    for a in reversed(wide):
        if a not in axes:
            break
        run *= shape[a]
    return Domain(outer, inner // run, run, lanes_of(run, most))


def order_of(node: Node) -> tuple[bool, int]:
    """A key that is equal for two reductions of the same rows if they combine the elements in the same order."""
    domain = domain_of_reduction(node.inputs[0].shape, node.primitive.axes)  # type: ignore[attr-defined]
    return domain.columns, domain.segments


def _of_map(group: Group, is_buffer: Callable[[Node], bool], most: int) -> Domain:
    shape = group.roots[0].shape
    found: list[tuple[float, Domain]] = []
    for axis in range(len(shape)):
        inner = math.prod(shape[axis:])
        if inner == 1 or (axis and shape[axis - 1] == 1):
            continue
        outer = group.size // inner
        domain = Domain(outer, 1, inner, lanes_of(inner, most), flat=outer == 1)
        found.append(_cost(group, domain, is_buffer))
        if found[-1][0] <= 2.0:
            break
    if not found:
        return Domain(1, 1, 1, 1, flat=True)
    return min(found, key=lambda f: f[0])[1]


class _Borders(Recorder):
    """Records the elements of a row at which a bounds check changes. can_cut: rows may be cut there, which removes the check."""

    def __init__(self, is_buffer: Callable[[Node], bool], can_cut: bool) -> None:
        super().__init__(is_buffer)
        self.can_cut = can_cut
        self.borders: set[int] = set()

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        begin = self._zero_of(i) if by == 1 and needs_check(i, by, size) else None
        if begin is None:
            return super().inside(i, by, size)
        self.borders |= {begin, begin + size}
        return i, ""

    def below(self, i: Index, end: int) -> str:
        begin = self._zero_of(i)
        if begin is not None:
            self.borders.add(begin + end)
        return super().below(i, end)

    def _zero_of(self, i: Index) -> int | None:
        """The element of a row at which an index is 0, if it is the same in all rows."""
        split = i.split("r") if self.can_cut else None
        return -split[0].constant if split is not None and split[1] == 1 and not split[0].terms else None


def _cost(group: Group, domain: Domain, is_buffer: Callable[[Node], bool]) -> tuple[float, Domain]:
    """The estimated cost of an element, in contiguous loads, without the cost that all domains share; and the domain, cut if that saves checks."""
    own = {id(n) for n in group.roots}
    for can_cut in (not domain.flat, False):
        recorder = _Borders(lambda n: id(n) not in own and is_buffer(n), can_cut)
        for root in group.roots:
            recorder.pull(root, unflatten(row_position(root, domain.outer, domain.inner), root.shape))
        cut = replace(domain, cuts=tuple(sorted(b for b in recorder.borders if 0 < b < domain.inner)))
        if len(cut.cuts) < MOST_PIECES and all(end - begin >= domain.lanes for begin, end in cut.pieces):
            break
    cost = 0.0 if domain.flat else A_ROW * len(cut.pieces) / domain.inner
    for _, flat in recorder.reads:
        split = flat.split("r")
        if any(name.startswith(UNKNOWN) for name in flat.variables()) or split is None:
            cost += SCATTERED
        elif split[1] not in (0, 1):
            cost += STRIDED
    return cost * LANES / 8 + LANES / domain.lanes, cut
