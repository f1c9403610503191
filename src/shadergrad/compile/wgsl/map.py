"""The map archetype: every thread computes one element, or four neighbours, of trees of elementwise operations.

Independent maps may share a dispatch: each takes a range of workgroups.
"""

from __future__ import annotations

from ...graph.index import variable
from ...plan import Target
from ...varying import divides, hint
from ..fuse import Fuser, Group
from ..kernel import Rendered, finish, indent, workgroup_index
from ..render import LANES, Recorder, Renderer, lane_variable

THREADS = 256
SMALL = 1 << 18  # with fewer elements, smaller workgroups spread over more cores
THREADS_SMALL = 64


def render_map(group: Group, fuser: Fuser, renderer: Renderer, target: Target) -> Rendered:
    """The kernel of a map group."""
    parts = group.parts or [group]
    threads = THREADS_SMALL if hint(sum(p.size for p in parts)) < SMALL else THREADS
    counts = [-(-p.size // (threads * (LANES if divides(LANES, p.size) else 1))) for p in parts]
    total = sum(counts)
    body: list[str] = []
    start = 0
    cost = 0
    for part, count in zip(parts, counts, strict=True):
        lines, part_cost = _part(part, renderer, start, threads)
        cost += part_cost
        if len(parts) > 1:
            body += [f"if (wg >= {start} && wg < {start + count}) {{", *indent(lines), "}"]
        else:
            body += lines
        start += count
    body = [f"let wg = {workgroup_index(total, target)};", *renderer.scopes[0].lines, *body]
    shape = (
        " + ".join(str(p.size) for p in parts)
        if len(parts) <= 4
        else f"{len(parts)} maps, {sum(p.size for p in parts)}"
    )
    return finish(renderer, group, target, threads=threads, workgroups=total, body=body, shape=shape, flops=cost)


def _part(part: Group, r: Renderer, start: int, threads: int) -> tuple[list[str], int]:
    """The statements of one map whose workgroups begin at number `start`, and its operations."""
    r.lanes = LANES if divides(LANES, part.size) else 1
    count = part.size // r.lanes
    first = f"(wg - {start})" if start else "wg"
    lines = [f"let t = {first} * {threads} + i32(lid);", f"if (t < {count}) {{"]
    r.open("t", "lane")
    flat = variable("t", count) * r.lanes + lane_variable() if r.lanes > 1 else variable("t", count)
    values = [(root, r.pull_flat(root, flat)) for root in part.roots]
    for root, value in values:
        r.store(root, flat, value)
    lines += [*indent(r.close()), "}"]
    recorder = Recorder(r.is_buffer)
    i = variable("i", part.size)
    for root in part.roots:
        recorder.pull_flat(root, i)
    return lines, recorder.cost * part.size
