"""The call archetype: a shader written by hand, given its bindings and its entry point."""

from __future__ import annotations

from ...plan import Target
from ...primitives.call import Call
from ..fuse import Fuser, Group, behind_reshapes
from ..kernel import Rendered, finish, workgroup_index
from ..render import Binding, Renderer


def render_call(group: Group, fuser: Fuser, renderer: Renderer, target: Target) -> Rendered:
    """The kernel of a call."""
    (root,) = group.roots
    call = behind_reshapes(root)
    primitive = call.primitive
    assert isinstance(primitive, Call)
    own = primitive.kernel(target, *call.inputs)
    held = [*map(behind_reshapes, call.inputs), root]
    for name, node in zip((*primitive.arguments, "result"), held, strict=True):
        renderer.bindings[len(renderer.bindings)] = Binding(name, node, node is root, name in own.vectors)
    renderer.functions |= set(own.functions)
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
