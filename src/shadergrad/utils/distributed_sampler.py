"""The share of a data set that one of several processes trains on. In: the data set, how many processes, and which. Out: indices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from .. import distributed
from ..data.errors import DataError
from ..data.sampler import Sampler
from ..tensor import Generator, randperm


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th index, from `rank` on, of one order for all; without drop_last the first ones fill the last round.

    Without num_replicas and rank they are those of sg.distributed: 1 and 0. shuffle: a new order for each `set_epoch`, the same in all
    processes. Raises DataError for a rank that is not below num_replicas.

    >>> list(sg.utils.data.DistributedSampler("abcde", num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset = dataset
        self.num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        self.rank = distributed.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise DataError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0

    @property
    def num_samples(self) -> int:
        """How many indices each process gets."""
        if self.drop_last:
            return len(self.dataset) // self.num_replicas
        return math.ceil(len(self.dataset) / self.num_replicas)

    @property
    def total_size(self) -> int:
        """How many indices all processes get together."""
        return self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            order = randperm(len(order), generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        if order and not self.drop_last:
            order = (order * math.ceil(self.total_size / len(order)))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next order be that of an epoch."""
        self.epoch = epoch


__all__ = ["DistributedSampler"]
