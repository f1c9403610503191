"""The batches of an epoch. In: data, and how far the run is. Out: batches on the device, made ahead of their use.

The order of an epoch depends on (seed, epoch) alone, and an epoch can be entered in its middle, so that a resumed run
takes the path of one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from ..data.dataset import IterableDataset, TensorDataset
from ..data.loader import DataLoader
from ..runtime.device import canonical_name
from .errors import RecipeError, TrainingError
from .settings import Settings
from .trainable import Position, Stream, Trainable

AHEAD = 8  # batches on the device that no step has taken yet


def steps_in_epoch(trainable: Trainable, settings: Settings) -> int:
    """How many batches an epoch has. Raises TrainingError where the data do not fill one."""
    if isinstance(trainable.data, Stream):
        steps = trainable.data.steps or settings.steps
        if steps is None:
            raise RecipeError("[Stream] the recipe counts epochs, so its Stream must say how many steps one has.")
        return steps
    samples = len(trainable.data[0])
    if settings.batch_size > samples:
        raise TrainingError(f"--batch-size is {settings.batch_size}; there are only {samples} training samples.")
    # whole batches only: what is left over is drawn in another epoch
    return samples // settings.batch_size


def loader(trainable: Trainable, settings: Settings, position: Position, last: int, device: str) -> DataLoader:
    """The batches from `position` up to the step `last` of its epoch.

    A thread makes and uploads them; on the cpu, which needs no upload, the caller's own.
    """
    workers = 0 if canonical_name(device) == "cpu" else 1
    options: dict[str, Any] = {"num_workers": workers, "prefetch_factor": AHEAD, "device": device}
    if isinstance(trainable.data, Stream):
        batches = islice(trainable.data.batches(position.epoch), position.step, last)
        return DataLoader(_Batches(batches), batch_size=None, **options)
    samples, size = len(trainable.data[0]), settings.batch_size
    order = np.random.default_rng((settings.seed, position.epoch)).permutation(samples)
    rows = order[: last * size].reshape(last, size)
    return DataLoader(TensorDataset(*trainable.data), batch_sampler=rows[position.step :], **options)


class _Batches(IterableDataset[Any]):
    """Batches that are whole already."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self.batches
