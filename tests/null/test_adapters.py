"""What an adapter's description says of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from shadergrad.config import config
from shadergrad.runtime.adapters import _record

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
    ("device", "features", "dear_loads"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", {"subgroup", "shader-int64"}, True),
        ("llvmpipe (LLVM 15.0.6, 512 bits)", {"subgroup", "shader-int64"}, True),
        ("llvmpipe (LLVM 15.0.6, 128 bits)", {"subgroup", "shader-int64"}, False),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", {"subgroup"}, False),
        ("Some GPU 256 bits", {"subgroup", "shader-int64"}, False),
    ],
)
def test_products_hand_round_only_where_eight_threads_are_one_subgroup(
    device: str, features: set[str], dear_loads: bool
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
    adapter = SimpleNamespace(info=info, limits=dict.fromkeys(LIMITS, 1 << 20), features=features)
    record = _record(adapter, 0, replace(config, portable=False))
    assert record.target.traits.unrolls
    assert record.target.traits.dear_loads == dear_loads
