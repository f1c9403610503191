"""Makes this library torch in the Python processes that a program starts with multiprocessing (spawn) or subprocess.

In: the device of the program. Out: an environment in which Python processes import this library as torch.
Forked processes have it already.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from multiprocessing import spawn, util
from os import PathLike, fsdecode
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import config
from .device_names import give_device, given_device
from .stand_ins import install

CHILDREN = Path(__file__).parent / "children"
ENV = 9  # the position of env among Popen's arguments after args


class _Installed(Loader):
    """A loader for a module that is already in sys.modules."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


@contextmanager
def for_child_processes() -> Iterator[None]:
    """A context in which started Python processes import this library as torch, on the same device.

    A process that subprocess starts without this environment imports an installed PyTorch, if any. A line on stderr says so, once.
    Processes of multiprocessing need no environment, because their command line begins with the hook.
    """
    begin, told = subprocess.Popen.__init__, []
    command_line, spawnv = spawn.get_command_line, util.spawnv_passfds  # type: ignore[attr-defined]

    @wraps(begin)
    def init(self: Any, args: Any, *rest: Any, **named: Any) -> None:
        env = named.get("env", rest[ENV] if len(rest) > ENV else None)
        reason = None if told else _why_without_us(args, env)
        if reason is not None:
            told.append(reason)
            print(f"shadergrad run: a Python process gets PyTorch instead of shadergrad: {reason}", file=sys.stderr)
        begin(self, args, *rest, **named)

    device = given_device()

    @wraps(command_line)
    def with_hook(**named: Any) -> list[str]:
        return _begun_with_hook(command_line(**named), device)

    @wraps(spawnv)
    def spawn_with_hook(path: Any, args: Sequence[Any], passfds: Any) -> int:
        return spawnv(path, _begun_with_hook(args, device), passfds)  # the server of forks has no other function

    with config.for_child_processes(str(CHILDREN), device):
        subprocess.Popen.__init__ = init  # type: ignore[method-assign]
        spawn.get_command_line, util.spawnv_passfds = with_hook, spawn_with_hook  # type: ignore[attr-defined]
        try:
            yield
        finally:
            subprocess.Popen.__init__ = begin  # type: ignore[method-assign]
            spawn.get_command_line, util.spawnv_passfds = command_line, spawnv  # type: ignore[attr-defined]


def _begun_with_hook(command: Sequence[Any], device: str) -> list[Any]:
    """multiprocessing's command line for Python, whose program first runs the hook of CHILDREN. Other command lines stay."""
    hook = str(CHILDREN / "sitecustomize.py")
    first = (
        f"import os; os.environ.setdefault('SHADERGRAD_AS_TORCH', {device!r}); "
        f"exec(compile(open({hook!r}, encoding='utf-8').read(), {hook!r}, 'exec'), {{'__file__': {hook!r}, '__name__': 'hook'}}); "
    )
    kinds = ("from multiprocessing.spawn ", "from multiprocessing.forkserver ")
    return [first + word if str(word).startswith(kinds) else word for word in command]


def _why_without_us(args: Any, env: Any) -> str | None:
    """The reason why a process would not import this library as torch; None if it would, or does not run Python."""
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
    """Install this library as torch in this process, a child of a program under `shadergrad run`. Returns the spec of the module `name`."""
    wish = config.config.as_torch
    if wish is not None:
        give_device(wish.removesuffix(" default"), None, by_default=wish.endswith(" default"))
    install()
    module = sys.modules.get(name)
    if module is None:
        return None
    # Python uses the spec that the module has
    module.__spec__ = ModuleSpec(name, _Installed(module), origin=module.__file__, is_package=True)
    return module.__spec__
