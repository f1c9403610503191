"""A plan on the webgpu device, prepared so that a run is one tight loop of raw calls.

In: a plan at load, storages at each run. Out: storages. The driver objects of a run (pipelines, bind groups, workgroup counts, in order)
depend only on which buffers take part. So they are resolved once for each combination of buffers and kept as a `Recording`. A training
step gets its old buffers back from the pool, and replays the recording of the step before.

`unload` may drop resolved objects at any time between runs: when the device makes room for other pipelines, and
when it was lost and is opened again. The next run resolves them again, so the owner of a program need not know.

Contract with the compiler: an output that aliases an input is one buffer, and a dispatch lists it once. Contract with
the pool: temporaries are returned right after submission, which is safe because one queue runs everything in order. Those of a prepared run are
returned when it is submitted.
Guarded by tests/device/test_webgpu_runtime.py.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..errors import CompileError, DeviceError, DeviceLostError, LimitError, OutOfMemoryError
from ..plan import BufferSpec, Dispatch, Kernel, Plan, format_bytes, round_up
from . import timing
from .device import Device, Program, Storage
from .encoding import unsupported
from .interface import NativeError
from .memory import Buffer, Bundle, MemoryPool
from .pipelines import Pipeline

MOST_RECORDINGS = 16
NUMBERS_ALIGNMENT = 64  # words: the alignment of uniform bindings on any device
OPERATIONS_A_BYTE = 16  # that a GPU executes while it moves one byte
OPERATIONS_A_DISPATCH = 1 << 26  # that it executes while it starts one; larger runs do not wait for others
UNKNOWN = 1 << 40  # operations of a kernel without a count: too many to hold the run back
MUCH = 1 << 24  # bytes of temporaries whose allocation takes a driver noticeable time
MOST_RECENT = 4  # buffers that a row remembers; a loss that outlives its step makes a step alternate between two
NO_SLOTS = Bundle(())  # of a program without temporaries


class Gpu(Device):
    """The interface of a device for its programs; webgpu.py has the device itself."""

    profile: str
    lock: threading.RLock
    native: Any
    memory: MemoryPool

    @property
    @abstractmethod
    def gives_memory_late(self) -> bool:
        """Whether memory is allocated lazily, when a buffer is first written, on one core."""

    @abstractmethod
    def guard(self) -> None:
        """Raise if the device can no longer be used, and raise errors reported since the last call."""

    @abstractmethod
    def translated(self, error: Exception) -> DeviceError:
        """The library's exception for an error of the implementation."""

    @abstractmethod
    def lost_with(self, what: str) -> DeviceLostError:
        """The error for a storage from before the device was lost and opened again."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Storage:
        """A storage with arbitrary contents."""

    @abstractmethod
    def give_back(self, slots: Bundle) -> None:
        """Take back a run's temporaries, which the next submission may use."""

    @abstractmethod
    def fault_buffer(self) -> Buffer:
        """Four i32 in which kernels of checked plans report an index out of range: flag, index, size of the axis."""

    @abstractmethod
    def get_pipelines(self, kernels: Sequence[Kernel]) -> list[Pipeline]:
        """The compiled kernels of one program; equal sources with equal bindings are compiled once."""

    @abstractmethod
    def open_kernels(self, kernels: Sequence[Kernel], family: int) -> list[tuple[Kernel, np.ndarray | None]]:
        """The kernels to compile for a plan, which may serve several of its kernels or other sizes, with the numbers that each
        reads.
        """

    @abstractmethod
    def bind_group_layout(self, access: tuple[str, ...]) -> Any:
        """The layout with one storage buffer per binding; `access` is read or read_write for each."""

    @abstractmethod
    def bound_bind_groups(self, running: WebGPUProgram) -> None:
        """Keep the number of bind groups of all programs within a bound; those of `running` stay."""


class Wish:
    """A buffer that every run takes from the pool, and the buffers that it got recently."""

    __slots__ = ("nbytes", "recent")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.recent: list[Buffer] = []

    def remember(self, buffer: Buffer) -> None:
        if buffer not in self.recent:
            self.recent = [buffer, *self.recent][:MOST_RECENT]


