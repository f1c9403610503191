"""C99: a circuit over blocks of 64-bit words, and a step of a whole board.

The block function evaluates all gates inside one loop over words, so a compiler turns each gate into one instruction on its
widest registers (or several gates into one, with three-operand logic). The step gathers the nine neighbours of a block that
fits the first-level cache, calls it, and writes the outputs of the cells that fire.
"""

from __future__ import annotations

from .cell import CellCircuit
from .circuit import Circuit
from .errors import check_kind
from .export_names import check_name
from .export_statements import Syntax, gate_statements, indent, output_statements, template
from .gate_order import live_inputs
from .neighbourhood import neighbour

SYNTAX = Syntax("const uint64_t {wire} = {value};", "UINT64_C(0)", "~UINT64_C(0)")
BLOCK_BYTES = 24 << 10  # of a block's inputs and outputs: most of a first-level cache
MIN_BLOCK, MAX_BLOCK = 16, 512


def to_c(circuit: Circuit, name: str = "circuit") -> str:
    """A C99 file with `NAME_block(x, y, n)`: y[k][i] = output k of the inputs x[0][i], x[1][i], ..., for i < n.

    Words are uint64_t, 64 cells each; x and y are [inputs][NAME_BLOCK] and [outputs][NAME_BLOCK], n at most NAME_BLOCK.
    Raises CircuitError for a name that is not an identifier.

    >>> text = sg.logic.circuit.to_c(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2]))
    >>> print(text[text.index("const uint64_t x0"):])
    const uint64_t x0 = x[0][i];
            const uint64_t x1 = x[1][i];
            const uint64_t g0 = x0 ^ x1;
            y[0][i] = g0;
        }
    }
    """
    check_kind(circuit, Circuit, "to_c")
    check_name(name, "to_c")
    block = _block_words(len(live_inputs(circuit)) + len(circuit.outputs))
    return "\n".join((_head(circuit, name, block), _block_function(circuit, name)))


def cell_to_c(cell: CellCircuit, name: str = "automaton") -> str:
    """The same file with `NAME_step(state, fire, next, height, width)`, one step of a board.

    state and next are planes [channels][height][words], words = (width + 63) / 64, column 64 k + j at bit j of word k, bits
    past the width 0 in both. fire is [height][words], a 1 where a cell takes its new bits, or NULL for all cells. Simplify the
    automaton first.
    Raises CircuitError for a name that is not an identifier.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))
    >>> "void shift_step(" in sg.logic.circuit.cell_to_c(cell, name="shift")
    True
    """
    check_kind(cell, CellCircuit, "cell_to_c")
    body = template("step.c").replace("NAME", name)
    return "\n".join((to_c(cell.circuit, name), _reads(cell, name), body))


def _block_words(planes: int) -> int:
    words = BLOCK_BYTES // (8 * planes) // MIN_BLOCK * MIN_BLOCK
    return min(max(words, MIN_BLOCK), MAX_BLOCK)


def _head(circuit: Circuit, name: str, block: int) -> str:
    return f"""/* {len(circuit)} gates on 64-bit words, each bit a cell of its own. C99. Made by shadergrad. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {{ {name}_INPUTS = {circuit.inputs}, {name}_OUTPUTS = {len(circuit.outputs)}, {name}_BLOCK = {block} }};
"""


def _block_function(circuit: Circuit, name: str) -> str:
    loads = [f"const uint64_t x{i} = x[{i}][i];" for i in live_inputs(circuit)]
    stores = output_statements(circuit, lambda k, wire: f"y[{k}][i] = {wire};")
    unused = [] if loads else ["(void)x;"]
    return f"""void {name}_block(const uint64_t (*restrict x)[{name}_BLOCK], uint64_t (*restrict y)[{name}_BLOCK], size_t n)
{{
{indent([*unused, "for (size_t i = 0; i < n; i++) {"], 1)}
{indent([*loads, *gate_statements(circuit, SYNTAX), *stores], 2)}
    }}
}}
"""


def _reads(cell: CellCircuit, name: str) -> str:
    """The table of the inputs to gather: row offset, column offset, channel, input."""
    rows = [(*neighbour(i, cell.channels), i) for i in live_inputs(cell.circuit)]
    entries = [f"{{{dy}, {dx}, {channel}, {i}}}," for dy, dx, channel, i in rows]
    table = indent(entries or ["{0, 0, 0, 0},"], 1)
    return f"""enum {{ {name}_PERIODIC = {int(cell.periodic)}, {name}_READS = {len(rows)} }};

/* the inputs that matter: row offset, column offset, channel, input */
static const int {name}_reads[][4] = {{
{table}
}};
"""
