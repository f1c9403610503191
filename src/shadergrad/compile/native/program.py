"""From a plan of the cpu device to steps in order: functions in LLVM IR, and operations of the interpreter between them.

In: a Plan. Out: `Steps`, plain data except for the interpreter's primitives. Steps read and write rows of one table of arrays, which starts with the
inputs. A row that is no output is live from the step that writes it to the last step that reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...dtypes import DType
from ...explanation import Note
from ...graph.node import Node
from ...graph.primitive import OWN, Shape
from ...plan import Plan
from ...primitives.indexing import ScatterAdd
from ...primitives.views import Cat
from ...system.gc_pause import collector_waits
from ..buffers import is_source
from ..deduplicate import Likeness
from ..fuse import Fuser
from ..groups import Group
from ..kernel import name_of
from ..notes import notes_of
from . import kernel
from .domain import domain_of, order_of
from .product import ProductText, tiles_of
from .regions import TARGET, Hosted, region_of
from .registers import Tile

FEWEST = 1 << 12  # elements of the smallest range that a thread claims


@dataclass(frozen=True)
class Row:
    shape: Shape
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class Step:
    """A function over rows of the table, or an operation of the interpreter, whose result is its last row.

    kernel: the number of the text. units: the number of units, of `unit` elements each, which threads divide into ranges. least: the minimum units of a
    range. places: the dispatches of the plan whose values the step computes, for messages. own: for an elementwise kernel, the rows of which it reads
    element i only to compute element i.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    hosted: Hosted | None = None
    kernel: int = -1
    units: int = 0
    least: int = 1
    buffers: tuple[int, ...] = ()
    shape: str = ""
    places: tuple[int, ...] = ()
    own: tuple[int, ...] = ()


@dataclass(frozen=True)
class Steps:
    """texts: the distinct functions. dies: for each step, the rows that no later step reads."""

    rows: tuple[Row, ...]
    inputs: int
    outputs: tuple[int, ...]
    texts: tuple[str, ...]
    steps: tuple[Step, ...]
    dies: tuple[tuple[int, ...], ...]


def steps_of(plan: Plan, tile: Tile) -> Steps | None:
    """The steps of a plan; None if the interpreter runs it. tile: the sums that registers hold."""
    found = _compiled(plan, tile)
    return None if found is None else found[0]


def explained_steps(plan: Plan, tile: Tile) -> tuple[Steps, tuple[Note, ...]] | None:
    """The steps of a plan, and a note of each with the reasons why it is separate from earlier ones; None if the interpreter runs the plan."""
    found = _compiled(plan, tile)
    return None if found is None else (found[0], notes_of(found[1], found[2], {}))


@collector_waits()
def _compiled(plan: Plan, tile: Tile) -> tuple[Steps, list[Group], Fuser] | None:
    """The steps of a plan, the group of each, and the fuser that made them."""
    region = region_of(plan, tile)
    if region is None:
        return None
    wanted = list({id(n): n for n in region.outputs if n not in region.inputs}.values())
    if not wanted:
        return None
    fuser = Fuser(wanted, TARGET, order_of=order_of)
    groups = _ordered(fuser.run(), fuser)
    table = _Table(region.inputs, fuser, tile)
    for group in groups:
        table.add(group)
        found = dict.fromkeys(region.places[id(n)] for n in group.nodes if id(n) in region.places)
        table.steps[-1] = replace(table.steps[-1], places=tuple(found))
    outputs = tuple(table.row(n) for n in region.outputs)
    return table.finish(len(region.inputs), outputs), groups, fuser


def _ordered(groups: Sequence[Group], fuser: Fuser) -> list[Group]:
    """The groups in an order in which each follows those that it reads."""
    done: set[int] = set()
    found: list[Group] = []
    for first in groups:
        stack = [(first, False)]
        while stack:
            group, ready = stack.pop()
            if ready:
                found.append(group)
            elif id(group) not in done:
                done.add(id(group))
                stack.append((group, True))
                producers = (fuser.producer.get(key) for key in fuser.buffers_read(group))
                stack += [(p, False) for p in producers if p is not None and p is not group and id(p) not in done]
    return found


@dataclass(frozen=True)
class _Emitted:
    """The step of all groups with one key (compile/deduplicate.py). Nodes are given by their positions in the key.

    kernel, units, least, shape: as in `Step`. buffers, own: as in `Step`, by position.
    """

    kernel: int
    units: int
    least: int
    shape: str
    buffers: tuple[int, ...]
    own: tuple[int, ...] = ()


