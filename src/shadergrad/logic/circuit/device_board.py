"""A packed board on a device, stepped by one kernel: 32 cells a word, many steps in one submission.

In: an automaton and boards as arrays. Out: boards. The kernel is board_kernel.py's; on the cpu device BoardRunner steps.
The state there is uint32 (channels, H, words): column 32 k + j of a row at bit j of word k, bits past the width 0, rows
padded to a multiple of four words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import shadergrad as sg

from ...dtypes import uint32
from ...extend import Limits, Operation, Shader, Spec, random_key
from .bit_packing import as_bits, pack_board, pack_last, unpack_board, words_for
from .board_kernel import THREADS, VECTOR, Blocking, BoardWriter, blocking, row_vectors
from .cell import CellCircuit
from .circuit_files import from_json, to_json
from .errors import CircuitError
from .fire_masks import DIGITS, DrawFire
from .packed_board import BoardRunner, check_cell

LONGEST_RUN = 32  # steps that one plan has
FIRE_BYTES = 1 << 28  # of masks that are on the device at a time


@dataclass(frozen=True)
class BoardStep(Operation):
    """One step of a packed board.

    automaton: the cell as JSON (circuit_files.py). masked: an input `fire`, uint32 (H, words), has a 1 where a cell takes its new
    bits. lanes, rows: the part of a thread, see board_kernel.Blocking.
    """

    automaton: str
    height: int
    width: int
    masked: bool
    lanes: int
    rows: int

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "fire") if self.masked else ("state",)

    def infer(self, *inputs: Spec) -> Spec:
        return Spec(inputs[0].shape, uint32)

    def numpy(self, state, fire=None):
        board = _runner(self.automaton, self.height, self.width)
        board.words[:] = to_board(state, self.width)  # the board is used again, the state may be a tensor's value
        board.step_packed(None if fire is None else to_board(fire, self.width))
        return to_device(board.words, self.width).copy()

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        cell = _cell(self.automaton)
        if 4 * inputs[0].size > limits.max_binding_bytes:
            raise CircuitError(
                f"[DeviceBoard] {self.height} x {self.width} cells of {cell.channels} channels are {4 * inputs[0].size} bytes; "
                f"the device lets a kernel see {limits.max_binding_bytes} of a buffer.\n  Hint: a smaller board, or BoardRunner."
            )
        writer = BoardWriter(cell, self.height, self.width, self.masked, Blocking(self.lanes, self.rows))
        return Shader(
            writer.body,
            THREADS,
            -(-writer.threads // THREADS),
            writer.preamble,
            frozenset() if self.lanes == 1 else frozenset((*self.arguments, "result")),
            flops=len(cell.circuit) * self.height * self.width,
        )


@lru_cache(maxsize=16)
def _cell(automaton: str) -> CellCircuit:
    cell = from_json(automaton)
    assert isinstance(cell, CellCircuit)
    return cell


@lru_cache(maxsize=2)
def _runner(automaton: str, height: int, width: int) -> BoardRunner:
    return _cell(automaton).runner(height, width)


def to_device(words: np.ndarray, width: int) -> np.ndarray:
    """Words of a Board, uint64 (..., words), as a device has them: uint32 (..., more words)."""
    narrow = np.ascontiguousarray(words).astype("<u8", copy=False).view("<u4")
    padding = VECTOR * row_vectors(width) - narrow.shape[-1]
    if padding == 0:
        return narrow.astype(np.uint32, copy=False)
    padded = np.zeros((*narrow.shape[:-1], narrow.shape[-1] + padding), np.uint32)
    padded[..., : narrow.shape[-1]] = narrow
    return padded


def to_board(words: np.ndarray, width: int) -> np.ndarray:
    """The inverse of to_device."""
    cut = np.ascontiguousarray(words[..., : 2 * words_for(width)])
    return cut.astype("<u4", copy=False).view("<u8").astype(np.uint64, copy=False)


class DeviceBoard:
    """A board that a device steps; otherwise like BoardRunner. Minimize the automaton first.

    device: "webgpu" or "cpu".
    generator: draws the cells that fire (see `run`), by default the device's own.
    lanes, rows: words (1 or 4) and rows that a thread computes; None chooses. Steps are submitted without waiting; `read` and
    `words` wait.
    Raises CircuitError for anything but a CellCircuit, a board without cells, other lanes or rows, and a board that exceeds the
    device's binding limit.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))  # takes its western neighbour
    >>> board = sg.logic.circuit.DeviceBoard(cell, 1, 3, device="cpu")
    >>> board.load([[[1], [0], [0]]])
    >>> board.run(2)
    >>> board.read().astype(int).tolist()
    [[[0], [0], [1]]]
    """

    def __init__(
        self,
        cell: CellCircuit,
        height: int,
        width: int,
        device: str = "webgpu",
        generator: sg.Generator | None = None,
        lanes: int | None = None,
        rows: int | None = None,
    ) -> None:
        check_cell(cell, "DeviceBoard")
        if height < 1 or width < 1:
            raise CircuitError(f"[DeviceBoard] a board of {height} x {width} cells is empty.")
        if lanes not in (None, 1, VECTOR) or (rows is not None and rows < 1):
            raise CircuitError(
                f"[DeviceBoard] lanes is {lanes}, rows {rows}; lanes are 1 or {VECTOR}, rows at least 1."
            )
        self.cell, self.shape, self.device = cell, (height, width), device
        chosen = blocking(cell, height, width)
        self.blocking = Blocking(lanes or chosen.lanes, rows or chosen.rows)
        self._row_words = VECTOR * row_vectors(width)
        self._generator = generator
        automaton = to_json(cell)
        self._step, self._masked_step = (
            BoardStep(automaton, height, width, masked, self.blocking.lanes, self.blocking.rows)
            for masked in (False, True)
        )
        self.state = sg.zeros(cell.channels, height, self._row_words, dtype=uint32, device=device)
        self._steps = sg.compile(self._all_fire)
        self._given_steps = sg.compile(self._given_fire)
        self._drawn_steps = sg.compile(self._drawn_fire)
        self._clear = sg.compile(lambda state, rows, columns: state & (rows | columns))

    @property
    def words(self) -> np.ndarray:
        """The board as a Board has it: uint64 (channels, H, words). Assigning sets it."""
        return to_board(self.state.numpy(), self.shape[1])

    @words.setter
    def words(self, words: np.ndarray) -> None:
        shape = (self.cell.channels, self.shape[0], words_for(self.shape[1]))
        if words.shape != shape or words.dtype != np.uint64:
            raise CircuitError(f"[DeviceBoard] words are {words.dtype} {words.shape}; uint64 {shape} is wanted.")
        self.state = self._put(words)

    def load(self, state: np.ndarray) -> None:
        """Sets the board: (H, W, channels), bool or 0 and 1."""
        array = self.cell.check_state(state, "load")
        if array.shape[:2] != self.shape:
            raise CircuitError(
                f"[load] the state has {array.shape[0]} x {array.shape[1]} cells, the board {self.shape[0]} x {self.shape[1]}."
            )
        self.state = self._put(pack_board(array))

    def read(self) -> np.ndarray:
        """The board as bool (H, W, channels)."""
        return unpack_board(self.words, self.shape[1])

    def clear(self, rows: slice, columns: slice) -> None:
        """Sets all channels of a rectangle to 0; slices are clipped at the border, steps are 1."""
        outside = np.ones(self.shape[0], bool)
        outside[rows] = False
        kept_rows = np.where(outside, np.uint32(0xFFFFFFFF), np.uint32(0))[:, None]
        beside = np.ones(self.shape[1], bool)
        beside[columns] = False
        kept_columns = to_device(pack_last(beside), self.shape[1])
        self.state = self._clear(
            self.state, sg.tensor(kept_rows, device=self.device), sg.tensor(kept_columns, device=self.device)
        )

    def step(self, fire: np.ndarray | None = None) -> None:
        """One step; `fire` (H, W) says which cells take their new bits, None means all."""
        if fire is None:
            self._run(1)
        else:
            self._run_given(np.asarray(fire)[None], "step")

    def run(self, steps: int, fire: np.ndarray | None = None) -> None:
        """`steps` steps, many in one submission. `fire` (steps, H, W) says which cells take their new bits.

        Without it all do; with a fire rate below 1, those for which a uniform number is at most that, drawn on the device.
        """
        if steps < 0:
            raise CircuitError(f"[run] {steps} steps; there cannot be fewer than 0.")
        if fire is not None:
            if len(fire) != steps:
                raise CircuitError(f"[run] fire has {len(fire)} masks for {steps} steps.")
            self._run_given(np.asarray(fire), "run")
        else:
            self._run(steps, drawn=self.cell.fire_rate < 1)

    def _run(self, steps: int, drawn: bool = False) -> None:
        advance = self._drawn_steps if drawn else self._steps
        for piece in self._pieces(steps, masked=drawn):
            self.state = advance(self.state, piece)

    def _run_given(self, fire: np.ndarray, what: str) -> None:
        bits = as_bits(fire, what)
        if bits.shape[1:] != self.shape:
            raise CircuitError(f"[{what}] fire has shape {bits.shape[1:]}, the board is {self.shape}.")
        done = 0
        for piece in self._pieces(len(bits), masked=True):
            self.state = self._given_steps(self.state, [self._put(pack_last(b)) for b in bits[done : done + piece]])
            done += piece

    def _pieces(self, steps: int, masked: bool) -> Iterator[int]:
        """Powers of two, so that few plans do for any number of steps."""
        piece = LONGEST_RUN
        while masked and piece > 1 and 4 * self.shape[0] * self._row_words * piece > FIRE_BYTES:
            piece //= 2
        while steps:
            while piece > steps:
                piece //= 2
            yield piece
            steps -= piece

    def _put(self, words: np.ndarray) -> sg.Tensor:
        return sg.tensor(to_device(words, self.shape[1]), device=self.device)

    # -- what is compiled

    def _all_fire(self, state: sg.Tensor, steps: int) -> sg.Tensor:
        for _ in range(steps):
            state = self._step(state)
        return state

    def _given_fire(self, state: sg.Tensor, masks: Sequence[sg.Tensor]) -> sg.Tensor:
        for mask in masks:
            state = self._masked_step(state, mask)
        return state

    def _drawn_fire(self, state: sg.Tensor, steps: int) -> sg.Tensor:
        return self._given_fire(state, [self._draw() for _ in range(steps)])

    def _draw(self) -> sg.Tensor:
        """Random masks, packed: (H, words)."""
        threshold = min(max(round(self.cell.fire_rate * 2**DIGITS), 1), 2**DIGITS - 1)
        return DrawFire(threshold, self.shape[0], self._row_words)(random_key(self.device, self._generator))
