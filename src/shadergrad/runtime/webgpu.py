"""The webgpu device: any GPU that Vulkan, Metal or Direct3D 12 reaches, through an implementation of WebGPU.

In: host arrays and plans. Out: storages, programs, host arrays. This file connects the parts, each of which has its own file:
`adapters` chooses the GPU; `wgpu`, `dawn` or `page` makes the raw calls; `encoding` encodes values; `memory` pools
buffers; `readback` reads them; `compiling` compiles kernels; `pipelines` keeps them; `program` runs plans. They are imported when the
first device is opened, so that `import shadergrad` works where they do not.

Every public call takes the device's lock, so one thread at a time calls the driver.

`reset` opens a lost device again: the same object then stands for the new device, so that loaded programs continue to work.
The contents of the old device's memory are lost, and using them raises an error; only small uploads (learning rates, seeds,
constants) are kept on the host and written again.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np

from ..config import Config, config
from ..cpython import living
from ..dtypes import DType
from ..errors import DeviceError, DeviceLostError
from ..graph.node import Node
from ..plan import Kernel, Plan, fault_error, format_bytes, round_up
from ..system import interrupts
from ..system.browser import IN_BROWSER, can_wait, new_lock
from .adapters import AdapterInfo, choose_adapter, find_again, portable_overrides
from .compiling import MOST_COMPILERS, Compiler, compilers
from .device import LARGE, Begun, Filling, Prepared, Program, Storage, register_device
from .encoding import as_bytes, decoded, encoded, stored_shape
from .families import Families
from .halves import converts_as_ieee
from .implementations import implementation, open_quietly
from .interface import Device, Found, NativeError, Wish
from .memory import Buffer, Bundle, MemoryPool
from .pipelines import KEPT, Pipeline, PipelineCache
from .program import Gpu, WebGPUProgram
from .readback import Readback, Reading
from .rehearsal import Rehearsal
from .staging import MOST_BEGUN, PART, HostMemory, Uploads

MOST_BIND_GROUPS = 1 << 16  # alive on a device; one takes 1 KiB on llvmpipe
SHOWN = 5  # tensors listed in an error
STAGED = 1 << 20  # bytes: larger writes go through our staging buffers, not through one that wgpu makes for each
REMEMBERED = 4096  # bytes: the largest upload of which the host keeps a copy


@dataclass(frozen=True)
class Statistics:
    """Counters since the device was opened, and its memory now."""

    submits: int
    dispatches: int
    bytes_in_use: int
    bytes_pooled: int
    peak_bytes: int
    memory_limit: int | None
    live_buffers: int
    buffers_allocated: int
    pipelines: int
    pipeline_bytes: int  # of host memory, as estimated
    bind_groups: int
    bind_groups_created: int
    in_flight: int


class WebGPUDevice(Gpu):
    """The webgpu device; see the module. `settings` defaults to the environment; tests pass their own."""

    def __init__(self, index: int = 0, settings: Config | None = None) -> None:
        settings = settings or config
        self.name = "webgpu" if index == 0 else f"webgpu:{index}"
        self.adapter, found = choose_adapter(index, settings)
        self.target = self.adapter.target
        self.profile = self.adapter.profile
        self.lock = new_lock()
        self._index = index
        self._settings = settings
        self._failure: str | None = None
        self._earlier_loss = ""  # why it had to be opened again
        self._fault: Storage | None = None  # where kernels of checked plans report
        self.native: Device = self._open(self.adapter, found)
        most = self.adapter.limits["max-buffer-size"]
        if settings.portable:
            most = min(most, portable_overrides(settings)["maxBufferSize"])
        self.memory = MemoryPool(
            self._create_buffer, self._discard, most // 16 * 16, settings.memory_limit, self._largest
        )
        self._readback = Readback(self.native)
        self._uploads = Uploads(self.native)
        self._host_memory = HostMemory()
        self._begun_memory = HostMemory(MOST_BEGUN)
        self._programs: WeakSet[WebGPUProgram] = WeakSet()
        self._pipelines = PipelineCache(
            lambda kernels: self._compiler.compile_all(kernels),
            self._programs,
            settings.pipeline_memory,
            self.adapter.type == "software",
        )
        self._compiler = self._make_compiler(found)
        self._families = Families(lambda kernel: self.get_pipelines([kernel]))
        self._remembered: WeakSet[Storage] = WeakSet()
        self._adopted: set[Buffer] = set()  # buffers in memory of the host, which are not the pool's
        self._dropped: deque[Buffer] = deque()
        self.preparing: list[Bundle] | None = None  # temporaries of runs that are being prepared
        _opened.add(self)
        # a page may not be able to wait for a result here, and needs it for matrix units alone
        measures = self.adapter.type != "software" and (not IN_BROWSER or (bool(self.target.matrices) and can_wait()))
        if self.target.traits.unrolls and measures:
            self.target = replace(self.target, converts_halves=self._converts_halves())

    def _converts_halves(self) -> bool:
        """Tests the conversions of halves, in memory for which neither the limit nor the statistics count."""
        limit, self.memory.limit = self.memory.limit, None
        with self.measuring():
            converts = converts_as_ieee(self)
        with self.lock:
            self.memory.trim()
            self.memory.limit = limit
        return converts

    # --- the contract

    def upload(self, array: np.ndarray, dtype: DType) -> Storage:
        data = encoded(array, dtype, self.name)
        with self.lock, self.translate_errors():
            self.guard()
            storage = self.allocate(max(4, data.nbytes))
            self._write(storage, data)
            if data.nbytes <= REMEMBERED:
                storage.uploaded = data.tobytes()
                self._remembered.add(storage)
        return storage

    def write(self, storage: Storage, array: np.ndarray, dtype: DType) -> None:
        data = encoded(array, dtype, self.name)
        if max(4, data.nbytes) != storage.nbytes:
            raise DeviceError(f"[webgpu] cannot write {data.nbytes} bytes over a storage of {storage.nbytes}.")
        with self.lock, self.translate_errors():
            self.guard()
            storage.uploaded = None
            if storage.handle.raw is None:  # its memory went with a lost device; now it has a value again
                storage.handle = self.memory.acquire(storage.nbytes)
            self._write(storage, data)

    def download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        interrupts.install()  # a notebook puts Python's own handler back for each cell
        out = self._room(storage, shape, dtype, self._host_memory)
        with self.lock, self.translate_errors():
            self.guard()
            self._read_and_raise_faults([(self._raw(storage, shape, dtype), as_bytes(out))] if out.nbytes else [])
        return decoded(out, shape, dtype)

    reads_at_once = False

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return self.native.has_room

    def begin_download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> list[Begun]:
        out = self._room(storage, shape, dtype, self._begun_memory)
        if not out.nbytes:
            return [Begun(0, 0, lambda: True, lambda: decoded(out, shape, dtype).reshape(-1))]
        flat = out.reshape(-1)
        each = PART // flat.itemsize
        starts = range(0, flat.size, each)
        with self.lock, self.translate_errors():
            self.guard()
            sizes = [flat[start : start + each].nbytes for start in starts]
            readings = self._readback.begin(self._raw(storage, shape, dtype), sizes)
        return [
            self._part(reading, start, flat[start : start + each], math.prod(shape), dtype)
            for reading, start in zip(readings, starts, strict=True)
        ]

    def _part(self, reading: Reading, first: int, into: np.ndarray, size: int, dtype: DType) -> Begun:
        """A part of `size` elements, which goes to `into`."""

        def is_ready() -> bool:
            with self.lock, self.translate_errors():
                self.guard()
                return reading.is_ready()

        def finish() -> np.ndarray:
            with self.lock, self.translate_errors():
                self.guard()
                reading.finish(as_bytes(into))
            return decoded(into, (min(into.size, size - first),), dtype)

        return Begun(first, into.nbytes, is_ready, finish)

    def begin_upload(self, shape: tuple[int, ...], dtype: DType) -> Filling:
        large = math.prod(shape) * np.dtype(dtype.stored).itemsize >= STAGED
        return _Ahead(self, shape, dtype) if large else Filling(self, shape, dtype)

    @property
    def shares_memory(self) -> bool:  # type: ignore[override]
        return self.native.adopts_memory

    def adopt(self, memory: np.ndarray, shape: tuple[int, ...], dtype: DType) -> Storage:
        with self.lock, self.translate_errors():
            self.guard()
            self._destroy_unreachable()
            buffer = Buffer(self.native.create_buffer_at(memory), memory.nbytes)
            self._adopted.add(buffer)
            return Storage(self, memory.nbytes, buffer)

    def begin_copy(self, source: Storage, adopted: Storage) -> Callable[[], bool]:
        with self.lock, self.translate_errors():
            self.guard()
            if not (self.holds(source) and self.holds(adopted)):
                raise self.lost_with("a value for other processes")
            native, nbytes = self.native, round_up(min(source.nbytes, adopted.nbytes), 4)
            submission = native.copy_all([(source.handle.raw, 0, adopted.handle.raw, 0, nbytes)])

        def is_done() -> bool:
            with self.lock, self.translate_errors():
                self.guard()
                if native is not self.native:
                    raise self.lost_with("a value for other processes")
                done = native.is_done(submission)
                self.guard()  # of a device that was lost meanwhile everything is done
                return done

        return is_done

    def prepare(self, program: Program, inputs: Sequence[Storage], into: Sequence[Storage | None] | None) -> Prepared:
        return _Encoded(self, program, inputs, into)

    def new_like(self, storage: Storage) -> Storage:
        with self.lock, self.translate_errors():
            self.guard()
            return self.allocate(storage.nbytes)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        with self.lock:
            self.native.is_awaited = self.native.adopts_memory
        try:
            yield
        finally:
            with self.lock:
                self.native.is_awaited = False

    def give_back(self, slots: Bundle) -> None:
        if self.preparing is None:
            self.memory.give_back_bundle(slots)
        else:
            self.preparing.append(slots)

    def holds(self, storage: Storage) -> bool:
        return storage.handle.raw is not None

    def _destroy_unreachable(self) -> None:
        """Destroy adopted buffers that nobody can reach any more."""
        dropped = []
        while self._dropped:
            buffer = self._dropped.popleft()
            self._adopted.discard(buffer)
            if buffer.raw is not None:
                dropped.append(buffer)
        if dropped:
            self._discard(dropped)

    def write_ahead(self, storage: Storage, first: int, values: np.ndarray, dtype: DType) -> None:
        """Copy elements of a new storage to staging memory; end_writes submits them."""
        data = encoded(values, dtype, self.name)
        with self.lock, self.translate_errors():
            self.guard()
            self._uploads.begin(self._raw(storage, values.shape, dtype), first * data.itemsize, data, storage)

    def end_writes(self) -> None:
        """Submit the copies of write_ahead."""
        with self.lock, self.translate_errors():
            self.guard()
            self._uploads.submit()

    def _room(self, storage: Storage, shape: tuple[int, ...], dtype: DType, memory: HostMemory) -> np.ndarray:
        """An array for the encoded values of a storage."""
        out = memory.empty(stored_shape(shape, dtype), dtype.stored)
        if out.nbytes > storage.nbytes:
            raise DeviceError(f"[webgpu] a storage of {storage.nbytes} bytes has no {shape} of {dtype.name}.")
        return out

    def _raw(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> Any:
        """The buffer of a storage. Raises DeviceLostError if it belonged to a lost device."""
        if storage.handle.raw is None:
            raise self.lost_with(f"this tensor, {dtype.name} of shape {shape},")
        return storage.handle.raw

    async def download_async(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        parts = self.begin_download(storage, shape, dtype)
        await self.native.settled()
        return np.concatenate([part.finish() for part in parts]).reshape(shape)

    @contextmanager
    def compiling(self) -> Iterator[Callable[[Kernel], None]]:
        """Kernels are compiled by other threads while the next ones are written. The lock is held, so that no other thread gets
        their errors.
        """
        with self.lock, self.translate_errors():
            self.guard()
            try:
                yield self._begin_compiling
            finally:
                self._compiler.forget_begun()

    def load(self, plan: Plan) -> WebGPUProgram:
        with self.lock, self.translate_errors():
            self.guard()
            program = WebGPUProgram(self, plan)
            self._programs.add(program)
        return program

    def synchronize(self) -> None:
        with self.lock, self.translate_errors():
            self.guard()
            self.native.wait_all()
            self._read_and_raise_faults([])

    def fault_buffer(self) -> Any:
        if self._fault is None:
            self._fault = self.allocate(16)
            self._write(self._fault, np.zeros(4, np.int32))
        return self._fault.handle

    def _read_and_raise_faults(self, wanted: list[tuple[Any, np.ndarray]]) -> None:
        """Read buffers, and raise the faults that kernels have reported since the last check; reports are kept until then."""
        report = np.zeros(4, np.int32)
        if self._fault is not None:
            wanted.append((self._fault.handle.raw, report.view(np.uint8)))
        self._readback.read(wanted)
        if self._fault is not None and report[0]:
            self._write(self._fault, np.zeros(4, np.int32))
            _, index, size, fault = map(int, report)
            raise fault_error(fault, index, size)

    def release(self, handle: Any) -> None:
        if handle in self._adopted:
            self._dropped.append(handle)  # any thread: `_let_go` destroys it
        else:
            self.memory.give_back(handle)

    def describe(self) -> str:
        return self.adapter.describe()

    # --- beyond the contract

    def statistics(self) -> Statistics:
        with self.lock:
            return Statistics(
                submits=self.native.submits,
                dispatches=self.native.dispatches,
                bytes_in_use=self.memory.bytes_in_use,
                bytes_pooled=self.memory.bytes_pooled,
                peak_bytes=self.memory.peak_bytes,
                memory_limit=self.memory.limit,
                live_buffers=self.memory.live_buffers,
                buffers_allocated=self.memory.allocated,
                pipelines=len(self._pipelines),
                pipeline_bytes=self._pipelines.nbytes,
                bind_groups=self.native.bind_groups,
                bind_groups_created=self.native.bind_groups_created,
                in_flight=self.native.in_flight,
            )

    def empty_cache(self) -> None:
        """Return the pool's free memory to the driver."""
        with self.lock, self.translate_errors():
            self.guard()
            self._destroy_unreachable()
            self.memory.trim()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """A context whose allocations do not count in the program's peak memory."""
        with self.lock:
            before = self.memory.peak_bytes
        try:
            yield
        finally:
            with self.lock:
                self.memory.peak_bytes = max(before, self.memory.bytes_in_use)

    def reset_peak(self) -> None:
        """Reset peak_bytes to the present use."""
        with self.lock:
            self.memory.peak_bytes = self.memory.bytes_in_use

    def destroy(self) -> None:
        """Free everything; from then on each call raises DeviceLostError. For tests, and to release the GPU for others."""
        with self.lock:
            if self._failure is None and self.native.events.lost is None:
                self.native.destroy()
            self._lose("it was destroyed by the program")

    @property
    def is_lost(self) -> bool:
        return self.native.events.lost is not None

    def reset(self) -> bool:
        """Open the device again if it was lost, and return whether it was.

        Programs continue to work, and storages of small uploads have their values again; any other storage from before raises
        DeviceLostError when it is used. Raises DeviceError, and leaves the device lost, if it cannot be opened.
        """
        with self.lock:
            try:
                with self.translate_errors():
                    self.guard()
                    self.native.probe()
                return False
            except DeviceLostError:
                reason = self.native.events.lost or ""
            adapter, found = find_again(self.adapter, self._index, self._settings)
            native = self._open(adapter, found)
            for program in list(self._programs):
                program.unload()
            self._pipelines.clear()
            self._fault = None
            adopted = [buffer.raw for buffer in self._adopted]
            for buffer in self._adopted:
                buffer.raw = None
            self.native.release(adopted + self.memory.abandon() + self._readback.abandon() + self._uploads.abandon())
            self.native, self.adapter, self._earlier_loss = native, adapter, reason
            self._compiler = self._make_compiler(found)
            self._readback, self._uploads = Readback(native), Uploads(native)
            with self.translate_errors():
                for storage in list(self._remembered):
                    if storage.uploaded is not None:
                        storage.handle = self.memory.acquire(storage.nbytes)
                        self._write(storage, np.frombuffer(storage.uploaded, np.uint8))
            return True

    def _lose(self, reason: str) -> None:
        """Called by the driver's device-lost callback, and by tests to simulate a loss."""
        self.native.events.lost = self.native.events.lost or reason

    # --- for programs

    @property
    def gives_memory_late(self) -> bool:
        return self.adapter.compiles_at_dispatch

    def guard(self) -> None:
        if self._failure is not None:
            raise DeviceError(self._failure)
        events = self.native.events
        if events.lost is not None:
            raise self._lost_error()
        if events.errors:
            events.check()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """The implementation's errors, as this library's."""
        try:
            yield
        except NativeError as error:
            raise self.translated(error) from error

    def translated(self, error: Exception) -> DeviceError:
        if self._is_loss(error):
            return self._lost_error()
        return DeviceError(f"[webgpu] {self.describe()} reports an error:\n{error}")

    def _is_loss(self, error: Exception) -> bool:
        """Whether an error of wgpu means that the device is lost; it may arrive before the callback with the reason."""
        if "device is lost" in str(error).lower():
            self._lose("the driver reports it gone")
        return self.native.events.lost is not None

    def allocate(self, nbytes: int) -> Storage:
        return Storage(self, nbytes, self.memory.acquire(nbytes))

    def get_pipelines(self, kernels: Sequence[Kernel]) -> list[Pipeline]:
        pipelines = self._pipelines.get(kernels, self.native.submits)
        self.native.release_dead()
        return pipelines

    def open_kernels(self, kernels: Sequence[Kernel], family: int) -> list[tuple[Kernel, np.ndarray | None]]:
        if family:
            return self._families.choose(kernels, family, self._pipelines.has)
        found = self._families.follow(kernels, self._pipelines.has)
        if self.adapter.compiles_at_dispatch and all(numbers is None for _, numbers in found):
            return self._families.join(kernels, self._pipelines.has)
        return found

    def bound_bind_groups(self, running: WebGPUProgram) -> None:
        """Keep to MOST_BIND_GROUPS: the least recently used programs drop theirs and make them again when they run."""
        if self.native.bind_groups <= MOST_BIND_GROUPS:
            return
        for program in sorted(self._programs, key=lambda p: p.used):
            if program is not running:
                program.forget_recordings()
                self.native.release_dead()
            if self.native.bind_groups <= KEPT * MOST_BIND_GROUPS:
                break

    def lost_with(self, what: str) -> DeviceLostError:
        return DeviceLostError(
            f"[webgpu] {what} was in the memory of {self.describe()}, which was lost ({self._earlier_loss}) and opened "
            "again since; its value is gone.\n"
            "  Hint: load the last checkpoint into the model and the optimizer (load_state_dict), seed the random "
            "numbers (sg.manual_seed), and make other tensors anew from what the host has."
        )

    def bind_group_layout(self, access: tuple[str, ...]) -> Any:
        return self._compiler.layouts(access)[0]

    # --- within

    def _open(self, adapter: AdapterInfo, found: Found) -> Device:
        target = adapter.target
        wish = wish_of(self._settings, target.traits.slow_loads, target.f16 and bool(target.matrices))
        try:
            with open_quietly():
                return implementation(adapter.implementation).open_device(found, wish)
        except NativeError as error:
            raise DeviceError(
                f"[webgpu] {adapter.describe()} cannot be opened: {error}\n"
                "  Hint: update its driver, choose another adapter (SHADERGRAD_ADAPTER, webgpu:N), or use cpu."
            ) from error

    def _make_compiler(self, found: Found) -> Compiler:
        rehearsal = None
        if MOST_COMPILERS > 1 and self.adapter.compiles_at_dispatch:
            open_device = partial(self._open, self.adapter, found)
            rehearsal = Rehearsal(open_device, min(4, MOST_COMPILERS))
        return Compiler(self.native, self._is_loss, rehearsal)

    def _begin_compiling(self, kernel: Kernel) -> None:
        if not self._families.varies(kernel) and not self._pipelines.has(kernel):
            self._compiler.begin(kernel)

    def _write(self, storage: Storage, data: np.ndarray) -> None:
        if data.nbytes >= STAGED:
            self._uploads.write(storage.handle.raw, data)
        elif data.nbytes:
            self.native.write(storage.handle.raw, data)

    def _create_buffer(self, nbytes: int) -> Any:
        """For the pool: None if the driver is out of memory."""
        try:
            return self.native.create_buffer(nbytes)
        except NativeError as error:
            if error.out_of_memory:
                return None
            raise

    def _largest(self) -> str:
        """The largest tensors, and the lines that made them, for out-of-memory errors."""
        nodes = (n for n in living(Node) if isinstance(n.storage, Storage))
        held = {id(n.storage): n for n in nodes if n.storage.device is self and n.storage.nbytes >= LARGE}
        largest = sorted(held.values(), key=lambda n: n.storage.nbytes, reverse=True)[:SHOWN]
        if not largest:
            return ""
        told = (
            f"{n.dtype.name} {n.shape}, {format_bytes(n.storage.nbytes)}"
            + (f", made at {n.storage.made_at}" if n.storage.made_at else "")
            for n in largest
        )
        return f"\n  The largest tensors: {'; '.join(told)}."

    def _discard(self, buffers: list[Buffer]) -> None:
        """For the pool: destroy buffers once nothing refers to them and no work in flight uses them."""
        dropped = set(buffers)
        for program in list(self._programs):
            program.forget(dropped)
        self.native.release_dead()
        self.native.wait_all()
        for buffer in buffers:
            raw, buffer.raw = buffer.raw, None
            self.native.destroy_buffer(raw)

    def _lost_error(self) -> DeviceLostError:
        return DeviceLostError(
            f"[webgpu] {self.describe()} was lost: {self.native.events.lost}. Everything in its memory is gone.\n"
            f"  Hint: sg.devices.reset({self.name!r}) opens it again; then load the last checkpoint, or make tensors anew. Or start "
            "the process again and resume from the last checkpoint. If it happens again, look at the system log for "
            "driver resets: a kernel that runs too long, overheating, or too little memory."
        )


