"""WGSL: a circuit as a function on 32-bit words, and a kernel that steps a packed board, a word of 32 cells a thread."""

from __future__ import annotations

from .bit_packing import words_for
from .cell import CellCircuit
from .circuit import Circuit
from .errors import CircuitError, check_kind
from .export_names import check_name
from .export_statements import Syntax, gate_statements, indent, output_statements, template
from .gate_order import live_inputs
from .neighbourhood import neighbour

SYNTAX = Syntax("let {wire} = {value};", "0u", "0xffffffffu")
WORKGROUP = 64
MAX_WORKGROUPS = 65535  # along one axis, as every WebGPU allows

_FUNCTIONS = {-1: "west", 0: "word", 1: "east"}


def to_wgsl(circuit: Circuit, name: str = "circuit") -> str:
    """A function `NAME(x: array<u32, inputs>) -> array<u32, outputs>`, each bit of the words a cell of its own.

    Raises CircuitError for a name that is not an identifier, or that WGSL or the function reserves.

    >>> print(sg.logic.circuit.to_wgsl(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2]), name="xor2"))
    // 1 gates on 32-bit words. Made by shadergrad.
    fn xor2(x: array<u32, 2>) -> array<u32, 1> {
        let x0 = x[0];
        let x1 = x[1];
        let g0 = x0 ^ x1;
        var y: array<u32, 1>;
        y[0] = g0;
        return y;
    }
    """
    check_kind(circuit, Circuit, "to_wgsl")
    check_name(name, "to_wgsl", "WGSL")
    loads = [f"let x{i} = x[{i}];" for i in live_inputs(circuit)]
    stores = output_statements(circuit, lambda k, wire: f"y[{k}] = {wire};")
    outputs = f"array<u32, {len(circuit.outputs)}>"
    return f"""// {len(circuit)} gates on 32-bit words. Made by shadergrad.
fn {name}(x: array<u32, {circuit.inputs}>) -> {outputs} {{
{indent([*loads, *gate_statements(circuit, SYNTAX), f"var y: {outputs};", *stores, "return y;"], 1)}
}}
"""


def cell_to_wgsl(cell: CellCircuit, height: int, width: int, fire: bool | None = None) -> str:
    """A compute kernel `main` that reads a board and writes the next one.

    Bindings of group 0: 0 state, 1 next, both planes [channels][height][row words] of u32, column 32 k + j at bit j of
    word k, bits past the width 0; with `fire` (left out: where the fire rate is below 1) 2, [height][row words], a 1
    where a cell takes its new bits. Row words are `row_words(width)`: even, so that these are the words of a packed
    Board (`board.words.view("<u4")`). A word that holds no cell is not written: both buffers start as zeros there.
    Dispatch `workgroups(height, width)`. Simplify the automaton first. Raises CircuitError for an empty board.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))
    >>> text = sg.logic.circuit.cell_to_wgsl(cell, 4, 8)
    >>> print(text.splitlines()[0])
    // 0 gates, 1 channels, 4 x 8 cells, border zeros. Made by shadergrad.
    """
    check_kind(cell, CellCircuit, "cell_to_wgsl")
    if height < 1 or width < 1:
        raise CircuitError(f"[cell_to_wgsl] a board of {height} x {width} cells is empty.")
    masked = cell.fire_rate < 1 if fire is None else fire
    circuit = cell.circuit
    loads = [_load(i, cell.channels) for i in live_inputs(circuit)]
    stores = output_statements(circuit, lambda k, wire: f"store({k}u, y, k, {wire});")
    head = f"// {len(circuit)} gates, {cell.channels} channels, {height} x {width} cells, border {cell.border}. Made by shadergrad.\n"
    body = template("step.wgsl").replace(
        "    // the circuit", indent([*loads, *gate_statements(circuit, SYNTAX), *stores], 1)
    )
    return head + _constants(cell, height, width) + _fire(masked) + body


def row_words(width: int) -> int:
    """How many 32-bit words a row of a packed board has."""
    return 2 * words_for(width)


def workgroups(height: int, width: int) -> tuple[int, int, int]:
    """How many workgroups step a board: a thread for every word that holds cells."""
    threads = height * -(-width // 32)
    groups = -(-threads // WORKGROUP)
    if groups <= MAX_WORKGROUPS:
        return groups, 1, 1
    return MAX_WORKGROUPS, -(-groups // MAX_WORKGROUPS), 1


def _load(i: int, channels: int) -> str:
    dy, dx, channel = neighbour(i, channels)
    row = {-1: "north", 0: "y", 1: "south"}[dy]
    return f"let x{i} = {_FUNCTIONS[dx]}({channel}u, {row}, k);"


def _constants(cell: CellCircuit, height: int, width: int) -> str:
    return f"""const HEIGHT = {height}u;
const WIDTH = {width}u;
const ROW_WORDS = {row_words(width)}u;
const PERIODIC = {str(cell.periodic).lower()};
"""


def _fire(masked: bool) -> str:
    if not masked:
        return "\nfn fired(y: u32, k: u32) -> u32 {\n    return 0xffffffffu;\n}\n"
    return """
@group(0) @binding(2) var<storage, read> fire: array<u32>;

fn fired(y: u32, k: u32) -> u32 {
    return fire[y * ROW_WORDS + k];
}
"""
