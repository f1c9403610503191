"""Equivalence of two circuits, by all assignments if possible, else by random assignments and decision diagrams."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from .bit_packing import WORD, pack_last, unpack_last, words_for
from .circuit import Circuit
from .decision_diagrams import FALSE, MOST_INPUTS, DiagramLimit, Diagrams
from .errors import CircuitError
from .gate_kinds import XOR
from .gate_order import operands

EXHAUSTIVE_INPUTS = 20
RANDOM_PATCHES = 1_000_000
MOST_NODES = 100_000  # of an output's diagrams: about a second
MOST_NODES_TOGETHER = 300_000  # of all outputs, each with diagrams of its own
_BLOCK = 1024  # words at a time


@dataclass(frozen=True)
class Counterexample:
    """Bits of the inputs, and the outputs of each circuit.

    >>> one = sg.logic.circuit.Circuit(2, [(7, 0, 1)], [2])  # OR
    >>> other = sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2])  # XOR
    >>> found = sg.logic.circuit.equivalent(one, other).counterexample
    >>> found.inputs.tolist(), found.left.tolist(), found.right.tolist()
    ([True, True], [True], [False])
    """

    inputs: np.ndarray
    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Equivalence:
    """True if no difference was found; bool() warns if equality is not proved, either. proved: whether it is, by all
    assignments (`exhaustive`) or by decision diagrams; otherwise it rests on `checked` random assignments. str() gives the
    method and the result.

    >>> circuit = sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2])
    >>> sg.logic.circuit.equivalent(circuit, circuit)
    Equivalence(counterexample=None, exhaustive=True, checked=4, proved=True)
    >>> str(sg.logic.circuit.equivalent(circuit, circuit))
    'proved equal on all 4 assignments'
    """

    counterexample: Counterexample | None
    exhaustive: bool
    checked: int
    proved: bool = False
    gave_up: str = field(default="", repr=False)  # how many outputs the diagrams prove, and why not all

    def __bool__(self) -> bool:
        if self.counterexample is None and not self.proved:
            warnings.warn(f"[equivalent] {self}. Hint: read .proved.", stacklevel=2)
        return self.counterexample is None

    def __str__(self) -> str:
        if self.counterexample is not None:
            return f"different, for the inputs {''.join(str(int(bit)) for bit in self.counterexample.inputs)}"
        if self.exhaustive:
            return f"proved equal on all {self.checked:,} assignments"
        if self.proved:
            return f"proved equal by decision diagrams, after no difference on {self.checked:,} random assignments"
        return f"not proved equal: no difference on {self.checked:,} random assignments, and {self.gave_up}"


def equivalent(left: Circuit, right: Circuit, patches: int = RANDOM_PATCHES, seed: int = 0) -> Equivalence:
    """Compare two circuits: up to 20 inputs on all assignments; above, on `patches` random ones and then by decision diagrams,
    which prove equality or find a difference, output by output. An output that reads more than 256 inputs, or whose diagrams take too many
    nodes, rests on the assignments; `str()` of the result says how many outputs are proved, and why the next is not.

    The random assignments come in blocks of 65,536 in which a bit is 1 with probability 1/2, 1/4, 3/4 or 1/16 in turn: fair
    bits seldom distinguish wide ANDs and ORs. The same seed gives the same assignments. Code that shares nothing with
    `minimize` evaluates both circuits gate by gate. Names do not matter, only the order of inputs and outputs.
    Raises CircuitError if the numbers of inputs or outputs differ, for anything but a Circuit (a CellCircuit has a state, a border and a rate
    beside its circuit), and for a negative number of patches.

    >>> nand = sg.logic.circuit.Circuit(2, [(14, 0, 1)], [2])
    >>> inverted = sg.logic.circuit.Circuit(2, [(1, 0, 1), (12, 2, 2)], [3])  # NOT (a AND b)
    >>> bool(sg.logic.circuit.equivalent(nand, inverted))
    True
    """
    for side, circuit in (("left", left), ("right", right)):
        if not isinstance(circuit, Circuit):
            raise CircuitError(
                f"[equivalent] {side} is a {type(circuit).__name__}; circuits are compared, and no state, border or thresholds."
                + (
                    f"\n  Hint: give {side}.circuit, and compare the rest yourself."
                    if hasattr(circuit, "circuit")
                    else ""
                )
            )
    if (left.inputs, len(left.outputs)) != (right.inputs, len(right.outputs)):
        raise CircuitError(
            f"[equivalent] the circuits have {left.inputs} inputs and {len(left.outputs)} outputs, "
            f"and {right.inputs} and {len(right.outputs)}."
        )
    if not isinstance(patches, int | np.integer) or patches < 0:
        raise CircuitError(
            f"[equivalent] patches is {patches!r}; a number of random assignments, 0 or more, is needed."
        )
    exhaustive = left.inputs <= EXHAUSTIVE_INPUTS
    total = 1 << left.inputs if exhaustive else patches
    rng = np.random.default_rng(seed)
    for start in range(0, words_for(total), _BLOCK):
        count = min(_BLOCK, words_for(total) - start)
        words = all_words(left.inputs, start, count) if exhaustive else random_words(rng, left.inputs, start, count)
        found = _difference(left, right, words, min(count * WORD, total - start * WORD))
        if found is not None:
            return Equivalence(found, exhaustive, min(total, (start + count) * WORD))
    return Equivalence(None, True, total, True) if exhaustive else _by_diagrams(left, right, total)


def _by_diagrams(left: Circuit, right: Circuit, checked: int) -> Equivalence:
    """Compare circuits that agree on `checked` assignments by decision diagrams."""
    both = [(circuit, list(circuit.gates()), _depths(circuit)) for circuit in (left, right)]
    nodes, why, unproved = MOST_NODES_TOGETHER, "", 0
    for k in range(len(left.outputs)):
        cones = [_Cone(*parts, int(parts[0].outputs[k])) for parts in both]
        order = {wire: place for place, wire in enumerate(dict.fromkeys(wire for cone in cones for wire in cone.read))}
        diagrams = Diagrams(min(MOST_NODES, nodes))
        try:
            ours, theirs = (cone.diagram(diagrams, order) for cone in cones)
            differs = diagrams.gate(XOR, ours, theirs)
        except DiagramLimit:
            unproved += 1
            why = why or f"output {k} {_reason(len(order), min(MOST_NODES, nodes))}"
            differs = FALSE
        if differs != FALSE:
            known = diagrams.example(differs)
            bits = np.array([known.get(order.get(i, -1), False) for i in range(left.inputs)])
            return Equivalence(Counterexample(bits, left.evaluate(bits), right.evaluate(bits)), False, checked)
        nodes = max(0, nodes - diagrams.size)
    if not unproved:
        return Equivalence(None, False, checked, True)
    count = len(left.outputs)
    told = f"decision diagrams prove {count - unproved:,} of {count:,} outputs: {why}"
    return Equivalence(None, False, checked, gave_up=told)


def _reason(inputs: int, most: int) -> str:
    """Why an output is not proved."""
    if inputs > MOST_INPUTS:
        return f"reads {inputs:,} inputs, and more than {MOST_INPUTS} are not tried"
    if most < MOST_NODES:
        return f"would exceed {MOST_NODES_TOGETHER:,} nodes of all outputs together"
    return f"would exceed {most:,} nodes"


def _depths(circuit: Circuit) -> list[int]:
    """The depth of each wire: the most gates on a path from the inputs."""
    found = [0] * circuit.inputs
    for gate in circuit.gates():
        found.append(1 + max((found[wire] for wire in operands(*gate)), default=0))
    return found


class _Cone:
    """The gates on which an output depends, deeper operands first. read: the inputs among its wires, in the order in which these gates read
    them, which keeps diagrams small."""

    def __init__(self, circuit: Circuit, gates: list[tuple[int, int, int]], depths: list[int], output: int) -> None:
        self._gates, self._inputs, self._output = gates, circuit.inputs, output
        self._own: list[int] = []
        self.read: list[int] = []
        seen, stack = set[int](), [(output, False)]
        while stack:
            wire, ready = stack.pop()
            if ready:
                self._own.append(wire)
            elif wire not in seen:
                seen.add(wire)
                if wire < circuit.inputs:
                    self.read.append(wire)
                else:
                    parts = sorted(operands(*gates[wire - circuit.inputs]), key=depths.__getitem__)
                    stack += [(wire, True), *((part, False) for part in parts)]

    def diagram(self, diagrams: Diagrams, order: dict[int, int]) -> int:
        """The diagram of the output. Raises DiagramLimit."""
        found = {wire: diagrams.input(order[wire]) for wire in self.read}
        for wire in self._own:
            kind, a, b = self._gates[wire - self._inputs]
            # an operand that the gate ignores may be a wire that is not computed
            found[wire] = diagrams.gate(kind, found.get(a, FALSE), found.get(b, FALSE))
        return found[self._output]


def all_words(inputs: int, start: int, count: int) -> np.ndarray:
    """Words of the assignments from 64 * start on: in assignment n, input i is bit i of n."""
    numbers = np.arange(start * WORD, (start + count) * WORD)
    return pack_last((numbers >> np.arange(inputs)[:, None] & 1).astype(bool))


def random_words(rng: np.random.Generator, inputs: int, start: int, count: int) -> np.ndarray:
    """Words of random assignments. The probability of a 1 depends on the number of the block of 1,024 words."""

    def draw() -> np.ndarray:
        return rng.integers(0, 1 << 64, (inputs, count), np.uint64)

    match start // _BLOCK % 4:
        case 0:
            return draw()
        case 1:
            return draw() & draw()
        case 2:
            return draw() | draw()
        case _:
            return draw() & draw() & draw() & draw()


def _difference(left: Circuit, right: Circuit, words: np.ndarray, patches: int) -> Counterexample | None:
    """The first of `patches` assignments on which the circuits differ."""
    one, other = left.evaluate_words(words), right.evaluate_words(words)
    differs = np.bitwise_or.reduce(one ^ other, axis=0)
    if not differs.any():
        return None
    places = np.flatnonzero(unpack_last(differs, patches))
    if not len(places):
        return None
    word, bit = divmod(int(places[0]), WORD)
    inputs, a, b = ((x[:, word] >> np.uint64(bit) & np.uint64(1)).astype(bool) for x in (words, one, other))
    return Counterexample(inputs, a, b)
