"""From a closed graph to a plan, pass by pass, in the order written here.

In: a Graph (placeholders, outputs) and a Target. Out: a Plan. Nothing here knows a device.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from ..config import config
from ..dtypes import int32
from ..graph.capture import Graph
from ..graph.index import variable
from ..graph.leaves import Placeholder
from ..graph.node import Node, topological
from ..graph.printer import print_graph
from ..plan import BufferSpec, Dispatch, Kernel, Plan, Target
from ..primitives.elementwise import Cast
from . import lower, simplify
from .fuse import Fuser, Group
from .kernel import Rendered, grid
from .memory import plan_slots
from .render import Renderer
from .rewrite import Rewriter
from .wgsl.call import render_call
from .wgsl.dot import render_dot
from .wgsl.map import render_map
from .wgsl.row import render_row

RENDER = {"map": render_map, "row": render_row, "dot": render_dot, "call": render_call}


def compile_graph(graph: Graph, target: Target) -> tuple[Plan, list[int]]:
    """The plan, and which of graph.keep it gives as further outputs after graph.outputs."""
    if target.language == "numpy":
        return _numpy_plan(graph, target)
    if "graph" in config.debug:
        print(print_graph(graph.outputs), file=sys.stderr)
    new = Rewriter(simplify.RULES + lower.RULES, graph.device).rewrite([*graph.outputs, *graph.keep])
    outputs = _separate([new[id(o)] for o in graph.outputs])
    fuser = Fuser(outputs, target, [new[id(n)] for n in graph.keep])
    fuser.run()
    kept = [k for k, n in enumerate(graph.keep) if id(new[id(n)]) in fuser.stored and id(new[id(n)]) in fuser.producer]
    outputs += [new[id(graph.keep[k])] for k in kept]
    schedule = Schedule(graph, fuser, outputs)
    schedule.run()
    plan = schedule.plan(target)
    if "plan" in config.debug:
        print(explain(plan), file=sys.stderr)
    if "kernels" in config.debug:
        for kernel in plan.kernels:
            print(kernel.source, file=sys.stderr)
    return plan, kept


def _separate(outputs: list[Node]) -> list[Node]:
    """Every output gets memory of its own: an input, or a value wanted twice, is copied, for either may be overwritten."""
    seen: set[int] = set()
    result = []
    for node in outputs:
        if id(node) in seen or isinstance(node.primitive, Placeholder):
            node = Node(Cast(node.dtype), (node,), node.shape, node.dtype, node.device)
        seen.add(id(node))
        result.append(node)
    return result


def _numpy_plan(graph: Graph, target: Target) -> tuple[Plan, list[int]]:
    """Node by node: the reference that every kernel is checked against, so nothing is simplified or fused."""
    outputs = [*graph.outputs, *graph.keep]
    rows: dict[int, int] = {}
    buffers: list[BufferSpec] = []
    kernels: dict[tuple[object, int], int] = {}
    listed: list[Kernel] = []
    steps: list[Dispatch] = []
    position = {id(o): k for k, o in reversed(list(enumerate(graph.outputs)))}
    kept = {id(o) for o in graph.keep}
    for node in [*graph.inputs, *topological(outputs, lambda n: n.inputs)]:
        if id(node) in rows:
            continue
        rows[id(node)] = len(buffers)
        if isinstance(node.primitive, Placeholder):
            buffers.append(BufferSpec("input", node.shape, node.dtype))
            continue
        source = graph.in_place.get(position.get(id(node), -1))
        aliases = None if source is None else rows[id(graph.inputs[source])]
        role = "output" if id(node) in position or id(node) in kept else "temporary"
        buffers.append(BufferSpec(role, node.shape, node.dtype, aliases=aliases))
        number = kernels.setdefault((node.primitive, len(node.inputs)), len(listed))
        if number == len(listed):
            access = ("read",) * len(node.inputs) + ("read_write",)
            listed.append(Kernel(node.primitive.name, "numpy", access, primitive=node.primitive))
        steps.append(Dispatch(number, (*(rows[id(i)] for i in node.inputs), rows[id(node)])))
    plan = Plan(
        target,
        tuple(buffers),
        tuple(listed),
        tuple(steps),
        tuple(rows[id(i)] for i in graph.inputs),
        tuple(rows[id(o)] for o in outputs),
    )
    return plan, list(range(len(graph.keep)))


@dataclass
class Schedule:
    """Decides which outputs overwrite inputs, which maps share a dispatch, and the order of kernels."""

    graph: Graph
    fuser: Fuser
    outputs: list[Node]
    in_place: dict[int, Node] = field(default_factory=dict)  # id of root -> the input that it overwrites
    after: dict[int, set[int]] = field(default_factory=dict)  # id of group -> ids of groups that must run before
    ordered: list[Group] = field(default_factory=list)

    def run(self) -> None:
        self._link(self.fuser.groups)
        self._choose_in_place()
        groups = self._share_dispatches()
        if groups is not None:
            self.fuser.groups = groups
        self.ordered = self._order(self.fuser.groups)

    def _link(self, groups: list[Group]) -> None:
        self.after = {
            id(g): {id(self.fuser.producer[k]) for k in self.fuser.buffers_read(g) if k in self.fuser.producer}
            for g in groups
        }

    def _readers(self, node: Node) -> list[Group]:
        return [g for g in self.fuser.groups if id(node) in self.fuser.buffers_read(g)]

    def _choose_in_place(self) -> None:
        """An output takes over an input's memory where its kernel reads that input only at the element it writes,
        and all other readers can run before it. In a row kernel one thread writes a row's scalar, after it has read."""
        taken: set[int] = set()
        for position, source in self.graph.in_place.items():
            root, old = self.outputs[position], self.graph.inputs[source]
            group = self.fuser.producer.get(id(root))
            if (
                group is None
                or group.archetype == "call"
                or any(r.size != group.outer for r in group.roots if group.archetype == "row")
                or id(old) in taken
                or id(root) in self.in_place
                or root.size != old.size
                or root.dtype is not old.dtype
                or sum(o is root for o in self.outputs) > 1
                or any(o is old for o in self.outputs)
            ):
                continue
            here = variable("o", group.outer) if group.archetype == "row" else variable("i", group.size)
            if any(key == id(old) and flat != here for key, flat in self.fuser.reads(group)):
                continue
            others = [g for g in self._readers(old) if g is not group]
            if any(self._runs_after(other, group) for other in others):
                continue
            self.after[id(group)] |= {id(g) for g in others}
            self.in_place[id(root)] = old
            taken.add(id(old))

    def _runs_after(self, group: Group, other: Group) -> bool:
        """Whether `group` must wait for `other`."""
        stack, seen = [id(group)], set()
        while stack:
            for before in self.after[stack.pop()]:
                if before == id(other):
                    return True
                if before not in seen:
                    seen.add(before)
                    stack.append(before)
        return False

    # -- horizontal fusion

    def _share_dispatches(self) -> list[Group] | None:
        """Maps that nothing else reads (optimizer updates) in as few dispatches as the binding limit allows."""
        outputs = {id(o) for o in self.outputs}
        read = {key for g in self.fuser.groups for key in self.fuser.buffers_read(g)}
        sinks = [
            g
            for g in self.fuser.groups
            if g.archetype == "map" and all(id(r) in outputs and id(r) not in read for r in g.roots)
        ]
        if len(sinks) < 2:
            return None
        buckets: list[list[Group]] = []
        for group in sorted(sinks, key=lambda g: -g.size):
            for bucket in buckets:
                if self._fit_together([*bucket, group]):
                    bucket.append(group)
                    break
            else:
                buckets.append([group])
        before = dict(self.after)
        merged = [g for g in self.fuser.groups if g not in sinks]
        renamed: dict[int, int] = {}
        for bucket in buckets:
            group = (
                bucket[0]
                if len(bucket) == 1
                else Group("map", [n for g in bucket for n in g.roots], size=sum(g.size for g in bucket), parts=bucket)
            )
            merged.append(group)
            self.after[id(group)] = set().union(*(before[id(g)] for g in bucket))
            renamed |= {id(g): id(group) for g in bucket}
        self.after = {id(g): {renamed.get(k, k) for k in self.after[id(g)]} for g in merged}
        if any(self._runs_after(g, g) for g in merged):
            self.after = before
            return None
        for group in merged:
            for root in group.roots:
                self.fuser.producer[id(root)] = group
        return merged

    def _fit_together(self, bucket: list[Group]) -> bool:
        buffers: set[int] = set()
        for group in bucket:
            reads = self.fuser.buffers_read(group).keys()
            buffers |= reads | {id(self.in_place.get(id(r), r)) for r in group.roots}
            overwritten = {
                id(self.in_place[id(r)]) for g in bucket if g is not group for r in g.roots if id(r) in self.in_place
            }
            if overwritten & reads:
                return False
        return len(buffers) <= self.fuser.limit

    def _order(self, groups: list[Group]) -> list[Group]:
        """By level: kernels that do not depend on each other stand together and may overlap on the device."""
        by_id = {id(g): g for g in groups}
        level: dict[int, int] = {}

        def visit(key: int) -> None:
            stack = [key]
            while stack:
                waiting = [k for k in self.after[stack[-1]] if k not in level]
                if waiting:
                    stack.extend(waiting)
                else:
                    k = stack.pop()
                    level[k] = 1 + max((level[b] for b in self.after[k]), default=0)

        for group in groups:
            visit(id(group))
        rank = self.fuser.rank
        return sorted(by_id.values(), key=lambda g: (level[id(g)], min(rank[id(r)] for r in g.roots)))

    # -- the plan

    def plan(self, target: Target) -> Plan:
        rendered = [self._render(g, target) for g in self.ordered]
        rows: dict[int, int] = {}
        buffers: list[BufferSpec] = []

        def add(node: Node, spec: BufferSpec) -> None:
            rows[id(node)] = len(buffers)
            buffers.append(spec)

        for node in self.graph.inputs:
            add(node, BufferSpec("input", node.shape, node.dtype))
        output_ids = {id(o) for o in self.outputs}
        for group in self.ordered:
            for root in group.roots:
                old = self.in_place.get(id(root))
                role = "output" if id(root) in output_ids else "temporary"
                add(root, BufferSpec(role, root.shape, root.dtype, aliases=None if old is None else rows[id(old)]))
        kernels: list[Kernel] = []
        dispatches: list[Dispatch] = []
        fault: int | None = None
        known: dict[tuple[str, tuple[str, ...]], int] = {}
        for group, result in zip(self.ordered, rendered, strict=True):
            written = {id(self.in_place[id(r)]): rows[id(r)] for r in group.roots if id(r) in self.in_place}
            operands = [written.get(id(b.node), rows[id(b.node)]) for b in result.bindings]
            if len(result.kernel.access) > len(operands):
                if fault is None:
                    fault = len(buffers)
                    buffers.append(BufferSpec("fault", (4,), int32))
                operands.append(fault)
            code = result.kernel.source.split("\n", 1)[1]
            number = known.setdefault((code, result.kernel.access), len(kernels))
            if number == len(kernels):
                kernels.append(result.kernel)
            if result.workgroups:
                offsets = result.offsets and (*result.offsets, *(0 for _ in operands[len(result.offsets) :]))
                dispatches.append(Dispatch(number, tuple(operands), grid(result.workgroups, target), offsets))
        buffers, slots = plan_slots(buffers, dispatches)
        return Plan(
            target=target,
            buffers=tuple(buffers),
            kernels=tuple(kernels),
            dispatches=tuple(dispatches),
            inputs=tuple(rows[id(n)] for n in self.graph.inputs),
            outputs=tuple(rows[id(o)] for o in self.outputs),
            slots=slots,
        )

    def _render(self, group: Group, target: Target) -> Rendered:
        own = {id(n) for g in (group.parts or [group]) for n in g.nodes}
        stored = self.fuser.stored
        in_place = {id(r): self.in_place[id(r)] for r in group.roots if id(r) in self.in_place}
        renderer = Renderer(
            lambda n: id(n) not in own and (isinstance(n.primitive, Placeholder) or id(n) in stored),
            in_place=in_place,
            checked=target.checked,
        )
        return RENDER[group.archetype](group, self.fuser, renderer, target)


def explain(plan: Plan) -> str:
    """A table of the plan's dispatches: kernel, archetype, shape, bytes, flops, workgroups."""
    if plan.target.language == "numpy":
        return f"{len(plan.dispatches)} NumPy operations, node by node, over {len(plan.buffers)} arrays"
    rows = [("kernel", "archetype", "shape", "bytes", "flops", "workgroups")]
    for d in plan.dispatches:
        k = plan.kernels[d.kernel]
        x, y, z = d.grid
        rows.append((k.name, k.archetype, k.shape, f"{k.nbytes:,}", f"{k.flops:,}", f"{x * y * z:,}"))
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if c < 3 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "-" * len(lines[0]))
    total_bytes = sum(plan.kernels[d.kernel].nbytes for d in plan.dispatches)
    total_flops = sum(plan.kernels[d.kernel].flops for d in plan.dispatches)
    lines.append(
        f"{len(plan.dispatches)} dispatches, 1 submission, {total_bytes:,} bytes, {total_flops:,} flops, {plan.temporary_bytes:,} bytes of temporaries"
    )
    return "\n".join(lines)