def wish_of(settings: Config, shares_loads: bool = False, uses_matrices: bool = False) -> Wish:
    """The options with which a device is opened."""
    return Wish(portable_overrides(settings), settings.in_flight, shares_loads, settings.checked, uses_matrices)


class _Encoded(Prepared):
    """A run that is encoded. Its temporaries stay its own until it is submitted: other threads take buffers from the pool and write to them."""

    def __init__(
        self,
        device: WebGPUDevice,
        program: Program,
        inputs: Sequence[Storage],
        into: Sequence[Storage | None] | None,
    ) -> None:
        super().__init__(program, inputs, into)
        self._gpu = device
        self._slots: list[Bundle] = []
        with device.lock:
            native, self._native = device.native, device.native
            native.submit_held()
            device.preparing = self._slots
            native.begin_preparing()
            try:
                self._made = program.run(inputs, into)
            except BaseException:
                device.preparing = None
                self._commands = native.end_preparing()
                self.drop()
                raise
            device.preparing = None
            self._commands = native.end_preparing()

    def begin(self) -> list[Storage]:
        with self._gpu.lock, self._gpu.translate_errors():
            self._gpu.guard()
            self._native.submit_prepared(self._commands)
            self._give_back()
        return self._made

    def drop(self) -> None:
        with self._gpu.lock:
            if self._native is self._gpu.native and not self._gpu.is_lost:
                self._native.drop_prepared(self._commands)
                self._give_back()

    def _give_back(self) -> None:
        while self._slots:
            self._gpu.memory.give_back_bundle(self._slots.pop())


