"""The batches of an epoch. In: data, and the position of the run. Out: batches on the device, prepared ahead.

The order of an epoch depends on (seed, epoch) alone, and a loader can start in the middle of an epoch, so that a resumed run
equals an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from shadergrad import Tensor, tensor

from ..data.dataset import IterableDataset, TensorDataset
from ..data.loader import DataLoader
from ..runtime.device import canonical_name
from .errors import RecipeError, TrainingError
from .settings import Settings
from .trainable import Position, Stream, Trainable

AHEAD = 8  # batches on the device that no step has taken yet


def steps_in_epoch(trainable: Trainable, settings: Settings) -> int:
    """The number of batches in an epoch. Raises TrainingError if the data do not fill one."""
    if isinstance(trainable.data, DataLoader):
        return _loader_steps(trainable.data)
    if isinstance(trainable.data, Stream):
        steps = trainable.data.steps or settings.steps
        if steps is None:
            raise RecipeError("[Stream] the recipe counts epochs, so its Stream must say how many steps one has.")
        return steps
    samples = len(trainable.data[0])
    if settings.batch_size > samples:
        raise TrainingError(f"--batch-size is {settings.batch_size}; there are only {samples} training samples.")
    # whole batches only: the remaining samples are drawn in another epoch
    return samples // settings.batch_size


def _loader_steps(loader: DataLoader) -> int:
    try:
        steps = len(loader)
    except TypeError:
        raise TrainingError(
            "[Trainer] the DataLoader has no length, so an epoch would have no end. Hint: a data set with a length."
        ) from None
    if not steps:
        raise TrainingError("[Trainer] the DataLoader has no batch: fewer samples than one batch, or none.")
    return steps


def loader(trainable: Trainable, settings: Settings, position: Position, last: int, device: str) -> Iterable[Any]:
    """The batches from `position` up to the step `last` of its epoch.

    A thread prepares and uploads them; on the cpu, which needs no upload, the calling thread.
    """
    if isinstance(trainable.data, DataLoader):
        _set_epoch(trainable.data, position.epoch)
        return _uploaded(islice(trainable.data, position.step, last), device)
    options: dict[str, Any] = {"device": device}
    if canonical_name(device) != "cpu":
        options |= {"num_workers": 1, "prefetch_factor": AHEAD}
    if isinstance(trainable.data, Stream):
        batches = islice(trainable.data.batches(position.epoch), position.step, last)
        return DataLoader(_Batches(batches), batch_size=None, **options)
    samples, size = len(trainable.data[0]), settings.batch_size
    order = np.random.default_rng((settings.seed, position.epoch)).permutation(samples)
    rows = order[: last * size].reshape(last, size)
    return DataLoader(TensorDataset(*trainable.data), batch_sampler=rows[position.step :], **options)


def _set_epoch(loader: DataLoader, epoch: int) -> None:
    """Tell the samplers that have an order for each epoch (DistributedSampler) which one it is."""
    samplers: tuple[Any, ...] = (loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
    for sampler in samplers:
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)


def _uploaded(batches: Iterable[Any], device: str) -> Iterator[tuple[Any, ...]]:
    """The batches of a user's loader, moved to the device."""
    for batch in batches:
        if not isinstance(batch, tuple | list):
            raise TrainingError(f"[Trainer] a batch is a {type(batch).__name__}; it must be a tuple, the target last.")
        yield tuple(part.to(device) if isinstance(part, Tensor) else tensor(part, device=device) for part in batch)


class _Batches(IterableDataset[Any]):
    """A data set whose items are complete batches."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self.batches