class _Table:
    """The rows and steps during their construction."""

    def __init__(self, inputs: Sequence[Node], fuser: Fuser, tile: Tile) -> None:
        self.tile = tile
        self.fuser = fuser
        self.rows: list[Row] = []
        self.place: dict[int, int] = {}
        self.texts: dict[str, int] = {}
        self.emitted: dict[Any, _Emitted] = {}  # by key
        self.steps: list[Step] = []
        self.is_buffer: Callable[[Node], bool] = lambda n: is_source(n) or id(n) in fuser.stored
        for node in inputs:
            self.row(node)

    def row(self, node: Node) -> int:
        found = self.place.get(id(node))
        if found is None:
            found = self.place[id(node)] = len(self.rows)
            self.rows.append(Row(node.shape, node.dtype))
        return found

    def add(self, group: Group) -> None:
        if group.call is not None:
            self._add_hosted(group)
            return
        own = {id(n) for n in group.nodes}
        like = Likeness(group, lambda n: id(n) not in own and self.is_buffer(n), {})
        emitted = self.emitted.get(like.key)
        if emitted is None:
            emit = self._kernel if group.dot is None else self._product
            emitted = self.emitted[like.key] = emit(group, like)
        rows = tuple(self.row(like.nodes[k]) for k in emitted.buffers)
        writes = tuple(self.row(n) for n in group.roots)
        reads = tuple(r for r in rows if r not in writes)
        own_rows = tuple(self.row(like.nodes[k]) for k in emitted.own)
        number, units, least, shape = emitted.kernel, emitted.units, emitted.least, emitted.shape
        self.steps.append(Step(name_of(group), reads, writes, None, number, units, least, rows, shape, own=own_rows))

    def _kernel(self, group: Group, like: Likeness) -> _Emitted:
        domain = domain_of(group, self.is_buffer, self.tile.lanes)
        written = kernel.write(group, domain, self.is_buffer)
        number = self.texts.setdefault(written.text, len(self.texts))
        least = max(1, FEWEST // domain.unit, domain.lanes if domain.flat or domain.columns else 1)
        shape = f"{domain.units}" if domain.flat else f"{domain.outer} x {domain.segments * domain.inner}"
        buffers = tuple(like.place[id(n)] for n in written.buffers)
        own = self._own(group, like) if domain.flat else ()
        return _Emitted(number, domain.units, least, f"{group.archetype} {shape}", buffers, own)

    def _own(self, group: Group, like: Likeness) -> tuple[int, ...]:
        """The buffers that an elementwise kernel reads only at the element that it computes."""
        elsewhere, read = set(), {}
        for (key, place), node in self.fuser.reads(group).items():
            read[key] = node
            if node.size != group.size or place != group.position(node):
                elsewhere.add(key)
        return tuple(like.place[id(node)] for key, node in read.items() if key not in elsewhere)

    def _product(self, group: Group, like: Likeness) -> _Emitted:
        tiles = tiles_of(group, self.is_buffer, self.tile)
        text, nodes = ProductText(group, tiles, self.is_buffer).write()
        number = self.texts.setdefault(text, len(self.texts))
        least = max(1, FEWEST // (tiles.m * tiles.n))
        shape = f"dot {tiles.batch} x {tiles.m} x {tiles.n} x {tiles.k}"
        return _Emitted(number, tiles.batch, least, shape, tuple(like.place[id(n)] for n in nodes))

    def _add_hosted(self, group: Group) -> None:
        assert group.call is not None
        node = group.call
        assert isinstance(node.primitive, Hosted)
        reads = tuple(self.row(n) for n in node.inputs)
        first, *others = group.roots
        for root in (first, *others):  # a reshape of the result has the same memory
            self.place[id(root)] = self.row(node)
        self.steps.append(Step(node.primitive.name, reads, (self.row(node),), node.primitive))

    def finish(self, inputs: int, outputs: tuple[int, ...]) -> Steps:
        last: dict[int, int] = {}
        base: dict[
            int, tuple[int, ...]
        ] = {}  # the results of the interpreter that may be views, with the rows that they may be views of
        for k, step in enumerate(self.steps):
            for row in (*step.reads, *step.writes):
                self._live(row, k, last, base)
            if step.hosted is not None and may_alias(step.hosted):
                base[step.writes[0]] = step.reads
        dies: list[list[int]] = [[] for _ in self.steps]
        kept = {*outputs, *range(inputs)}
        for row in outputs:  # an output that is a view keeps the viewed row alive
            self._keep(row, kept, base)
        for row, k in last.items():
            if row not in kept:
                dies[k].append(row)
        return Steps(
            tuple(self.rows), inputs, outputs, tuple(self.texts), tuple(self.steps), tuple(tuple(d) for d in dies)
        )

    def _live(self, row: int, k: int, last: dict[int, int], base: dict[int, tuple[int, ...]]) -> None:
        last[row] = k
        for below in base.get(row, ()):
            self._live(below, k, last, base)

    def _keep(self, row: int, kept: set[int], base: dict[int, tuple[int, ...]]) -> None:
        kept.add(row)
        for below in base.get(row, ()):
            self._keep(below, kept, base)


def may_alias(hosted: Hosted) -> bool:
    """Whether the result may be a view of an operand."""
    if isinstance(hosted.of, Cat | ScatterAdd):
        return False
    return hosted.of.kind not in ("dot", "reduce", "elementwise") or not type(hosted.of).__module__.startswith(OWN)
