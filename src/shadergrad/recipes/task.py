"""What a recipe and the loop agree on. In: the user's choices. Out: checked settings, and a task to train."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shadergrad import Tensor, nn
from shadergrad.optim import Optimizer

from ..errors import ShadergradError


class TrainingError(ShadergradError, ValueError):
    """A training that cannot start as asked, or cannot go on."""


@dataclass(frozen=True)
class Settings:
    """What the user chose, checked: raises TrainingError that names the option. `out` is the folder to write.

    own: the recipe's own options by name, as given on the command line; those that are None were not given.
    """

    epochs: int
    batch_size: int
    lr: float
    out: Path
    seed: int = 0
    device: str = "auto"
    resume: bool = False
    own: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for option, value in (("--epochs", self.epochs), ("--batch-size", self.batch_size)):
            if value < 1:
                raise TrainingError(f"{option} is {value}; it must be at least 1.")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise TrainingError(f"--lr is {self.lr}; it must be a positive number.")
        if self.seed < 0:
            raise TrainingError(f"--seed is {self.seed}; it must not be negative.")

    def hyperparameters(self) -> dict[str, Any]:
        """What a resumed run must share with the run it continues (epochs may grow, the device may change)."""
        return {"batch_size": self.batch_size, "lr": self.lr, "seed": self.seed}

    def options(self) -> str:
        """The command-line options that ask for these settings."""
        own = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in self.own.items() if value is not None)
        return (
            f"--epochs {self.epochs} --batch-size {self.batch_size} --lr {self.lr} --seed {self.seed} "
            f"--device {self.device} --out {shlex.quote(str(self.out))}{own}"
        )


@dataclass(frozen=True)
class Stream:
    """Batches that are made, where there are no arrays to draw them from.

    steps: batches in an epoch, after which the run is measured and saved. batches: takes the number of an epoch, from
    0, and gives at least that many batches: tuples of arrays of settings.batch_size samples. Asked for the same epoch
    it gives the same batches, whatever it gave before: seed a generator with (settings.seed, epoch). It runs in a
    thread of its own, and so makes NumPy arrays, not tensors.
    """

    steps: int
    batches: Callable[[int], Iterable[tuple[np.ndarray, ...]]]


@dataclass
class Task:
    """What a recipe hands to the loop.

    data: training arrays with equal first axes, or a Stream of batches. step: takes the parts of a batch as tensors on
    the device, updates the model and returns the loss, a scalar tensor; the loop compiles it.
    evaluate: measures of the model, by name.
    show: called at the end with the folder of the run; gives lines to print, and may draw into the folder.
    identity: what else a resumed run must share with the run it continues, by name: JSON data.
    """

    model: nn.Module
    optimizer: Optimizer
    data: tuple[np.ndarray, ...] | Stream
    step: Callable[..., Tensor]
    evaluate: Callable[[], dict[str, float]]
    show: Callable[[Path], list[str]] = lambda _: []
    identity: dict[str, Any] = field(default_factory=dict)


@dataclass
class Position:
    """How far a run is: epochs done, steps done in the epoch under way, and the sum of their losses."""

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0

    def __str__(self) -> str:
        return f"epoch {self.epoch}" + (f" and {self.step} steps" if self.step else "")
