"""Evaluation of a trained automaton's circuit, beyond its training.

In: the name of an experiment and the circuit of its rule. Out: findings, each a number of wrong cells and of all cells. Boards
are packed, 64 cells a word. An evaluation with the same seed gives the same numbers. The tests are those of "Differentiable
Logic Cellular Automata" (Miotti and others, 2025), and its published numbers are in published.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..nn.errors import ArgumentError
from .circuit import Board, CellCircuit
from .experiments import EXPERIMENTS, FIRE_RATE, checkerboard, letter_g, life_boards, life_step, lizard

SEED = 0
DAMAGE = 20  # the side of the central square that is cleared


@dataclass(frozen=True)
class Sizes:
    """The sizes of the evaluations: sides of boards, and steps. The defaults are the article's."""

    life: tuple[int, int] = (128, 300)
    checkerboard: tuple[int, int] = (64, 80)
    checkerboard_async: tuple[int, int] = (56, 200)
    robustness: tuple[int, int, int] = (64, 4000, 500)  # side, steps, the first step that counts
    wound: int = 10  # the side of the squares that are cleared to measure robustness
    starts: int = 20  # random states of the training's size


ARTICLE = Sizes()


@dataclass(frozen=True)
class Finding:
    """One measurement: `wrong` of `cells`, an average if it is not an integer; `published` is the article's number, if any."""

    what: str
    wrong: float
    cells: int
    published: float | None = None
    series: tuple[int, ...] = field(default=(), repr=False)  # of single steps, for a plot

    def __str__(self) -> str:
        beside = "" if self.published is None else f" (published: {self.published:g})"
        return f"{self.what}: {self.wrong:g} wrong of {self.cells}{beside}"


def evaluate(name: str, cell: CellCircuit, sizes: Sizes = ARTICLE) -> list[Finding]:
    """The findings of an experiment. Minimize the cell first, because it runs for thousands of steps.

    Raises ArgumentError for a name that is not an experiment, or a cell with other channels than the experiment's.
    """
    check_cell(name, cell)
    return _EVALUATIONS[name](cell, sizes)


def check_cell(name: str, cell: CellCircuit) -> None:
    """Raises ArgumentError if `cell` cannot be a rule of the experiment."""
    if name not in EXPERIMENTS:
        raise ArgumentError(f"[evaluation] there is no experiment {name!r}; choose of {', '.join(EXPERIMENTS)}.")
    wanted = EXPERIMENTS[name].channels
    if cell.channels != wanted:
        raise ArgumentError(f"[evaluation] the cell has {cell.channels} channels; those of {name} have {wanted}.")


def zero_from(hard: Sequence[float] | np.ndarray) -> int | None:
    """The first step from which a loss stays 0 to the end; None if it does not end at 0."""
    nonzero = np.flatnonzero(np.asarray(hard))
    start = int(nonzero[-1]) + 1 if len(nonzero) else 0
    return start if start < len(hard) else None


@cache
def published() -> dict[str, Any]:
    """The article's numbers: {"source", "robustness", "experiments": {name: {"zero_from", "active_gates", "soft", "hard"}}}.

    soft and hard are [step, loss] pairs. The asynchronous checkerboard has none.
    """
    return json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))


# -- Game of Life


def wrong_neighbourhoods(cell: CellCircuit) -> int:
    """The number of the 512 neighbourhoods with another bit than Conway's rule."""
    boards = life_boards()
    found = cell.circuit.evaluate(boards.reshape(512, 9))[:, 0]
    return int((found != life_step(boards)[:, 1, 1]).sum())


def life_differences(cell: CellCircuit, side: int, steps: int, seed: int = SEED) -> list[int]:
    """The number of cells that differ from true Life after each step from a random board (periodic borders)."""
    truth = np.random.default_rng(seed).integers(0, 2, (side, side), np.uint8)
    differences = []
    board = loaded(cell, truth[..., None])
    for _ in range(steps):
        board.step()
        truth = life_step(truth)
        differences.append(int((board.read()[..., 0] != truth).sum()))
    return differences


