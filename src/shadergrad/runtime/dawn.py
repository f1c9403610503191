"""Dawn, Chrome's WebGPU, through the package wgpudawn. The only module that imports wgpudawn, which is installed in addition to wgpu.

It offers what wgpu-native lacks: matrix units (chromium-experimental-subgroup-matrix), and half precision on NVIDIA. It refuses
llvmpipe, which lacks dynamic indexing of textures. Import this module lazily: it fails if Dawn's library cannot be loaded.
Its additions to the header: https://dawn.googlesource.com/dawn/+/refs/heads/main/docs/
"""

from __future__ import annotations

import importlib
import mmap
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np

from ..target import Matrices
from .header import Header
from .interface import STORAGE_USAGE, Found, NativeError, Wish
from .native import NativeDevice

NAME = "dawn"
PACKAGE = "wgpudawn"
_gpu: Any = importlib.import_module(
    "wgpudawn.backends.dawn._api"
).gpu  # by name, as a type checker need not have the package
_ffi: Any = importlib.import_module("wgpudawn.backends.dawn._ffi")
_helpers: Any = importlib.import_module("wgpudawn.backends.dawn._helpers")
extras: Any = importlib.import_module("wgpudawn.backends.dawn.extras")
HEADER = Header(_ffi.ffi, _ffi.lib)
# Of the process's instance. The first permits experimental features; the others give half precision and matrix units on NVIDIA.
TOGGLES = ("allow_unsafe_apis", "vulkan_enable_f16_on_nvidia", "use_vulkan_memory_model")
# Of a device: kernels stay within bounds by construction, and times need nanoseconds.
UNCHECKED = ("disable_robustness",)
COARSE = ("timestamp_quantization",)
BACKENDS = ("Vulkan", "Metal", "D3D12", "D3D11")  # without Dawn's null backend
WAIT = 100_000_000  # nanoseconds between checks for Ctrl-C
MATRICES = "chromium-experimental-subgroup-matrix"
ADOPTION = "host-mapped-pointer"


def _instance() -> Any:
    with suppress(RuntimeError):  # other code has made it before, with its own toggles
        if _helpers._the_instance is None:
            extras.set_instance_extras(enable_toggles=TOGGLES)
    return _helpers.get_wgpu_instance()


def _adapters() -> list[Any]:
    """New wgpudawn objects for all adapters, because Dawn makes only one device from each. Its public list has only one of
    several equal GPUs.
    """
    _instance()
    return [a for a in _gpu._enumerate_all_adapters() if a.info["backend_type"] in BACKENDS]


def enumerate_adapters() -> list[Found]:
    """The adapters, in Dawn's order; `raw` is the position in it."""
    found = _adapters()
    return [Found(_info(a), a.limits, frozenset(a.features), _matrices(a), i) for i, a in enumerate(found)]


def _info(adapter: Any) -> dict[str, Any]:
    """The adapter's own properties. wgpudawn returns WebGPU's bounds for subgroup sizes, the adapter its own; kernels for
    matrix units use the sizes that the units report.
    """
    own = HEADER.ffi.new("WGPUAdapterInfo *")
    HEADER.lib.wgpuAdapterGetInfo(adapter._internal, own)
    least, most = own.subgroupMinSize, own.subgroupMaxSize
    HEADER.lib.wgpuAdapterInfoFreeMembers(own[0])
    if told := _configurations(adapter):
        least, most = min(c["min_subgroup_size"] for c in told), max(c["max_subgroup_size"] for c in told)
    return {**adapter.info, "stackgroup_min_size": least, "stackgroup_max_size": most}


def _configurations(adapter: Any) -> list[dict[str, Any]]:
    if MATRICES not in adapter.features:
        return []
    return extras.get_adapter_properties(adapter).get("subgroup_matrix_configs", [])


def _matrices(adapter: Any) -> tuple[Matrices, ...]:
    """The matrix shapes of its matrix units, as the adapter reports them."""
    told = _configurations(adapter)
    return tuple(
        Matrices(c["m"], c["n"], c["k"], str(c["component_type"]), str(c["result_component_type"])) for c in told
    )


