"""The printed form of graphs: one line per node, used in debug output, errors and kernel headers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from .leaves import Constant, Placeholder
from .node import Node, topological


def describe(node: Node, depth: int = 3) -> str:
    """A node as an expression, its inputs down to `depth` levels: relu(add(dot(…), …))[256x512]."""
    return f"{_expression(node, depth)}[{'x'.join(map(str, node.shape))}]"


def _expression(node: Node, depth: int) -> str:
    p = node.primitive
    if isinstance(p, Constant):
        return f"{p.value:g}" if not isinstance(p.value, bool) else str(p.value).lower()
    if isinstance(p, Placeholder):
        return f"in{p.position}"
    if p.name in ("reshape", "expand") and node.inputs:
        return _expression(node.inputs[0], depth)
    if not node.inputs:
        return p.name
    return f"{p.name}({', '.join(_expression(i, depth - 1) if depth > 1 else '…' for i in node.inputs)})"


def print_graph(outputs: Iterable[Node]) -> str:
    """All nodes in order: `%3 = add %1 %2 : float32[4, 8]`."""
    outputs = list(outputs)
    names: dict[int, str] = {}
    lines = []
    for k, node in enumerate(topological(outputs, lambda n: n.inputs)):
        names[id(node)] = f"%{k}"
        static = ", ".join(f"{f.name}={getattr(node.primitive, f.name)!r}" for f in fields(node.primitive))
        operands = " ".join(names[id(i)] for i in node.inputs)
        parts = [
            f"%{k} =",
            node.primitive.name + (f"({static})" if static else ""),
            operands,
            f": {node.dtype.name}{list(node.shape)}",
        ]
        lines.append(" ".join(p for p in parts if p))
    lines.append("return " + ", ".join(names[id(o)] for o in outputs))
    return "\n".join(lines)
