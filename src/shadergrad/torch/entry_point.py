"""The entry point "shadergrad" for torch.compile(backend=), without importing PyTorch's compiler, which takes seconds.

PyTorch finds backends among the entry points of installed packages. If this package is on the path without being installed, a
finder as the standard library defines it provides the same entry point.
https://docs.python.org/3/library/importlib.metadata.html#extending-the-search-algorithm
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder
from typing import Any

NAME = "shadergrad"
TEXT = f"[torch_dynamo_backends]\n{NAME} = shadergrad.torch.compiling:backend\n"


class _Uninstalled(Distribution):
    """A distribution that consists of the entry point alone."""

    def read_text(self, filename: Any) -> str | None:
        return {"entry_points.txt": TEXT, "METADATA": f"Name: {NAME}-torch-backend\nVersion: 0\n"}.get(str(filename))

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path}: this distribution has no files")


class _Finder(DistributionFinder):
    """Provides the entry point in searches of all distributions."""

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        return [_Uninstalled()] if context is None or context.name is None else []

    def find_spec(self, *_: Any) -> None:
        """No module is found here."""


def announce() -> None:
    """Let PyTorch find the backend by name, when a program first asks for one."""
    sys.meta_path.append(_Finder())
    if "torch._dynamo" in sys.modules:  # it may have looked before
        from torch._dynamo.backends.registry import list_backends, register_backend  # late: slow

        if NAME not in list_backends(exclude_tags=()):
            from .compiling import backend  # late: only to register it

            register_backend(backend, NAME)
