"""A board of a cellular automaton, packed 64 cells a word, stepped by NumPy.

A step processes the board in blocks of whole rows, small enough for the second-level cache. It copies the rows of a block, and
the rows above and below, to scratch memory, for all channels that the circuit reads. Shifts by a column to the east and west
give the nine neighbours as views. Then every instruction of the mapped circuit is one NumPy call on the block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .bit_packing import WORD, as_bits, pack_board, pack_last, unpack_board, words_for
from .circuit import Circuit
from .errors import CircuitError
from .neighbourhood import neighbour
from .word_mapping import MappedCircuit, map_circuit

SCRATCH_BYTES = 1 << 20  # of planes and registers together: a common second-level cache
MIN_BLOCK_WORDS = 512  # below that the calls cost more than the work
MAX_BLOCK_WORDS = 8192

_ONE, _TOP = np.uint64(1), np.uint64(WORD - 1)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class Rule(Protocol):
    """The rule of a board's automaton; CellCircuit is one."""

    @property
    def circuit(self) -> Circuit: ...

    @property
    def channels(self) -> int: ...

    @property
    def periodic(self) -> bool: ...

    def check_state(self, state: np.ndarray, what: str) -> np.ndarray: ...


def check_cell(cell: Any, what: str) -> Any:
    """The rule of a board. Raises CircuitError for a circuit alone, and for anything else that is no rule."""
    if isinstance(cell, Circuit):
        raise CircuitError(
            f"[{what}] a {cell!r} is no rule of a board: it has no border and no channels.\n"
            "  Hint: CellCircuit(circuit) is one, if the circuit has 9 inputs an output. To evaluate a circuit on rows of bits: "
            "circuit.evaluate(bits)."
        )
    missing = [name for name in ("circuit", "channels", "periodic", "check_state") if not hasattr(cell, name)]
    if missing:
        raise CircuitError(
            f"[{what}] {type(cell).__name__} is no rule of a board; a CellCircuit is. Hint: model.harden() of a LogicCA."
        )
    return cell


class Board:
    """A packed board: `words` are uint64 (channels, H, words), bit j of word k of a row is column 64 k + j.

    Bits past the width are 0. Subclasses define the step. Raises CircuitError for a board without cells.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))
    >>> board = sg.logic.circuit.Board(cell, height=1, width=3)
    >>> board.load([[[1], [0], [1]]])
    >>> board.words.tolist()
    [[[5]]]
    """

    def __init__(self, cell: Rule, height: int, width: int) -> None:
        check_cell(cell, type(self).__name__)
        if height < 1 or width < 1:
            raise CircuitError(f"[runner] a board of {height} x {width} cells is empty.")
        self.cell = cell
        self.shape = (height, width)
        self.words = np.zeros((cell.channels, height, words_for(width)), np.uint64)
        self._next = np.zeros_like(self.words)

    def load(self, state: np.ndarray) -> None:
        """Sets the board: (H, W, channels), bool or 0 and 1."""
        array = self.cell.check_state(state, "load")
        if array.shape[:2] != self.shape:
            raise CircuitError(
                f"[load] the state has {array.shape[0]} x {array.shape[1]} cells, the board {self.shape[0]} x {self.shape[1]}."
            )
        self.words[:] = pack_board(array)

    def read(self) -> np.ndarray:
        """The board as bool (H, W, channels)."""
        return unpack_board(self.words, self.shape[1])

    def clear(self, rows: slice, columns: slice) -> None:
        """Sets all channels of a rectangle to 0; slices are clipped at the border, steps are 1."""
        inside = np.zeros(self.shape[1], bool)
        inside[columns] = True
        self.words[:, rows] &= ~pack_last(inside)

    def step(self, fire: np.ndarray | None = None) -> None:
        """One step; `fire` (H, W) says which cells take their new bits, None means all."""
        mask = None
        if fire is not None:
            bits = as_bits(fire, "step")
            if bits.shape != self.shape:
                raise CircuitError(f"[step] fire has shape {bits.shape}, the board is {self.shape}.")
            mask = pack_last(bits)
        self.step_packed(mask)

    def step_packed(self, fire: np.ndarray | None = None) -> None:
        """One step; `fire` as packed words (H, words)."""
        self._advance(fire)
        self.words, self._next = self._next, self.words

    def _advance(self, fire: np.ndarray | None) -> None:
        """Computes `_next` from `words`; fire is packed, (H, words)."""
        raise NotImplementedError


class BoardRunner(Board):
    """A board that NumPy steps. Minimize the automaton first: `cell.minimized().runner(height, width)`.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))  # takes its western neighbour
    >>> board = cell.runner(1, 3)
    >>> board.load([[[1], [0], [0]]])
    >>> board.step()
    >>> board.read().astype(int).tolist()
    [[[0], [1], [0]]]
    """

    def __init__(self, cell: Rule, height: int, width: int) -> None:
        super().__init__(cell, height, width)
        self._mapped = map_circuit(cell.circuit)
        self._blocks: dict[int, _Block] = {}
        self._rows = _block_rows(self._mapped, cell.channels, self.words.shape)

    def _advance(self, fire: np.ndarray | None) -> None:
        height = self.shape[0]
        for start in range(0, height, self._rows):
            block = self._block(min(self._rows, height - start))
            block.gather(self.words, start)
            block.evaluate()
            block.scatter(self.words, self._next, start, fire)

    def _block(self, rows: int) -> _Block:
        if rows not in self._blocks:
            self._blocks[rows] = _Block(self.cell, self._mapped, rows, self.shape[1])
        return self._blocks[rows]


