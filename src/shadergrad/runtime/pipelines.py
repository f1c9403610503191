"""The compiled kernels of a device, within a memory bound. In: kernels. Out: pipelines.

A driver keeps compiled code in host memory and does not report its size, so the size is estimated from the source. On
llvmpipe (Mesa 22.3) a map of 300 bytes of WGSL takes 0.1 MiB, a matrix multiplication of 4 KiB 1.1 MiB, and the kernels of a
convolution's training step, 18 KiB on average, 3 MiB each. On an H100 the 117 kernels of a step of ResNet-18, 2.7 MiB of source, take
177 MiB through Dawn, and no measurable memory through wgpu (2026-11-28). Beyond the limit the least recently used kernels are dropped;
their programs compile them again when they run. This module does not depend on wgpu: it is given the function that compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..plan import Kernel

BYTES_A_PIPELINE = 64 << 10
BYTES_A_CHARACTER = 192  # if the driver compiles for a CPU
BYTES_A_CHARACTER_OF_GPUS = 64
KEPT = 7 / 8  # of the limit that stays in use after eviction, so that ever new shapes do not evict every time

Key = tuple[str, tuple[str, ...]]


@dataclass(eq=False)
class Pipeline:
    """A compiled kernel. used: the time, in submissions, of its last request or run."""

    handle: Any
    access: tuple[str, ...]
    nbytes: int
    used: int = 0


class User(Protocol):
    """A holder of pipelines that can release them: a program. used: when it last ran."""

    used: int

    def pipelines(self) -> Collection[Pipeline]: ...

    def unload(self) -> None:
        """Release all pipelines; the next run requests them again."""
        ...


def estimated_bytes(kernel: Kernel, on_cpu: bool) -> int:
    """Host memory that a driver keeps for a compiled kernel."""
    return BYTES_A_PIPELINE + (BYTES_A_CHARACTER if on_cpu else BYTES_A_CHARACTER_OF_GPUS) * len(kernel.source)


class PipelineCache:
    """Pipelines by source and bindings: equal kernels are compiled once. All calls are made under the device's lock.

    create: compiles kernels, all or none. users: the existing programs. limit: in estimated bytes; the kernels of one program
    may exceed it. on_cpu: whether the kernels are a CPU's machine code.
    """

    def __init__(
        self, create: Callable[[list[Kernel]], list[Any]], users: Iterable[User], limit: int, on_cpu: bool
    ) -> None:
        self._on_cpu = on_cpu
        self._create = create
        self._users = users
        self._kept: dict[Key, Pipeline] = {}
        self.limit = limit
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, kernel: Kernel) -> bool:
        """Whether a kernel is compiled."""
        return (kernel.source, kernel.access) in self._kept

    def get(self, kernels: Sequence[Kernel], now: int) -> list[Pipeline]:
        """A pipeline for each kernel of one program, compiled if necessary. now: in submissions."""
        keys = [(kernel.source, kernel.access) for kernel in kernels]
        missing = {key: kernel for key, kernel in zip(keys, kernels, strict=True) if key not in self._kept}
        if missing:
            sizes = [estimated_bytes(kernel, self._on_cpu) for kernel in missing.values()]
            if self.nbytes + sum(sizes) > self.limit:
                self._make_room(sum(sizes), set(keys))
            made = self._create(list(missing.values()))
            for (key, kernel), handle, nbytes in zip(missing.items(), made, sizes, strict=True):
                self._kept[key] = Pipeline(handle, kernel.access, nbytes)
                self.nbytes += nbytes
        for key in keys:
            self._kept[key].used = now
        return [self._kept[key] for key in keys]

    def _make_room(self, nbytes: int, wanted: set[Key]) -> None:
        """Drop the least recently used, but none that is `wanted`."""
        users = list(self._users)
        for user in users:
            for pipeline in user.pipelines():
                pipeline.used = max(pipeline.used, user.used)
        dropped: set[Pipeline] = set()
        for key, pipeline in sorted(self._kept.items(), key=lambda item: item[1].used):
            if self.nbytes + nbytes <= KEPT * self.limit:
                break
            if key not in wanted:
                del self._kept[key]
                self.nbytes -= pipeline.nbytes
                dropped.add(pipeline)
        for user in users:
            if not dropped.isdisjoint(user.pipelines()):
                user.unload()

    def clear(self) -> None:
        """Forget all, after the device's loss."""
        self._kept.clear()
        self.nbytes = 0
