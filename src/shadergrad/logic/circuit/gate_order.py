"""The live gates of a circuit, and a good order of evaluation."""

from __future__ import annotations

import numpy as np

from .circuit import Circuit
from .gate_kinds import reads_a, reads_b

_READS_A = tuple(reads_a(kind) for kind in range(16))
_READS_B = tuple(reads_b(kind) for kind in range(16))


def operands(kind: int, a: int, b: int) -> list[int]:
    """The wires on which a gate depends."""
    return [wire for wire, reads in ((a, _READS_A[kind]), (b, _READS_B[kind])) if reads]


def live_wires(circuit: Circuit) -> np.ndarray:
    """Bool (wires,): inputs and gates on which some output depends, judged by the wiring alone."""
    live = np.zeros(circuit.wires, bool)
    live[circuit.outputs] = True
    gates = list(circuit.gates())
    for k in reversed(range(len(gates))):
        if live[circuit.inputs + k]:
            live[operands(*gates[k])] = True
    return live


def live_inputs(circuit: Circuit) -> list[int]:
    """The inputs on which some output depends."""
    return np.flatnonzero(live_wires(circuit)[: circuit.inputs]).tolist()


def depth_first(roots: list[int], operands_of: list[list[int]]) -> list[int]:
    """Everything that roots depend on, operands first, deeper operands before shallower ones.

    Each value is computed shortly before its use, so few are alive at a time; a layer-by-layer order would keep whole layers.
    `operands_of[i]` lists what i depends on, numbers below i.
    """
    depth: list[int] = []
    for parts in operands_of:
        depth.append(1 + max((depth[p] for p in parts), default=-1))
    seen = [False] * len(operands_of)
    order: list[int] = []
    for root in roots:
        stack = [(root, False)]
        while stack:
            item, ready = stack.pop()
            if ready:
                order.append(item)
            elif not seen[item]:
                seen[item] = True
                stack.append((item, True))
                stack.extend((p, False) for p in sorted(operands_of[item], key=depth.__getitem__) if not seen[p])
    return order


def evaluation_order(circuit: Circuit) -> list[int]:
    """The live gates (numbers from 0, not wires), operands first, in an order that keeps few values alive."""
    parts: list[list[int]] = [[] for _ in range(circuit.inputs)]
    parts += [operands(*gate) for gate in circuit.gates()]
    wires = depth_first(circuit.outputs.tolist(), parts)
    return [wire - circuit.inputs for wire in wires if wire >= circuit.inputs]
