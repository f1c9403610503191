"""Which GPUs there are, which one to take, and what it can do. In: the environment's wishes. Out: plain records.

An adapter is a GPU (or a software stand-in) seen through one backend. `adapters()` lists those that the webgpu device
can open, the best first, so that `webgpu:N` is the N-th. Nothing here opens a device.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..config import Config, ConfigError, config, provisional
from ..errors import DeviceError
from ..target import Target
from .targets import PORTABLE_LIMITS, target_of

# Worse backends see a GPU again that a better one already shows.
BACKEND_ORDER = ("Vulkan", "Metal", "D3D12", "D3D11", "OpenGL", "OpenGLES")
KIND_ORDER = ("DiscreteGPU", "IntegratedGPU", "unknown", "CPU")
SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "softpipe", "swiftshader", "basic render", "warp")

NO_ADAPTER = (
    "[webgpu] no adapter found: this machine shows no GPU to Vulkan, Metal or Direct3D 12, and no software stand-in.\n"
    "  Hint: install a Vulkan driver. Debian or Ubuntu: `apt install mesa-vulkan-drivers libvulkan1` (AMD, Intel, and "
    "llvmpipe for no GPU at all). NVIDIA: the NVIDIA driver and libvulkan1; in a container also "
    "NVIDIA_DRIVER_CAPABILITIES=all. Or use the cpu device."
)


@dataclass(frozen=True)
class AdapterInfo:
    """One adapter, as plain data.

    index: N of "webgpu:N"; -1 for a duplicate that cannot be opened by number. type: "hardware" or "software". kind:
    wgpu's word for it. profile: "portable" or "full". limits: wgpu's, by name.

    >>> {adapter.type for adapter in sg.devices.adapters()} <= {"hardware", "software"}
    True
    """

    index: int  # N of "webgpu:N"; -1 for a duplicate that cannot be opened by number
    name: str
    backend: str  # Vulkan, Metal, D3D12, OpenGL, ...
    type: str  # "hardware" or "software"
    kind: str  # wgpu's word: DiscreteGPU, IntegratedGPU, CPU, unknown
    vendor: str
    driver: str
    vendor_id: int
    device_id: int
    profile: str  # "portable" or "full"
    target: Target
    limits: dict[str, int] = field(repr=False)
    features: tuple[str, ...] = field(repr=False)

    @property
    def compiles_at_dispatch(self) -> bool:
        """Whether the driver compiles a kernel at its first dispatch, not with its pipeline, and keeps it on disk."""
        return self.name.startswith("llvmpipe") and self.backend == "Vulkan"

    def describe(self) -> str:
        """Name, backend and type in a line."""
        return f"{self.name} ({self.backend}, {self.type})"


def adapters(all_backends: bool = False, settings: Config = config) -> list[AdapterInfo]:
    """The adapters, the preferred first; with `all_backends` also those that repeat a GPU through a worse backend.

    Raises DeviceError where wgpu cannot be loaded, and ConfigError where SHADERGRAD_ADAPTER names none of them.
    """
    found = [info for info, _ in _ordered(settings)]
    if not all_backends:
        return found
    opened = {(info.name, info.backend) for info in found}
    extra = [_record(a, -1, settings) for a in _enumerate()]
    return found + [info for info in extra if (info.name, info.backend) not in opened]


def choose_adapter(index: int, settings: Config) -> tuple[AdapterInfo, Any]:
    """The N-th adapter and wgpu's own object for it. Raises DeviceError, or ConfigError, that lists what there is."""
    ordered = _ordered(settings)
    if not ordered:
        raise DeviceError(NO_ADAPTER)
    if index >= len(ordered):
        known = "".join(f"\n  webgpu:{info.index}  {info.describe()}" for info, _ in ordered)
        raise DeviceError(f"[webgpu] there is no adapter {index}. Known:{known}")
    return ordered[index]


def find_again(info: AdapterInfo, index: int, settings: Config) -> tuple[AdapterInfo, Any]:
    """The adapter that was `info`, looked for anew. Raises DeviceError where another, or none, is in its place."""
    with _lock:
        _found.clear()
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
    """Whether a real GPU can be opened. Raises ConfigError where the environment asks for an adapter that there is not."""
    return _hardware() is not None


