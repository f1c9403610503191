"""Programs that wait for other processes: a graph with exchanges is cut into stages, each with its own plan.

In: a graph with Exchange nodes. Out: one Program. Stage k computes the value that exchange k sends, with all nodes that it needs and no earlier stage
computes. The other nodes that depend on no exchange form a stage, and those that depend on exchanges form the last ones. A value is exchanged in
parts: the host reads a part after its stage, sends it while the next stages run, and writes the received parts to the device. Or the devices add
values in memory that all processes share. A stage that reads an exchange waits for the whole value. All processes exchange values in the order
of their numbers, and the parts of a value in order.

Each stage computes views and constants again. Only the last stage overwrites inputs, because no other stage reads them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..graph.capture import Capture, Graph
from ..graph.leaves import Placeholder
from ..graph.node import Node
from ..plan import Plan
from ..runtime import timing
from ..runtime.device import Device, Program, Storage, get_device
from .exchange_times import NOT_MEASURED, Times
from .sums import Sums
from .travelling import Travelling

Load = Callable[[Graph], Program]


def has_exchanges(nodes: Sequence[Node]) -> bool:
    """Whether nodes depend on other processes."""
    return any(node.primitive.kind == "exchange" for node in nodes)


def waits(capture: Capture) -> bool:
    """Whether a captured graph depends on other processes."""
    return has_exchanges(capture.order)


@dataclass
class Stage:
    """reads, gives: its inputs and outputs, as ids of nodes of the whole graph. sends: the exchange whose input is the last output."""

    program: Program | None
    reads: list[int]
    gives: list[int]
    sends: int | None


class Staged(Program):
    """See the module."""

    def __init__(self, graph: Graph, load: Load) -> None:
        self._device = graph.device
        self._inputs = [id(n) for n in graph.inputs]
        self._outputs = [id(n) for n in graph.outputs]
        self._nodes = {id(n): n for n in graph.nodes}
        self._stages = _cut(graph, load)
        self._sums = Sums(load)
        self._places = {s.sends: k for k, s in enumerate(self._stages) if s.sends is not None}
        last: dict[int, int] = {}
        for k, stage in enumerate(self._stages):
            for key in (*stage.reads, *stage.gives):
                last[key] = k
        kept = {*self._outputs, *self._inputs}
        self._gone = [
            [key for key, k in last.items() if k == at and key not in kept] for at in range(len(self._stages))
        ]
        self.plan = _joined(graph, self._stages)

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        device = get_device(self._device)
        values: dict[int, Storage] = dict(zip(self._inputs, inputs, strict=True))
        targets = {key: target for key, target in zip(self._outputs, into or (), strict=False) if target is not None}
        times = Times(self._device) if timing.span_listeners else NOT_MEASURED
        travelling = Travelling(device, values, times, self._sums)
        sent = 0
        try:
            with device.awaited():
                for number, (stage, gone) in enumerate(zip(self._stages, self._gone, strict=True)):
                    travelling.advance()
                    missing = [self._nodes[key] for key in stage.reads if key not in values]
                    if stage.program is None:
                        travelling.wait_for(missing)
                    else:
                        own = [targets.get(key) for key in stage.gives]
                        run = (device, stage, values, own if any(own) else None)
                        if missing and times is NOT_MEASURED and not timing.listeners:
                            made = _run_after(travelling, missing, *run)
                        else:
                            travelling.wait_for(missing)
                            with times.span("compute", f"stage {number}"):
                                made = _run(*run)
                        values.update(zip(stage.gives, made, strict=True))
                    if stage.sends is not None:
                        node = self._nodes[stage.sends]
                        travelling.read(node, values[id(node.inputs[0])], f"exchange {self._places[stage.sends]}")
                        sent += 1
                    for key in gone:
                        values.pop(key, None)
        except BaseException:
            if 0 < sent < len(self._places) or travelling.is_waiting:
                travelling.drop()
            raise
        return [values[key] for key in self._outputs]


def _run(
    device: Device, stage: Stage, values: dict[int, Storage], into: Sequence[Storage | None] | None
) -> list[Storage]:
    assert stage.program is not None
    return stage.program.run([values[key] for key in stage.reads], into)


def _run_after(
    travelling: Travelling,
    missing: list[Node],
    device: Device,
    stage: Stage,
    values: dict[int, Storage],
    into: Sequence[Storage | None] | None,
) -> list[Storage]:
    """As _run, for a stage that reads pending exchanges: it is prepared while they are pending, if possible."""
    places = travelling.places(missing)
    if places is None:
        travelling.wait_for(missing)
        return _run(device, stage, values, into)
    assert stage.program is not None
    prepared = device.prepare(stage.program, [places.get(key) or values[key] for key in stage.reads], into)
    try:
        travelling.wait_for(missing)
    except BaseException:
        prepared.drop()
        raise
    return prepared.begin()


def _cut(graph: Graph, load: Load) -> list[Stage]:
    exchanges, waiting = _ordered(graph)
    known = {id(n) for n in (*graph.inputs, *exchanges)}
    roots = [[e.inputs[0]] for e in exchanges]
    free = [o for o in graph.outputs if id(o) not in waiting and id(o) not in known]
    parts = [_needed(r, known) for r in (*roots, free, graph.outputs)]
    read_later: list[set[int]] = [set()]
    for part in reversed(parts):
        mine = {id(n) for n in part}
        read_later.insert(0, read_later[0] | {id(i) for n in part for i in n.inputs if id(i) not in mine})
    outputs = {id(o) for o in graph.outputs}
    stages = []
    for k, part in enumerate(parts):
        sends = exchanges[k] if k < len(exchanges) else None
        is_last = k == len(parts) - 1
        own = {id(n): n for n in part}
        wanted = [n for n in part if not _is_free(n) and (id(n) in read_later[k + 1] or id(n) in outputs)]
        if sends is not None:
            wanted = [n for n in wanted if n is not sends.inputs[0]]
            if id(sends.inputs[0]) in own:
                wanted.append(sends.inputs[0])
        if is_last:
            wanted = list({id(o): o for o in graph.outputs if id(o) in own}.values())
        stages.append(_stage(graph, part, wanted, sends, is_last, load))
    return stages


def _ordered(graph: Graph) -> tuple[list[Node], set[int]]:
    """The exchanges by number, but each after those on which it depends; and the ids of the nodes that depend on an exchange."""
    before: dict[int, set[int]] = {}  # for each node, the exchanges on which it depends
    exchanges: list[Node] = []
    for node in graph.nodes:
        above = set().union(*(before.get(id(i), ()) for i in node.inputs))
        if node.primitive.kind == "exchange":
            exchanges.append(node)
            before[id(node)] = above | {id(node)}
        elif above:
            before[id(node)] = above
    place = {id(e): k for k, e in enumerate(exchanges)}
    left = sorted(exchanges, key=lambda e: (e.primitive.number, place[id(e)]))  # type: ignore[attr-defined]
    ordered: list[Node] = []
    done: set[int] = set()
    while left:
        found = next(e for e in left if before[id(e)] <= done | {id(e)})
        left.remove(found)
        ordered.append(found)
        done.add(id(found))
    return ordered, set(before)


def _is_free(node: Node) -> bool:
    """Whether each stage computes the node again, because that costs nothing."""
    return node.primitive.kind == "view" or (not node.inputs and not isinstance(node.primitive, Placeholder))


def _needed(roots: Sequence[Node], known: set[int]) -> list[Node]:
    """The uncomputed nodes that roots depend on, inputs first. They count as computed afterwards, except those that cost nothing."""
    found: dict[int, Node] = {}
    stack = [(node, False) for node in reversed(roots)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            found.setdefault(id(node), node)
        elif id(node) not in known and id(node) not in found:
            stack.append((node, True))
            stack += [(i, False) for i in reversed(node.inputs)]
    known.update(key for key, node in found.items() if not _is_free(node))
    return list(found.values())


def _stage(graph: Graph, part: list[Node], wanted: list[Node], sends: Node | None, is_last: bool, load: Load) -> Stage:
    """A stage of the nodes `part` with the outputs `wanted`."""
    reads: list[Node] = []
    built: dict[int, Node] = {}
    placeholders: list[Node] = []

    def source(node: Node) -> Node:
        if id(node) not in built:
            made = Node(Placeholder(len(reads), node.shape, node.dtype), (), node.shape, node.dtype, node.device)
            reads.append(node)
            placeholders.append(made)
            built[id(node)] = made
        return built[id(node)]

    own = {id(n) for n in part}
    for node in part:
        inputs = tuple(built[id(i)] if id(i) in own else source(i) for i in node.inputs)
        built[id(node)] = Node(node.primitive, inputs, node.shape, node.dtype, node.device)
    key = None if sends is None else id(sends)
    if not wanted:
        return Stage(None, [], [], key) if not is_last else Stage(None, _exchanged(graph), [], key)
    in_place: dict[int, int] = {}
    if is_last:
        place = {id(n): k for k, n in enumerate(wanted)}
        for output, position in graph.in_place.items():
            if id(graph.outputs[output]) in place:
                source(graph.inputs[position])
        where = {id(n): k for k, n in enumerate(reads)}
        for output, position in graph.in_place.items():
            if id(graph.outputs[output]) in place:
                in_place[place[id(graph.outputs[output])]] = where[id(graph.inputs[position])]
    order = [*placeholders, *(built[id(n)] for n in part)]
    program = load(Graph(placeholders, [built[id(n)] for n in wanted], [], in_place, graph.device, order))
    given = [id(n) for n in reads]
    if is_last:
        given_back = [key for key in _exchanged(graph) if key not in given]
        if given_back:
            return Stage(_Reading(program, len(given)), given + given_back, [id(n) for n in wanted], key)
    return Stage(program, given, [id(n) for n in wanted], key)


def _exchanged(graph: Graph) -> list[int]:
    """The exchanges that are outputs of the graph."""
    return list(dict.fromkeys(id(o) for o in graph.outputs if o.primitive.kind == "exchange"))


class _Reading(Program):
    """A program with additional inputs, which it ignores."""

    def __init__(self, program: Program, count: int) -> None:
        self.plan, self._program, self._count = program.plan, program, count

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        return self._program.run(inputs[: self._count], into)


def _joined(graph: Graph, stages: list[Stage]) -> Plan:
    """The plans of all stages as one plan, for display only."""
    plans = [(s, s.program.plan) for s in stages if s.program is not None]
    first = plans[0][1]
    buffers: list[Any] = []
    kernels: list[Any] = []
    dispatches: list[Any] = []
    notes: list[Any] = []
    rows: dict[int, int] = {}  # by nodes
    for stage, plan in plans:
        place: dict[int, int] = {}
        for row, key in zip(plan.inputs, stage.reads, strict=False):
            if key in rows:
                place[row] = rows[key]
        for row, spec in enumerate(plan.buffers):
            if row not in place:
                place[row] = len(buffers)
                aliases = None if spec.aliases is None else place.get(spec.aliases)
                role = spec.role if row not in plan.outputs or row in plan.inputs else "temporary"
                buffers.append(replace(spec, aliases=aliases, role=role, slot=None))
        for row, spec in enumerate(plan.buffers):
            if spec.aliases is not None and buffers[place[row]].aliases is None:
                buffers[place[row]] = replace(buffers[place[row]], aliases=place[spec.aliases])
        rows.update((key, place[row]) for row, key in zip(plan.inputs, stage.reads, strict=False))
        rows.update((key, place[row]) for row, key in zip(plan.outputs, stage.gives, strict=False))
        dispatches += [
            replace(d, kernel=d.kernel + len(kernels), buffers=tuple(place[b] for b in d.buffers))
            for d in plan.dispatches
        ]
        kernels += plan.kernels
        notes += plan.notes
    template = buffers[0]
    for node in (*graph.inputs, *graph.outputs):
        if id(node) not in rows:  # an input that no stage reads, or that is an output unchanged
            rows[id(node)] = len(buffers)
            buffers.append(
                replace(
                    template,
                    role="argument",
                    shape=node.shape,
                    dtype=node.dtype,
                    aliases=None,
                    slot=None,
                    name="",
                    bound=0,
                )
            )
    inputs, outputs = tuple(rows[id(n)] for n in graph.inputs), tuple(rows[id(n)] for n in graph.outputs)
    return Plan(first.target, tuple(buffers), tuple(kernels), tuple(dispatches), inputs, outputs, (), 0, ())
