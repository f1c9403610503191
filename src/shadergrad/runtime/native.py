"""The calls into wgpu-native that the webgpu device makes, and nothing else: the only module that imports wgpu.

In: adapters, WGSL, sizes. Out: raw handles (cffi pointers) and submissions. We go past wgpu-py's classes to the C
functions below them because those cost 2.5 times less a dispatch (2.6 against 6.5 microseconds), let us compile without
bounds checks, wait for one submission, and hear of errors and device loss ourselves.

Two facts of wgpu-native 29 shape this file. Most mistakes are reported to a callback in the midst of the call, so each
method checks `events` afterwards and raises NativeError. But a mistake found by a submission or a wait *aborts the
process*; so nothing is submitted unless `finish` passed without an error, and nothing is called on a lost device.

Import it lazily: it fails where wgpu's library does. C API: https://webgpu-native.github.io/webgpu-headers/
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import wgpu
from wgpu.backends.wgpu_native import _ffi

ffi: Any = _ffi.ffi
lib: Any = _ffi.lib
NULL: Any = ffi.NULL

STORAGE_USAGE: int = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
UNIFORM_USAGE: int = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
READ_USAGE: int = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.STORAGE
STAGING_USAGE: int = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
QUERY_USAGE: int = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
MOST_QUERIES = 4096  # of a set, by the specification
BINDINGS = {
    "read": lib.WGPUBufferBindingType_ReadOnlyStorage,
    "read_write": lib.WGPUBufferBindingType_Storage,
    "uniform": lib.WGPUBufferBindingType_Uniform,
}
UPLOAD_USAGE: int = wgpu.BufferUsage.MAP_WRITE | wgpu.BufferUsage.COPY_SRC
WRITE_CHUNK = 64 << 20  # wgpu copies every write to a staging buffer that lives until the next submission
SOON_TOGETHER = 8  # runs in one submission, soon after a wait
MOST_TOGETHER = 32  # and after many that nobody waited for
MOST_OPERATIONS = 16_000_000_000  # of them together: some 10 milliseconds of a weak GPU

Command = tuple[Any, Any, int, int, int]  # pipeline, bind group, workgroups x, y, z
Copy = tuple[Any, Any, int]  # source, destination, bytes


class NativeError(Exception):
    """wgpu refused a call. `out_of_memory` tells the one kind that freeing memory may cure."""

    def __init__(self, message: str, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.out_of_memory = out_of_memory


@dataclass
class Events:
    """What the callbacks heard. Kept apart from the device so that they do not keep it alive."""

    errors: list[tuple[int, str]] = field(default_factory=list)
    lost: str | None = None

    def check(self) -> None:
        """Raise what went wrong since the last check."""
        if not self.errors:
            return
        errors, self.errors = self.errors, []
        kind, message = errors[0]
        if len(errors) > 1:
            message += f"\n({len(errors) - 1} more errors followed)"
        lowered = message.lower()
        exhausted = "not enough memory" in lowered or "out of memory" in lowered
        raise NativeError(message, exhausted or kind == lib.WGPUErrorType_OutOfMemory)


# Callbacks live as long as the process: the library may call them for as long as it is loaded.
_callbacks: list[Any] = []


def _callback(signature: str):
    def keep(function: Any) -> Any:
        _callbacks.append(ffi.callback(signature, function))
        return _callbacks[-1]

    return keep


def _text(view: Any) -> str:
    if view.data == NULL:
        return ""
    data = ffi.string(view.data) if view.length == lib.WGPU_STRLEN else ffi.string(view.data, view.length)
    return "\n".join(line.rstrip() for line in data.decode(errors="replace").splitlines()).strip()


def _string_view(view: Any, text: str) -> Any:
    """Fill a WGPUStringView; gives back the bytes, which the caller must keep until the call is over."""
    data = text.encode()
    chars = ffi.new("char[]", data)
    view.data, view.length = chars, len(data)
    return chars


@_callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)")
def _on_mapped(status: int, _message: Any, userdata1: Any, _userdata2: Any) -> None:
    ffi.cast("int *", userdata1)[0] = status


def enumerate_adapters() -> list[Any]:
    """wgpu-py's adapter objects, in its order."""
    return list(wgpu.gpu.enumerate_adapters_sync())