def _life(cell: CellCircuit, sizes: Sizes) -> list[Finding]:
    side, steps = sizes.life
    differences = life_differences(cell, side, steps)
    return [
        Finding("all neighbourhoods", wrong_neighbourhoods(cell), 512),
        Finding(
            f"{side}x{side} random board, {steps} steps, cells that differ from true Life at any step",
            max(differences),
            side * side,
        ),
    ]


# -- checkerboards


def noise(cell: CellCircuit, height: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Random bits (height, width, channels)."""
    return rng.integers(0, 2, (height, width, cell.channels), np.uint8)


def centre(side: int, square: int = DAMAGE) -> slice:
    """The rows, or columns, of the square in the middle of a board."""
    start = max((side - square) // 2, 0)
    return slice(start, min(start + square, side))


def damaged_until(last: int, side: int) -> Callable[[int, Board], None]:
    """An `after` that clears the square in the middle, all channels, after each of the first `last` steps."""
    square = centre(side)

    def after(step: int, board: Board) -> None:
        if step < last:
            board.clear(square, square)

    return after


def wrong_squares(state: np.ndarray, without: slice | None = None) -> int:
    """Cells of channel 0 that differ from the checkerboard, outside the square `without`."""
    wrong = state[..., 0] != checkerboard(*state.shape[:2]).astype(bool)
    if without is not None:
        wrong[without, without] = False
    return int(wrong.sum())


def robustness(
    cell: CellCircuit, side: int, steps: int, wound: int, fire_rate: float = FIRE_RATE, seed: int = SEED
) -> list[int]:
    """Wrong cells after each step of an asynchronous run in which each step clears a random square.

    The square's top left cell is uniform over the board; the part beyond the border is cut off.
    """
    rng = np.random.default_rng(seed)
    target = checkerboard(side, side).astype(bool)
    wrong = []

    def after(_: int, board: Board) -> None:
        top, left = rng.integers(0, side, 2).tolist()
        board.clear(slice(top, top + wound), slice(left, left + wound))
        wrong.append(int((board.read()[..., 0] != target).sum()))

    asynchronous = replace(cell, fire_rate=fire_rate)
    asynchronous.run(noise(cell, side, side, rng), steps, rng, after)
    return wrong


def _checkerboard(cell: CellCircuit, sizes: Sizes) -> list[Finding]:
    synchronous = cell.fire_rate == 1
    side, steps = sizes.checkerboard if synchronous else sizes.checkerboard_async
    damaged = steps // 2
    cells = side * side
    whole = centre(side)
    inside = (whole.stop - whole.start) ** 2
    fault = _regrown(cell, side, steps, steps)
    healed = _regrown(cell, side, steps, damaged)
    return [
        _training_boards("checkerboard" if synchronous else "checkerboard-async", cell, sizes.starts),
        Finding(f"{side}x{side}, {steps} steps", wrong_squares(_regrown(cell, side, steps, 0)), cells),
        Finding(
            f"{side}x{side}, {steps} steps, the central {DAMAGE}x{DAMAGE} cleared after each: outside it",
            wrong_squares(fault, whole),
            cells - inside,
        ),
        Finding(
            f"{side}x{side}, the central {DAMAGE}x{DAMAGE} cleared in the first {damaged} steps, then {steps - damaged} free",
            wrong_squares(healed),
            cells,
        ),
        _robust(cell, sizes, "synchronous" if synchronous else "asynchronous"),
    ]


def _training_boards(name: str, cell: CellCircuit, starts: int) -> Finding:
    """Random states of the training's size, for the training's steps."""
    e, rng = EXPERIMENTS[name], np.random.default_rng(SEED)
    wrong = sum(wrong_squares(cell.run(noise(cell, *e.grid, rng), e.ca_steps, rng)) for _ in range(starts))
    height, width = e.grid
    return Finding(f"{height}x{width}, {e.ca_steps} steps, {starts} random starts", wrong, starts * height * width)


def _regrown(cell: CellCircuit, side: int, steps: int, damaged: int) -> np.ndarray:
    rng = np.random.default_rng(SEED)
    return cell.run(noise(cell, side, side, rng), steps, rng, damaged_until(damaged, side))


def _robust(cell: CellCircuit, sizes: Sizes, trained: str) -> Finding:
    side, steps, first = sizes.robustness
    wrong = robustness(cell, side, steps, sizes.wound)
    counted = wrong[first:]
    return Finding(
        f"{side}x{side}, run asynchronously, a random {sizes.wound}x{sizes.wound} cleared after each step: "
        f"mean over steps {first} to {steps - 1}",
        round(float(np.mean(counted)), 1),
        side * side,
        published()["robustness"][trained] if sizes.robustness == ARTICLE.robustness else None,
        tuple(wrong),
    )


# -- patterns


def grown(cell: CellCircuit, side: int, steps: int) -> np.ndarray:
    """The board after `steps` steps from one cell of ones in the middle."""
    start = np.zeros((side, side, cell.channels), np.uint8)
    start[side // 2, side // 2] = 1
    return cell.run(start, steps)


def _lizard(cell: CellCircuit, sizes: Sizes) -> list[Finding]:
    steps, findings = EXPERIMENTS["lizard"].ca_steps, []
    for side in (20, 40):
        around = (side - 20) // 2
        wanted = np.pad(lizard(), around).astype(bool)
        wrong = int((grown(cell, side, steps)[..., 0] != wanted).sum())
        findings.append(Finding(f"{side}x{side} from one cell, {steps} steps", wrong, side * side))
    return findings


def _letter_g(cell: CellCircuit, sizes: Sizes) -> list[Finding]:
    e, wanted = EXPERIMENTS["letter-g"], letter_g().astype(bool)
    state = cell.run(np.zeros((*e.grid, cell.channels), np.uint8), e.ca_steps)
    wrong = int((state[..., : e.loss_channels] != wanted).sum())
    return [Finding(f"{e.grid[0]}x{e.grid[1]} from zeros, {e.ca_steps} steps, colour bits", wrong, wanted.size)]


_EVALUATIONS: dict[str, Callable[[CellCircuit, Sizes], list[Finding]]] = {
    "life": _life,
    "checkerboard": _checkerboard,
    "checkerboard-async": _checkerboard,
    "lizard": _lizard,
    "letter-g": _letter_g,
}


# -- rollouts to look at


def loaded(cell: CellCircuit, state: np.ndarray) -> Board:
    """A board of the cell with the given state (H, W, channels)."""
    board = cell.runner(*state.shape[:2])
    board.load(state)
    return board


def rollout(name: str, cell: CellCircuit) -> np.ndarray:
    """The states of a run for an animation: bool (frames, H, W, shown channels).

    life: a random board. The checkerboards: the middle is cleared for half the time, then heals. lizard: on 40x40.
    """
    check_cell(name, cell)
    e, rng = EXPERIMENTS[name], np.random.default_rng(SEED)
    side, steps = {
        "life": (64, 100),
        "checkerboard": (64, 80),
        "checkerboard-async": (56, 200),
        "lizard": (40, 12),
    }.get(name, (16, e.ca_steps))
    start = np.zeros((side, side, cell.channels), np.uint8)
    if name == "lizard":
        start[side // 2, side // 2] = 1
    elif name != "letter-g":
        start = noise(cell, side, side, rng)
    damage = damaged_until(steps // 2 if name.startswith("checkerboard") else 0, side)
    shown = 3 if name == "letter-g" else 1
    frames = [start[..., :shown].astype(bool)]

    def keep(step: int, board: Board) -> None:
        damage(step, board)
        frames.append(board.read()[..., :shown])

    cell.run(start, steps, rng, keep)
    return np.stack(frames)
