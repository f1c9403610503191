"""Circuits for tests: the Game of Life, built by hand from adders; random ones; and a cell-by-cell evaluation."""

from __future__ import annotations

import numpy as np

from shadergrad.logic.circuit import CellCircuit, Circuit

AND, A_AND_NOT_B, XOR, OR = 1, 2, 6, 7


class Builder:
    """Gates one after the other; methods give wires."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.gates: list[tuple[int, int, int]] = []

    def gate(self, kind: int, a: int, b: int) -> int:
        self.gates.append((kind, a, b))
        return self.inputs + len(self.gates) - 1

    def half_adder(self, a: int, b: int) -> tuple[int, int]:
        """Sum and carry."""
        return self.gate(XOR, a, b), self.gate(AND, a, b)

    def full_adder(self, a: int, b: int, c: int) -> tuple[int, int]:
        """Sum and carry."""
        half, first = self.half_adder(a, b)
        total, second = self.half_adder(half, c)
        return total, self.gate(OR, first, second)


def life_circuit() -> Circuit:
    """Conway's rule: alive next with three living neighbours, or with two if alive now."""
    build = Builder(9)
    ones_a, twos_a = build.full_adder(0, 1, 2)
    ones_b, twos_b = build.full_adder(3, 5, 6)
    ones_c, twos_c = build.half_adder(7, 8)
    ones, twos_d = build.full_adder(ones_a, ones_b, ones_c)
    # the count is ones + 2 (twos_a + .. + twos_d); it is 2 or 3 where exactly one of the four is set, or three of them,
    # and three make 6 or 7: two pairs tell these apart
    left, both_left = build.half_adder(twos_a, twos_b)
    right, both_right = build.half_adder(twos_c, twos_d)
    odd = build.gate(XOR, left, right)
    four_or_more = build.gate(OR, both_left, both_right)
    two_or_three = build.gate(A_AND_NOT_B, odd, four_or_more)
    alive = build.gate(AND, two_or_three, build.gate(OR, ones, 4))
    names = ("nw", "n", "ne", "w", "centre", "e", "sw", "s", "se")
    return Circuit(9, build.gates, [alive], names, ("alive",))


def life(border: str = "periodic", fire_rate: float = 1.0) -> CellCircuit:
    return CellCircuit(life_circuit(), border, fire_rate)


def random_circuit(
    rng: np.random.Generator, inputs: int, gates: int, outputs: int, window: int | None = None
) -> Circuit:
    """Gates of all kinds that read any earlier wire, or one of the last `window`; outputs among the last wires."""
    table = []
    for wire in range(inputs, inputs + gates):
        low = max(0, wire - window) if window else 0
        table.append((int(rng.integers(16)), int(rng.integers(low, wire)), int(rng.integers(low, wire))))
    wires = inputs + gates
    return Circuit(inputs, table, rng.integers(max(0, wires - 2 * outputs), wires, outputs))


def random_cell(
    rng: np.random.Generator, channels: int, border: str = "zeros", gates: int = 80, fire_rate: float = 1.0
) -> CellCircuit:
    return CellCircuit(random_circuit(rng, 9 * channels, gates, channels), border, fire_rate)


def random_board(rng: np.random.Generator, height: int, width: int, channels: int = 1) -> np.ndarray:
    return rng.random((height, width, channels)) < 0.5


TABLES = [[int(digit) for digit in f"{kind:04b}"] for kind in range(16)]  # by definition: f(00) f(01) f(10) f(11)


def naive_gate(kind: int, a: int, b: int) -> int:
    return TABLES[kind][2 * a + b]


def naive_circuit(circuit: Circuit, bits: list[int]) -> list[int]:
    values = list(bits)
    for kind, a, b in circuit.gates():
        values.append(TABLES[kind][2 * values[a] + values[b]])
    return [values[wire] for wire in circuit.outputs.tolist()]


def naive_step(cell: CellCircuit, state: np.ndarray, fire: np.ndarray | None = None) -> np.ndarray:
    """One step, cell by cell and gate by gate, in plain Python."""
    height, width, channels = state.shape
    result = np.zeros((height, width, channels), bool)
    for y in range(height):
        for x in range(width):
            patch = [
                _bit(cell, state, y + dy, x + dx, channel)
                for dy in (-1, 0, 1)
                for dx in (-1, 0, 1)
                for channel in range(channels)
            ]
            fires = fire is None or fire[y, x]
            result[y, x] = naive_circuit(cell.circuit, patch) if fires else state[y, x]
    return result


def _bit(cell: CellCircuit, state: np.ndarray, y: int, x: int, channel: int) -> int:
    height, width, _ = state.shape
    if cell.border == "periodic":
        return int(state[y % height, x % width, channel])
    return int(state[y, x, channel]) if 0 <= y < height and 0 <= x < width else 0
