"""Builds the plan: emits kernels and the table of buffers. In: a finished schedule. Out: a Plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..dtypes import int32
from ..graph.leaves import Placeholder
from ..graph.node import Node
from ..plan import VECTOR, BufferSpec, Dispatch, Kernel, Plan, Role, round_up
from ..target import Target
from . import loop_iterations
from .choices import Choice
from .choose import choose
from .deduplicate import Kernels, Likeness
from .groups import Group
from .kernel import Rendered
from .memory import plan_slots
from .notes import notes_of
from .render import Renderer
from .schedule import Schedule
from .wgsl.call import render_call
from .wgsl.map import render_map
from .wgsl.matmul.kernel import render_dot
from .wgsl.row import render_row

EMIT: dict[str, Callable[[Group, Choice, Renderer], Rendered]] = {
    "map": render_map,
    "row": render_row,
    "dot": render_dot,
    "call": render_call,
}


def assemble(schedule: Schedule, target: Target, places: Mapping[int, int], begin: Callable[[Kernel], None]) -> Plan:
    """The plan of the groups in order. places: of nodes in the captured graph, by id. begin: a callback that gets each kernel as it is rendered."""
    table = _table(schedule)
    rendered = _rendered(schedule, target, begin)
    kernels: dict[tuple[str, tuple[str, ...]], tuple[int, Kernel]] = {}
    dispatches: list[Dispatch] = []
    run: list[Group] = []
    for group in schedule.ordered:
        result = rendered[id(group)]
        operands = table.bind(
            result, {id(schedule.in_place[id(r)]): r for r in group.roots if id(r) in schedule.in_place}
        )
        number, _ = kernels.setdefault(_code(result.kernel), (len(kernels), result.kernel))
        if result.workgroups:
            offsets = result.offsets and (*result.offsets, *(0 for _ in operands[len(result.offsets) :]))
            dispatches.append(Dispatch(number, operands, result.grid, offsets))
            run.append(group)
    buffers, slots = plan_slots(table.specs, dispatches, _overwritten(schedule, table))
    return Plan(
        target=target,
        buffers=tuple(buffers),
        kernels=tuple(kernel for _, kernel in kernels.values()),
        dispatches=tuple(dispatches),
        inputs=tuple(table.rows[id(n)] for n in schedule.graph.inputs),
        outputs=tuple(table.rows[id(n)] for n in schedule.outputs),
        slots=slots,
        notes=notes_of(run, schedule.fuser, places),
    )


def _overwritten(schedule: Schedule, table: Table) -> dict[int, int]:
    """The rows of temporaries that reuse memory, and the rows whose memory they reuse."""
    outputs = {id(o) for o in schedule.outputs}
    pairs = ((root, schedule.in_place.get(id(root))) for group in schedule.ordered for root in group.roots)
    return {
        table.rows[id(root)]: table.rows[id(old)] for root, old in pairs if old is not None and id(root) not in outputs
    }


def _table(schedule: Schedule) -> Table:
    """A row for every input and every node that some group writes."""
    table = Table()
    for node in schedule.graph.inputs:
        assert isinstance(node.primitive, Placeholder)
        table.add(node, *node.primitive.label)
    places = {id(o): k for k, o in reversed(list(enumerate(schedule.outputs)))}
    for root in (root for group in schedule.ordered for root in group.roots):
        if id(root) in places:
            table.add(root, "result", f"out{places[id(root)]}", schedule.in_place.get(id(root)))
        else:
            table.add(root, "temporary", f"{root.primitive.name}{len(table.specs)}")
    return table


def _rendered(schedule: Schedule, target: Target, begin: Callable[[Kernel], None]) -> dict[int, Rendered]:
    """The kernels of groups, by id. Matrix multiplications come first, because drivers take longest to compile them."""
    known = Kernels()
    told: set[tuple[str, tuple[str, ...]]] = set()
    rendered: dict[int, Rendered] = {}
    for group in sorted(schedule.ordered, key=lambda g: g.archetype != "dot"):
        result = rendered[id(group)] = _render(schedule, group, target, known)
        if result.workgroups and _code(result.kernel) not in told:
            told.add(_code(result.kernel))
            if target.traits.limits_iterations:
                loop_iterations.check(result.kernel.source, result.kernel.name)
            begin(result.kernel)
    return rendered


def _render(schedule: Schedule, group: Group, target: Target, known: Kernels) -> Rendered:
    own = {id(n) for g in (group.parts or [group]) for n in g.nodes}
    stored = schedule.fuser.stored
    in_place = {id(r): schedule.in_place[id(r)] for r in group.roots if id(r) in schedule.in_place}

    def is_buffer(n: Node) -> bool:
        return id(n) not in own and (isinstance(n.primitive, Placeholder) or id(n) in stored)

    def render() -> Rendered:
        choice = choose(group, target, is_buffer)
        renderer = Renderer(
            is_buffer,
            in_place=in_place,
            checked=choice.checked,
            wide=choice.wide_loads,
            converts_halves=choice.converts_halves,
        )
        return EMIT[group.archetype](group, choice, renderer)

    if group.archetype == "call":  # its shader may read its operands at other positions
        return render()
    return known.get(Likeness(group, is_buffer, in_place), render)


def _code(kernel: Kernel) -> tuple[str, tuple[str, ...]]:
    """The text that identifies a kernel: all but the comment that names its nodes."""
    return kernel.source.split("\n", 1)[1], kernel.access


class Table:
    """The buffer table while it grows; rows: of nodes, by id."""

    def __init__(self) -> None:
        self.specs: list[BufferSpec] = []
        self.rows: dict[int, int] = {}
        self._fault: int | None = None

    def add(self, node: Node, role: Role, name: str, overwritten: Node | None = None) -> None:
        self.rows[id(node)] = len(self.specs)
        aliases = None if overwritten is None else self.rows[id(overwritten)]
        self.specs.append(BufferSpec(role, node.shape, node.dtype, aliases, name=name))

    def bind(self, result: Rendered, written: Mapping[int, Node]) -> tuple[int, ...]:
        """The rows that a kernel binds. written: the results that it writes over inputs, by the id of the input."""
        operands = []
        for binding in result.bindings:
            row = self.rows[id(written.get(id(binding.node), binding.node))]
            operands.append(row)
            if binding.vectorized:
                self._widen(row)
        if len(result.kernel.access) > len(operands):
            operands.append(self._fault_row())
        return tuple(operands)

    def _widen(self, row: int) -> None:
        """Extends bindings to whole vec4s, also those of rows that share the memory."""
        for k in {row, self.specs[row].aliases} - {None}:
            self.specs[k] = replace(self.specs[k], bound=round_up(self.specs[k].bound, VECTOR))

    def _fault_row(self) -> int:
        if self._fault is None:
            self._fault = len(self.specs)
            self.specs.append(BufferSpec("fault", (4,), int32, name="fault"))
        return self._fault
