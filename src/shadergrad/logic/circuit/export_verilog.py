"""Verilog 2001: a circuit as a module; a classifier with its counts; a cell and a board of cells with a register for each bit, clocked."""

from __future__ import annotations

from .cell import CellCircuit
from .circuit import Circuit
from .classifier import CircuitClassifier
from .errors import CircuitError, check_kind
from .export_names import check_name
from .export_statements import Syntax, gate_statements, indent, output_statements, template
from .gate_kinds import expression
from .gate_order import evaluation_order, live_inputs, operands

SYNTAX = Syntax("wire {wire} = {value};", "1'b0", "1'b1")
WORD = 32  # inputs that a function reads at once: simulators copy the whole of a vector to read a bit of it
DEEPEST = 12  # gates in one expression, one within the other


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
    check_kind(circuit, Circuit, "to_verilog")
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

    x[i] is input i of the circuit, a bit of `classifier.encode(images)`: the logic that drives the module compares numbers with
    thresholds. Gates are blocking assignments in a function, which a simulator computes once for each new x, and counts are sums in pairs.
    Minimize the classifier first. Raises CircuitError for a name that is not an identifier, or that Verilog or the module reserves.

    >>> circuit = sg.logic.circuit.Circuit(2, [(1, 0, 1), (14, 0, 1)], [2, 3])
    >>> text = sg.logic.circuit.classifier_to_verilog(sg.logic.circuit.CircuitClassifier(circuit, 2), "tiny")
    >>> [line.split()[1] for line in text.splitlines() if line.startswith("module")]
    ['tiny_gates(input', 'tiny(']
    """
    check_kind(classifier, CircuitClassifier, "classifier_to_verilog")
    check_name(name, "classifier_to_verilog", "Verilog")
    text = template("votes.v")
    digits = max(1, (classifier.classes - 1).bit_length())
    sizes = {
        "CLASSES": classifier.classes,
        "GROUP": classifier.group,
        "WIDTH": max(1, classifier.group.bit_length()),
        "DIGITS": digits,
    }
    for parameter, value in sizes.items():
        text = text.replace(f"localparam {parameter} = 1", f"localparam {parameter} = {value}")
    ports = {"x": classifier.circuit.inputs, "label": digits, "votes": sizes["CLASSES"] * sizes["WIDTH"]}
    for port, size in ports.items():
        text = text.replace(f"[0:0] {port}", f"[{size - 1}:0] {port}")
    text = text.replace("ones = v[0];", f"ones = {_sum(0, classifier.group)};").replace("classifier", name)
    return "\n".join((_function(classifier.circuit, f"{name}_gates"), text))


def _sum(low: int, high: int) -> str:
    """The sum of bits of v, in pairs: an adder of as many levels as a count has bits."""
    if high - low == 1:
        return f"v[{low}]"
    middle = (low + high) // 2
    return f"({_sum(low, middle)} + {_sum(middle, high)})"


def _function(circuit: Circuit, name: str) -> str:
    """The module of `to_verilog` with its gates in a function. A gate that is read once is written inside the expression that reads it."""
    gates, order = list(circuit.gates()), evaluation_order(circuit)
    inputs, outputs = live_inputs(circuit), circuit.outputs.tolist()
    read = [0] * circuit.wires
    for wire in (*outputs, *(wire for k in order for wire in operands(*gates[k]))):
        read[wire] += 1
    values = {i: f"w{i // WORD}[{i % WORD}]" for i in inputs}
    depths, own, lines = dict.fromkeys(inputs, 0), [], []
    for k in order:
        kind, a, b = gates[k]
        wire = circuit.inputs + k
        # an operand that the gate does not read may be a wire without a value
        value = expression(kind, values.get(a, ""), values.get(b, ""), SYNTAX.zero, SYNTAX.one)
        depths[wire] = 1 + max((depths[other] for other in operands(kind, a, b)), default=0)
        values[wire] = f"({value})"
        if read[wire] > 1 or depths[wire] == DEEPEST:
            own.append(f"g{k}")
            lines.append(f"g{k} = {value};")
            values[wire], depths[wire] = f"g{k}", 0
    words = sorted({i // WORD for i in inputs})
    last = circuit.inputs - 1
    loads = [f"w{k} = x[{min(last, WORD * k + WORD - 1)}:{WORD * k}];" for k in words]
    locals_ = [f"reg [{WORD - 1}:0] w{k};" for k in words] + [f"reg {gate};" for gate in own]
    stores = [f"evaluate[{k}] = {values[wire]};" for k, wire in enumerate(outputs)]
    return f"""// {len(circuit)} gates. Made by shadergrad.
module {name}(input wire [{last}:0] x, output wire [{len(outputs) - 1}:0] y);
    function [{len(outputs) - 1}:0] evaluate(input [{last}:0] x);
{indent(locals_, 2)}
        begin
{indent([*loads, *lines, *stores], 3)}
        end
    endfunction
    assign y = evaluate(x);
endmodule
"""


def cell_to_verilog(cell: CellCircuit, height: int, width: int, name: str = "automaton") -> str:
    """Modules `NAME_rule` (the circuit), `NAME_cell` and `NAME_grid` for a board of height x width cells.

    NAME_grid(clk, load, initial_state, fire, state): on a rising edge of clk, all cells take initial_state if load is 1; else
    those whose bit of fire is 1 take their next bits. Bit (y * WIDTH + x) * CHANNELS + c of state and initial_state is channel
    c of cell (y, x), bit y * WIDTH + x of fire is its own. HEIGHT, WIDTH and PERIODIC are parameters, so other sizes need no
    new export. Tie fire to ones for an automaton that always fires; below that, its source is the user's, as hardware has its
    own random bits. Simplify the automaton first.
    Raises CircuitError for a name that is not an identifier, and for an empty board.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))
    >>> text = sg.logic.circuit.cell_to_verilog(cell, 4, 8, name="shift")
    >>> [line.split()[1] for line in text.splitlines() if line.startswith("module")]
    ['shift_rule(input', 'shift_cell', 'shift_grid']
    """
    check_kind(cell, CellCircuit, "cell_to_verilog")
    if height < 1 or width < 1:
        raise CircuitError(f"[cell_to_verilog] a board of {height} x {width} cells is empty.")
    check_name(name, "cell_to_verilog")
    grid = template("grid.v")
    sizes = {"HEIGHT": height, "WIDTH": width, "CHANNELS": cell.channels, "PERIODIC": int(cell.periodic)}
    for parameter, value in sizes.items():
        grid = grid.replace(f"parameter {parameter} = 1", f"parameter {parameter} = {value}")
    return "\n".join((to_verilog(cell.circuit, f"{name}_rule"), grid.replace("automaton", name)))
