"""Shared parts of the exports to C, WGSL and Verilog: names, and one statement per gate."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from .circuit import Circuit
from .errors import CircuitError
from .gate_kinds import expression
from .gate_order import evaluation_order
from .reserved_words import RESERVED


@dataclass(frozen=True)
class Syntax:
    """A language's syntax for the declaration of a wire (`{wire}`, `{value}`) and for constant wires."""

    statement: str
    zero: str
    one: str


def check_name(name: str, what: str, language: str = "") -> str:
    """A name that every language takes as the start of an identifier, and that `language` (Verilog, WGSL), if given, takes as a
    whole one beside the names of the generated text."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise CircuitError(f"[{what}] the name {name!r} is no identifier; use letters, digits and _, a letter first.")
    if language and name in RESERVED[language]:
        raise CircuitError(
            f"[{what}] {language} reserves the name {name!r}.\n  Hint: another one, such as {name}_circuit."
        )
    if language and re.fullmatch(r"[xyg]\d*", name):
        raise CircuitError(
            f"[{what}] the {language} text names its wires x0, g0 and so on, and {name!r} among them.\n"
            f"  Hint: another one, such as {name}_circuit."
        )
    return name


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
    """The text after the dashes in a file of this folder; the text before them stands for the generated part."""
    text = files("shadergrad.logic.circuit").joinpath(name).read_text(encoding="utf-8")
    return text.partition("----")[2].partition("\n")[2]
