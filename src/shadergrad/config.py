"""The environment variables, read and validated in one place.

| variable | values | meaning |
|---|---|---|
| SHADERGRAD_DEBUG | kernels, plan, graph, times (comma-separated) | print the compiled kernels, plans or graphs, or the time of each kernel, to stderr |
| SHADERGRAD_WEBGPU | wgpu, dawn, auto | the implementation of WebGPU: wgpu-native, or Dawn (`pip install "shadergrad[dawn]"`); auto: Dawn if it is installed and offers matrix units of the GPU that wgpu does not, else wgpu; unset: auto |
| SHADERGRAD_PROFILE | portable | use WebGPU's default limits and no optional feature |
| SHADERGRAD_CHECKED | 0, 1 | compile shaders with bounds checks, and raise an error for indices out of range |
| SHADERGRAD_ADAPTER | part of an adapter's name or backend | use that adapter; without a match an error |
| SHADERGRAD_MEMORY_LIMIT | bytes, or 512M, 8G | the most device memory to use |
| SHADERGRAD_PIPELINE_MEMORY | bytes, or 512M, 8G; unset: 1G | host memory for compiled kernels, as estimated; the least recently used are dropped |
| SHADERGRAD_CACHE | a folder, or off | folder of the plan cache, of compiled kernels (at most 256 MiB each) and native programs (at most 128 MiB) of the cpu device, and of the tables of `shadergrad tune`; unset: .cache/shadergrad in the home directory |
| SHADERGRAD_CPU | auto, native, reference | how the cpu device computes: native: compiled kernels, by llvmlite (`pip install "shadergrad[cpu]"`); reference: NumPy, one operation after another; auto: native where llvmlite is installed, reference elsewhere; unset: auto |
| SHADERGRAD_IN_FLIGHT | 1 to 1024 | number of submissions in flight before the host waits |
| SHADERGRAD_BACKWARD | shaders, torch, numpy, auto | engine of the backward pass, if --backward does not name one; unset: shaders |
| SHADERGRAD_DATA_DIR | a folder | folder of data sets and downloads; unset: .cache/shadergrad in the home directory |
| SHADERGRAD_DATA_MIRROR | an http(s) address | source of missing data sets; unset: their official mirrors |
| SHADERGRAD_AS_TORCH | a device, and perhaps "default" | (set by `shadergrad run` for the processes that a program starts) the device behind `cuda` |
| SHADERGRAD_TORCH_FALLBACK | warn, error | what an operator of PyTorch does that the device webgpu lacks: run on the host with a warning, or raise |
| SHADERGRAD_REQUIRE_WEBGPU | 0, 1 | (tests) a missing adapter is a failure, not a skip |

An empty value counts as unset. Any other value, and any other name that begins with SHADERGRAD_, raises a ConfigError, so that
no setting is silently ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import ShadergradError

DEBUG_TOPICS = ("kernels", "plan", "graph", "times")
ENGINES = ("shaders", "torch", "numpy", "auto")  # of the backward pass
WEBGPUS = ("auto", "wgpu", "dawn")  # implementations of WebGPU
CPUS = ("auto", "native", "reference")  # how the cpu device computes
LLVMLITE = (0, 50)  # the first version whose LLVM compiles native kernels; the same as in pyproject.toml
PREFIX = "SHADERGRAD_"


class ConfigError(ShadergradError, ValueError):
    """An environment variable with an invalid name or value."""


@dataclass(frozen=True)
class Config:
    debug: frozenset[str]
    webgpu: str
    portable: bool
    checked: bool
    adapter: str | None
    memory_limit: int | None
    pipeline_memory: int
    cache: str | None
    cpu: str
    in_flight: int
    backward: str
    as_torch: str | None
    data_dir: str | None
    data_mirror: str | None
    torch_fallback: str
    require_webgpu: bool

    @property
    def native_cpu(self) -> bool:
        """Whether the cpu device compiles repeated computations to native kernels."""
        return self.cpu == "native" or (self.cpu == "auto" and has_llvmlite())

    def cache_folder(self, what: str) -> Path | None:
        """The folder of one kind of cached files; None if caching is off."""
        if self.cache == "off":
            return None
        return Path(self.cache or Path.home() / ".cache" / "shadergrad").expanduser() / what


@contextmanager
def for_child_processes(folder: str, device: str) -> Iterator[None]:
    """A context in which new Python processes import sitecustomize from `folder`, and have `device` as their `config.as_torch`."""
    names = ("PYTHONPATH", "SHADERGRAD_AS_TORCH")
    before = {name: os.environ.get(name) for name in names}
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (folder, before["PYTHONPATH"]) if p)
    os.environ["SHADERGRAD_AS_TORCH"] = device
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def reaches_child_processes(folder: str, env: Mapping[Any, Any] | None) -> bool:
    """Whether Python processes with this environment, None for that of this process, import from `folder`."""
    names = {os.fsdecode(name): os.fsdecode(value) for name, value in (os.environ if env is None else env).items()}
    return folder in names.get("PYTHONPATH", "").split(os.pathsep)


@cache
def has_llvmlite() -> bool:
    """Whether a version of llvmlite is installed that compiles native kernels; other packages may install older ones. Cached, because the test
    takes as long as a small operation."""
    from importlib.metadata import version  # here, because it loads the package email

    try:
        found = version("llvmlite") if find_spec("llvmlite") else ""
    except (ImportError, ValueError):  # ValueError: its name is blocked in sys.modules
        return False
    return tuple(int(n) for n in re.findall(r"\d+", found)[:2]) >= LLVMLITE


def openmp_threads() -> int | None:
    """The number in $OMP_NUM_THREADS, which numerical libraries use too; None if it has none."""
    text = _value("OMP_NUM_THREADS").split(",")[0]
    return int(text) if re.fullmatch("[1-9][0-9]{0,3}", text) else None


LAUNCHED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "GLOO_SOCKET_IFNAME",
    "TORCHELASTIC_ERROR_FILE",
)  # variables that torchrun sets for each of its processes, and a user for gloo


def launched_with(name: str) -> str:
    """The value of a variable in LAUNCHED, which the launcher of several processes sets; "" if it is unset."""
    assert name in LAUNCHED
    return _value(name)


def torch_home() -> Path:
    """PyTorch's folder for downloads of torch.hub: $TORCH_HOME, or torch in the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(os.environ.get("TORCH_HOME") or cache / "torch").expanduser()