def _limits_struct(adapter: Any, overrides: Mapping[str, int]) -> Any:
    limits = ffi.new("WGPULimits *")
    if lib.wgpuAdapterGetLimits(adapter._internal, limits) != lib.WGPUStatus_Success:
        raise NativeError("the adapter does not tell its limits")
    for name, value in overrides.items():
        setattr(limits, name, min(value, getattr(limits, name)))
    limits.nextInChain = NULL
    return limits


def _has(adapter: Any, feature: int) -> bool:
    return bool(lib.wgpuAdapterHasFeature(adapter._internal, feature))


def _request_device(adapter: Any, overrides: Mapping[str, int], events: Events, shares_loads: bool) -> Any:
    @_callback("void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)")
    def on_lost(_device: Any, _reason: int, message: Any, _userdata1: Any, _userdata2: Any) -> None:
        events.lost = events.lost or _text(message) or "no reason was given"

    @_callback("void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)")
    def on_error(_device: Any, kind: int, message: Any, _userdata1: Any, _userdata2: Any) -> None:
        events.errors.append((kind, _text(message)))

    answers: list[tuple[int, Any, str]] = []

    @_callback("void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)")
    def on_device(status: int, device: Any, message: Any, _userdata1: Any, _userdata2: Any) -> None:
        answers.append((status, device, _text(message)))

    limits = _limits_struct(adapter, overrides)
    descriptor = ffi.new("WGPUDeviceDescriptor *")
    wanted = [lib.WGPUNativeFeature_Subgroup, lib.WGPUNativeFeature_ShaderInt64] if shares_loads else []
    if _has(adapter, lib.WGPUFeatureName_TimestampQuery):  # changes no kernel, so the portable profile asks for it too
        wanted.append(lib.WGPUFeatureName_TimestampQuery)
    features = ffi.new("WGPUFeatureName[]", wanted)
    descriptor.requiredFeatureCount, descriptor.requiredFeatures = len(wanted), features
    descriptor.requiredLimits = limits
    descriptor.deviceLostCallbackInfo.mode = lib.WGPUCallbackMode_AllowSpontaneous
    descriptor.deviceLostCallbackInfo.callback = on_lost
    descriptor.uncapturedErrorCallbackInfo.callback = on_error
    request = ffi.new("WGPURequestDeviceCallbackInfo *")
    request.mode = lib.WGPUCallbackMode_AllowProcessEvents
    request.callback = on_device
    lib.wgpuAdapterRequestDevice(adapter._internal, descriptor, request[0])  # answers within the call
    if not answers or answers[0][0] != lib.WGPURequestDeviceStatus_Success:
        raise NativeError(answers[0][2] if answers else "no answer")
    return answers[0][1]


class Handle:
    """A raw object that is released when nobody can reach it: put in `graveyard`, which the device empties.

    Not released on the spot, as objects die on any thread, amid other calls, and after the library is gone.
    """

    __slots__ = ("__weakref__", "_graveyard", "_release", "raw")

    def __init__(self, raw: Any, release: Any, graveyard: deque[tuple[Any, Any]]) -> None:
        self.raw = raw
        self._release = release
        self._graveyard = graveyard

    def __del__(self) -> None:
        self._graveyard.append((self._release, self.raw))