def _block_rows(mapped: MappedCircuit, channels: int, shape: tuple[int, ...]) -> int:
    """How many rows make a block whose scratch memory fits the cache."""
    _, height, words = shape
    planes = 3 * len({neighbour(i, channels)[2] for i in mapped.inputs_read()}) + mapped.registers - mapped.inputs
    block_words = min(max(SCRATCH_BYTES // (8 * max(planes, 1)), MIN_BLOCK_WORDS), MAX_BLOCK_WORDS)
    return min(max(1, block_words // words), height)


class _Block:
    """Scratch memory for some rows of a board, and the circuit bound to it."""

    def __init__(self, cell: Rule, mapped: MappedCircuit, rows: int, width: int) -> None:
        self._rows, self._periodic = rows, cell.periodic
        self._last = np.uint64((width - 1) % WORD)  # of the last column in its word
        self._tail = _ALL >> (_TOP - self._last)
        used = [neighbour(i, cell.channels) for i in mapped.inputs_read()]
        self._channels = sorted({channel for _, _, channel in used})
        offsets = {dx for _, dx, _ in used}
        words = words_for(width)
        shape = (len(self._channels), rows + 2, words)
        # planes by column offset: the rows as they are, and shifted
        self._planes = {dx: np.zeros(shape, np.uint64) for dx in sorted(offsets | {0})}
        self._carry = np.zeros(max(self._planes[0].size - 1, 0), np.uint64)
        self._out = np.zeros((mapped.outputs, rows, words), np.uint64)
        self._calls = self._bind(cell, mapped)

    def _bind(self, cell: Rule, mapped: MappedCircuit) -> list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
        """The instructions as NumPy functions with their arguments, result last."""
        views: dict[int, np.ndarray] = {}
        for i in mapped.inputs_read():
            dy, dx, channel = neighbour(i, cell.channels)
            rows = self._planes[dx][self._channels.index(channel), 1 + dy : 1 + dy + self._rows]
            views[i] = rows.reshape(-1)
        for k in range(mapped.outputs):
            views[mapped.inputs + k] = self._out[k].reshape(-1)
        for register in range(mapped.inputs + mapped.outputs, mapped.registers):
            views[register] = np.zeros(self._out[0].size, np.uint64)
        calls = []
        for o in mapped.instructions:
            a, b, out = views.get(o.a), views.get(o.b), views[o.out]
            if o.name in ("zero", "one"):
                out[:] = _ALL if o.name == "one" else 0  # nothing else writes an output's register
            else:
                function, arguments = _FUNCTIONS[o.name]
                calls.append((function, (*(a, b)[:arguments], out)))
        return calls

    def gather(self, words: np.ndarray, start: int) -> None:
        """Copies and shifts rows start - 1 to start + rows of the channels that the circuit reads."""
        middle, height, stop = self._planes[0], words.shape[1], start + self._rows
        for k, channel in enumerate(self._channels):
            middle[k, 1:-1] = words[channel, start:stop]
            for row, source in ((0, start - 1), (-1, stop)):
                inside = 0 <= source < height
                middle[k, row] = words[channel, source % height] if inside or self._periodic else 0
        if -1 in self._planes:
            self._shift_from_west()
        if 1 in self._planes:
            self._shift_from_east()

    def _shift_from_west(self) -> None:
        """Each bit becomes its western neighbour. The carry runs over row ends, so first columns are done again."""
        middle, west = self._planes[0], self._planes[-1]
        np.left_shift(middle, _ONE, out=west)
        np.right_shift(middle.reshape(-1)[:-1], _TOP, out=self._carry)
        west.reshape(-1)[1:] |= self._carry
        first = middle[..., 0] << _ONE
        if self._periodic:
            first |= middle[..., -1] >> self._last
        west[..., 0] = first

    def _shift_from_east(self) -> None:
        """Each bit becomes its eastern neighbour; bits past the width are 0, so a last column sees 0 or the first one."""
        middle, east = self._planes[0], self._planes[1]
        np.right_shift(middle, _ONE, out=east)
        np.left_shift(middle.reshape(-1)[1:], _TOP, out=self._carry)
        east.reshape(-1)[:-1] |= self._carry
        final = middle[..., -1] >> _ONE
        if self._periodic:
            final |= (middle[..., 0] & _ONE) << self._last
        east[..., -1] = final

    def evaluate(self) -> None:
        for function, arguments in self._calls:
            function(*arguments)

    def scatter(self, old: np.ndarray, new: np.ndarray, start: int, fire: np.ndarray | None) -> None:
        """Writes the outputs, of the cells that fire; the others keep their bits."""
        rows = slice(start, start + self._rows)
        target = new[:, rows]
        if fire is None:
            target[:] = self._out
        else:
            before = old[:, rows]
            np.bitwise_xor(self._out, before, out=target)
            target &= fire[rows]
            target ^= before
        target[..., -1] &= self._tail


_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "and": (np.bitwise_and, 2),
    "or": (np.bitwise_or, 2),
    "xor": (np.bitwise_xor, 2),
    "not": (np.invert, 1),
    "copy": (np.positive, 1),
}