@dataclass(frozen=True)
class Step:
    """A dispatch with its pipeline; `bindings`: position in a run's buffers, first byte, and number of bytes to bind.
    numbers: buffer, first byte and bytes of the numbers that the kernel reads, if it serves several sizes.
    """

    pipeline: Pipeline
    bindings: tuple[tuple[int, int, int], ...]
    grid: tuple[int, int, int]
    numbers: tuple[tuple[Any, int, int], ...] = ()


@dataclass(frozen=True)
class Recording:
    """The commands to replay for one combination of buffers. `handles` keeps its bind groups and pipelines alive."""

    key: tuple[Buffer, ...]
    commands: list[tuple[Any, Any, int, int, int]]
    handles: tuple[Any, ...]


class WebGPUProgram(Program):
    """A loaded plan; see the module. `buffers of a run`: those of plan.inputs, then fresh outputs, then temporary slots."""

    def __init__(self, device: Gpu, plan: Plan) -> None:
        check_plan(plan, device)
        self.plan = plan
        self._device = device
        self.used = 0
        self._layout(plan)
        self._steps: list[Step] | None = None
        self._recordings: OrderedDict[tuple[Buffer, ...], Recording] = OrderedDict()
        self._groups: WeakValueDictionary[Any, Any] = WeakValueDictionary()
        self._bundle: Bundle | None = None
        self._handles: list[Buffer] | None = None  # inputs of the previous run, checked
        self._into: Sequence[Storage | None] | None = None  # of the previous run, and its places
        self._reused: list[tuple[int, int]] = []
        self._latest: Recording | None = None
        self._before: Recording | None = None  # a result that outlives its run has two buffers, in turns
        if device.gives_memory_late and sum(slot.nbytes for slot in self._slots) >= MUCH:
            self._touch_slots()
        self._resolve()  # so that a kernel that does not compile is an error at load

    # --- at load

    def _layout(self, plan: Plan) -> None:
        """Assign every row its position among the buffers of a run, and every output its source."""
        position = {row: i for i, row in enumerate(plan.inputs)}
        self._fresh: list[Wish] = []
        self._slots: list[Wish] = [Wish(nbytes) for nbytes in plan.slots]
        aliasing = (row for row, spec in enumerate(plan.buffers) if spec.aliases is not None)
        outputs = [(row, plan.buffers[row]) for row in sorted({*plan.outputs, *aliasing}.difference(plan.inputs))]
        for row, spec in outputs:
            if spec.aliases is not None:
                position[row] = position[spec.aliases]
            elif row not in position:
                position[row] = len(plan.inputs) + len(self._fresh)
                self._fresh.append(Wish(spec.nbytes))
        first_slot = len(plan.inputs) + len(self._fresh)
        for row, spec in enumerate(plan.buffers):
            if spec.role == "temporary":
                slot = spec.slot
                if slot is None:
                    slot = len(self._slots)
                    self._slots.append(Wish(spec.nbytes))
                position[row] = first_slot + slot
        self._reports_faults = any(spec.role == "fault" for spec in plan.buffers)
        for row, spec in enumerate(plan.buffers):
            if spec.role == "fault":
                position[row] = first_slot + len(self._slots)
        self._position = position
        self._outputs = [position[row] for row in plan.outputs]
        first_made = len(plan.inputs)
        self._gives_made = self._outputs == [first_made + k for k in range(len(self._fresh))]
        self._written = {position[row] for row, spec in outputs if spec.aliases is not None}
        self._needed = [plan.buffers[row].nbytes for row in plan.inputs]
        self._operations = sum(operations(plan.kernels[d.kernel]) for d in plan.dispatches)

    def _resolve(self) -> list[Step]:
        """The dispatches with their pipelines, which are compiled if necessary."""
        if self._steps is None:
            dispatches = [d for d in self.plan.dispatches if all(d.grid)]
            kernels = [self.plan.kernels[d.kernel] for d in dispatches]
            kernels, numbers = self._opened(kernels)
            pipelines = self._device.get_pipelines(kernels)
            steps = zip(pipelines, dispatches, numbers, strict=True)
            self._steps = [Step(pipeline, self._bindings(d), d.grid, n) for pipeline, d, n in steps]
        return self._steps

    def _opened(self, kernels: list[Kernel]) -> tuple[list[Kernel], list[tuple[tuple[Any, int, int], ...]]]:
        """The kernels as the device compiles them, and the location of the numbers that they read."""
        chosen = self._device.open_kernels(kernels, self.plan.family)
        starts: list[int | None] = []
        parts: list[np.ndarray] = []
        for _, words in chosen:
            starts.append(None if words is None else sum(p.nbytes for p in parts))
            if words is not None:
                parts.append(np.pad(words, (0, -words.size % NUMBERS_ALIGNMENT)))
        if not parts:
            return [k for k, _ in chosen], [()] * len(chosen)
        buffer = self._device.native.create_uniform(np.concatenate(parts))
        return [k for k, _ in chosen], [
            () if start is None or words is None else ((buffer, start, words.nbytes),)
            for start, (_, words) in zip(starts, chosen, strict=True)
        ]

    def _bindings(self, dispatch: Dispatch) -> tuple[tuple[int, int, int], ...]:
        bindings = []
        for k, row in enumerate(dispatch.buffers):
            offset = dispatch.offset(k)
            bindings.append((self._position[row], offset, self.plan.buffers[row].bound - offset))
        return tuple(bindings)

    def pipelines(self) -> Collection[Pipeline]:
        """The pipelines that it currently holds."""
        return [] if self._steps is None else [step.pipeline for step in self._steps]

    def unload(self) -> None:
        """Release everything that was resolved; the next run resolves it again."""
        self._steps = None
        self.forget_recordings()
        self._into = self._handles = None

    def forget_recordings(self) -> None:
        """Release all bind groups."""
        self._recordings.clear()
        self._groups.clear()
        self._latest = self._before = None

    # --- at each run

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        device = self._device
        with device.lock:
            try:  # not translate_errors(): a generator's context manager would cost as much as a dispatch
                device.guard()
                if into is not self._into:
                    self._into, self._reused = into, self._place(into)
                handles = [storage.handle for storage in inputs]
                if handles != self._handles:
                    self._check_inputs(inputs)
                    if self._conflicts(handles):
                        return self._run_apart(list(inputs), into)
                    self._handles = handles
                return self._execute(inputs, handles, into, ())
            except NativeError as error:
                raise device.translated(error) from error

    def _place(self, into: Sequence[Storage | None] | None) -> list[tuple[int, int]]:
        """The targets of fresh outputs: (number among the fresh outputs, position in `into`)."""
        n = len(self.plan.inputs)
        places: list[tuple[int, int]] = []
        for k, (i, storage) in enumerate(zip(self._outputs, into or (), strict=into is not None)):
            if storage is None or i < n:
                continue
            storage.uploaded = None
            if storage.handle.raw is None:  # its memory was lost with the device; its contents are overwritten anyway
                storage.handle = self._device.memory.acquire(storage.nbytes)
            places.append((i - n, k))
        return places

    def _execute(
        self,
        inputs: Sequence[Storage],
        handles: list[Buffer],
        into: Sequence[Storage | None] | None,
        copies: Iterable[Any],
    ) -> list[Storage]:
        memory, native = self._device.memory, self._device.native
        self.used = native.submits
        for i in self._written:
            inputs[i].uploaded = None
        slots = self._take_slots() if self._slots else NO_SLOTS
        made: list[Any] = [None] * len(self._fresh)
        if into is not None:
            for k, position in self._reused:
                made[k] = into[position]
        try:
            for k, wish in enumerate(self._fresh):
                if made[k] is None:
                    buffer = memory.acquire(wish.nbytes, wish.recent)
                    wish.remember(buffer)
                    made[k] = Storage(self._device, wish.nbytes, buffer)
            fresh = [storage.handle for storage in made]
            key = (*handles, *fresh, *slots.buffers)
            if self._reports_faults:
                key = (*key, self._device.fault_buffer())
            recording = self._latest
            if recording is None or key != recording.key:
                recording = self._find(key)
            if timing.listeners:
                self._run_timed(copies, recording.commands)
            elif recording.commands or copies:
                native.run(copies, recording.commands, recording, self._operations)
        finally:
            if slots is not NO_SLOTS:
                self._device.give_back(slots)
        return made if self._gives_made else list(map([*inputs, *made].__getitem__, self._outputs))

    def _run_timed(self, copies: Iterable[Any], commands: Sequence[Any]) -> None:
        """As native.run, and report the time of each kernel to listeners."""
        device, clock = self._device, "device" if self._device.native.has_timestamps else "host"
        run = timing.next_run()
        times = device.native.run_timed(copies, commands)
        origins = timing.origins(len(self.plan.dispatches))
        run_of = [(d, o) for d, o in zip(self.plan.dispatches, origins, strict=True) if all(d.grid)]
        for (dispatch, origin), (start, end) in zip(run_of, times, strict=True):
            x, y, z = dispatch.grid
            kernel = self.plan.kernels[dispatch.kernel]
            timing.report(timing.Timed(device.name, clock, kernel, x * y * z, start, end - start, run, origin))

    def _take_slots(self) -> Bundle:
        """Buffers for the temporaries: those of the previous run, unless the pool needed them elsewhere."""
        memory = self._device.memory
        if self._bundle is not None and memory.take_bundle(self._bundle):
            return self._bundle
        buffers: list[Buffer] = []
        try:
            _acquire(memory, self._slots, buffers)
        except BaseException:
            for buffer in buffers:
                memory.give_back(buffer)
            raise
        self._bundle = Bundle(tuple(buffers))
        return self._bundle

    def _touch_slots(self) -> None:
        """Make the driver allocate memory for the temporaries while kernels are compiled. If there is none now, the first run requests
        it again.
        """
        try:
            slots = self._take_slots()
        except OutOfMemoryError:
            return
        try:
            self._device.native.clear((buffer.raw, buffer.capacity) for buffer in slots.buffers)
        finally:
            self._device.memory.give_back_bundle(slots)

    # --- resolution, when the buffers differ from those of the previous run

    def _find(self, key: tuple[Buffer, ...]) -> Recording:
        self._latest, self._before = self._before, self._latest
        if self._latest is not None and self._latest.key == key:
            return self._latest
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = self._record(key)
            if len(self._recordings) > MOST_RECORDINGS:
                self._recordings.popitem(last=False)
            self._device.bound_bind_groups(self)
        else:
            self._recordings.move_to_end(key)
        self._latest = recording
        self._device.native.release_dead()
        return recording

    def _record(self, key: tuple[Buffer, ...]) -> Recording:
        """Bind groups for these buffers, shared between dispatches and recordings."""
        commands: list[tuple[Any, Any, int, int, int]] = []
        handles: list[Any] = []
        for step in self._resolve():
            group, pipeline = self._bind_group(step, key), step.pipeline.handle
            commands.append((pipeline.raw, group.raw, *step.grid))
            handles += (group, pipeline)
        return Recording(key, self._device.native.prepare(commands), tuple(handles))

    def _bind_group(self, step: Step, key: tuple[Buffer, ...]) -> Any:
        bound = (*((key[i], offset, nbytes) for i, offset, nbytes in step.bindings), *step.numbers)
        name = (step.pipeline.access, bound)
        group = self._groups.get(name)
        if group is None:
            layout = self._device.bind_group_layout(step.pipeline.access)
            group = self._device.native.create_bind_group(
                layout, [(b.raw, offset, nbytes) for b, offset, nbytes in bound]
            )
            self._groups[name] = group
        return group

    def forget(self, dropped: set[Buffer]) -> None:
        """Drop all references to buffers that are about to be destroyed: submitting them would abort the process."""
        for key in [key for key in self._recordings if not dropped.isdisjoint(key)]:
            del self._recordings[key]
        for recording in (self._latest, self._before):
            if recording is not None and not dropped.isdisjoint(recording.key):
                self._latest = self._before = None
        if self._handles is not None and not dropped.isdisjoint(self._handles):
            self._handles = None

    # --- inputs

    def _check_inputs(self, inputs: Sequence[Storage]) -> None:
        if len(inputs) != len(self.plan.inputs):
            raise DeviceError(f"[webgpu] this program takes {len(self.plan.inputs)} inputs, and got {len(inputs)}.")
        for i, (storage, nbytes) in enumerate(zip(inputs, self._needed, strict=True)):
            if storage.device is not self._device:
                raise DeviceError(
                    f"[webgpu] input {i} is on {storage.device.name}, the program on {self._device.name}. "
                    f"Move it first: tensor.to({self._device.name!r})."
                )
            if storage.handle.raw is None:
                raise self._device.lost_with(f"the {self._described(i)},")
            if storage.nbytes < nbytes:
                raise DeviceError(
                    f"[webgpu] input {i} has {storage.nbytes} bytes; the plan wants {nbytes}, for {self._described(i)}."
                )

    def _described(self, i: int) -> str:
        return describe(self.plan.buffers[self.plan.inputs[i]])

    def _conflicts(self, handles: list[Buffer]) -> bool:
        """Whether a buffer that some output overwrites is also another input."""
        if not self._written or len(set(handles)) == len(handles):
            return False
        return any(handles.count(handles[i]) > 1 for i in self._written)

    def _run_apart(self, inputs: list[Storage], into: Sequence[Storage | None] | None) -> list[Storage]:
        """Handles a storage that is several inputs of which one is overwritten: the others get copies of it first.

        Without copies it would be illegal within a dispatch, and across dispatches the readers would see new values.
        """
        written_first = {inputs[i].handle: i for i in sorted(self._written, reverse=True)}
        copies = []
        for i, storage in enumerate(inputs):
            if written_first.get(storage.handle, i) != i:
                inputs[i] = self._device.allocate(storage.nbytes)
                copies.append((storage.handle.raw, inputs[i].handle.raw, round_up(storage.nbytes, 4)))
        return self._execute(inputs, [storage.handle for storage in inputs], into, copies)


