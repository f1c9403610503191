"""Replacements for features that Python in a browser (Pyodide) lacks: threads, and packages that are loaded on demand.

In: work for an executor, names of SciPy's functions, promises. Out: the executor, the functions, the values of the promises. In ordinary
Python the first two are the usual ones, and nothing waits.

While Python waits for a promise, the browser may run another asyncio task in the middle of the first one's call. If that task enters a
lock of this library, it gets an error: two suspended stacks would end the interpreter, and a half-finished run is not a valid state.
Pyodide: https://pyodide.org/en/stable/usage/wasm-constraints.html
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any

from ..errors import DeviceError
from .optional_packages import MissingPackageError
from .special_functions import FUNCTIONS

IN_BROWSER = sys.platform == "emscripten"
CANNOT_WAIT = (
    "Python cannot wait for the browser here. It needs WebAssembly's JavaScript Promise Integration, which Chrome and Edge have from "
    "version 137, and it must be called asynchronously: pyodide.runPythonAsync, not pyodide.runPython."
)


TWO_TASKS = (
    "[webgpu] another asyncio task is in the midst of a call that waits for the device; two cannot use the library at once.\n"
    "  Hint: make them take turns, by an asyncio.Lock around each step and each read; or `await` one before the other begins."
)


class DoneAtOnce(Executor):
    """An executor without threads: `submit` runs the work before it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def thread_pool(most: int, name: str) -> Executor:
    """An executor of so many threads; in a browser one that needs none."""
    return DoneAtOnce() if IN_BROWSER else ThreadPoolExecutor(most, name)


class _Waiting:
    """is_suspended: whether some task waits for a promise now."""

    is_suspended = False


waiting = _Waiting()


def wait_for(promise: Any) -> Any:
    """What a promise of the browser's gives. Only where `can_wait`. Raises DeviceError where another task waits."""
    if waiting.is_suspended:
        raise DeviceError(TWO_TASKS)
    waiting.is_suspended = True
    try:
        return importlib.import_module("pyodide.ffi").run_sync(promise)
    finally:
        waiting.is_suspended = False


class TaskLock:
    """A lock for where there are tasks and no threads: it is free, unless another task waits within it."""

    def acquire(self) -> bool:
        if waiting.is_suspended:
            raise DeviceError(TWO_TASKS)
        return True

    def release(self) -> None:
        pass

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        pass


def new_lock() -> Any:
    """A lock that its holder may take again."""
    return TaskLock() if IN_BROWSER else threading.RLock()


class Late:
    """A module that the first call of one of its functions imports: SciPy is two thirds of what a browser loads. Until it is loaded
    there, a few functions that drawing and activations need are computed without it.

    >>> from shadergrad.system.browser import Late
    >>> Late("math").sqrt(4.0)
    2.0
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        @cache
        def found() -> Callable[..., Any]:
            if IN_BROWSER and self._module == "scipy.special" and name in FUNCTIONS and find_spec("scipy") is None:
                return FUNCTIONS[name]
            return getattr(_imported(self._module), name)

        return lambda *args, **kwargs: found()(*args, **kwargs)


def can_wait() -> bool:
    """Whether Python can wait for a promise of the browser's here."""
    try:
        return importlib.import_module("pyodide.ffi").can_run_sync()
    except (ImportError, AttributeError):  # no browser, or a Pyodide before 0.26
        return False


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if not IN_BROWSER or error.name != package:
            raise
        if not can_wait():
            raise MissingPackageError(
                f"this needs {package}, which is not loaded, and {CANNOT_WAIT}\n"
                f"  Hint: `import pyodide_js; await pyodide_js.loadPackage({package!r})` first."
            ) from None
    wait_for(importlib.import_module("pyodide_js").loadPackage(package, messageCallback=lambda _: None))
    importlib.invalidate_caches()
    return importlib.import_module(module)
