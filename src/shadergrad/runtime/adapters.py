"""The available GPUs, the choice among them, and their features. In: the configuration. Out: plain records.

An adapter is a GPU (or a software rasteriser) as one backend exposes it. `adapters()` lists those that the webgpu device
can open, the best first, so that `webgpu:N` is the N-th. Nothing here opens a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import Config, ConfigError, config
from ..errors import DeviceError
from ..system.browser import IN_BROWSER
from ..target import Matrices, Target
from .implementations import candidates, forget_adapters, found_by
from .interface import Found
from .targets import PORTABLE_LIMITS, SOFTWARE_NAMES, target_of

# Worse backends see a GPU again that a better one already shows.
BACKEND_ORDER = ("Vulkan", "Metal", "D3D12", "D3D11", "OpenGL", "OpenGLES")
KIND_ORDER = ("DiscreteGPU", "IntegratedGPU", "unknown", "CPU")

NO_ADAPTER = (
    "[webgpu] no adapter found: this machine shows no GPU to Vulkan, Metal or Direct3D 12, and no software stand-in.\n"
    "  Hint: install a Vulkan driver. Debian or Ubuntu: `apt install mesa-vulkan-drivers libvulkan1` (AMD, Intel, and "
    "llvmpipe for no GPU at all). NVIDIA: the NVIDIA driver and libvulkan1; in a container also "
    "NVIDIA_DRIVER_CAPABILITIES=all. Or use the cpu device."
)
NO_ADAPTER_IN_PAGE = (
    "[webgpu] no adapter found: this browser shows no GPU to the page's WebGPU.\n"
    "  Hint: take a browser with WebGPU (Chrome and Edge from 113, Safari from 26, Firefox from 141), open the page through https or "
    "localhost, and turn hardware acceleration on; or use the cpu device."
)


@dataclass(frozen=True)
class AdapterInfo:
    """One adapter, as plain data.

    index: N of "webgpu:N"; -1 for a duplicate that cannot be opened by number. type: "hardware" or "software". kind:
    WebGPU's word for it. profile: "portable" or "full". limits: by names such as max-buffer-size. implementation: "wgpu", "dawn" or "page".

    >>> {adapter.type for adapter in sg.devices.adapters()} <= {"hardware", "software"}
    True
    """

    index: int  # N of "webgpu:N"; -1 for a duplicate that cannot be opened by number
    name: str
    backend: str  # Vulkan, Metal, D3D12, OpenGL, ...
    type: str  # "hardware" or "software"
    kind: str  # WebGPU's word: DiscreteGPU, IntegratedGPU, CPU, unknown
    vendor: str
    driver: str
    vendor_id: int
    device_id: int
    profile: str  # "portable" or "full"
    target: Target
    limits: dict[str, int] = field(repr=False)
    features: tuple[str, ...] = field(repr=False)
    implementation: str = "wgpu"
    matrices: tuple[Matrices, ...] = field(default=(), repr=False)

    @property
    def compiles_at_dispatch(self) -> bool:
        """Whether the driver compiles a kernel at its first dispatch instead of at pipeline creation, and caches it on disk."""
        return self.name.startswith("llvmpipe") and self.backend == "Vulkan"

    def describe(self) -> str:
        """Name, backend and type in a line."""
        through = " through Dawn" if self.implementation == "dawn" else ""
        return f"{self.name} ({self.backend}{through}, {self.type})"


def adapters(all_backends: bool = False, settings: Config = config) -> list[AdapterInfo]:
    """The adapters, the preferred first; with `all_backends` also those that are the same GPU on a worse backend.

    Raises DeviceError if the implementation cannot be loaded, and ConfigError if SHADERGRAD_ADAPTER matches none of them.
    """
    name, ordered = _ordered(settings)
    found = [info for info, _ in ordered]
    if not all_backends:
        return found
    opened = {(info.name, info.backend) for info in found}
    extra = [_record(a, -1, settings, name) for a in found_by(name)]
    return found + [info for info in extra if (info.name, info.backend) not in opened]


def adapters_by(name: str, settings: Config = config) -> list[AdapterInfo]:
    """The adapters that one implementation finds, "wgpu" or "dawn", regardless of the chosen one; they have no numbers."""
    return [_record(a, -1, settings, name) for a in found_by(name)]


def choose_adapter(index: int, settings: Config) -> tuple[AdapterInfo, Found]:
    """The N-th adapter, and the implementation that opens it. Raises DeviceError, or ConfigError, which lists the available ones."""
    _, ordered = _ordered(settings)
    if not ordered:
        raise DeviceError(NO_ADAPTER_IN_PAGE if IN_BROWSER else NO_ADAPTER)
    if index >= len(ordered):
        known = "".join(f"\n  webgpu:{info.index}  {info.describe()}" for info, _ in ordered)
        raise DeviceError(f"[webgpu] there is no adapter {index}. Known:{known}")
    return ordered[index]


def find_again(info: AdapterInfo, index: int, settings: Config) -> tuple[AdapterInfo, Found]:
    """The adapter of `info`, enumerated again. Raises DeviceError if it is missing or replaced by another."""
    forget_adapters()
    found, raw = choose_adapter(index, settings)
    if (found.describe(), found.vendor_id, found.device_id, found.target) != (
        info.describe(),
        info.vendor_id,
        info.device_id,
        info.target,
    ):
        raise DeviceError(
            f"[webgpu] {info.describe()} is there no more; in its place is {found.describe()}.\n"
            "  Hint: start the process again; it will take what there is then."
        )
    return found, raw


def hardware_adapter_available() -> bool:
    """Whether a real GPU can be opened. Raises ConfigError if the environment names an adapter that does not exist."""
    return _hardware() is not None


def auto_device_reason() -> str:
    """A line of text with the reason why the device `auto` is webgpu or cpu."""
    try:
        found = adapters()
    except DeviceError as error:
        return f"{str(error).splitlines()[0].removeprefix('[webgpu] ')}: using cpu"
    hardware = [info for info in found if info.type == "hardware"]
    if hardware:
        return f"using webgpu: {hardware[0].describe()}"
    if found:
        return f"no hardware adapter (only {found[0].name.split(' ')[0]}, a software one): using cpu"
    return "no adapter at all: using cpu"


def portable_overrides(settings: Config) -> Mapping[str, int]:
    """The limits to lower when a device is requested: none, or all to WebGPU's defaults."""
    return PORTABLE_LIMITS if settings.portable else {}


