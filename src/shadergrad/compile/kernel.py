"""Shared by all archetypes: builds a kernel with its bindings from a rendered body."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph.index import Index, unflatten
from ..graph.node import Node
from ..graph.printer import describe
from ..plan import Kernel
from ..symbolic_sizes import MARK, varies
from .choices import Choice
from .groups import Group, behind_reshapes
from .render import Renderer
from .wgsl.accesses import Binding
from .wgsl.functions import HIDDEN_ZERO, functions_text, hidden_zero_declared, hidden_zero_set, wide_loads


@dataclass
class Rendered:
    """A kernel, the node of each binding and its first byte, the number of workgroups, and their grid."""

    kernel: Kernel
    bindings: list[Binding]
    workgroups: int
    grid: tuple[int, int, int]

    @property
    def offsets(self) -> tuple[int, ...]:
        found = tuple(b.itemsize * b.start for b in self.bindings)
        return found if any(found) else ()


def workgroup_index(workgroups: int, choice: Choice) -> str:
    """WGSL for the linear number of this workgroup under the grid of the choice."""
    x, y, _ = choice.grid(workgroups)
    return "i32(wid.x)" if y == 1 and not varies(workgroups) else f"i32(wid.x + wid.y * {x}u)"


def indent(lines: list[str], levels: int = 1) -> list[str]:
    return ["  " * levels + line for line in lines]


def finish(
    r: Renderer,
    group: Group,
    choice: Choice,
    *,
    threads: int,
    workgroups: int,
    body: list[str],
    enables: str = "",
    globals_: str = "",
    arguments: str = "",
    shape: str,
    flops: int,
) -> Rendered:
    """Bindings, helper functions and the entry point around `body`."""
    text = r.resolve("\n".join(indent(body)))
    bindings = list(r.bindings.values())
    declared = []
    access = []
    for k, b in enumerate(bindings):
        mode = "read_write" if b.written else "read"
        access.append(mode)
        declared.append(f"@group(0) @binding({k}) var<storage, {mode}> {b.name}: array<{b.element}>;")
    if r.faults:
        declared.append(f"@group(0) @binding({len(bindings)}) var<storage, read_write> fault: array<i32>;")
        access.append("read_write")
    origin = "; ".join(describe(n) for n in group.roots).replace(MARK, "")
    functions = functions_text(r.functions, r.converts_halves)
    hides = HIDDEN_ZERO in functions
    source = (
        f"// {group.archetype}: {origin}\n"
        + enables
        + "\n".join(declared)
        + "\n"
        + globals_
        + (hidden_zero_declared() if hides else "")
        + functions
        + (wide_loads() if any(b.wide for b in bindings) else "")
        + f"@compute @workgroup_size({threads})\n"
        + "fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32"
        + arguments
        + ") {\n"
        + (f"  {hidden_zero_set()}\n" if hides else "")
        + text
        + "\n}\n"
    )
    kernel = Kernel(
        name=name_of(group),
        archetype=group.archetype,
        access=tuple(access),
        source=source,
        workgroup=(threads, 1, 1),
        shape=shape.replace(MARK, ""),
        flops=flops,
        nbytes=sum(b.node.size * b.itemsize for b in bindings),
        origin=origin,
        choice=str(choice),
    )
    return Rendered(kernel, bindings, workgroups, choice.grid(workgroups))


def name_of(group: Group) -> str:
    """A short name: the main operation, and the last one."""
    names = [n.primitive.name for n in group.reduces or group.products]
    last = (behind_reshapes(group.roots[-1]) if group.archetype == "call" else group.roots[-1]).primitive.name
    return "_".join(dict.fromkeys([*names[:2], last]))


def store_results(r: Renderer, group: Group, anchor: Node, value: str, flat: Index) -> None:
    """Compute the roots of a group at a position where the result of its matrix multiplication or call is `value`, and store them."""
    whole = r.is_vector(value)
    r.local[id(anchor)] = lambda index: f"{value}[{r.lane}]" if whole and r.lane is not None else value
    values = [(root, r.pull(root, unflatten(flat, root.shape))) for root in group.roots]
    for root, result in values:
        r.store(root, flat, result)
