"""The row archetype: reductions along rows with maps between and after them, in one dispatch.

A workgroup takes `rows` rows with `width` threads each. Reductions that do not depend on each other share a loop over
the row; each ends in a tree in workgroup memory. Then scalars of the row are written by one thread, and vectors in a
last loop. Where the reduced axis is not the innermost (sums over a batch), neighbouring threads take neighbouring rows,
so that memory is read in order.
"""

from __future__ import annotations

from ...dtypes import DType
from ...graph.index import Index, variable
from ...graph.node import Node
from ...plan import Target
from ..fuse import Fuser, Group, reduce_index
from ..kernel import Rendered, finish, indent, power_of_two, store_root, workgroup_index
from ..render import Indices, Recorder, Renderer, narrowed

MIN_THREADS = 64
MAX_THREADS = 256
SHORT_ROW = 16  # elements that one thread reduces by itself
BLOCK = 32  # elements that a thread adds up before they join its total: long sums keep their digits
MANY_ROWS = 2048
COLUMNS = 32  # neighbouring rows of a strided reduction in one workgroup


def layout(group: Group) -> tuple[int, int]:
    """(rows a workgroup, threads a row)."""
    if group.inner <= SHORT_ROW:
        return min(MIN_THREADS, power_of_two(group.outer)), 1
    if group.trailing:
        if group.inner <= MAX_THREADS and group.outer >= MANY_ROWS:  # several rows a workgroup: fewer barriers
            width = min(COLUMNS, power_of_two(group.inner))
            return MAX_THREADS // width, width
        width = min(power_of_two(group.inner), MAX_THREADS)
        return max(1, min(MIN_THREADS // width, power_of_two(group.outer))), width
    rows = min(COLUMNS, power_of_two(group.outer))
    return rows, min(MAX_THREADS // rows, power_of_two(group.inner))


def render_row(group: Group, fuser: Fuser, r: Renderer, target: Target) -> Rendered:
    """The kernel of a row group, or of several that share a dispatch: each takes a range of workgroups."""
    parts = group.parts or [group]
    threads = threads_of(parts[0])
    counts = [-(-part.outer // layout(part)[0]) for part in parts]
    total = sum(counts)
    index = workgroup_index(total, target)
    partials: dict[str, str] = {}
    body: list[str] = []
    flops = start = 0
    if len(parts) == 1:
        flops = _part(group, r, index, partials)
        body = r.scopes[0].lines
    else:
        for part, count in zip(parts, counts, strict=True):
            r.open("o")
            flops += _part(part, r, f"(wg - {start})", partials)
            body += [f"if (wg >= {start} && wg < {start + count}) {{", *indent(r.close()), "}"]
            start += count
        body = [f"let wg = {index};", *r.scopes[0].lines, *body]
    globals_ = "".join(f"var<workgroup> {name}: array<{wgsl}, {threads}>;\n" for wgsl, name in partials.items())
    shapes = [f"{part.outer} rows of {part.inner}" for part in parts]
    shape = " + ".join(shapes) if len(parts) <= 2 else f"{len(parts)} parts, {sum(p.outer for p in parts)} rows"
    return finish(
        r, group, target, threads=threads, workgroups=total, body=body, globals_=globals_, shape=shape, flops=flops
    )


def threads_of(group: Group) -> int:
    """Of a workgroup."""
    rows, width = layout(group)
    return rows * width


def _part(group: Group, r: Renderer, index: str, partials: dict[str, str]) -> int:
    """The statements of one row group, `index` the number of the workgroup in it; gives its operations."""
    rows, width = layout(group)
    r.line(f"let row = {index} * {rows} + {_row_of_thread(group, rows, width)};")
    r.line(f"let place = {_place_of_thread(group, rows, width)};")
    if group.outer > 1:
        r.line(f"let o = min(row, {group.outer - 1});")
    o, element = variable("o", group.outer), variable("r", group.inner)
    results: dict[int, str] = {}
    for reduce in group.reduces:
        r.local[id(reduce)] = _result_reader(results, reduce)
    for level in _levels(group, r):
        _reduce_level(level, r, group, o, element, rows, width, partials, results)
    _write(group, r, width)
    return _flops(group, r)


def _row_of_thread(group: Group, rows: int, width: int) -> str:
    if rows == 1:
        return "0"
    return f"i32(lid) / {width}" if group.trailing else f"i32(lid) % {rows}"


def _place_of_thread(group: Group, rows: int, width: int) -> str:
    return f"i32(lid) % {width}" if group.trailing else f"i32(lid) / {rows}"


def _result_reader(results: dict[int, str], reduce: Node):
    def read(index: Indices) -> str | None:
        return results[id(reduce)]

    return read


def _levels(group: Group, r: Renderer) -> list[list[Node]]:
    """Reductions in rounds: each depends only on those of earlier rounds."""
    level: dict[int, int] = {}
    inside = {id(n) for n in group.reduces}
    for reduce in group.reduces:
        seen: set[int] = set()
        stack = list(reduce.inputs)
        depth = 0
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if id(node) in inside:
                depth = max(depth, level[id(node)] + 1)
            elif not r.is_buffer(node):
                stack.extend(node.inputs)
        level[id(reduce)] = depth
    return [[n for n in group.reduces if level[id(n)] == k] for k in range(max(level.values()) + 1)]


def _reduce_level(
    level: list[Node],
    r: Renderer,
    group: Group,
    o: Index,
    element: Index,
    rows: int,
    width: int,
    partials: dict[str, str],
    results: dict[int, str],
) -> None:
    """One loop over the row for all reductions of the level, then a tree for each."""
    accumulators = [f"acc{group.reduces.index(n)}" for n in level]
    _start(level, accumulators, r)
    for name in accumulators:  # what is made of results stays within the part
        r.depth[name] = r.depth[name.replace("acc", "s")] = len(r.scopes) - 1
    blocks = group.inner > 2 * BLOCK * width
    sums = [f"block_{acc}" if blocks else acc for acc in accumulators]
    r.open("r")
    for node, acc in zip(level, sums, strict=True):
        value = r.pull(node.inputs[0], reduce_index(node, o, element))
        r.line(f"{acc} = {_combine(node, r, acc, value)};")
    lines = r.close()
    if blocks:
        r.line(f"for (var block = place; block < {group.inner}; block += {BLOCK * width}) {{")
        _start(level, sums, r, "  ")
        r.line(f"  for (var r = block; r < min(block + {BLOCK * width}, {group.inner}); r += {width}) {{")
        _append(r, [*indent(lines, 2), "  }"])
        for node, acc, part in zip(level, accumulators, sums, strict=True):
            r.line(f"  {acc} = {_combine(node, r, acc, part)};")
        r.line("}")
    elif group.inner > 1:
        _append(r, [f"for (var r = place; r < {group.inner}; r += {width}) {{", *indent(lines), "}"])
    else:
        _append(r, lines)
    for node, acc in zip(level, accumulators, strict=True):
        total = acc if width == 1 else _tree(node, r, group, acc, rows, width, partials)
        results[id(node)] = narrowed(total, node.dtype)


def _start(level: list[Node], names: list[str], r: Renderer, space: str = "") -> None:
    """A variable for each reduction, with its identity."""
    for node, name in zip(level, names, strict=True):
        identity = node.primitive.identity(node.dtype)  # type: ignore[attr-defined]
        r.line(f"{space}var {name} = {r.literal(identity, node.dtype)};")


def _combine(node: Node, r: Renderer, a: str, b: str) -> str:
    return r.use_functions(node.primitive.expression(node.dtype).format(a=a, b=b), False, node.primitive.name)  # type: ignore[attr-defined]


def _tree(node: Node, r: Renderer, group: Group, acc: str, rows: int, width: int, partials: dict[str, str]) -> str:
    """Join the accumulators of a row's threads in workgroup memory; gives the name of the result."""
    partial = partials.setdefault(_wgsl(node.dtype), f"partial_{node.dtype.wgsl}")
    stride = 1 if group.trailing else rows
    r.line(f"{partial}[lid] = {acc};")
    r.line("workgroupBarrier();")
    half = width // 2
    while half:
        joined = _combine(node, r, f"{partial}[lid]", f"{partial}[lid + {half * stride}u]")
        r.line(f"if (place < {half}) {{ {partial}[lid] = {joined}; }}")
        r.line("workgroupBarrier();")
        half //= 2
    first = f"lid - u32(place) * {stride}u"
    name = f"s{group.reduces.index(node)}"
    r.line(f"let {name} = {partial}[{first}];")
    r.line("workgroupBarrier();")
    return name


def _wgsl(dtype: DType) -> str:
    assert dtype.wgsl is not None
    return dtype.wgsl


def _write(group: Group, r: Renderer, width: int) -> None:
    """Scalars by the first thread of a row, vectors by all."""
    scalars = [n for n in group.roots if n.size == group.outer]
    vectors = [n for n in group.roots if n.size != group.outer]
    if scalars:
        r.open()
        for root in scalars:
            store_root(r, group, root)
        lines = r.close()
        condition = f"row < {group.outer}" + (" && place == 0" if width > 1 else "")
        _append(r, [f"if ({condition}) {{", *indent(lines), "}"])
    if vectors:
        r.open("r")
        for root in vectors:
            store_root(r, group, root)
        lines = r.close()
        loop = f"for (var r = place; r < {group.inner}; r += {width}) {{"
        _append(r, [f"if (row < {group.outer}) {{", f"  {loop}", *indent(lines, 2), "  }", "}"])


def _append(r: Renderer, lines: list[str]) -> None:
    for line in lines:
        r.line(line)


def _flops(group: Group, r: Renderer) -> int:
    recorder = Recorder(r.is_buffer)
    o, element = variable("o", group.outer), variable("r", group.inner)
    anchors = {id(n) for n in group.reduces}
    inner = recorder.pull
    recorder.pull = lambda node, index: "" if id(node) in anchors else inner(node, index)  # type: ignore[method-assign]
    for node in group.reduces:
        recorder.pull(node.inputs[0], reduce_index(node, o, element))
    return (recorder.cost + len(group.reduces)) * group.outer * group.inner
