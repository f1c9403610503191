"""The webgpu device: any GPU that Vulkan, Metal or Direct3D 12 reaches, through wgpu-native.

In: host arrays and plans. Out: storages, programs, host arrays. This file keeps the parts together; each has its own:
`adapters` chooses the GPU, `native` makes the raw calls, `memory` pools buffers, `readback` reads them, `program` runs
plans. wgpu is imported when the first device is opened, so that `import shadergrad` works where wgpu does not.

Every public call takes the device's lock: one thread at a time talks to the driver.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from ..config import Config, config
from ..dtypes import DType
from ..errors import CompileError, DeviceError, DeviceLostError, DTypeError, IndexRangeError
from ..plan import Kernel, Plan
from .adapters import choose_adapter, load_native, open_quietly, portable_overrides
from .device import Device, Storage, register_device
from .memory import Buffer, MemoryPool, round_up
from .program import WebGPUProgram
from .readback import Readback

MOST_PIPELINES = 4096


@dataclass(frozen=True)
class Statistics:
    """Counters since the device was opened, and its memory now."""

    submits: int
    dispatches: int
    bytes_in_use: int
    bytes_pooled: int
    peak_bytes: int
    live_buffers: int
    buffers_allocated: int
    pipelines: int
    bind_groups_created: int
    in_flight: int


@dataclass(frozen=True, eq=False)
class Pipeline:
    handle: Any
    access: tuple[str, ...]


class WebGPUDevice(Device):
    """See the module. `settings` defaults to what the environment says; tests pass their own."""

    def __init__(self, index: int = 0, settings: Config | None = None) -> None:
        settings = settings or config
        self.name = "webgpu" if index == 0 else f"webgpu:{index}"
        self._module = load_native()
        self.native_error: type[Exception] = self._module.NativeError
        self.adapter, raw_adapter = choose_adapter(index, settings)
        self.target = self.adapter.target
        self.profile = self.adapter.profile
        self.lock = threading.RLock()
        self._failure: str | None = None
        self._fault: Storage | None = None  # where kernels of checked plans report
        self._checked = settings.checked
        self.native = self._open(raw_adapter, settings)
        most = self.adapter.limits["max-buffer-size"]
        if settings.portable:
            most = min(most, portable_overrides(settings)["maxBufferSize"])
        self.memory = MemoryPool(self._create_buffer, self._discard, most // 16 * 16, settings.memory_limit)
        self._readback = Readback(self.native, self._module)
        self._programs: WeakSet[WebGPUProgram] = WeakSet()
        self._pipelines: OrderedDict[tuple[str, tuple[str, ...]], Pipeline] = OrderedDict()
        self._layouts: dict[tuple[str, ...], tuple[Any, Any]] = {}
        _opened.add(self)

    # --- the contract

    def upload(self, array: np.ndarray, dtype: DType) -> Storage:
        data = self._encode(array, dtype)
        with self.lock, self.translate_errors():
            self.guard()
            storage = self.allocate(max(4, data.nbytes))
            self._write(storage, data)
        return storage

    def write(self, storage: Storage, array: np.ndarray, dtype: DType) -> None:
        data = self._encode(array, dtype)
        if max(4, data.nbytes) != storage.nbytes:
            raise DeviceError(f"[webgpu] cannot write {data.nbytes} bytes over a storage of {storage.nbytes}.")
        with self.lock, self.translate_errors():
            self.guard()
            self._write(storage, data)

    def download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        if dtype.wgsl is None:
            raise self.unsupported(dtype)
        out = np.empty(shape, np.uint32 if dtype.name == "bool" else dtype.numpy)
        if out.nbytes > storage.nbytes:
            raise DeviceError(f"[webgpu] a storage of {storage.nbytes} bytes has no {shape} of {dtype.name}.")
        with self.lock, self.translate_errors():
            self.guard()
            if out.nbytes:
                self._readback.read(storage.handle.raw, out.reshape(-1).view(np.uint8))
            self._raise_faults()
        return out.astype(np.bool_) if dtype.name == "bool" else out

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
            self._raise_faults()

    def fault_buffer(self) -> Any:
        """Four i32 in which kernels of checked plans report an index out of range: flag, index, size of the axis."""
        if self._fault is None:
            self._fault = self.allocate(16)
            self._write(self._fault, np.zeros(4, np.int32))
        return self._fault.handle

    def _raise_faults(self) -> None:
        """Raise what kernels have reported since the last look; reports are kept until then."""
        if self._fault is None:
            return
        report = np.zeros(4, np.int32)
        self._readback.read(self._fault.handle.raw, report.view(np.uint8))
        if report[0]:
            self._write(self._fault, np.zeros(4, np.int32))
            raise IndexRangeError(f"[gather] index {report[1]} is out of range for an axis of size {report[2]}.")

    def release(self, handle: Any) -> None:
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
                live_buffers=self.memory.live_buffers,
                buffers_allocated=self.memory.allocated,
                pipelines=len(self._pipelines),
                bind_groups_created=self.native.bind_groups_created,
                in_flight=self.native.in_flight,
            )

    def empty_cache(self) -> None:
        """Give the pool's free memory back to the driver."""
        with self.lock, self.translate_errors():
            self.guard()
            self.memory.trim()

    def destroy(self) -> None:
        """Free everything; from then on each call raises DeviceLostError. For tests and for handing a GPU on."""
        with self.lock:
            if self._failure is None and self.native.events.lost is None:
                self.native.destroy()
            self._lose("it was destroyed by the program")

    def _lose(self, reason: str) -> None:
        """What the driver's device-lost callback does; tests call it to play a loss."""
        self.native.events.lost = self.native.events.lost or reason

    # --- for programs

    def guard(self) -> None:
        """Raise if the device can no longer be used, and raise errors that came in since the last call."""
        if self._failure is not None:
            raise DeviceError(self._failure)
        events = self.native.events
        if events.lost is not None:
            raise self._lost_error()
        if events.errors:
            events.check()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """wgpu's errors, as this library's."""
        try:
            yield
        except self.native_error as error:
            raise self.translated(error) from error

    def translated(self, error: Exception) -> DeviceError:
        """What an error of wgpu means to a user."""
        if "device is lost" in str(error).lower():  # may come before the callback that says why
            self._lose("the driver reports it gone")
        if self.native.events.lost is not None:
            return self._lost_error()
        return DeviceError(f"[webgpu] {self.describe()} reports an error:\n{error}")

    def allocate(self, nbytes: int) -> Storage:
        """A storage with arbitrary contents."""
        return Storage(self, nbytes, self.memory.acquire(nbytes))

    def pipeline(self, kernel: Kernel) -> Pipeline:
        """The compiled kernel; the same source with the same bindings is compiled once."""
        key = (kernel.source, kernel.access)
        pipeline = self._pipelines.get(key)
        if pipeline is not None:
            self._pipelines.move_to_end(key)
            return pipeline
        _, layout = self._pipeline_layout(kernel.access)
        try:
            handle = self.native.create_pipeline(kernel.source, layout, self._checked)
        except self._module.NativeError as error:
            if self.native.events.lost is not None:
                raise
            raise CompileError(explain_compile_error(kernel, str(error))) from error
        pipeline = self._pipelines[key] = Pipeline(handle, kernel.access)
        if len(self._pipelines) > MOST_PIPELINES:
            self._pipelines.popitem(last=False)
        return pipeline

    def bind_group_layout(self, access: tuple[str, ...]) -> Any:
        return self._pipeline_layout(access)[0]

    def unsupported(self, dtype: DType) -> DTypeError:
        return DTypeError(
            f"[webgpu] {dtype.name} cannot be stored: shaders have bool, int32, uint32 and float32.\n"
            "  Hint: convert on the host first (float64 and float16 to float32, int64 and uint8 to int32), or use the "
            "cpu device."
        )

    # --- within

    def _open(self, raw_adapter: Any, settings: Config) -> Any:
        try:
            with open_quietly():
                return self._module.NativeDevice(raw_adapter, portable_overrides(settings), settings.in_flight)
        except self._module.NativeError as error:
            raise DeviceError(
                f"[webgpu] {self.adapter.describe()} cannot be opened: {error}\n"
                "  Hint: update its driver, choose another adapter (SHADERGRAD_ADAPTER, webgpu:N), or use cpu."
            ) from error

    def _pipeline_layout(self, access: tuple[str, ...]) -> tuple[Any, Any]:
        layouts = self._layouts.get(access)
        if layouts is None:
            group = self.native.create_bind_group_layout(access)
            layouts = self._layouts[access] = (group, self.native.create_pipeline_layout(group))
        return layouts

    def _encode(self, array: np.ndarray, dtype: DType) -> np.ndarray:
        """The bytes as shaders want them: booleans as u32, the whole a multiple of 4 bytes."""
        if dtype.wgsl is None:
            raise self.unsupported(dtype)
        data = np.ascontiguousarray(array, np.uint32 if dtype.name == "bool" else dtype.numpy)
        if dtype.name == "bool" and array.dtype != np.bool_:
            data = np.ascontiguousarray(array != 0, np.uint32)
        if data.nbytes % 4 == 0:
            return data
        padded = np.zeros(round_up(data.nbytes, 4), np.uint8)
        padded[: data.nbytes] = data.reshape(-1).view(np.uint8)
        return padded

    def _write(self, storage: Storage, data: np.ndarray) -> None:
        if data.nbytes:
            self.native.write(storage.handle.raw, data)

    def _create_buffer(self, nbytes: int) -> Any:
        """For the pool: None when the driver is out of memory."""
        try:
            return self.native.create_buffer(nbytes)
        except self._module.NativeError as error:
            if error.out_of_memory:
                return None
            raise

    def _discard(self, buffers: list[Buffer]) -> None:
        """For the pool: destroy buffers once nothing refers to them and nothing under way uses them."""
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
            "  Hint: start the process again and resume from the last checkpoint. If it happens again, look at the "
            "system log for driver resets: a kernel that runs too long, overheating, or too little memory."
        )


def explain_compile_error(kernel: Kernel, message: str) -> str:
    """Name the kernel, quote its line, and say what the shader compiler said."""
    text = f"[webgpu] kernel {kernel.name!r} does not compile"
    if kernel.origin:
        text += f" (it computes {kernel.origin})"
    match = re.search(r"┌─ (?:wgsl)?:(\d+):\d+", message)  # naga writes "wgsl:" when parsing, ":" when validating
    if match:
        lines = kernel.source.splitlines()
        number = int(match[1])
        if number <= len(lines):
            text += f", line {number}:\n    {lines[number - 1].strip()}"
    said = re.sub(r"^Validation Error\s+Caused by:\s+In \w+\s*", "", message).replace("Shader '' ", "").strip()
    return f"{text}\n{said}"


_opened: WeakSet[WebGPUDevice] = WeakSet()


def _finish_work() -> None:
    """At exit: a driver that is unloaded in the midst of work crashes."""
    for device in list(_opened):
        if device._failure is None and device.native.events.lost is None:
            with device.lock, suppress(device._module.NativeError):
                device.native.wait_all()
            device._lose("the interpreter is shutting down")


def _disown_after_fork() -> None:
    """In a forked child: the driver's threads were left behind, and any call would hang or crash."""
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
