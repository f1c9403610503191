"""The processes that a program starts: multiprocessing's spawned ones, and those of subprocess and sys.executable.

In: the device that the program was started with. Out: an environment in which Python's processes import this library as torch.
Forked processes need nothing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from os import PathLike, fsdecode
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import config
from .device_names import give_device, given_device
from .stand_ins import install

CHILDREN = Path(__file__).parent / "children"
ENV = 9  # the place of env among Popen's arguments, behind args


class _Installed(Loader):
    """Loads a module that stands in sys.modules already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """It is complete."""


@contextmanager
def for_child_processes() -> Iterator[None]:
    """Within, processes of Python's that are started get this library as torch, on the same device.

    Those that subprocess starts without this environment get another torch, if any; a line on stderr says so, once.
    """
    begin, told = subprocess.Popen.__init__, []

    @wraps(begin)
    def init(self: Any, args: Any, *rest: Any, **named: Any) -> None:
        env = named.get("env", rest[ENV] if len(rest) > ENV else None)
        reason = None if told else _why_without_us(args, env)
        if reason is not None:
            told.append(reason)
            print(f"shadergrad run: a Python process gets PyTorch instead of shadergrad: {reason}", file=sys.stderr)
        begin(self, args, *rest, **named)

    with config.for_child_processes(str(CHILDREN), given_device()):
        subprocess.Popen.__init__ = init  # type: ignore[method-assign]
        try:
            yield
        finally:
            subprocess.Popen.__init__ = begin  # type: ignore[method-assign]


def _why_without_us(args: Any, env: Any) -> str | None:
    """Why a process would not import this library as torch; None where it would, or does not run Python."""
    words = args.split() if isinstance(args, str) else [args] if isinstance(args, bytes | PathLike) else list(args)
    if not words or not Path(fsdecode(words[0])).name.startswith("python"):
        return None
    for word in map(fsdecode, words[1:]):
        if not word.startswith("-") or word.startswith(("--", "-c", "-m")):
            break
        if any(letter in word for letter in "IES") and not word.startswith(("-X", "-W")):
            return f"{word} ignores the environment or its sitecustomize."
    if config.reaches_child_processes(str(CHILDREN), env):
        return None
    return "its environment lacks PYTHONPATH's first folder. Hint: env={**os.environ, ...}."


def become_torch(name: str) -> ModuleSpec | None:
    """Let torch be this library in this process, a child of a program under `shadergrad run`. Gives the spec of a module of it."""
    wish = config.config.as_torch
    if wish is not None:
        give_device(wish.removesuffix(" default"), None, by_default=wish.endswith(" default"))
    install()
    module = sys.modules.get(name)
    if module is None:
        return None
    # Python takes the module's own spec, now that it is there
    module.__spec__ = ModuleSpec(name, _Installed(module), origin=module.__file__, is_package=True)
    return module.__spec__
