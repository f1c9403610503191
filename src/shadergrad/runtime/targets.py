"""Makes a Target from an adapter. Only this module knows names of adapters and drivers.

In: an adapter's names, limits and features, and the configuration. Out: a Target, whose traits are a row of `target.ROWS`, with the
table of tiles measured on such an adapter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..compile.tiles import SHARED_BY
from ..compile.tuning import digest_for
from ..config import Config
from ..target import ROWS, Matrices, Target

# WebGPU's default limits, those that compute shaders meet. https://www.w3.org/TR/webgpu/#limits
PORTABLE_LIMITS = {
    "maxBindGroups": 4,
    "maxBindingsPerBindGroup": 1000,
    "maxStorageBuffersPerShaderStage": 8,
    "maxStorageBufferBindingSize": 128 << 20,
    "maxBufferSize": 256 << 20,
    "maxComputeWorkgroupStorageSize": 16384,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
    "maxComputeWorkgroupsPerDimension": 65535,
}
# Adapters may report millions; kernels gain nothing beyond these, and tuning tables stay comparable.
MOST_STORAGE_BUFFERS = 64
SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "softpipe", "swiftshader", "basic render", "warp")
MOST_INVOCATIONS = 1024


def target_of(
    info: Mapping[str, Any],
    limits: Mapping[str, int],
    features: Iterable[str],
    settings: Config,
    matrices: tuple[Matrices, ...] = (),
) -> Target:
    """The Target of an adapter. info: a mapping with the keys "device", "description" (the driver), "adapter_type", and the sizes of
    subgroups. matrices: the matrix shapes of its matrix units.
    """
    row = row_of(info, features, settings)
    target = target_with(limits, settings, row)
    if row == "portable":
        return target.having(limits_iterations="llvmpipe" in info["device"].lower())
    name = info["device"] or info["description"] or "unnamed adapter"
    return replace(
        target,
        measured=digest_for(name, info["description"], target.traits.table),
        f16="shader-f16" in {*features},
        subgroups=_subgroups(info, features),
        matrices=matrices,
    )


def row_of(info: Mapping[str, Any], features: Iterable[str], settings: Config) -> str:
    """The name of the row of `target.ROWS` that describes an adapter."""
    if settings.portable:
        return "portable"
    if info["backend_type"] == "WebGPU":  # a browser's, which compiles each text again: too long on a phone's processor
        return "portable" if info["adapter_type"] == "CPU" or info["is_phone"] else "desktop"
    if "llvmpipe" in info["device"].lower():
        shares = {"subgroups", "shader-int64"} <= {*features}
        return "software" if shares and _lanes(info["device"]) >= SHARED_BY else "narrow software"
    return "discrete" if info["adapter_type"] == "DiscreteGPU" else "native"


def _subgroups(info: Mapping[str, Any], features: Iterable[str]) -> tuple[int, int]:
    """The smallest and the largest subgroup size; (0, 0) if the adapter has none."""
    if "subgroups" not in {*features}:
        return 0, 0
    # the misspelt names of wgpu-py 0.32
    return info.get("stackgroup_min_size", 0), info.get("stackgroup_max_size", 0)


def _lanes(device: str) -> int:
    """The lanes of llvmpipe's vectors, from the adapter's name; 0 for other adapters."""
    found = re.match(r"llvmpipe .*?(\d+) bits", device)
    return int(found[1]) // 32 if found else 0


def target_with(limits: Mapping[str, int], settings: Config, row: str) -> Target:
    """A target with these limits (by wgpu-py's names, such as 'max-buffer-size') and the traits of a row."""

    def limit(name: str) -> int:
        value = limits[name]
        return min(value, PORTABLE_LIMITS[_camel(name)]) if settings.portable else value

    binding = min(limit("max-storage-buffer-binding-size"), limit("max-buffer-size"))
    return Target(
        language="wgsl",
        max_storage_buffers=min(
            limit("max-storage-buffers-per-shader-stage"),
            limit("max-bindings-per-bind-group"),
            MOST_STORAGE_BUFFERS,
        ),
        max_workgroup_invocations=min(
            limit("max-compute-invocations-per-workgroup"),
            limit("max-compute-workgroup-size-x"),
            MOST_INVOCATIONS,
        ),
        max_workgroup_storage=limit("max-compute-workgroup-storage-size"),
        max_workgroups=limit("max-compute-workgroups-per-dimension"),
        max_binding_bytes=binding // 16 * 16,
        checked=settings.checked,
        traits=ROWS[row],
    )


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)