class _Ahead(Filling):
    """A storage whose parts are copied to staging memory as they arrive."""

    def __init__(self, device: WebGPUDevice, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(device, shape, dtype)
        self._gpu = device
        with device.lock, device.translate_errors():
            device.guard()
            self._storage = device.allocate(round_up(math.prod(shape) * np.dtype(dtype.stored).itemsize, 4))

    def put(self, first: int, values: np.ndarray) -> None:
        self._gpu.write_ahead(self._storage, first, values, self._dtype)

    def done(self) -> Storage:
        self._gpu.end_writes()
        return self._storage


_opened: WeakSet[WebGPUDevice] = WeakSet()


def _finish_work() -> None:
    """At exit: a driver that is unloaded while it works crashes."""
    for device in list(_opened):
        if device._failure is None and device.native.events.lost is None:
            with device.lock, suppress(NativeError):
                device.native.wait_all()
            device._lose("the interpreter is shutting down")


def _disown_after_fork() -> None:
    """In a forked child: the driver's threads do not exist there, and any call would hang or crash."""
    compilers.cache_clear()
    for device in list(_opened):
        device.lock = threading.RLock()  # the old one may have been held
        device._failure = (
            f"[webgpu] {device.name} was opened before this process was forked, and GPU drivers do not survive that.\n"
            "  Hint: use multiprocessing.get_context('spawn'), or keep to the cpu device in worker processes."
        )


atexit.register(_finish_work)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_after_fork)

register_device("webgpu", WebGPUDevice)
