"""A cellular automaton whose rule is a circuit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .bit_packing import as_bits
from .circuit import Circuit
from .errors import CircuitError
from .minimize import minimize
from .neighbourhood import NEIGHBOURS, PLACES
from .packed_board import BoardRunner

BORDERS = ("zeros", "periodic")

Random = np.random.Generator | int | None


@dataclass(frozen=True)
class CellCircuit:
    """A circuit that maps the 3x3 patch of a cell to the cell's next bits.

    circuit: inputs = 9 * channels, input neighbour * channels + channel with neighbours row by row (0 north-west, 4 the cell
    itself, 8 south-east); outputs = channels.
    border: the values beyond the board, "zeros", or "periodic" for the opposite edge.
    fire_rate: at each step a cell takes its new bits if a uniform number is at most this rate, else it keeps all of them; at
    1.0 all cells do.
    Raises CircuitError if the numbers of inputs and outputs do not fit, or values are out of range. Source: "Differentiable
    Logic Cellular Automata" (Miotti, Niklasson, Randazzo and Mordvintsev, 2025).

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))  # takes its western neighbour
    >>> cell.step([[[1], [0], [0]]]).astype(int).tolist()
    [[[0], [1], [0]]]
    """

    circuit: Circuit
    border: str = "zeros"
    fire_rate: float = 1.0

    def __post_init__(self) -> None:
        inputs, outputs = self.circuit.inputs, len(self.circuit.outputs)
        if inputs != NEIGHBOURS * outputs:
            raise CircuitError(
                f"[CellCircuit] the circuit has {inputs} inputs and {outputs} outputs; "
                f"a cell of {outputs} channels reads 9 * {outputs} = {NEIGHBOURS * outputs} bits."
            )
        if self.border not in BORDERS:
            raise CircuitError(
                f"[CellCircuit] border is {self.border!r}; it is one of {', '.join(map(repr, BORDERS))}."
            )
        if not 0 < self.fire_rate <= 1:
            raise CircuitError(f"[CellCircuit] fire_rate is {self.fire_rate}; it lies above 0 and is at most 1.")

    @property
    def channels(self) -> int:
        """The number of bits per cell."""
        return len(self.circuit.outputs)

    @property
    def periodic(self) -> bool:
        """Whether the border is periodic."""
        return self.border == "periodic"

    @property
    def named(self) -> Circuit:
        """Its circuit with inputs named by neighbour and channel, as W.0, and outputs as next.0.

        >>> sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3])).named.input_names[3:5]
        ('W.0', 'C.0')
        """
        c, channels = self.circuit, range(self.channels)
        inputs = [f"{place}.{k}" for place in PLACES for k in channels]
        return Circuit(c.inputs, list(c.gates()), c.outputs, inputs, [f"next.{k}" for k in channels])

    def _repr_html_(self) -> str:
        """In notebooks: the rule drawn, its inputs by their names."""
        return self.named._repr_html_()

    def minimized(self) -> CellCircuit:
        """The same automaton with fewer gates."""
        return replace(self, circuit=minimize(self.circuit))

    def check_state(self, state: np.ndarray, what: str) -> np.ndarray:
        """A board (H, W, channels) as bool. Raises CircuitError for another shape, or values other than 0 and 1."""
        array = as_bits(state, what)
        if array.ndim != 3 or array.shape[2] != self.channels or 0 in array.shape:
            raise CircuitError(
                f"[{what}] the state has shape {array.shape}; this automaton has {self.channels} channels: (H, W, {self.channels})."
            )
        return array

    def runner(self, height: int, width: int) -> BoardRunner:
        """A board of this automaton that stays packed between steps. See BoardRunner."""
        return BoardRunner(self, height, width)

    def step(self, state: np.ndarray, rng: Random = None, fire: np.ndarray | None = None) -> np.ndarray:
        """One step of a board (H, W, channels), bool or 0 and 1; gives bool.

        With a fire rate below 1, `rng` (a generator or a seed) draws the cells that fire, or `fire` (H, W) gives them.
        """
        runner = self._loaded(state, "step")
        runner.step(
            fire if fire is not None or self.fire_rate == 1 else self.draw_fire(_generator(rng, "step"), *runner.shape)
        )
        return runner.read()

    def run(
        self,
        state: np.ndarray,
        steps: int,
        rng: Random = None,
        after_step: Callable[[int, BoardRunner], None] | None = None,
    ) -> np.ndarray:
        """`steps` steps of a board (H, W, channels); gives bool.

        after_step(i, board) is called after step i, from 0; it may look at the board (read, words) and damage it (clear).
        With a fire rate below 1, `rng` (a generator or a seed) draws the cells that fire.
        """
        runner = self._loaded(state, "run")
        generator = None if self.fire_rate == 1 else _generator(rng, "run")
        for i in range(steps):
            runner.step(None if generator is None else self.draw_fire(generator, *runner.shape))
            if after_step is not None:
                after_step(i, runner)
        return runner.read()

    def draw_fire(self, rng: np.random.Generator, height: int, width: int) -> np.ndarray:
        """The cells of a board that fire in one step: bool (height, width)."""
        return rng.random((height, width), np.float32) <= self.fire_rate

    def _loaded(self, state: np.ndarray, what: str) -> BoardRunner:
        array = self.check_state(state, what)
        runner = self.runner(*array.shape[:2])
        runner.load(array)
        return runner


def _generator(rng: Random, what: str) -> np.random.Generator:
    if rng is None:
        raise CircuitError(
            f"[{what}] the fire rate is below 1 and rng is missing.\n  Hint: rng=0, or a numpy.random.Generator, says which cells fire."
        )
    return np.random.default_rng(rng)
