"""The call archetype: a shader written by hand, given its bindings, its epilogue and its entry point."""

from __future__ import annotations

import re

from ...graph.index import opaque
from ...graph.node import Node
from ...primitives.call import Call, CallKernel
from ..choices import CallChoice, Choice, Part
from ..groups import Group, behind_reshapes
from ..kernel import Rendered, finish, indent, store_results, workgroup_index
from ..puller import LANES, lane_variable
from ..render import Renderer
from .accesses import Binding
from .matmul.units import ENABLES
from .statements import Scope


def render_call(group: Group, choice: Choice, renderer: Renderer) -> Rendered:
    """The kernel of a call, or of several that share a dispatch: each takes a range of workgroups."""
    if group.parts:
        return _shared_dispatch(group, renderer, choice)
    own, body = _bound(group, renderer, choice.parts[0], "")
    head = [f"let wg = {workgroup_index(own.workgroups, choice)};"]
    if own.workgroups > choice.max_workgroups:  # the folded grid has a few more
        head.append(f"if (wg >= {own.workgroups}) {{ return; }}")
    return finish(
        renderer,
        group,
        choice,
        threads=own.threads,
        workgroups=own.workgroups,
        body=[*head, *body],
        enables=ENABLES if own.on_units else "",
        globals_=own.preamble,
        shape=f"{own.workgroups} x {own.threads}",
        flops=own.flops,
    )


def _bound(group: Group, renderer: Renderer, choice: Part, suffix: str) -> tuple[CallKernel, list[str]]:
    """The shader of a call, whose bindings have names with a suffix, and its statements."""
    call = group.call
    assert call is not None
    primitive = call.primitive
    assert isinstance(primitive, Call)
    assert isinstance(choice, CallChoice)
    own = primitive.kernel(choice.options, *call.inputs)
    held = dict(zip(primitive.arguments, map(behind_reshapes, call.inputs), strict=True))
    if not own.written:
        (held["result"],) = group.roots
    for name, node in held.items():
        bound = Binding(name + suffix, node, name == "result", name in own.vectors, octets=name in own.octets)
        renderer.bindings[len(renderer.bindings)] = bound
    renderer.functions |= set(own.functions)
    body = re.sub(rf"\b({'|'.join(held)})\[", rf"\g<1>{suffix}[", own.body) if suffix else own.body
    lines = body.strip("\n").split("\n")
    return own, _with_epilogue(group, call, own, renderer, lines) if own.written else lines


def _with_epilogue(group: Group, call: Node, own: CallKernel, r: Renderer, lines: list[str]) -> list[str]:
    """The statements of a call, and those of its epilogue, which store its results."""
    r.scopes = [Scope()]  # names of one part of a kernel are not visible in others
    for line in lines:
        r.line(line)
    for written in own.written:
        r.lanes = LANES if written.quad else 1
        r.open()
        depth = len(r.scopes) - 1
        place = opaque(r.define(written.place, depth, prefix="at"), 0, call.size // r.lanes - 1)
        value = r.define(written.value, depth, vector=written.quad)
        store_results(r, group, call, value, place * LANES + lane_variable() if written.quad else place)
        head = f"if ({written.guard}) {{" if written.guard else "{"
        for line in [head, *indent(r.close()), "}"]:
            r.line(line)
    return r.scopes[0].lines


def _shared_dispatch(group: Group, renderer: Renderer, choice: Choice) -> Rendered:
    made = [
        _bound(part, renderer, of, str(k)) for k, (part, of) in enumerate(zip(group.parts, choice.parts, strict=True))
    ]
    total = sum(own.workgroups for own, _ in made)
    body = [f"let number = {workgroup_index(total, choice)};"]
    start = 0
    for own, lines in made:
        body += [f"if (number >= {start} && number < {start + own.workgroups}) {{", f"  let wg = number - {start};"]
        body += [*indent(lines), "}"]
        start += own.workgroups
    return finish(
        renderer,
        group,
        choice,
        threads=made[0][0].threads,
        workgroups=total,
        body=body,
        shape=" + ".join(f"{own.workgroups} x {own.threads}" for own, _ in made),
        flops=sum(own.flops for own, _ in made),
    )