def _on_pipeline(status: int, pipeline: Any, message: Any, userdata1: Any, _userdata2: Any) -> None:
    HEADER.ffi.from_handle(userdata1).append((status, pipeline, HEADER.text(message)))


ON_PIPELINE = HEADER.callback(
    "void(WGPUCreatePipelineAsyncStatus, WGPUComputePipeline, WGPUStringView, void *, void *)", _on_pipeline
)


class DawnDevice(NativeDevice):
    """A device of Dawn, which waits for futures, and compiles pipelines on its own threads."""

    header = HEADER

    def __init__(self, found: Found, wish: Wish) -> None:
        self._instance = _instance()
        self.adopts_memory = ADOPTION in found.features
        super().__init__(found, wish)
        self.adopts_memory = self.adopts_memory and self._page() <= mmap.PAGESIZE
        self._submitted_so_far = 0
        self._done: deque[tuple[int, int]] = deque()  # submissions under way, with the futures of their end
        self._one = self.ffi.new("WGPUFutureWaitInfo *")
        self._when_done = self.ffi.new("WGPUQueueWorkDoneCallbackInfo *")
        self._when_done.mode = self.lib.WGPUCallbackMode_AllowProcessEvents
        self._when_done.callback = ON_DONE

    def _request(self, found: Found, wish: Wish) -> Any:
        lib, there = self.lib, dict(enumerate(_adapters())).get(found.raw)
        if there is None or _info(there) != found.info:
            raise NativeError("it is there no more")
        wanted = [lib.WGPUFeatureName_ImplicitDeviceSynchronization]  # several threads compile
        if "timestamp-query" in found.features:
            wanted.append(lib.WGPUFeatureName_TimestampQuery)
        if self.adopts_memory:
            wanted.append(lib.WGPUFeatureName_HostMappedPointer)
        if wish.shares_loads or wish.uses_matrices:
            wanted.append(lib.WGPUFeatureName_Subgroups)
        if wish.uses_matrices:
            wanted += [lib.WGPUFeatureName_ShaderF16, lib.WGPUFeatureName_ChromiumExperimentalSubgroupMatrix]
        kept: list[Any] = []
        toggles = _helpers.new_toggles_struct(() if wish.checked else UNCHECKED, COARSE, kept)
        return self.header.request_device(there._internal, wish, wanted, self.events, toggles)

    def _page(self) -> int:
        """The alignment, in bytes, of the address and the size of a buffer in host memory."""
        told = self.ffi.new("WGPUDawnHostMappedPointerLimits *")
        told.chain.sType = self.lib.WGPUSType_DawnHostMappedPointerLimits
        limits = self.ffi.new("WGPULimits *")
        limits.nextInChain = self.ffi.cast("WGPUChainedStruct *", told)
        if self.lib.wgpuDeviceGetLimits(self.raw, limits) != self.lib.WGPUStatus_Success:
            raise NativeError("the device does not tell its limits")
        return told.hostMappedPointerAlignment

    def create_buffer_at(self, memory: np.ndarray) -> Any:
        pages = self.ffi.new("WGPUBufferHostMappedPointer *")
        pages.chain.sType = self.lib.WGPUSType_BufferHostMappedPointer
        pages.pointer = self.ffi.cast("void *", memory.ctypes.data)
        kept = self.ffi.new_handle(memory)
        pages.disposeCallback, pages.userdata = ON_DISPOSED, kept
        _adopted[_address(kept)] = kept, memory  # Dawn may use the memory until it calls ON_DISPOSED
        descriptor = self.ffi.new("WGPUBufferDescriptor *")
        descriptor.nextInChain = self.ffi.cast("WGPUChainedStruct *", pages)
        descriptor.size, descriptor.usage = memory.nbytes, STORAGE_USAGE
        raw = self.lib.wgpuDeviceCreateBuffer(self.raw, descriptor)
        return self._checked(raw, self.lib.wgpuBufferRelease)

    def _create_module(self, source: str) -> Any:
        descriptor, kept = self._module_descriptor(source)
        raw = self.lib.wgpuDeviceCreateShaderModule(self.raw, descriptor)
        del kept
        return self._checked(raw, self.lib.wgpuShaderModuleRelease)

    def _create_pipeline(self, descriptor: Any) -> Any:
        """Asynchronous, on a thread of Dawn's: a synchronous call would hold the device's lock for its whole duration."""
        answers: list[tuple[int, Any, str]] = []
        handle = self.ffi.new_handle(answers)
        request = self.ffi.new("WGPUCreateComputePipelineAsyncCallbackInfo *")
        request.mode = self.lib.WGPUCallbackMode_WaitAnyOnly
        request.callback, request.userdata1 = ON_PIPELINE, handle
        future = self.lib.wgpuDeviceCreateComputePipelineAsync(self.raw, descriptor, request[0])
        self._wait_any(future.id, self.ffi.new("WGPUFutureWaitInfo *"))
        status, pipeline, message = answers[0]
        if status != self.lib.WGPUCreatePipelineAsyncStatus_Success:
            raise NativeError(message)
        self.events.check()
        return pipeline

    def _submit_commands(self, count: int) -> int:
        self.lib.wgpuQueueSubmit(self.queue, count, self._commands if count else self.null)
        self._submitted_so_far += 1
        future = self.lib.wgpuQueueOnSubmittedWorkDone(self.queue, self._when_done[0])
        self._done.append((self._submitted_so_far, future.id))
        return self._submitted_so_far

    def _wait_for(self, index: int | None) -> None:
        if index is None:
            future = self.lib.wgpuQueueOnSubmittedWorkDone(self.queue, self._when_done[0])
            self._wait_any(future.id, self._one)
            self._done.clear()
        else:
            last = 0
            while self._done and self._done[0][0] <= index:
                last = self._done.popleft()[1]
            if last:
                self._wait_any(last, self._one)
        self._poll()

    def is_done(self, index: int) -> bool:
        last = max((future for submission, future in self._done if submission <= index), default=0)
        if not last:
            return True
        self._one.future.id, self._one.completed = last, False
        status = self.lib.wgpuInstanceWaitAny(self._instance, 1, self._one, 0)
        if status not in (self.lib.WGPUWaitStatus_Success, self.lib.WGPUWaitStatus_TimedOut):
            raise NativeError(f"waiting failed (status {status})")
        if not self._one.completed:
            return False
        while self._done and self._done[0][0] <= index:
            self._done.popleft()
        while self._in_flight and self._in_flight[0] <= index:
            self._in_flight.popleft()
        return True

    def _wait_any(self, future: int, wait: Any) -> None:
        wait.future.id, wait.completed = future, False
        while not wait.completed:
            status = self.lib.wgpuInstanceWaitAny(self._instance, 1, wait, WAIT)
            if status not in (self.lib.WGPUWaitStatus_Success, self.lib.WGPUWaitStatus_TimedOut):
                raise NativeError(f"waiting failed (status {status})")

    def _poll(self) -> None:
        self.lib.wgpuInstanceProcessEvents(self._instance)

    def _period(self) -> float:
        return 1e-9


def _on_disposed(userdata: Any) -> None:
    _adopted.pop(_address(userdata), None)


def _address(pointer: Any) -> int:
    return int(HEADER.ffi.cast("uintptr_t", pointer))


_adopted: dict[int, Any] = {}  # host memory behind buffers, with its handle, by the handle's address
ON_DISPOSED = HEADER.callback("void(void *)", _on_disposed)


def _on_done(_status: int, _message: Any, _userdata1: Any, _userdata2: Any) -> None:
    pass


ON_DONE = HEADER.callback("void(WGPUQueueWorkDoneStatus, WGPUStringView, void *, void *)", _on_done)
open_device = DawnDevice
