"""Shared parts of the exports to C, WGSL and Verilog: one statement per gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from .circuit import Circuit
from .gate_kinds import expression
from .gate_order import evaluation_order


@dataclass(frozen=True)
class Syntax:
    """A language's syntax for the declaration of a wire (`{wire}`, `{value}`) and for constant wires."""

    statement: str
    zero: str
    one: str


def wire_name(circuit: Circuit, wire: int) -> str:
    """x0, x1, ... for inputs, g0, g1, ... for gates."""
    return f"x{wire}" if wire < circuit.inputs else f"g{wire - circuit.inputs}"


def gate_statements(circuit: Circuit, syntax: Syntax) -> list[str]:
    """A line for each gate that some output depends on, operands first."""
    gates = list(circuit.gates())
    lines = []
    for k in evaluation_order(circuit):
        kind, a, b = gates[k]
        value = expression(kind, wire_name(circuit, a), wire_name(circuit, b), syntax.zero, syntax.one)
        lines.append(syntax.statement.format(wire=f"g{k}", value=value))
    return lines


def output_statements(circuit: Circuit, assign: Callable[[int, str], str]) -> list[str]:
    """A line for each output: assign(number, wire)."""
    return [assign(k, wire_name(circuit, wire)) for k, wire in enumerate(circuit.outputs.tolist())]


def indent(lines: list[str], levels: int) -> str:
    """Lines as text, four blanks a level."""
    return "\n".join(" " * 4 * levels + line if line else line for line in lines)


def template(name: str) -> str:
    """The text after the dashes in a file of this folder; the text before them is a placeholder for the generated part."""
    text = files("shadergrad.logic.circuit").joinpath(name).read_text(encoding="utf-8")
    return text.partition("----")[2].partition("\n")[2]
