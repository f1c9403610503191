"""Training with several processes: each takes its share of every batch, and all make the same step.

In: a Trainable, the same in all processes, and a process group. Out: the parts of a run that differ: shares of batches, means of gradients
and losses, separate random numbers, and synchronized stops. Only rank 0 writes files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

import shadergrad as sg
from shadergrad import Tensor

from .. import config
from ..data.sampler import RandomSampler, SequentialSampler
from ..distributed.agreement import refuse_unlike, share
from ..distributed.engines import ReduceOp
from ..distributed.groups import ProcessGroup, chosen
from ..distributed.objects import all_objects, from_root
from ..distributed.reducer import MEGABYTE, Reducer
from ..errors import ShadergradError
from ..tensor import default_generator
from .backward_engines import TrainingStep
from .epochs import steps_in_epoch
from .errors import TrainingError
from .settings import Settings
from .trainable import Stream, Trainable

T = TypeVar("T")

LOSSES = (1 << 26) + 1  # the number of their exchange, behind all others
APART = 0x9E3779B97F4A7C15  # between the seeds of processes


def join_launched() -> None:
    """Connect with the other processes, if torchrun, or a launcher with its variables, has started several."""
    if not sg.distributed.is_initialized() and config.launched_with("WORLD_SIZE") not in ("", "1"):
        sg.distributed.init_process_group("gloo")


def is_first() -> bool:
    """Whether this process is the one that writes and prints."""
    return sg.distributed.get_rank() == 0


def from_first(value: T) -> T:
    """The value of rank 0. All processes call it."""
    return from_root(value, 0, chosen(None, "Trainer")) if sg.distributed.get_world_size() > 1 else value


def computed_by_first(make: Callable[[], T]) -> T:
    """The result of a function that only rank 0 calls. Errors of the library are raised in all processes."""
    found: tuple[T | None, ShadergradError | None] = None, None
    if is_first():
        try:
            found = make(), None
        except ShadergradError as error:
            found = None, error
    value, error = from_first(found)
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


def share_of_batch(batch_size: int) -> int:
    """How many samples of a batch each process takes. Raises TrainingError if they cannot take equally many."""
    size = sg.distributed.get_world_size()
    if batch_size % size:
        raise TrainingError(
            f"a batch of {batch_size} cannot be shared by {size} processes evenly. Hint: another --batch-size."
        )
    return batch_size // size


def _refuse_uneven(steps: int, group: ProcessGroup) -> None:
    """Raises TrainingError in all processes where one would wait for another that has no more batches."""
    everyone = all_objects(steps, group)
    if len(set(everyone)) > 1:
        told = ", ".join(f"rank {rank} {count}" for rank, count in zip(group.ranks, everyone, strict=True))
        raise TrainingError(
            f"[Trainer] the DataLoaders have unequal numbers of batches: {told}. Hint: sg.utils.data.DistributedSampler gives all processes equally "
            "many samples."
        )


def _warn_of_equal_data(loader: Any, group: ProcessGroup) -> None:
    """Warns if all processes would train on all samples of what seems to be the same data set."""
    draws_all = isinstance(loader.sampler, RandomSampler | SequentialSampler)
    lengths = all_objects(len(loader.dataset) if draws_all else None, group)
    if draws_all and len(set(lengths)) == 1 and group.rank() == 0:
        warnings.warn(
            f"[Trainer] the DataLoader of each of {group.size()} processes gives all {lengths[0]} samples of its data set. If it is the same data set, "
            "each sample is trained several times an epoch. Hint: sampler=sg.utils.data.DistributedSampler(dataset), or give the data set itself.",
            stacklevel=4,
        )


class DataParallel:
    """The state of a distributed training; see the module. Raises TrainingError for a step that several processes cannot make."""

    def __init__(self, trainable: Trainable, settings: Settings) -> None:
        step = trainable.step
        if isinstance(step, TrainingStep) and (step.backward != "shaders" or step.accumulate != 1):
            raise TrainingError(
                f"several processes train with backward='shaders' and accumulate=1, not {step.backward!r} and {step.accumulate}. "
                "Hint: more processes are smaller shares of a batch."
            )
        group = chosen(None, "Trainer")
        self.rank, self.size = group.rank(), group.size()
        self._shares_batches = isinstance(trainable.data, Stream | tuple)
        if self._shares_batches:
            share_of_batch(settings.batch_size)
        else:
            _refuse_uneven(steps_in_epoch(trainable, settings), group)
            _warn_of_equal_data(trainable.data, group)
        model = trainable.model
        named = [*model.named_parameters(), *model.named_buffers()]
        refuse_unlike("Trainer", named, group, settings.hyperparameters() | trainable.identity)
        share([t for _, t in named], group)
        own, self._stops = group.engine.subgroup(range(self.size), None), group.engine.subgroup(range(self.size), None)
        self._group = group
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self._reducer = Reducer([p for _, p in trained], [n for n, _ in trained], group, own, 25 * MEGABYTE, False)
        self.seed_apart()

    def seed_apart(self) -> None:
        """Let each process draw its own random numbers, for dropout, starting from rank 0's stream."""
        generator = default_generator("cpu")
        high, low, drawn = generator.get_state().tolist()
        seed = ((high << 32 | low) + self.rank * APART) % (1 << 64)
        generator.set_state(np.array([seed >> 32, seed % (1 << 32), drawn], np.uint32))

    def batch(self, batch: Sequence[Any]) -> list[Any]:
        """This process's share of a batch that all have, for the parts with an entry per sample."""
        if not self._shares_batches:
            return list(batch)
        count = len(batch[0])
        return [x[self.rank :: self.size] if x.ndim and len(x) == count else x for x in batch]

    def begin_step(self) -> None:
        """Called before a backward pass whose gradients are exchanged."""
        self._reducer.arm()

    def mean(self, losses: Tensor) -> Tensor:
        """The mean of all processes' losses."""
        return self._reducer.mean(losses.detach(), LOSSES)

    def stops(self, wish: bool) -> bool:
        """Whether any process wants to stop: all ask after the same step."""
        wishes = np.array([int(wish)], np.int32)
        assert self._stops is not None
        self._stops.all_reduce(wishes, ReduceOp.SUM).wait()
        return bool(wishes[0])

    def firsts(self, value: Any) -> Any:
        """The value of rank 0."""
        return from_root(value, 0, self._group)


class NoMetrics:
    """The metrics of a process that writes none."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def begin(self) -> None:
        """Nothing."""

    def add(self, *rows: Any) -> None:
        """Nothing."""
