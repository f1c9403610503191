"""The environment variables, read and validated in one place.

| variable | values | meaning |
|---|---|---|
| SHADERGRAD_DEBUG | kernels, plan, graph (comma-separated) | print what is compiled, to stderr |
| SHADERGRAD_PROFILE | portable | use WebGPU's default limits and no optional feature |
| SHADERGRAD_CHECKED | 0, 1 | compile shaders with bounds checks, and raise on indices out of range |
| SHADERGRAD_ADAPTER | part of an adapter's name | prefer that adapter |
| SHADERGRAD_MEMORY_LIMIT | bytes, or 512M, 8G | the most device memory to use |
| SHADERGRAD_IN_FLIGHT | 1 to 1024 | how many submissions may be under way before the host waits |
| SHADERGRAD_DATA_DIR | a folder | where data sets are looked for and downloaded to; unset: .cache/shadergrad at home |
| SHADERGRAD_DATA_MIRROR | an http(s) address | where missing data sets are fetched from; unset: from nowhere |
| SHADERGRAD_REQUIRE_WEBGPU | 0, 1 | (tests) no adapter is a failure, not a skip |
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from .errors import ShadergradError

DEBUG_TOPICS = ("kernels", "plan", "graph")


class ConfigError(ShadergradError, ValueError):
    """An environment variable with a value that means nothing."""


@dataclass(frozen=True)
class Config:
    debug: frozenset[str]
    portable: bool
    checked: bool
    adapter: str | None
    memory_limit: int | None
    in_flight: int
    data_dir: str | None
    data_mirror: str | None
    require_webgpu: bool


def _flag(name: str) -> bool:
    text = os.environ.get(name, "0").strip().lower()
    if text in ("", "0", "false", "no"):
        return False
    if text in ("1", "true", "yes"):
        return True
    raise ConfigError(f"{name}={text!r} is neither 0 nor 1.")


def parse_bytes(text: str, name: str = "size") -> int:
    """Bytes in '4096', '512M' or '8G' (powers of 1024)."""
    match = re.fullmatch(r"(\d+)\s*([kKmMgGtT]?)(?:i?[bB])?", text.strip())
    if not match:
        raise ConfigError(f"{name}={text!r} is not a size. Write bytes, or a number with K, M or G: 512M.")
    return int(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ")


def read_environment() -> Config:
    """The configuration that the environment asks for now; raises ConfigError on a value that means nothing."""
    debug = frozenset(t.strip() for t in os.environ.get("SHADERGRAD_DEBUG", "").split(",") if t.strip())
    if debug - set(DEBUG_TOPICS):
        raise ConfigError(f"SHADERGRAD_DEBUG={','.join(sorted(debug))!r}: known topics are {', '.join(DEBUG_TOPICS)}.")
    profile = os.environ.get("SHADERGRAD_PROFILE", "").strip()
    if profile not in ("", "portable"):
        raise ConfigError(f"SHADERGRAD_PROFILE={profile!r}: the only profile to ask for is 'portable'.")
    limit = os.environ.get("SHADERGRAD_MEMORY_LIMIT", "").strip()
    in_flight = os.environ.get("SHADERGRAD_IN_FLIGHT", "16").strip()
    if not in_flight.isdigit() or not 1 <= int(in_flight) <= 1024:
        raise ConfigError(f"SHADERGRAD_IN_FLIGHT={in_flight!r} is not a number from 1 to 1024.")
    mirror = os.environ.get("SHADERGRAD_DATA_MIRROR", "").strip()
    if mirror and not mirror.startswith(("http://", "https://")):
        raise ConfigError(f"SHADERGRAD_DATA_MIRROR={mirror!r} is no http:// or https:// address.")
    return Config(
        debug=debug,
        portable=profile == "portable",
        checked=_flag("SHADERGRAD_CHECKED"),
        adapter=os.environ.get("SHADERGRAD_ADAPTER", "").strip() or None,
        memory_limit=parse_bytes(limit, "SHADERGRAD_MEMORY_LIMIT") if limit else None,
        in_flight=int(in_flight),
        data_dir=os.environ.get("SHADERGRAD_DATA_DIR", "").strip() or None,
        data_mirror=mirror or None,
        require_webgpu=_flag("SHADERGRAD_REQUIRE_WEBGPU"),
    )


class _Invalid:
    """Stands for a configuration that could not be read: importing the library works, using it tells the error."""

    def __init__(self, error: ConfigError) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise self.error


config: Config
try:
    config = read_environment()
except ConfigError as _error:
    config = _Invalid(_error)  # type: ignore[assignment]
