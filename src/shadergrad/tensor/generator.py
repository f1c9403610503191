"""Generators of random numbers. In: a seed. Out: words of random bits, the same on every device.

The state of a stream is its seed and its number of draws. The host knows both without reading the device; the default generators of
all devices share one stream. A generator also keeps both as tensors on its device, so that a compiled step draws new numbers each time
it runs. If draws were made elsewhere in the meantime, these tensors are updated before the next draw. Guard: tests/device/test_random.py.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..arguments import check_constructors, checked, whole
from ..drive import execute
from ..drive.tracing import Trace, current
from ..dtypes import float32, int32, uint32
from ..errors import ArgumentTypeError, DeviceError
from ..graph import build
from ..graph.build import cast
from ..graph.node import Node, make
from ..primitives import elementwise as e
from ..primitives.random import Threefry, threefry2x32
from ..runtime.device import canonical_name
from .coercion import host_tensor
from .placement import host_device, resolve_device

LONGEST_CHAIN = 8  # recorded draws after which the counter is computed
WORD = 1 << 32

At = tuple[int, int, int]  # a seed, the number of draws from it, and how often the two were set


class Stream:
    """The seed and the number of draws of a stream."""

    def __init__(self) -> None:
        self.at: At = (0, 0, 0)

    def set(self, seed: int, drawn: int) -> None:
        """Continue from another position."""
        trace = current.trace
        if trace is not None:
            trace.on_change(self)
            trace.on_seed(self)
        self.at = (seed % (1 << 64), drawn % WORD, self.at[2] + 1)

    def advance(self, draws: int = 1) -> None:
        seed, drawn, settings = self.at
        self.at = (seed, (drawn + draws) % WORD, settings)

    def _snapshot(self) -> tuple[At]:
        return (self.at,)

    def _restore(self, state: tuple[At]) -> None:
        (self.at,) = state


class State(NamedTuple):
    """A generator's key and counter, and the stream position that they encode."""

    key: Node
    counter: Node
    at: At


class _Watchers(threading.local):
    """This thread's watchers of draws; draws of other threads do not belong to a function that runs here."""

    def __init__(self) -> None:
        self.tables: list[dict[int, tuple[Generator, State]]] = []


_watchers = _Watchers()


@contextmanager
def watching_draws() -> Iterator[dict[int, tuple[Generator, State]]]:
    """A context that records each generator used, with its state before."""
    found: dict[int, tuple[Generator, State]] = {}
    _watchers.tables.append(found)
    try:
        yield found
    finally:
        _watchers.tables.pop()


