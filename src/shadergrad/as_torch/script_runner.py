"""Runs a program as `python script.py` and `python -m module` do, with this library under PyTorch's names.

In: a path or a module's name, and the program's own arguments. Out: the exit code. If the program ends with
an error, stderr shows the traceback of its own lines, and the names that it used and this library lacks.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import shadergrad

from ..errors import ShadergradError
from ..system.gc_pause import full_collections_are_rare
from ..tensor import Tensor
from . import missing_names
from .absent import Absent, StandIn
from .child_processes import for_child_processes
from .stand_ins import install

_OURS = str(Path(shadergrad.__file__).parent) + os.sep
INTERRUPTED = 130


def run_script(path: Path, arguments: list[str]) -> int:
    """Run a file as the program __main__. Raises OSError if it cannot be read."""
    with io.open_code(str(path)) as file:
        source = file.read()
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=__builtins__, __spec__=None)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules["__main__"] = main
    return _run(lambda: exec(compile(source, str(path), "exec", dont_inherit=True), main.__dict__))


def run_module(name: str, arguments: list[str]) -> int:
    """Run a module as the program __main__, found as `python -m` finds it."""
    sys.argv = [name, *arguments]
    sys.path.insert(0, str(Path.cwd()))
    return _run(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


def _run(program: Callable[[], object]) -> int:
    install()
    missing_names.clear()
    failure: BaseException | None = None
    code = 0
    try:
        with for_child_processes(), full_collections_are_rare():
            program()
    except SystemExit as stopped:
        code = _exit_code(stopped.code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BaseException as error:
        failure, code = error, 1
        sys.stdout.flush()
        print(_own_traceback(error), end="", file=sys.stderr)
    found = missing_names.lines(failure, _sources())
    if found:
        sys.stdout.flush()
        print("\nNot in shadergrad, and asked for:", *found, sep="\n  ", file=sys.stderr)
    return code


def _exit_code(code: object) -> int:
    """Python's rule for SystemExit: None is 0, a number is itself, anything else is printed and gives 1."""
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return 1


def _own_traceback(error: BaseException) -> str:
    """The traceback without the lines that run the program; without the library's lines, too, if it raised the error on purpose."""
    shown = traceback.TracebackException.from_exception(error)
    chain: traceback.TracebackException | None = shown
    link: BaseException | None = error
    while chain is not None and link is not None:
        _cut(chain, link)
        chain, link = (
            (chain.__cause__, link.__cause__) if chain.__cause__ is not None else (chain.__context__, link.__context__)
        )
    return "".join(shown.format())


def _cut(shown: traceback.TracebackException, error: BaseException) -> None:
    frames = list(shown.stack)
    own = [k for k, frame in enumerate(frames) if not _is_machinery(frame.filename)]
    if not own:
        return
    # another error may be the library's defect, so its lines are shown, too
    kept = [frames[k] for k in own] if _is_refusal(error) else frames[own[0] :]
    shown.stack = traceback.StackSummary.from_list(kept)


def _is_machinery(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen ")) or Path(filename).name == "runpy.py"


def _is_refusal(error: BaseException) -> bool:
    """Whether the library raised the error on purpose."""
    if isinstance(error, ImportError):
        return (error.name or "").split(".")[0] == "torch"
    return isinstance(error, ShadergradError) or isinstance(getattr(error, "obj", None), StandIn | Absent | Tensor)


def _sources() -> list[str]:
    """The program's own files: __main__, and imported files in its folder or below that belong to no installed package."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = sys.path[0] + os.sep
    files = [main, *(getattr(m, "__file__", None) for m in list(sys.modules.values()))]
    return list(
        dict.fromkeys(
            f
            for f in files
            if f
            and f.endswith(".py")
            and (f == main or f.startswith(folder))
            and "site-packages" not in f
            and not f.startswith(_OURS)
        )
    )
