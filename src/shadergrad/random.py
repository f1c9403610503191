"""Random numbers by PyTorch's name of the place: seeds, states, and a context that gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .arguments import checked
from .tensor import default_generator, manual_seed
from .tensor.generator import stream_here


@checked
def get_rng_state() -> np.ndarray:
    """The state of the stream that all devices' random numbers come from: what set_rng_state takes.

    >>> state = sg.get_rng_state()
    >>> first = sg.rand(2)
    >>> sg.set_rng_state(state)
    >>> first.equal(sg.rand(2))
    True
    """
    return default_generator("cpu").get_state()


@checked
def set_rng_state(new_state: Any) -> None:
    """Go on from a state that get_rng_state gave.

    >>> sg.set_rng_state(sg.get_rng_state())
    """
    default_generator("cpu").set_state(np.asarray(new_state))


@checked
def initial_seed() -> int:
    """The seed of random numbers.

    >>> _ = sg.manual_seed(7)
    >>> sg.initial_seed()
    7
    """
    state = get_rng_state()
    return (int(state[0]) << 32) | int(state[1])


@checked
def seed() -> int:
    """Seed random numbers by chance, and give the seed.

    >>> sg.seed() == sg.initial_seed()
    True
    """
    drawn = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    manual_seed(drawn)
    return drawn


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
    seed, drawn, _ = stream_here().at
    try:
        yield
    finally:
        stream_here().set(seed, drawn)


__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
