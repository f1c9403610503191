"""Defers Ctrl-C during work that must not be interrupted: submissions, callbacks of the driver, releases of memory.

Python raises KeyboardInterrupt at whatever line the main thread runs. In a callback or in `__del__` it is printed and lost; within a
submission it leaves a half-recorded state. So the handler of SIGINT inspects the running frames, and in such a place only remembers the
signal. `deliver`, at the end of the library's calls, raises it. The handler also runs again every RETRY seconds and raises it as soon as
the program has left that place.

Only Python's own handler is replaced, in the main thread. A program that sets a handler keeps it.
"""

from __future__ import annotations

import _thread
import _weakrefset
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

RETRY = 0.02  # seconds
_RUNTIME = Path(__file__).parents[1] / "runtime"
_DRIVING = (
    "webgpu",
    "native",
    "page",
    "program",
    "memory",
    "readback",
    "staging",
    "families",
    "pipelines",
    "rehearsal",
    "device",
)
_files = frozenset({weakref.__file__, _weakrefset.__file__, *(str(_RUNTIME / f"{name}.py") for name in _DRIVING)})
_whole: set[CodeType] = set()
_open: set[CodeType] = set()


class _Waiting:
    """is_waiting: whether a signal is remembered. is_retry: whether the next call of the handler is for that one."""

    is_waiting = False
    is_retry = False


waiting = _Waiting()


def whole(function: F) -> F:
    """A function that runs to its end before KeyboardInterrupt is raised."""
    made: Any = function
    _whole.add(made.__code__)
    return function


def interruptible(function: F) -> F:
    """A function that may be left anywhere, also where a `whole` one calls it."""
    made: Any = function
    _open.add(made.__code__)
    return function


def install() -> None:
    """Take the place of Python's handler of SIGINT, where that is the handler and this the main thread."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGINT, _on_signal)


def deliver() -> None:
    """Raise the KeyboardInterrupt that is remembered, if there is one and this is the main thread."""
    if waiting.is_waiting and threading.current_thread() is threading.main_thread():
        waiting.is_waiting = False
        raise KeyboardInterrupt


def _on_signal(number: int, frame: FrameType | None) -> None:
    is_retry, waiting.is_retry = waiting.is_retry, False
    if is_retry and not waiting.is_waiting:
        return  # delivered meanwhile
    if not _is_amid(frame):
        waiting.is_waiting = False
        signal.default_int_handler(number, frame)
    if not waiting.is_waiting:
        waiting.is_waiting = True
        threading.Thread(target=_again, name="interrupt", daemon=True).start()


def _is_amid(frame: FrameType | None) -> bool:
    """Whether a line that is being run must go on."""
    for around, _ in () if frame is None else traceback.walk_stack(frame):
        code = around.f_code
        if code in _open:
            return False
        if code in _whole or code.co_name == "__del__" or code.co_filename in _files:
            return True
    return False


def _again() -> None:
    while waiting.is_waiting:
        time.sleep(RETRY)
        if signal.getsignal(signal.SIGINT) is not _on_signal:
            waiting.is_waiting = False  # another handler came; it has heard of no signal before
        elif waiting.is_waiting:
            waiting.is_retry = True
            _thread.interrupt_main()
