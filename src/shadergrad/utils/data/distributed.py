"""The share of a data set that one of several processes trains on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from numbers import Integral
from typing import Any

from ... import distributed
from ...data import DataError, Sampler
from ...data.dataset import length_of
from ...tensor import Generator, randperm


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th index from `rank` on, of an order that the seed and the epoch decide and all processes share.

    num_replicas, rank: by default those of sg.distributed. shuffle: else the indices come in order.
    drop_last: leave out what does not divide evenly; else the first indices come again, so that all shares are equally large.
    Call set_epoch(epoch) before each epoch, for another order. Raises DataError for a rank that there is not, and for numbers that are not whole.

    >>> list(sg.utils.data.DistributedSampler("abcde", num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        self.rank = distributed.get_rank() if rank is None else rank
        if not isinstance(self.num_replicas, Integral) or not isinstance(self.rank, Integral) or self.num_replicas < 1:
            raise DataError(
                f"[DistributedSampler] num_replicas={num_replicas!r}, rank={rank!r}: they must be whole numbers, num_replicas at least 1."
            )
        if not 0 <= self.rank < self.num_replicas:
            raise DataError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        whole, rest = divmod(length_of(dataset), self.num_replicas)
        self.num_samples = whole if drop_last or not rest else whole + 1
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        size = length_of(self.dataset)
        order = list(range(size))
        if self.shuffle and size:
            order = randperm(size, device="cpu", generator=Generator("cpu", self.seed + self.epoch)).tolist()
        return islice(cycle(order), self.rank, self.total_size, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch


__all__ = ["DistributedSampler"]