class Generator:
    """Threefry keys: draw n of a seed is the same bits on every device and in every run, and in JAX
    (fold_in(PRNGKey(seed), n), partitionable threefry). PyTorch's numbers differ.

    The state is two small tensors on the device, so that a compiled step draws new numbers each time it runs.
    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.

    >>> a, b = sg.Generator(seed=3), sg.Generator(seed=3)
    >>> sg.rand(4, generator=a).equal(sg.rand(4, generator=b))
    True
    """

    def __init__(self, device: str | None = None, seed: int = 0) -> None:
        device = self.device = device or host_device() or resolve_device(None)
        self.key = host_tensor(np.zeros(2, np.uint32), device=device)
        self.counter = host_tensor(np.zeros((), np.uint32), device=device)
        self._at: At = (0, 0, 0)  # their state
        self._chained = 0  # draws since the counter was computed
        self._stream = Stream()
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start over: seed is a 64-bit number, a negative one counted from 2^64. Returns the generator.

        >>> generator = sg.Generator().manual_seed(3)
        """
        self._stream.set(whole("manual_seed", "seed", seed), 0)
        return self

    def initial_seed(self) -> int:
        """The seed of the numbers, as manual_seed took it; a negative one counted from 2^64.

        >>> sg.Generator().manual_seed(3).initial_seed()
        3
        """
        if current.trace is not None:
            current.trace.on_read("the seed of a generator")
        return self._stream.at[0]

    def seed(self) -> int:
        """Start over with a seed from the operating system, and return it.

        >>> generator = sg.Generator()
        >>> generator.seed() == generator.initial_seed()
        True
        """
        if current.trace is not None:
            current.trace.on_read("a seed from the operating system")
        self.manual_seed(secrets.randbits(63))
        return self._stream.at[0]

    def get_state(self) -> np.ndarray:
        """Key and counter, three uint32, for set_state.

        >>> sg.Generator(seed=3).get_state()
        array([0, 3, 0], dtype=uint32)
        """
        if current.trace is not None:  # every call would return the state of the first one
            current.trace.on_read("the state of a generator")
        seed, drawn, _ = self._stream.at
        return np.array([seed >> 32, seed % WORD, drawn], np.uint32)

    def set_state(self, state: np.ndarray) -> Generator:
        """Continue from a state that get_state returned. Returns the generator.

        >>> generator = sg.Generator(seed=3)
        >>> state, first = generator.get_state(), sg.rand(4, generator=generator)
        >>> sg.rand(4, generator=generator.set_state(state)).equal(first)
        True
        """
        high, low, drawn = np.asarray(state, np.uint32).tolist()
        self._stream.set(high << 32 | low, drawn)
        return self

    def bits(self, shape: tuple[int, ...]) -> Node:
        """New random words, uint32, of `shape`."""
        self._begin_draw()
        one = self.counter._node
        if one.storage is not None:
            self._chained = 0
        elif self._chained >= LONGEST_CHAIN and current.trace is None:
            execute.realize([one])  # else every draw would be a longer graph than the one before, and compiled anew
            self._chained = 0
        self._chained += 1
        zero = build.like(one, 0)
        key = build.reshape(make(Threefry(), self.key._node, zero, one), (2,))
        self.counter._assign(make(e.Add(), one, build.like(one, 1)))
        self._stream.advance()
        self._at = self._stream.at
        return random_bits(key, shape)

    def host_words(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """A draw on the host: the two words of each of `count` positions, uint32."""
        if _watchers.tables:
            self._begin_draw()
        state = self.get_state()
        self._stream.advance()
        key = threefry2x32(state[:2], np.zeros((), np.uint32), state[2])
        return threefry2x32(np.array(key), np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32))

    def catch_up(self) -> None:
        """Update key and counter to the stream's position."""
        trace = current.trace
        if trace is not None and id(self) not in trace.generators:
            self._enter(trace)
        if self._at != self._stream.at:
            self._write(self._stream.at)

    def _begin_draw(self) -> None:
        self.catch_up()
        for found in _watchers.tables:
            found.setdefault(id(self), (self, self.state()))

    def state(self) -> State:
        """Its position, as nodes that need not be computed yet."""
        return State(self.key._node, self.counter._node, self._at)

    @property
    def stream(self) -> Stream:
        """The stream from which it draws."""
        return self._stream

    def set_back(self, state: State) -> None:
        """Return to an earlier position."""
        for tensor, node in ((self.key, state.key), (self.counter, state.counter)):
            if tensor._node is not node:
                tensor._assign(node)
        self._at = state.at

    def adopt(self) -> None:
        """Set the stream's position from key and counter, which have been written."""
        high, low = self.key.tolist()
        self._stream.set(high << 32 | low, int(self.counter.item()))
        self._at = self._stream.at

    def _write(self, at: At) -> None:
        seed, drawn, settings = at
        if (seed, settings) != (self._at[0], self._at[2]):
            self.key.write_(np.array([seed >> 32, seed % WORD], np.uint32))
        self.counter.write_(np.array(drawn, np.uint32))
        self._at = at

    def _enter(self, trace: Trace) -> None:
        """A captured function draws from this for the first time: record key and counter from before."""
        trace.on_change(self._stream)
        (began,) = trace.before[id(self._stream)][1]
        if self._at != began:
            current.trace = None
            try:
                self._write(began)
            finally:
                current.trace = trace
        trace.on_change(self)
        trace.on_generator(self)

    def _snapshot(self) -> tuple[At]:
        return (self._at,)

    def _restore(self, state: tuple[At]) -> None:
        (self._at,) = state


check_constructors(Generator)