def parse_bytes(text: str, name: str = "size") -> int:
    """Bytes in '4096', '512M' or '8G' (powers of 1024); at least 1."""
    match = re.fullmatch(r"([0-9]+)\s*([kKmMgGtT]?)(?:i?[bB])?", text.strip())
    count = int(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ") if match else 0
    if count < 1:
        raise ConfigError(f"{name}={text!r} is not a size. Write bytes, or a number with K, M or G: 512M.")
    return count


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


def _flag(name: str) -> bool:
    text = _value(name)
    if text.lower() in ("", "0", "false", "no"):
        return False
    if text.lower() in ("1", "true", "yes"):
        return True
    raise ConfigError(f"{name}={text!r} is neither 0 nor 1.")


def _size(name: str) -> int | None:
    text = _value(name)
    return parse_bytes(text, name) if text else None


def _number(name: str, default: int, most: int) -> int:
    text = _value(name)
    if not text:
        return default
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        raise ConfigError(f"{name}={text!r} is not a number from 1 to {most}.")
    return int(text)


def _topics(name: str) -> frozenset[str]:
    topics = frozenset(t.strip() for t in _value(name).split(",") if t.strip())
    if topics - set(DEBUG_TOPICS):
        raise ConfigError(f"{name}={_value(name)!r}: known topics are {', '.join(DEBUG_TOPICS)}.")
    return topics


def _is_portable(name: str) -> bool:
    text = _value(name)
    if text not in ("", "portable"):
        raise ConfigError(
            f"{name}={text!r}: the only profile to ask for is 'portable'; unset, it is the adapter's own."
        )
    return text == "portable"


def _one_of(name: str, choices: tuple[str, ...]) -> str:
    """One of the choices; the first is the default."""
    text = _value(name) or choices[0]
    if text not in choices:
        raise ConfigError(f"{name}={text!r}: choose one of {', '.join(choices)}.")
    return text


NO_FOLDERS = ("0", "1", "no", "none", "false", "true", "on", "yes")  # values meant as a switch, not as a folder


def _folder(name: str) -> str | None:
    text = _value(name)
    if text.lower() in NO_FOLDERS:
        raise ConfigError(
            f"{name}={text!r} would be a folder of that name here. Hint: ./{text} is one; off turns the plan cache off."
        )
    if text and Path(text).expanduser().exists() and not Path(text).expanduser().is_dir():
        raise ConfigError(f"{name}={text!r} is a file. Name a folder, which need not exist yet.")
    return text or None


def _address(name: str) -> str | None:
    text = _value(name)
    if not text:
        return None
    from urllib.parse import urlsplit  # here, because few users set an address

    try:
        is_address = urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:  # for example an unclosed bracket
        is_address = False
    if not is_address:
        raise ConfigError(f"{name}={text!r} is no http:// or https:// address.")
    return text


def _check_names() -> None:
    """Raises ConfigError for an unknown variable with our prefix: it is probably misspelt."""
    known = re.findall(rf"^\| ({PREFIX}\w+)", __doc__ or "", re.MULTILINE)
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    if unknown:
        raise ConfigError(
            f"{unknown[0]}={os.environ[unknown[0]]!r}: there is no such variable. Known: {', '.join(known)}."
        )


def read_environment() -> Config:
    """The configuration of the present environment. Raises ConfigError for an invalid name or value."""
    _check_names()
    return Config(
        debug=_topics("SHADERGRAD_DEBUG"),
        webgpu=_one_of("SHADERGRAD_WEBGPU", WEBGPUS),
        portable=_is_portable("SHADERGRAD_PROFILE"),
        checked=_flag("SHADERGRAD_CHECKED"),
        adapter=_value("SHADERGRAD_ADAPTER") or None,
        memory_limit=_size("SHADERGRAD_MEMORY_LIMIT"),
        pipeline_memory=_size("SHADERGRAD_PIPELINE_MEMORY") or 1 << 30,
        cache=_folder("SHADERGRAD_CACHE"),
        cpu=_one_of("SHADERGRAD_CPU", CPUS),
        in_flight=_number("SHADERGRAD_IN_FLIGHT", default=16, most=1024),
        backward=_one_of("SHADERGRAD_BACKWARD", ENGINES),
        as_torch=_value("SHADERGRAD_AS_TORCH") or None,
        data_dir=_folder("SHADERGRAD_DATA_DIR"),
        data_mirror=_address("SHADERGRAD_DATA_MIRROR"),
        torch_fallback=_one_of("SHADERGRAD_TORCH_FALLBACK", ("warn", "error")),
        require_webgpu=_flag("SHADERGRAD_REQUIRE_WEBGPU"),
    )


class _Invalid:
    """A placeholder for an unreadable configuration: importing the library works, using it raises the error."""

    def __init__(self, error: ConfigError) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise self.error


config: Config
try:
    config = read_environment()
except ConfigError as _error:
    config = _Invalid(_error)  # type: ignore[assignment]


def check() -> None:
    """Raises ConfigError if the environment could not be read."""
    if isinstance(config, _Invalid):
        raise config.error


@contextmanager
def provisional(name: str, value: str) -> Iterator[None]:
    """Sets a variable of another library inside the context, unless it is set already."""
    unset = name not in os.environ
    if unset:
        os.environ[name] = value
    try:
        yield
    finally:
        if unset:
            os.environ.pop(name, None)


@contextmanager
def without(name: str) -> Iterator[None]:
    """Unsets a variable of another library inside the context."""
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value
