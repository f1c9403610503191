"""PyTorch's engine for process groups: the one place that imports torch for it.

In: nothing. Out: c10d's classes, and from_numpy. Under `shadergrad run` the name torch is this library's stand-in; the engine is
then imported beside it, and the names stand again as before.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import PathFinder
from types import ModuleType, SimpleNamespace

from ..system.optional_packages import MissingPackageError

NAME = "torch"


def is_installed(package: str = NAME) -> bool:
    """Whether a package is installed, even if another module has its name in this process."""
    return PathFinder.find_spec(package) is not None


@cache
def c10d() -> SimpleNamespace:
    """c10d: its classes under `classes`, from_numpy, add and bfloat16. Raises MissingPackageError where PyTorch is not installed."""
    if not is_installed():
        raise MissingPackageError(
            "[init_process_group] several processes need PyTorch's engine for them (gloo), which is not installed. "
            'Hint: pip install "shadergrad[distributed]", on CPUs also from https://download.pytorch.org/whl/cpu'
        )
    with _beside_stand_ins():
        torch = importlib.import_module(NAME)
        classes = importlib.import_module(f"{NAME}._C._distributed_c10d")
    return SimpleNamespace(classes=classes, from_numpy=torch.from_numpy, add=torch.add, bfloat16=torch.bfloat16)


@contextmanager
def _beside_stand_ins() -> Iterator[None]:
    """A context in which imports of torch find PyTorch. Afterwards the names refer to the former modules again, unless these were PyTorch's."""
    module = sys.modules.get(NAME)
    if module is None and not any(_is_ours(finder) for finder in sys.meta_path):
        yield
        return
    if module is not None and not _is_ours(module):
        yield
        return
    before = _loaded()
    finders = list(sys.meta_path)
    for name in before:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in finders if not _is_ours(finder)]
    try:
        yield
    finally:
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(before)
        sys.meta_path[:] = finders


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.startswith("shadergrad.")


def _loaded() -> dict[str, ModuleType]:
    return {n: m for n, m in sys.modules.items() if n == NAME or n.startswith(f"{NAME}.")}
