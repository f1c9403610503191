"""Steps as one module for WebAssembly. In: steps, and the addresses of their rows. Out: LLVM IR that defines run0, run1, … in this order, then
the kernels.

Each `run` calls kernels in sequence, up to the next operation that JavaScript computes. Addresses are offsets in the module's memory, which holds
the tables of the kernels' buffers, then the stack, then the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .program import Steps
from .slots import room_of

STACK = 1 << 16  # bytes, in addition to copies of operands
POINTER = 4  # bytes
_FMA = re.compile(r"(%\S+) = call (.+) @llvm\.fma\.\w+\((.+)\)$")
_COPY = re.compile(r"alloca float, i64 (\d+)")


@dataclass(frozen=True)
class Layout:
    """Offsets in memory. stack: its lower end; it grows downwards from `arrays`, the start of the arrays. end: the end of all."""

    stack: int
    arrays: int
    end: int


def layout_of(steps: Steps, nbytes: int) -> Layout:
    """The layout. nbytes: the size of all arrays."""
    tables = sum(room_of(POINTER * len(s.buffers)) for s in steps.steps)
    stack = room_of(tables + POINTER)
    copies = max((4 * sum(int(n) for n in _COPY.findall(text)) for text in steps.texts), default=0)
    arrays = room_of(stack + STACK + copies)
    return Layout(stack, arrays, arrays + nbytes)


def module_of(steps: Steps, addresses: Mapping[int, int]) -> str:
    """The text of the module. addresses: those of the rows that kernels read and write."""
    runs: list[list[str]] = [[]]
    tables = []
    for k, step in enumerate(steps.steps):
        if step.hosted is not None:
            if runs[-1]:
                runs.append([])
            continue
        places = ", ".join(f"i32 {addresses[row]}" for row in step.buffers)
        tables.append(f"@table{k} = internal constant [{len(step.buffers)} x i32] [ {places} ], align 4")
        runs[-1].append(f"  call void @kernel{step.kernel}(ptr @table{k}, i64 0, i64 {step.units})")
    defined = [
        "\n".join([f"define void @run{k}() {{", *calls, "  ret void", "}"]) for k, calls in enumerate(runs) if calls
    ]
    declared: set[str] = set()
    kernels = []  # noinline, else the stack would hold the copies of all kernels at once
    for number, text in enumerate(steps.texts):
        lines = [part for line in text.splitlines() for part in _without_fma(line)]
        declared |= {line for line in lines if line.startswith("declare ") and "@llvm.fma." not in line}
        body = "\n".join(line for line in lines if not line.startswith("declare "))
        kernels.append(body.replace("@kernel(", f"@kernel{number}(").replace(" nounwind ", " noinline nounwind ", 1))
    return "\n".join([*tables, *defined, *kernels, *sorted(declared), ""])


def _without_fma(line: str) -> list[str]:
    """WebAssembly's vectors have no fused multiplication and addition: it is two operations, each rounded."""
    found = _FMA.search(line.strip())
    if found is None:
        return [line]
    name, kind, operands = found.groups()
    a, b, c = (part.removeprefix(f"{kind} ") for part in operands.split(f", {kind} "))
    return [f"  {name}.product = fmul {kind} {a}, {b}", f"  {name} = fadd {kind} {name}.product, {c}"]
