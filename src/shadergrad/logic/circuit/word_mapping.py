"""A circuit mapped to operations on whole words: few operations, few registers.

In: a circuit. Out: instructions AND, OR, XOR and NOT on numbered registers, each overwriting a dead value if possible, so that
an evaluation stays in the nearest caches.

NumPy has no fused AND NOT or NAND. So a node may be held inverted: the inverse of an AND costs nothing if its readers account
for it, and NOT a AND NOT b is the inverse of a OR b. Only an AND of a plain and an inverted value needs a NOT, which other
readers share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .circuit import Circuit
from .gate_kinds import A_AND_NOT_B, NOT_A_AND_B, OR, XOR
from .gate_order import depth_first
from .structural_hashing import LogicGraph, graph_of


@dataclass(frozen=True)
class Instruction:
    """`out = a op b` on registers; `not` ignores b, `zero` and `one` ignore both, `copy` ignores b."""

    name: str  # and, or, xor, not, copy, zero, one
    a: int
    b: int
    out: int


@dataclass(frozen=True)
class MappedCircuit:
    """Registers 0 to inputs - 1 hold the inputs and are never written; the next `outputs` ones are the outputs."""

    inputs: int
    outputs: int
    registers: int
    instructions: tuple[Instruction, ...]

    def inputs_read(self) -> list[int]:
        """The inputs that some instruction reads."""
        read = {r for o in self.instructions for r in sources(o)}
        return sorted(r for r in read if r < self.inputs)


def sources(instruction: Instruction) -> tuple[int, ...]:
    """The registers that an instruction reads."""
    if instruction.name in ("zero", "one"):
        return ()
    if instruction.name in ("not", "copy"):
        return (instruction.a,)
    return (instruction.a, instruction.b)


@lru_cache(maxsize=64)
def map_circuit(circuit: Circuit) -> MappedCircuit:
    """The instructions that compute a circuit; shares structure, folds constants, and is cached.

    Logic synthesis calls this technology mapping: gates of any kind to those that the machine has.
    """
    graph, outputs = graph_of(circuit)
    mapper = _Mapper(graph)
    for node in _order(graph, outputs):
        mapper.add(node)
    results = [mapper.output(literal) for literal in outputs]
    return _allocate(circuit.inputs, mapper.instructions, results)


def _order(graph: LogicGraph, literals: list[int]) -> list[int]:
    parts = [[graph.a[n], graph.b[n]] if graph.is_gate(n) else [] for n in range(len(graph.kinds))]
    return [node for node in depth_first([x >> 1 for x in literals], parts) if graph.is_gate(node)]


class _Mapper:
    """Instructions on values that are written once; inputs are the first values."""

    def __init__(self, graph: LogicGraph) -> None:
        self._graph = graph
        self._readers = graph.readers(range(len(graph.kinds)))
        self.instructions: list[Instruction] = []
        self._held = {node + 1: (node, 0) for node in range(graph.inputs)}  # node: value, held inverted?
        self._inverses: dict[int, int] = {}

    def add(self, node: int) -> None:
        kind, a, b = self._graph.kinds[node], self._graph.a[node], self._graph.b[node]
        (x, x_inverted), (y, y_inverted) = self._held[a], self._held[b]
        if kind == XOR:
            self._held[node] = self._emit("xor", x, y), x_inverted ^ y_inverted
            return
        # every other form is an AND of operands that may be inverted; OR is its inverse with both inverted
        x_inverted ^= kind in (NOT_A_AND_B, OR)
        y_inverted ^= kind in (A_AND_NOT_B, OR)
        if x_inverted != y_inverted:
            if self._better_inverse(a, x, b, y):
                x, x_inverted = self._inverse(x), y_inverted
            else:
                y, y_inverted = self._inverse(y), x_inverted
        name = "or" if x_inverted else "and"
        self._held[node] = self._emit(name, x, y), x_inverted ^ (kind == OR)

    def _better_inverse(self, a: int, x: int, b: int, y: int) -> bool:
        """Whether to invert x rather than y: the one that is inverted already, else the one with more readers."""
        if (x in self._inverses) != (y in self._inverses):
            return x in self._inverses
        return self._readers[a] >= self._readers[b]

    def output(self, literal: int) -> int:
        """The value of an output: its own, as outputs have registers of their own."""
        node, inverted = literal >> 1, literal & 1
        if node == 0:
            return self._emit("one" if inverted else "zero", 0, 0)
        value, held_inverted = self._held[node]
        return self._emit("copy" if inverted == held_inverted else "not", value, 0)

    def _inverse(self, value: int) -> int:
        if value not in self._inverses:
            self._inverses[value] = self._emit("not", value, 0)
        return self._inverses[value]

    def _emit(self, name: str, a: int, b: int) -> int:
        value = self._graph.inputs + len(self.instructions)
        self.instructions.append(Instruction(name, a, b, value))
        return value


def _allocate(inputs: int, instructions: list[Instruction], results: list[int]) -> MappedCircuit:
    """Values to registers, by last use; a copied value is computed where it is copied to."""
    home = {value: inputs + k for k, value in enumerate(results)}
    instructions = _coalesce(instructions, home, inputs)
    last_read = {value: at for at, o in enumerate(instructions) for value in sources(o)}
    free: list[int] = []
    count = inputs + len(results)
    written = []
    for at, o in enumerate(instructions):
        a, b = (r if r < inputs else home[r] for r in (o.a, o.b))
        for value in set(sources(o)):
            if value >= inputs and last_read[value] == at and home[value] >= inputs + len(results):
                free.append(home[value])
        if o.out not in home:
            if not free:
                free.append(count)
                count += 1
            home[o.out] = free.pop()
        written.append(Instruction(o.name, a, b, home[o.out]))
    return MappedCircuit(inputs, len(results), count, tuple(written))


def _coalesce(instructions: list[Instruction], home: dict[int, int], inputs: int) -> list[Instruction]:
    """Drops the first copy of each computed value into an output: the value gets the output's register at once."""
    kept = []
    for o in instructions:
        if o.name == "copy" and o.a >= inputs and o.a not in home:
            home[o.a] = home[o.out]
        else:
            kept.append(o)
    return kept