def _hardware() -> AdapterInfo | None:
    try:
        return next((info for info in adapters() if info.type == "hardware"), None)
    except DeviceError:
        return None


Ordered = list[tuple[AdapterInfo, Found]]


def _ordered(settings: Config) -> tuple[str, Ordered]:
    """The implementation, and its adapters in order. "auto" is Dawn if it offers matrix units of the selected GPU and wgpu does
    not, or if wgpu cannot be loaded; else wgpu.
    """
    names = candidates(settings)
    if len(names) == 1:
        return names[0], _ordered_by(names[0], settings)
    try:
        dawn = _ordered_by("dawn", settings)
    except (DeviceError, ConfigError):  # wgpu raises the same error, or finds the requested adapter
        return "wgpu", _ordered_by("wgpu", settings)
    try:
        wgpu = _ordered_by("wgpu", settings)
    except (DeviceError, ConfigError):
        return "dawn", dawn
    return ("dawn", dawn) if _offers_more(dawn, wgpu) else ("wgpu", wgpu)


def _offers_more(dawn: Ordered, wgpu: Ordered) -> bool:
    if not dawn or not wgpu:
        return bool(dawn)
    (theirs, there), (ours, here) = dawn[0], wgpu[0]
    return _same_gpu(there.info, here.info) and bool(theirs.target.matrices) and not ours.target.matrices


def _ordered_by(name: str, settings: Config) -> Ordered:
    """Distinct adapters of an implementation: the requested one, then hardware, then the best kind and backend."""

    def wished(adapter: Found) -> bool:
        return settings.adapter is not None and settings.adapter.lower() in _label(adapter.info).lower()

    def rank(adapter: Found) -> tuple[bool, bool, int, int]:
        info = adapter.info
        return (
            not wished(adapter),
            _is_software(info),
            _position(info["adapter_type"], KIND_ORDER),
            _backend_rank(info),
        )

    everything = found_by(name)
    if settings.adapter is not None and everything and not any(map(wished, everything)):
        known = ", ".join(dict.fromkeys(_record(adapter, -1, settings, name).describe() for adapter in everything))
        raise ConfigError(
            f"SHADERGRAD_ADAPTER={settings.adapter!r} is part of no adapter's name. It may be part of one of these: {known}; "
            "or unset, for the best."
        )
    distinct = _without_duplicates(everything, settings.adapter)
    ordered = sorted(distinct, key=rank)
    return [(_record(adapter, i, settings, name), adapter) for i, adapter in enumerate(ordered)]


def _without_duplicates(found: list[Found], wish: str | None) -> list[Found]:
    """Drop adapters that a better backend also exposes. Equal GPUs of one backend are different GPUs."""

    def repeats(adapter: Found) -> bool:
        info = adapter.info
        if wish is not None and wish.lower() in _label(info).lower() and wish.lower() not in info["device"].lower():
            return False  # this backend is requested by name
        return any(_same_gpu(info, o.info) and _backend_rank(o.info) < _backend_rank(info) for o in found)

    return [adapter for adapter in found if not repeats(adapter)]


def _same_gpu(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """OpenGL reports no device ids, so a missing id matches any GPU of its vendor."""
    if a["vendor_id"] != b["vendor_id"]:
        return False
    return a["device_id"] == b["device_id"] or 0 in (a["device_id"], b["device_id"])


def _label(info: Mapping[str, Any]) -> str:
    return f"{info['device']} {info['backend_type']}"


def _backend_rank(info: Mapping[str, Any]) -> int:
    return _position(info["backend_type"], BACKEND_ORDER)


def _position(word: str, order: tuple[str, ...]) -> int:
    return order.index(word) if word in order else len(order)


def _is_software(info: Mapping[str, Any]) -> bool:
    name = info["device"].lower()
    return info["adapter_type"] == "CPU" or any(word in name for word in SOFTWARE_NAMES)


def _record(adapter: Found, index: int, settings: Config, implementation: str) -> AdapterInfo:
    info, limits = adapter.info, dict(adapter.limits)
    name = info["device"] or info["description"] or "unnamed adapter"
    return AdapterInfo(
        index=index,
        name=name,
        backend=info["backend_type"],
        type="software" if _is_software(info) else "hardware",
        kind=info["adapter_type"],
        vendor=info["vendor"],
        driver=info["description"],
        vendor_id=info["vendor_id"],
        device_id=info["device_id"],
        profile="portable" if settings.portable else "full",
        target=target_of(info, limits, adapter.features, settings, adapter.matrices),
        limits=limits,
        features=tuple(sorted(adapter.features)),
        implementation=implementation,
        matrices=adapter.matrices,
    )