def auto_device_reason() -> str:
    """One line for people: why the device choice `auto` takes the webgpu or the cpu device."""
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
    """The limits to lower when asking for a device: none, or all to WebGPU's defaults."""
    return PORTABLE_LIMITS if settings.portable else {}


def load_native() -> Any:
    """The module that calls wgpu-native, imported on first use. DeviceError says why it cannot be."""
    try:
        from . import native  # not before a GPU is asked for: importing wgpu takes 0.2 s, and may fail
    except Exception as error:  # the library's own failures are of many types: ImportError, OSError, RuntimeError
        raise DeviceError(
            f"[webgpu] wgpu cannot be loaded: {type(error).__name__}: {error}\n"
            "  Hint: `pip install --force-reinstall 'wgpu==0.32.*'` (its wheels need glibc 2.28, macOS 11 or Windows "
            "10), or use the cpu device."
        ) from error
    return native


@contextmanager
def open_quietly() -> Iterator[None]:
    """Keep EGL and wgpu from printing on stderr what concerns windows only.

    EGL complains where XDG_RUNTIME_DIR is unset; wgpu warns of missing window systems. Errors still show. Not before
    wgpu is imported: it makes the logger itself, of its own class, and refuses one that is already there.
    """
    logger = logging.getLogger("wgpu")
    level = logger.level
    logger.setLevel(max(level, logging.ERROR))
    try:
        with provisional("XDG_RUNTIME_DIR", tempfile.gettempdir()):
            yield
    finally:
        logger.setLevel(level)


_lock = threading.Lock()
_found: list[Any] = []


def _enumerate() -> list[Any]:
    """wgpu's adapter objects; asked once, as it takes a tenth of a second."""
    native = load_native()
    with _lock:
        if not _found:
            with open_quietly():
                _found.extend(native.enumerate_adapters())
        return _found


def _hardware() -> AdapterInfo | None:
    try:
        return next((info for info in adapters() if info.type == "hardware"), None)
    except DeviceError:
        return None


def _ordered(settings: Config) -> list[tuple[AdapterInfo, Any]]:
    """Distinct adapters with wgpu's objects: the wished one, then hardware, then the best kind and backend."""

    def wished(adapter: Any) -> bool:
        return settings.adapter is not None and settings.adapter.lower() in _label(adapter.info).lower()

    def rank(adapter: Any) -> tuple[bool, bool, int, int]:
        info = adapter.info
        return (
            not wished(adapter),
            _is_software(info),
            _position(info["adapter_type"], KIND_ORDER),
            _backend_rank(info),
        )

    everything = _enumerate()
    if settings.adapter is not None and everything and not any(map(wished, everything)):
        known = ", ".join(dict.fromkeys(_record(adapter, -1, settings).describe() for adapter in everything))
        raise ConfigError(
            f"SHADERGRAD_ADAPTER={settings.adapter!r} is part of no adapter's name. It may be part of one of these: {known}; "
            "or unset, for the best."
        )
    distinct = _without_duplicates(everything, settings.adapter)
    ordered = sorted(distinct, key=rank)
    return [(_record(adapter, i, settings), adapter) for i, adapter in enumerate(ordered)]


def _without_duplicates(found: list[Any], wish: str | None) -> list[Any]:
    """Drop what a better backend shows too. Equal GPUs of one backend are different GPUs."""

    def repeats(adapter: Any) -> bool:
        info = adapter.info
        if wish is not None and wish.lower() in _label(info).lower() and wish.lower() not in info["device"].lower():
            return False  # the wish names this backend
        return any(_same_gpu(info, o.info) and _backend_rank(o.info) < _backend_rank(info) for o in found)

    return [adapter for adapter in found if not repeats(adapter)]


def _same_gpu(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """OpenGL does not tell device ids, so a missing one matches any of its vendor."""
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


def _record(adapter: Any, index: int, settings: Config) -> AdapterInfo:
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
        target=target_of(info, limits, adapter.features, settings),
        limits=limits,
        features=tuple(sorted(adapter.features)),
    )
