"""The output of `shadergrad info`. In: the devices of this machine. Out: text for people, or JSON."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..config import ConfigError, config, has_llvmlite
from ..errors import DeviceError
from ..runtime import llvm
from ..runtime.adapters import NO_ADAPTER, AdapterInfo, adapters, adapters_by, auto_device_reason
from ..runtime.device import get_device
from ..runtime.implementations import COMMANDS, PACKAGES, is_installed
from ..version import __version__

FEATURES = {"f16": "half precision", "subgroups": "subgroups", "timestamps": "timestamps"}
# Limits of drawing, which this library does not do
DRAWING = ("texture", "vertex", "sampler", "sampled", "color", "inter-stage", "multiview", "uniform")


def print_info(console: Console, *, verbose: bool = False) -> None:
    """The verdict, versions, the cpu device and each adapter; verbose: with profile, limits and features."""
    found, problem = _find()
    console.print(Text(_verdict(found, problem), style="bold"), soft_wrap=True)
    packages = ", ".join(f"{name} {number}" for name, number in _packages().items())
    console.out(f"{packages}, Python {platform.python_version()}, {platform.platform()}", highlight=False)
    _section(console, "cpu", get_device("cpu").describe(), {})
    if llvm.installed() is None:
        console.out('  Compiled kernels for it, on all cores: pip install "shadergrad[cpu]"', highlight=False)
    elif not has_llvmlite():
        console.out(
            '  Compiled kernels for it need a newer llvmlite: pip install --upgrade "shadergrad[cpu]"', highlight=False
        )
    elif not config.native_cpu:
        console.out("  Compiled kernels for it, on all cores: unset SHADERGRAD_CPU", highlight=False)
    if problem:
        console.out(f"\n{problem}", highlight=False)
    for adapter in found:
        _section(console, *_headline(adapter), _facts(adapter) if verbose else {})
    _implementations(console, verbose)
    if problem:
        return
    console.out(f"\n--device auto: {auto_device_reason()}", highlight=False)
    if not verbose:
        console.out("Limits and features of each: shadergrad info --verbose. For programs: --json.", highlight=False)


def print_json(console: Console) -> None:
    """All information as one JSON object."""
    found, problem = _find()
    document: dict[str, Any] = {
        "verdict": _verdict(found, problem),
        "problem": problem,
        "versions": _packages() | {"python": platform.python_version()},
        "platform": platform.platform(),
        "cpu": get_device("cpu").describe(),
        "adapters": [
            {
                "device": _headline(adapter)[0] if adapter.index >= 0 else None,
                "name": adapter.name,
                "implementation": adapter.implementation,
                "backend": adapter.backend,
                "kind": adapter.kind,
                "driver": adapter.driver,
                "profile": adapter.profile,
                "limits": dict(adapter.limits),
                "features": list(adapter.features),
            }
            for adapter in found
        ],
        "implementations": {name: _implementation(name) for name in PACKAGES},
    }
    console.out(json.dumps(document, indent=2), highlight=False)


def _find() -> tuple[list[AdapterInfo], str | None]:
    """The adapters; or, if there are none, the reason."""
    try:
        found = list(adapters(all_backends=True))
    except DeviceError as error:
        return [], f"no webgpu device: {error}"
    return found, None if found else NO_ADAPTER


def _verdict(found: list[AdapterInfo], problem: str | None) -> str:
    """One sentence on the device that this machine offers."""
    usable = [adapter for adapter in found if adapter.index >= 0]
    hardware = [adapter for adapter in usable if adapter.type == "hardware"]
    if hardware:
        return f"Ready: trainings run on {hardware[0].name} ({hardware[0].backend})."
    if problem or not usable:
        return "No GPU was found: trainings run on the cpu device."
    return f"No GPU was found, only software ({usable[0].name}): trainings run on the cpu device."


def _packages() -> dict[str, str]:
    return {"shadergrad": __version__} | {name: version(name) for name in ("wgpu", "numpy")}


def _implementation(name: str) -> dict[str, Any]:
    """An implementation of WebGPU: its version, and what the adapters offer by it; or the remedy where it is not installed or fails."""
    if not is_installed(name):
        return {"version": None, "problem": f"not installed: {COMMANDS[name]}", "adapters": []}
    try:
        found = adapters_by(name)
    except (DeviceError, ConfigError) as error:
        return {"version": version(PACKAGES[name]), "problem": str(error), "adapters": []}
    offers = [
        {
            "name": adapter.name,
            "backend": adapter.backend,
            "f16": "shader-f16" in adapter.features,
            "subgroups": "subgroups" in adapter.features,
            "timestamps": "timestamp-query" in adapter.features,
            "matrices": [f"{m.operand} {m.m}x{m.n}x{m.k} to {m.result}" for m in adapter.matrices],
        }
        for adapter in found
    ]
    return {"version": version(PACKAGES[name]), "problem": None, "adapters": offers}


def _implementations(console: Console, verbose: bool) -> None:
    """What each implementation of WebGPU offers, of every adapter."""
    console.print(Text("\nimplementations of WebGPU (SHADERGRAD_WEBGPU)", style="bold"))
    for name, package in PACKAGES.items():
        told = _implementation(name)
        console.out(f"  {name}  {package} {told['version'] or ''}".rstrip(), highlight=False)
        if told["problem"]:
            console.out(f"    {told['problem']}", highlight=False)
        elif not told["adapters"]:
            console.out("    no adapter that it opens", highlight=False)
        for offer in told["adapters"]:
            features = [words for key, words in FEATURES.items() if offer[key]]
            matrices = offer["matrices"]
            units = (
                f"matrix units: {', '.join(matrices) if verbose else len(matrices)}" if matrices else "no matrix units"
            )
            console.out(f"    {offer['name']} ({offer['backend']}): {', '.join([*features, units])}", highlight=False)


def _headline(adapter: AdapterInfo) -> tuple[str, str]:
    if adapter.index < 0:
        return "not used", f"{adapter.describe()}: a better backend shows this GPU too"
    return "webgpu" if adapter.index == 0 else f"webgpu:{adapter.index}", adapter.describe()


def _facts(adapter: AdapterInfo) -> dict[str, str]:
    target = adapter.target
    kernels = (
        f"up to {target.max_storage_buffers} storage buffers of {_bytes(target.max_binding_bytes)}, workgroups of "
        f"{target.max_workgroup_invocations} with {_bytes(target.max_workgroup_storage)} of shared memory"
    )
    compute = {name: value for name, value in adapter.limits.items() if not any(word in name for word in DRAWING)}
    return {
        "backend": f"{adapter.backend}, {adapter.kind}, driver {adapter.driver or 'unnamed'}",
        "profile": f"{adapter.profile}: kernels with {kernels}",
        "limits": ", ".join(f"{name} {_limit(name, value)}" for name, value in sorted(compute.items())),
        "features": ", ".join(adapter.features) or "none",
    }


def _section(console: Console, name: str, description: str, facts: dict[str, str]) -> None:
    console.print(Text.assemble("\n", (name, "bold"), f"  {description}"))
    table = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        table.add_row(Text(key, style="dim"), Text(value))
    if facts:
        console.print(Padding(table, (0, 0, 0, 2)))


def _limit(name: str, value: int) -> str:
    is_bytes = name.endswith(("buffer-size", "storage-size", "binding-size", "immediate-size"))
    return _bytes(value) if is_bytes else str(value)


def _bytes(count: int) -> str:
    """4096 → 4 KiB; other sizes with one decimal."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count // size} {unit}" if count % size == 0 else f"{count / size:.1f} {unit}"
    return f"{count} B"
