"""SVG: a circuit as a drawing, which needs no other program."""

from __future__ import annotations

from .circuit import Circuit, input_names, output_names
from .errors import check_kind
from .svg_drawing import draw


def to_svg(circuit: Circuit) -> str:
    """A drawing of the gates on which an output depends. A wire that its gate inverts ends in a small circle.

    Readable up to some hundred gates: minimize first.

    >>> sg.logic.circuit.to_svg(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2])).count("<rect")  # x0, x1, XOR, y0
    4
    """
    check_kind(circuit, Circuit, "to_svg")
    return draw(input_names(circuit), list(circuit.gates()), output_names(circuit), circuit.outputs.tolist())
