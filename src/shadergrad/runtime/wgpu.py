"""wgpu-native, the WebGPU of Firefox, through wgpu-py (PyPI: wgpu). The only module that imports wgpu.

Import it lazily: it fails if wgpu's library cannot be loaded. Its additions to the header: https://github.com/gfx-rs/wgpu-native
"""

from __future__ import annotations

from typing import Any

import wgpu
from wgpu.backends.wgpu_native import _ffi

from .header import Header
from .interface import Found, Wish
from .native import NativeDevice

NAME = "wgpu"
PACKAGE = "wgpu"
HEADER = Header(_ffi.ffi, _ffi.lib)
FEATURES = {"subgroup": "subgroups"}  # WebGPU's names of features that wgpu-py names differently


def enumerate_adapters() -> list[Found]:
    """The adapters, in wgpu-py's order."""
    return [
        Found(a.info, a.limits, frozenset(FEATURES.get(f, f) for f in map(str, a.features)), raw=a)
        for a in wgpu.gpu.enumerate_adapters_sync()
    ]


class WgpuDevice(NativeDevice):
    """A device of wgpu-native, which waits for a submission by its index and compiles shaders without bounds checks."""

    header = HEADER

    def __init__(self, found: Found, wish: Wish) -> None:
        super().__init__(found, wish)
        self._index = self.ffi.new("WGPUSubmissionIndex *")

    def _request(self, found: Found, wish: Wish) -> Any:
        lib = self.lib
        wanted = [lib.WGPUNativeFeature_Subgroup, lib.WGPUNativeFeature_ShaderInt64] if wish.shares_loads else []
        if "timestamp-query" in found.features:  # changes no kernel, so the portable profile asks for it too
            wanted.append(lib.WGPUFeatureName_TimestampQuery)
        return self.header.request_device(found.raw._internal, wish, wanted, self.events)

    def _create_module(self, source: str) -> Any:
        lib, (descriptor, kept) = self.lib, self._module_descriptor(source)
        if self.checked:
            raw = lib.wgpuDeviceCreateShaderModule(self.raw, descriptor)
        else:
            raw = lib.wgpuDeviceCreateShaderModuleTrusted(self.raw, descriptor, lib.WGPUShaderRuntimeChecks_None)
        del kept
        return self._checked(raw, lib.wgpuShaderModuleRelease)

    def _submit_commands(self, count: int) -> int:
        return self.lib.wgpuQueueSubmitForIndex(self.queue, count, self._commands if count else self.null)

    def _wait_for(self, index: int | None) -> None:
        if index is None:
            self.lib.wgpuDevicePoll(self.raw, True, self.null)
        else:
            self._index[0] = index
            self.lib.wgpuDevicePoll(self.raw, True, self._index)

    def _poll(self) -> None:
        self.lib.wgpuDevicePoll(self.raw, False, self.null)

    def _period(self) -> float:
        return self.lib.wgpuQueueGetTimestampPeriod(self.queue) * 1e-9


open_device = WgpuDevice
