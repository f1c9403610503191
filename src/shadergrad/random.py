"""The random numbers of all devices by PyTorch's name of the place: seeds, states, and a context that gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .habits import get_rng_state, initial_seed, seed, set_rng_state
from .tensor import manual_seed
from .tensor.random import set_state_of_all, state_of_all


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """A context after which the generators of all devices go on as if nothing had been drawn in it.

    devices and device_type choose among CUDA's in PyTorch; here all are given back. enabled: False for no such thing.

    >>> _ = sg.manual_seed(3)
    >>> with sg.random.fork_rng():
    ...     first = sg.rand(2)
    >>> first.equal(sg.rand(2))
    True
    """
    if not enabled:
        yield
        return
    before = state_of_all()
    try:
        yield
    finally:
        set_state_of_all(*before)


__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
