"""Records the names of PyTorch that a program uses and this library lacks, each with file and line.

In: frames of the program, and its source files, in which further missing names are looked up. Out: lines for the user.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from ..cpython import first_outwards, frame_of_caller, is_calling

_noted: dict[tuple[str, int, str], None] = {}  # an ordered set

_HERE = str(Path(__file__).parent)


def note(name: str, frame: FrameType | None) -> None:
    """Record that `frame` uses `name`, which is missing."""
    if frame is not None:
        _noted[(frame.f_code.co_filename, frame.f_lineno, name)] = None


def note_question(name: str, frame: FrameType | None) -> None:
    """Record that a program looked up `name`, but can do without it. Does nothing for hasattr, getattr and installed packages."""
    if frame is not None and not is_calling(frame) and "site-packages" not in frame.f_code.co_filename:
        note(name, frame)


def importer() -> FrameType | None:
    """The frame whose import statement is running."""
    return first_outwards(frame_of_caller(1), lambda path: not path.startswith(("<frozen importlib", _HERE)))


def lines(error: BaseException | None, sources: list[str]) -> list[str]:
    """The missing names, one line for each: those recorded, that of `error`, and, if `error` is about a missing name, the
    other missing names in the sources."""
    found = list(_noted)
    asked = _asked(error)
    if asked is not None and asked[2] not in {name for _, _, name in found}:
        found.append(asked)
    if found and error is not None and isinstance(error, AttributeError | ImportError):
        for path in sources:
            found += [(path, line, name) for line, name in scan(path)]
    unique = dict.fromkeys(found)
    width = max((len(name) for _, _, name in unique), default=0)
    return [f"{name:{width}}  {_short(path)}:{line}" for path, line, name in unique]


def clear() -> None:
    """Forget all recorded names."""
    _noted.clear()


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _asked(error: BaseException | None) -> tuple[str, int, str] | None:
    """The method or attribute of one of our objects that an uncaught error is about."""
    if not isinstance(error, AttributeError) or error.name is None or isinstance(error.obj, ModuleType):
        return None
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    if not kind.__module__.startswith("shadergrad."):
        return None
    trace = error.__traceback__
    place = None
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(str(Path(_HERE).parent)):
            place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return (*place, f"{kind.__name__}.{error.name}") if place else None


def scan(path: str) -> Iterator[tuple[int, str]]:
    """The names of torch that a source file loads and this library lacks, with their lines."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    bound: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from _imports(node, bound)
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_pytorchs(node.module or ""):
            yield from _imports_from(node, str(node.module), bound)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (lacking := _lacking(node, bound)):
            yield node.lineno, lacking


def _is_pytorchs(module: str) -> bool:
    return module.split(".")[0] == "torch"


def _is_here(module: str) -> bool:
    return module in sys.modules and not is_absent(sys.modules[module])


def is_absent(module: ModuleType) -> bool:
    """Whether a module is a placeholder."""
    return "__absent__" in vars(module)


def _imports(node: ast.Import, bound: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Bind the names that `import torch.a as b` binds; yields those that are missing."""
    for alias in node.names:
        if _is_pytorchs(alias.name) and not _is_here(alias.name):
            yield node.lineno, alias.name
        elif _is_pytorchs(alias.name):
            bound[alias.asname or "torch"] = sys.modules[alias.name if alias.asname else "torch"]


def _imports_from(node: ast.ImportFrom, module: str, bound: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Bind the names that `from torch.a import b` binds; yields those that are missing."""
    if not _is_here(module):
        yield node.lineno, module
        return
    names = vars(sys.modules[module])
    for alias in node.names:
        if alias.name in names:
            bound[alias.asname or alias.name] = names[alias.name]
        elif alias.name != "*":
            yield node.lineno, f"{module}.{alias.name}"


def _lacking(node: ast.Attribute, bound: dict[str, Any]) -> str | None:
    """The full name of a chain of attributes whose last one a module lacks; None if it exists, or if an earlier one does not."""
    parts = [node.attr]
    inner: ast.expr = node.value
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in bound:
        return None
    found = bound[inner.id]
    for part in reversed(parts[1:]):
        found = vars(found).get(part) if isinstance(found, ModuleType) else None
    if not isinstance(found, ModuleType) or is_absent(found) or parts[0] in vars(found) or parts[0].startswith("__"):
        return None
    return f"{found.__name__}.{parts[0]}"
