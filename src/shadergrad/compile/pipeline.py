"""From a closed graph to a plan, pass by pass, in the order written here.

In: a Graph (placeholders, outputs) and a Target. Out: a Plan. Nothing here knows a device.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace

from .. import symbolic_sizes
from ..config import config
from ..explanation import Note
from ..graph import verify
from ..graph.capture import Graph
from ..graph.index import forget_known
from ..graph.leaves import Placeholder
from ..graph.node import Node, topological
from ..graph.primitive import Primitive, to_data
from ..graph.printer import print_graph
from ..plan import BufferSpec, Dispatch, Kernel, Plan, count
from ..primitives.elementwise import Cast
from ..system.gc_pause import collector_waits
from ..target import Target
from . import comparisons, convolution, convolution_on_units, finite_tests, lower, odd_rows, order, simplify
from .assemble import assemble
from .fuse import Fuser
from .rewrite import Rewriter
from .schedule import Schedule

Begin = Callable[[Kernel], None]


def _ignore(kernel: Kernel) -> None:
    """The `begin` callback of runners that compile nothing ahead."""


@collector_waits()
def compile_graph(graph: Graph, target: Target, begin: Begin = _ignore) -> tuple[Plan, list[int]]:
    """The plan, and which nodes of graph.keep it returns as further outputs after graph.outputs.

    Its inputs are arguments in0, in1, ..., its outputs results out0, out1, ...; `Plan.labelled` gives other names.
    begin: a callback that gets each kernel as soon as its source is written, so that a driver may compile it while others are written. Kernels
    with varying sizes are left out, because a device rewrites them.
    """
    if target.language == "numpy":
        return _numpy_plan(graph, target), list(range(len(graph.keep)))
    if not symbolic_sizes.follows:
        return _compiled(graph, target, begin)
    forget_known()  # a size that varies is equal to a number that does not
    with symbolic_sizes.marking():
        plan, kept = _compiled(graph, target, _ignore)
    forget_known()
    return replace(plan, family=symbolic_sizes.follows), kept


def _compiled(graph: Graph, target: Target, begin: Begin) -> tuple[Plan, list[int]]:
    if "graph" in config.debug:
        print(print_graph(graph.outputs), file=sys.stderr)
    checks = (order.report_scatters,) if target.checked else ()
    images = convolution_on_units.RULES + convolution.RULES
    rules = simplify.RULES + checks + finite_tests.RULES + images + lower.RULES
    rewriter = Rewriter(rules, graph.device, target)
    new = rewriter.rewrite([*graph.outputs, *graph.keep], graph.nodes)
    longer = odd_rows.with_padding(rewriter, [new[id(n)] for n in (*graph.outputs, *graph.keep)])
    new = {key: longer.get(id(node), node) for key, node in new.items()}
    outputs = _separate([new[id(o)] for o in graph.outputs], rewriter.places)
    if verify.enabled or target.checked:
        verify.verify([*graph.outputs, *graph.keep], "captured")
        verify.verify([*outputs, *(new[id(n)] for n in graph.keep)], "lowered")
    fuser = Fuser(outputs, target, [new[id(n)] for n in graph.keep])
    fuser.run()
    if verify.enabled or target.checked:
        comparisons.verify(fuser.buffers.compared, fuser.cuts)
    kept = [k for k, n in enumerate(graph.keep) if id(new[id(n)]) in fuser.stored and id(new[id(n)]) in fuser.producer]
    outputs += [new[id(graph.keep[k])] for k in kept]
    schedule = Schedule(graph, fuser, outputs)
    schedule.run()
    plan = assemble(schedule, target, rewriter.places, begin)
    _show(plan)
    return plan, kept


_printed: set[Kernel] = set()  # kernels that SHADERGRAD_DEBUG=kernels has printed


def _show(plan: Plan) -> None:
    """Prints what SHADERGRAD_DEBUG requests; a kernel is printed once, with the numbers and names that explain() uses."""
    if "plan" in config.debug:
        print(plan, file=sys.stderr)
    if "kernels" not in config.debug:
        return
    new = {row: kernel for row, kernel in enumerate(plan.kernels) if kernel not in _printed}
    _printed.update(new.values())
    print(f"// {plan!r}: {count(len(new), 'new kernel')}", file=sys.stderr)
    for row, kernel in new.items():
        numbers = ", ".join(str(n) for n, d in enumerate(plan.dispatches) if d.kernel == row)
        print(f"\n// #{numbers} {kernel.name}, {kernel.shape}\n{kernel.source.rstrip()}\n", file=sys.stderr)


def _separate(outputs: list[Node], places: dict[int, int]) -> list[Node]:
    """Gives every output its own memory: an input, or a value that is returned twice, is copied, because either may be overwritten.
    places: of nodes, by id, to which copies are added.
    """
    seen: set[int] = set()
    result = []
    for node in outputs:
        if id(node) in seen or isinstance(node.primitive, Placeholder):
            copied, node = node, Node(Cast(node.dtype), (node,), node.shape, node.dtype, node.device)
            if id(copied) in places:
                places[id(node)] = places[id(copied)]
        seen.add(id(node))
        result.append(node)
    return result


def _numpy_plan(graph: Graph, target: Target) -> Plan:
    """Node by node: the reference that every kernel is checked against, so nothing is simplified or fused."""
    outputs = [*graph.outputs, *graph.keep]
    order = {id(n): n for n in [*graph.inputs, *topological(outputs, lambda n: n.inputs)]}
    rows = {key: row for row, key in enumerate(order)}
    number = {id(n): k for k, n in reversed(list(enumerate(outputs)))}
    kernels: dict[Kernel, int] = {}
    # kernel rows by primitive: an unrolled loop has few different primitives
    written: dict[tuple[int, int], int] = {}
    buffers: list[BufferSpec] = []
    dispatches: list[Dispatch] = []
    notes: list[Note] = []
    places = {id(n): k for k, n in enumerate(graph.nodes)}
    for key, node in order.items():
        if isinstance(node.primitive, Placeholder):
            role, name = node.primitive.label
            buffers.append(BufferSpec(role, node.shape, node.dtype, name=name))
            continue
        if key in number:
            source = graph.in_place.get(number[key])
            aliases = None if source is None else rows[id(graph.inputs[source])]
            spec = BufferSpec("result", node.shape, node.dtype, aliases, name=f"out{number[key]}")
        else:
            spec = BufferSpec("temporary", node.shape, node.dtype, name=f"{node.primitive.name}{len(buffers)}")
        buffers.append(spec)
        what = id(node.primitive), len(node.inputs)
        kernel = written.get(what)
        if kernel is None:
            kernel = kernels.setdefault(_numpy_kernel(node.primitive, len(node.inputs)), len(kernels))
            written[what] = kernel
        dispatches.append(Dispatch(kernel, (*(rows[id(i)] for i in node.inputs), rows[key])))
        notes.append(Note((places[key],) if key in places else ()))
    ins, outs = (tuple(rows[id(n)] for n in group) for group in (graph.inputs, outputs))
    return Plan(target, tuple(buffers), tuple(kernels), tuple(dispatches), ins, outs, notes=tuple(notes))


def _numpy_kernel(primitive: Primitive, inputs: int) -> Kernel:
    """The kernel that applies a primitive to that many inputs."""
    data = to_data(primitive)
    name = data.pop("primitive")
    access = ("read",) * inputs + ("read_write",)
    return Kernel(primitive.name, "numpy", access, primitive=name, parameters=json.dumps(data))
