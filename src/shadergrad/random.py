"""Random numbers by PyTorch's name of the place: seeds, states, and a context that gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .habits import get_rng_state, initial_seed, seed, set_rng_state
from .tensor import manual_seed
from .tensor.generator import default_stream


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """A context after which random numbers go on as if nothing had been drawn in it.

    devices and device_type choose among CUDA's in PyTorch; here one stream serves all. enabled: False for no such thing.

    >>> _ = sg.manual_seed(3)
    >>> with sg.random.fork_rng():
    ...     first = sg.rand(2)
    >>> first.equal(sg.rand(2))
    True
    """
    if not enabled:
        yield
        return
    seed, drawn, _ = default_stream.at
    try:
        yield
    finally:
        default_stream.set(seed, drawn)


__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
