"""A circuit of two-input gates: a list of gates, and its output wires.

Wires are numbers: 0 to inputs - 1 are the inputs, inputs + k is gate k. A gate reads wires that come before it, so the
list is in topological order and one walk evaluates it. Circuits are immutable; operations return new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bit_packing import as_bits, pack_last, unpack_last
from .errors import CircuitError
from .gate_kinds import NAMES
from .interpret import evaluate_words
from .svg_drawing import draw

MOST_DRAWN = 400  # gates, in notebooks

Gates = Sequence[tuple[int, int, int]] | np.ndarray


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Circuit:
    """`Circuit(inputs, gates, outputs)`: gates are (kind, a, b), outputs are wires.

    `kinds` (uint8), `a` and `b` (int32), one element a gate, and `outputs` (int32) are read-only arrays. A kind is the truth
    table of the gate (`gate_kinds.py`); a gate that ignores an input still names some earlier wire there. Names of inputs and
    outputs are optional labels.
    Raises CircuitError for an unknown gate, a wire that does not exist or comes later, and wrong shapes.

    >>> adder = sg.logic.circuit.Circuit(2, [(6, 0, 1), (1, 0, 1)], [2, 3])  # a half adder: sum (XOR) and carry (AND)
    >>> adder.evaluate([[0, 1], [1, 1]]).astype(int).tolist()
    [[1, 0], [0, 1]]
    """

    inputs: int
    kinds: np.ndarray
    a: np.ndarray
    b: np.ndarray
    outputs: np.ndarray
    input_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None

    def __init__(
        self,
        inputs: int,
        gates: Gates,
        outputs: Sequence[int] | np.ndarray,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(inputs, int | np.integer) or inputs < 1:
            raise CircuitError(f"[Circuit] inputs is {inputs!r}; a circuit has at least one input.")
        table = _gate_table(gates)
        wires = _integers(outputs, "outputs", 1)
        _check_kinds(table)
        _check_order(int(inputs), table)
        _check_outputs(wires, int(inputs) + len(table))
        self._set(inputs=int(inputs), kinds=_frozen(table[:, 0], np.uint8), outputs=_frozen(wires, np.int32))
        self._set(a=_frozen(table[:, 1], np.int32), b=_frozen(table[:, 2], np.int32))
        self._set(input_names=_names(input_names, int(inputs), "input"))
        self._set(output_names=_names(output_names, len(wires), "output"))

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        """How many gates there are."""
        return len(self.kinds)

    @property
    def wires(self) -> int:
        """Inputs and gates."""
        return self.inputs + len(self)

    def gates(self) -> Iterable[tuple[int, int, int]]:
        """(kind, a, b) of every gate, in order, as plain numbers."""
        return zip(self.kinds.tolist(), self.a.tolist(), self.b.tolist(), strict=True)

    def evaluate(self, bits: np.ndarray) -> np.ndarray:
        """Bits (..., inputs) of bool or 0 and 1 to bits (..., outputs) of bool: gate by gate, 64 rows a word.

        This is the reference for all faster evaluations.
        """
        array = as_bits(bits, "evaluate")
        if array.ndim == 0 or array.shape[-1] != self.inputs:
            raise CircuitError(
                f"[evaluate] bits have shape {array.shape}; the last axis holds the {self.inputs} inputs."
            )
        rows = array.reshape(-1, self.inputs)
        words = self.evaluate_words(pack_last(rows.T))
        return unpack_last(words, len(rows)).T.reshape(*array.shape[:-1], len(self.outputs))

    def evaluate_words(self, words: np.ndarray) -> np.ndarray:
        """Packed rows: words (inputs, n) of uint64 to words (outputs, n), bit by bit."""
        return evaluate_words(list(self.gates()), self.outputs, words)

    def __eq__(self, other: object) -> bool:
        """The same gates in the same order, the same wires and names."""
        if not isinstance(other, Circuit):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        arrays = (self.kinds, self.a, self.b, self.outputs)
        return (self.inputs, *(x.tobytes() for x in arrays), self.input_names, self.output_names)

    def __repr__(self) -> str:
        return f"Circuit({self.inputs} inputs, {len(self)} gates, {len(self.outputs)} outputs)"

    def _repr_html_(self) -> str:
        """In notebooks: the circuit drawn, if it is small enough to be read."""
        if len(self) > MOST_DRAWN:
            return f"<code>{self!r}</code>: more than {MOST_DRAWN} gates are not drawn; minimize() leaves fewer"
        drawing = draw(input_names(self), list(self.gates()), output_names(self), self.outputs.tolist())
        return f'<div style="overflow:auto">{drawing}</div><small>{self!r}</small>'


def input_names(circuit: Circuit) -> list[str]:
    """Its own names, else x0, x1 ..."""
    return list(circuit.input_names or (f"x{i}" for i in range(circuit.inputs)))


def output_names(circuit: Circuit) -> list[str]:
    """Its own names, else y0, y1 ..."""
    return list(circuit.output_names or (f"y{k}" for k in range(len(circuit.outputs))))


def _integers(values: Any, what: str, axes: int) -> np.ndarray:
    """The values as an int64 array with that number of axes."""
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.ndim != axes:
        raise CircuitError(
            f"[Circuit] {what} has dtype {array.dtype} and shape {array.shape}; integers with {axes} axes are needed."
        )
    return array.astype(np.int64)


def _gate_table(gates: Gates) -> np.ndarray:
    if len(gates) == 0:
        return np.zeros((0, 3), np.int64)
    try:
        table = _integers(gates, "gates", 2)
    except ValueError as error:
        if isinstance(error, CircuitError):
            raise
        raise CircuitError("[Circuit] gates differ in length; each is (kind, a, b).") from error
    if table.shape[1] != 3:
        raise CircuitError(f"[Circuit] gates has shape {table.shape}; each gate is (kind, a, b): (gates, 3).")
    return table


def _check_kinds(table: np.ndarray) -> None:
    wrong = np.flatnonzero((table[:, 0] < 0) | (table[:, 0] > 15))
    if len(wrong):
        k = int(wrong[0])
        raise CircuitError(
            f"[Circuit] gate {k} is of kind {table[k, 0]}; kinds are 0 ({NAMES[0]}) to 15 ({NAMES[15]})."
        )


def _check_order(inputs: int, table: np.ndarray) -> None:
    own = inputs + np.arange(len(table))[:, None]
    read = table[:, 1:]
    wrong = np.argwhere((read < 0) | (read >= own))
    if not len(wrong):
        return
    k, column = (int(x) for x in wrong[0])
    wire, name = int(read[k, column]), "ab"[column]
    if 0 <= wire < inputs + len(table):
        raise CircuitError(
            f"[Circuit] gate {k} (wire {inputs + k}) reads wire {wire} as {name}, which does not come before it.\n"
            "  Hint: list gates in topological order; from_json sorts a file for you."
        )
    raise CircuitError(f"[Circuit] gate {k} reads wire {wire} as {name}; wires are 0 to {inputs + len(table) - 1}.")


def _check_outputs(outputs: np.ndarray, wires: int) -> None:
    if not len(outputs):
        raise CircuitError("[Circuit] outputs is empty; a circuit has at least one output.")
    wrong = np.flatnonzero((outputs < 0) | (outputs >= wires))
    if len(wrong):
        k = int(wrong[0])
        raise CircuitError(f"[Circuit] output {k} is wire {outputs[k]}; wires are 0 to {wires - 1}.")


def _names(names: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    result = tuple(names)
    if len(result) != count or len(set(result)) != count or not all(isinstance(n, str) and n for n in result):
        raise CircuitError(f"[Circuit] {what}_names needs {count} different texts, got {len(result)}: {result[:4]!r}.")
    return result


def _frozen(array: np.ndarray, dtype: type) -> np.ndarray:
    result = array.astype(dtype)
    result.setflags(write=False)
    return result
