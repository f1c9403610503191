"""The five experiments of "Differentiable Logic Cellular Automata" (Miotti and others, 2025), with their settings.

In: a name and a seed. Out: the automaton, its data, its optimizer and the step that trains it. If the article and its notebook
differ, this module follows the notebook: the same seed gives its wires, start states and masks, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import shadergrad as sg

from ..nn.errors import ArgumentError
from ..nn.utils import clip_grad_value_
from ..optim import AdamW
from . import wiring
from .automata import LogicCA, draw_masks, squared_error
from .remedies import Remedies, focal_error

CLIP = 100.0  # largest entry of a gradient
FIRE_RATE = 0.6
SEED = 23


@dataclass(frozen=True)
class Experiment:
    """Settings of one experiment.

    steps: those of the optimizer;
    ca_steps: those of the automaton in each.
    grid: (height, width).
    update: sizes of the update network after its input.
    loss_channels: the number of channels that the loss compares with the target.
    data: makes (start, target) from a key and the settings; start (batch, height, width, channels), target the same with
    loss_channels, float32.
    fresh: whether they differ between steps. remedies: see Remedies; the published experiments have none.
    """

    name: str
    lr: float
    batch: int
    steps: int
    ca_steps: int
    channels: int
    grid: tuple[int, int]
    border: str
    kernels: int
    perception: tuple[int, ...]
    update: tuple[int, ...]
    data: Callable[[np.ndarray, Experiment], tuple[np.ndarray, np.ndarray]]
    fresh: bool = True
    loss_channels: int = 1
    fire_rate: float | None = None
    remedies: Remedies = field(default_factory=Remedies)

    @property
    def n_features(self) -> int:
        """Inputs of the update network."""
        return self.channels + self.channels * self.perception[-1] * self.kernels


# -- data


def life_boards() -> np.ndarray:
    """All 3x3 boards (512, 3, 3): board i is the nine bits of i, the highest first."""
    return (np.arange(512)[:, None] >> np.arange(8, -1, -1) & 1).reshape(512, 3, 3)


def life_step(boards: np.ndarray) -> np.ndarray:
    """The next boards of Conway's Game of Life on a torus; boards (..., height, width) of 0 and 1."""
    around = [np.roll(boards, (dy, dx), (-2, -1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    count = np.sum(around, axis=0)
    return ((count == 3) | (boards == 1) & (count == 2)).astype(boards.dtype)


def checkerboard(height: int, width: int, square: int = 2) -> np.ndarray:
    """(height, width): 0 and 1 in squares, 0 at the top left."""
    y, x = np.indices((height, width))
    return ((x // square + y // square) % 2).astype(np.float32)


LIZARD = """
    0 e000 e000 1f200 1f700 1f600 fe10 7e38 bff0 1ffc0 1ffc0 fc0 7e0 fe0 1ee0 ce0 6c 74 3c 0
"""

LETTER_G = """
................
.....RRRRRR.....
...RRRRRRRRRR...
..RRRRRRRRRR....
..RRR...........
.YYR............
.YYY............
.YYY....BBBBBBB.
.YYY....BBBBBBB.
.YYY.......BBBB.
.YYG........BBB.
..GGG......BBB..
...GGG....GBBB..
....GGGGGGGG....
......GGGG......
................
"""


def lizard() -> np.ndarray:
    """The mask (20, 20) of the lizard."""
    rows = np.array([int(row, 16) for row in LIZARD.split()])
    return (rows[:, None] >> np.arange(19, -1, -1) & 1).astype(np.float32)


def letter_g() -> np.ndarray:
    """The coloured letter (16, 16, 3): red, green and blue bits."""
    colours = {".": (0, 0, 0), "R": (1, 0, 0), "G": (0, 1, 0), "Y": (1, 1, 0), "B": (0, 0, 1)}
    return np.array([[colours[c] for c in row] for row in LETTER_G.split()], np.float32)


def _life(key: np.ndarray, settings: Experiment) -> tuple[np.ndarray, np.ndarray]:
    chosen = life_boards()[wiring.randint(key, (settings.batch,), 0, 512)]
    return chosen[..., None].astype(np.float32), life_step(chosen)[..., None].astype(np.float32)


def _from_noise(key: np.ndarray, settings: Experiment) -> tuple[np.ndarray, np.ndarray]:
    start = wiring.randint(key, (settings.batch, *settings.grid, settings.channels), 0, 2)
    return start.astype(np.float32), _repeated(checkerboard(*settings.grid)[..., None], settings)


def _from_seed_cell(key: np.ndarray, settings: Experiment) -> tuple[np.ndarray, np.ndarray]:
    start = np.zeros((settings.batch, *settings.grid, settings.channels), np.float32)
    start[:, settings.grid[0] // 2, settings.grid[1] // 2] = 1
    return start, _repeated(lizard()[..., None], settings)


def _from_zeros(key: np.ndarray, settings: Experiment) -> tuple[np.ndarray, np.ndarray]:
    start = np.zeros((settings.batch, *settings.grid, settings.channels), np.float32)
    return start, _repeated(letter_g(), settings)


def _repeated(target: np.ndarray, settings: Experiment) -> np.ndarray:
    return np.broadcast_to(target, (settings.batch, *target.shape)).copy()


# -- settings

_TAIL = (128, 64, 32, 16, 8, 8)

EXPERIMENTS = {
    e.name: e
    for e in (
        Experiment(
            "life",
            0.05,
            20,
            3000,
            1,
            1,
            (3, 3),
            "periodic",
            16,
            (9, 8, 4, 2, 1),
            (128,) * 17 + (64, 32, 16, 8, 4, 2, 1),
            _life,
        ),
        Experiment(
            "checkerboard", 0.05, 2, 500, 20, 8, (16, 16), "zeros", 16, (9, 8, 4, 2), (256,) * 10 + _TAIL, _from_noise
        ),
        Experiment(
            "checkerboard-async",
            0.05,
            1,
            800,
            50,
            8,
            (14, 14),
            "zeros",
            16,
            (9, 8, 4, 2),
            (256,) * 14 + _TAIL,
            _from_noise,
            fire_rate=FIRE_RATE,
        ),
        Experiment(
            "lizard",
            0.06,
            1,
            3500,
            12,
            128,
            (20, 20),
            "periodic",
            4,
            (9, 8, 4, 2, 1),
            (512,) * 8 + (256, 128),
            _from_seed_cell,
            fresh=False,
        ),
        Experiment(
            "letter-g",
            0.06,
            1,
            3000,
            15,
            64,
            (16, 16),
            "zeros",
            4,
            (9, 8, 4, 2),
            (512,) * 8 + (256, 128, 64),
            _from_zeros,
            fresh=False,
            loss_channels=3,
        ),
    )
}


# -- training


class Training:
    """A running experiment: `model`, `optimizer`, and the keys of the next draws.

    data_key, mask_key: two uint32 words each; with the state of model and optimizer they suffice to resume a run.
    """

    def __init__(self, settings: Experiment, seed: int = SEED, device: Any = None) -> None:
        self.settings, self.device = settings, device
        root = wiring.prng_key(seed)
        self.mask_key, of_wires = wiring.split(root)
        # the notebook's Game of Life draws its boards from a key that has been split once, the others from the seed's
        self.data_key = self.mask_key if settings.name == "life" else root
        self.model = LogicCA(
            settings.channels,
            settings.kernels,
            settings.perception,
            settings.update,
            border=settings.border,
            fire_rate=settings.fire_rate,
            key=of_wires,
            device=device,
            strength=settings.remedies.strength,
        )
        self.taken = 0  # steps, by `step` and `masks`
        self.optimizer = AdamW(self.model.parameters(), lr=settings.lr, betas=(0.9, 0.99), eps=1e-8, weight_decay=1e-2)

    def batch(self) -> tuple[sg.Tensor, sg.Tensor]:
        """The next start states (batch, height, width, channels) and targets (batch, height, width, loss_channels)."""
        self.data_key, drawn = wiring.split(self.data_key)
        start, target = self.settings.data(drawn, self.settings)
        return sg.tensor(start, device=self.device), sg.tensor(target, device=self.device)

    def masks(self) -> sg.Tensor | None:
        """The next masks (ca_steps, height, width, 1), or None if all cells change at every step."""
        self.mask_key, drawn = wiring.split(self.mask_key)
        settings = self.settings
        allowed = settings.remedies.masks(self.taken, 1, settings.ca_steps, settings.grid)
        self.taken += 1
        fires = None
        if settings.fire_rate is not None:
            fires = draw_masks(drawn, settings.ca_steps, *settings.grid, settings.fire_rate)
        if fires is None and allowed is None:
            return None
        both = [mask for mask in (fires, None if allowed is None else allowed[0]) if mask is not None]
        return sg.tensor(np.logical_and.reduce(both), device=self.device)

    def losses(
        self, start: sg.Tensor, target: sg.Tensor, masks: sg.Tensor | None = None, checkpoint_every: int | None = None
    ) -> tuple[sg.Tensor, sg.Tensor]:
        """The soft loss, to be differentiated, and the hard loss, which counts wrong bits; both scalars."""
        soft = self._loss(start, target, masks, False, checkpoint_every)
        with sg.no_grad():
            hard = self._loss(start, target, masks, True, None)
        return soft, hard

    def update(
        self, start: sg.Tensor, target: sg.Tensor, masks: sg.Tensor | None = None, checkpoint_every: int | None = None
    ) -> tuple[sg.Tensor, sg.Tensor]:
        """One optimizer step. Returns the losses before it. It reads no value, so sg.compile(x.update) works."""
        self.optimizer.zero_grad()
        soft, hard = self.losses(start, target, masks, checkpoint_every)
        soft.backward()
        self.settings.remedies.add_noise(self.model.parameters())
        clip_grad_value_(self.model.parameters(), CLIP)
        self.optimizer.step()
        return soft.detach(), hard

    def step(self) -> tuple[sg.Tensor, sg.Tensor]:
        """One optimizer step on the next batch. Returns the losses before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.lr * self.settings.remedies.rate(self.taken)
        start, target = self.batch()
        return self.update(start, target, self.masks())

    def _loss(
        self, start: sg.Tensor, target: sg.Tensor, masks: sg.Tensor | None, hard: bool, checkpoint_every: int | None
    ) -> sg.Tensor:
        end = self.model.rollout(start, self.settings.ca_steps, hard, checkpoint_every, masks=masks)
        focal = self.settings.remedies.focal
        if focal is None or hard:
            return squared_error(end, target, self.settings.loss_channels)
        return focal_error(end, target, focal, self.settings.loss_channels)


def build(name: str, seed: int = SEED, device: Any = None) -> Training:
    """An experiment by name, ready to train. Raises ArgumentError for a name that is not in EXPERIMENTS."""
    if name not in EXPERIMENTS:
        raise ArgumentError(f"[experiments] there is no experiment {name!r}; choose of {', '.join(EXPERIMENTS)}.")
    return Training(EXPERIMENTS[name], seed, device)
