"""The implementations of WebGPU beside each other: which one a process takes, what each is told, and that both take every kernel.

What needs Dawn is skipped where `pip install "shadergrad[dawn]"` or an adapter that it opens is missing, and the last lines say so. The
whole of tests/device runs on Dawn under SHADERGRAD_WEBGPU=dawn; without a GPU, VK_DRIVER_FILES may name Chromium's vk_swiftshader_icd.json.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from golden_programs import programs
from shadergrad.config import Config, config
from shadergrad.dtypes import float32
from shadergrad.errors import DeviceError
from shadergrad.plan import Kernel
from shadergrad.runtime import adapters, implementations
from shadergrad.runtime.compiling import explain_compile_error
from shadergrad.runtime.implementations import candidates, found_by, implementation
from shadergrad.runtime.interface import Device, Found, NativeError, Wish
from shadergrad.runtime.webgpu import WebGPUDevice
from shadergrad.target import Matrices

NO_DAWN = "no Dawn"
UNIT = Matrices(16, 16, 16, "f16", "f32")
LIMITS = {
    "max-storage-buffer-binding-size": 1 << 30,
    "max-buffer-size": 1 << 30,
    "max-storage-buffers-per-shader-stage": 8,
    "max-bindings-per-bind-group": 1000,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-storage-size": 16384,
    "max-compute-workgroups-per-dimension": 65535,
}


def require(name: str, webgpu: str) -> Found:
    """The first adapter of an implementation; skips the test where there is none."""
    if not implementations.is_installed(name):
        pytest.skip(f"{NO_DAWN}: wgpudawn is not installed")
    found = found_by(name)
    if not found:
        pytest.skip(f"{NO_DAWN}: it opens no adapter here")
    return found[0]


@pytest.fixture(params=["wgpu", "dawn"])
def settings(request: pytest.FixtureRequest, webgpu: str) -> Config:
    """The configuration that takes an implementation."""
    require(request.param, webgpu)
    return replace(config, webgpu=request.param, adapter=None)


@pytest.fixture
def native(settings: Config) -> Device:
    """A device of an implementation, unchecked as in use."""
    _, found = adapters.choose_adapter(0, settings)
    return implementation(settings.webgpu).open_device(found, Wish({}, 16))


@pytest.fixture(scope="module")
def golden() -> list[str]:
    """The texts of all golden kernels, but those of float64, which no device with shaders takes."""
    kernels = {text for _, texts in programs() for text in texts if "@compute" in text and "<None>" not in text}
    assert len(kernels) > 2000
    return sorted(kernels)


@pytest.mark.slow
def test_every_golden_kernel_compiles(native: Any, golden: list[str]) -> None:
    for text in golden:
        native.lib.wgpuShaderModuleRelease(native._create_module(text))


FLOATS = [0x7F7FFFFF, 0x7F7FFFFE, 0x7F000000, 0x00800000, 0, 0x3EAAAAAB, 0x4B7FFFFF, 0x7F800000, 0x7FC00000]


def test_special_floats_are_the_same_bits(settings: Config) -> None:
    """Written into kernels, not uploaded."""
    from shadergrad.compile.wgsl.functions import functions_text, literal

    device = WebGPUDevice(0, settings)
    bits = [b | sign for b in FLOATS for sign in (0, 1 << 31)]
    used: set[str] = set()
    stores = [
        f"out[{i}] = {literal(float(x), float32, used)};"
        for i, x in enumerate(np.array(bits, np.uint32).view(np.float32))
    ]
    source = (
        f"{functions_text(used)}@group(0) @binding(0) var<storage, read_write> out: array<f32>;\n"
        f"@compute @workgroup_size(1) fn main() {{\n{chr(10).join(stores)}\n}}"
    )
    found = bits_written(device, source, len(bits))
    size = found & 0x7FFFFFFF
    assert (size[-2:] > 0x7F800000).all()  # NaN, whose sign says nothing
    np.testing.assert_array_equal(found[:-2], bits[:-2])
    device.destroy()


def bits_written(device: WebGPUDevice, source: str, count: int) -> np.ndarray:
    native = device.native
    out = native.create_buffer(4 * count)
    layout = native.create_bind_group_layout(["read_write"])
    pipeline = native.create_pipeline(source, native.create_pipeline_layout(layout))
    group = native.create_bind_group(layout, [(out, 0, 4 * count)])
    native.run((), [(pipeline.raw, group.raw, 1, 1, 1)])
    found = np.empty(count, np.uint32)
    device._readback.read([(out, found.view(np.uint8))])
    native.destroy_buffer(out)
    return found


def test_a_kernel_that_is_refused_is_told_with_its_line(native: Device) -> None:
    layout = native.create_pipeline_layout(native.create_bind_group_layout([]))
    kernel = Kernel("wrong", "map", (), "@compute @workgroup_size(1)\nfn main() {\n  foo();\n}")
    with pytest.raises(NativeError) as error:
        native.create_pipeline(kernel.source, layout)
    said = explain_compile_error(kernel, str(error.value))
    assert "line 3:\n    foo();" in said
    assert "While" not in said


def test_times_are_those_of_the_devices_clock(native: Device) -> None:
    if not native.has_timestamps:
        pytest.skip("this adapter has no clock")
    layout = native.create_bind_group_layout([])
    source = "@compute @workgroup_size(1) fn main() {}"
    pipeline = native.create_pipeline(source, native.create_pipeline_layout(layout))
    group = native.create_bind_group(layout, [])
    times = native.run_timed((), [(pipeline.raw, group.raw, 1, 1, 1)] * 5)
    assert len(times) == 5
    assert all(0 <= start <= end < 60 for start, end in times), times
    assert [start for start, _ in times] == sorted(start for start, _ in times)


def test_a_device_is_opened_as_often_as_one_likes(settings: Config) -> None:
    for checked in (False, True, False):
        device = WebGPUDevice(0, replace(settings, checked=checked))
        assert device.adapter.implementation == settings.webgpu
        assert device.download(device.upload(np.ones(3), float32), (3,), float32).tolist() == [1, 1, 1]
        device.destroy()


# ---------------------------------------------------------------------------------------------- the choice


def machine(monkeypatch: pytest.MonkeyPatch, **found: list[Found] | Exception) -> Config:
    """A machine where the implementations find this, or fail."""

    def by(name: str) -> list[Found]:
        result = found[name]
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(adapters, "found_by", by)
    monkeypatch.setattr(implementations, "is_installed", lambda name: name in found)
    return replace(config, webgpu="auto", adapter=None, portable=False)


def gpu(name: str = "Some GPU", device_id: int = 1, *matrices: Matrices) -> Found:
    info = {"device": name, "description": "", "vendor": "", "vendor_id": 7, "device_id": device_id}
    info |= {"backend_type": "Vulkan", "adapter_type": "DiscreteGPU"}
    return Found(info, LIMITS, frozenset({"subgroups"}), matrices)


def test_auto_takes_dawn_where_it_offers_matrix_units_that_wgpu_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(**found: list[Found] | Exception) -> str:
        return adapters.adapters(settings=machine(monkeypatch, **found))[0].implementation

    assert taken(wgpu=[gpu()]) == "wgpu"
    assert taken(wgpu=[gpu()], dawn=[gpu()]) == "wgpu"
    assert taken(wgpu=[gpu()], dawn=[gpu("Some GPU", 1, UNIT)]) == "dawn"
    assert taken(wgpu=[gpu("Some GPU", 1, UNIT)], dawn=[gpu("Some GPU", 1, UNIT)]) == "wgpu"
    assert taken(wgpu=[gpu("Another", 2)], dawn=[gpu("Some GPU", 1, UNIT)]) == "wgpu", "of the GPU that wgpu takes"
    assert taken(wgpu=[gpu()], dawn=[]) == "wgpu"
    assert taken(wgpu=DeviceError("no wgpu"), dawn=[gpu()]) == "dawn"
    assert taken(wgpu=[gpu()], dawn=DeviceError("no Dawn")) == "wgpu"


def test_the_portable_profile_and_a_wished_adapter_go_before(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = machine(monkeypatch, wgpu=[gpu(), gpu("llvmpipe", 3)], dawn=[gpu("Some GPU", 1, UNIT)])
    assert adapters.adapters(settings=settings)[0].target.matrices == (UNIT,)
    assert adapters.adapters(settings=replace(settings, portable=True))[0].implementation == "wgpu"
    assert adapters.adapters(settings=replace(settings, adapter="llvmpipe"))[0].name == "llvmpipe"


def test_a_named_implementation_is_the_only_one_that_is_looked_at() -> None:
    for name in ("wgpu", "dawn"):
        assert candidates(replace(config, webgpu=name)) == (name,)


def test_without_dawn_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str, _: Any) -> Any:
        raise ModuleNotFoundError(f"No module named {name}")

    monkeypatch.setattr(implementations.importlib, "import_module", gone)
    with pytest.raises(
        DeviceError, match=r"wgpudawn cannot be loaded(.|\n)*" + re.escape('pip install "shadergrad[dawn]"')
    ):
        implementation("dawn")
