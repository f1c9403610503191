"""What a recipe and a run agree on: what is trained on which data, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shadergrad import Tensor, nn
from shadergrad.optim import Optimizer

from ..data.loader import DataLoader
from .errors import RecipeError


@dataclass(frozen=True)
class Stream:
    """Batches that are made, where there are no arrays to draw them from.

    batches: takes the number of an epoch, from 0, and gives its batches in order: tuples of arrays of
    settings.batch_size samples. Asked for the same epoch it gives the same batches, whatever it gave before: seed a
    generator with (settings.seed, epoch). It runs in a thread of its own, and so makes NumPy arrays, not tensors.
    steps: batches in an epoch, after which the run is measured and saved; `batches` gives at least that many. None,
    where the user says how many steps there are: the whole run is one epoch.
    """

    batches: Callable[[int], Iterable[tuple[np.ndarray, ...]]]
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise RecipeError(f"[Stream] an epoch has {self.steps} steps; it needs at least 1.")


@dataclass
class Position:
    """How far a run is: epochs done, and the losses of the steps done in the epoch under way, before each update.

    losses: (steps, losses that `Trainable.step` gives), float32. Where the user counts steps and not epochs, and the data
    are a Stream without end, they are those of the whole run. seconds: spent by this run and those that it goes on from.
    """

    losses: np.ndarray
    epoch: int = 0
    seconds: float = 0.0

    @property
    def step(self) -> int:
        """Steps done in the epoch under way."""
        return len(self.losses)


def _nothing() -> dict[str, float]:
    return {}


def _no_lines(_: Position) -> Iterable[str]:
    return ()


@dataclass
class Trainable:
    """What a recipe builds, and a run trains.

    data: training arrays with equal first axes, a Stream of batches, or a DataLoader. step: takes the parts of a batch as tensors on
    the device, updates the model and returns the loss, a scalar tensor; the run compiles it. A TrainingStep is one that lets
    the user choose how the backward pass runs.
    evaluate: measures of the model, by name; "test_accuracy", from 0 to 1, is drawn beside the loss.
    show: called at the end, also of a run that was stopped, with how far it is; gives lines to print, and may write
    files into settings.out.
    identity: what else a resumed run must share with the run it continues, by name: JSON data.
    page: writes the folder of `shadergrad export`, given its path; by default the step goes onto the page that any step has.
    losses: names of what step returns, in metrics.jsonl: several where it returns a tensor (losses,). Of one named
    "loss" the run draws the curve. loss_name: what it is called there, as "loss (smoothed)".
    schedule: the factor of the learning rates for step 0, 1, 2 ... of the whole run; a resumed run enters it where it
    left. unit: what the samples are, as the progress bar says them.
    """

    model: nn.Module
    optimizer: Optimizer
    data: tuple[np.ndarray, ...] | Stream | DataLoader
    step: Callable[..., Tensor]
    evaluate: Callable[[], dict[str, float]] = _nothing
    show: Callable[[Position], Iterable[str]] = _no_lines
    identity: dict[str, Any] = field(default_factory=dict)
    losses: tuple[str, ...] = ("loss",)
    page: Callable[[Path], object] | None = None
    schedule: Callable[[int], float] | None = None
    unit: str = "samples"
    loss_name: str = "loss"

    def __post_init__(self) -> None:
        if isinstance(self.data, Stream | DataLoader):
            return
        if not isinstance(self.data, tuple) or not self.data or not all(isinstance(a, np.ndarray) for a in self.data):
            raise RecipeError(
                "[Trainable] data must be a tuple of NumPy arrays, or a Stream; see examples/my_recipe.py."
            )
        if len({a.shape[:1] for a in self.data}) > 1 or not self.data[0].ndim:
            shapes = ", ".join(str(a.shape) for a in self.data)
            raise RecipeError(f"[Trainable] the arrays of data need equal first axes, one entry a sample: {shapes}.")
