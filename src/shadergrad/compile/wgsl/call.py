"""The call archetype: a shader written by hand, given its bindings and its entry point."""

from __future__ import annotations

import re
from dataclasses import replace

from ...plan import Target
from ...primitives.call import Call, CallKernel
from ..fuse import Fuser, Group, behind_reshapes
from ..kernel import Rendered, finish, indent, workgroup_index
from ..render import Binding, Renderer


def render_call(group: Group, fuser: Fuser, renderer: Renderer, target: Target) -> Rendered:
    """The kernel of a call, or of several that share a dispatch: each takes a range of workgroups."""
    if group.parts:
        return _together(group, renderer, target)
    own = _bound(group, renderer, target, "")
    head = [f"let wg = {workgroup_index(own.workgroups, target)};"]
    if own.workgroups > target.max_workgroups:  # the folded grid has a few more
        head.append(f"if (wg >= {own.workgroups}) {{ return; }}")
    return finish(
        renderer,
        group,
        target,
        threads=own.threads,
        workgroups=own.workgroups,
        body=[*head, *own.body.strip("\n").split("\n")],
        globals_=own.preamble,
        shape=f"{own.workgroups} x {own.threads}",
        flops=own.flops,
    )


def _bound(group: Group, renderer: Renderer, target: Target, suffix: str) -> CallKernel:
    """The shader of a call, whose bindings have names with a suffix."""
    (root,) = group.roots
    call = behind_reshapes(root)
    primitive = call.primitive
    assert isinstance(primitive, Call)
    own = primitive.kernel(target, *call.inputs)
    held = [*map(behind_reshapes, call.inputs), root]
    for name, node in zip((*primitive.arguments, "result"), held, strict=True):
        renderer.bindings[len(renderer.bindings)] = Binding(name + suffix, node, node is root, name in own.vectors)
    renderer.functions |= set(own.functions)
    if not suffix:
        return own
    names = "|".join((*primitive.arguments, "result"))
    return replace(own, body=re.sub(rf"\b({names})\[", rf"\g<1>{suffix}[", own.body))


def _together(group: Group, renderer: Renderer, target: Target) -> Rendered:
    made = [_bound(part, renderer, target, str(k)) for k, part in enumerate(group.parts)]
    total = sum(own.workgroups for own in made)
    body = [f"let number = {workgroup_index(total, target)};"]
    start = 0
    for own in made:
        body += [f"if (number >= {start} && number < {start + own.workgroups}) {{", f"  let wg = number - {start};"]
        body += [*indent(own.body.strip("\n").split("\n")), "}"]
        start += own.workgroups
    return finish(
        renderer,
        group,
        target,
        threads=made[0].threads,
        workgroups=total,
        body=body,
        shape=" + ".join(f"{own.workgroups} x {own.threads}" for own in made),
        flops=sum(own.flops for own in made),
    )