class NativeDevice:
    """One wgpu device and its queue. Not thread-safe: the owner holds a lock."""

    def __init__(self, adapter: Any, overrides: Mapping[str, int], in_flight: int, shares_loads: bool = False) -> None:
        self.events = Events()
        self.raw = _request_device(adapter, overrides, self.events, shares_loads)
        self.queue = lib.wgpuDeviceGetQueue(self.raw)
        self.has_timestamps = _has(adapter, lib.WGPUFeatureName_TimestampQuery)
        self._first_tick: int | None = None  # of the device's clock, when it was first read
        self.submits = 0
        self.dispatches = 0
        self.bind_groups_created = 0
        self.bind_groups = 0  # not yet released
        self._max_in_flight = in_flight
        self._in_flight: deque[int] = deque()
        self._unsubmitted = 0  # bytes written since the last submission
        self._held: list[tuple[Sequence[Command], Any]] = []  # runs that wait for others, with what their commands need
        self._operations = 0  # of these
        self._together = 1  # how many runs the next submission shall have
        self._unwaited = 0  # runs submitted since a write, a read or a wait
        self._index = ffi.new("WGPUSubmissionIndex *")
        self._commands = ffi.new("WGPUCommandBuffer[1]")
        self._graveyard: deque[tuple[Any, Any]] = deque()

    # --- what is made once

    def create_buffer(self, nbytes: int, usage: int = STORAGE_USAGE) -> Any:
        descriptor = ffi.new("WGPUBufferDescriptor *")
        descriptor.size, descriptor.usage = nbytes, usage
        raw = lib.wgpuDeviceCreateBuffer(self.raw, descriptor)
        return self._checked(raw, lib.wgpuBufferRelease)

    def create_uniform(self, data: np.ndarray) -> Handle:
        """A buffer with numbers that kernels read."""
        raw = self.create_buffer(data.nbytes, UNIFORM_USAGE)
        self.write(raw, data)
        return Handle(raw, lib.wgpuBufferRelease, self._graveyard)

    def destroy_buffer(self, raw: Any) -> None:
        lib.wgpuBufferDestroy(raw)
        lib.wgpuBufferRelease(raw)

    def create_bind_group_layout(self, access: Sequence[str]) -> Handle:
        """One buffer a binding; `access` says read or read_write of a storage buffer, or uniform."""
        entries = ffi.new("WGPUBindGroupLayoutEntry[]", max(1, len(access)))
        for i, mode in enumerate(access):
            entries[i].binding, entries[i].visibility = i, wgpu.ShaderStage.COMPUTE
            entries[i].buffer.type = BINDINGS[mode]
        descriptor = ffi.new("WGPUBindGroupLayoutDescriptor *")
        descriptor.entryCount, descriptor.entries = len(access), entries
        raw = self._checked(lib.wgpuDeviceCreateBindGroupLayout(self.raw, descriptor), lib.wgpuBindGroupLayoutRelease)
        return Handle(raw, lib.wgpuBindGroupLayoutRelease, self._graveyard)

    def create_pipeline_layout(self, bind_group_layout: Handle) -> Handle:
        layouts = ffi.new("WGPUBindGroupLayout[]", [bind_group_layout.raw])
        descriptor = ffi.new("WGPUPipelineLayoutDescriptor *")
        descriptor.bindGroupLayoutCount, descriptor.bindGroupLayouts = 1, layouts
        raw = self._checked(lib.wgpuDeviceCreatePipelineLayout(self.raw, descriptor), lib.wgpuPipelineLayoutRelease)
        return Handle(raw, lib.wgpuPipelineLayoutRelease, self._graveyard)

    def create_pipeline(self, source: str, layout: Handle, checked: bool) -> Handle:
        """A compute pipeline of entry point `main`. Unless `checked`, the shader has no bounds checks."""
        module = self._create_module(source, checked)
        descriptor = ffi.new("WGPUComputePipelineDescriptor *")
        descriptor.layout, descriptor.compute.module = layout.raw, module
        entry_point = _string_view(descriptor.compute.entryPoint, "main")
        raw = lib.wgpuDeviceCreateComputePipeline(self.raw, descriptor)
        del entry_point
        lib.wgpuShaderModuleRelease(module)
        self._checked(raw, lib.wgpuComputePipelineRelease)
        return Handle(raw, lib.wgpuComputePipelineRelease, self._graveyard)

    def _create_module(self, source: str, checked: bool) -> Any:
        wgsl = ffi.new("WGPUShaderSourceWGSL *")
        wgsl.chain.sType = lib.WGPUSType_ShaderSourceWGSL
        code = _string_view(wgsl.code, source)
        descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", wgsl)
        if checked:
            raw = lib.wgpuDeviceCreateShaderModule(self.raw, descriptor)
        else:
            raw = lib.wgpuDeviceCreateShaderModuleTrusted(self.raw, descriptor, lib.WGPUShaderRuntimeChecks_None)
        del code
        return self._checked(raw, lib.wgpuShaderModuleRelease)

    def create_bind_group(self, layout: Handle, bindings: Sequence[tuple[Any, int, int]]) -> Handle:
        """`bindings`: raw buffer, first byte and bound bytes, in the order of the layout."""
        entries = ffi.new("WGPUBindGroupEntry[]", max(1, len(bindings)))
        for i, (raw, offset, nbytes) in enumerate(bindings):
            entries[i].binding, entries[i].buffer, entries[i].offset, entries[i].size = i, raw, offset, nbytes
        descriptor = ffi.new("WGPUBindGroupDescriptor *")
        descriptor.layout, descriptor.entryCount, descriptor.entries = layout.raw, len(bindings), entries
        raw = self._checked(lib.wgpuDeviceCreateBindGroup(self.raw, descriptor), lib.wgpuBindGroupRelease)
        self.bind_groups_created += 1
        self.bind_groups += 1
        return Handle(raw, lib.wgpuBindGroupRelease, self._graveyard)

    def release_dead(self) -> None:
        """Release the pipelines, layouts and bind groups that nobody holds any more."""
        while self._graveyard:
            release, raw = self._graveyard.popleft()
            release(raw)
            self.bind_groups -= release == lib.wgpuBindGroupRelease

    # --- what is done every step

    def write(self, buffer: Any, data: np.ndarray) -> None:
        """Ordered after all submissions so far. `data` is contiguous, its size a multiple of 4 bytes."""
        self.submit_held()
        view = data.reshape(-1).view(np.uint8)
        for start in range(0, view.nbytes, WRITE_CHUNK):
            chunk = view[start : start + WRITE_CHUNK]
            lib.wgpuQueueWriteBuffer(self.queue, buffer, start, ffi.from_buffer(chunk), chunk.nbytes)
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
        """Copies, then dispatches. A run of few operations may wait for those after it and share their submission: half of
        what a small one costs the host is the submission's.

        After a write, a read or a wait the first run is submitted at once, then two together, four, eight, and later as many
        as a quarter of those submitted since. So a host that is slower than the device keeps it waiting for a small part of
        the time only, and of a loop that reads its loss in each step nothing is held. needs: what keeps bind groups and
        pipelines of the commands alive.
        """
        if copies:
            self.submit_held()
        self._held.append((commands, needs))
        self._operations += operations
        self.dispatches += len(commands)
        if len(self._held) >= self._together or self._operations >= MOST_OPERATIONS:
            self._unwaited += len(self._held)
            self._together = min(max(min(2 * self._together, SOON_TOGETHER), self._unwaited // 4), MOST_TOGETHER)
            self._submit(self._encoder(copies))

    def submit_held(self) -> None:
        """Submit the runs that wait for others: what comes now is ordered after them."""
        self._together, self._unwaited = 1, 0
        if self._held:
            self._submit(self._encoder())

    def _encoder(self, copies: Iterable[Copy] = ()) -> Any:
        """An encoder with copies, and the runs that wait, in one pass. They wait on until it is submitted: a Ctrl-C loses none."""
        encoder = lib.wgpuDeviceCreateCommandEncoder(self.raw, NULL)
        for source, destination, nbytes in copies:
            lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, source, 0, destination, 0, nbytes)
        if not self._held:
            return encoder
        compute_pass = lib.wgpuCommandEncoderBeginComputePass(encoder, NULL)
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
        dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        null = NULL
        last_pipeline = last_group = None  # a pass keeps both from run to run, and often they stay
        for commands, _ in self._held:  # the host cost of a step
            for pipeline, group, x, y, z in commands:
                if pipeline is not last_pipeline:
                    set_pipeline(compute_pass, pipeline)
                    last_pipeline = pipeline
                if group is not last_group:
                    set_bind_group(compute_pass, 0, group, 0, null)
                    last_group = group
                dispatch(compute_pass, x, y, z)
        lib.wgpuComputePassEncoderEnd(compute_pass)
        lib.wgpuComputePassEncoderRelease(compute_pass)
        return encoder

    def run_timed(self, copies: Iterable[Copy], commands: Sequence[Command]) -> list[tuple[float, float]]:
        """As `run`, with a clock before and after each dispatch: seconds, of the device's clock where it has one. Waits."""
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
        """A pass for each dispatch, for only a pass tells when it began and ended."""
        nbytes = 16 * len(commands)
        queries = ffi.new("WGPUQuerySetDescriptor *")
        queries.type, queries.count = lib.WGPUQueryType_Timestamp, 2 * len(commands)
        query_set = self._checked(lib.wgpuDeviceCreateQuerySet(self.raw, queries), lib.wgpuQuerySetRelease)
        resolved = self.create_buffer(nbytes, QUERY_USAGE)
        staging = self.create_buffer(nbytes, STAGING_USAGE)
        encoder = lib.wgpuDeviceCreateCommandEncoder(self.raw, NULL)
        writes = ffi.new("WGPUPassTimestampWrites *")
        descriptor = ffi.new("WGPUComputePassDescriptor *")
        writes.querySet, descriptor.timestampWrites = query_set, writes
        for k, (pipeline, group, x, y, z) in enumerate(commands):
            writes.beginningOfPassWriteIndex, writes.endOfPassWriteIndex = 2 * k, 2 * k + 1
            compute_pass = lib.wgpuCommandEncoderBeginComputePass(encoder, descriptor)
            lib.wgpuComputePassEncoderSetPipeline(compute_pass, pipeline)
            lib.wgpuComputePassEncoderSetBindGroup(compute_pass, 0, group, 0, NULL)
            lib.wgpuComputePassEncoderDispatchWorkgroups(compute_pass, x, y, z)
            lib.wgpuComputePassEncoderEnd(compute_pass)
            lib.wgpuComputePassEncoderRelease(compute_pass)
        self.dispatches += len(commands)
        lib.wgpuCommandEncoderResolveQuerySet(encoder, query_set, 0, 2 * len(commands), resolved, 0)
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, resolved, 0, staging, 0, nbytes)
        index = self._submit(encoder)
        status, ticks = new_status(), np.empty(2 * len(commands), np.uint64)
        self.map(staging, nbytes, status)
        self.wait(index)
        ticks[:] = self.mapped(staging, nbytes, status).view(np.uint64)
        self.unmap(staging)
        for raw in (resolved, staging):
            self.destroy_buffer(raw)
        lib.wgpuQuerySetRelease(query_set)
        self._first_tick = int(ticks[0]) if self._first_tick is None else self._first_tick
        period = lib.wgpuQueueGetTimestampPeriod(self.queue) * 1e-9
        seconds = (ticks.astype(np.int64) - self._first_tick) * period
        return [(float(a), float(b)) for a, b in seconds.reshape(-1, 2)]

    def copy(self, source: Any, offset: int, destination: Any, nbytes: int, to: int = 0) -> int:
        """Copy from byte `offset` of a buffer to byte `to` of another; the index of the submission."""
        self._together, self._unwaited = 1, 0
        encoder = self._encoder()  # what waits goes with it
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, source, offset, destination, to, nbytes)
        return self._submit(encoder)

    def clear(self, buffers: Iterable[tuple[Any, int]]) -> int:
        """Set so many bytes of each buffer to zero; the index of the submission."""
        self.submit_held()
        encoder = lib.wgpuDeviceCreateCommandEncoder(self.raw, NULL)
        for raw, nbytes in buffers:
            lib.wgpuCommandEncoderClearBuffer(encoder, raw, 0, nbytes)
        return self._submit(encoder)

    def flush(self) -> None:
        """Submit what was only written."""
        self._submitted(lib.wgpuQueueSubmitForIndex(self.queue, 0, NULL))

    def wait(self, index: int) -> None:
        """Wait for that submission and all before it, and hear the callbacks that are due."""
        self._index[0] = index
        lib.wgpuDevicePoll(self.raw, True, self._index)
        while self._in_flight and self._in_flight[0] <= index:
            self._in_flight.popleft()

    def wait_all(self) -> None:
        """Wait for everything run, submitted or written so far."""
        self.submit_held()
        if self._unsubmitted:
            self.flush()
        lib.wgpuDevicePoll(self.raw, True, NULL)
        self._in_flight.clear()
        self.events.check()

    def probe(self) -> None:
        """Raise if the device is lost, or has errors to tell; a loss may not have been noticed yet."""
        self.destroy_buffer(self.create_buffer(256))
        self.wait_all()

    def map(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> None:
        """Ask to map; `status` (an `int *` that the caller keeps) turns non-zero in a later wait."""
        status[0] = 0
        request = ffi.new("WGPUBufferMapCallbackInfo *")
        request.mode = lib.WGPUCallbackMode_AllowProcessEvents
        request.callback, request.userdata1 = _on_mapped, status
        mode = lib.WGPUMapMode_Write if write else lib.WGPUMapMode_Read
        lib.wgpuBufferMapAsync(buffer, mode, 0, nbytes, request[0])
        self.events.check()

    def mapped(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> np.ndarray:
        """The bytes of a buffer, until `unmap`; waits for the mapping."""
        for wait in (False, True):  # what no work under way uses is mapped without waiting for any
            if status[0] == 0:
                lib.wgpuDevicePoll(self.raw, wait, NULL)
        if status[0] != lib.WGPUMapAsyncStatus_Success:
            raise NativeError(f"the device did not hand over its memory (status {status[0]})")
        get = lib.wgpuBufferGetMappedRange if write else lib.wgpuBufferGetConstMappedRange
        return np.frombuffer(ffi.buffer(get(buffer, 0, nbytes), nbytes), np.uint8)

    def unmap(self, buffer: Any) -> None:
        lib.wgpuBufferUnmap(buffer)

    def destroy(self) -> None:
        """Free all of the device's memory. Nothing may be called afterwards."""
        self.wait_all()
        lib.wgpuDeviceDestroy(self.raw)
        self.release_dead()

    def release(self, buffers: Iterable[Any]) -> None:
        """After a loss: let go of the device, so that the driver can free its memory. Nothing may be called afterwards."""
        for raw in buffers:
            lib.wgpuBufferRelease(raw)
        self.release_dead()
        lib.wgpuQueueRelease(self.queue)
        lib.wgpuDeviceRelease(self.raw)

    # --- within

    def _checked(self, raw: Any, release: Any) -> Any:
        """wgpu gives a handle even when it refuses; then it must be released and never used."""
        try:
            self.events.check()
        except NativeError:
            release(raw)
            raise
        return raw

    def _submit(self, encoder: Any) -> int:
        commands = lib.wgpuCommandEncoderFinish(encoder, NULL)
        lib.wgpuCommandEncoderRelease(encoder)
        if self.events.errors or self.events.lost is not None:
            self._held, self._operations = [], 0
            lib.wgpuCommandBufferRelease(commands)
            self.events.check()
            raise NativeError(f"the device was lost: {self.events.lost}")
        self._commands[0] = commands
        if self._held:
            self._held, self._operations = [], 0
        index = lib.wgpuQueueSubmitForIndex(self.queue, 1, self._commands)
        lib.wgpuCommandBufferRelease(commands)
        self.submits += 1
        self._submitted(index)
        return index

    def _submitted(self, index: int) -> None:
        """Bound the work under way: a host that runs far ahead is slower, and holds its staging memory."""
        self._unsubmitted = 0
        self._in_flight.append(index)
        if len(self._in_flight) > self._max_in_flight:
            # For the older half at once: a wait costs a driver more than a small step takes, and the other half goes on.
            self.wait(self._in_flight[self._max_in_flight // 2])
        if self.events.errors:
            self.events.check()

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)


def new_status() -> Any:
    """A C integer for `map`."""
    return ffi.new("int *")
