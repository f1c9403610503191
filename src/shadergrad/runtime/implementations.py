"""The available implementations of WebGPU, and the choice among them. In: the configuration. Out: modules, and their adapters.

Both may be installed, but a process uses the devices of one. Nothing is imported before a GPU is requested.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..config import Config, ConfigError, provisional
from ..errors import DeviceError
from ..system.browser import IN_BROWSER
from .interface import Found, Implementation

PACKAGES = {"wgpu": "wgpu", "dawn": "wgpudawn", "page": "pyodide"}
COMMANDS = {
    "wgpu": "pip install --force-reinstall 'wgpu==0.32.*'",
    "dawn": 'pip install "shadergrad[dawn]"',
    "page": "a Pyodide of version 0.26 or later",
}
INSTEAD = {
    "wgpu": "(its wheels need glibc 2.28, macOS 11 or Windows 10), or use the cpu device.",
    "dawn": "(its wheels are for Linux, Windows and macOS), or set SHADERGRAD_WEBGPU=wgpu.",
    "page": "has it, or use the cpu device.",
}


def is_installed(name: str) -> bool:
    """Whether the package of an implementation is installed; it may still fail to load."""
    return importlib.util.find_spec(PACKAGES[name]) is not None


def implementation(name: str) -> Implementation:
    """The module for "wgpu", "dawn" or "page", imported on first use. Raises DeviceError with the reason if it cannot be."""
    try:  # importing takes 0.2 s, and may fail
        return importlib.import_module(f".{name}", __package__)  # type: ignore[return-value]
    except Exception as error:  # the library's own failures are of many types: ImportError, OSError, RuntimeError
        raise DeviceError(
            f"[webgpu] {PACKAGES[name]} cannot be loaded: {type(error).__name__}: {error}\n"
            f"  Hint: `{COMMANDS[name]}` {INSTEAD[name]}"
        ) from error


def found_by(name: str) -> list[Found]:
    """The adapters of an implementation, enumerated once, because that takes a tenth of a second."""
    module = implementation(name)
    with _lock:
        if name not in _found:
            with open_quietly():
                _found[name] = module.enumerate_adapters()
        return _found[name]


def forget_adapters() -> None:
    """Clear the cache of adapters: a device was lost, or a test simulates another machine."""
    with _lock:
        _found.clear()


def candidates(settings: Config) -> tuple[str, ...]:
    """The implementations to try, the preferred last: for "auto", Dawn too if it is installed; in a browser its own."""
    if IN_BROWSER:  # which has one implementation
        if settings.webgpu != "auto":
            raise ConfigError(
                f"SHADERGRAD_WEBGPU={settings.webgpu!r}: a page has its browser's WebGPU and no other; unset it."
            )
        return ("page",)
    if settings.webgpu != "auto":
        return (settings.webgpu,)
    return ("wgpu", "dawn") if is_installed("dawn") else ("wgpu",)


@contextmanager
def open_quietly() -> Iterator[None]:
    """Keep EGL, wgpu and Dawn from printing messages about windows on stderr.

    EGL complains if XDG_RUNTIME_DIR is unset; they warn of missing window systems. Errors are still shown. Call it after they are
    imported: each creates its logger itself, of its own class, and refuses an existing one.
    """
    loggers = [
        logging.getLogger(package) for package in PACKAGES.values() if package in logging.root.manager.loggerDict
    ]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.level, logging.ERROR))
    try:
        with provisional("XDG_RUNTIME_DIR", tempfile.gettempdir()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_lock = threading.Lock()
_found: dict[str, list[Found]] = {}
