"""Grouping nodes into kernels.

In: output nodes of a simplified, lowered graph. Out: groups, each of which becomes one kernel, and the set of nodes
that get a buffer. First every node with a buffer (`buffers.py`) starts its own group, which grows forward over elementwise operations.
Then groups with the same iteration domain are merged if one reads the other only at its own position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..explanation import Refusal, Why
from ..graph.index import Index, unflatten
from ..graph.node import Node, topological
from ..primitives.elementwise import Elementwise
from ..primitives.indexing import InRange
from ..primitives.views import Reshape, View
from ..symbolic_sizes import form, hint
from ..target import Target
from .buffers import Buffers, is_source, widens
from .groups import (
    Group,
    group_of,
    has_epilogue,
    is_anchor,
    is_call,
    operands_of,
    row_position,
)
from .precedence import Precedence
from .recorder import Recorder

LITTLE = 1 << 16  # elements of rows: smaller reductions are fused with unrelated ones


def _of_other_size(written: int, read: int) -> Refusal:
    """The reason why a map of so many elements is not fused into a reader with another number of elements."""
    times = hint(read) // max(1, hint(written))
    return Refusal(Why.REPEATED, times) if times > 1 else Refusal(Why.PART)


def _of_other_rows(producer: Group, consumer: Group) -> Refusal:
    """The reason why two reductions, or a reduction and a map, do not have the same rows."""
    row = producer if producer.archetype == "row" else consumer
    elements = row.outer * row.inner
    if producer.archetype == consumer.archetype:
        other = producer if row is consumer else consumer
        return Refusal(Why.AXIS if form(elements) == form(other.outer * other.inner) else Why.ROWS)
    size = consumer.size if row is producer else producer.size
    if form(size) == form(elements):
        return Refusal(Why.LONG, hint(row.inner)) if row.trailing else Refusal(Why.SCATTERED)
    return _of_other_size(row.outer, size) if row is producer else _of_other_size(size, elements)


class Fuser:
    """The state of grouping one graph."""

    def __init__(
        self,
        outputs: list[Node],
        target: Target,
        kept: Iterable[Node] = (),
        order_of: Callable[[Node], Any] = lambda reduction: None,
    ) -> None:
        """order_of: for a reduction, a key of the order in which it adds elements; those with another order need another kernel."""
        self.target = target
        self.order_of = order_of
        self.kept = {id(n) for n in kept}  # matrix multiplications whose own result may be needed later
        self.limit = target.max_storage_buffers
        self.buffers = Buffers(outputs, target, self.kept)
        self.order, self.consumers, self.output_ids = (
            self.buffers.order,
            self.buffers.consumers,
            self.buffers.output_ids,
        )
        self.stored, self.cuts = self.buffers.stored, self.buffers.cuts
        self.rank = {id(n): k for k, n in enumerate(self.order)}
        self.producer: dict[int, Group] = {}
        self.groups: dict[int, Group] = {}  # by id
        self.narrowed: set[int] = set()  # nodes that get a buffer so that no kernel binds too many
        self.refused: dict[tuple[int, int], Refusal] = {}  # reasons for the pairs of groups, by id, that stay separate
        self.became: dict[int, Group] = {}  # the groups into which groups, by id, were merged
        self._reads: dict[int, dict[int, Node]] = {}
        self._reports: dict[int, bool] = {}
        self._places: dict[tuple[int, Any], dict[tuple[int, Index], Node]] = {}
        self._retired: list[Group] = []  # kept, so that ids stay unique

    def run(self) -> list[Group]:
        self.buffers.choose()
        claimed: set[int] = set()  # nodes over which a group has grown; no second group may
        for node in self.order:
            if is_anchor(node) or is_call(node):
                self._grow(node, claimed)
        for node in self.order:
            if id(node) in self.stored and id(node) not in self.producer:
                self._add(Group("map", [node], size=node.size))
        self._narrow_wide_groups()
        before = Precedence({id(g): [id(p) for p in self._producers(g)] for g in self.groups.values()})
        self._merge_all(before)
        self._merge_siblings(before)
        self._drop_private_roots()
        return list(self.groups.values())

    # -- groups

    def _add(self, group: Group) -> None:
        self.groups[id(group)] = group
        for root in group.roots:
            self.producer[id(root)] = group

    def _grow(self, anchor: Node, claimed: set[int]) -> None:
        """A group from a reduction, product or call forward over the elementwise operations that only it feeds."""
        *before, last = self._chain(anchor, claimed)
        for node in before:  # each is read by the next alone
            self.stored.pop(id(node), None)
        self.buffers.store(last)
        group = group_of(anchor, last)
        if group.reduces:
            group.order = self.order_of(anchor)
        if not group.reduces and has_epilogue(anchor) and last is not anchor and id(anchor) in self.kept:
            self.buffers.store(anchor)  # a backward pass may ask for the product itself
            group.roots = [anchor, last]
        if last is not anchor and not self._fits(group):
            self.stored.pop(id(last), None)
            self.buffers.store(anchor)
            if id(last) in self.output_ids or self.buffers.is_shared(last):
                self.buffers.store(last)
            group.roots = [anchor]
        self._add(group)

    def _chain(self, anchor: Node, claimed: set[int]) -> list[Node]:
        """From an anchor to the last elementwise operation, or reshaped output, to which its value flows without another
        reader. The nodes on the way are claimed: no second group may grow over them.
        """
        taken = Elementwise | Reshape if has_epilogue(anchor) else Reshape
        chain, length, end = [anchor], 1, anchor
        while id(end) not in self.output_ids | self.cuts.keys() and len(self.consumers[id(end)]) == 1:
            (user,) = self.consumers[id(end)]
            if id(user) in claimed or form(user.size) != form(anchor.size):
                break
            claimed.add(id(user))
            if not isinstance(user.primitive, taken):
                break
            end = user
            chain.append(end)
            if (isinstance(user.primitive, Elementwise) and not widens(user)) or id(end) in self.output_ids:
                length = len(chain)
        return chain[:length]

    def reads(self, group: Group, *, rows: tuple[int, int] | None = None) -> dict[tuple[int, Index], Node]:
        """The reads of the kernel of `group`, with their indices. rows=(outer, inner): a map seen as rows."""
        key = id(group), None if rows is None else (form(rows[0]), form(rows[1]))
        if key not in self._places:
            self._places[key] = self._recorded_reads(group, rows)
        return self._places[key]

    def _recorded_reads(self, group: Group, rows: tuple[int, int] | None) -> dict[tuple[int, Index], Node]:
        own = {id(n) for n in group.nodes}
        recorder = Recorder(lambda n: id(n) not in own and (is_source(n) or id(n) in self.stored))
        anchors = {id(n) for n in (*group.reduces, group.dot, group.call) if n is not None}
        inner_pull = recorder.pull

        def pull(node: Node, index: tuple[Index, ...]) -> str:
            return "" if id(node) in anchors else inner_pull(node, index)

        recorder.pull = pull  # type: ignore[method-assign]
        for operand, index in operands_of(group):
            pull(operand, index)
        for root in group.roots:
            pull(root, unflatten(group.position(root) if rows is None else row_position(root, *rows), root.shape))
        return recorder.reads

    def buffers_read(self, group: Group) -> dict[int, Node]:
        """The stored nodes and inputs that the kernel of `group` reads."""
        found = self._reads.get(id(group))
        if found is None:
            own = {id(n) for n in group.nodes}
            found = self._reads[id(group)] = {}
            self._reports[id(group)] = self.target.checked
            seen: set[int] = set()
            stack = [*group.nodes]
            while stack:
                node = stack.pop()
                if id(node) in seen:
                    continue
                seen.add(id(node))
                if isinstance(node.primitive, InRange) and (id(node) in own or id(node) not in self.stored):
                    self._reports[id(group)] = True
                if id(node) not in own and (is_source(node) or id(node) in self.stored):
                    found[id(node)] = node
                else:
                    stack.extend(node.inputs)
        return found

    def reports(self, group: Group) -> bool:
        """Whether the kernel of `group` has a binding for the fault buffer."""
        self.buffers_read(group)
        return self._reports[id(group)]

    def _fits(self, group: Group) -> bool:
        bound = len(self.buffers_read(group).keys() | {id(n) for n in group.roots})
        fits = bound + self.reports(group) <= self.limit
        if id(group) not in self.groups:
            del self._reads[id(group)]  # the group may be dropped, and its id reused
        return fits

    def _fits_as(self, merged: Group, *parts: Group) -> bool:
        """Whether a group made of others stays within the limits."""
        read = {key for part in parts for key in self.buffers_read(part)}
        bound = len(read.difference(map(id, merged.nodes))) + len(merged.roots)
        return bound + any(map(self.reports, parts)) <= self.limit

    # -- merging

    def _merge_all(self, before: Precedence[int]) -> None:
        changed = True
        while changed:
            changed = False
            self.refused.clear()
            for consumer in sorted(self.groups.values(), key=lambda g: min(self.rank[id(n)] for n in g.roots)):
                if id(consumer) not in self.groups:
                    continue
                producers = self._producers(consumer)
                for producer in producers:
                    merged = self._joined(producer, consumer, producers, before)
                    if isinstance(merged, Group):
                        self._replace(producer, consumer, merged, before)
                        changed = True
                        break
                    self.refused[id(producer), id(consumer)] = merged

    def _joined(
        self, producer: Group, consumer: Group, producers: list[Group], before: Precedence[int]
    ) -> Group | Refusal:
        """One group for a consumer and one of its producers, or the reason why there are two."""
        merged = self._merged(producer, consumer)
        if isinstance(merged, Refusal):
            return merged
        if not self._fits_as(merged, producer, consumer):
            return Refusal(Why.BUFFERS, self.limit)
        if any(before.runs_after(id(g), id(producer)) for g in producers if g is not producer):
            return Refusal(Why.BETWEEN)
        return merged

    def _merge_siblings(self, before: Precedence[int]) -> None:
        """Independent reductions of the same rows share a kernel if they read the same values, or little memory:
        both sums of a norm's gradient.
        """
        rows: dict[Any, list[Group]] = {}
        for group in self.groups.values():
            if group.archetype == "row" and not any(id(n) in self.cuts for n in group.roots):
                rows.setdefault(group.rows, []).append(group)
        for alike in rows.values():
            self._merge_alike(alike, before)

    def _merge_alike(self, alike: list[Group], before: Precedence[int]) -> None:
        """Merges groups with the same rows. Each pair is tried once, because merging others does not change the answer.
        Merged groups are appended to the list.
        """
        little = hint(alike[0].outer * alike[0].inner) <= LITTLE
        following = [k + 1 for k in range(len(alike))]  # for each group, the next one to compare it with
        k = 0
        while k < len(alike):
            a = alike[k]
            k += 1
            while id(a) in self.groups and following[k - 1] < len(alike):
                b = alike[following[k - 1]]
                following[k - 1] += 1
                both = self._siblings(a, b, before, little) if id(b) in self.groups else None
                if both is not None:
                    self._replace(a, b, both, before)
                    alike.append(both)
                    following.append(len(alike))
                    k = 0  # earlier groups are compared with the merged one, too

    def _siblings(self, a: Group, b: Group, before: Precedence[int], little: bool) -> Group | None:
        """One group for two with the same rows; None if one runs after the other, or if nothing is gained."""
        if before.ordered(id(a), id(b)):
            return None
        if not little and not self._elements_read(a) & self.buffers_read(b).keys():
            return None
        reduces = sorted([*a.reduces, *b.reduces], key=lambda n: self.rank[id(n)])
        both = replace(a, roots=[*a.roots, *b.roots], reduces=reduces)
        return both if self._fits_as(both, a, b) else None

    def _elements_read(self, group: Group) -> set[int]:
        """The reads of a row kernel that have an element for each element of its rows."""
        elements = form(group.outer * group.inner)
        return {key for key, n in self.buffers_read(group).items() if form(n.size) == elements}

    def _producers(self, group: Group) -> list[Group]:
        found: dict[int, Group] = {}
        for key in self.buffers_read(group):
            producer = self.producer.get(key)
            if producer is not None and producer is not group:
                found[id(producer)] = producer
        return list(found.values())

    def _merged(self, producer: Group, consumer: Group) -> Group | Refusal:
        """One group for both, or the reason why not: their domains differ, or the consumer reads at other positions."""
        archetypes = (producer.archetype, consumer.archetype)
        grown = producer.archetype in ("dot", "call") and consumer.archetype == "map"
        if "call" in archetypes and not (grown and producer.call is not None and has_epilogue(producer.call)):
            return Refusal(Why.CALL)
        refusal = next((self.cuts[id(n)] for n in producer.roots if id(n) in self.cuts), None)
        if refusal is not None:
            return refusal
        if grown or archetypes == ("map", "map"):
            return self._merged_elements(producer, consumer)
        times = self._times_read(producer, consumer)
        if times:
            return Refusal(Why.PRODUCT, times)
        if archetypes == ("dot", "dot"):
            return Refusal(Why.PRODUCTS)
        return Refusal(Why.TILES) if "dot" in archetypes else self._merged_rows(producer, consumer)

    def _times_read(self, producer: Group, product: Group) -> int:
        """How often a matrix multiplication reads each element of an operand; 0 if it is not an operand."""
        if product.dot is None:
            return 0
        own = {id(n) for n in producer.roots}
        _, m, n = product.dot.shape
        for operand, times in zip(product.dot.inputs, (n, m), strict=True):
            below = topological([operand], lambda node: () if id(node) in self.stored else node.inputs)
            if any(id(node) in own for node in below):
                return hint(times)
        return 0

    def _merged_elements(self, producer: Group, consumer: Group) -> Group | Refusal:
        """A map within the kernel that computes its operands, element by element."""
        if form(producer.size) != form(consumer.size):
            return _of_other_size(producer.size, consumer.size)
        if not self._reads_in_place(consumer, producer):
            return Refusal(Why.OTHER_POSITIONS)
        return replace(producer, roots=[*producer.roots, *consumer.roots])

    def _merged_rows(self, producer: Group, consumer: Group) -> Group | Refusal:
        """Reductions of the same rows, or one of them with a map of these rows."""
        row = producer if producer.archetype == "row" else consumer
        if not (row.has_rows_of(producer) and row.has_rows_of(consumer)):
            return _of_other_rows(producer, consumer)
        roots = [*producer.roots, *consumer.roots]
        if not row.trailing and (producer.archetype == "map" or any(form(n.size) != form(row.outer) for n in roots)):
            return Refusal(Why.SCATTERED)  # neighbouring threads take neighbouring rows
        if not self._reads_in_place(consumer, producer, (row.outer, row.inner)):
            return Refusal(Why.OTHER_POSITIONS)
        reduces = sorted([*producer.reduces, *consumer.reduces], key=lambda n: self.rank[id(n)])
        return replace(row, roots=roots, reduces=reduces)

    def _reads_in_place(self, consumer: Group, producer: Group, rows: tuple[int, int] | None = None) -> bool:
        """Whether the consumer reads each of the producer's elements only at its own position."""
        own = {id(n) for n in producer.roots}
        here = producer.position if rows is None else lambda node: row_position(node, *rows)
        reads = self.reads(consumer, rows=rows if consumer.archetype == "map" else None)
        return all(flat == here(node) for (key, flat), node in reads.items() if key in own)

    def _replace(self, a: Group, b: Group, merged: Group, before: Precedence[int]) -> None:
        del self.groups[id(a)], self.groups[id(b)]
        self._retired += [a, b]
        self.became |= {id(a): merged, id(b): merged}
        before.merge(id(a), id(b), id(merged))
        self._add(merged)
        self._drop_private(merged)

    def _drop_private_roots(self) -> None:
        for group in self.groups.values():
            self._drop_private(group)

    def _drop_private(self, group: Group) -> None:
        """Values that only their own kernel needs get no buffer."""
        if len(group.roots) < 2:
            return
        for root in list(group.roots):
            if (
                id(root) in self.output_ids
                or (root in (group.dot, group.call) and id(root) in self.kept)
                or self._read_elsewhere(root, group)
            ):
                continue
            if len(group.roots) == 1:
                break
            group.roots.remove(root)
            self._reads.pop(id(group), None)
            for key in [k for k in self._places if k[0] == id(group)]:
                del self._places[key]
            self.stored.pop(id(root), None)
            del self.producer[id(root)]

    def _read_elsewhere(self, node: Node, group: Group) -> bool:
        """Whether another group reads a stored node, searched from the node up to the next stored nodes."""
        seen: set[int] = set()
        stack = [*self.consumers[id(node)]]
        while stack:
            reader = stack.pop()
            key = id(reader)
            if key in seen:
                continue
            seen.add(key)
            if key not in self.stored:
                stack.extend(self.consumers[key])
            elif self.producer[key] is not group:
                return True
        return False

    # -- device limits

    def _narrow_wide_groups(self) -> None:
        """Give parts of an expression their own buffers until every kernel is within the binding limit."""
        work = list(self.groups.values())
        while work:
            group = work.pop()
            if self._fits(group):
                continue
            node = self._widest_part(group)
            if node is None:
                continue
            self.stored[id(node)] = node
            self.narrowed.add(id(node))
            self._reads.clear()
            self._places.clear()
            part = Group("map", [node], size=node.size)
            self._add(part)
            work += [part, group]

    def _widest_part(self, group: Group) -> Node | None:
        """An inner node of the group that reads as many buffers as one kernel may."""
        best: tuple[int, Node | None] = (1, None)
        most = self.limit - self.reports(group)
        for node in self._inner_nodes(group):
            width = len({id(n) for n in self.buffers.recorded(node).reads.values()})
            if best[0] < width < most:
                best = (width, node)
        return best[1]

    def _inner_nodes(self, group: Group) -> Iterator[Node]:
        """The nodes that the kernel of a group computes on the way to its roots, without views."""
        own = {id(n) for n in group.nodes}
        stack = [s for n in group.nodes for s in n.inputs]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen or id(node) in self.stored or is_source(node) or is_anchor(node):
                continue
            seen.add(id(node))
            stack.extend(node.inputs)
            if id(node) not in own and not isinstance(node.primitive, View):
                yield node
