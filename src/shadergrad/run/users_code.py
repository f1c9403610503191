"""Tells the user's code from the library, the standard library and NumPy. Only the user's code is followed."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from ..cpython import is_made_by_class_statement
from .reads import Read, asks_which, reads_of

_ROOT = str(Path(__file__).parents[1])
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_BESIDE = Path(np.__file__).parents[1]
_OURS = tuple(f"{_BESIDE / name}{os.sep}" for name in ("numpy", "scipy", "wgpu", "cffi", "pycparser", "torch"))
MOST_CODES = 4096


class Code(NamedTuple):
    """Properties of a code object: its chains (None if it is not the user's or has none), and whether it may compare identities."""

    code: CodeType
    reads: dict[int, tuple[Read, ...]] | None
    asks_which: bool


_seen: dict[int, Code] = {}
# the ids of seen code objects in which there is nothing to follow, mostly the library's own
passed: set[int] = set()


def is_users(filename: str) -> bool:
    """Whether a file belongs neither to the library nor to the standard library."""
    if filename.startswith((_ROOT, "<frozen", *_OURS)):
        return False
    return not filename.startswith(_STANDARD) or "site-packages" in filename or "dist-packages" in filename


def users_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an error without the library's lines; the whole traceback if no line is the user's."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if is_users(trace.tb_frame.f_code.co_filename):
            lines.append(trace)
        trace = trace.tb_next
    if not lines:
        return error.__traceback__
    for line in reversed(lines):
        trace = TracebackType(trace, line.tb_frame, line.tb_lasti, line.tb_lineno)
    return trace


def _is_generated(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether code without a file, such as a dataclass's __init__, belongs to a module that is not the user's."""
    name = str(names.get("__name__", ""))
    file = getattr(sys.modules.get(name), "__file__", None)
    return code.co_filename == "<string>" and (
        name.startswith("namedtuple_") or (file is not None and not is_users(file))
    )


def known_of(code: CodeType, names: dict[str, Any]) -> Code:
    """The properties of a code object. names: those of its module."""
    known = _seen.get(id(code))
    if known is None:
        if len(_seen) >= MOST_CODES:
            _seen.clear()
            passed.clear()
        is_seen = is_users(code.co_filename) and not _is_generated(code, names)
        is_seen = is_seen and code.co_name != "<module>"  # an import: its effects stay in the new module
        reads = (reads_of(code) or None) if is_seen else None
        known = _seen[id(code)] = Code(code, reads, is_seen and asks_which(code))
        if reads is None:
            passed.add(id(code))
    return known


def is_users_class(kind: type) -> bool:
    """Whether a class belongs to neither the library nor the standard library nor NumPy."""
    return is_made_by_class_statement(kind) and is_users(
        getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    )
