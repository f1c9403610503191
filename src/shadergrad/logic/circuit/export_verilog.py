"""Verilog 2001: a circuit as a module; a classifier with its counts; a cell and a board of cells with a register for each bit, clocked."""

from __future__ import annotations

from .cell import CellCircuit
from .circuit import Circuit
from .classifier import CircuitClassifier
from .export_statements import Syntax, check_name, gate_statements, indent, output_statements, template
from .gate_order import live_inputs

SYNTAX = Syntax("wire {wire} = {value};", "1'b0", "1'b1")


def to_verilog(circuit: Circuit, name: str = "circuit") -> str:
    """A module `NAME(x, y)`: y[k] is output k of the inputs x[0], x[1], .... Combinational.

    Raises CircuitError for a name that is not an identifier, or that Verilog or the module reserves.

    >>> print(sg.logic.circuit.to_verilog(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2]), name="xor2"))
    // 1 gates. Made by shadergrad.
    module xor2(input wire [1:0] x, output wire [0:0] y);
        wire x0 = x[0];
        wire x1 = x[1];
        wire g0 = x0 ^ x1;
        assign y[0] = g0;
    endmodule
    """
    check_name(name, "to_verilog", "Verilog")
    loads = [f"wire x{i} = x[{i}];" for i in live_inputs(circuit)]
    stores = output_statements(circuit, lambda k, wire: f"assign y[{k}] = {wire};")
    return f"""// {len(circuit)} gates. Made by shadergrad.
module {name}(input wire [{circuit.inputs - 1}:0] x, output wire [{len(circuit.outputs) - 1}:0] y);
{indent([*loads, *gate_statements(circuit, SYNTAX), *stores], 1)}
endmodule
"""


def classifier_to_verilog(classifier: CircuitClassifier, name: str = "classifier") -> str:
    """Modules `NAME_gates` (the circuit) and `NAME(x, label, votes)`, combinational: label is the class with the most votes, the first
    of equals; votes holds the count of class c in bits c * WIDTH to c * WIDTH + WIDTH - 1, WIDTH = group.bit_length().

    x[i] is input i of the circuit, a bit of `classifier.encode(images)`: comparing numbers with thresholds is left to what drives the
    module. Minimize the classifier first. Raises CircuitError for a name that is not an identifier, or that Verilog or the module reserves.

    >>> circuit = sg.logic.circuit.Circuit(2, [(1, 0, 1), (14, 0, 1)], [2, 3])
    >>> text = sg.logic.circuit.classifier_to_verilog(sg.logic.circuit.CircuitClassifier(circuit, 2), "tiny")
    >>> [line.split()[1] for line in text.splitlines() if line.startswith("module")]
    ['tiny_gates(input', 'tiny(']
    """
    check_name(name, "classifier_to_verilog", "Verilog")
    text = template("votes.v")
    digits = max(1, (classifier.classes - 1).bit_length())
    sizes = {
        "INPUTS": classifier.circuit.inputs,
        "CLASSES": classifier.classes,
        "GROUP": classifier.group,
        "WIDTH": max(1, classifier.group.bit_length()),
        "DIGITS": digits,
    }
    for parameter, value in sizes.items():
        text = text.replace(f"localparam {parameter} = 1", f"localparam {parameter} = {value}")
    ports = {"[0:0] x": "INPUTS", "[0:0] label": "DIGITS"}
    for port, size in ports.items():
        text = text.replace(port, f"[{sizes[size] - 1}:0] {port.split()[1]}")
    text = text.replace("[0:0] votes", f"[{sizes['CLASSES'] * sizes['WIDTH'] - 1}:0] votes")
    return "\n".join((to_verilog(classifier.circuit, f"{name}_gates"), text.replace("classifier", name)))


def cell_to_verilog(cell: CellCircuit, height: int, width: int, name: str = "automaton") -> str:
    """Modules `NAME_rule` (the circuit), `NAME_cell` and `NAME_grid` for a board of height x width cells.

    NAME_grid(clk, load, initial_state, fire, state): on a rising edge of clk, all cells take initial_state if load is 1; else
    those whose bit of fire is 1 take their next bits. Bit (y * WIDTH + x) * CHANNELS + c of state and initial_state is channel
    c of cell (y, x), bit y * WIDTH + x of fire is its own. HEIGHT, WIDTH and PERIODIC are parameters, so other sizes need no
    new export. Tie fire to ones for an automaton that always fires; below that, its source is the user's, as hardware has its
    own random bits. Simplify the automaton first.
    Raises CircuitError for a name that is not an identifier.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))
    >>> text = sg.logic.circuit.cell_to_verilog(cell, 4, 8, name="shift")
    >>> [line.split()[1] for line in text.splitlines() if line.startswith("module")]
    ['shift_rule(input', 'shift_cell', 'shift_grid']
    """
    check_name(name, "cell_to_verilog")
    grid = template("grid.v")
    sizes = {"HEIGHT": height, "WIDTH": width, "CHANNELS": cell.channels, "PERIODIC": int(cell.periodic)}
    for parameter, value in sizes.items():
        grid = grid.replace(f"parameter {parameter} = 1", f"parameter {parameter} = {value}")
    return "\n".join((to_verilog(cell.circuit, f"{name}_rule"), grid.replace("automaton", name)))
