"""What a browser's Python (Pyodide) lacks, and what stands in for it: threads, packages that are not loaded yet.

In: work for an executor, names of SciPy's functions. Out: the executor, the functions. Elsewhere both are the ordinary ones.
Pyodide: https://pyodide.org/en/stable/usage/wasm-constraints.html
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from .optional_packages import MissingPackageError

IN_BROWSER = sys.platform == "emscripten"
CANNOT_WAIT = (
    "Python cannot wait for the browser here. It needs WebAssembly's JavaScript Promise Integration, which Chrome and Edge have from "
    "version 137, and it must be called asynchronously: pyodide.runPythonAsync, not pyodide.runPython."
)


class DoneAtOnce(Executor):
    """For where no thread can be started: what is submitted is done before `submit` returns."""

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


class Late:
    """A module that the first call of one of its functions imports: SciPy is two thirds of what a browser loads.

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
    loading = importlib.import_module("pyodide_js").loadPackage(package)
    importlib.import_module("pyodide.ffi").run_sync(loading)
    importlib.invalidate_caches()
    return importlib.import_module(module)
