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
from .gate_order import evaluation_order, operands

EXHAUSTIVE_INPUTS = 20
RANDOM_PATCHES = 1_000_000
MOST_NODES = 100_000  # of all diagrams together: about a second
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
    """True if no difference was found; a warning says so if equality is not proved, either. proved: whether it is, by all
    assignments (`exhaustive`) or by decision diagrams; otherwise it rests on `checked` random assignments. str() says what was
    tried, and what came of it.

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
    gave_up: str = field(default="", repr=False)  # why the diagrams prove nothing

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
            return "proved equal by decision diagrams"
        return f"not proved equal: no difference on {self.checked:,} random assignments, and {self.gave_up}"


def equivalent(left: Circuit, right: Circuit, patches: int = RANDOM_PATCHES, seed: int = 0) -> Equivalence:
    """Compare two circuits: up to 20 inputs on all assignments; above, on `patches` random ones and then by decision diagrams,
    which prove equality or find a difference. If a function takes too many nodes, the result rests on the assignments.

    The random assignments come in blocks of 65,536 in which a bit is 1 with probability 1/2, 1/4, 3/4 or 1/16 in turn: fair
    bits seldom distinguish wide ANDs and ORs. The same seed gives the same assignments. Code that shares nothing with
    `minimize` evaluates both circuits gate by gate.
    Raises CircuitError if the numbers of inputs or outputs differ.

    >>> nand = sg.logic.circuit.Circuit(2, [(14, 0, 1)], [2])
    >>> inverted = sg.logic.circuit.Circuit(2, [(1, 0, 1), (12, 2, 2)], [3])  # NOT (a AND b)
    >>> bool(sg.logic.circuit.equivalent(nand, inverted))
    True
    """
    if (left.inputs, len(left.outputs)) != (right.inputs, len(right.outputs)):
        raise CircuitError(
            f"[equivalent] the circuits have {left.inputs} inputs and {len(left.outputs)} outputs, "
            f"and {right.inputs} and {len(right.outputs)}."
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
    """What diagrams say of circuits that agree on so many assignments."""
    diagrams, order = Diagrams(MOST_NODES), _order(left)
    try:
        ours, theirs = (_diagrams_of(circuit, diagrams, order) for circuit in (left, right))
        differences = [d for a, b in zip(ours, theirs, strict=True) if (d := diagrams.gate(XOR, a, b)) != FALSE]
    except DiagramLimit:
        wide = left.inputs > MOST_INPUTS and len(order) > MOST_INPUTS
        reason = f"of more than {MOST_INPUTS} inputs are not tried" if wide else f"would exceed {MOST_NODES:,} nodes"
        return Equivalence(None, False, checked, gave_up=f"decision diagrams {reason}")
    if not differences:
        return Equivalence(None, False, checked, True)
    known = diagrams.example(differences[0])
    bits = np.array([known.get(order.get(i, -1), False) for i in range(left.inputs)])
    return Equivalence(Counterexample(bits, left.evaluate(bits), right.evaluate(bits)), False, checked)


def _order(circuit: Circuit) -> dict[int, int]:
    """A place for each live input: in the order in which gates read them, which keeps diagrams small."""
    gates = list(circuit.gates())
    read = [wire for k in evaluation_order(circuit) for wire in operands(*gates[k])]
    inputs = dict.fromkeys(wire for wire in [*read, *circuit.outputs.tolist()] if wire < circuit.inputs)
    return {wire: place for place, wire in enumerate(inputs)}


def _diagrams_of(circuit: Circuit, diagrams: Diagrams, order: dict[int, int]) -> list[int]:
    """Those of the outputs; inputs that `order` lacks come after all others."""
    gates = list(circuit.gates())
    found: dict[int, int] = {}

    def of(wire: int) -> int:
        if wire not in found:
            found[wire] = diagrams.input(order.setdefault(wire, len(order)))
        return found[wire]

    for k in evaluation_order(circuit):
        kind, a, b = gates[k]
        reads = operands(kind, a, b)
        # an operand that the gate does not read may be a wire that nothing else computes
        one, other = (of(wire) if wire in reads else FALSE for wire in (a, b))
        found[circuit.inputs + k] = diagrams.gate(kind, one, other)
    return [of(wire) for wire in circuit.outputs.tolist()]


def all_words(inputs: int, start: int, count: int) -> np.ndarray:
    """Words of the assignments from 64 * start on: in assignment n, input i is bit i of n."""
    numbers = np.arange(start * WORD, (start + count) * WORD)
    return pack_last((numbers >> np.arange(inputs)[:, None] & 1).astype(bool))


def random_words(rng: np.random.Generator, inputs: int, start: int, count: int) -> np.ndarray:
    """Words of random assignments, whose bits are 1 as often as their block of 1,024 words says."""

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
    """The first of so many assignments on which the circuits differ."""
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
