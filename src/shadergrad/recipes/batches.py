"""The batches of an epoch. In: a task's data, and how far the run is. Out: batches on the device, made ahead of their use.

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
from .task import Position, Settings, Stream, Task, TrainingError


def steps_in_epoch(task: Task, settings: Settings) -> int:
    """How many batches an epoch has. Raises TrainingError where the data do not fill one."""
    if isinstance(task.data, Stream):
        return task.data.steps
    samples = len(task.data[0])
    if settings.batch_size > samples:
        raise TrainingError(f"--batch-size is {settings.batch_size}; there are only {samples} training samples.")
    # whole batches only: what is left over is drawn in another epoch
    return samples // settings.batch_size


def loader(task: Task, settings: Settings, position: Position, device: str) -> DataLoader:
    """What is left of the epoch under way. A thread makes and uploads it; on the cpu, which needs no upload, the loop."""
    options: dict[str, Any] = {"num_workers": 0 if canonical_name(device) == "cpu" else 1, "device": device}
    steps = steps_in_epoch(task, settings)
    if isinstance(task.data, Stream):
        batches = islice(task.data.batches(position.epoch), position.step, steps)
        return DataLoader(_Batches(batches), batch_size=None, **options)
    order = np.random.default_rng((settings.seed, position.epoch)).permutation(len(task.data[0]))
    rows = order[: steps * settings.batch_size].reshape(steps, settings.batch_size)
    return DataLoader(TensorDataset(*task.data), batch_sampler=rows[position.step :], **options)


class _Batches(IterableDataset[Any]):
    """Batches that are whole already."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self.batches
