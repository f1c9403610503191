"""The interface between a recipe and a run: model, data and position of a training."""

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
    """Generated batches, for recipes without arrays.

    batches: maps the number of an epoch, from 0, to its batches in order: tuples of arrays of settings.batch_size samples. The
    same epoch must give the same batches: seed a generator with (settings.seed, epoch). It runs in a thread of its own, so it
    makes NumPy arrays, not tensors.
    steps: the number of batches in an epoch, after which the run is evaluated and saved; `batches` yields at least that many.
    None if the user sets the number of steps: the whole run is one epoch.
    """

    batches: Callable[[int], Iterable[tuple[np.ndarray, ...]]]
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise RecipeError(f"[Stream] an epoch has {self.steps} steps; it needs at least 1.")


@dataclass
class Position:
    """The position of a run: finished epochs, and the losses of the finished steps of the current epoch, before each update.

    losses: (steps, losses of `Trainable.step`), float32. If the user counts steps and the data are an endless Stream, they are
    those of the whole run. seconds: the time of this run and those that it continues.
    """

    losses: np.ndarray
    epoch: int = 0
    seconds: float = 0.0

    @property
    def step(self) -> int:
        """Finished steps of the current epoch."""
        return len(self.losses)


def _nothing() -> dict[str, float]:
    return {}


def _no_lines(_: Position) -> Iterable[str]:
    return ()


@dataclass
class Trainable:
    """A model with its data and step: a recipe builds it, and a run trains it.

    data: training arrays with equal first axes, a Stream of batches, or a DataLoader.
    step: takes the parts of a batch as tensors on the device, updates the model and returns the loss, a scalar tensor; the run
    compiles it. With a TrainingStep the user can choose the engine of the backward pass.
    evaluate: returns measures of the model, by name; the run draws "test_accuracy", from 0 to 1, beside the loss.
    show: called with the position at the end, also after a stop; it returns lines to print, and may write files into
    settings.out.
    identity: further values that a resumed run must share with the run it continues, by name: JSON data. None: that run must
        not have had the value either.
    page: writes the folder of `shadergrad export`, given its path; by default the page of any step.
    losses: the names of step's results in metrics.jsonl, several if it returns a tensor (losses,). The run draws the curve of
    one named "loss".
    loss_name: its name in the picture, as "loss (smoothed)".
    schedule: the factor of the learning rates for step 0, 1, 2 ... of the whole run; a resumed run continues it.
    unit: the unit of samples in the progress bar.
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
