"""Grouping nodes into kernels.

In: output nodes of a simplified, lowered graph. Out: groups, each of which becomes one kernel, and the set of nodes
that get a buffer. First every reduction, product, output and shared expensive value starts a group of its own, grown
forward over elementwise operations; then groups that iterate over the same domain are merged where the one reads the
other only at its own position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from ..graph.index import ZERO, Index, unflatten, variable
from ..graph.leaves import Placeholder
from ..graph.node import Node, topological
from ..plan import Target
from ..primitives.elementwise import Elementwise
from ..primitives.views import Cat, Reshape, View
from .render import Recorder

CHEAP = 2  # scalar operations that are recomputed rather than stored and read again
DEEPEST = 100  # operations in a chain before its value is stored: rendering recurses along it
LONG_ROW = 8192  # rows longer than this are not fused with maps over their elements unless there are many rows


@dataclass(eq=False)
class Group:
    """Nodes that one kernel computes.

    roots: the nodes that it writes. Domain: `size` elements for map and dot; `outer` rows of `inner` for row.
    reduces: the reductions of a row kernel, in order. dot: the product of a dot kernel.
    """

    archetype: Literal["map", "row", "dot", "call"]
    roots: list[Node]
    reduces: list[Node] = field(default_factory=list)
    dot: Node | None = None
    size: int = 0
    outer: int = 0
    inner: int = 0
    trailing: bool = False  # row: whether the reduced axes are the last ones, so that a row is contiguous
    parts: list[Group] = field(default_factory=list)  # map: independent maps that share a dispatch

    @property
    def nodes(self) -> list[Node]:
        return [*self.roots, *self.reduces, *([self.dot] if self.dot else [])]

    def position(self, node: Node) -> Index:
        """Where a root is written: row-major, in the domain variables."""
        if self.archetype != "row":
            return variable("i", self.size)
        o = variable("o", self.outer)
        return o if node.size == self.outer else o * self.inner + variable("r", self.inner)


def reduce_index(node: Node, o: Index, r: Index) -> tuple[Index, ...]:
    """The index into the input of a reduction, for result o and element r of its row."""
    (x,) = node.inputs
    axes = node.primitive.axes  # type: ignore[attr-defined]
    kept = [a for a in range(x.ndim) if a not in axes]
    index: list[Index] = [ZERO] * x.ndim
    for a, i in zip(kept, unflatten(o, [x.shape[a] for a in kept]), strict=True):
        index[a] = i
    for a, i in zip(axes, unflatten(r, [x.shape[a] for a in axes]), strict=True):
        index[a] = i
    return tuple(index)


def _row_group(node: Node) -> Group:
    (x,) = node.inputs
    axes = node.primitive.axes  # type: ignore[attr-defined]
    wide = [a for a in range(x.ndim) if x.shape[a] > 1]
    reduced = [a for a in wide if a in axes]
    trailing = reduced == wide[len(wide) - len(reduced) :]
    return Group("row", [node], [node], outer=node.size, inner=x.size // node.size, trailing=trailing)


def is_anchor(node: Node) -> bool:
    return node.primitive.kind in ("reduce", "dot")


def behind_reshapes(node: Node) -> Node:
    """The node whose elements these are, in the same row-major order."""
    while isinstance(node.primitive, Reshape):
        node = node.inputs[0]
    return node


class Fuser:
    """The state of grouping one graph."""

    def __init__(self, outputs: list[Node], target: Target, kept: Iterable[Node] = ()) -> None:
        self.target = target
        self.kept = {id(n) for n in kept}  # products that someone may ask for later, whatever is fused with them
        self.limit = target.max_storage_buffers - (1 if target.checked else 0)
        self.outputs = outputs
        self.output_ids = {id(n) for n in outputs}
        self.order = topological(outputs, lambda n: n.inputs)
        self.rank = {id(n): k for k, n in enumerate(self.order)}
        self.consumers: dict[int, list[Node]] = {id(n): [] for n in self.order}
        for node in self.order:
            for source in {id(i): i for i in node.inputs}.values():
                self.consumers[id(source)].append(node)
        self.stored: dict[int, Node] = {}  # nodes that get a buffer
        self.cuts: set[int] = set()  # those that get one because the chain behind them is deep; they keep it
        self.producer: dict[int, Group] = {}
        self.groups: list[Group] = []
        self._reads: dict[int, dict[int, Node]] = {}
        self._retired: list[Group] = []  # kept, so that ids stay unique

    def run(self) -> list[Group]:
        self._choose_stored()
        claimed: set[int] = set()  # what some group has grown over: no second one may
        for node in self.order:
            if is_anchor(node):
                self._grow(node, claimed)
            elif node.primitive.kind == "call":
                self._add(self._call_group(node))
        for node in self.order:
            if id(node) in self.stored and id(node) not in self.producer:
                self._add(Group("map", [node], size=node.size))
        self._narrow_wide_groups()
        self._merge_all()
        self._drop_private_roots()
        return self.groups

    # -- which nodes get a buffer

    def is_source(self, node: Node) -> bool:
        return isinstance(node.primitive, Placeholder)

    def _choose_stored(self) -> None:
        depth: dict[int, int] = {}
        for node in self.order:
            if node.primitive.kind == "source":
                if id(node) in self.output_ids and not self.is_source(node):
                    self.stored[id(node)] = node
            elif (
                id(node) in self.output_ids
                or is_anchor(node)
                or node.primitive.kind == "call"
                or (not isinstance(node.primitive, View) and self._is_shared(node) and not self._is_cheap(node))
            ):
                self.stored[id(node)] = node
            if node.primitive.kind == "dot":
                for operand in node.inputs:
                    base = self._behind_views(operand)
                    if (
                        (base.primitive.kind in ("elementwise", "index") or isinstance(base.primitive, Cat))
                        and id(base) not in self.stored
                        and not self._is_cheap(base)
                    ):
                        self.stored[id(base)] = base
            if node.primitive.kind == "call":
                for operand in map(behind_reshapes, node.inputs):
                    if not self.is_source(operand):
                        self.stored[id(operand)] = operand
            below = max((depth[id(i)] for i in node.inputs), default=0)
            if below >= DEEPEST and id(node) not in self.stored:
                self.stored[id(node)] = node
                self.cuts.add(id(node))
            depth[id(node)] = 0 if id(node) in self.stored or not node.inputs else below + 1

    def _is_shared(self, node: Node) -> bool:
        """Whether more than one computation reads it, looking through views."""
        count = 0
        for user in self.consumers[id(node)]:
            count += max(1, len(self.consumers[id(user)])) if isinstance(user.primitive, View) else 1
        return count > 1

    def _is_cheap(self, node: Node) -> bool:
        recorder = Recorder(lambda n: self.is_source(n) or id(n) in self.stored)
        recorder.pull(node, tuple(variable(f"x{a}", n) for a, n in enumerate(node.shape)))
        return recorder.cost <= CHEAP and len(recorder.reads) <= 1

    def _behind_views(self, node: Node) -> Node:
        while isinstance(node.primitive, View):
            node = node.inputs[0]
        return node

    # -- groups

    def _add(self, group: Group) -> None:
        self.groups.append(group)
        for root in group.roots:
            self.producer[id(root)] = group

    def _grow(self, anchor: Node, claimed: set[int]) -> None:
        """A group from a reduction or product forward over the elementwise operations that only it feeds."""
        last = end = anchor
        while id(end) not in self.output_ids | self.cuts and len(self.consumers[id(end)]) == 1:
            (user,) = self.consumers[id(end)]
            if id(user) in claimed or user.size != anchor.size:
                break
            claimed.add(id(user))
            if isinstance(user.primitive, Elementwise):
                last = end = user
            elif isinstance(user.primitive, Reshape):
                end = user
                if id(end) in self.output_ids:
                    last = end
            else:
                break
        if last is not anchor:
            del self.stored[id(anchor)]
            self.stored[id(last)] = last
        if anchor.primitive.kind == "dot":
            group = Group("dot", [last], dot=anchor, size=anchor.size)
            if last is not anchor and id(anchor) in self.kept:  # a backward pass may ask for the product itself
                self.stored[id(anchor)] = anchor
                group.roots = [anchor, last]
        else:
            group = _row_group(anchor)
            group.roots = [last]
        if not self._fits(group) and last is not anchor:
            self.stored.pop(id(last), None)
            self.stored[id(anchor)] = anchor
            if id(last) in self.output_ids or self._is_shared(last):
                self.stored[id(last)] = last
            group.roots = [anchor]
        self._add(group)

    def _call_group(self, call: Node) -> Group:
        """A call writes the output that is only a reshaped view of its result."""
        end = call
        while id(end) not in self.output_ids and len(self.consumers[id(end)]) == 1:
            (end,) = self.consumers[id(end)]
            if not isinstance(end.primitive, Reshape):
                return Group("call", [call], size=call.size)
        if id(end) not in self.output_ids:
            end = call
        if end is not call:
            del self.stored[id(call)]
        return Group("call", [end], size=call.size)

    def reads(self, group: Group, *, rows: tuple[int, int] | None = None) -> dict[tuple[int, Index], Node]:
        """What the kernel of `group` reads, at which index. rows=(outer, inner): a map seen as rows."""
        own = {id(n) for n in group.nodes}
        recorder = Recorder(lambda n: id(n) not in own and (self.is_source(n) or id(n) in self.stored))
        o, r, i = variable("o", group.outer), variable("r", group.inner), variable("i", group.size)
        if rows is not None:
            o, r = variable("o", rows[0]), variable("r", rows[1])
            i = o if group.size == rows[0] else o * rows[1] + r
        anchors = {id(n) for n in (*group.reduces, group.dot) if n is not None}

        inner_pull = recorder.pull

        def pull(node: Node, index: tuple[Index, ...]) -> str:
            return "" if id(node) in anchors else inner_pull(node, index)

        recorder.pull = pull  # type: ignore[method-assign]
        for node in group.reduces:
            pull(node.inputs[0], reduce_index(node, o, r))
        if group.dot is not None:
            m, k, n = (
                variable(name, size)
                for name, size in zip("mkn", (*group.dot.inputs[0].shape[1:], group.dot.shape[2]), strict=True)
            )
            b = variable("b", group.dot.shape[0])
            pull(group.dot.inputs[0], (b, m, k))
            pull(group.dot.inputs[1], (b, k, n))
        for root in group.roots:
            position = group.position(root) if rows is None else i
            pull(root, unflatten(position, root.shape))
        return recorder.reads

    def buffers_read(self, group: Group) -> dict[int, Node]:
        """The stored nodes and inputs that the kernel of `group` reads."""
        found = self._reads.get(id(group))
        if found is None:
            own = {id(n) for n in group.nodes}
            found = self._reads[id(group)] = {}
            seen: set[int] = set()
            stack = [*group.nodes]
            while stack:
                node = stack.pop()
                if id(node) in seen:
                    continue
                seen.add(id(node))
                if id(node) not in own and (self.is_source(node) or id(node) in self.stored):
                    found[id(node)] = node
                else:
                    stack.extend(node.inputs)
        return found

    def _fits(self, group: Group) -> bool:
        fits = len(self.buffers_read(group).keys() | {id(n) for n in group.roots}) <= self.limit
        if group not in self.groups:
            del self._reads[id(group)]  # it may be thrown away, and its id used again
        return fits

    # -- merging

    def _merge_all(self) -> None:
        changed = True
        while changed:
            changed = False
            for consumer in sorted(self.groups, key=lambda g: min(self.rank[id(n)] for n in g.roots)):
                if consumer not in self.groups:
                    continue
                for producer in self._producers(consumer):
                    merged = self._merged(producer, consumer)
                    if merged is not None and self._fits(merged) and not self._path_around(producer, consumer):
                        self._replace(producer, consumer, merged)
                        changed = True
                        break

    def _producers(self, group: Group) -> list[Group]:
        found: dict[int, Group] = {}
        for key in self.buffers_read(group):
            producer = self.producer.get(key)
            if producer is not None and producer is not group:
                found[id(producer)] = producer
        return list(found.values())

    def _merged(self, producer: Group, consumer: Group) -> Group | None:
        """One group for both, or None where their domains differ or the consumer reads elsewhere."""
        if "call" in (producer.archetype, consumer.archetype):
            return None
        roots = [*producer.roots, *consumer.roots]
        own = {id(n) for n in producer.roots}
        if own & self.cuts:
            return None
        if consumer.archetype == "map" and producer.archetype in ("map", "dot"):
            if consumer.size != producer.size:
                return None
            here = variable("i", producer.size)
            if any(flat != here for (key, flat) in self.reads(consumer) if key in own):
                return None
            return Group(producer.archetype, roots, dot=producer.dot, size=producer.size)
        rowish = [g for g in (producer, consumer) if g.archetype == "row"]
        if not rowish or any(g.archetype == "dot" for g in (producer, consumer)):
            return None
        row = rowish[0]
        rows = (row.outer, row.inner)
        if any((g.outer, g.inner) != rows or g.trailing != row.trailing for g in rowish):
            return None
        o = variable("o", row.outer)
        whole = o * row.inner + variable("r", row.inner)
        for group in (producer, consumer):
            if group.archetype == "map" and group.size != row.outer and not self._rows_suit(row, group.size):
                return None
        if not row.trailing and (
            any(n.size != row.outer for n in roots) or (producer.archetype == "map" and consumer.archetype == "row")
        ):
            return None
        consumer_reads = self.reads(consumer, rows=rows if consumer.archetype == "map" else None)
        for (key, flat), node in consumer_reads.items():
            if key in own and flat != (o if node.size == row.outer else whole):
                return None
        reduces = sorted((n for g in rowish for n in g.reduces), key=lambda n: self.rank[id(n)])
        return Group("row", roots, reduces, outer=row.outer, inner=row.inner, trailing=row.trailing)

    def _rows_suit(self, row: Group, size: int) -> bool:
        return row.trailing and size == row.outer * row.inner and (row.inner <= LONG_ROW or row.outer >= 256)

    def _path_around(self, producer: Group, consumer: Group) -> bool:
        """Whether some third group lies between the two."""
        seen: set[int] = set()
        stack = [g for g in self._producers(consumer) if g is not producer]
        while stack:
            group = stack.pop()
            if group is producer:
                return True
            if id(group) not in seen:
                seen.add(id(group))
                stack.extend(self._producers(group))
        return False

    def _replace(self, a: Group, b: Group, merged: Group) -> None:
        self.groups = [g for g in self.groups if g is not a and g is not b]
        self._retired += [a, b]
        self._add(merged)
        self._drop_private(merged)

    def _drop_private_roots(self) -> None:
        for group in self.groups:
            self._drop_private(group)

    def _drop_private(self, group: Group) -> None:
        """Values that only their own kernel needs get no buffer."""
        if len(group.roots) < 2:
            return
        for root in list(group.roots):
            if (
                id(root) in self.output_ids
                or (root is group.dot and id(root) in self.kept)
                or self._read_elsewhere(root, group)
            ):
                continue
            if len(group.roots) == 1:
                break
            group.roots.remove(root)
            self._reads.pop(id(group), None)
            self.stored.pop(id(root), None)
            del self.producer[id(root)]

    def _read_elsewhere(self, node: Node, group: Group) -> bool:
        return any(id(node) in self.buffers_read(other) for other in self.groups if other is not group)

    # -- device limits

    def _narrow_wide_groups(self) -> None:
        """Give parts of an expression buffers of their own until every kernel keeps to the binding limit."""
        work = list(self.groups)
        while work:
            group = work.pop()
            if self._fits(group):
                continue
            node = self._widest_part(group)
            if node is None:
                continue
            self.stored[id(node)] = node
            self._reads.clear()
            part = Group("map", [node], size=node.size)
            self._add(part)
            work += [part, group]

    def _widest_part(self, group: Group) -> Node | None:
        """An inner node of the group that reads as many buffers as one kernel may."""
        own = {id(n) for n in group.nodes}
        stack = [s for n in group.nodes for s in n.inputs]
        best: tuple[int, Node] | None = None
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen or id(node) in self.stored or self.is_source(node) or is_anchor(node):
                continue
            seen.add(id(node))
            stack.extend(node.inputs)
            if id(node) in own or isinstance(node.primitive, View):
                continue
            recorder = Recorder(lambda n: self.is_source(n) or id(n) in self.stored)
            recorder.pull(node, tuple(variable(f"x{a}", n) for a, n in enumerate(node.shape)))
            width = len({id(n) for n in recorder.reads.values()})
            if 2 <= width <= self.limit - 1 and (best is None or width > best[0]):
                best = (width, node)
        return best[1] if best else None
