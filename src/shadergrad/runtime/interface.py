"""The interface between the webgpu device and an implementation of WebGPU.

Implementations: `wgpu` (wgpu-native) and `dawn` (Dawn, Chrome's), which share `native`, as both have the same C header, and `page`, a
browser's. Each is a module with NAME, PACKAGE, enumerate_adapters() and open_device(); `implementations` chooses one for the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..target import Matrices

# GPUBufferUsage: https://www.w3.org/TR/webgpu/#buffer-usage
MAP_READ, MAP_WRITE, COPY_SRC, COPY_DST, UNIFORM, STORAGE, QUERY_RESOLVE = 0x1, 0x2, 0x4, 0x8, 0x40, 0x80, 0x200
STORAGE_USAGE = STORAGE | COPY_SRC | COPY_DST
UNIFORM_USAGE = UNIFORM | COPY_DST
READ_USAGE = UNIFORM | STORAGE
STAGING_USAGE = MAP_READ | COPY_DST
UPLOAD_USAGE = MAP_WRITE | COPY_SRC
QUERY_USAGE = QUERY_RESOLVE | COPY_SRC

Command = tuple[Any, Any, int, int, int]  # pipeline, bind group, workgroups x, y, z
Copy = tuple[Any, Any, int]  # source, destination, bytes
Stretch = tuple[Any, int, Any, int, int]  # source, from its byte, destination, to its byte, bytes
MOST_OPERATIONS = 16_000_000_000  # of runs that share a submission: some 10 milliseconds on a weak GPU
SOON_PER_SUBMISSION = 8  # runs in one submission, soon after a wait
MOST_PER_SUBMISSION = 32  # the same after many runs without a wait


class NativeError(Exception):
    """The implementation refused a call. `out_of_memory` marks the only kind of error that freeing memory may cure."""

    def __init__(self, message: str, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.out_of_memory = out_of_memory


@dataclass
class Events:
    """Reports of callbacks: errors as (message, whether memory ran out), and the reason of a device loss. Separate from the device, so
    that callbacks do not keep it alive.
    """

    errors: list[tuple[str, bool]] = field(default_factory=list)
    lost: str | None = None

    def check(self) -> None:
        """Raise the errors since the last check."""
        if not self.errors:
            return
        errors, self.errors = self.errors, []
        message, exhausted = errors[0]
        if len(errors) > 1:
            message += f"\n({len(errors) - 1} more errors followed)"
        raise NativeError(message, exhausted)


@dataclass(frozen=True)
class Found:
    """An adapter as an implementation finds it. info: with the keys device, description (the driver), vendor, vendor_id, device_id,
    backend_type, adapter_type and the sizes of subgroups; a browser's also has is_phone. limits: by names such as max-buffer-size.
    features: in WebGPU's names. matrices: the matrix shapes of its matrix units. raw: the argument of `open_device`.
    """

    info: Mapping[str, Any]
    limits: Mapping[str, int]
    features: frozenset[str]
    matrices: tuple[Matrices, ...] = ()
    raw: Any = None


@dataclass(frozen=True)
class Wish:
    """Options for opening a device. limits: those to lower, by WebGPU's names. in_flight: submissions before the host waits. shares_loads:
    kernels use subgroup operations. checked: kernels have bounds checks. uses_matrices: kernels use float16 and matrix units.
    """

    limits: Mapping[str, int]
    in_flight: int
    shares_loads: bool = False
    checked: bool = False
    uses_matrices: bool = False


class Device(Protocol):
    """One device and its queue. The implementation defines the type of raw objects. Not thread-safe, except create_pipeline: the owner
    holds a lock. Every method raises NativeError if the implementation refuses.
    """

    events: Events
    has_timestamps: bool
    adopts_memory: bool  # whether buffers can be in host memory; if so, runs can be prepared and awaited
    is_awaited: bool  # whether the device soon has nothing to do: runs are submitted in parts
    compiles_ahead: bool  # whether begin_pipeline begins anything: else threads compile
    submits: int
    dispatches: int
    bind_groups: int  # alive
    bind_groups_created: int

    @property
    def in_flight(self) -> int: ...

    @property
    def has_room(self) -> bool: ...  # for a few more submissions, without waiting for any

    # objects that are made once
    def create_buffer(self, nbytes: int, usage: int = STORAGE_USAGE) -> Any: ...
    def create_buffer_at(self, memory: np.ndarray) -> Any: ...  # over whole pages, which it keeps alive
    def create_uniform(self, data: np.ndarray) -> Any: ...
    def destroy_buffer(self, raw: Any) -> None: ...
    def create_bind_group_layout(self, access: Sequence[str]) -> Any: ...
    def create_pipeline_layout(self, bind_group_layout: Any) -> Any: ...
    def create_pipeline(self, source: str, layout: Any) -> Any: ...
    def begin_pipeline(self, source: str, layout: Any) -> None: ...
    def forget_begun(self) -> None: ...
    def create_bind_group(self, layout: Any, bindings: Sequence[tuple[Any, int, int]]) -> Any: ...
    def release_dead(self) -> None: ...

    # calls of every step
    def prepare(
        self, commands: list[Command]
    ) -> list[Command]: ...  # in the form that is fastest for repeated calls of `run`
    def write(self, buffer: Any, data: np.ndarray) -> None: ...
    def run(
        self, copies: Iterable[Copy], commands: Sequence[Command], needs: Any = None, operations: int = MOST_OPERATIONS
    ) -> None: ...
    def run_timed(self, copies: Iterable[Copy], commands: Sequence[Command]) -> list[tuple[float, float]]: ...
    def submit_held(self) -> None: ...
    def begin_preparing(self) -> None: ...  # from here on runs are encoded, and not submitted
    def end_preparing(self) -> list[Any]: ...  # the encoded commands
    def submit_prepared(self, prepared: list[Any]) -> None: ...
    def drop_prepared(self, prepared: list[Any]) -> None: ...
    def copy(self, source: Any, offset: int, destination: Any, nbytes: int, to: int = 0) -> int: ...
    def copy_all(self, stretches: Sequence[Stretch]) -> int: ...
    def clear(self, buffers: Iterable[tuple[Any, int]]) -> int: ...
    def wait(self, index: int) -> None: ...
    def is_done(self, index: int) -> bool: ...  # that submission, and all before it; where memory can be adopted
    def wait_all(self) -> None: ...

    async def settled(
        self,
    ) -> None: ...  # until all submissions are done, where only a coroutine can wait

    # the host's view of a buffer
    def new_status(self) -> Any: ...
    def map(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> None: ...
    def is_mapped(self, status: Any) -> bool: ...
    def mapped(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> np.ndarray: ...
    def unmap(self, buffer: Any) -> None: ...

    # the end
    def probe(self) -> None: ...
    def destroy(self) -> None: ...
    def release(self, buffers: Iterable[Any]) -> None: ...


class Implementation(Protocol):
    """The module of an implementation. NAME: its name in SHADERGRAD_WEBGPU. PACKAGE: its distribution package."""

    NAME: str
    PACKAGE: str
    enumerate_adapters: Callable[[], list[Found]]
    open_device: Callable[[Found, Wish], Any]
