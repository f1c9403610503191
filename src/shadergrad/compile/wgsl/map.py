"""The map archetype: every thread computes one element, or four neighbours, of trees of elementwise operations.

Independent maps may share a dispatch: each takes a range of workgroups. A map that reads columns and writes rows (a transpose) processes
square tiles through workgroup memory, so that both are coalesced.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...graph.index import Index, flatten, unflatten, variable
from ...graph.node import Node
from ...symbolic_sizes import divides
from ..choices import Choice, MapChoice
from ..choose import SIDE, axis_of_rows, reads_of_map
from ..groups import Group
from ..kernel import Rendered, finish, indent, workgroup_index
from ..puller import LANES, lane_variable
from ..recorder import Recorder
from ..render import Renderer

MOST_TILES = 3  # that fit into 16 KiB


def render_map(group: Group, choice: Choice, renderer: Renderer) -> Rendered:
    """The kernel of a map group."""
    parts = group.parts or [group]
    own = choice.parts[0]
    assert isinstance(own, MapChoice)
    if own.axis is not None:
        return _render_tiles(group, _turned(group, own.axis, renderer), renderer, choice, own.threads)
    threads = own.threads
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
    body = [f"let wg = {workgroup_index(total, choice)};", *renderer.scopes[0].lines, *body]
    shape = (
        " + ".join(str(p.size) for p in parts)
        if len(parts) <= 4
        else f"{len(parts)} maps, {sum(p.size for p in parts)}"
    )
    return finish(renderer, group, choice, threads=threads, workgroups=total, body=body, shape=shape, flops=cost)


def _part(part: Group, r: Renderer, start: int, threads: int) -> tuple[list[str], int]:
    """The statements of one map whose workgroups start at number `start`, and its operation count."""
    r.lanes = LANES if divides(LANES, part.size) else 1
    r.reports_once = True
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


# -- tiles


@dataclass
class Turned:
    """A transposing map: it writes elements at `index`, with rows along its last axis, and its reads `reads` are contiguous along
    `axis`.
    """

    index: tuple[Index, ...]
    sizes: tuple[int, ...]
    axis: int
    reads: list[tuple[Node, Index]]
    cost: int


def _turned(group: Group, axis: int, r: Renderer) -> Turned:
    """The tiling of a map whose reads are contiguous along `axis`, across the rows that it writes."""
    sizes = group.roots[0].shape
    index = tuple(variable(f"x{a}", n) for a, n in enumerate(sizes))
    recorder = reads_of_map(group, r.is_buffer)
    across = [(node, flat) for (_, flat), node in recorder.reads.items() if axis_of_rows(flat, sizes) == axis]
    return Turned(index, sizes, axis, across[:MOST_TILES], recorder.cost)


def _render_tiles(group: Group, turned: Turned, r: Renderer, choice: Choice, threads: int) -> Rendered:
    """SIDE x SIDE elements per workgroup: transposed operands are read along their own rows, through workgroup memory."""
    axis, last = turned.axis, len(turned.sizes) - 1
    down, across = turned.sizes[axis], turned.sizes[last]
    rest = [a for a in range(last) if a != axis]
    tiles = -(-down // SIDE), -(-across // SIDE)
    total = tiles[0] * tiles[1] * group.size // (down * across)
    rows = threads // SIDE
    r.line(f"let number = {workgroup_index(total, choice)};")
    r.line(f"let wg = min(number, {total - 1});")
    r.line(f"let first_across = wg % {tiles[1]} * {SIDE};")
    r.line(f"let first_down = wg / {tiles[1]} % {tiles[0]} * {SIDE};")
    places = unflatten(variable("other", group.size // (down * across)), [turned.sizes[a] for a in rest])
    if group.size > down * across:
        r.line(f"let other = wg / {tiles[0] * tiles[1]};")
    by_name = {f"x{a}": place for a, place in zip(rest, places, strict=True)}
    index = tuple(i.substitute(by_name) for i in turned.index)
    reads = [(node, flat.substitute(by_name)) for node, flat in turned.reads]
    steps = f"for (var step = i32(lid) / {SIDE}; step < {SIDE}; step += {rows}) {{"
    r.line(steps)
    r.open(f"x{axis}", f"x{last}")
    r.line(f"let x{axis} = min(first_down + i32(lid) % {SIDE}, {down - 1});")
    r.line(f"let x{last} = min(first_across + step, {across - 1});")
    for k, (node, flat) in enumerate(reads):
        r.line(f"tile_{k}[step * {SIDE + 1} + i32(lid) % {SIDE}] = {r.load(node, flat)};")
    _append(r, [*indent(r.close()), "}"])
    r.line("workgroupBarrier();")
    r.line(steps)
    r.open(f"x{axis}", f"x{last}")
    r.line("let at_down = first_down + step;")
    r.line(f"let at_across = first_across + i32(lid) % {SIDE};")
    r.line(f"let x{axis} = min(at_down, {down - 1});")
    r.line(f"let x{last} = min(at_across, {across - 1});")
    _append(r, _tile_results(group, turned, index, reads, r, f"number < {total}"))
    _append(r, [*indent(r.close()), "}"])
    types = [r.value_type(node.dtype, False) for node, _ in reads]
    globals_ = "".join(f"var<workgroup> tile_{k}: array<{t}, {SIDE * (SIDE + 1)}>;\n" for k, t in enumerate(types))
    return finish(
        r,
        group,
        choice,
        threads=threads,
        workgroups=total,
        body=r.scopes[0].lines,
        globals_=globals_,
        shape=f"{group.size} in {SIDE} x {SIDE}",
        flops=turned.cost * group.size,
    )


def _tile_results(
    group: Group, turned: Turned, index: tuple[Index, ...], reads: list[tuple[Node, Index]], r: Renderer, inside: str
) -> list[str]:
    """The statements that compute and write an element, with the transposed operands taken from the tiles."""
    down, across = turned.sizes[turned.axis], turned.sizes[-1]
    r.open()
    for k, (node, flat) in enumerate(reads):
        name = f"turned{k}"
        r.line(f"let {name} = tile_{k}[i32(lid) % {SIDE} * {SIDE + 1} + step];")
        r.depth[name] = len(r.scopes) - 1
        r.tiled[id(node), flat] = name
    position = flatten(index, turned.sizes)
    values = [(root, r.pull(root, unflatten(position, root.shape))) for root in group.roots]
    for root, value in values:
        r.store(root, position, value)
    checks = [inside]
    checks += [f"at_down < {down}"] if down % SIDE else []
    checks += [f"at_across < {across}"] if across % SIDE else []
    return [f"if ({' && '.join(checks)}) {{", *indent(r.close()), "}"]


def _append(r: Renderer, lines: list[str]) -> None:
    for line in lines:
        r.line(line)
