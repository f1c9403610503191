"""How a kernel iterates: the choice between rows, columns and one long row. In: a group. Out: a `Domain`, plain data.

A kernel computes `outer` rows of `segments` times `inner` elements. Within a row, elements that lie one after the other in memory are
computed `lanes` at a time; the last ones of a row are the last `lanes` of it, of which some are computed twice, to the same values.
Where a reduction's rows are scattered (columns), neighbouring rows are computed together instead, and a loop runs along them.
A kernel without rows is flat: its text does not depend on its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...graph.index import ZERO, Index, unflatten, variable
from ...graph.node import Node
from ...graph.primitive import Shape
from ..groups import Group, row_position
from ..recorder import Recorder
from .registers import LANES

STRIDED, SCATTERED = 8.0, 24.0  # what a load takes whose lanes lie apart, evenly or not, beside one of neighbours
A_ROW = 20.0  # what beginning a row takes


@dataclass(frozen=True)
class Domain:
    """outer rows of segments x inner elements; columns: rows are computed together, lanes of them; flat: one row of any length."""

    outer: int
    segments: int
    inner: int
    lanes: int
    columns: bool = False
    flat: bool = False

    @property
    def units(self) -> int:
        """What threads share out: rows, or the elements of the only one."""
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
    """How many of n elements in a row are computed at once."""
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
    """How elements of such an array are joined along axes, by whichever kernel: a sum has the same bits in each."""
    inner = math.prod(shape[a] for a in axes)
    outer = math.prod(shape) // inner
    wide = [a for a in range(len(shape)) if shape[a] > 1]
    if not wide or wide[-1] not in axes:
        return Domain(outer, 1, inner, lanes_of(outer, most), columns=True)
    run = 1  # the elements of a row that lie one after the other
    for a in reversed(wide):
        if a not in axes:
            break
        run *= shape[a]
    return Domain(outer, inner // run, run, lanes_of(run, most))


def order_of(node: Node) -> tuple[bool, int]:
    """A key that is equal for reductions of the same rows whose elements are joined in the same order."""
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
        found.append((_cost(group, domain, is_buffer), domain))
        if found[-1][0] <= 2.0:
            break
    if not found:
        return Domain(1, 1, 1, 1, flat=True)
    return min(found, key=lambda f: f[0])[1]


def _cost(group: Group, domain: Domain, is_buffer: Callable[[Node], bool]) -> float:
    """Of an element, about, in loads of neighbours, less what every domain takes."""
    own = {id(n) for n in group.roots}
    recorder = Recorder(lambda n: id(n) not in own and is_buffer(n))
    for root in group.roots:
        recorder.pull(root, unflatten(row_position(root, domain.outer, domain.inner), root.shape))
    cost = 0.0 if domain.flat else A_ROW / domain.inner
    for _, flat in recorder.reads:
        split = flat.split("r")
        if any(name.startswith("?") for name in flat.variables()) or split is None:
            cost += SCATTERED
        elif split[1] not in (0, 1):
            cost += STRIDED
    return cost * LANES / 8 + LANES / domain.lanes