class Draws:
    """The draws of a captured function: a call begins with `ready`, and ends with `made`.

    Key and counter are state of the step, which it advances on the device; the host advances its count by the same amount.
    """

    def __init__(self, trace: Trace) -> None:
        """Call this before the function's actions are undone."""
        self.generators: list[Generator] = list(trace.generators.values())
        self._set: list[tuple[Stream, At]] = []
        self._advanced: list[tuple[Stream, int]] = []
        for stream, state in trace.before.values():
            if isinstance(stream, Stream):
                if id(stream) in trace.seeded:
                    self._set.append((stream, stream.at))
                else:
                    self._advanced.append((stream, stream.at[1] - state[0][1]))

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.generators or self._set or self._advanced)

    def ready(self) -> None:
        for generator in self.generators:
            generator.catch_up()

    def made(self) -> None:
        for stream, at in self._set:
            stream.at = at
        for stream, draws in self._advanced:
            stream.advance(draws)
        for generator in self.generators:
            generator._at = generator._stream.at


def random_bits(key: Node, shape: tuple[int, ...]) -> Node:
    """As jax.random.bits(key, shape) with jax_threefry_partitionable: the words of the 64-bit position, xored."""
    size = math.prod(shape)
    low = make(e.Cast(uint32), build.iota(size, key.device))
    return build.reshape(make(Threefry(True), key, build.like(low, 0), low), shape)


def uniform_bits(bits: Node) -> Node:
    """Uniform float32 on [0, 1) from words: 23 bits as the mantissa of a number on [1, 2), less 1."""
    mantissa = make(e.Or(), make(e.ShiftRight(), bits, build.like(bits, 9)), build.like(bits, 0x3F800000))
    unit = make(e.Bitcast(float32), mantissa)
    return unit - 1.0


def signed_bits(bits: Node) -> Node:
    """Uniform float32 on (-1, 1) from words: the numbers 2 u - (1 - 2^-24) for u of `uniform_bits`, counted as integers.

    As floats a driver may add the two constants first, which rounds them: at the ends, where the inverse of a distribution
    function is steep, the last bit is all there is.
    """
    odd = make(
        e.Or(),
        make(e.ShiftLeft(), make(e.ShiftRight(), bits, build.like(bits, 9)), build.like(bits, 2)),
        build.like(bits, 1),
    )
    return cast(cast(odd, int32) - (1 << 24), float32) * 2.0**-24


default_stream = Stream()
_generators: dict[str, Generator] = {}


class _Defaults(threading.local):
    """The stream of this thread's default generators: the same in all threads, except in workers of loaders."""

    stream: Stream = default_stream
    generators: dict[str, Generator] | None = None


_defaults = _Defaults()


@contextmanager
def own_draws(seed: int) -> Iterator[None]:
    """A context in which this thread's default generators start with `seed`, independently of those of other threads."""
    before = _defaults.stream, _defaults.generators
    _defaults.stream, _defaults.generators = Stream(), {}
    _defaults.stream.set(seed, 0)
    try:
        yield
    finally:
        _defaults.stream, _defaults.generators = before


def stream_here() -> Stream:
    """The stream of this thread's default generators."""
    return _defaults.stream


def default_generator(device: str) -> Generator:
    """The generator of a device that rand and similar functions use. All of them draw from one stream."""
    generators = _generators if _defaults.generators is None else _defaults.generators
    found = generators.get(device)
    if found is None:
        trace, current.trace = current.trace, None
        try:
            found = generators[device] = Generator(device)
            found._stream = _defaults.stream
        finally:
            current.trace = trace
        if trace is not None:  # a step that is the first to draw: its generator is state, as if made before the step
            for tensor in (found.key, found.counter):
                tensor._serial = -tensor._serial
    return found


@checked
def manual_seed(seed: int) -> None:
    """Seed the stream of all devices' default generators (PyTorch also returns the cpu's generator). Raises ValueError if it is not a number.

    >>> sg.manual_seed(3)
    >>> first = sg.rand(4)
    >>> sg.manual_seed(3)
    >>> sg.rand(4).equal(first)
    True
    """
    _defaults.stream.set(int(seed), 0)


def source(generator: Generator | None, device: Any) -> Generator:
    """The generator for a device: the given one, or the default."""
    if generator is None:
        return default_generator(resolve_device(device))
    if not isinstance(generator, Generator):
        raise ArgumentTypeError(f"argument 'generator' must be Generator, not {type(generator).__name__}")
    if device is not None and canonical_name(device) != canonical_name(generator.device):
        raise DeviceError(f"the generator is on {generator.device}, the numbers are wanted on {device}.")
    return generator
