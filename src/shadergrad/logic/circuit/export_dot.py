"""Graphviz: a circuit as a drawing. Readable up to some hundred gates; minimize first."""

from __future__ import annotations

from .circuit import Circuit
from .errors import check_kind
from .export_names import line
from .export_statements import wire_name
from .gate_order import evaluation_order, live_inputs, operands
from .svg_drawing import drawn


def to_dot(circuit: Circuit) -> str:
    """A digraph from the inputs (left) to the outputs (right) with the gates on which an output depends.

    Render it with `dot -Tsvg`. An inverted operand ends in a circle.

    >>> print(sg.logic.circuit.to_dot(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2])))
    digraph circuit {
        rankdir=LR;
        node [shape=box, fontname=Helvetica];
        x0 [shape=ellipse, label="x0"];
        x1 [shape=ellipse, label="x1"];
        g0 [label="XOR"];
        x0 -> g0;
        x1 -> g0;
        y0 [shape=doublecircle, label="y0"];
        g0 -> y0;
    }
    """
    check_kind(circuit, Circuit, "to_dot")
    gates = list(circuit.gates())
    lines = ["digraph circuit {", "    rankdir=LR;", "    node [shape=box, fontname=Helvetica];"]
    for i in live_inputs(circuit):
        label = circuit.input_names[i] if circuit.input_names else f"x{i}"
        lines.append(f"    x{i} [shape=ellipse, label={_quoted(label)}];")
    for k in evaluation_order(circuit):
        lines += _gate(circuit, k, *gates[k])
    for k, wire in enumerate(circuit.outputs.tolist()):
        label = circuit.output_names[k] if circuit.output_names else f"y{k}"
        source = wire_name(circuit, wire)
        lines += [f"    y{k} [shape=doublecircle, label={_quoted(label)}];", f"    {source} -> y{k};"]
    return "\n".join([*lines, "}", ""])


def _quoted(label: str) -> str:
    """A label in quotes, in which DOT reads escapes and HTML's entities."""
    return '"' + line(label).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") + '"'


def _gate(circuit: Circuit, k: int, kind: int, a: int, b: int) -> list[str]:
    label, inverted = drawn(kind)
    lines = [f'    g{k} [label="{label}"];']
    reads = operands(kind, a, b)
    columns = "AB" if len(reads) == 2 else " "
    for column, wire in zip(columns, reads, strict=False):
        head = " [arrowhead=odot]" if column == inverted else ""
        lines.append(f"    {wire_name(circuit, wire)} -> g{k}{head};")
    return lines
