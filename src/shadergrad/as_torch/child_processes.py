"""The processes that a program starts: multiprocessing's spawned ones, and those of subprocess and sys.executable.

In: the device that the program was started with. Out: an environment in which Python's processes import this library as torch.
Forked processes need nothing.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from .. import config
from .device_names import give_device, given_device
from .stand_ins import install

CHILDREN = Path(__file__).parent / "children"


class _Installed(Loader):
    """Loads a module that stands in sys.modules already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """It is complete."""


def for_child_processes() -> AbstractContextManager[None]:
    """Within, processes of Python's that are started get this library as torch, on the same device."""
    return config.for_child_processes(str(CHILDREN), given_device())


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
