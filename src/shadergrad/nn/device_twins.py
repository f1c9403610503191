"""Runs a module on another device for one call. In: a module. Out: copies (twins) of its tensors, which replace them during the call.

The module's own forward runs, with its own attributes, on twins of its parameters and buffers, so it computes the same there as here.
Before each call the originals that have changed are copied to their twins.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..drive import execute
from ..tensor import Tensor, standing_in
from ..tensor.generator import WORD, default_stream
from .errors import ModuleError
from .module import Module
from .parameter import Parameter

# a weak reference to the memory of a value, and the number of times it was overwritten
Version = tuple[Callable[[], Any], int]
NEVER: Version = (lambda: None, -1)


@dataclass(eq=False)
class Twin:
    """A tensor of a module, and its copy (twin) on another device.

    name: the first by which the module knows it. version: that of the value that was copied last.
    """

    name: str
    own: Tensor
    other: Tensor
    version: Version = NEVER

    @property
    def is_parameter(self) -> bool:
        return isinstance(self.own, Parameter)


class DeviceTwins:
    """Copies of a module's tensors on `device`, which replace them within `in_place()`.

    twins: one for each tensor, even if the module has it under several names. copied: how many the latest `sync` copied.
    """

    def __init__(self, module: Module, device: str) -> None:
        self.module, self.device = module, device
        self.copied = 0
        self._random = _Randomness()
        self._places = _places(module)
        self._twins: dict[int, Twin] = {}
        for _, _, name, own in self._places:
            if id(own) not in self._twins:
                self._twins[id(own)] = Twin(name, own, self.make(name, own))
        self.twins = list(self._twins.values())

    # -- methods that other kinds of twins override

    def make(self, name: str, own: Tensor) -> Tensor:
        """A twin with arbitrary values."""
        other = Tensor(np.zeros(tuple(own.shape), own.dtype.numpy), dtype=own.dtype, device=self.device)
        return Parameter(other, own.requires_grad) if isinstance(own, Parameter) else other

    def copy(self, twin: Twin, array: np.ndarray) -> None:
        """Copy the value of the original to a twin."""
        twin.other.write_(array)

    def require(self, twin: Twin) -> None:
        """Set requires_grad of a twin as on its original."""
        if twin.other.requires_grad != twin.own.requires_grad:
            twin.other.requires_grad_(twin.own.requires_grad)

    def settle(self, twin: Twin, now: Tensor) -> None:
        """Called after a call in which `now` replaced a twin, which is a buffer."""
        if now is not twin.other:
            twin.other.write_(now.detach().numpy())

    # -- following the originals

    def sync(self) -> int:
        """Copy the tensors that have changed since they were copied, and the state of random numbers; returns the number of tensors.

        Raises ModuleError if the module has other tensors than before.
        """
        self._check()
        changed = [twin for twin in self.twins if _version(twin.own) != twin.version]
        for twin in self.twins:
            if twin.is_parameter:
                self.require(twin)
        for twin, array in zip(changed, _download([twin.own for twin in changed]), strict=True):
            self.copy(twin, array)
            twin.version = _version(twin.own)
        self.copied = len(changed)
        self._random.follow()
        return self.copied

    @property
    def source(self) -> str:
        """The device of the module."""
        return str(self.twins[0].own.device) if self.twins else "cpu"

    def _check(self) -> None:
        places = _places(self.module)
        if [(name, id(own)) for _, _, name, own in places] != [(name, id(own)) for _, _, name, own in self._places]:
            raise ModuleError(
                f"[mirror] {type(self.module).__name__} has other tensors than when it was mirrored. "
                "Hint: mirror it anew; to change a value, write to the tensor."
            )

    # -- calls with the twins

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A context in which the twins replace the module's tensors. For one thread at a time; no compiled step may run meanwhile."""
        with execute.lock, self._random, standing_in(self.source, self.device):
            for table, key, _, own in self._places:
                table[key] = self._twins[id(own)].other
            try:
                yield
            finally:
                now = [(table[key], own) for table, key, _, own in self._places]
                for table, key, _, own in self._places:
                    table[key] = own
            for tensor, own in now:
                twin = self._twins[id(own)]
                if not twin.is_parameter:
                    self.settle(twin, tensor)

    def write_back_buffers(self) -> None:
        """Copy the twins' values after calls to the module's buffers, and advance its generator by a draw."""
        for twin in self.twins:
            if not twin.is_parameter:
                twin.own.write_(twin.other.detach().numpy())
        default_stream.advance()

    def next_seed(self) -> int:
        """A seed for another library's generator, derived from the state of ours, and different in each call."""
        return self._random.next_seed()

    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients of the twins by name; the twins' gradients become None."""
        found = {}
        for twin in self.twins:
            if twin.other.grad is not None:
                found[twin.name] = twin.other.grad.numpy()
                twin.other.grad = None
        return found


def _places(module: Module) -> list[tuple[dict[str, Any], str, str, Tensor]]:
    """The places of a module's tensors, also in plain attributes, recursively: table, key, dotted name, tensor."""
    found = []
    for prefix, part in module.named_modules():
        for table in (part._parameters, part._buffers, part.__dict__):
            for key, tensor in table.items():
                if isinstance(tensor, Tensor):
                    found.append((table, key, f"{prefix}.{key}" if prefix else key, tensor))
    return found


def _version(tensor: Tensor) -> Version:
    """A number that changes if the value of a tensor may have changed."""
    node = tensor._node
    if node.storage is None:
        execute.realize([node])
    storage: Any = node.storage
    return weakref.ref(storage), storage.writes


def _download(tensors: list[Tensor]) -> list[np.ndarray]:
    """The values of tensors."""
    return [execute.download(t._node) for t in tensors]


class _Randomness:
    """A context in which draws are those that the module's next call would make on its own device; afterwards the generator's state is restored."""

    def __init__(self) -> None:
        self._at = self._before = default_stream.at
        self._calls = 0

    def follow(self) -> None:
        """Adopt the stream's position, if it has moved."""
        if default_stream.at != self._at:
            self._at, self._calls = default_stream.at, 0

    def next_seed(self) -> int:
        self._calls += 1
        seed, drawn, _ = self._at
        entropy = [seed >> 32, seed % WORD, drawn, self._calls]
        words = np.random.SeedSequence(entropy).generate_state(2, np.uint32)
        return int(words[0]) << 31 | int(words[1]) >> 1

    def __enter__(self) -> None:
        self._before, default_stream.at = default_stream.at, self._at

    def __exit__(self, *_: object) -> None:
        default_stream.at = self._before
