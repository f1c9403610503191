"""Orders the kernels, and decides which outputs overwrite inputs and which maps share a dispatch.

In: a fuser that has grouped a graph, and the outputs: computed nodes, not inputs. Out: groups in order (`assemble.py` makes a plan of them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from ..dtypes import DType
from ..errors import CompileError
from ..graph.capture import Graph
from ..graph.index import Index
from ..graph.leaves import Placeholder
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.call import Call
from ..primitives.elementwise import Cast
from ..symbolic_sizes import hint, varies
from . import horizontal, matrix_units
from .choose import threads_of_rows
from .fuse import Fuser
from .groups import Group, behind_reshapes, has_epilogue
from .horizontal import Chosen, may_share
from .kernel import name_of
from .precedence import Precedence
from .products import Product
from .tiles import tile_of

LITTLE = 1 << 20  # the most elements to keep alive for a delayed kernel
LARGE = 1 << 20  # the least elements of maps that share a dispatch because they have the same operands
MOST_BESIDE = 64 << 20  # bytes up to which the results of two calls of a level may exist at once
FEW = 256  # elements up to which a map of inputs runs first, in a shared dispatch
PATIENCE = 4  # levels by which a kernel may be delayed to share a dispatch


@dataclass
class Schedule:
    """The order of kernels; see the module.

    in_place: id of a root -> the input or the temporary that it overwrites. after: id of a group -> ids of groups that must
    run before it.
    """

    graph: Graph
    fuser: Fuser
    outputs: list[Node]
    in_place: dict[int, Node] = field(default_factory=dict)
    after: dict[int, set[int]] = field(default_factory=dict)
    ordered: list[Group] = field(default_factory=list)
    _reads: dict[int, list[tuple[int, Index]]] = field(default_factory=dict)  # valid until groups change

    def run(self) -> None:
        self._link()
        self._choose_in_place()
        self._share_dispatches()
        self.ordered = self._order()
        self._overwrite_temporaries()

    def _link(self) -> None:
        """A group runs after those that write its operands."""
        producer = self.fuser.producer
        for group in self.fuser.groups.values():
            self.after[id(group)] = {id(producer[k]) for k in self.fuser.buffers_read(group) if k in producer}

    # -- donation

    def _choose_in_place(self) -> None:
        """Donation: an output reuses an input's memory if its kernel may write there, and all other readers of the input can
        run before it.
        """
        taken: set[int] = set()
        before = None if circle(self.after) else Precedence(self.after)
        readers: dict[int, list[Group]] = {}
        for group in self.fuser.groups.values():
            for key in self.fuser.buffers_read(group):
                readers.setdefault(key, []).append(group)
        for position, source in self.graph.in_place.items():
            root, old = self.outputs[position], self.graph.inputs[source]
            group = self.fuser.producer.get(id(root))
            if group is None or id(old) in taken or not self._may_overwrite(group, root, old):
                continue
            others = [g for g in readers.get(id(old), ()) if g is not group]
            if before is None or any(before.runs_after(id(other), id(group)) for other in others):
                continue
            self.after[id(group)] |= {id(g) for g in others}
            before.wait(id(group), [id(g) for g in others])
            self.in_place[id(root)] = old
            taken.add(id(old))

    def _may_overwrite(self, group: Group, root: Node, old: Node) -> bool:
        """Whether a kernel may write `root` over `old`: they have the same number of elements, and the kernel reads each element of `old` only
        where it writes it. In a row kernel, one thread writes a row's scalar after reading the row. Only one vector may be written in place;
        it is written last, each element by the thread that has read it.
        """
        if root.size != old.size or root.dtype is not old.dtype:
            return False
        if group.call is not None and (not has_epilogue(group.call) or id(old) in self._given(group.call)):
            return False
        if group.archetype == "row":
            vectors = [r for r in group.roots if r.size != group.outer]
            if vectors and not (vectors == [root] and group.trailing):
                return False
        here = group.position(root)
        if id(group) not in self._reads:
            self._reads[id(group)] = list(self.fuser.reads(group))
        return all(flat == here for key, flat in self._reads[id(group)] if key == id(old))

    def _given(self, call: Node) -> set[int]:
        """The operands that a call may read at any position."""
        return {id(behind_reshapes(x)) for x in call.inputs}

    def _overwrite_temporaries(self) -> None:
        """A temporary reuses the memory of another one if its kernel is that one's last reader. Not in an epilogue: there the compiler must not
        reorder loads and stores, so loads would wait for stores.
        """
        outputs = {id(o) for o in self.outputs}
        last = {key: group for group in self.ordered for key in self.fuser.buffers_read(group)}
        for group in self.ordered:
            if group.parts or group.archetype in ("dot", "call"):
                continue
            read = self.fuser.buffers_read(group)
            ends = [n for k, n in read.items() if k in self.fuser.producer and k not in outputs and last[k] is group]
            for root in group.roots:
                old = next((n for n in ends if id(root) not in outputs and self._may_overwrite(group, root, n)), None)
                if old is not None:
                    self.in_place[id(root)] = old
                    ends.remove(old)

    # -- horizontal fusion

    def _share_dispatches(self) -> None:
        """Maps whose results no kernel reads (optimizer updates) share as few dispatches as the binding limit allows. So do row kernels
        whose results no kernel reads and that read little memory, and independent row kernels of the same level.
        """
        self._share(self._buckets(self._sinks("map")))
        self._share(self._buckets_alike([g for g in self._sinks("row") if self._reads_little(g)]))
        self._share(self._buckets(self._maps_of_inputs()))
        if not circle(self.after):
            self._share(self._buckets_alike([g for g in self._shareable() if g.archetype == "row"], by_level=True))
            self._take_turns()
            self._share(self._products_together())
            self._share(self._calls_together())
            self._share(self._maps_together())

    def _shareable(self) -> list[Group]:
        """Groups that may be part of a kernel in which workgroups take different branches."""
        target = self.fuser.target
        return [g for g in self.fuser.groups.values() if target.takes_branches(hint(max(g.size, g.outer * g.inner)))]

    def _maps_of_inputs(self) -> list[Group]:
        """Small maps, such as steps that are counted and bias corrections, and casts of weights to halves, for matrix units. They depend on inputs
        only, so all of them can run first.
        """
        casts = matrix_units.takes_halves(self.fuser.target)
        maps = [g for g in self._shareable() if g.archetype == "map" and not g.parts and len(g.roots) == 1]
        wanted = [g for g in maps if g.size <= FEW or (casts and isinstance(g.roots[0].primitive, Cast))]
        return [g for g in wanted if self._is_of_inputs(g)]

    def _is_of_inputs(self, group: Group) -> bool:
        return all(isinstance(n.primitive, Placeholder) for n in self.fuser.buffers_read(group).values())

    def _products_together(self) -> list[list[Group]]:
        """Sets of matrix multiplications of the same level that take less time in one dispatch than in several."""
        level, target = self._levels(), self.fuser.target
        beside: dict[tuple[int, DType], list[tuple[Product, Group]]] = {}
        for group in self.fuser.groups.values():
            if group.dot is not None and may_share(product := Product.of(group.dot), target):
                beside.setdefault((level[id(group)], group.dot.dtype), []).append((product, group))
        found: list[list[Group]] = []
        for products in beside.values():
            buckets: list[_Products] = []
            for product, group in products:
                use = self._bucket_of(group)
                for bucket in buckets:
                    chosen = bucket.uses.takes(use, self.fuser.limit) and horizontal.beside(
                        bucket.chosen, product, target
                    )
                    if chosen:
                        bucket.add(use, product, chosen)
                        break
                else:
                    buckets.append(_Products(use, [product], ((product, tile_of(product, target)),)))
            found += [bucket.groups() for bucket in buckets if len(bucket.products) > 1]
        return found

    def _take_turns(self) -> None:
        """If two calls could share a dispatch, but their results are at least a third of all temporaries, the smaller one runs after
        all readers of the other's result. Then the Winograd points of both gradients of a convolution can use the same memory.
        """
        groups = self.fuser.groups.values()
        total = sum(map(_nbytes, groups))
        for pair in self._calls_alike(groups):
            first, second = sorted(pair, key=_nbytes, reverse=True)
            beside = _nbytes(first) + _nbytes(second)
            if beside < MOST_BESIDE or 3 * beside < total:
                continue
            roots, before = {id(root) for root in first.roots}, self.after[id(second)]
            self.after[id(second)] = before | {
                id(g) for g in groups if not roots.isdisjoint(self.fuser.buffers_read(g))
            }
            if circle(self.after):
                self.after[id(second)] = before

    def _calls_together(self) -> list[list[Group]]:
        """Pairs of calls of the same primitive and level that may share a dispatch, in which each binds its own operands."""
        limit = self.fuser.limit
        return [
            [a, b]
            for a, b in self._calls_alike(self._shareable())
            if self._bound(a) + self._bound(b) <= limit and self._bucket_of(a).takes(self._bucket_of(b), limit)
        ]

    def _calls_alike(self, groups: Iterable[Group]) -> list[list[Group]]:
        """Pairs of calls of the same primitive and level that may be one kernel."""
        level = self._levels()
        alike: dict[tuple[int, type[Primitive]], list[Group]] = {}
        for group in groups:
            if group.call is not None:
                primitive = group.call.primitive
                if isinstance(primitive, Call) and primitive.may_share:
                    alike.setdefault((level[id(group)], type(primitive)), []).append(group)
        return [calls[k : k + 2] for calls in alike.values() for k in range(0, len(calls) - 1, 2)]

    def _maps_together(self) -> list[list[Group]]:
        """Pairs of large maps of the same level and size with a common operand, such as the gradients of two norms whose sum was used. Only
        on large GPUs, where a gain was measured.
        """
        if not self.fuser.target.traits.winograd:
            return []
        level = self._levels()
        alike: dict[tuple[int, int], list[Group]] = {}
        for group in self._shareable():
            if group.archetype == "map" and not group.parts and not varies(group.size) and group.size >= LARGE:
                alike.setdefault((level[id(group)], group.size), []).append(group)
        pairs = [groups[k : k + 2] for groups in alike.values() for k in range(0, len(groups) - 1, 2)]
        return [
            [a, b]
            for a, b in pairs
            if any(n.size == a.size for n in self._read_by_both(a, b))
            and self._bucket_of(a).takes(self._bucket_of(b), self.fuser.limit)
        ]

    def _read_by_both(self, a: Group, b: Group) -> list[Node]:
        other = self.fuser.buffers_read(b)
        return [n for key, n in self.fuser.buffers_read(a).items() if key in other]

    def _bound(self, group: Group) -> int:
        """The number of bindings of a call: one for each argument."""
        assert group.call is not None
        others = self.fuser.buffers_read(group).keys() - self._given(group.call)
        return len(group.call.inputs) + len(others) + len(group.roots)

    def _share(self, buckets: list[list[Group]]) -> None:
        shared = {id(part): bucket for bucket in map(_together, buckets) for part in bucket.parts}
        if not shared:
            return
        by_id = {id(g): shared.get(id(g), g) for g in self.fuser.groups.values()}
        waits: dict[int, set[int]] = {}
        for key, before in self.after.items():
            waits.setdefault(id(by_id[key]), set()).update(id(by_id[k]) for k in before)
        if circle(waits):  # the shared dispatches would wait for each other
            return
        self.after = waits
        self.fuser.groups = {id(g): g for g in by_id.values()}
        self.fuser.producer |= {id(root): bucket for bucket in shared.values() for root in bucket.roots}

    def _reads_little(self, group: Group) -> bool:
        """Whether delaying a group keeps little memory alive."""
        read = self.fuser.buffers_read(group).values()
        return hint(sum(n.size for n in read if not isinstance(n.primitive, Placeholder))) <= LITTLE

    def _buckets_alike(self, groups: list[Group], by_level: bool = False) -> list[list[Group]]:
        """Sets of row groups with the same number of threads, which may share workgroup memory. by_level: only groups that may run
        at the same time.
        """
        at = self._meeting_levels(groups) if by_level else {}
        alike: dict[tuple[int, int], list[Group]] = {}
        for group in groups:
            if not group.parts:
                alike.setdefault((at.get(id(group), 0), threads_of_rows(group, self.fuser.target)), []).append(group)
        return [bucket for groups in alike.values() for bucket in self._buckets(groups)]

    def _meeting_levels(self, groups: list[Group]) -> dict[int, int]:
        """The level at which each group runs. A group whose readers run later may be delayed to the level of a group with the same number
        of threads that cannot be delayed.
        """
        level = self._levels()
        latest: dict[int, int] = {}
        for key, before in self.after.items():
            for k in before:
                latest[k] = min(latest.get(k, level[key] - 1), level[key] - 1)
        ends = {id(g): latest.get(id(g), level[id(g)]) for g in groups}
        fixed = {
            (level[id(g)], threads_of_rows(g, self.fuser.target))
            for g in groups
            if not g.parts and ends[id(g)] == level[id(g)]
        }
        found = dict(level)
        for group in groups:
            key = id(group)
            for later in range(level[key], min(ends[key], level[key] + PATIENCE) + 1):
                if (later, threads_of_rows(group.parts[0] if group.parts else group, self.fuser.target)) in fixed:
                    found[key] = later
                    break
        return found

    def _sinks(self, archetype: str) -> list[Group]:
        outputs = {id(o) for o in self.outputs}
        read = {key for g in self.fuser.groups.values() for key in self.fuser.buffers_read(g)}
        unread = outputs - read
        return [g for g in self._shareable() if g.archetype == archetype and all(id(r) in unread for r in g.roots)]

    def _buckets(self, sinks: list[Group]) -> list[list[Group]]:
        """Sets of groups that fit into one kernel each, by first fit, the largest group first."""
        buckets: list[_Bucket] = []
        for group in sorted(sinks, key=lambda g: -hint(g.size)):
            use = self._bucket_of(group)
            for bucket in buckets:
                if bucket.takes(use, self.fuser.limit):
                    bucket.add(use)
                    break
            else:
                buckets.append(use)
        return [bucket.groups for bucket in buckets if len(bucket.groups) > 1]

    def _bucket_of(self, group: Group) -> _Bucket:
        """A set of this group only."""
        writes = {id(self.in_place.get(id(r), r)) for r in group.roots}
        parts = group.parts or [group]
        return _Bucket([group], set(self.fuser.buffers_read(group)), writes, any(map(self.fuser.reports, parts)))

    # -- the order

    def _order(self) -> list[Group]:
        """By level: independent kernels are adjacent, so that they may overlap on the device."""
        by_id = {id(g): g for g in self.fuser.groups.values()}
        if found := circle(self.after):
            names = " → ".join(name_of(by_id[key]) for key in found)
            raise CompileError(
                f"kernels of this plan wait for each other in a circle: {names}. This is a fault of the compiler, not of your "
                "program. Hint: call sg.sync() between the operations, outside of sg.compile, and report it."
            )
        level, rank = self._levels(), self.fuser.rank
        return sorted(by_id.values(), key=lambda g: (level[id(g)], min(rank[id(r)] for r in g.roots)))

    def _levels(self) -> dict[int, int]:
        """The length of the longest chain of kernels before each group, by its id."""
        level: dict[int, int] = {}
        for key in TopologicalSorter(self.after).static_order():
            level[key] = 1 + max((level[before] for before in self.after[key]), default=0)
        return level


@dataclass
class _Bucket:
    """Groups for one kernel, the buffers that they read, and those that they write, by ids of nodes. reports: whether it binds the fault buffer."""

    groups: list[Group]
    reads: set[int]
    writes: set[int]
    reports: bool

    def takes(self, other: _Bucket, limit: int) -> bool:
        """Whether a group can be added: together they stay within the binding limit, and none reads a buffer that another writes."""
        bound = len(self.reads | self.writes | other.reads | other.writes)
        if bound + (self.reports or other.reports) > limit:
            return False
        return self.reads.isdisjoint(other.writes) and other.reads.isdisjoint(self.writes)

    def add(self, other: _Bucket) -> None:
        self.groups += other.groups
        self.reads |= other.reads
        self.writes |= other.writes
        self.reports |= other.reports


@dataclass
class _Products:
    """Matrix multiplications for one kernel, and their tiles, in the order of uses.groups."""

    uses: _Bucket
    products: list[Product]
    chosen: Chosen

    def add(self, use: _Bucket, product: Product, chosen: Chosen) -> None:
        self.uses.add(use)
        self.products.append(product)
        self.chosen = chosen

    def groups(self) -> list[Group]:
        """The groups in the order in which they start, each with its tile."""
        left = list(zip(self.products, self.uses.groups, strict=True))
        found: list[Group] = []
        for product, tile in self.chosen:
            k = next(k for k, (known, _) in enumerate(left) if known == product)
            _, group = left.pop(k)
            group.tile = tile
            found.append(group)
        return found


def _nbytes(group: Group) -> int:
    """The size of a group's results."""
    return 4 * hint(sum(root.size for root in group.roots))


def _together(bucket: list[Group]) -> Group:
    """The group of several independent maps or rows."""
    roots, reduces = [n for g in bucket for n in g.roots], [n for g in bucket for n in g.reduces]
    return Group(bucket[0].archetype, roots, reduces, size=sum(g.size for g in bucket), parts=bucket)


def circle(after: Mapping[int, set[int]]) -> list[int]:
    """A cycle of keys that wait for each other, the first again at the end; empty if there is none."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []
