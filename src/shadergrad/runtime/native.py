"""The calls into webgpu.h that the webgpu device makes, shared by all implementations of that header.

In: adapters, WGSL, sizes. Out: raw handles (cffi pointers) and submissions. We bypass the Python packages' classes and call the C functions
directly, because the classes cost 2.5 times as much per dispatch (6.5 against 2.6 microseconds), and because we need to wait for single
submissions and handle errors and device loss ourselves.

Most errors are reported to a callback during the call, so each method checks `events` afterwards and raises NativeError. But wgpu-native
*aborts the process* on an error in a submission or a wait. So nothing is submitted unless `finish` passed without an error, and
nothing is called on a lost device.

What the header does not specify (waiting for a submission, the unit of timestamps, shaders without bounds checks, features beyond the
standard) is a method of each implementation's class. C API: https://webgpu-native.github.io/webgpu-headers/
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .header import Handle, Header
from .interface import (
    MOST_OPERATIONS,
    MOST_PER_SUBMISSION,
    QUERY_USAGE,
    SOON_PER_SUBMISSION,
    STAGING_USAGE,
    STORAGE_USAGE,
    UNIFORM_USAGE,
    Command,
    Copy,
    Events,
    Found,
    NativeError,
    Stretch,
    Wish,
)

FIRST_PART = (
    16  # dispatches of the first submission of a run that the device waits for; each further one has four times as many
)
MOST_QUERIES = 4096  # of a set, by the specification
SPARE = 4  # submissions before the next poll of those in flight
COMPUTE = 0x4  # GPUShaderStage
WRITE_CHUNK = 64 << 20  # every write is copied to a staging buffer that lives until the next submission


class NativeDevice:
    """One device of webgpu.h and its queue, as `interface.Device` describes it. Implementations define what the header does not specify."""

    header: Header  # of the sibling's library
    compiles_ahead = False  # threads do
    adopts_memory = False

    def __init__(self, found: Found, wish: Wish) -> None:
        self.lib, self.ffi, self.null = self.header.lib, self.header.ffi, self.header.ffi.NULL
        self.events = Events()
        self.checked = wish.checked
        self.raw = self._request(found, wish)
        self.queue = self.lib.wgpuDeviceGetQueue(self.raw)
        self.has_timestamps = "timestamp-query" in found.features
        self._first_tick: int | None = None  # of the device's clock, when it was first read
        self.submits = 0
        self.dispatches = 0
        self.bind_groups_created = 0
        self.bind_groups = 0  # not yet released
        self._max_in_flight = wish.in_flight
        self._in_flight: deque[int] = deque()
        self._unsubmitted = 0  # bytes written since the last submission
        self._held: list[
            tuple[Sequence[Command], Any]
        ] = []  # runs that wait for others, with the objects that their commands use
        self._operations = 0  # of these
        self.is_awaited = False  # whether the device soon has nothing to do: runs are submitted in parts
        self._prepared: list[Any] | None = None  # encoded commands, with the objects that they use, before submission
        self._runs_per_submission = 1  # how many runs the next submission shall have
        self._unwaited = 0  # runs submitted since a write, a read or a wait
        self._commands = self.ffi.new("WGPUCommandBuffer[1]")
        self._graveyard: deque[tuple[Any, Any]] = deque()

    # --- not specified by the header

    def _request(self, found: Found, wish: Wish) -> Any:
        """The raw device."""
        raise NotImplementedError

    def _create_module(self, source: str) -> Any:
        """A shader module; without bounds checks unless `checked`."""
        raise NotImplementedError

    def _submit_commands(self, count: int) -> int:
        """Submit that many of `_commands`, 0 or 1, with all writes; an index that grows with each submission."""
        raise NotImplementedError

    def _wait_for(self, index: int | None) -> None:
        """Wait for that submission and all before it (None: for all), and run the callbacks that are due."""
        raise NotImplementedError

    def _poll(self) -> None:
        """Run the callbacks that are due."""
        raise NotImplementedError

    def _period(self) -> float:
        """Seconds per tick of timestamps."""
        raise NotImplementedError

    # --- objects that are made once

    def create_buffer(self, nbytes: int, usage: int = STORAGE_USAGE) -> Any:
        descriptor = self.ffi.new("WGPUBufferDescriptor *")
        descriptor.size, descriptor.usage = nbytes, usage
        raw = self.lib.wgpuDeviceCreateBuffer(self.raw, descriptor)
        return self._checked(raw, self.lib.wgpuBufferRelease)

    def create_buffer_at(self, memory: np.ndarray) -> Any:
        raise NativeError("buffers lie in the device's own memory")

    def create_uniform(self, data: np.ndarray) -> Handle:
        """A uniform buffer with numbers that kernels read."""
        raw = self.create_buffer(data.nbytes, UNIFORM_USAGE)
        self.write(raw, data)
        return Handle(raw, self.lib.wgpuBufferRelease, self._graveyard)

    def destroy_buffer(self, raw: Any) -> None:
        self.lib.wgpuBufferDestroy(raw)
        self.lib.wgpuBufferRelease(raw)

    def create_bind_group_layout(self, access: Sequence[str]) -> Handle:
        """One buffer per binding; `access` is read or read_write for a storage buffer, or uniform."""
        entries = self.ffi.new("WGPUBindGroupLayoutEntry[]", max(1, len(access)))
        for i, mode in enumerate(access):
            entries[i].binding, entries[i].visibility = i, COMPUTE
            entries[i].buffer.type = self.header.bindings[mode]
        descriptor = self.ffi.new("WGPUBindGroupLayoutDescriptor *")
        descriptor.entryCount, descriptor.entries = len(access), entries
        raw = self._checked(
            self.lib.wgpuDeviceCreateBindGroupLayout(self.raw, descriptor), self.lib.wgpuBindGroupLayoutRelease
        )
        return Handle(raw, self.lib.wgpuBindGroupLayoutRelease, self._graveyard)

    def create_pipeline_layout(self, bind_group_layout: Handle) -> Handle:
        layouts = self.ffi.new("WGPUBindGroupLayout[]", [bind_group_layout.raw])
        descriptor = self.ffi.new("WGPUPipelineLayoutDescriptor *")
        descriptor.bindGroupLayoutCount, descriptor.bindGroupLayouts = 1, layouts
        raw = self._checked(
            self.lib.wgpuDeviceCreatePipelineLayout(self.raw, descriptor), self.lib.wgpuPipelineLayoutRelease
        )
        return Handle(raw, self.lib.wgpuPipelineLayoutRelease, self._graveyard)

    def create_pipeline(self, source: str, layout: Handle) -> Handle:
        """A compute pipeline of entry point `main`. Several threads may call."""
        module = self._create_module(source)
        descriptor = self.ffi.new("WGPUComputePipelineDescriptor *")
        descriptor.layout, descriptor.compute.module = layout.raw, module
        entry_point = self.header.string_view(descriptor.compute.entryPoint, "main")
        try:
            raw = self._create_pipeline(descriptor)
        finally:
            del entry_point
            self.lib.wgpuShaderModuleRelease(module)
        return Handle(raw, self.lib.wgpuComputePipelineRelease, self._graveyard)

    def begin_pipeline(self, source: str, layout: Handle) -> None:
        pass

    def forget_begun(self) -> None:
        pass

    def _create_pipeline(self, descriptor: Any) -> Any:
        raw = self.lib.wgpuDeviceCreateComputePipeline(self.raw, descriptor)
        return self._checked(raw, self.lib.wgpuComputePipelineRelease)

    def _module_descriptor(self, source: str) -> tuple[Any, Any]:
        """The descriptor for WGSL, and the objects that the caller must keep until the call has returned."""
        wgsl = self.ffi.new("WGPUShaderSourceWGSL *")
        wgsl.chain.sType = self.lib.WGPUSType_ShaderSourceWGSL
        code = self.header.string_view(wgsl.code, source)
        descriptor = self.ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = self.ffi.cast("WGPUChainedStruct *", wgsl)
        return descriptor, (wgsl, code)

    def create_bind_group(self, layout: Handle, bindings: Sequence[tuple[Any, int, int]]) -> Handle:
        """`bindings`: raw buffer, first byte and bound bytes, in the order of the layout."""
        entries = self.ffi.new("WGPUBindGroupEntry[]", max(1, len(bindings)))
        for i, (raw, offset, nbytes) in enumerate(bindings):
            entries[i].binding, entries[i].buffer, entries[i].offset, entries[i].size = i, raw, offset, nbytes
        descriptor = self.ffi.new("WGPUBindGroupDescriptor *")
        descriptor.layout, descriptor.entryCount, descriptor.entries = layout.raw, len(bindings), entries
        raw = self._checked(self.lib.wgpuDeviceCreateBindGroup(self.raw, descriptor), self.lib.wgpuBindGroupRelease)
        self.bind_groups_created += 1
        self.bind_groups += 1
        return Handle(raw, self.lib.wgpuBindGroupRelease, self._graveyard)

    def release_dead(self) -> None:
        """Release the unreachable pipelines, layouts and bind groups."""
        while self._graveyard:
            release, raw = self._graveyard.popleft()
            release(raw)
            self.bind_groups -= release == self.lib.wgpuBindGroupRelease

    # --- calls of every step

    def prepare(self, commands: list[Command]) -> list[Command]:
        """The commands unchanged, because a call into the library is cheap."""
        return commands

    def write(self, buffer: Any, data: np.ndarray) -> None:
        """Ordered after all submissions so far. `data` is contiguous, its size a multiple of 4 bytes."""
        self.submit_held()
        view = data.reshape(-1).view(np.uint8)
        for start in range(0, view.nbytes, WRITE_CHUNK):
            chunk = view[start : start + WRITE_CHUNK]
            self.lib.wgpuQueueWriteBuffer(self.queue, buffer, start, self.ffi.from_buffer(chunk), chunk.nbytes)
            self._unsubmitted += chunk.nbytes
            if self._unsubmitted >= WRITE_CHUNK:
                self.flush()
        self.events.check()

    def run(
        self,
        copies: Iterable[Copy],
        commands: Sequence[Command],
        needs: Any = None,
        operations: int = MOST_OPERATIONS,
    ) -> None:
        """Copies, then dispatches. A run of few operations may be held until later ones share its submission: half of the host time of a small run
        is its submission.

        After a write, a read or a wait the first run is submitted at once, then two together, four, eight, and later as many
        as a quarter of those submitted since. So if the host is slower than the device, the device rarely waits for it,
        and if a loop reads its loss in each step, nothing is held back. needs: the objects that keep bind groups and
        pipelines of the commands alive.
        """
        if copies:
            self.submit_held()
        if self._prepared is not None:
            self.dispatches += len(commands)
            self._prepared.append((self._finished(self._encoder(copies, [(commands, needs)])), needs))
            return
        if self.is_awaited and len(commands) > FIRST_PART and not copies:
            commands = self._begin_early(commands, needs)
        self._held.append((commands, needs))
        self._operations += operations
        self.dispatches += len(commands)
        if len(self._held) >= self._runs_per_submission or self._operations >= MOST_OPERATIONS:
            self._unwaited += len(self._held)
            self._runs_per_submission = min(
                max(min(2 * self._runs_per_submission, SOON_PER_SUBMISSION), self._unwaited // 4), MOST_PER_SUBMISSION
            )
            self._submit(self._encoder(copies))

    def _begin_early(self, commands: Sequence[Command], needs: Any) -> Sequence[Command]:
        """Submit a run but for its last part, which it gives: the device begins while the host still encodes."""
        self.submit_held()
        start, size = 0, FIRST_PART
        while start + size < len(commands):
            self._held.append((commands[start : start + size], needs))
            self.dispatches += size
            self._submit(self._encoder())
            start, size = start + size, 4 * size
        self._runs_per_submission = 1
        return commands[start:]

    def begin_preparing(self) -> None:
        """From here on runs are encoded, and not submitted."""
        self._prepared = []

    def end_preparing(self) -> list[Any]:
        """The encoded commands, for submit_prepared or drop_prepared."""
        prepared, self._prepared = self._prepared or [], None
        return prepared

    def submit_prepared(self, prepared: list[Any]) -> None:
        """Submit the encoded commands, after all other submissions so far."""
        self.submit_held()
        while prepared:
            self._submit_finished(prepared.pop(0)[0])

    def drop_prepared(self, prepared: list[Any]) -> None:
        """Never submit it."""
        while prepared:
            self.lib.wgpuCommandBufferRelease(prepared.pop()[0])

    def submit_held(self) -> None:
        """Submit the held runs, so that later work is ordered after them."""
        self._runs_per_submission, self._unwaited = 1, 0
        if self._held:
            self._submit(self._encoder())

    def _encoder(self, copies: Iterable[Copy] = (), runs: Sequence[tuple[Sequence[Command], Any]] | None = None) -> Any:
        """An encoder with copies and runs (by default the held ones) in one pass. Runs stay held until it is submitted, so that a Ctrl-C loses none."""
        runs = self._held if runs is None else runs
        encoder = self.lib.wgpuDeviceCreateCommandEncoder(self.raw, self.null)
        for source, destination, nbytes in copies:
            self.lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, source, 0, destination, 0, nbytes)
        if not runs:
            return encoder
        compute_pass = self.lib.wgpuCommandEncoderBeginComputePass(encoder, self.null)
        set_pipeline = self.lib.wgpuComputePassEncoderSetPipeline
        set_bind_group = self.lib.wgpuComputePassEncoderSetBindGroup
        dispatch = self.lib.wgpuComputePassEncoderDispatchWorkgroups
        null = self.null
        last_pipeline = last_group = None  # a pass keeps both from run to run, and often they stay
        for commands, _ in runs:  # the host cost of a step
            for pipeline, group, x, y, z in commands:
                if pipeline is not last_pipeline:
                    set_pipeline(compute_pass, pipeline)
                    last_pipeline = pipeline
                if group is not last_group:
                    set_bind_group(compute_pass, 0, group, 0, null)
                    last_group = group
                dispatch(compute_pass, x, y, z)
        self.lib.wgpuComputePassEncoderEnd(compute_pass)
        self.lib.wgpuComputePassEncoderRelease(compute_pass)
        return encoder

    def run_timed(self, copies: Iterable[Copy], commands: Sequence[Command]) -> list[tuple[float, float]]:
        """As `run`, with timestamps before and after each dispatch: seconds, of the device's clock if it has one. Waits."""
        self.submit_held()
        if copies:
            self._submit(self._encoder(copies))
        if self.has_timestamps:
            parts = [commands[i : i + MOST_QUERIES // 2] for i in range(0, len(commands), MOST_QUERIES // 2)]
            return [times for part in parts for times in self._timed_by_device(part)]
        return [self._timed_by_host(command) for command in commands]

    def _timed_by_host(self, command: Command) -> tuple[float, float]:
        self.wait_all()
        start = time.perf_counter()
        self.run((), [command])
        self.wait_all()
        return start, time.perf_counter()

    def _timed_by_device(self, commands: Sequence[Command]) -> list[tuple[float, float]]:
        """A pass for each dispatch, because only passes have timestamps."""
        nbytes = 16 * len(commands)
        queries = self.ffi.new("WGPUQuerySetDescriptor *")
        queries.type, queries.count = self.lib.WGPUQueryType_Timestamp, 2 * len(commands)
        query_set = self._checked(self.lib.wgpuDeviceCreateQuerySet(self.raw, queries), self.lib.wgpuQuerySetRelease)
        resolved = self.create_buffer(nbytes, QUERY_USAGE)
        staging = self.create_buffer(nbytes, STAGING_USAGE)
        encoder = self.lib.wgpuDeviceCreateCommandEncoder(self.raw, self.null)
        writes = self.ffi.new("WGPUPassTimestampWrites *")
        descriptor = self.ffi.new("WGPUComputePassDescriptor *")
        writes.querySet, descriptor.timestampWrites = query_set, writes
        for k, (pipeline, group, x, y, z) in enumerate(commands):
            writes.beginningOfPassWriteIndex, writes.endOfPassWriteIndex = 2 * k, 2 * k + 1
            compute_pass = self.lib.wgpuCommandEncoderBeginComputePass(encoder, descriptor)
            self.lib.wgpuComputePassEncoderSetPipeline(compute_pass, pipeline)
            self.lib.wgpuComputePassEncoderSetBindGroup(compute_pass, 0, group, 0, self.null)
            self.lib.wgpuComputePassEncoderDispatchWorkgroups(compute_pass, x, y, z)
            self.lib.wgpuComputePassEncoderEnd(compute_pass)
            self.lib.wgpuComputePassEncoderRelease(compute_pass)
        self.dispatches += len(commands)
        self.lib.wgpuCommandEncoderResolveQuerySet(encoder, query_set, 0, 2 * len(commands), resolved, 0)
        self.lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, resolved, 0, staging, 0, nbytes)
        index = self._submit(encoder)
        status, ticks = self.new_status(), np.empty(2 * len(commands), np.uint64)
        self.map(staging, nbytes, status)
        self.wait(index)
        ticks[:] = self.mapped(staging, nbytes, status).view(np.uint64)
        self.unmap(staging)
        for raw in (resolved, staging):
            self.destroy_buffer(raw)
        self.lib.wgpuQuerySetRelease(query_set)
        self._first_tick = int(ticks[0]) if self._first_tick is None else self._first_tick
        period = self._period()
        seconds = (ticks.astype(np.int64) - self._first_tick) * period
        return [(float(a), float(b)) for a, b in seconds.reshape(-1, 2)]

    def copy(self, source: Any, offset: int, destination: Any, nbytes: int, to: int = 0) -> int:
        """Copy from byte `offset` of a buffer to byte `to` of another; the index of the submission."""
        self._runs_per_submission, self._unwaited = 1, 0
        encoder = self._encoder()  # with the held runs
        self.lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, source, offset, destination, to, nbytes)
        return self._submit(encoder)

    def copy_all(self, stretches: Sequence[Stretch]) -> int:
        """Copy ranges of buffers in one submission, whose index it returns."""
        self._runs_per_submission, self._unwaited = 1, 0
        encoder = self._encoder()
        for source, offset, destination, to, nbytes in stretches:
            self.lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, source, offset, destination, to, nbytes)
        return self._submit(encoder)

    def clear(self, buffers: Iterable[tuple[Any, int]]) -> int:
        """Set that many bytes of each buffer to zero; the index of the submission."""
        self.submit_held()
        encoder = self.lib.wgpuDeviceCreateCommandEncoder(self.raw, self.null)
        for raw, nbytes in buffers:
            self.lib.wgpuCommandEncoderClearBuffer(encoder, raw, 0, nbytes)
        return self._submit(encoder)

    def flush(self) -> None:
        """Submit pending writes."""
        self._submitted(self._submit_commands(0))

    def wait(self, index: int) -> None:
        """Wait for that submission and all before it, and run the callbacks that are due."""
        self._wait_for(index)
        while self._in_flight and self._in_flight[0] <= index:
            self._in_flight.popleft()

    def is_done(self, index: int) -> bool:
        raise NativeError("it does not tell without waiting")

    def wait_all(self) -> None:
        """Wait for everything run, submitted or written so far."""
        self.submit_held()
        if self._unsubmitted:
            self.flush()
        self._wait_for(None)
        self._in_flight.clear()
        self.events.check()

    async def settled(self) -> None:
        """Returns at once, because readers wait themselves."""

    def probe(self) -> None:
        """Raise if the device is lost, or has reported errors; a loss may not have been noticed yet."""
        self.destroy_buffer(self.create_buffer(256))
        self.wait_all()

    def new_status(self) -> Any:
        """A C integer for `map`."""
        return self.ffi.new("int *")

    def map(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> None:
        """Request a mapping; `status` (of `new_status`, which the caller keeps) becomes non-zero in a later wait."""
        status[0] = 0
        request = self.ffi.new("WGPUBufferMapCallbackInfo *")
        request.mode = self.lib.WGPUCallbackMode_AllowProcessEvents
        request.callback, request.userdata1 = self.header.on_mapped, status
        mode = self.lib.WGPUMapMode_Write if write else self.lib.WGPUMapMode_Read
        self.lib.wgpuBufferMapAsync(buffer, mode, 0, nbytes, request[0])
        self.events.check()

    def is_mapped(self, status: Any) -> bool:
        """Whether `mapped` would not wait."""
        if status[0] == 0:
            self._poll()
        return status[0] != 0

    def mapped(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> np.ndarray:
        """The bytes of a buffer, until `unmap`; waits for the mapping."""
        if status[0] == 0:  # a buffer that no work in flight uses is mapped without waiting
            self._poll()
        if status[0] == 0:
            self._wait_for(None)
        if status[0] != self.lib.WGPUMapAsyncStatus_Success:
            raise NativeError(f"the device did not hand over its memory (status {status[0]})")
        get = self.lib.wgpuBufferGetMappedRange if write else self.lib.wgpuBufferGetConstMappedRange
        return np.frombuffer(self.ffi.buffer(get(buffer, 0, nbytes), nbytes), np.uint8)

    def unmap(self, buffer: Any) -> None:
        self.lib.wgpuBufferUnmap(buffer)

    def destroy(self) -> None:
        """Free all of the device's memory. Nothing may be called afterwards."""
        self.wait_all()
        self.events.lost = "it was destroyed by the program"
        self.lib.wgpuDeviceDestroy(self.raw)
        self.release_dead()

    def release(self, buffers: Iterable[Any]) -> None:
        """After a loss: release the device, so that the driver can free its memory. Nothing may be called afterwards."""
        for raw in buffers:
            self.lib.wgpuBufferRelease(raw)
        self.release_dead()
        self.lib.wgpuQueueRelease(self.queue)
        self.lib.wgpuDeviceRelease(self.raw)

    # --- within

    def _checked(self, raw: Any, release: Any) -> Any:
        """wgpu returns a handle even if it refuses; then it must be released and never used."""
        try:
            self.events.check()
        except NativeError:
            release(raw)
            raise
        return raw

    def _submit(self, encoder: Any) -> int:
        commands = self._finished(encoder)
        if self._held:
            self._held, self._operations = [], 0
        return self._submit_finished(commands)

    def _finished(self, encoder: Any) -> Any:
        """The commands of an encoder."""
        commands = self.lib.wgpuCommandEncoderFinish(encoder, self.null)
        self.lib.wgpuCommandEncoderRelease(encoder)
        if self.events.errors or self.events.lost is not None:
            self._held, self._operations = [], 0
            self.lib.wgpuCommandBufferRelease(commands)
            self.events.check()
            raise NativeError(f"the device was lost: {self.events.lost}")
        return commands

    def _submit_finished(self, commands: Any) -> int:
        self._commands[0] = commands
        index = self._submit_commands(1)
        self.lib.wgpuCommandBufferRelease(commands)
        self.submits += 1
        self._submitted(index)
        return index

    def _submitted(self, index: int) -> None:
        """Bound the work in flight: a host that runs far ahead is slower, and occupies staging memory."""
        self._unsubmitted = 0
        self._in_flight.append(index)
        if len(self._in_flight) > self._max_in_flight:
            # Wait for the older half together: a wait takes the driver longer than a small step, and the other half continues.
            self.wait(self._in_flight[self._max_in_flight // 2])
        if self.events.errors:
            self.events.check()

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def has_room(self) -> bool:
        return len(self._in_flight) + SPARE <= self._max_in_flight
