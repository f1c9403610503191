"""What an adapter's description says of it."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from shadergrad.config import config
from shadergrad.runtime.adapters import _record
from shadergrad.runtime.interface import Found
from shadergrad.runtime.targets import target_of
from shadergrad.target import Target

LIMITS = (
    "max-storage-buffer-binding-size",
    "max-buffer-size",
    "max-storage-buffers-per-shader-stage",
    "max-bindings-per-bind-group",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-storage-size",
    "max-compute-workgroups-per-dimension",
)


@pytest.mark.parametrize(
    ("device", "features", "slow_loads"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", {"subgroups", "shader-int64"}, True),
        ("llvmpipe (LLVM 15.0.6, 512 bits)", {"subgroups", "shader-int64"}, True),
        ("llvmpipe (LLVM 15.0.6, 128 bits)", {"subgroups", "shader-int64"}, False),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", {"subgroups"}, False),
        ("Some GPU 256 bits", {"subgroups", "shader-int64"}, False),
    ],
)
def test_products_hand_round_only_where_eight_threads_are_one_subgroup(
    device: str, features: set[str], slow_loads: bool
) -> None:
    info = {
        "device": device,
        "description": "",
        "backend_type": "Vulkan",
        "adapter_type": "CPU",
        "vendor": "",
        "vendor_id": 0,
        "device_id": 0,
    }
    adapter = Found(info, dict.fromkeys(LIMITS, 1 << 20), frozenset(features))
    record = _record(adapter, 0, replace(config, portable=False), "wgpu")
    assert record.target.traits.unrolls
    assert record.target.traits.slow_loads == slow_loads


@pytest.mark.parametrize(
    ("kind", "is_phone", "row"),
    [("unknown", False, "desktop"), ("unknown", True, "portable"), ("CPU", False, "portable")],
)
def test_a_browser_on_a_desktop_gets_longer_kernels_than_a_phone_or_a_rasteriser(
    kind: str, is_phone: bool, row: str
) -> None:
    info = {
        "device": "Some GPU",
        "description": "",
        "adapter_type": kind,
        "backend_type": "WebGPU",
        "is_phone": is_phone,
    }
    limits: dict[str, int] = dict.fromkeys(LIMITS, 1 << 20)
    found = target_of(info, limits, {"shader-f16", "subgroups"}, replace(config, portable=False))
    assert found.traits.name == row
    assert found.subgroups == (0, 0)
    assert target_of(info, limits, set(), replace(config, portable=True)).traits.name == "portable"


@pytest.mark.parametrize("portable", [False, True])
def test_a_target_tells_what_the_adapter_offers_unless_it_is_for_any_browser(portable: bool) -> None:
    info = {"device": "Some GPU", "description": "", "adapter_type": "DiscreteGPU", "backend_type": "Vulkan"}
    sizes = {"stackgroup_min_size": 32, "stackgroup_max_size": 64}
    limits: dict[str, int] = dict.fromkeys(LIMITS, 1 << 20)
    settings = replace(config, portable=portable)
    with_both = target_of(info | sizes, limits, {"shader-f16", "subgroups"}, settings)
    with_none = target_of(info | sizes, limits, set(), settings)
    assert (with_both.f16, with_both.subgroups) == ((False, (0, 0)) if portable else (True, (32, 64)))
    assert (with_none.f16, with_none.subgroups) == (False, (0, 0))
    assert with_both.traits.name == ("portable" if portable else "discrete")
    assert Target.from_data(asdict(with_both)) == with_both
