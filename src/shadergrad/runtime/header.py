"""webgpu.h of one library, loaded by cffi: its strings, callbacks, limits and devices, and owning handles of its objects.

In: `ffi` and `lib` of wgpu-native or of Dawn. Out: raw devices, and handles that release their object when they are unreachable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from .interface import Events, NativeError, Wish


class Header:
    """webgpu.h of one library: cffi's `ffi` and `lib`, its strings and its callbacks."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        self.ffi, self.lib = ffi, lib
        self._callbacks: list[Any] = []  # as long as the process: the library may call them for as long as it is loaded
        self.bindings = {
            "read": lib.WGPUBufferBindingType_ReadOnlyStorage,
            "read_write": lib.WGPUBufferBindingType_Storage,
            "uniform": lib.WGPUBufferBindingType_Uniform,
        }

        def on_mapped(status: int, _message: Any, userdata1: Any, _userdata2: Any) -> None:
            ffi.cast("int *", userdata1)[0] = status

        self.on_mapped = self.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", on_mapped)

    def callback(self, signature: str, function: Any) -> Any:
        """A C function that calls `function`."""
        self._callbacks.append(self.ffi.callback(signature, function))
        return self._callbacks[-1]

    def text(self, view: Any) -> str:
        """The text of a WGPUStringView."""
        if view.data == self.ffi.NULL:
            return ""
        whole = view.length == self.lib.WGPU_STRLEN
        data = self.ffi.string(view.data) if whole else self.ffi.string(view.data, view.length)
        return "\n".join(line.rstrip() for line in data.decode(errors="replace").splitlines()).strip()

    def string_view(self, view: Any, text: str) -> Any:
        """Fill a WGPUStringView; returns the bytes, which the caller must keep until the call has returned."""
        data = text.encode()
        chars = self.ffi.new("char[]", data)
        view.data, view.length = chars, len(data)
        return chars

    def limits(self, adapter: Any, wish: Wish) -> Any:
        """An adapter's limits as a WGPULimits, some of them lowered."""
        limits = self.ffi.new("WGPULimits *")
        if self.lib.wgpuAdapterGetLimits(adapter, limits) != self.lib.WGPUStatus_Success:
            raise NativeError("the adapter does not tell its limits")
        for name, value in wish.limits.items():
            setattr(limits, name, min(value, getattr(limits, name)))
        limits.nextInChain = self.ffi.NULL
        return limits

    def request_device(self, adapter: Any, wish: Wish, wanted: Sequence[int], events: Events, chain: Any = None) -> Any:
        """A device with these features. chain: the chained struct after its descriptor."""
        ffi, lib = self.ffi, self.lib

        def on_lost(_device: Any, _reason: int, message: Any, _userdata1: Any, _userdata2: Any) -> None:
            events.lost = events.lost or self.text(message).rstrip(".") or "no reason was given"

        def on_error(_device: Any, kind: int, message: Any, _userdata1: Any, _userdata2: Any) -> None:
            text = self.text(message)
            exhausted = "not enough memory" in text.lower() or "out of memory" in text.lower()
            events.errors.append((text, exhausted or kind == lib.WGPUErrorType_OutOfMemory))

        answers: list[tuple[int, Any, str]] = []

        def on_device(status: int, device: Any, message: Any, _userdata1: Any, _userdata2: Any) -> None:
            answers.append((status, device, self.text(message)))

        descriptor = ffi.new("WGPUDeviceDescriptor *")
        features, limits = ffi.new("WGPUFeatureName[]", list(wanted)), self.limits(adapter, wish)
        descriptor.requiredFeatureCount, descriptor.requiredFeatures = len(wanted), features
        descriptor.requiredLimits = limits
        if chain is not None:
            descriptor.nextInChain = chain
        descriptor.deviceLostCallbackInfo.mode = lib.WGPUCallbackMode_AllowSpontaneous
        descriptor.deviceLostCallbackInfo.callback = self.callback(
            "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)", on_lost
        )
        descriptor.uncapturedErrorCallbackInfo.callback = self.callback(
            "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)", on_error
        )
        request = ffi.new("WGPURequestDeviceCallbackInfo *")
        request.mode = lib.WGPUCallbackMode_AllowSpontaneous
        request.callback = self.callback(
            "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)", on_device
        )
        lib.wgpuAdapterRequestDevice(adapter, descriptor, request[0])  # answers within the call
        if not answers or answers[0][0] != lib.WGPURequestDeviceStatus_Success:
            raise NativeError(answers[0][2] if answers else "no answer")
        return answers[0][1]


class Handle:
    """A raw object that is released once it is unreachable: it is put in `graveyard`, which the device empties.

    It is not released immediately, because objects die on any thread, during other calls, and after the library was unloaded.
    """

    __slots__ = ("__weakref__", "_graveyard", "_release", "raw")

    def __init__(self, raw: Any, release: Any, graveyard: deque[tuple[Any, Any]]) -> None:
        self.raw = raw
        self._release = release
        self._graveyard = graveyard

    def __del__(self) -> None:
        self._graveyard.append((self._release, self.raw))
