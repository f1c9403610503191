"""The formats of logic synthesis: BLIF (Berkeley, 1992) and AIGER's text form (Biere, 2007). In: a circuit. Out: text."""

from __future__ import annotations

from .circuit import Circuit, input_names, output_names
from .errors import CircuitError, check_kind
from .export_names import apart, line, word, words
from .gate_kinds import value_of


def to_blif(circuit: Circuit, name: str = "circuit") -> str:
    """A model in BLIF, which ABC and Yosys read. Underscores replace the characters that its names cannot contain: blanks, #, =, quotes,
    backslashes, and all beyond ASCII. Raises CircuitError for an empty name.

    >>> print(sg.logic.circuit.to_blif(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2])))
    .model circuit
    .inputs x0 x1
    .outputs y0
    .names x0 x1 g0
    01 1
    10 1
    .names g0 y0
    1 1
    .end
    """
    check_kind(circuit, Circuit, "to_blif")
    if not word(name):
        raise CircuitError(f"[to_blif] the name {name!r} is empty; a model has one.")
    inputs = words(input_names(circuit), "in.")
    outputs = apart(words(output_names(circuit), "out."), "out.", set(inputs))
    wires = inputs + apart([f"g{k}" for k in range(len(circuit))], "gate.", {*inputs, *outputs})
    lines = [f".model {word(name)}", f".inputs {' '.join(inputs)}", f".outputs {' '.join(outputs)}"]
    for k, (kind, a, b) in enumerate(circuit.gates()):
        lines.append(f".names {wires[a]} {wires[b]} {wires[circuit.inputs + k]}")
        if a == b:
            lines[-1] = f".names {wires[a]} {wires[circuit.inputs + k]}"
            lines += [f"{x} 1" for x in (0, 1) if value_of(kind, x, x)]
        else:
            lines += [f"{x}{y} 1" for x in (0, 1) for y in (0, 1) if value_of(kind, x, y)]
    for output, wire in zip(outputs, circuit.outputs.tolist(), strict=True):
        lines += [f".names {wires[wire]} {output}", "1 1"]
    return "\n".join([*lines, ".end", ""])


def to_aiger(circuit: Circuit) -> str:
    """An and-inverter graph in AIGER's text form (.aag), with names, each on a line; an XOR becomes three ANDs.

    >>> print(sg.logic.circuit.to_aiger(sg.logic.circuit.Circuit(2, [(1, 0, 1)], [2])))
    aag 3 2 0 1 1
    2
    4
    6
    6 2 4
    i0 x0
    i1 x1
    o0 y0
    """
    check_kind(circuit, Circuit, "to_aiger")
    literals = [2 * (i + 1) for i in range(circuit.inputs)]
    ands: list[tuple[int, int, int]] = []

    def both(a: int, b: int) -> int:
        literal = 2 * (circuit.inputs + len(ands) + 1)
        ands.append((literal, a, b))
        return literal

    for kind, a, b in circuit.gates():
        x, y = literals[a], literals[b]
        ones = [(p, q) for p in (0, 1) for q in (0, 1) if value_of(kind, p, q)]
        if len(ones) in (0, 4):
            literals.append(int(bool(ones)))
        elif len(ones) == 2 and ones[0][0] == ones[1][0]:
            literals.append(x ^ (1 - ones[0][0]))
        elif len(ones) == 2 and ones[0][1] == ones[1][1]:
            literals.append(y ^ (1 - ones[0][1]))
        elif len(ones) == 2:  # XOR of a and b, or its inverse
            neither = both(both(x, y ^ 1) ^ 1, both(x ^ 1, y) ^ 1)
            literals.append(neither ^ (kind == 6))
        else:
            (p, q) = ones[0] if len(ones) == 1 else _only_zero(ones)
            literals.append(both(x ^ (1 - p), y ^ (1 - q)) ^ (len(ones) == 3))
    outputs = [literals[wire] for wire in circuit.outputs.tolist()]
    n = circuit.inputs
    lines = [f"aag {n + len(ands)} {n} 0 {len(outputs)} {len(ands)}", *(str(2 * (i + 1)) for i in range(n))]
    lines += [*map(str, outputs), *(f"{out} {a} {b}" for out, a, b in ands)]
    lines += [f"i{i} {line(name)}" for i, name in enumerate(input_names(circuit))]
    lines += [f"o{k} {line(name)}" for k, name in enumerate(output_names(circuit))]
    return "\n".join([*lines, ""])


def _only_zero(ones: list[tuple[int, int]]) -> tuple[int, int]:
    return next((p, q) for p in (0, 1) for q in (0, 1) if (p, q) not in ones)