def _acquire(memory: Any, wishes: list[Wish], into: list[Buffer]) -> None:
    for wish in wishes:
        buffer = memory.acquire(wish.nbytes, wish.recent)
        wish.remember(buffer)
        into.append(buffer)


def operations(kernel: Kernel) -> int:
    """The approximate amount of work of a dispatch."""
    if kernel.archetype == "call" and not kernel.flops:
        return UNKNOWN
    return kernel.flops + OPERATIONS_A_BYTE * kernel.nbytes + OPERATIONS_A_DISPATCH


def describe(spec: BufferSpec) -> str:
    name = f"{spec.role} {spec.name!r}" if spec.name else spec.role
    return f"{name} of shape {spec.shape}, {spec.dtype.name}"


def check_plan(plan: Plan, device: Gpu) -> None:
    """Refuse a plan this device cannot run, before anything is built."""
    if plan.target.language != "wgsl" or any(not kernel.source for kernel in plan.kernels):
        raise CompileError("[webgpu] this plan has no WGSL: it was compiled for the cpu device. Compile it for webgpu.")
    aliased = [spec.aliases for spec in plan.buffers if spec.aliases is not None]
    if len(set(aliased)) != len(aliased) or not set(aliased) <= set(plan.inputs):
        raise CompileError(f"[webgpu] outputs may alias distinct inputs {plan.inputs}; this plan's alias {aliased}.")
    for spec in plan.buffers:
        _check_buffer(spec, device)
    for kernel in plan.kernels:
        if len(kernel.access) > device.target.max_storage_buffers:
            raise LimitError(
                f"[webgpu] kernel {kernel.name!r} binds {len(kernel.access)} buffers; {device.describe()} allows "
                f"{device.target.max_storage_buffers} (profile {device.profile}).\n"
                "  Hint: compile the plan for this device's target instead of another's."
            )
    for dispatch in plan.dispatches:
        if max(dispatch.grid) > device.target.max_workgroups:
            raise LimitError(
                f"[webgpu] kernel {plan.kernels[dispatch.kernel].name!r} wants a grid of {dispatch.grid} workgroups; a "
                f"dimension has at most {device.target.max_workgroups}.\n  Hint: split the work, a smaller batch."
            )


def _check_buffer(spec: BufferSpec, device: Gpu) -> None:
    if spec.dtype.wgsl is None:
        raise unsupported(spec.dtype)
    device.memory.check_size(spec.nbytes)
    if spec.bound > device.target.max_binding_bytes:
        raise LimitError(
            f"[webgpu] {describe(spec)}, needs {format_bytes(spec.nbytes)}; a kernel of {device.describe()} reaches at "
            f"most {format_bytes(device.target.max_binding_bytes)} of one buffer (profile {device.profile}).\n"
            "  Hint: take a smaller batch, or split the tensor along its first axis"
            + (", or unset SHADERGRAD_PROFILE." if device.profile == "portable" else ".")
        )
